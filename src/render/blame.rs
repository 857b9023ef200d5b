//! Who wrote each line of a note.
//!
//! Pure. Takes a blame, gives a line for each line, and below them what each commit says of itself.
//!
//! **Invariant:** a line of the note is one line of the page, whatever names and messages hold.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use crate::history::{Blame, Origin, Source, Writer};
use crate::render::{SCHEMA_VERSION, counted};
use crate::vault::path::escape;
use crate::vault::{CommitId, VaultPath};

/// What stands in the place of a commit.
const UNCOMMITTED: &str = "-------";
const UNKNOWN: &str = "???????";

/// The page `note/<path>/blame`; `as_of` says what it is true for.
pub fn text(path: &VaultPath, as_of: &str, blame: &Blame) -> Vec<u8> {
    let heads: Vec<String> = blame.lines.iter().map(|it| head(blame, &it.1)).collect();
    let wide = heads.iter().map(|it| it.chars().count()).max().unwrap_or(0);
    let last = blame.lines.len() + usize::try_from(blame.first).unwrap_or(1);
    let digits = last.saturating_sub(1).to_string().len();
    let mut out = Vec::new();
    for (number, (head, (text, _))) in (blame.first..).zip(heads.iter().zip(&blame.lines)) {
        out.extend_from_slice(format!("{head:<wide$} {number:>digits$}) ").as_bytes());
        out.extend_from_slice(text);
        out.push(b'\n');
    }
    let mut named = 0;
    for (place, writer) in blame.writers.iter().enumerate() {
        let mut origins: Vec<&Origin> = blame.lines.iter().filter_map(|it| of(&it.1)).collect();
        origins.retain(|it| it.writer == place);
        if origins.is_empty() {
            continue;
        }
        named += 1;
        out.extend_from_slice(said_of(path, writer, &origins).as_bytes());
    }
    let lines = counted(blame.lines.len(), "line", "lines");
    let commits = counted(named, "commit", "commits");
    let mut end = format!("-- {lines} of {commits}{as_of}");
    let uncommitted = blame.lines.iter().filter(|it| it.1 == Source::Disk).count();
    if uncommitted > 0 {
        end.push_str(&format!(", {} uncommitted", counted(uncommitted, "line", "lines")));
    }
    if blame.is_shallow {
        end.push_str(", shallow clone: the oldest commit stands for all before it");
    }
    if let Some(why) = &blame.partial {
        end.push_str(&format!(", partial: {why}"));
    }
    out.extend_from_slice(format!("{end}\n").as_bytes());
    out
}

/// The same as JSON.
pub fn json(path: &VaultPath, at: Option<CommitId>, blame: &Blame) -> Vec<u8> {
    let commits: Map<String, Value> =
        blame.writers.iter().map(|it| (it.commit.to_string(), writer_json(it))).collect();
    let lines = (blame.first..).zip(&blame.lines).map(|(number, (text, source))| {
        let mut line = json!({"line": number, "text": String::from_utf8_lossy(text)});
        match source {
            Source::Commit(origin) => {
                line["commit"] = json!(blame.writers.get(origin.writer).map(|it| it.commit));
                line["original_line"] = json!(origin.line);
                line["original_path"] = json!(origin.path);
            }
            Source::Disk => line["uncommitted"] = json!(true),
            Source::Unknown => line["commit"] = Value::Null,
        }
        line
    });
    let mut page = json!({
        "schema_version": SCHEMA_VERSION,
        "path": path,
        "at": at,
        "lines": lines.collect::<Vec<_>>(),
        "commits": commits,
        "partial": blame.partial,
        "shallow": blame.is_shallow,
    });
    if let Some(hex) = path.hex_if_lossy() {
        page["path_hex"] = json!(hex);
    }
    format!("{page:#}\n").into_bytes()
}

/// A commit with what it says of itself.
pub fn writer_json(writer: &Writer) -> Value {
    let trailer = |key| writer.trailer(key);
    json!({
        "commit": writer.commit,
        "time": writer.time,
        "when": writer.when(),
        "cause": trailer("Remd-Cause"),
        "author": writer.author,
        "email": writer.mail,
        "agent": trailer("Remd-Agent"),
        "job": trailer("Remd-Job"),
        "run": trailer("Remd-Run"),
        "session": trailer("Remd-Session"),
        "inputs": writer.all("Remd-Input").collect::<Vec<_>>(),
        "subject": writer.subject,
    })
}

/// `[job] remd: auto_dream, run 01J…, session s-1`: why and by whom.
pub fn cause_of(writer: &Writer) -> String {
    let cause = escape(writer.trailer("Remd-Cause").unwrap_or("-").as_bytes()).into_owned();
    format!("[{cause}] {}", escape(who(writer).as_bytes()))
}

/// ` job auto_dream, run 01J…, session s-1`: what else a commit says of itself.
pub fn details_of(writer: &Writer) -> String {
    let details = [
        ("job", "Remd-Job"),
        ("run", "Remd-Run"),
        ("session", "Remd-Session"),
        ("agent", "Remd-Agent"),
    ];
    let said = details.iter().filter_map(|(name, key)| {
        Some(format!("{name} {}", escape(writer.trailer(key)?.as_bytes())))
    });
    said.collect::<Vec<_>>().join(", ")
}

fn head(blame: &Blame, source: &Source) -> String {
    match source {
        Source::Disk => format!("{UNCOMMITTED} not committed yet"),
        Source::Unknown => format!("{UNKNOWN} not known yet"),
        Source::Commit(origin) => match blame.writers.get(origin.writer) {
            Some(it) => format!("{} {} {}", it.commit.short(), it.when(), cause_of(it)),
            None => format!("{UNKNOWN} not known yet"),
        },
    }
}

fn of(source: &Source) -> Option<&Origin> {
    match source {
        Source::Commit(origin) => Some(origin),
        Source::Disk | Source::Unknown => None,
    }
}

/// What a commit says of itself, and where lines of it stood that stand in the note now.
fn said_of(path: &VaultPath, writer: &Writer, origins: &[&Origin]) -> String {
    let subject = escape(writer.subject.as_bytes());
    let mut said = format!("{} {subject}\n", writer.commit.short());
    let details = details_of(writer);
    if !details.is_empty() {
        said.push_str(&format!("        {details}\n"));
    }
    for input in writer.all("Remd-Input") {
        said.push_str(&format!("        from {}\n", escape(input.as_bytes())));
    }
    let elsewhere: BTreeSet<String> = origins
        .iter()
        .filter(|it| it.path.as_ref() != Some(path))
        .map(|it| match &it.path {
            Some(path) => path.to_string(),
            None => "a file outside the vault".to_owned(),
        })
        .collect();
    for path in elsewhere {
        said.push_str(&format!("        written in {path}\n"));
    }
    said
}

/// The agent where one is named, else the author.
fn who(writer: &Writer) -> &str {
    writer.trailer("Remd-Agent").unwrap_or(&writer.author)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn writer(first: u8, author: &str, trailers: &[(&str, &str)]) -> Writer {
        let mut id = [0; 20];
        id[0] = first;
        Writer {
            commit: CommitId::from_bytes(&id).unwrap(),
            time: 1_782_741_780,
            offset: 0,
            author: author.to_owned(),
            mail: "a@example.org".to_owned(),
            subject: "memory: update a.md".to_owned(),
            trailers: trailers.iter().map(|it| (it.0.to_owned(), it.1.to_owned())).collect(),
        }
    }

    fn line(text: &str, writer: usize, path: &str, line: u32) -> (Vec<u8>, Source) {
        let path = VaultPath::new(path).ok();
        (text.into(), Source::Commit(Origin { writer, path, line }))
    }

    #[test]
    fn each_line_has_its_commit_and_each_commit_its_words() {
        let job = [
            ("Remd-Cause", "job"),
            ("Remd-Job", "auto_dream"),
            ("Remd-Run", "01J"),
            ("Remd-Session", "s-1"),
            ("Remd-Input", "memory/2026-06-28/plan.md"),
        ];
        let blame = Blame {
            writers: vec![writer(0x4f, "Ada", &[]), writer(0x5a, "remd", &job)],
            lines: vec![
                line("# A", 0, "a.md", 1),
                line("moved", 1, "b.md", 9),
                (b"new".to_vec(), Source::Disk),
                (b"late".to_vec(), Source::Unknown),
            ],
            first: 8,
            partial: Some("git had 3 s".to_owned()),
            is_shallow: false,
        };
        let path = VaultPath::new("a.md").unwrap();
        let at = CommitId::from_bytes(&[0x4f; 20]);
        assert_eq!(
            String::from_utf8(text(&path, " as of 4f4f4f4", &blame)).unwrap(),
            "4f00000 2026-06-29 14:03 [-] Ada     8) # A\n\
             5a00000 2026-06-29 14:03 [job] remd  9) moved\n\
             ------- not committed yet           10) new\n\
             ??????? not known yet               11) late\n\
             4f00000 memory: update a.md\n\
             5a00000 memory: update a.md\n        job auto_dream, run 01J, session s-1\n        \
             from memory/2026-06-28/plan.md\n        written in b.md\n\
             -- 4 lines of 2 commits as of 4f4f4f4, 1 line uncommitted, partial: git had 3 s\n"
        );
        let page: Value = serde_json::from_slice(&json(&path, at, &blame)).unwrap();
        assert_eq!(page["lines"][1]["original_path"], "b.md");
        assert_eq!(page["lines"][2]["uncommitted"], true);
        assert_eq!(page["lines"][3]["commit"], Value::Null);
        let commit = page["lines"][1]["commit"].as_str().unwrap();
        assert_eq!(page["commits"][commit]["session"], "s-1");
        assert_eq!(page["commits"][commit]["inputs"][0], "memory/2026-06-28/plan.md");
    }
}
