//! The encodings that `working-tree-encoding` names, as git reads them.
//!
//! Pure. Takes the bytes of a file, gives them in UTF-8, or says why git would refuse them.
//!
//! **Invariant:** what cannot be read without loss is refused; nothing is replaced by a guess.

use gix::bstr::{BStr, ByteSlice as _};
use gix::filter::plumbing::worktree::encode_to_git::RoundTripCheck;
use gix::filter::plumbing::worktree::{encode_to_git, encoding};

/// The bytes in UTF-8; `None` where they are to stay as they are.
pub(super) fn to_utf8(
    name: &BStr,
    bytes: &[u8],
    check: &[&str],
) -> Result<Option<Vec<u8>>, String> {
    let label = name.to_str_lossy().to_ascii_uppercase();
    // `utf8`, `utf-16le`: git takes the hyphen or leaves it.
    let unicode = label.strip_prefix("UTF").map(|it| it.strip_prefix('-').unwrap_or(it));
    if bytes.is_empty() || unicode == Some("8") {
        return Ok(None);
    }
    let refuse = |why: &str| format!("it is not in {label}, as `.gitattributes` says: {why}");
    let invalid = || refuse("some bytes of it are invalid");
    let text = match unicode {
        Some("16" | "32") if bom(bytes, unicode).is_none() => {
            return Err(refuse("it must begin with a byte order mark"));
        }
        Some("16LE" | "16BE" | "32LE" | "32BE") if bom(bytes, unicode).is_some() => {
            return Err(refuse("it must not begin with a byte order mark"));
        }
        Some("16" | "16LE-BOM") => match bom(bytes, unicode) {
            Some(big) => utf16(&bytes[2..], big),
            None => utf16(bytes, cfg!(target_endian = "big")),
        },
        Some("32") => utf32(&bytes[4..], bom(bytes, unicode) == Some(true)),
        Some(it @ ("16LE" | "16BE")) => utf16(bytes, it == "16BE"),
        Some(it @ ("32LE" | "32BE")) => utf32(bytes, it == "32BE"),
        _ if ["ISO-8859-1", "ISO8859-1", "LATIN1", "LATIN-1"].contains(&&*label) => {
            Some(bytes.iter().map(|it| char::from(*it)).collect())
        }
        _ if ["US-ASCII", "ASCII"].contains(&&*label) => {
            bytes.is_ascii().then(|| bytes.iter().map(|it| char::from(*it)).collect())
        }
        _ => {
            let found = encoding::for_label(name)
                .map_err(|_| format!("the encoding {label} of `.gitattributes` is not known"))?;
            let is_checked = check.iter().any(|it| it.eq_ignore_ascii_case(found.name()));
            let check = if is_checked { RoundTripCheck::Fail } else { RoundTripCheck::Skip };
            let mut text = Vec::new();
            encode_to_git(bytes, found, &mut text, check).map_err(|_| invalid())?;
            return Ok(Some(text));
        }
    };
    text.map(|it| Some(it.into_bytes())).ok_or_else(invalid)
}

/// Whether the byte order mark says that the high byte comes first; `None` without one.
fn bom(bytes: &[u8], unicode: Option<&str>) -> Option<bool> {
    let (little, big): (&[u8], &[u8]) = match unicode.is_some_and(|it| it.starts_with("32")) {
        true => (&[0xff, 0xfe, 0, 0], &[0, 0, 0xfe, 0xff]),
        false => (&[0xff, 0xfe], &[0xfe, 0xff]),
    };
    match bytes {
        it if it.starts_with(little) => Some(false),
        it if it.starts_with(big) => Some(true),
        _ => None,
    }
}

fn utf16(bytes: &[u8], is_big: bool) -> Option<String> {
    let units = bytes.chunks_exact(2);
    if !units.remainder().is_empty() {
        return None;
    }
    let units = units.map(|it| match is_big {
        true => u16::from_be_bytes([it[0], it[1]]),
        false => u16::from_le_bytes([it[0], it[1]]),
    });
    char::decode_utf16(units).collect::<Result<_, _>>().ok()
}

fn utf32(bytes: &[u8], is_big: bool) -> Option<String> {
    let units = bytes.chunks_exact(4);
    if !units.remainder().is_empty() {
        return None;
    }
    let units = units.map(|it| match is_big {
        true => u32::from_be_bytes([it[0], it[1], it[2], it[3]]),
        false => u32::from_le_bytes([it[0], it[1], it[2], it[3]]),
    });
    units.map(char::from_u32).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_encoding_is_read_or_refused_as_git_does() {
        let check = |name: &str, bytes: &[u8], expected: Option<&str>| {
            let found = to_utf8(name.into(), bytes, &["Shift_JIS"]);
            let found = found.map(|it| it.unwrap_or_else(|| bytes.to_vec())).ok();
            assert_eq!(found.as_deref(), expected.map(str::as_bytes), "{name} {bytes:?}");
        };
        check("UTF-8", "é".as_bytes(), Some("é"));
        check("utf-16", b"\xff\xfea\0", Some("a"));
        check("UTF16", b"\xfe\xff\0a", Some("a"));
        check("UTF-16", b"a\0", None);
        check("UTF-16LE", b"a\0", Some("a"));
        check("UTF-16LE", b"\xff\xfea\0", None);
        check("UTF-16BE", b"\0a", Some("a"));
        check("UTF-16LE-BOM", b"\xff\xfea\0", Some("a"));
        check("UTF-16", b"\xff\xfea", None);
        check("UTF-16LE", b"\x00\xd8", None);
        check("UTF-32", b"\xff\xfe\0\0a\0\0\0", Some("a"));
        check("UTF-32BE", b"\0\0\0a", Some("a"));
        check("ISO-8859-1", b"caf\xe9\x85", Some("caf\u{e9}\u{85}"));
        check("windows-1252", b"\x80", Some("€"));
        check("US-ASCII", b"\xe9", None);
        check("SHIFT-JIS", b"\x83\x65", Some("テ"));
        check("no-such-encoding", b"a", None);
        check("UTF-16", b"", Some(""));
    }
}
