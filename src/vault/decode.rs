//! From a file's bytes to text.
//!
//! Pure. Takes bytes, gives the text as far as it goes and what was wrong with it.
//!
//! UTF-8 stays as it is, byte-order mark and line ends included, so that offsets in the text are
//! offsets in the file. UTF-16 is read where a byte-order mark says so. Other bytes: where they
//! are mostly UTF-8, what is not becomes U+FFFD; else they are read as Windows-1252, the superset
//! of Latin-1. Bytes that look like no text are none.
//!
//! **Invariant:** at most [`MAX_BYTES`] are looked at, and whatever is lost is named.

use std::borrow::Cow;

/// The first so many bytes of a file are read as text.
pub const MAX_BYTES: usize = 4 * 1024 * 1024;

/// How the problem of a file ends that is read in part.
const CUT: &str = "are searched";

/// Whether a problem says that the rest of the file is not read.
pub fn is_cut(problem: &str) -> bool {
    problem.ends_with(CUT)
}

/// A file's text.
#[derive(Debug)]
pub struct Decoded<'a> {
    /// `None` for a file that is no text.
    pub text: Option<Cow<'a, str>>,
    /// What could not be read as it stands.
    pub problems: Vec<String>,
}

pub fn decode(bytes: &[u8]) -> Decoded<'_> {
    let mut problems = Vec::new();
    let head = head(bytes);
    if head.len() < bytes.len() {
        problems.push(format!("{} bytes long: only the first {} {CUT}", bytes.len(), head.len()));
    }
    let text = if let Some(rest) = head.strip_prefix(b"\xff\xfe") {
        utf16(rest, u16::from_le_bytes, &mut problems)
    } else if let Some(rest) = head.strip_prefix(b"\xfe\xff") {
        utf16(rest, u16::from_be_bytes, &mut problems)
    } else {
        eight_bit(head, &mut problems)
    };
    Decoded { text, problems }
}

/// The part that is read: whole lines where there are some, whole characters anyway.
fn head(bytes: &[u8]) -> &[u8] {
    if bytes.len() <= MAX_BYTES {
        return bytes;
    }
    let head = &bytes[..MAX_BYTES];
    if let Some(end) = head.iter().rposition(|it| *it == b'\n').filter(|it| *it > MAX_BYTES / 2)
        && !head.starts_with(b"\xff\xfe")
        && !head.starts_with(b"\xfe\xff")
    {
        return &head[..=end];
    }
    let continued = |at: &usize| bytes[*at] & 0b1100_0000 == 0b1000_0000;
    let cut = (MAX_BYTES - 3..=MAX_BYTES).rev().find(|it| !continued(it)).unwrap_or(MAX_BYTES);
    &bytes[..cut]
}

fn utf16(
    bytes: &[u8],
    unit: fn([u8; 2]) -> u16,
    problems: &mut Vec<String>,
) -> Option<Cow<'static, str>> {
    let units = bytes.chunks_exact(2).map(|it| unit([it[0], it[1]]));
    let mut lost = bytes.len() % 2;
    let text: String = char::decode_utf16(units)
        .map(|it| {
            it.unwrap_or_else(|_| {
                lost += 1;
                char::REPLACEMENT_CHARACTER
            })
        })
        .collect();
    problems.push(match lost {
        0 => "UTF-16: read as such, links in it cannot be rewritten".to_owned(),
        lost => format!("UTF-16 with {lost} broken characters"),
    });
    Some(Cow::Owned(text))
}

fn eight_bit<'a>(bytes: &'a [u8], problems: &mut Vec<String>) -> Option<Cow<'a, str>> {
    let nuls = bytes.iter().filter(|it| **it == 0).count();
    if let Ok(text) = std::str::from_utf8(bytes) {
        if nuls * 16 > bytes.len() {
            problems.push(format!("no text: {nuls} NUL bytes"));
            return None;
        }
        if nuls > 0 {
            problems.push(format!("{nuls} NUL bytes, first on line {}", line_of(bytes, &[0])));
        }
        return Some(Cow::Borrowed(text));
    }
    let controls = bytes.iter().filter(|it| **it < b' ' && !b"\t\n\r\x0c\x1b".contains(it)).count();
    if nuls > 0 || controls * 50 > bytes.len() {
        problems.push("no text: neither UTF-8 nor UTF-16".to_owned());
        return None;
    }
    let (mut good, mut bad, mut first_bad) = (0usize, 0usize, None);
    let mut at = 0;
    for chunk in bytes.utf8_chunks() {
        good += chunk.valid().chars().filter(|it| !it.is_ascii()).count();
        at += chunk.valid().len();
        if !chunk.invalid().is_empty() {
            bad += 1;
            first_bad.get_or_insert(at);
        }
        at += chunk.invalid().len();
    }
    let line = 1 + bytes[..first_bad.unwrap_or(0)].iter().filter(|it| **it == b'\n').count();
    if good > bad {
        problems.push(format!("line {line}: not UTF-8 (in {bad} places), read with \u{fffd}"));
        return Some(String::from_utf8_lossy(bytes));
    }
    problems.push(format!("line {line}: not UTF-8, read as Windows-1252"));
    Some(Cow::Owned(bytes.iter().map(|it| windows_1252(*it)).collect()))
}

fn line_of(bytes: &[u8], what: &[u8]) -> usize {
    let at = bytes.windows(what.len()).position(|it| it == what).unwrap_or(0);
    1 + bytes[..at].iter().filter(|it| **it == b'\n').count()
}

/// A byte as Windows-1252 has it; the five bytes it leaves open are the control characters of
/// Latin-1, as browsers read them.
fn windows_1252(byte: u8) -> char {
    const HIGH: [char; 32] = [
        '€', '\u{81}', '‚', 'ƒ', '„', '…', '†', '‡', 'ˆ', '‰', 'Š', '‹', 'Œ', '\u{8d}', 'Ž',
        '\u{8f}', '\u{90}', '‘', '’', '“', '”', '•', '–', '—', '˜', '™', 'š', '›', 'œ', '\u{9d}',
        'ž', 'Ÿ',
    ];
    match byte {
        0x80..=0x9f => HIGH[usize::from(byte - 0x80)],
        _ => char::from(byte),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(bytes: &[u8], text: Option<&str>, problem: &str) {
        let decoded = decode(bytes);
        assert_eq!(decoded.text.as_deref(), text, "{bytes:?}");
        let said = decoded.problems.join("; ");
        assert_eq!(said.is_empty(), problem.is_empty(), "{said}");
        assert!(said.contains(problem), "{said}");
    }

    #[test]
    fn each_encoding_is_read_as_far_as_it_goes() {
        check(b"", Some(""), "");
        check("zażółć 日本 👨‍👩‍👧\r\n".as_bytes(), Some("zażółć 日本 👨‍👩‍👧\r\n"), "");
        check("\u{feff}bom".as_bytes(), Some("\u{feff}bom"), "");
        check(
            b"caf\xe9 na\xefve\n",
            Some("café naïve\n"),
            "line 1: not UTF-8, read as Windows-1252",
        );
        check(b"ok\n\x93quoted\x94 \x80", Some("ok\n“quoted” €"), "line 2: not UTF-8");
        check("ééé\n日\u{301} ".as_bytes(), Some("ééé\n日\u{301} "), "");
        check(
            b"\xc3\xa9\xc3\xa9\n\xff\n",
            Some("éé\n\u{fffd}\n"),
            "line 2: not UTF-8 (in 1 places)",
        );
        check(b"\xff\xfeh\0i\0\xac\x20", Some("hi€"), "UTF-16");
        check(b"\xfe\xff\0h\0i", Some("hi"), "UTF-16");
        check(b"\xff\xfeh\0\x00\xd8", Some("h\u{fffd}"), "UTF-16 with 1 broken");
        check(b"\xff\xfeh\0x", Some("h"), "UTF-16 with 1 broken");
    }

    #[test]
    fn what_is_no_text_is_said_to_be_none() {
        check(&[0; 100], None, "no text: 100 NUL bytes");
        check(b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x03\0>\0", None, "no text");
        check(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", None, "no text");
        check(b"\x1f\x8b\x08\x01\x02\x03\x04\x05\x06\x07\xff\xfe", None, "no text");
        let stray = format!("one\ntwo{}\0 more\n", " words".repeat(20));
        check(stray.as_bytes(), Some(&stray), "1 NUL bytes, first on line 2");
    }

    #[test]
    fn a_huge_file_is_read_at_its_head() {
        let lines = "0123456789\n".repeat(MAX_BYTES / 10);
        let decoded = decode(lines.as_bytes());
        let text = decoded.text.unwrap();
        assert!(text.len() <= MAX_BYTES && text.len() > MAX_BYTES - 20 && text.ends_with('\n'));
        assert!(decoded.problems[0].contains("only the first"));
        for shift in 0..4 {
            let line = "a".repeat(shift) + &"日─".repeat(MAX_BYTES / 6 + 10);
            let decoded = decode(line.as_bytes());
            assert_eq!(decoded.problems.len(), 1, "{:?}", decoded.problems);
            assert!(decoded.text.unwrap().len() > MAX_BYTES - 4);
        }
        let wide: Vec<u8> =
            b"\xff\xfe".iter().copied().chain(b"a\0\n\0".repeat(MAX_BYTES / 2)).collect();
        let decoded = decode(&wide);
        assert!(decoded.text.unwrap().starts_with("a\na\n"));
    }
}
