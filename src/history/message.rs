//! What a commit says, both ways.
//!
//! Pure. Takes the changes and the cause, gives the message; takes a message, gives its parts.
//!
//! **Invariant:** a message composed here comes back from [`parse`] with the same subject and
//! trailers, whatever bytes the paths and values hold.

use std::collections::BTreeMap;

use crate::vault::path::{c_quoted, escape};
use crate::vault::{CommitId, VaultPath};

/// Paths that a body lists before it only counts.
const BODY_LIMIT: usize = 1_000;
/// Between the two names of a rename.
const ARROW: &str = " → ";
/// Folders that a subject names.
const SUMMARY_LIMIT: usize = 3;

/// Why the vault changed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CauseKind {
    Edit,
    Api,
    Job,
    Sync,
    Restore,
    Undo,
    Adopt,
}

impl CauseKind {
    /// As the `Remd-Cause` trailer says it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Edit => "edit",
            Self::Api => "api",
            Self::Job => "job",
            Self::Sync => "sync",
            Self::Restore => "restore",
            Self::Undo => "undo",
            Self::Adopt => "adopt",
        }
    }

    /// The reverse of [`Self::as_str`].
    pub fn from_text(text: &str) -> Option<Self> {
        [Self::Edit, Self::Api, Self::Job, Self::Sync, Self::Restore, Self::Undo, Self::Adopt]
            .into_iter()
            .find(|it| it.as_str() == text)
    }
}

/// What happened to one note.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Verb {
    Create,
    Update,
    /// It was at this path before.
    Rename(VaultPath),
    Delete,
    /// It had text and has none now.
    Empty,
    /// Only its mode changed.
    Mode,
}

/// One thing that a commit says of itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Deed {
    pub verb: Verb,
    /// Where it is now; where it was, for a deletion.
    pub path: VaultPath,
}

/// A message taken apart.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Parsed {
    pub subject: String,
    pub body: String,
    pub trailers: Vec<(String, String)>,
}

impl Parsed {
    /// The first trailer of that name.
    pub fn trailer(&self, key: &str) -> Option<&str> {
        self.trailers.iter().find(|it| it.0.eq_ignore_ascii_case(key)).map(|it| it.1.as_str())
    }

    /// What `Remd-Cause` says, where it says something known.
    pub fn cause(&self) -> Option<CauseKind> {
        self.trailer("Remd-Cause").and_then(CauseKind::from_text)
    }
}

/// The whole message: subject, the list of paths where there is more than one, the note, trailers.
pub fn compose(
    deeds: &[Deed],
    cause: CauseKind,
    trailers: &[(String, String)],
    note: &[String],
) -> String {
    let mut text = match deeds {
        [one] => format!("memory: {}\n", line_of(one)),
        _ => format!("memory: {} changes{}\n", deeds.len(), summary(deeds)),
    };
    if deeds.len() > 1 {
        text.push('\n');
        for deed in deeds.iter().take(BODY_LIMIT) {
            text.push_str(&line_of(deed));
            text.push('\n');
        }
        if deeds.len() > BODY_LIMIT {
            text.push_str(&format!("… and {} more\n", deeds.len() - BODY_LIMIT));
        }
    }
    if !note.is_empty() {
        text.push('\n');
        for line in note {
            text.push_str(escape(line.as_bytes()).as_ref());
            text.push('\n');
        }
    }
    text.push('\n');
    push_trailer(&mut text, "Remd-Cause", cause.as_str());
    for (key, value) in trailers {
        push_trailer(&mut text, key, value);
    }
    text
}

/// The line by which git itself says what a commit takes back.
pub fn reverts(commit: CommitId) -> String {
    format!("This reverts commit {commit}.")
}

/// What a commit with this body takes back, by such lines: ours and those of `git revert`.
pub fn reverted(body: &str) -> impl Iterator<Item = CommitId> + '_ {
    body.lines().filter_map(|line| {
        let rest = line.trim().strip_prefix("This reverts commit ")?;
        let digits = rest.bytes().take_while(u8::is_ascii_hexdigit).count();
        CommitId::from_hex(&rest[..digits])
    })
}

/// Takes a message apart. Only the last paragraph can hold trailers, and never the subject.
pub fn parse(message: &[u8]) -> Parsed {
    let text = String::from_utf8_lossy(message);
    let text = text.trim_matches('\n');
    let (subject, rest) = text.split_once('\n').unwrap_or((text, ""));
    let rest = rest.trim_matches('\n');
    let (body, last) = rest.rsplit_once("\n\n").unwrap_or(("", rest));
    let trailers: Option<Vec<_>> = last.lines().map(trailer_of).collect();
    let (body, trailers) = match trailers {
        Some(trailers) if !trailers.is_empty() => (body, trailers),
        _ => (rest, Vec::new()),
    };
    Parsed {
        subject: subject.trim_end().to_owned(),
        body: body.trim_matches('\n').to_owned(),
        trailers,
    }
}

/// What a hook made of a message, with the trailers of `ours` that it took out put back.
///
/// `None` where it left no words.
pub fn with_trailers_of(changed: &[u8], ours: &str) -> Option<String> {
    let changed = String::from_utf8_lossy(changed).replace(['\r', '\0'], "");
    let lines: Vec<_> = changed.lines().map(str::trim_end).collect();
    let mut text = lines.join("\n").trim_matches('\n').to_owned();
    if text.is_empty() {
        return None;
    }
    let has = parse(text.as_bytes());
    let missing: Vec<_> = parse(ours.as_bytes())
        .trailers
        .into_iter()
        .filter(|it| !has.trailers.contains(it))
        .collect();
    if has.trailers.is_empty() && !missing.is_empty() {
        text.push('\n');
    }
    text.push('\n');
    for (key, value) in missing {
        push_trailer(&mut text, &key, &value);
    }
    Some(text)
}

/// The renames that a message composed here tells of: old path, new path. Where a name holds an
/// arrow, every way to read it.
pub fn renames(parsed: &Parsed) -> Vec<(VaultPath, VaultPath)> {
    let subject = parsed.subject.strip_prefix("memory: ").unwrap_or_default();
    let told = |line: &str| -> Vec<(VaultPath, VaultPath)> {
        let Some(line) = line.strip_prefix("rename ") else { return Vec::new() };
        // An arrow may be part of a name: each may be the one between the two.
        line.match_indices(ARROW)
            .filter_map(|(at, arrow)| {
                Some((unquoted(&line[..at])?, unquoted(&line[at + arrow.len()..])?))
            })
            .collect()
    };
    parsed.body.lines().chain([subject]).flat_map(told).collect()
}

/// The reverse of [`c_quoted`].
fn unquoted(text: &str) -> Option<VaultPath> {
    let Some(inner) = text.strip_prefix('"').and_then(|it| it.strip_suffix('"')) else {
        return VaultPath::new(text).ok();
    };
    let mut bytes = Vec::with_capacity(inner.len());
    let mut rest = inner.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        if *first != b'\\' {
            bytes.push(*first);
            continue;
        }
        let (escaped, after) = rest.split_first()?;
        rest = after;
        bytes.push(match escaped {
            b'n' => b'\n',
            b't' => b'\t',
            b'r' => b'\r',
            b'"' | b'\\' => *escaped,
            b'0'..=b'3' => {
                let digits = std::str::from_utf8(rest.get(..2)?).ok()?;
                rest = &rest[2..];
                (escaped - b'0') << 6 | u8::from_str_radix(digits, 8).ok()?
            }
            _ => return None,
        });
    }
    VaultPath::new(bytes).ok()
}

/// `update a.md`, `rename old.md → new.md`: one deed on one line.
pub fn line_of(deed: &Deed) -> String {
    let path = c_quoted(&deed.path);
    match &deed.verb {
        Verb::Create => format!("create {path}"),
        Verb::Update => format!("update {path}"),
        Verb::Rename(from) => format!("rename {}{ARROW}{path}", c_quoted(from)),
        Verb::Delete => format!("delete {path}"),
        Verb::Empty => format!("empty {path}"),
        Verb::Mode => format!("mode {path}"),
    }
}

/// ` (memory/ 3, digest/wiki/ 1, …)`: the folders with the most changes.
fn summary(deeds: &[Deed]) -> String {
    let count = |folder_of: &dyn Fn(&VaultPath) -> Option<VaultPath>| {
        let mut folders = BTreeMap::<Option<VaultPath>, usize>::new();
        for deed in deeds {
            *folders.entry(folder_of(&deed.path)).or_default() += 1;
        }
        folders
    };
    let mut folders = count(&VaultPath::parent);
    if folders.len() > SUMMARY_LIMIT {
        folders = count(&top_folder);
    }
    let mut folders: Vec<_> = folders.into_iter().collect();
    folders.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    if folders.is_empty() {
        return String::new();
    }
    let more = folders.len() > SUMMARY_LIMIT;
    let named: Vec<_> = folders
        .iter()
        .take(SUMMARY_LIMIT)
        .map(|(folder, n)| match folder {
            Some(folder) => format!("{}/ {n}", c_quoted(folder)),
            None => format!("./ {n}"),
        })
        .collect();
    format!(" ({}{})", named.join(", "), if more { ", …" } else { "" })
}

fn top_folder(path: &VaultPath) -> Option<VaultPath> {
    let mut components = path.components();
    let first = components.next()?;
    components.next()?;
    VaultPath::new(first).ok()
}

/// A value is one line: whatever came from outside cannot start a trailer of its own.
fn push_trailer(text: &mut String, key: &str, value: &str) {
    text.push_str(key);
    text.push_str(": ");
    text.push_str(escape(value.trim().as_bytes()).as_ref());
    text.push('\n');
}

fn trailer_of(line: &str) -> Option<(String, String)> {
    let (key, value) = line.split_once(':')?;
    let named = !key.is_empty() && key.bytes().all(|it| it.is_ascii_alphanumeric() || it == b'-');
    named.then(|| (key.to_owned(), value.trim().to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn deed(verb: Verb, path: &str) -> Deed {
        Deed { verb, path: VaultPath::new(path).unwrap() }
    }

    #[test]
    fn one_path_is_named_in_the_subject() {
        let old = VaultPath::new("old name.md").unwrap();
        for (deed, subject) in [
            (deed(Verb::Create, "a.md"), "memory: create a.md"),
            (deed(Verb::Update, "日記 🔥.md"), "memory: update 日記 🔥.md"),
            (deed(Verb::Rename(old), "new.md"), "memory: rename old name.md → new.md"),
            (deed(Verb::Delete, "line\nbreak.md"), "memory: delete \"line\\nbreak.md\""),
            (deed(Verb::Empty, "q\"uote.md"), "memory: empty \"q\\\"uote.md\""),
            (deed(Verb::Mode, "run.sh"), "memory: mode run.sh"),
        ] {
            let message = compose(&[deed], CauseKind::Edit, &[], &[]);
            assert_eq!(message, format!("{subject}\n\nRemd-Cause: edit\n"));
        }
    }

    #[test]
    fn many_paths_are_summed_by_folder_and_listed() {
        let message = compose(
            &[
                deed(Verb::Create, "b.md"),
                deed(Verb::Update, "memory/a.md"),
                deed(Verb::Update, "memory/b.md"),
            ],
            CauseKind::Job,
            &[("Remd-Job".into(), "auto_dream".into())],
            &[],
        );
        assert_eq!(
            message,
            "memory: 3 changes (memory/ 2, ./ 1)\n\ncreate b.md\nupdate memory/a.md\nupdate \
             memory/b.md\n\nRemd-Cause: job\nRemd-Job: auto_dream\n"
        );
        let many: Vec<_> = ["a/1.md", "b/1.md", "c/1.md", "d/1.md", "d/2/3.md"]
            .map(|path| deed(Verb::Create, path))
            .into();
        let subject = parse(compose(&many, CauseKind::Edit, &[], &[]).as_bytes()).subject;
        assert_eq!(subject, "memory: 5 changes (d/ 2, a/ 1, b/ 1, …)");
    }

    #[test]
    fn a_list_has_an_end() {
        let many: Vec<_> = (0..60_000).map(|n| deed(Verb::Create, &format!("n/{n}.md"))).collect();
        let message = compose(&many, CauseKind::Adopt, &[], &[]);
        assert_eq!(message.lines().count(), 1_005);
        assert!(message.contains("\n… and 59000 more\n\nRemd-Cause: adopt\n"));
    }

    #[test]
    fn what_is_composed_can_be_read_back_and_values_cannot_forge_a_trailer() {
        let forged = "s-1\nRemd-Cause: undo\n\nRemd-Job: x";
        let message = compose(
            &[deed(Verb::Create, "a.md")],
            CauseKind::Api,
            &[("Remd-Session".into(), forged.into())],
            &[],
        );
        let parsed = parse(message.as_bytes());
        assert_eq!(parsed.cause(), Some(CauseKind::Api));
        assert_eq!(parsed.trailers.len(), 2);
        assert_eq!(parsed.trailer("remd-session"), Some("s-1\\nRemd-Cause: undo\\n\\nRemd-Job: x"));
    }

    #[test]
    fn what_is_taken_back_is_said_as_git_says_it() {
        let commit = CommitId::from_hex(&"ab".repeat(20)).unwrap();
        let note = [reverts(commit)];
        let deeds = [deed(Verb::Update, "a.md")];
        let text = compose(&deeds, CauseKind::Undo, &[], &note);
        let hex = "ab".repeat(20);
        assert_eq!(
            text,
            format!("memory: update a.md\n\nThis reverts commit {hex}.\n\nRemd-Cause: undo\n")
        );
        let parsed = parse(text.as_bytes());
        assert_eq!(reverted(&parsed.body).collect::<Vec<_>>(), [commit]);
        let by_git = format!("This reverts commit {hex}, reversing\nchanges made to 1234.");
        assert_eq!(reverted(&by_git).collect::<Vec<_>>(), [commit]);
        assert_eq!(reverted("This reverts commit nothing.").count(), 0);
    }

    #[test]
    fn a_hook_may_change_the_words_and_our_trailers_stay() {
        let ours = compose(
            &[deed(Verb::Update, "a.md")],
            CauseKind::Job,
            &[("Remd-Job".into(), "dream".into())],
            &[],
        );
        let check = |changed: &str, expected: Option<&str>| {
            assert_eq!(with_trailers_of(changed.as_bytes(), &ours).as_deref(), expected);
        };
        check(&ours, Some(&ours));
        check("ABC-1 mine", Some("ABC-1 mine\n\nRemd-Cause: job\nRemd-Job: dream\n"));
        check(
            "s\n\nbody\n\nRemd-Cause: job\nSigned-off-by: A <a@b>\n\n",
            Some("s\n\nbody\n\nRemd-Cause: job\nSigned-off-by: A <a@b>\nRemd-Job: dream\n"),
        );
        check(" \n\r\n", None);
    }

    #[test]
    fn renames_are_read_back_whatever_the_names_hold() {
        let names = ["a.md", "日記 🔥.md", "line\nbreak.md", "q\"uote.md", "b\\s.md", "t\tb.md"];
        for (at, old) in names.iter().enumerate() {
            let old = VaultPath::new(old).unwrap();
            let new = VaultPath::new(names[(at + 1) % names.len()]).unwrap();
            let one = Deed { verb: Verb::Rename(old.clone()), path: new.clone() };
            let other = deed(Verb::Create, "x/y.md");
            for deeds in [vec![one.clone()], vec![other, one]] {
                let message = compose(&deeds, CauseKind::Edit, &[], &[]);
                assert_eq!(renames(&parse(message.as_bytes())), [(old.clone(), new.clone())]);
            }
        }
        let odd = VaultPath::new(b"bad\xff.md").unwrap();
        assert_eq!(unquoted(&c_quoted(&odd)), Some(odd));
        for text in ["\"a\\q.md\"", "\"a\\7\"", "\"\\377", "", "../x.md"] {
            let read = unquoted(text).map(|it| it.to_string());
            assert!(read.is_none() || text == "\"\\377", "{text}: {read:?}");
        }
    }

    #[test]
    fn a_message_by_hand_keeps_its_text() {
        let check = |message: &str, subject: &str, body: &str, trailers: usize| {
            let parsed = parse(message.as_bytes());
            assert_eq!((parsed.subject.as_str(), parsed.body.as_str()), (subject, body));
            assert_eq!(parsed.trailers.len(), trailers, "{message:?}");
        };
        check("fix: it\n", "fix: it", "", 0);
        check("fix\n\nsome words here\nand more\n", "fix", "some words here\nand more", 0);
        check("fix\n\nwhy\n\nSigned-off-by: A <a@b>\n", "fix", "why", 1);
        check("", "", "", 0);
    }
}
