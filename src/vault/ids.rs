//! Names of things in Git and in the index.
//!
//! Pure. **Invariant:** a commit id and a blob id can't be mistaken for each other.

use std::fmt;

/// A Git object id: 20 bytes (SHA-1) or 32 (SHA-256).
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Oid {
    length: u8,
    bytes: [u8; 32],
}

impl Oid {
    fn new(bytes: &[u8]) -> Option<Self> {
        let length = u8::try_from(bytes.len()).ok().filter(|it| matches!(it, 20 | 32))?;
        let mut padded = [0; 32];
        padded[..bytes.len()].copy_from_slice(bytes);
        Some(Self { length, bytes: padded })
    }

    fn from_hex(hex: &str) -> Option<Self> {
        if !hex.is_ascii() || !hex.len().is_multiple_of(2) {
            return None;
        }
        let bytes: Option<Vec<u8>> = (0..hex.len())
            .step_by(2)
            .map(|at| u8::from_str_radix(&hex[at..at + 2], 16).ok())
            .collect();
        Self::new(&bytes?)
    }

    fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }
}

macro_rules! git_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(Oid);

        impl $name {
            /// From the raw 20 or 32 bytes; `None` for any other length.
            pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
                Oid::new(bytes).map(Self)
            }

            /// From 40 or 64 hexadecimal digits.
            pub fn from_hex(hex: &str) -> Option<Self> {
                Oid::from_hex(hex).map(Self)
            }

            pub fn as_bytes(&self) -> &[u8] {
                self.0.as_bytes()
            }

            /// The first seven digits, as Git abbreviates.
            pub fn short(&self) -> String {
                self.to_string()[..7].to_owned()
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.as_bytes().iter().try_for_each(|byte| write!(f, "{byte:02x}"))
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}({self})", stringify!($name))
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let hex = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
                Self::from_hex(&hex).ok_or_else(|| serde::de::Error::custom("not a Git object id"))
            }
        }
    };
}

git_id!(
    /// A commit.
    CommitId
);
git_id!(
    /// The content of a file.
    BlobId
);

/// A chunk: SHA-256 in hexadecimal of `path start_line end_line text`, one space between.
#[derive(
    Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, serde::Serialize, serde::Deserialize,
)]
#[serde(transparent)]
pub struct ChunkId(pub String);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_come_back_from_their_text() {
        let hex = "4f2c9e1d00000000000000000000000000000abc";
        let id = CommitId::from_hex(hex).unwrap();
        assert_eq!(id.to_string(), hex);
        assert_eq!(id.short(), "4f2c9e1");
        assert_eq!(CommitId::from_bytes(id.as_bytes()), Some(id));
        for bad in
            ["", "4f2c9e1", "zz2c9e1d00000000000000000000000000000abc", "é".repeat(20).as_str()]
        {
            assert_eq!(CommitId::from_hex(bad), None, "{bad}");
        }
    }
}
