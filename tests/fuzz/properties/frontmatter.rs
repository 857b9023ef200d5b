//! What holds for the frontmatter of any note.
//!
//! Takes bytes as a note's file, panics where a property is broken. For the fuzz target and for
//! the corpus in `cargo test`.

use remd::vault::frontmatter::edit::{NewValue, remove, set};
use remd::vault::frontmatter::{self, Block, Frontmatter};

/// A key that hardly any input has.
const NEW_KEY: &str = "remd_fuzz";
/// How many keys of one note are edited.
const MOST_KEYS: usize = 8;

/// Reading never fails and stays in the text; an edit changes one key and nothing else.
pub fn check(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        assert!(set(data, NEW_KEY, &text_value("v")).is_err(), "no UTF-8 is edited");
        return;
    };
    let block = frontmatter::split(text);
    if let Some(block) = &block {
        lies_in_the_text(text, block);
    }
    let read = read(text);
    for value in [text_value("a new: \"value\"\n#"), NewValue::List(vec!["x y".into(), "7".into()])]
    {
        edit(text, &read, NEW_KEY, &value);
        for key in read.keys().take(MOST_KEYS) {
            edit(text, &read, key, &value);
        }
    }
    if read.keys().all(|it| !it.eq_ignore_ascii_case(NEW_KEY))
        && let Ok(with) = set(data, NEW_KEY, &text_value("v"))
        && block.is_some()
    {
        assert_eq!(remove(&with, NEW_KEY).as_deref(), Ok(data), "what was added can be taken back");
    }
}

fn lies_in_the_text(text: &str, block: &Block) {
    let end = if text.contains('\n') { '\n' } else { '\r' };
    let lines_before = |at: usize| text[..at].matches(end).count() as u32;
    assert!(block.yaml.start <= block.yaml.end && block.yaml.end <= block.body);
    assert!(text[..block.yaml.start].trim_start_matches('\u{feff}').starts_with("---"));
    assert!(text[block.yaml.end..block.body].starts_with("---"));
    assert_eq!(lines_before(block.yaml.start) + 1, block.yaml_line);
    // A fence that ends the file has no line behind it, yet the body begins there.
    let fence_is_last = u32::from(!text[..block.body].ends_with(end));
    assert_eq!(lines_before(block.body) + 1 + fence_is_last, block.body_line);
}

fn read(text: &str) -> Frontmatter {
    frontmatter::split(text)
        .map(|it| frontmatter::parse(&text[it.yaml], it.yaml_line))
        .unwrap_or_default()
}

fn edit(text: &str, before: &Frontmatter, key: &str, value: &NewValue) {
    let Ok(new) = set(text.as_bytes(), key, value) else { return };
    let new = String::from_utf8(new).expect("text stays text");
    let after = read(&new);
    match value {
        NewValue::Text(wanted) => {
            let wanted = Some(wanted.trim()).filter(|it| !it.is_empty());
            assert_eq!(after.string(key), wanted, "{key}");
        }
        NewValue::List(wanted) => assert_eq!(after.list(key, &[]), *wanted, "{key}"),
    }
    let mut known = before.keys().map(str::to_owned).collect::<Vec<_>>();
    let is_new = known.iter().all(|it| !it.eq_ignore_ascii_case(key));
    known.extend(is_new.then(|| key.to_owned()));
    assert_eq!(after.keys().map(str::to_owned).collect::<Vec<_>>(), known, "same keys, same order");
    for other in before.keys().filter(|it| !it.eq_ignore_ascii_case(key)) {
        assert_eq!(after.string(other), before.string(other), "{other}");
        assert_eq!(after.list(other, &[]), before.list(other, &[]), "{other}");
    }
    // One stretch changes; it lies in the block, and the body is the same to the byte.
    let body = |text: &str| frontmatter::split(text).map_or(bom(text), |it| it.body);
    assert_eq!(new[body(&new)..], text[body(text)..]);
    assert_eq!(bom(&new), bom(text), "the byte-order mark stays");
    let (a, b) = (text.as_bytes(), new.as_bytes());
    let start = a.iter().zip(b).take_while(|it| it.0 == it.1).count();
    let end = a.iter().rev().zip(b.iter().rev()).take_while(|it| it.0 == it.1).count();
    assert!(start + end >= a.len().min(b.len()) || start <= body(text), "one stretch");
    if is_new {
        assert!(start + end >= a.len(), "a new key takes nothing away");
    }
}

fn bom(text: &str) -> usize {
    if text.starts_with('\u{feff}') { 3 } else { 0 }
}

fn text_value(text: &str) -> NewValue {
    NewValue::Text(text.to_owned())
}
