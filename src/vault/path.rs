//! A path inside the vault.
//!
//! Pure. Takes bytes, gives a [`VaultPath`] or says why not. Names are bytes, as on disk and in
//! Git: not always UTF-8, never normalised. What people read is escaped, so that a newline in a
//! name cannot forge a second line.
//!
//! **Invariant:** a `VaultPath` is relative, has no empty, `.` or `..` component, no NUL, and
//! never names anything inside a `.git`.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::fmt::{self, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::Arc;

/// A relative path below the vault's root, as bytes with `/` between components.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct VaultPath(Arc<[u8]>);

/// Why bytes are no path inside the vault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PathRefused {
    #[error("Path is empty")]
    Empty,
    #[error("Path is absolute")]
    Absolute,
    #[error("Path has an empty, `.` or `..` component")]
    Component,
    #[error("Path has a NUL byte")]
    Nul,
    #[error("Path lies inside a `.git`")]
    Git,
}

impl VaultPath {
    /// Checks `bytes` and takes them as they are.
    pub fn new(bytes: impl AsRef<[u8]>) -> Result<Self, PathRefused> {
        let bytes = bytes.as_ref();
        if bytes.is_empty() {
            return Err(PathRefused::Empty);
        }
        if bytes.starts_with(b"/") {
            return Err(PathRefused::Absolute);
        }
        if bytes.contains(&0) {
            return Err(PathRefused::Nul);
        }
        for component in bytes.split(|it| *it == b'/') {
            match component {
                b"" | b"." | b".." => return Err(PathRefused::Component),
                it if it.eq_ignore_ascii_case(b".git") => return Err(PathRefused::Git),
                _ => {}
            }
        }
        Ok(Self(bytes.into()))
    }

    /// The same for a path of the operating system.
    pub fn from_os(path: &Path) -> Result<Self, PathRefused> {
        Self::new(path.as_os_str().as_bytes())
    }

    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// As a relative path of the operating system.
    pub fn as_path(&self) -> &Path {
        Path::new(OsStr::from_bytes(&self.0))
    }

    /// As text, with U+FFFD where bytes are not UTF-8: for JSON, beside [`Self::hex_if_lossy`].
    pub fn lossy(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(&self.0)
    }

    /// The bytes in hexadecimal, only where [`Self::lossy`] lost some.
    pub fn hex_if_lossy(&self) -> Option<String> {
        std::str::from_utf8(&self.0).is_err().then(|| self.to_hex())
    }

    /// The bytes in hexadecimal: for JSON that is read back.
    pub fn to_hex(&self) -> String {
        self.0.iter().fold(String::new(), |mut hex, byte| {
            // Writing to a String cannot fail.
            let _written = write!(hex, "{byte:02x}");
            hex
        })
    }

    /// The reverse of [`Self::to_hex`].
    pub fn from_hex(hex: &str) -> Option<Self> {
        let digit = |it: u8| char::from(it).to_digit(16).and_then(|it| u8::try_from(it).ok());
        let pairs = hex.as_bytes().chunks(2);
        let byte = |it: &[u8]| Some(digit(*it.first()?)? << 4 | digit(*it.get(1)?)?);
        Self::new(pairs.map(byte).collect::<Option<Vec<u8>>>()?).ok()
    }

    /// The last component.
    pub fn file_name(&self) -> &[u8] {
        self.0.rsplit(|it| *it == b'/').next().unwrap_or(&self.0)
    }

    /// The last component without its extension; a leading dot starts no extension.
    pub fn stem(&self) -> &[u8] {
        let name = self.file_name();
        match name.iter().rposition(|it| *it == b'.') {
            Some(dot) if dot > 0 => &name[..dot],
            _ => name,
        }
    }

    /// The extension without its dot.
    pub fn extension(&self) -> Option<&[u8]> {
        let name = self.file_name();
        match name.iter().rposition(|it| *it == b'.') {
            Some(dot) if dot > 0 => Some(&name[dot + 1..]),
            _ => None,
        }
    }

    /// The folder it lies in; `None` at the root.
    pub fn parent(&self) -> Option<Self> {
        let slash = self.0.iter().rposition(|it| *it == b'/')?;
        Some(Self(self.0[..slash].into()))
    }

    /// The components from the root down.
    pub fn components(&self) -> impl DoubleEndedIterator<Item = &[u8]> {
        self.0.split(|it| *it == b'/')
    }

    /// Whether this is `folder` itself or lies below it.
    pub fn is_within(&self, folder: &[u8]) -> bool {
        self.0.starts_with(folder) && matches!(self.0.get(folder.len()), None | Some(b'/'))
    }

    /// This folder's child of that name.
    pub fn join(&self, name: &[u8]) -> Result<Self, PathRefused> {
        Self::new([&self.0, b"/".as_slice(), name].concat())
    }
}

/// Whether a character does something to a line or to the order of what stands on it, instead of
/// standing there: control characters, line and paragraph separators, bidirectional overrides and
/// isolates. Joiners and marks of direction are part of how words are written.
pub fn is_commanding(char: char) -> bool {
    char.is_control() || matches!(char, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Bytes as one line of text that can be read and pasted: characters that would command a terminal
/// or a line ([`is_commanding`]) and invalid UTF-8 as C escapes, everything else as it is.
pub fn escape(bytes: &[u8]) -> Cow<'_, str> {
    let plain = std::str::from_utf8(bytes).is_ok_and(|text| !text.chars().any(is_commanding));
    if plain {
        return String::from_utf8_lossy(bytes);
    }
    let mut out = String::new();
    for chunk in bytes.utf8_chunks() {
        for char in chunk.valid().chars() {
            match char {
                '\n' => out.push_str("\\n"),
                '\t' => out.push_str("\\t"),
                '\r' => out.push_str("\\r"),
                it if is_commanding(it) => {
                    let mut buffer = [0; 4];
                    push_octal(&mut out, it.encode_utf8(&mut buffer).as_bytes());
                }
                it => out.push(it),
            }
        }
        push_octal(&mut out, chunk.invalid());
    }
    out.into()
}

/// A path as Git prints it (`core.quotePath=false`): in double quotes with C escapes where it
/// holds a control character, a double quote or a backslash, or is not UTF-8; as it is otherwise.
pub fn c_quoted(path: &VaultPath) -> Cow<'_, str> {
    let bytes = path.as_bytes();
    let escaped = escape(bytes);
    if matches!(escaped, Cow::Borrowed(_)) && !bytes.iter().any(|it| matches!(it, b'"' | b'\\')) {
        return escaped;
    }
    let mut out = String::from("\"");
    for chunk in bytes.utf8_chunks() {
        for char in chunk.valid().chars() {
            match char {
                '"' => out.push_str("\\\""),
                '\\' => out.push_str("\\\\"),
                it => {
                    let mut buffer = [0; 4];
                    out.push_str(&escape(it.encode_utf8(&mut buffer).as_bytes()));
                }
            }
        }
        push_octal(&mut out, chunk.invalid());
    }
    out.push('"');
    out.into()
}

/// The bytes of a path that Git has printed: what stands in double quotes without them and its
/// escapes, everything else as it is.
pub fn c_unquoted(printed: &[u8]) -> Vec<u8> {
    let inside = printed.strip_prefix(b"\"").and_then(|it| it.strip_suffix(b"\""));
    let Some(mut rest) = inside else { return printed.to_vec() };
    let mut out = Vec::with_capacity(rest.len());
    while let Some((byte, after)) = rest.split_first() {
        rest = after;
        if *byte != b'\\' {
            out.push(*byte);
            continue;
        }
        let octal = rest.get(..3).and_then(|it| std::str::from_utf8(it).ok());
        if let Some(byte) = octal.and_then(|it| u8::from_str_radix(it, 8).ok()) {
            out.push(byte);
            rest = &rest[3..];
            continue;
        }
        let Some((letter, after)) = rest.split_first() else { break };
        rest = after;
        out.push(match letter {
            b'a' => 7,
            b'b' => 8,
            b't' => b'\t',
            b'n' => b'\n',
            b'v' => 11,
            b'f' => 12,
            b'r' => b'\r',
            other => *other,
        });
    }
    out
}

fn push_octal(out: &mut String, bytes: &[u8]) {
    for byte in bytes {
        // Writing to a String cannot fail.
        let _written = write!(out, "\\{byte:03o}");
    }
}

impl fmt::Display for VaultPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&escape(&self.0))
    }
}

impl fmt::Debug for VaultPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{self}`")
    }
}

/// As JSON a path is its lossy text; a writer that needs the bytes adds `path_hex`.
impl serde::Serialize for VaultPath {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.lossy())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hexadecimal_digits_come_back() {
        let path = VaultPath::new(b"d/\xff\n\".md").unwrap();
        assert_eq!(VaultPath::from_hex(&path.to_hex()), Some(path.clone()));
        assert_eq!(path.hex_if_lossy(), Some(path.to_hex()));
        for hex in ["", "6", "6g", "2e2e", "2f61", "é"] {
            assert_eq!(VaultPath::from_hex(hex), None, "{hex:?}");
        }
    }

    #[test]
    fn what_git_prints_is_read_back() {
        for path in ["a.md", "it's \"q\".md", "two\nlines.md", "back\\slash", "日記.md", "tab\t.md"]
        {
            let path = VaultPath::new(path).unwrap();
            assert_eq!(c_unquoted(c_quoted(&path).as_bytes()), path.as_bytes());
        }
        let odd = VaultPath::new(b"bad\xff\x01.md").unwrap();
        assert_eq!(c_unquoted(c_quoted(&odd).as_bytes()), odd.as_bytes());
        assert_eq!(c_unquoted(b"\"\\a\\b\\v\\f\\r\""), [7, 8, 11, 12, 13]);
        assert_eq!(c_unquoted(b"\"cut\\"), b"\"cut\\");
    }

    #[test]
    fn what_is_no_path_in_the_vault_is_refused() {
        for (bytes, why) in [
            (&b""[..], PathRefused::Empty),
            (b"/etc/passwd", PathRefused::Absolute),
            (b"../x.md", PathRefused::Component),
            (b"a/../../x.md", PathRefused::Component),
            (b"a//b", PathRefused::Component),
            (b"a/", PathRefused::Component),
            (b"./a", PathRefused::Component),
            (b"a\0b.md", PathRefused::Nul),
            (b".git/config", PathRefused::Git),
            (b"x/.GIT/hooks/post-commit", PathRefused::Git),
        ] {
            assert_eq!(VaultPath::new(bytes), Err(why), "{bytes:?}");
        }
    }

    #[test]
    fn names_are_taken_apart() {
        let path = VaultPath::new("a b/c.d/.note.tar.md").unwrap();
        assert_eq!(path.file_name(), b".note.tar.md");
        assert_eq!(path.stem(), b".note.tar");
        assert_eq!(path.extension(), Some(&b"md"[..]));
        assert_eq!(path.parent(), Some(VaultPath::new("a b/c.d").unwrap()));
        assert!(path.is_within(b"a b") && path.is_within(b"a b/c.d") && !path.is_within(b"a"));
        let dot = VaultPath::new(".hidden").unwrap();
        assert_eq!((dot.stem(), dot.extension(), dot.parent()), (&b".hidden"[..], None, None));
    }

    #[test]
    fn a_name_cannot_forge_a_line() {
        let check = |bytes: &[u8], shown: &str, quoted: &str| {
            let path = VaultPath::new(bytes).unwrap();
            assert_eq!(path.to_string(), shown);
            assert_eq!(c_quoted(&path), quoted);
        };
        check("日記 🔥.md".as_bytes(), "日記 🔥.md", "日記 🔥.md");
        check(b"line\nbreak.md", "line\\nbreak.md", "\"line\\nbreak.md\"");
        check(b"q\"uote.md", "q\"uote.md", "\"q\\\"uote.md\"");
        check(b"back\\slash.md", "back\\slash.md", "\"back\\\\slash.md\"");
        check(b"bad\xff.md", "bad\\377.md", "\"bad\\377.md\"");
        check("a\u{202e}dm.b".as_bytes(), "a\\342\\200\\256dm.b", "\"a\\342\\200\\256dm.b\"");
        check("\u{9b}31m.md".as_bytes(), "\\302\\23331m.md", "\"\\302\\23331m.md\"");
        check("שלום\u{200f} 👨‍👩‍👧.md".as_bytes(), "שלום\u{200f} 👨‍👩‍👧.md", "שלום\u{200f} 👨‍👩‍👧.md");
        check(b"esc\x1b.md", "esc\\033.md", "\"esc\\033.md\"");
    }
}
