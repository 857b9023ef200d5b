//! The log, line by line.
//!
//! Pure. Takes commits, newest first, gives a line for each, or one for the many small ones of a
//! session.
//!
//! **Invariant:** a line is one line, whatever names and messages hold; every commit is in exactly
//! one.

use serde_json::{Value, json};

use crate::history::{COUNTED_FILES, CauseKind, Deletion, LogEntry, PathStat};
use crate::render::results::push_header;
use crate::render::{SCHEMA_VERSION, counted};
use crate::search::Hit;
use crate::vault::path::{escape, is_commanding};
use crate::vault::{CommitId, VaultPath};

/// Commits of one session have less than so many seconds between them.
const GAP: i64 = 30 * 60;
/// So few are shown one by one.
const FEWEST: usize = 3;
/// Of more commits in a row it is told what they changed together.
const COUNTED: usize = 50;
/// Paths that the line of many commits names.
const NAMED: usize = 3;

/// Commits that follow one another and belong together.
#[derive(Clone, Debug, Default)]
pub struct Session {
    commits: Vec<LogEntry>,
    /// From before the first to the last, where they are too many to be counted one by one.
    net: Option<Vec<PathStat>>,
}

impl Session {
    /// Adds an older commit, or gives it back where it is of another session.
    pub fn add(&mut self, entry: LogEntry) -> Option<LogEntry> {
        match self.commits.last() {
            Some(newer) if !belong_together(newer, &entry) => Some(entry),
            _ => {
                self.commits.push(entry);
                None
            }
        }
    }

    /// How many lines it takes.
    pub fn lines(&self) -> usize {
        if self.commits.len() < FEWEST { self.commits.len() } else { 1 }
    }

    /// The newest and the oldest commit, where there are so many that their changes are better
    /// looked at as one, and nobody else's are between them.
    pub fn span(&self) -> Option<(&LogEntry, &LogEntry)> {
        let is_next = |it: &[LogEntry]| it[0].parents == [it[1].commit];
        match self.commits.as_slice() {
            [newest, .., oldest]
                if self.commits.len() > COUNTED && self.commits.windows(2).all(is_next) =>
            {
                Some((newest, oldest))
            }
            _ => None,
        }
    }

    /// Its commits, newest first.
    pub fn commits(&self) -> &[LogEntry] {
        &self.commits
    }

    /// The same, to have their changes filled in.
    pub fn commits_mut(&mut self) -> &mut [LogEntry] {
        &mut self.commits
    }

    /// What all of them together changed.
    pub fn set_net(&mut self, changes: Vec<PathStat>) {
        self.net = Some(changes);
    }

    /// As a log shows it.
    pub fn text(&self) -> String {
        match self.commits.as_slice() {
            few if few.len() < FEWEST => few.iter().map(line).collect(),
            [newest, .., oldest] => self.summary(newest, oldest),
            _ => String::new(),
        }
    }

    fn summary(&self, newest: &LogEntry, oldest: &LogEntry) -> String {
        let mut paths: Vec<&VaultPath> = Vec::new();
        let changes = || match &self.net {
            Some(net) => net.iter().collect::<Vec<_>>(),
            None => self.commits.iter().flat_map(|it| &it.changes).collect(),
        };
        let mut seen = std::collections::HashSet::new();
        paths.extend(changes().into_iter().map(|it| &it.path).filter(|it| seen.insert(*it)));
        let mut named: Vec<String> = paths.iter().take(NAMED).map(|it| it.to_string()).collect();
        if paths.len() > NAMED {
            named.push("…".to_owned());
        }
        // `14:03` of `2026-06-29 14:03`.
        let (from, to) = (oldest.when(), newest.when());
        let until = if from == to { String::new() } else { format!("–{}", &to[to.len() - 5..]) };
        format!(
            "{}..{} {from}{until} {} {}: {} to {} ({}) ({})\n",
            oldest.commit.short(),
            newest.commit.short(),
            bracket(newest),
            who(newest),
            counted(self.commits.len(), "commit", "commits"),
            counted(paths.len(), "path", "paths"),
            named.join(", "),
            match &self.net {
                // Of so many files not every line is counted.
                Some(net) if net.len() > COUNTED_FILES => "net +? -?".to_owned(),
                Some(net) => format!("net {}", lines(net)),
                None => lines(changes()),
            },
        )
    }
}

/// Whether two commits are of one session: small ones that a program made one after the other.
fn belong_together(newer: &LogEntry, older: &LogEntry) -> bool {
    let key = |it: &LogEntry| {
        let day = it.when().split(' ').next().map(str::to_owned);
        let of = ["Remd-Job", "Remd-Run", "Remd-Session", "Remd-Agent"];
        (
            day,
            it.cause,
            it.author.clone(),
            it.mail.clone(),
            of.map(|key| it.trailer(key).map(str::to_owned)),
        )
    };
    let is_small = |it: &LogEntry| {
        let is_one_of_many = match it.cause {
            Some(CauseKind::Edit | CauseKind::Api | CauseKind::Job | CauseKind::Sync) => true,
            Some(CauseKind::Restore | CauseKind::Undo | CauseKind::Adopt) => false,
            None => true,
        };
        is_one_of_many && !it.is_merge()
    };
    // Programs without trailers say the same each time, but for the time.
    let kind = |it: &LogEntry| match it.cause {
        Some(_) => String::new(),
        None => it.subject.chars().filter(|it| !it.is_numeric()).collect(),
    };
    is_small(newer)
        && is_small(older)
        && (newer.time - older.time).abs() < GAP
        && kind(newer) == kind(older)
        && key(newer) == key(older)
}

/// One change a line: when, cause, who, what, how many lines.
pub fn line(entry: &LogEntry) -> String {
    let mut text = format!(
        "{} {} {} {}: {} ({})",
        entry.commit.short(),
        entry.when(),
        bracket(entry),
        who(entry),
        escape(entry.subject.as_bytes()),
        match (entry.is_merge(), entry.changes.is_empty()) {
            (true, true) => "merge".to_owned(),
            (true, false) => format!("merge, {}", lines(&entry.changes)),
            (false, _) => lines(&entry.changes),
        },
    );
    if let Some(from) = &entry.from {
        text.push_str(&format!(", was {from}"));
    }
    text.push('\n');
    text
}

/// `[job auto_dream] remd, run 01J…`: why, and by whom.
pub fn why(entry: &LogEntry) -> String {
    format!("{} {}", bracket(entry), who(entry))
}

/// `[edit]`, `[job auto_dream]`, `[-]`.
fn bracket(entry: &LogEntry) -> String {
    let cause = entry.cause.map_or("-", CauseKind::as_str);
    match entry.trailer("Remd-Job") {
        Some(job) => format!("[{cause} {}]", escape(job.as_bytes())),
        None => format!("[{cause}]"),
    }
}

/// The author, and the run or session where there is one.
fn who(entry: &LogEntry) -> String {
    let mut text = escape(entry.author.as_bytes()).into_owned();
    for (key, name) in [("Remd-Run", "run"), ("Remd-Session", "session")] {
        if let Some(value) = entry.trailer(key) {
            text.push_str(&format!(", {name} {}", escape(value.as_bytes())));
        }
    }
    text
}

/// `+3 -1`.
fn lines<'a>(changes: impl IntoIterator<Item = &'a PathStat>) -> String {
    let (mut added, mut deleted) = (0, 0);
    for change in changes {
        // A sum of what is here would pass for all.
        if change.is_left_out {
            return "+? -?".to_owned();
        }
        let (more, less) = change.lines.unwrap_or_default();
        added += u64::from(more);
        deleted += u64::from(less);
    }
    format!("+{added} -{deleted}")
}

/// A note that is gone and was found.
#[derive(Clone, PartialEq, Debug)]
pub struct Gone {
    pub hit: Hit,
    pub deletion: Deletion,
}

impl Gone {
    /// What brings it back, word by word; of a name that is no text, with `path_hex` beside.
    fn restore(&self) -> [String; 5] {
        let path = self.deletion.path.lossy().into_owned();
        let before = self.deletion.before.to_string();
        ["remd", "restore", &path, "--at", &before[..RESTORED_FROM]].map(str::to_owned)
    }
}

/// Digits of a commit in a command: more than a short id, as nobody types them.
const RESTORED_FROM: usize = 12;

/// Notes that are gone, each with when, by whom, and what brings it back.
pub fn gone_text(gone: &[Gone], head: Option<CommitId>, partial: Option<&str>) -> Vec<u8> {
    let mut out = String::new();
    for Gone { hit, deletion } in gone {
        push_header(&mut out, hit, false);
        out.push_str(&hit.text);
        if !hit.text.ends_with('\n') {
            out.push('\n');
        }
        let cause = deletion.cause.map_or("-", CauseKind::as_str);
        out.push_str(&format!(
            "  deleted: {} [{cause}] {} in {}\n",
            deletion.when(),
            escape(deletion.author.as_bytes()),
            deletion.commit.short()
        ));
    }
    for it in gone {
        let before = it.deletion.before.to_string();
        out.push_str(&format!(
            "restore: remd restore {} --at {}\n",
            shell_quoted(it.deletion.path.as_bytes()),
            &before[..RESTORED_FROM]
        ));
    }
    if gone.is_empty() {
        out.push_str("No hits.\n");
    }
    out.push_str(&format!(
        "-- {}{}, literal search of last versions",
        counted(gone.len(), "deleted note", "deleted notes"),
        head.map_or(String::new(), |it| format!(" as of {}", it.short())),
    ));
    if let Some(why) = partial {
        out.push_str(&format!(", partial: {why}"));
    }
    out.push('\n');
    out.into_bytes()
}

/// The same as JSON.
pub fn gone_json(gone: &[Gone], head: Option<CommitId>, partial: Option<&str>) -> Vec<u8> {
    let results: Vec<Value> = gone.iter().map(gone_entry).collect();
    let page = json!({
        "schema_version": SCHEMA_VERSION,
        "at": head,
        "partial": partial,
        "results": results,
    });
    format!("{page:#}\n").into_bytes()
}

fn gone_entry(it: &Gone) -> Value {
    let Gone { hit, deletion } = it;
    let mut value = json!({
        "start_line": hit.start_line,
        "end_line": hit.end_line,
        "score": hit.score,
        "name": hit.name,
        "description": hit.description,
        "text": hit.text,
        "deleted": {
            "commit": deletion.commit,
            "time": deletion.time,
            "author": deletion.author,
            "cause": deletion.cause.map(CauseKind::as_str),
        },
        "last_in": deletion.before,
        "restore": it.restore(),
    });
    put_path(&mut value, "path", Some(&hit.path));
    value
}

/// As a shell takes it for one word.
fn shell_quoted(word: &[u8]) -> String {
    let is_plain = |it: char| it.is_alphanumeric() || "/._-+,:@%".contains(it);
    match std::str::from_utf8(word) {
        Ok(text) if !text.chars().any(is_commanding) => {
            if !text.is_empty() && !text.starts_with('-') && text.chars().all(is_plain) {
                return text.to_owned();
            }
            format!("'{}'", text.replace('\'', "'\\''"))
        }
        // What is no text, or would command a terminal, in the form that has codes for it.
        _ => {
            let mut marked = Vec::new();
            for byte in word {
                if matches!(byte, b'\\' | b'\'') {
                    marked.push(b'\\');
                }
                marked.push(*byte);
            }
            format!("$'{}'", escape(&marked))
        }
    }
}

/// A commit as JSON.
pub fn json(entry: &LogEntry) -> Value {
    let trailers: serde_json::Map<String, Value> =
        entry.trailers.iter().map(|(key, value)| (key.clone(), json!(value))).collect();
    let mut value = json!({
        "schema_version": SCHEMA_VERSION,
        "commit": entry.commit,
        "parents": entry.parents,
        "time": entry.time,
        "committed": entry.committed,
        "author": entry.author,
        "email": entry.mail,
        "subject": entry.subject,
        "body": entry.body,
        "cause": entry.cause.map(CauseKind::as_str),
        "trailers": trailers,
        "changes": entry.changes.iter().map(change_json).collect::<Vec<_>>(),
    });
    put_path(&mut value, "path", entry.path.as_ref());
    put_path(&mut value, "renamed_from", entry.from.as_ref());
    value
}

fn put_path(value: &mut Value, key: &str, path: Option<&VaultPath>) {
    if let Some(path) = path {
        value[key] = json!(path);
        if let Some(hex) = path.hex_if_lossy() {
            value[format!("{key}_hex")] = json!(hex);
        }
    }
}

fn change_json(change: &PathStat) -> Value {
    let mut value = json!({
        "old": change.old.map(|it| it.blob),
        "new": change.new.map(|it| it.blob),
        "added": change.lines.map(|it| it.0),
        "deleted": change.lines.map(|it| it.1),
    });
    put_path(&mut value, "path", Some(&change.path));
    if change.is_left_out {
        value["left_out"] = json!(true);
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    fn commit(n: u8, time: i64, cause: Option<CauseKind>, subject: &str) -> LogEntry {
        LogEntry {
            commit: CommitId::from_bytes(&[n; 20]).unwrap(),
            parents: vec![CommitId::from_bytes(&[n + 1; 20]).unwrap()],
            time,
            offset: 0,
            committed: time,
            author: "Ada".to_owned(),
            mail: "ada@example.org".to_owned(),
            subject: subject.to_owned(),
            body: String::new(),
            cause,
            trailers: Vec::new(),
            path: None,
            from: None,
            changes: vec![PathStat {
                path: VaultPath::new(format!("{}.md", n % 5)).unwrap(),
                old: None,
                new: None,
                lines: Some((2, 1)),
                is_left_out: false,
            }],
        }
    }

    fn check(commits: Vec<LogEntry>, expected: &[&str]) {
        let (mut text, mut session) = (String::new(), Session::default());
        for commit in commits {
            if let Some(other) = session.add(commit) {
                text.push_str(&session.text());
                session = Session::default();
                assert_eq!(session.add(other), None);
            }
        }
        text.push_str(&session.text());
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines, expected);
    }

    /// 2026-06-15 12:00:00 UTC.
    const NOON: i64 = 1_781_524_800;

    #[test]
    fn a_session_is_one_line_and_few_commits_are_lines() {
        let edit = |n: u8, minutes: i64| commit(n, NOON - minutes * 60, Some(CauseKind::Edit), "m");
        check(
            vec![edit(1, 0), edit(2, 10), edit(3, 39), edit(7, 40), edit(8, 70), edit(9, 99)],
            &[
                "0707070..0101010 2026-06-15 11:20–12:00 [edit] Ada: 4 commits to 3 paths \
                 (1.md, 2.md, 3.md) (+8 -4)",
                "0808080 2026-06-15 10:50 [edit] Ada: m (+2 -1)",
                "0909090 2026-06-15 10:21 [edit] Ada: m (+2 -1)",
            ],
        );
    }

    #[test]
    fn very_many_commits_in_a_row_are_told_by_what_they_changed_together() {
        let mut session = Session::default();
        for n in 0..60 {
            assert_eq!(
                session.add(commit(n, NOON - i64::from(n), Some(CauseKind::Edit), "m")),
                None
            );
        }
        let (newest, oldest) = session.span().unwrap();
        let net = vec![newest.changes[0].clone(), oldest.changes[0].clone()];
        session.set_net(net);
        assert_eq!(
            session.text(),
            "3b3b3b3..0000000 2026-06-15 11:59–12:00 [edit] Ada: 60 commits to 2 paths (0.md, \
             4.md) (net +4 -2)\n"
        );
        // Somebody else's commit lies between them.
        let mut session = Session::default();
        for n in (0..120).step_by(2) {
            assert_eq!(
                session.add(commit(n, NOON - i64::from(n), Some(CauseKind::Edit), "m")),
                None
            );
        }
        assert!(session.span().is_none());
    }

    #[test]
    fn another_day_author_cause_or_run_is_another_session() {
        let at = |n: u8, seconds: i64| commit(n, NOON + seconds, Some(CauseKind::Job), "m");
        let midnight = 12 * 3600;
        let days = vec![at(1, midnight + 20), at(2, midnight + 10), at(3, midnight - 10)];
        check(
            days,
            &[
                "0101010 2026-06-16 00:00 [job] Ada: m (+2 -1)",
                "0202020 2026-06-16 00:00 [job] Ada: m (+2 -1)",
                "0303030 2026-06-15 23:59 [job] Ada: m (+2 -1)",
            ],
        );
        let run = |n: u8, run: &str| {
            let mut commit = at(n, -i64::from(n));
            commit.trailers =
                vec![("Remd-Job".into(), "auto_dream".into()), ("Remd-Run".into(), run.into())];
            commit
        };
        check(
            vec![run(1, "B"), run(2, "B"), run(3, "B"), run(4, "A")],
            &[
                "0303030..0101010 2026-06-15 11:59 [job auto_dream] Ada, run B: 3 commits to 3 \
                 paths (1.md, 2.md, 3.md) (+6 -3)",
                "0404040 2026-06-15 11:59 [job auto_dream] Ada, run A: m (+2 -1)",
            ],
        );
        let undo = |n: u8| commit(n, NOON, Some(CauseKind::Undo), "undo");
        check(
            vec![undo(1), undo(2), undo(3)],
            &[1, 2, 3]
                .map(|n| format!("0{n}0{n}0{n}0 2026-06-15 12:00 [undo] Ada: undo (+2 -1)"))
                .each_ref()
                .map(String::as_str),
        );
    }

    #[test]
    fn other_programs_have_sessions_too_where_they_say_the_same() {
        let backup =
            |n: u8| commit(n, NOON - i64::from(n), None, &format!("vault backup: 12:0{n}"));
        let by_hand = |n: u8, subject: &str| commit(n, NOON - i64::from(n), None, subject);
        check(
            vec![backup(1), backup(2), backup(3), by_hand(4, "why\nnot"), by_hand(5, "fix")],
            &[
                "0303030..0101010 2026-06-15 11:59 [-] Ada: 3 commits to 3 paths (1.md, 2.md, \
                 3.md) (+6 -3)",
                "0404040 2026-06-15 11:59 [-] Ada: why\\nnot (+2 -1)",
                "0505050 2026-06-15 11:59 [-] Ada: fix (+2 -1)",
            ],
        );
    }

    #[test]
    fn a_command_to_paste_is_one_command() {
        let check = |word: &str, expected: &str| {
            assert_eq!(shell_quoted(word.as_bytes()), expected);
        };
        check("a/b-1.md", "a/b-1.md");
        check("日記.md", "日記.md");
        check("a b's.md", "'a b'\\''s.md'");
        check("$(rm).md", "'$(rm).md'");
        check("-x.md", "'-x.md'");
        check("line\nbreak's.md", "$'line\\nbreak\\'s.md'");
        assert_eq!(shell_quoted(b"bad\xff\\.md"), "$'bad\\377\\\\.md'");
    }

    #[test]
    fn nothing_in_a_commit_forges_a_line() {
        let mut odd = commit(1, NOON, Some(CauseKind::Api), "a\nb");
        odd.author = "x\n0000000 forged".to_owned();
        odd.trailers = vec![("Remd-Session".into(), "s\n1".into())];
        odd.from = Some(VaultPath::new("old\nname.md").unwrap());
        check(
            vec![odd],
            &["0101010 2026-06-15 12:00 [api] x\\n0000000 forged, session s\\n1: a\\nb (+2 -1), \
               was old\\nname.md"],
        );
    }
}
