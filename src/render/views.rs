//! Pages about all notes: what nothing leads to, what leads nowhere, today, the last changes.
//!
//! Pure. **Invariant:** whatever names hold, an entry is one line, and the last line says what the
//! page is true for.

use std::collections::BTreeMap;
use std::path::Path;

use crate::history::{LogEntry, PastVersion};
use crate::render::past::{self, Session};
use crate::render::{AsOf, counted, markdown_escaped, markdown_link};
use crate::search::care::{BrokenLinks, Orphans};
use crate::vault::VaultPath;
use crate::vault::path::escape;

/// `orphans.md`.
pub fn orphans(orphans: &Orphans, vault: &Path, as_of: &AsOf) -> Vec<u8> {
    let mut out =
        "# Orphans\n\nNotes that no other note links to, the newest first.\n\n".to_owned();
    for note in &orphans.notes {
        out.push_str(&format!("- {}", markdown_link(&note.name, vault, &note.path)));
        if let Some(date) = &note.date {
            out.push_str(&format!(", {}", markdown_escaped(date)));
        }
        if note.links.is_empty() {
            out.push_str(", links nowhere itself");
        }
        out.push('\n');
    }
    if orphans.notes.is_empty() && !orphans.is_part {
        out.push_str("None.\n");
    }
    end(out, counted(orphans.notes.len(), "note", "notes"), as_of, orphans.is_part)
}

/// `broken-links.md`.
pub fn broken_links(broken: &BrokenLinks, vault: &Path, as_of: &AsOf) -> Vec<u8> {
    let mut out = "# Broken links\n\nLinks that lead to no file of the vault.\n\n".to_owned();
    for link in &broken.links {
        let place = format!("{}:{}", link.from.path, link.line);
        out.push_str(&format!(
            "- {}: `{}`",
            markdown_escaped(&place),
            escape(link.target.as_bytes()).replace('`', "'")
        ));
        if let Some(path) = &link.suggestion {
            let name = path.to_string();
            out.push_str(&format!(" → {}?", markdown_link(&name, vault, path)));
        }
        out.push('\n');
    }
    if broken.links.is_empty() && !broken.is_part {
        out.push_str("None.\n");
    }
    end(out, counted(broken.links.len(), "link", "links"), as_of, broken.is_part)
}

/// What there is of a day.
#[derive(Clone, Debug, Default)]
pub struct Today {
    /// `YYYY-MM-DD`.
    pub day: String,
    /// The page of the day, where there is one.
    pub page: Option<(VaultPath, String)>,
    /// Its notes: path, name, description.
    pub notes: Vec<(VaultPath, String, Option<String>)>,
    /// What was committed on it, the newest first.
    pub changes: Vec<LogEntry>,
    pub is_part: bool,
}

/// `today.md`.
pub fn today(today: &Today, vault: &Path, as_of: &AsOf) -> Vec<u8> {
    let mut out = format!("# {}\n\n", today.day);
    match &today.page {
        Some((path, name)) => {
            out.push_str(&format!("Page of the day: {}\n", markdown_link(name, vault, path)));
        }
        None => out.push_str("There is no page of the day yet.\n"),
    }
    out.push_str("\n## Notes\n\n");
    for (path, name, description) in &today.notes {
        out.push_str(&format!("- {}", markdown_link(name, vault, path)));
        if let Some(description) = description {
            out.push_str(&format!(": {}", markdown_escaped(description)));
        }
        out.push('\n');
    }
    if today.notes.is_empty() {
        out.push_str("None yet.\n");
    }
    out.push_str("\n## Changed today\n\n");
    let mut paths: BTreeMap<&VaultPath, ()> = BTreeMap::new();
    for entry in &today.changes {
        for change in &entry.changes {
            // Each path once, by its last change.
            if paths.insert(&change.path, ()).is_some() {
                continue;
            }
            let when = entry.when();
            let time = when.split(' ').nth(1).unwrap_or_default();
            let what = match (change.old, change.new) {
                (_, None) => ", deleted",
                (None, _) => ", new",
                _ => "",
            };
            out.push_str(&format!(
                "- {time} {}: {}{what}\n",
                markdown_escaped(&past::why(entry)),
                markdown_escaped(&change.path.to_string())
            ));
        }
    }
    if paths.is_empty() {
        out.push_str("Nothing yet.\n");
    }
    let notes = counted(today.notes.len(), "note", "notes");
    let changed = counted(paths.len(), "file changed", "files changed");
    end(out, format!("{notes}, {changed}"), as_of, today.is_part)
}

/// `log.md`: the newest commits, grouped by day.
pub fn log(entries: Vec<LogEntry>, is_all: bool, as_of: &AsOf) -> Vec<u8> {
    let mut out = "# Log\n\nThe newest changes first.\n".to_owned();
    let count = entries.len();
    let mut day = String::new();
    let mut session = Session::default();
    let mut push = |out: &mut String, session: &Session| {
        for line in session.text().lines() {
            let newest = session.commits().first().map(LogEntry::when).unwrap_or_default();
            let of = newest.split(' ').next().unwrap_or_default().to_owned();
            if of != day {
                out.push_str(&format!("\n## {of}\n\n"));
                day = of;
            }
            out.push_str(&format!("- {}\n", markdown_escaped(line)));
        }
    };
    for entry in entries {
        if let Some(entry) = session.add(entry) {
            push(&mut out, &session);
            session = Session::default();
            // The first of its session is always taken.
            let _taken = session.add(entry);
        }
    }
    push(&mut out, &session);
    if !is_all {
        out.push_str("\n`remd log` goes on from there.\n");
    }
    end(out, counted(count, "commit", "commits"), as_of, false)
}

/// `note/<path>/history`: the versions of a note, the newest first, numbered as in `history/`.
pub fn history(path: &VaultPath, versions: &[PastVersion], as_of: &AsOf) -> Vec<u8> {
    let mut out = format!("{path}\n");
    let mut number = versions.iter().filter(|it| it.entry.is_some()).count();
    let width = number.to_string().len();
    for version in versions {
        let mark = match version.entry {
            Some(_) => format!("{number:>width$}"),
            None => format!("{:>width$}", "-"),
        };
        number -= usize::from(version.entry.is_some());
        let cause = version.cause.map_or("-", |it| it.as_str());
        out.push_str(&format!(
            "{mark}  {} {} [{cause}] {}: {}",
            version.commit.short(),
            version.when(),
            escape(version.author.as_bytes()),
            escape(version.subject.as_bytes()),
        ));
        for (key, name) in [("Remd-Job", "job"), ("Remd-Run", "run"), ("Remd-Session", "session")] {
            if let Some(value) = version.trailer(key) {
                out.push_str(&format!(", {name} {}", escape(value.as_bytes())));
            }
        }
        if let Some(from) = &version.from {
            out.push_str(&format!(", was {from}"));
        }
        if version.entry.is_none() {
            out.push_str(", deleted");
        }
        out.push('\n');
    }
    if versions.is_empty() {
        out.push_str("No commit has it yet.\n");
    }
    let count = versions.iter().filter(|it| it.entry.is_some()).count();
    out.push_str(&format!("-- {}{}\n", counted(count, "version", "versions"), as_of.text()));
    out.into_bytes()
}

fn end(mut out: String, count: String, as_of: &AsOf, is_part: bool) -> Vec<u8> {
    let part = if is_part { ", partial: there was no time for all" } else { "" };
    out.push_str(&format!("\n-- {count}{}{part}\n", as_of.text()));
    out.into_bytes()
}
