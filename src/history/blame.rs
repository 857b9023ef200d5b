//! Who wrote each line of a note, and by which commit.
//!
//! Takes a note at a commit, gives for each of its lines the commit that brought it, across renames
//! and moves of text between notes. `git blame` does the work, as a child with a deadline. Any thread
//! that may wait.
//!
//! **Invariant:** no filter, hook, pager or fetch is started, whatever the settings say; what is not
//! known at the deadline is told, never guessed.

use std::collections::HashMap;
use std::ffi::OsString;
use std::io::BufReader;
use std::ops::RangeInclusive;
use std::os::unix::ffi::OsStringExt as _;
use std::time::{Duration, Instant};

use gix::ObjectId;
use gix::bstr::ByteSlice as _;
use gix::diff::blob::{Algorithm, Diff, InternedInput};

use crate::base::clock;
use crate::base::fs;
use crate::base::process::{Job, ProcessError, Talk};
use crate::history::drivers::{environment, said};
use crate::history::error::{GitError, ReadError, git};
use crate::history::log::Said;
use crate::history::pointer;
use crate::history::reader::{Reader, known, read_blob};
use crate::vault::path::c_unquoted;
use crate::vault::{CommitId, VaultPath};

/// What is kept for every commit that a line is of.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Writer {
    pub commit: CommitId,
    /// Seconds since the epoch, by the author, and how far his clock was ahead of UTC.
    pub time: i64,
    pub offset: i32,
    pub author: String,
    pub mail: String,
    pub subject: String,
    pub trailers: Vec<(String, String)>,
}

impl Writer {
    /// When, on its author's clock: `2026-06-29 14:03`.
    pub fn when(&self) -> String {
        crate::history::log::when(self.time, self.offset)
    }

    /// The first trailer of that name.
    pub fn trailer(&self, key: &str) -> Option<&str> {
        self.trailers.iter().find(|it| it.0.eq_ignore_ascii_case(key)).map(|it| it.1.as_str())
    }

    /// All trailers of that name.
    pub fn all(&self, key: &str) -> impl Iterator<Item = &str> {
        let named = move |it: &&(String, String)| it.0.eq_ignore_ascii_case(key);
        self.trailers.iter().filter(named).map(|it| it.1.as_str())
    }
}

/// Where a line comes from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Origin {
    /// Its place among the writers.
    pub writer: usize,
    /// What its note was called then; `None` outside the vault.
    pub path: Option<VaultPath>,
    /// Which line it was there, from 1.
    pub line: u32,
}

/// What is known of a line.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Source {
    Commit(Origin),
    /// It is on the disk, and in no commit yet.
    Disk,
    /// Nobody knew at the deadline.
    Unknown,
}

/// The lines of a note and where they come from.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Blame {
    pub writers: Vec<Writer>,
    /// Text without its end, and where it comes from.
    pub lines: Vec<(Vec<u8>, Source)>,
    /// The number of the first of them.
    pub first: u32,
    /// Why some are not known, where that is so.
    pub partial: Option<String>,
    /// Whether a shallow clone ends here: the oldest commit stands for all before it.
    pub is_shallow: bool,
}

/// Why nobody can say who wrote a line.
#[derive(Debug, thiserror::Error)]
pub enum BlameError {
    #[error("There is no note `{path}` in commit {}", commit.short())]
    NoNote { path: VaultPath, commit: CommitId },
    #[error("`{path}` is stored in another form, whose lines are not the note's")]
    Stored { path: VaultPath },
    #[error("`{path}` has {lines} lines")]
    NoLine { path: VaultPath, lines: usize },
    #[error("`git` is not installed")]
    NoGit,
    #[error("`git blame` failed{said}")]
    Failed { said: String },
    #[error(transparent)]
    Process(ProcessError),
    #[error(transparent)]
    Read(#[from] ReadError),
}

impl BlameError {
    /// What the person at the keyboard can do about it.
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            Self::NoNote { .. } => {
                "`remd log PATH` says what became of it; the mount's `history/` has its versions."
                    .to_owned()
            }
            Self::Stored { .. } => "Git LFS or git-crypt keeps it.".to_owned(),
            Self::NoLine { .. } => "Lines count from 1.".to_owned(),
            Self::NoGit => "sudo apt install git".to_owned(),
            Self::Failed { .. } => {
                "`git blame` on the note says the same; `git fsck` looks for damage.".to_owned()
            }
            Self::Process(_) => return None,
            Self::Read(err) => err.hint(),
        })
    }
}

impl From<GitError> for BlameError {
    fn from(err: GitError) -> Self {
        Self::Read(err.into())
    }
}

/// How long git's last words are waited for once it has ended.
const GRACE: Duration = Duration::from_secs(2);

/// Settings of a person's that would start something.
const SETTINGS: [&str; 4] =
    ["core.quotePath=false", "core.fsmonitor=false", "core.pager=cat", "protocol.allow=never"];

impl Reader {
    /// Where the lines of a note come from, those of `lines` only where that is given, by `until`.
    pub fn blame(
        &self,
        commit: CommitId,
        path: &VaultPath,
        lines: Option<RangeInclusive<u32>>,
        until: Instant,
    ) -> Result<Blame, BlameError> {
        let no_note = || BlameError::NoNote { path: path.clone(), commit };
        let repo = self.cached();
        let entry = self.entry(commit, path)?.ok_or_else(no_note)?;
        if entry.mode == crate::vault::FileMode::Gitlink {
            return Err(no_note());
        }
        let bytes = read_blob(&repo, entry.blob)?;
        if pointer::is_lfs(&bytes) || pointer::is_encrypted(&bytes) {
            return Err(BlameError::Stored { path: path.clone() });
        }
        let all: Vec<&[u8]> = split_lines(&bytes).collect();
        let (first, last) = match &lines {
            Some(lines) => (*lines.start(), (*lines.end()).min(count(all.len()))),
            None => (1, count(all.len())),
        };
        if lines.is_some() && (first == 0 || first > last) {
            return Err(BlameError::NoLine { path: path.clone(), lines: all.len() });
        }
        let wanted =
            all.iter().skip(count_back(first)).take(count_back((last + 2).saturating_sub(first)));
        let mut blame = Blame {
            lines: wanted.map(|it| (it.to_vec(), Source::Unknown)).collect(),
            first,
            is_shallow: git("read what a shallow clone left out", repo.is_shallow())?,
            ..Blame::default()
        };
        if blame.lines.is_empty() {
            return Ok(blame);
        }
        let range = lines.is_some().then(|| format!("-L{first},{last}"));
        self.ask_git(&repo, commit, path, range, until, &mut blame)?;
        Ok(blame)
    }

    /// The same for the note as it lies on the disk: what no commit has yet is told as that.
    pub fn blame_on_disk(
        &self,
        path: &VaultPath,
        lines: Option<RangeInclusive<u32>>,
        until: Instant,
    ) -> Result<Blame, BlameError> {
        let head = self.head()?.map(|it| it.commit);
        let entry = match head {
            Some(head) => self.entry(head, path)?,
            None => None,
        };
        let disk = self.on_the_disk(path)?;
        let (head, disk) = match (head, entry, disk) {
            (Some(head), Some(entry), Some(disk)) => {
                let stored = self.read_blob(entry.blob)?;
                if plain(&stored) == plain(&disk) || pointer::is_lfs(&stored) {
                    return self.blame(head, path, lines, until);
                }
                (Some((head, stored)), disk)
            }
            (Some(head), _, None) => return self.blame(head, path, lines, until),
            (None, _, None) => {
                let name = path.to_string();
                return Err(ReadError::NotFound { what: "note", name }.into());
            }
            (_, None, Some(disk)) | (None, _, Some(disk)) => (None, disk),
        };
        let disk = plain(&disk);
        let all: Vec<&[u8]> = split_lines(&disk).collect();
        let (first, last) = match &lines {
            Some(lines) => (*lines.start(), (*lines.end()).min(count(all.len()))),
            None => (1, count(all.len())),
        };
        if lines.is_some() && (first == 0 || first > last) {
            return Err(BlameError::NoLine { path: path.clone(), lines: all.len() });
        }
        let committed = match head {
            Some((head, stored)) => {
                let kept = unchanged(&plain(&stored), &disk);
                let of = count_back(first)..usize::try_from(last).unwrap_or(usize::MAX);
                let kept: Vec<Option<u32>> = kept.get(of).map(<[_]>::to_vec).unwrap_or_default();
                let known: Vec<u32> = kept.iter().flatten().copied().collect();
                match (known.iter().min(), known.iter().max()) {
                    (Some(low), Some(high)) => {
                        Some((self.blame(head, path, Some(*low..=*high), until)?, kept))
                    }
                    _ => None,
                }
            }
            None => None,
        };
        let text =
            all.iter().skip(count_back(first)).take(count_back((last + 2).saturating_sub(first)));
        let texts: Vec<Vec<u8>> = text.map(|it| it.to_vec()).collect();
        let Some((blame, kept)) = committed else {
            let lines = texts.into_iter().map(|it| (it, Source::Disk)).collect();
            return Ok(Blame { lines, first, ..Blame::default() });
        };
        let lines = texts.into_iter().zip(kept).map(|(text, was)| {
            let source = was
                .and_then(|it| blame.lines.get(count_back((it + 1).saturating_sub(blame.first))));
            (text, source.map_or(Source::Disk, |it| it.1.clone()))
        });
        Ok(Blame { lines: lines.collect(), first, ..blame })
    }

    fn ask_git(
        &self,
        repo: &gix::Repository,
        commit: CommitId,
        path: &VaultPath,
        range: Option<String>,
        until: Instant,
        blame: &mut Blame,
    ) -> Result<(), BlameError> {
        let mut env = environment();
        env.push(("LC_ALL".into(), Some("C".into())));
        env.push(("GIT_NO_LAZY_FETCH".into(), Some("1".into())));
        env.push(("GIT_OPTIONAL_LOCKS".into(), Some("0".into())));
        let settings = SETTINGS.iter().flat_map(|it| ["-c".into(), OsString::from(it)]);
        let options =
            ["--no-pager", "blame", "--incremental", "-M", "-C", "--no-textconv", "--no-progress"];
        let mut args: Vec<OsString> = settings.chain(options.map(OsString::from)).collect();
        args.extend(range.map(OsString::from));
        args.extend([commit.to_string().into(), "--".into()]);
        args.push(OsString::from_vec(self.place.rela(path).into()));
        let limit = until.saturating_duration_since(clock::now());
        let job =
            Job { args, dir: Some(self.place.workdir.clone()), env, ..Job::new("git", limit) };
        let mut talk = Talk::start(&job).map_err(|err| match err {
            ProcessError::Start { source, .. } if source.kind() == std::io::ErrorKind::NotFound => {
                BlameError::NoGit
            }
            err => BlameError::Process(err),
        })?;
        talk.to = None;
        talk.begin();
        let Some(from) = talk.from.take() else { return Ok(()) };
        let mut read = Reading { reader: self, repo, known: HashMap::new(), blame };
        // The child ends, or its deadline does: the pipe ends with it.
        read.all(BufReader::new(from))?;
        let missing = blame.lines.iter().filter(|it| it.1 == Source::Unknown).count();
        if missing == 0 {
            return Ok(());
        }
        if !talk.is_killed() {
            return Err(BlameError::Failed { said: said(&talk.last_words(GRACE)) });
        }
        blame.partial = Some(format!(
            "git had {} s, and does not know yet where {missing} of {} lines come from",
            limit.as_secs_f32().ceil(),
            blame.lines.len()
        ));
        Ok(())
    }

    /// The bytes of a note on the disk, where they are not those of a commit; `None` where nothing is
    /// there or it is no file.
    pub fn on_the_disk(&self, path: &VaultPath) -> Result<Option<Vec<u8>>, ReadError> {
        const MOST: u64 = 64 << 20;
        let place = self.place.disk(path);
        match fs::lstat_if_there(&place)? {
            Some(meta) if meta.is_file() && meta.len() <= MOST => {
                Ok(Some(fs::read_regular(&place, MOST)?))
            }
            _ => Ok(None),
        }
    }

    /// Who made a commit, and what it says.
    pub fn writer(&self, commit: CommitId) -> Result<Writer, ReadError> {
        let repo = self.repo.to_thread_local();
        writer_of(&repo, known(&repo, commit)?)
    }
}

/// The lines of a text as git counts them, without their ends.
pub fn split_lines(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    bytes.split_inclusive(|it| *it == b'\n').map(|it| it.strip_suffix(b"\n").unwrap_or(it))
}

/// A text without the carriage returns that a checkout may add.
fn plain(bytes: &[u8]) -> Vec<u8> {
    bytes.replace(b"\r\n", b"\n")
}

/// For each line of `new` the number of the line of `old` that it is.
fn unchanged(old: &[u8], new: &[u8]) -> Vec<Option<u32>> {
    let input = InternedInput::new(old, new);
    let mut diff = Diff::compute(Algorithm::Histogram, &input);
    diff.postprocess_lines(&input);
    let mut lines = Vec::new();
    let mut was: u32 = 1;
    for hunk in diff.hunks() {
        while count(lines.len()) < hunk.after.start {
            lines.push(Some(was));
            was += 1;
        }
        lines.extend(hunk.after.clone().map(|_| None));
        was += count(hunk.before.len());
    }
    while lines.len() < split_lines(new).count() {
        lines.push(Some(was));
        was += 1;
    }
    lines
}

/// What git says, being read.
struct Reading<'a> {
    reader: &'a Reader,
    repo: &'a gix::Repository,
    known: HashMap<ObjectId, usize>,
    blame: &'a mut Blame,
}

impl Reading<'_> {
    /// `<id> <line there> <line here> <how many>`, then headers, the last of which is the file's name.
    fn all(&mut self, mut from: impl std::io::BufRead) -> Result<(), ReadError> {
        let mut group: Option<(ObjectId, u32, u32, u32)> = None;
        let mut line = Vec::new();
        loop {
            line.clear();
            match from.read_until(b'\n', &mut line) {
                Ok(0) | Err(_) => return Ok(()),
                Ok(_) => {}
            }
            // Cut off in the middle, by the deadline.
            let Some(text) = line.strip_suffix(b"\n") else { return Ok(()) };
            match group {
                None => group = begin(text),
                Some((id, there, here, length)) => {
                    let Some(name) = text.strip_prefix(b"filename ") else { continue };
                    let path = self.reader.place.vault_path(c_unquoted(name).as_slice().as_bstr());
                    self.take(id, there, here, length, path)?;
                    group = None;
                }
            }
        }
    }

    fn take(
        &mut self,
        id: ObjectId,
        there: u32,
        here: u32,
        length: u32,
        path: Option<VaultPath>,
    ) -> Result<(), ReadError> {
        let writer = match self.known.get(&id) {
            Some(writer) => *writer,
            None => {
                self.blame.writers.push(writer_of(self.repo, id)?);
                let writer = self.blame.writers.len() - 1;
                self.known.insert(id, writer);
                writer
            }
        };
        for step in 0..length {
            let at = here.saturating_sub(self.blame.first).saturating_add(step);
            let at = usize::try_from(at).unwrap_or(usize::MAX);
            if let Some(slot) = self.blame.lines.get_mut(at) {
                let line = there.saturating_add(step);
                slot.1 = Source::Commit(Origin { writer, path: path.clone(), line });
            }
        }
        Ok(())
    }
}

fn begin(text: &[u8]) -> Option<(ObjectId, u32, u32, u32)> {
    let mut parts = text.split(|it| *it == b' ');
    let id = ObjectId::from_hex(parts.next()?).ok()?;
    let mut number = || std::str::from_utf8(parts.next()?).ok()?.parse().ok();
    Some((id, number()?, number()?, number()?))
}

fn writer_of(repo: &gix::Repository, id: ObjectId) -> Result<Writer, ReadError> {
    let Said { commit, time, offset, author, mail, parsed, .. } = Said::of(repo, id)?;
    let (subject, trailers) = (parsed.subject, parsed.trailers);
    Ok(Writer { commit, time, offset, author, mail, subject, trailers })
}

fn count(lines: usize) -> u32 {
    u32::try_from(lines).unwrap_or(u32::MAX)
}

fn count_back(number: u32) -> usize {
    usize::try_from(number.saturating_sub(1)).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_stays_is_known_by_its_old_number() {
        let check = |old: &str, new: &str, expected: &[u32]| {
            let found: Vec<u32> = unchanged(old.as_bytes(), new.as_bytes())
                .into_iter()
                .map(Option::unwrap_or_default)
                .collect();
            assert_eq!(found, expected, "{old:?} {new:?}");
        };
        check("a\nb\nc\n", "a\nb\nc\n", &[1, 2, 3]);
        check("a\nb\nc\n", "a\nx\nc\n", &[1, 0, 3]);
        check("a\nb\nc\n", "new\na\nc\nend", &[0, 1, 3, 0]);
        check("", "a\n", &[0]);
        check("a\n", "", &[]);
    }
}
