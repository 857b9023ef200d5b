//! Reads the safetensors format: named arrays of numbers in one file.
//!
//! Pure. Takes the bytes of a file, gives the place and shape of an array in them.
//!
//! **Invariant:** no bytes make it panic or reach outside the file: a length is checked before it
//! is used, and an array is exactly as long as its shape says.

use std::collections::HashMap;

use serde::Deserialize;

/// Why a file of arrays can't be used.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum TensorError {
    #[error("The file is no safetensors file: {0}")]
    Format(String),
    #[error("The file has no array `{0}`")]
    Missing(String),
    #[error("Array `{name}` is {found}, not {wanted}")]
    Kind { name: String, found: String, wanted: String },
}

/// A file of arrays, its heading read.
#[derive(Debug)]
pub struct Tensors<'a> {
    data: &'a [u8],
    arrays: HashMap<String, Array>,
}

#[derive(Debug, Deserialize)]
struct Array {
    dtype: String,
    shape: Vec<usize>,
    data_offsets: (usize, usize),
}

/// An array: its shape, and its numbers as little-endian bytes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Tensor<'a> {
    pub shape: Vec<usize>,
    pub bytes: &'a [u8],
}

/// A heading is a few lines for each array; more is damage.
const MOST_HEADING: usize = 16 << 20;

impl<'a> Tensors<'a> {
    pub fn read(bytes: &'a [u8]) -> Result<Self, TensorError> {
        let wrong = |what: &str| TensorError::Format(what.to_owned());
        let (length, rest) = bytes.split_first_chunk::<8>().ok_or_else(|| wrong("too short"))?;
        let length = usize::try_from(u64::from_le_bytes(*length))
            .ok()
            .filter(|it| *it <= MOST_HEADING && *it <= rest.len())
            .ok_or_else(|| wrong("its heading is longer than the file"))?;
        let (heading, data) = rest.split_at(length);
        let entries: HashMap<String, serde_json::Value> = serde_json::from_slice(heading)
            .map_err(|err| TensorError::Format(format!("heading: {err}")))?;
        let mut arrays = HashMap::new();
        for (name, entry) in entries {
            if name == "__metadata__" {
                continue;
            }
            let array: Array = serde_json::from_value(entry)
                .map_err(|err| TensorError::Format(format!("`{name}`: {err}")))?;
            arrays.insert(name, array);
        }
        Ok(Self { data, arrays })
    }

    /// The array of this name, which must be of this type (`F32`, `I8`) and of this many axes.
    pub fn get(&self, name: &str, dtype: &str, axes: usize) -> Result<Tensor<'a>, TensorError> {
        let array = self.arrays.get(name).ok_or_else(|| TensorError::Missing(name.to_owned()))?;
        if array.dtype != dtype || array.shape.len() != axes {
            return Err(TensorError::Kind {
                name: name.to_owned(),
                found: format!("{} {:?}", array.dtype, array.shape),
                wanted: format!("{dtype} of {axes} axes"),
            });
        }
        let width = match dtype {
            "F64" | "I64" | "U64" => 8,
            "F32" | "I32" | "U32" => 4,
            "F16" | "BF16" | "I16" | "U16" => 2,
            _ => 1,
        };
        let wrong = || TensorError::Format(format!("`{name}` is not where it should be"));
        let size = array
            .shape
            .iter()
            .try_fold(width, |size: usize, axis| size.checked_mul(*axis))
            .ok_or_else(wrong)?;
        let (from, to) = array.data_offsets;
        let bytes = self.data.get(from..to).filter(|it| it.len() == size).ok_or_else(wrong)?;
        Ok(Tensor { shape: array.shape.clone(), bytes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn file(heading: &str, data: &[u8]) -> Vec<u8> {
        let mut bytes = (heading.len() as u64).to_le_bytes().to_vec();
        bytes.extend_from_slice(heading.as_bytes());
        bytes.extend_from_slice(data);
        bytes
    }

    #[test]
    fn an_array_is_found_by_name_type_and_axes() {
        let bytes = file(
            r#"{"__metadata__":{"a":"b"},"x":{"dtype":"F32","shape":[2,1],"data_offsets":[1,9]}}"#,
            &[9, 1, 2, 3, 4, 5, 6, 7, 8, 9],
        );
        let tensors = Tensors::read(&bytes).unwrap();
        let found = tensors.get("x", "F32", 2).unwrap();
        assert_eq!((found.shape, found.bytes), (vec![2, 1], &[1, 2, 3, 4, 5, 6, 7, 8][..]));
        assert!(matches!(tensors.get("y", "F32", 2), Err(TensorError::Missing(_))));
        assert!(matches!(tensors.get("x", "I8", 2), Err(TensorError::Kind { .. })));
        assert!(matches!(tensors.get("x", "F32", 1), Err(TensorError::Kind { .. })));
    }

    #[test]
    fn damage_is_said() {
        let x = |rest: &str| format!(r#"{{"x":{{"dtype":"I8","shape":{rest}}}}}"#);
        let get = |bytes: &[u8]| Tensors::read(bytes)?.get("x", "I8", 1).map(drop);
        let whole = file(&x(r#"[4],"data_offsets":[0,4]"#), &[0; 4]);
        assert_eq!(get(&whole), Ok(()));
        for cut in 0..whole.len() {
            assert!(get(&whole[..cut]).is_err(), "cut at {cut}");
        }
        for odd in [
            r#"[4],"data_offsets":[0,5]"#,
            r#"[4],"data_offsets":[4,0]"#,
            r#"[4],"data_offsets":[1,4]"#,
            r#"[18446744073709551615],"data_offsets":[0,4]"#,
            r#"[-1],"data_offsets":[0,4]"#,
        ] {
            assert!(matches!(get(&file(&x(odd), &[0; 4])), Err(TensorError::Format(_))), "{odd}");
        }
        let mut long = whole;
        long[..8].copy_from_slice(&u64::MAX.to_le_bytes());
        assert!(matches!(get(&long), Err(TensorError::Format(_))));
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            if let Ok(tensors) = Tensors::read(&bytes) {
                let _found = tensors.get("x", "I8", 1);
            }
        }
    }
}
