//! Sets one value in a settings file that a person wrote.
//!
//! Pure. Takes the file's text, gives it with one value changed: comments, order and everything
//! else stay as they are. A text whose shape it does not know is left to the person.
//!
//! **Invariant:** what it gives means the same as before, but for this one value.

use std::collections::BTreeMap;

use serde_yaml::Value;

use crate::config::load::flatten;

/// Why a file is left to the person.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum EditError {
    #[error("it is not YAML")]
    NotYaml,
    #[error("its shape is not one that can be edited")]
    Shape,
}

/// The text with `group.name` set to a plain word.
pub fn set(text: &str, group: &str, name: &str, value: &str) -> Result<String, EditError> {
    let before = meaning(text).ok_or(EditError::NotYaml)?;
    let key = format!("{group}.{name}");
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let is_key = |line: &str, key: &str| {
        line.strip_prefix(key).is_some_and(|it| it.trim_start().starts_with(':'))
    };
    let new = |indent: &str, name: &str| format!("{indent}{name}: {value}");
    if let Some(at) = lines.iter().position(|it| is_key(it, &key)) {
        lines[at] = new("", &key);
    } else if let Some(at) = lines.iter().position(|it| is_key(it, group)) {
        let is_inner = |it: &str| it.starts_with([' ', '\t', '#']) || it.trim().is_empty();
        let end = lines[at + 1..].iter().position(|it| !is_inner(it));
        let end = end.map_or(lines.len(), |it| at + 1 + it);
        let inner = at + 1..end;
        let is_filled = |it: &&String| !it.trim().is_empty() && !it.trim().starts_with('#');
        let first = lines[inner.clone()].iter().find(is_filled);
        let indent =
            first.map_or("  ".to_owned(), |it| it[..it.len() - it.trim_start().len()].to_owned());
        let at_name = |it: &String| it.strip_prefix(&*indent).is_some_and(|it| is_key(it, name));
        match lines[inner].iter().position(at_name) {
            Some(found) => lines[at + 1 + found] = new(&indent, name),
            None => lines.insert(at + 1, new(&indent, name)),
        }
    } else {
        lines.extend([format!("{group}:"), new("  ", name)]);
    }
    let edited = lines.join("\n") + "\n";
    let mut wanted = before;
    wanted.insert(key, value.to_owned());
    match meaning(&edited) {
        Some(after) if after == wanted => Ok(edited),
        _ => Err(EditError::Shape),
    }
}

/// All values by their names; `None` where it is no mapping.
fn meaning(text: &str) -> Option<BTreeMap<String, String>> {
    let value: Value = serde_yaml::from_str(text).ok()?;
    if !matches!(value, Value::Mapping(_) | Value::Null) {
        return None;
    }
    let mut leaves = Vec::new();
    flatten(&value, String::new(), &mut leaves);
    leaves.retain(|it| !it.0.is_empty());
    Some(leaves.into_iter().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_value_changes_and_nothing_else() {
        let check = |text: &str, wanted: &str| {
            assert_eq!(set(text, "search", "model", "new"), Ok(wanted.to_owned()), "{text}");
        };
        check("", "search:\n  model: new\n");
        check("vault: /v\n", "vault: /v\nsearch:\n  model: new\n");
        check("search.model: old # mine\n", "search.model: new\n");
        check(
            "# mine\nsearch:\n    # how\n    fusion: rrf\n\n    model: old\nvault: /v # there\n",
            "# mine\nsearch:\n    # how\n    fusion: rrf\n\n    model: new\nvault: /v # there\n",
        );
        check("search:\n  fusion: rrf\n", "search:\n  model: new\n  fusion: rrf\n");
        check("searching: 1\n", "searching: 1\nsearch:\n  model: new\n");
    }

    #[test]
    fn what_it_does_not_understand_is_left_alone() {
        let check = |text: &str, wanted| {
            assert_eq!(set(text, "search", "model", "new"), Err(wanted), "{text}");
        };
        check("a: [\n", EditError::NotYaml);
        check("- a\n", EditError::NotYaml);
        check("search: {model: old}\n", EditError::Shape);
        check("search: rrf\n", EditError::Shape);
        check("search:\n  model:\n    - old\n", EditError::Shape);
        check("search:\n  model: old\n---\nsearch: 1\n", EditError::NotYaml);
        assert_eq!(set("", "search", "model", "a: b"), Err(EditError::Shape));
    }
}
