//! From a line back to what it was made from.
//!
//! Takes a line of a note, gives its commit, what that commit says it was made from (notes, files, the
//! session), and so on from there: the chain back to the evidence. Reads only what is committed. Any
//! thread that may wait.
//!
//! **Invariant:** the chain ends: no place is gone through twice, and it has at most [`DEEPEST`]
//! steps. What is missing is told, with the commit that still has it.

use std::collections::{BTreeSet, HashSet};
use std::time::Instant;

use crate::history::blame::{BlameError, Source, Writer, split_lines};
use crate::history::error::ReadError;
use crate::history::reader::Reader;
use crate::history::talk::{Message, messages};
use crate::vault::overlap::{share, words};
use crate::vault::path::c_unquoted;
use crate::vault::{BlobId, CommitId, VaultPath};

/// Steps from the line to the end of its chain.
pub const DEEPEST: usize = 8;
/// Inputs of one commit that are looked into.
const MOST_INPUTS: usize = 32;
/// A line with less of the words is another line.
const LEAST_SHARE: f32 = 0.4;
/// Versions that are looked through for the last one of a file that is gone.
const MOST_VERSIONS: usize = 1000;

/// A line, or a whole note, and what it was made from.
#[derive(Clone, PartialEq, Debug)]
pub struct Step {
    pub path: VaultPath,
    /// The commit at which it is looked at; `None` for the disk.
    pub at: Option<CommitId>,
    /// `None` for a note as a whole.
    pub line: Option<u32>,
    pub text: String,
    /// Who brought it; `None` while no commit has it.
    pub writer: Option<Writer>,
    /// What the line's note was called in that commit, where that is another name, and its line.
    pub written: Option<(VaultPath, u32)>,
    pub evidence: Vec<Evidence>,
    /// Why the chain goes no further here, where it might.
    pub cut: Option<&'static str>,
}

/// One thing that a commit says it was made from.
#[derive(Clone, PartialEq, Debug)]
pub struct Evidence {
    /// As the commit has it.
    pub named: String,
    pub found: Found,
}

#[derive(Clone, PartialEq, Debug)]
pub enum Found {
    /// A text, where the words stand in it (with their share of the words), and where that came from.
    Text { path: VaultPath, at: CommitId, place: Option<(u32, f32)>, step: Box<Step> },
    /// A file that is no text.
    File { path: Option<VaultPath>, at: CommitId, blob: BlobId, bytes: usize },
    /// The message of a conversation that has most of the words, and their share.
    Message { path: VaultPath, at: CommitId, message: Box<Message>, share: f32 },
    /// A conversation of which no message has any of the words.
    Conversation { path: VaultPath, at: CommitId, messages: usize },
    /// It is not there, and the last commit that has it, where there is one.
    Missing { why: String, last: Option<(VaultPath, CommitId)> },
}

/// What a chain is followed by.
pub struct Chain<'a> {
    reader: &'a Reader,
    /// The folder of conversations, relative to the vault.
    sessions: &'a str,
    until: Instant,
    seen: HashSet<(CommitId, VaultPath, Option<u32>)>,
}

impl<'a> Chain<'a> {
    pub fn new(reader: &'a Reader, sessions: &'a str, until: Instant) -> Self {
        Self { reader, sessions, until, seen: HashSet::new() }
    }

    /// The chain of a line of a note as it lies on the disk.
    pub fn of_line(&mut self, path: &VaultPath, line: u32) -> Result<Step, BlameError> {
        let blame = self.reader.blame_on_disk(path, Some(line..=line), self.until)?;
        let head = self.reader.head()?.map(|it| it.commit);
        self.of_blame(path, head, line, blame, 0)
    }

    /// The chain of a note as a whole: of the commit that changed it last.
    pub fn of_note(&mut self, path: &VaultPath) -> Result<Step, BlameError> {
        let head = self.reader.head()?.map(|it| it.commit);
        let Some(head) = head else { return Ok(self.uncommitted(path, None, String::new())) };
        let text = match self.reader.entry(head, path)? {
            Some(entry) => self.text_of(path, entry.blob)?.unwrap_or_default(),
            None => String::new(),
        };
        self.whole(path, head, &text, 0)
    }

    fn uncommitted(&self, path: &VaultPath, line: Option<u32>, text: String) -> Step {
        Step {
            path: path.clone(),
            at: None,
            line,
            text,
            writer: None,
            written: None,
            evidence: Vec::new(),
            cut: None,
        }
    }

    fn of_blame(
        &mut self,
        path: &VaultPath,
        at: Option<CommitId>,
        line: u32,
        blame: crate::history::Blame,
        depth: usize,
    ) -> Result<Step, BlameError> {
        let mut lines = blame.lines.into_iter();
        let Some((text, source)) = lines.next() else {
            return Err(BlameError::NoLine { path: path.clone(), lines: 0 });
        };
        let text = String::from_utf8_lossy(&text).into_owned();
        let mut step = Step { at, ..self.uncommitted(path, Some(line), text) };
        let origin = match source {
            Source::Commit(origin) => origin,
            Source::Disk => return Ok(Step { at: None, ..step }),
            Source::Unknown => {
                step.cut = Some("git did not say in time which commit it is of");
                return Ok(step);
            }
        };
        let Some(writer) = blame.writers.into_iter().nth(origin.writer) else { return Ok(step) };
        let written = origin.path.unwrap_or_else(|| path.clone());
        let is_new = self.seen.insert((writer.commit, written.clone(), Some(origin.line)));
        let wanted = words(&step.text);
        self.follow(&mut step, writer, &wanted, is_new, depth)?;
        step.written = Some((written, origin.line)).filter(|it| it.0 != *path);
        Ok(step)
    }

    /// A note as a whole, by the words of `text`.
    fn whole(
        &mut self,
        path: &VaultPath,
        at: CommitId,
        text: &str,
        depth: usize,
    ) -> Result<Step, BlameError> {
        let mut step = Step { at: Some(at), ..self.uncommitted(path, None, String::new()) };
        let newest = self.reader.versions_from(at, path, 1)?.into_iter().next();
        let Some(newest) = newest else { return Ok(step) };
        let is_new = self.seen.insert((newest.commit, newest.path.clone(), None));
        let writer = self.reader.writer(newest.commit)?;
        self.follow(&mut step, writer, &words(text), is_new, depth)?;
        Ok(step)
    }

    /// Looks into what the commit of `step` says it was made from.
    fn follow(
        &mut self,
        step: &mut Step,
        writer: Writer,
        wanted: &BTreeSet<String>,
        is_new: bool,
        depth: usize,
    ) -> Result<(), BlameError> {
        let session = writer.trailer("Remd-Session").map(str::to_owned);
        let inputs: Vec<String> = writer.all("Remd-Input").map(str::to_owned).collect();
        let commit = writer.commit;
        step.writer = Some(writer);
        let has_more = session.is_some() || !inputs.is_empty();
        step.cut = match () {
            () if !has_more => None,
            () if !is_new => Some("it was gone through above"),
            () if depth >= DEEPEST => Some("the chain is longer than is followed"),
            () => None,
        };
        if !has_more || step.cut.is_some() {
            return Ok(());
        }
        let parent = self.reader.parent(commit)?;
        let mut told = HashSet::new();
        for named in inputs.iter().take(MOST_INPUTS) {
            let found = self.input(named, commit, parent, wanted, depth)?;
            if let Found::Message { path, .. } | Found::Conversation { path, .. } = &found {
                told.insert(path.clone());
            }
            step.evidence.push(Evidence { named: named.clone(), found });
        }
        if let Some(session) = session {
            let named = session;
            match self.session_path(&named) {
                Some(path) if told.contains(&path) => {}
                Some(path) => {
                    let found = self.conversation(&path, commit, parent, wanted)?;
                    step.evidence.push(Evidence { named, found });
                }
                None => {
                    let why = "it names no conversation of this vault".to_owned();
                    step.evidence
                        .push(Evidence { named, found: Found::Missing { why, last: None } });
                }
            }
        }
        Ok(())
    }

    /// What a session's name stands for; a name cannot lead anywhere else.
    fn session_path(&self, session: &str) -> Option<VaultPath> {
        let is_name = !session.is_empty() && !session.contains(['/', '\0']);
        let path = format!("{}/dialog/{session}.jsonl", self.sessions);
        is_name.then(|| VaultPath::new(path).ok()).flatten()
    }

    fn input(
        &mut self,
        named: &str,
        commit: CommitId,
        parent: Option<CommitId>,
        wanted: &BTreeSet<String>,
        depth: usize,
    ) -> Result<Found, BlameError> {
        if let Some(blob) = BlobId::from_hex(named) {
            return self.blob(blob, commit, parent, wanted, depth);
        }
        // A name of odd characters is written with escapes.
        let escaped = c_unquoted(format!("\"{named}\"").as_bytes());
        let paths: Vec<VaultPath> =
            [named.as_bytes(), &escaped].iter().filter_map(|it| VaultPath::new(it).ok()).collect();
        for path in &paths {
            // As the job found it, before its own commit.
            for at in parent.into_iter().chain([commit]) {
                if let Some(entry) = self.reader.entry(at, path)? {
                    return self.text(path, at, entry.blob, wanted, depth);
                }
            }
        }
        let last = match paths.first() {
            Some(path) => self.last_of(path)?,
            None => None,
        };
        let why = match paths.is_empty() {
            true => "it is neither a blob nor a path in the vault".to_owned(),
            false => format!("commit {} does not have it", commit.short()),
        };
        Ok(Found::Missing { why, last })
    }

    fn blob(
        &mut self,
        blob: BlobId,
        commit: CommitId,
        parent: Option<CommitId>,
        wanted: &BTreeSet<String>,
        depth: usize,
    ) -> Result<Found, BlameError> {
        for at in parent.into_iter().chain([commit]) {
            let listed = self.reader.list(at)?;
            if let Some((path, _)) = listed.into_iter().find(|it| it.1.blob == blob) {
                return self.text(&path, at, blob, wanted, depth);
            }
        }
        match self.reader.read_blob(blob) {
            Ok(bytes) => Ok(Found::File { path: None, at: commit, blob, bytes: bytes.len() }),
            Err(err) if err.is_not_found() => {
                let why = "the repository does not have this blob".to_owned();
                Ok(Found::Missing { why, last: None })
            }
            Err(err) => Err(err.into()),
        }
    }

    /// A file of a commit: where the words stand in it, and where that came from.
    fn text(
        &mut self,
        path: &VaultPath,
        at: CommitId,
        blob: BlobId,
        wanted: &BTreeSet<String>,
        depth: usize,
    ) -> Result<Found, BlameError> {
        if path.is_within(self.sessions.as_bytes()) && path.extension() == Some(b"jsonl") {
            return self.conversation_at(path, at, blob, wanted);
        }
        let Some(text) = self.text_of(path, blob)? else {
            let bytes = self.reader.read_blob(blob)?.len();
            return Ok(Found::File { path: Some(path.clone()), at, blob, bytes });
        };
        let place = best_line(&text, wanted);
        let step = match place {
            Some((line, _)) => {
                let blame = self.reader.blame(at, path, Some(line..=line), self.until)?;
                self.of_blame(path, Some(at), line, blame, depth + 1)?
            }
            None => {
                let words: Vec<&str> = wanted.iter().map(String::as_str).collect();
                self.whole(path, at, &words.join(" "), depth + 1)?
            }
        };
        Ok(Found::Text { path: path.clone(), at, place, step: Box::new(step) })
    }

    fn conversation(
        &mut self,
        path: &VaultPath,
        commit: CommitId,
        parent: Option<CommitId>,
        wanted: &BTreeSet<String>,
    ) -> Result<Found, BlameError> {
        // The log of a session may be committed after what was made of it.
        let head = self.reader.head()?.map(|it| it.commit);
        for at in [Some(commit), parent, head].into_iter().flatten() {
            if let Some(entry) = self.reader.entry(at, path)? {
                return self.conversation_at(path, at, entry.blob, wanted);
            }
        }
        let last = self.last_of(path)?;
        Ok(Found::Missing { why: format!("`{path}` is not there"), last })
    }

    fn conversation_at(
        &self,
        path: &VaultPath,
        at: CommitId,
        blob: BlobId,
        wanted: &BTreeSet<String>,
    ) -> Result<Found, BlameError> {
        let text = self.text_of(path, blob)?.unwrap_or_default();
        let all = messages(&text);
        let count = all.len();
        let mut best: Option<(Message, f32)> = None;
        for message in all {
            let share = share(wanted, &message.text);
            if share > 0.0 && best.as_ref().is_none_or(|it| it.1 < share) {
                best = Some((message, share));
            }
        }
        let path = path.clone();
        Ok(match best {
            Some((message, share)) => {
                Found::Message { path, at, message: Box::new(message), share }
            }
            None => Found::Conversation { path, at, messages: count },
        })
    }

    /// The newest commit that has a path which is gone.
    fn last_of(&self, path: &VaultPath) -> Result<Option<(VaultPath, CommitId)>, ReadError> {
        let versions = self.reader.versions(path, MOST_VERSIONS)?;
        Ok(versions.into_iter().find(|it| it.entry.is_some()).map(|it| (it.path, it.commit)))
    }

    /// A file as text; `None` for what is none, or is stored in a form that cannot be read here.
    fn text_of(&self, path: &VaultPath, blob: BlobId) -> Result<Option<String>, ReadError> {
        let Ok(bytes) = self.reader.read_note(path, blob)? else { return Ok(None) };
        if bytes.iter().take(8000).any(|it| *it == 0) {
            return Ok(None);
        }
        Ok(Some(String::from_utf8_lossy(&bytes).into_owned()))
    }
}

/// The line that has most of the words, and their share.
pub fn best_line(text: &str, wanted: &BTreeSet<String>) -> Option<(u32, f32)> {
    let mut best: Option<(u32, f32)> = None;
    for (line, number) in split_lines(text.as_bytes()).zip(1u32..) {
        let share = share(wanted, &String::from_utf8_lossy(line));
        if share >= LEAST_SHARE && best.is_none_or(|it| it.1 < share) {
            best = Some((number, share));
        }
    }
    best
}
