//! Reads the weights of a BERT out of an ONNX file.
//!
//! Pure. Takes the bytes of such a file, and what lies beside it, where something does; gives the
//! three files that a model is here. Of the graph only that is looked at which says what a
//! nameless array is for: which sums it goes into. Weights in eight bits become those that they
//! stand for.
//!
//! **Invariant:** no bytes make it panic, reach outside the file, or take more memory than a few
//! times its size; what is not found by its name, its size and its place is an error, never a guess.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};

use serde_json::json;

use crate::embed::local::MODEL_FILES;
use crate::embed::static_model::StaticModel;
use crate::embed::wordpiece::WordPiece;

/// Why there is no model in a file.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub(super) enum OnnxError {
    #[error("it is no ONNX file, or was cut")]
    Format,
    #[error("its weights lie in another file")]
    Elsewhere,
    #[error("it has no array `{0}` that could be read")]
    Missing(String),
    #[error("array `{name}` has the shape {found:?}")]
    Shape { name: String, found: Vec<usize> },
    #[error("it is too large")]
    TooLarge,
    /// What has to lie beside it.
    #[error("it has no `{0}` beside it")]
    Lacks(&'static str),
}

/// The word table, by whose name the others are found.
const WORDS: &str = "embeddings.word_embeddings.weight";
/// What all models of the family MiniLM-H384 share, so that they need no configuration.
const MINILM: (usize, usize) = (384, 1536);
const MINILM_HEADS: usize = 12;
/// More layers are damage.
const MOST_LAYERS: usize = 1000;
const MOST_NODES: usize = 1 << 20;

/// The types of numbers that are read.
const F32: u64 = 1;
const U8: u64 = 2;
const I8: u64 = 3;

/// The three files of the model in `onnx`.
///
/// Where no vocabulary lies beside it, it is the one that this program carries, if it is as large;
/// where no configuration does, the model has to be a MiniLM.
pub(super) fn files(
    onnx: &[u8],
    config: Option<Vec<u8>>,
    vocabulary: Option<Vec<u8>>,
) -> Result<[(&'static str, Vec<u8>); 3], OnnxError> {
    let graph = Graph::read(onnx)?;
    let prefix = graph.prefix().ok_or_else(|| OnnxError::Missing(WORDS.to_owned()))?;
    let arrays = graph.arrays(prefix)?;
    let shape = |name: &str| arrays.get(name).map(|it| it.shape.clone()).unwrap_or_default();
    let words = shape(WORDS);
    let vocabulary = match vocabulary {
        Some(vocabulary) => vocabulary,
        None => {
            let own = StaticModel::on_board_vocabulary();
            let pieces = WordPiece::from_json(own).ok().map(|it| it.size());
            match pieces.is_some() && words.first().copied() == pieces {
                true => own.to_vec(),
                false => return Err(OnnxError::Lacks(MODEL_FILES[1])),
            }
        }
    };
    let wide = shape("encoder.layer.0.intermediate.dense.bias");
    let config = match config {
        Some(config) => config,
        None if (words.get(1), wide.first()) == (Some(&MINILM.0), Some(&MINILM.1)) => json!({
            "model_type": "bert", "hidden_act": "gelu", "hidden_size": MINILM.0,
            "intermediate_size": MINILM.1, "num_attention_heads": MINILM_HEADS,
            "num_hidden_layers": layers(&arrays), "layer_norm_eps": 1e-12,
            "max_position_embeddings": shape("embeddings.position_embeddings.weight").first(),
            "position_embedding_type": "absolute",
        })
        .to_string()
        .into_bytes(),
        None => return Err(OnnxError::Lacks(MODEL_FILES[0])),
    };
    let weights = safetensors(&arrays);
    let [config_name, vocabulary_name, weights_name] = MODEL_FILES;
    Ok([(config_name, config), (vocabulary_name, vocabulary), (weights_name, weights)])
}

/// Numbers and their shape.
#[derive(Clone, PartialEq, Debug)]
struct Array {
    shape: Vec<usize>,
    numbers: Vec<f32>,
}

type Arrays = BTreeMap<String, Array>;

/// An array as the file has it.
#[derive(Default)]
struct Stored<'a> {
    shape: Vec<usize>,
    kind: u64,
    bytes: Cow<'a, [u8]>,
}

/// A step of the computation.
#[derive(Default)]
struct Step<'a> {
    what: &'a [u8],
    inputs: Vec<&'a str>,
    outputs: Vec<&'a str>,
    /// The attribute `axis`; 1 where it is not set, as the format says.
    axis: Option<i64>,
}

#[derive(Default)]
struct Graph<'a> {
    /// How large the file is.
    bytes: usize,
    stored: HashMap<&'a str, Stored<'a>>,
    steps: Vec<Step<'a>>,
    /// Which step a value comes from.
    made: HashMap<&'a str, usize>,
}

impl<'a> Graph<'a> {
    fn read(onnx: &'a [u8]) -> Result<Self, OnnxError> {
        let mut graph = Self { bytes: onnx.len(), ..Self::default() };
        let mut is_there = false;
        for field in Fields(onnx) {
            if let (7, Value::Bytes(bytes)) = field? {
                is_there = true;
                for field in Fields(bytes) {
                    match field? {
                        (1, Value::Bytes(bytes)) => graph.add_step(bytes)?,
                        (5, Value::Bytes(bytes)) => graph.add_array(bytes)?,
                        _ => {}
                    }
                }
            }
        }
        if is_there { Ok(graph) } else { Err(OnnxError::Format) }
    }

    fn add_step(&mut self, bytes: &'a [u8]) -> Result<(), OnnxError> {
        let mut step = Step::default();
        for field in Fields(bytes) {
            match field? {
                (1, Value::Bytes(name)) => step.inputs.push(text(name)?),
                (2, Value::Bytes(name)) => step.outputs.push(text(name)?),
                (4, Value::Bytes(what)) => step.what = what,
                (5, Value::Bytes(bytes)) => {
                    let (mut name, mut number) = (&b""[..], None);
                    for field in Fields(bytes) {
                        match field? {
                            (1, Value::Bytes(it)) => name = it,
                            // A negative number has all its upper bits set.
                            (3, Value::Number(it)) => number = Some(it.cast_signed()),
                            _ => {}
                        }
                    }
                    step.axis = step.axis.or(number.filter(|_| name == b"axis"));
                }
                _ => {}
            }
        }
        if self.steps.len() >= MOST_NODES {
            return Err(OnnxError::TooLarge);
        }
        self.made.extend(step.outputs.iter().map(|it| (*it, self.steps.len())));
        self.steps.push(step);
        Ok(())
    }

    fn add_array(&mut self, bytes: &'a [u8]) -> Result<(), OnnxError> {
        let mut array = Stored::default();
        let mut name = "";
        for field in Fields(bytes) {
            match field? {
                (1, Value::Number(axis)) => array.shape.push(size(axis)?),
                (1, Value::Bytes(packed)) => {
                    let mut packed = packed;
                    while !packed.is_empty() {
                        array.shape.push(size(varint(&mut packed).ok_or(OnnxError::Format)?)?);
                    }
                }
                (2, Value::Number(kind)) => array.kind = kind,
                // Numbers one by one, as small arrays have them.
                (4, Value::Bytes(numbers)) => array.bytes.to_mut().extend_from_slice(numbers),
                (8, Value::Bytes(it)) => name = text(it)?,
                (9, Value::Bytes(raw)) => array.bytes = Cow::Borrowed(raw),
                (14, Value::Number(1)) => return Err(OnnxError::Elsewhere),
                _ => {}
            }
        }
        self.stored.insert(name, array);
        Ok(())
    }

    fn step_to(&self, value: &str) -> Option<&Step<'a>> {
        self.steps.get(*self.made.get(value)?)
    }

    /// What stands before the names that a BERT has.
    fn prefix(&self) -> Option<&'a str> {
        let names = self.stored.keys().chain(self.made.keys());
        // The shortest, so that it is the same each time.
        names.filter_map(|it| it.strip_suffix(WORDS)).min_by_key(|it| (it.len(), *it))
    }

    /// All arrays of the model, by the names they have elsewhere.
    fn arrays(&self, prefix: &str) -> Result<Arrays, OnnxError> {
        let mut arrays = Arrays::new();
        // No byte of the file stands for more than one number.
        let mut room = self.bytes;
        let mut put = |name: &str, array: Array| {
            room = room.checked_sub(array.numbers.len()).ok_or(OnnxError::TooLarge)?;
            arrays.insert(name.to_owned(), array);
            Ok(())
        };
        for part in ["word", "position", "token_type"] {
            let name = format!("embeddings.{part}_embeddings.weight");
            put(&name, self.array(&format!("{prefix}{name}"))?)?;
        }
        // What has a name and is no matrix: what is added, and what rows are scaled by.
        for full in self.stored.keys() {
            let Some(name) = full.strip_prefix(prefix) else { continue };
            let is_ours = name.starts_with("encoder.layer.") || name.starts_with("embeddings.");
            let is_list = name.ends_with(".bias") || name.ends_with("LayerNorm.weight");
            if is_ours && is_list {
                put(name, self.array(full)?)?;
            }
        }
        // A matrix is known by what is added to its products.
        for step in self.steps.iter().filter(|it| it.what == b"Add" && it.inputs.len() == 2) {
            for (bias, product) in [(0, 1), (1, 0)] {
                let Some(name) = step.inputs[bias].strip_prefix(prefix) else { continue };
                let Some(name) = name.strip_suffix(".bias") else { continue };
                if !name.starts_with("encoder.layer.") {
                    continue;
                }
                let matrix = self
                    .step_to(step.inputs[product])
                    .filter(|it| it.what == b"MatMul")
                    .and_then(|it| it.inputs.get(1));
                let name = format!("{name}.weight");
                match matrix {
                    Some(matrix) => put(&name, turned(&name, self.array(matrix)?)?)?,
                    None => return Err(OnnxError::Missing(name)),
                }
            }
        }
        Ok(arrays)
    }

    /// The numbers of a value: as they are stored, or as eight bits and a scale stand for them.
    fn array(&self, name: &str) -> Result<Array, OnnxError> {
        if let Some(stored) = self.stored.get(name) {
            return stored.numbers(name);
        }
        let missing = || OnnxError::Missing(name.to_owned());
        let step = self.step_to(name).ok_or_else(missing)?;
        let input = |at: usize| -> Result<&str, OnnxError> {
            step.inputs.get(at).copied().ok_or_else(missing)
        };
        let stored = |name: &str| {
            let stored = self.stored.get(name).ok_or_else(missing)?;
            stored.numbers(name)
        };
        match step.what {
            // Cast to numbers, times a scale.
            b"Mul" => {
                let cast = self.step_to(input(0)?).filter(|it| it.what == b"Cast");
                let small = cast.and_then(|it| it.inputs.first()).ok_or_else(missing)?;
                let (mut array, scale) = (stored(small)?, stored(input(1)?)?);
                let [rows, columns] = array.axes(name)?;
                let at: Box<dyn Fn(usize, usize) -> usize> = match scale.shape[..] {
                    [] | [1] | [1, 1] => Box::new(|_, _| 0),
                    [it, 1] if it == rows => Box::new(|row, _| row),
                    [1, it] if it == columns => Box::new(|_, column| column),
                    _ => return Err(scale.odd(input(1)?)),
                };
                array.change(columns, |row, column, it| it * scale.numbers[at(row, column)]);
                Ok(array)
            }
            b"DequantizeLinear" => {
                let (mut array, scale) = (stored(input(0)?)?, stored(input(1)?)?);
                let zero = match step.inputs.get(2).filter(|it| !it.is_empty()) {
                    Some(zero) => stored(zero)?,
                    None => Array { numbers: vec![0.0; scale.numbers.len()], ..scale.clone() },
                };
                let [rows, columns] = array.axes(name)?;
                let along = match (scale.numbers.len(), step.axis.unwrap_or(1)) {
                    _ if zero.numbers.len() != scale.numbers.len() => return Err(zero.odd(name)),
                    (1, _) => None,
                    (count, 0 | -2) if count == rows => Some(0),
                    (count, 1 | -1) if count == columns => Some(1),
                    _ => return Err(scale.odd(input(1)?)),
                };
                array.change(columns, |row, column, it| {
                    let at = along.map_or(0, |axis| [row, column][axis]);
                    (it - zero.numbers[at]) * scale.numbers[at]
                });
                Ok(array)
            }
            _ => Err(missing()),
        }
    }
}

impl Stored<'_> {
    fn numbers(&self, name: &str) -> Result<Array, OnnxError> {
        let count = self.shape.iter().try_fold(1_usize, |all, axis| all.checked_mul(*axis));
        let count = count.ok_or(OnnxError::TooLarge)?;
        let odd = || OnnxError::Shape { name: name.to_owned(), found: self.shape.clone() };
        let width = if self.kind == F32 { 4 } else { 1 };
        if count.checked_mul(width) != Some(self.bytes.len()) {
            return Err(odd());
        }
        let numbers = match self.kind {
            F32 => {
                let four = self.bytes.as_chunks::<4>().0;
                four.iter().map(|it| f32::from_le_bytes(*it)).collect()
            }
            I8 => self.bytes.iter().map(|it| f32::from(it.cast_signed())).collect(),
            U8 => self.bytes.iter().map(|it| f32::from(*it)).collect(),
            _ => return Err(OnnxError::Missing(name.to_owned())),
        };
        Ok(Array { shape: self.shape.clone(), numbers })
    }
}

impl Array {
    fn odd(&self, name: &str) -> OnnxError {
        OnnxError::Shape { name: name.to_owned(), found: self.shape.clone() }
    }

    fn axes(&self, name: &str) -> Result<[usize; 2], OnnxError> {
        match self.shape[..] {
            [rows, columns] if rows > 0 && columns > 0 => Ok([rows, columns]),
            _ => Err(self.odd(name)),
        }
    }

    fn change(&mut self, columns: usize, by: impl Fn(usize, usize, f32) -> f32) {
        for (row, numbers) in self.numbers.chunks_exact_mut(columns).enumerate() {
            for (column, it) in numbers.iter_mut().enumerate() {
                *it = by(row, column, *it);
            }
        }
    }
}

/// A matrix whose rows are inputs, as one whose rows are outputs.
fn turned(name: &str, array: Array) -> Result<Array, OnnxError> {
    let [rows, columns] = array.axes(name)?;
    let mut numbers = Vec::with_capacity(array.numbers.len());
    for column in 0..columns {
        numbers.extend(array.numbers.iter().skip(column).step_by(columns).copied());
    }
    Ok(Array { shape: vec![columns, rows], numbers })
}

fn layers(arrays: &Arrays) -> usize {
    let is_there = |at: &usize| {
        arrays.contains_key(&format!("encoder.layer.{at}.attention.self.query.weight"))
    };
    (0..MOST_LAYERS).take_while(is_there).count()
}

/// The arrays as a file of the kind that models have here.
fn safetensors(arrays: &Arrays) -> Vec<u8> {
    let mut heading = serde_json::Map::new();
    let mut end = 0;
    for (name, array) in arrays {
        let from = end;
        end += array.numbers.len() * 4;
        let entry = json!({"dtype": "F32", "shape": array.shape, "data_offsets": [from, end]});
        heading.insert(name.clone(), entry);
    }
    let heading = serde_json::Value::Object(heading).to_string();
    let mut file = Vec::with_capacity(8 + heading.len() + end);
    file.extend_from_slice(&(heading.len() as u64).to_le_bytes());
    file.extend_from_slice(heading.as_bytes());
    for array in arrays.values() {
        file.extend(array.numbers.iter().flat_map(|it| it.to_le_bytes()));
    }
    file
}

/// What a field of a message holds; the other kinds are none that matter here.
enum Value<'a> {
    Number(u64),
    Bytes(&'a [u8]),
    Other,
}

/// The fields of a protobuf message, in order; the first that can't be read is the last.
struct Fields<'a>(&'a [u8]);

impl<'a> Iterator for Fields<'a> {
    type Item = Result<(u64, Value<'a>), OnnxError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let field = field(&mut self.0);
        if field.is_none() {
            self.0 = &[];
        }
        Some(field.ok_or(OnnxError::Format))
    }
}

fn field<'a>(rest: &mut &'a [u8]) -> Option<(u64, Value<'a>)> {
    let key = varint(rest)?;
    let value = match key & 7 {
        0 => Value::Number(varint(rest)?),
        1 => take(rest, 8).map(|_| Value::Other)?,
        2 => {
            let length = usize::try_from(varint(rest)?).ok()?;
            Value::Bytes(take(rest, length)?)
        }
        5 => take(rest, 4).map(|_| Value::Other)?,
        _ => return None,
    };
    Some((key >> 3, value))
}

fn take<'a>(rest: &mut &'a [u8], length: usize) -> Option<&'a [u8]> {
    let (taken, left) = rest.split_at_checked(length)?;
    *rest = left;
    Some(taken)
}

/// Seven bits a byte, the lowest first.
fn varint(rest: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for at in 0..10 {
        let byte = take(rest, 1)?[0];
        number |= u64::from(byte & 0x7f).checked_shl(at * 7)?;
        if byte < 0x80 {
            return Some(number);
        }
    }
    None
}

fn text(bytes: &[u8]) -> Result<&str, OnnxError> {
    std::str::from_utf8(bytes).map_err(|_| OnnxError::Format)
}

fn size(number: u64) -> Result<usize, OnnxError> {
    usize::try_from(number).map_err(|_| OnnxError::TooLarge)
}

#[cfg(test)]
mod tests;
