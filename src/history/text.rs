//! Differences as text.
//!
//! Takes two states of the vault, gives a unified diff that `git apply` reads. Any thread.

use std::sync::Arc;

use gix::ObjectId;
use gix::bstr::{BString, ByteSlice as _};
use gix::diff::blob::unified_diff::{ConsumeHunk, ContextSize, DiffLineKind, HunkHeader};
use gix::diff::blob::{Algorithm, InternedInput, UnifiedDiff};

use crate::base::fs;
use crate::base::process::Stop;
use crate::history::drivers::{Drivers, Limits};
use crate::history::error::{ReadError, git};
use crate::history::filters::{Cleaning, Filtered, Filters};
use crate::history::place::Place;
use crate::history::reader::{self, Reader, Side};
use crate::history::seen::Seen;
use crate::history::undo::Plan;
use crate::vault::change::{Entry, FileMode};
use crate::vault::path::c_quoted;
use crate::vault::{Change, ChangeSet, CommitId, VaultPath};

/// A file on disk is compared up to here.
const DISK_LIMIT: u64 = 64 << 20;

/// The whole difference, file by file.
pub(super) fn diff_text(
    repo: &gix::Repository,
    place: &Place,
    from: Side,
    to: Side,
    path: Option<&VaultPath>,
) -> Result<Vec<u8>, ReadError> {
    let mut out = Vec::new();
    let is_wanted = |it: &VaultPath| path.is_none_or(|path| it.is_within(path.as_bytes()));
    let tree = |side: Side| match side {
        Side::Commit(commit) => reader::tree_of(repo, commit).map(Some),
        Side::Nothing | Side::Disk => Ok(None),
    };
    if from != Side::Disk && to != Side::Disk {
        let changes = reader::vault_changes(repo, place, tree(from)?, tree(to)?)?;
        for (path, change) in changes.iter().filter(|it| is_wanted(it.0)) {
            if push_left_out(&mut out, repo, path, [change.old, change.new]) {
                continue;
            }
            let content = |entry: Option<Entry>| match entry {
                Some(it) if it.mode != FileMode::Gitlink => reader::read_blob(repo, it.blob),
                _ => Ok(Vec::new()),
            };
            push_file(&mut out, path, *change, &content(change.old)?, &content(change.new)?);
        }
        return Ok(out);
    }
    let commit = if from == Side::Disk { to } else { from };
    let committed = reader::vault_changes(repo, place, None, tree(commit)?)?;
    let mut disk = Disk::new(repo, place)?;
    for path in disk.paths(&committed, path)?.iter().filter(|it| is_wanted(it)) {
        let old = committed.get(path).and_then(|it| it.new);
        if old.is_some_and(|it| it.mode == FileMode::Gitlink) {
            continue;
        }
        let new = match disk.read(path, old)? {
            Ok(new) => new,
            Err(why) => {
                let line = format!("# {} is not compared: {why}\n", c_quoted(path));
                out.extend_from_slice(line.as_bytes());
                continue;
            }
        };
        if old == new.as_ref().map(|it| it.0) {
            continue;
        }
        if push_left_out(&mut out, repo, path, [old, None]) {
            continue;
        }
        let old_bytes = match old {
            Some(it) => reader::read_blob(repo, it.blob)?,
            None => Vec::new(),
        };
        let (new, new_bytes) = match new {
            Some((entry, bytes)) => (Some(entry), bytes),
            None => (None, Vec::new()),
        };
        match from {
            Side::Disk => {
                push_file(&mut out, path, Change { old: new, new: old }, &new_bytes, &old_bytes)
            }
            _ => push_file(&mut out, path, Change { old, new }, &old_bytes, &new_bytes),
        }
    }
    Ok(out)
}

impl Reader {
    /// What a plan changes, as a unified diff.
    pub fn plan_text(&self, plan: &Plan) -> Result<Vec<u8>, ReadError> {
        let repo = self.repo.to_thread_local();
        let mut out = Vec::new();
        for (path, change) in plan.changes.iter() {
            let content = |entry: Option<Entry>| match entry {
                Some(it) => match plan.fresh.get(&it.blob) {
                    Some(bytes) => Ok(bytes.clone()),
                    None => reader::read_blob(&repo, it.blob),
                },
                None => Ok(Vec::new()),
            };
            push_file(&mut out, path, *change, &content(change.old)?, &content(change.new)?);
        }
        Ok(out)
    }
}

/// How much of what a commit has is on disk.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Likeness {
    /// Counted no further than half of all.
    pub there: usize,
    pub all: usize,
}

impl Likeness {
    /// At least half; nothing of nothing is enough.
    pub fn is_enough(self) -> bool {
        self.there >= self.all.div_ceil(2)
    }
}

impl Reader {
    /// How many of a commit's files of this kind (of all, where it has none of it) lie on disk; where
    /// `with_content` is asked for, as they are in the commit. What cannot be compared is taken by
    /// its name.
    pub fn likeness(
        &self,
        commit: CommitId,
        kind: fn(&VaultPath) -> bool,
        with_content: bool,
    ) -> Result<Likeness, ReadError> {
        let repo = self.repo.to_thread_local();
        let mut listed = self.list(commit)?;
        listed.retain(|it| it.1.mode != FileMode::Gitlink);
        if listed.iter().any(|it| kind(&it.0)) {
            listed.retain(|it| kind(&it.0));
        }
        let mut disk = Disk::new(&repo, &self.place)?;
        let mut likeness = Likeness { there: 0, all: listed.len() };
        for (path, entry) in listed {
            if likeness.is_enough() {
                break;
            }
            let is_there = if with_content {
                match disk.read(&path, Some(entry))? {
                    Ok(found) => found.is_some_and(|it| it.0.blob == entry.blob),
                    Err(_not_compared) => true,
                }
            } else {
                fs::lstat_if_there(&self.place.disk(&path))?.is_some_and(|it| !it.is_dir())
            };
            likeness.there += usize::from(is_there);
        }
        Ok(likeness)
    }
}

/// Lines added and deleted; `None` for what is no text or over `limit` bytes.
pub(super) fn count_lines(
    repo: &gix::Repository,
    old: Option<Entry>,
    new: Option<Entry>,
    limit: usize,
) -> Result<Option<(u32, u32)>, ReadError> {
    let mut sides = [Vec::new(), Vec::new()];
    for (side, entry) in sides.iter_mut().zip([old, new]) {
        let Some((id, _)) =
            entry.filter(|it| it.mode != FileMode::Gitlink).and_then(reader::version)
        else {
            continue;
        };
        match git("read a blob", repo.try_find_header(id))? {
            Some(header) if header.size() <= limit as u64 => {}
            _ => return Ok(None),
        }
        *side = git("read a blob", repo.find_blob(id))?.detach().data;
    }
    let [old, new] = sides;
    if is_binary(&old) || is_binary(&new) {
        return Ok(None);
    }
    let input = InternedInput::new(old.as_slice(), new.as_slice());
    let diff = gix::diff::blob::Diff::compute(Algorithm::Histogram, &input);
    Ok(Some((diff.count_additions(), diff.count_removals())))
}

/// As git decides it: a NUL among the first 8,000 bytes.
pub(super) fn is_binary(bytes: &[u8]) -> bool {
    bytes.iter().take(8_000).any(|it| *it == 0)
}

/// Says of a file that a partial clone has left with its remote how it is fetched; `false` where
/// both sides are here.
fn push_left_out(
    out: &mut Vec<u8>,
    repo: &gix::Repository,
    path: &VaultPath,
    sides: [Option<Entry>; 2],
) -> bool {
    let absent = sides.into_iter().flatten().filter(|it| reader::is_left_out(repo, *it));
    let fetch: Vec<_> = absent.map(|it| format!("`git show {}`", it.blob)).collect();
    if fetch.is_empty() {
        return false;
    }
    let (path, fetch) = (c_quoted(path), fetch.join(" and "));
    let line = format!("# {path} is not in this partial clone; {fetch} fetches it\n");
    out.extend_from_slice(line.as_bytes());
    true
}

fn push_file(out: &mut Vec<u8>, path: &VaultPath, change: Change, old: &[u8], new: &[u8]) {
    let side = |prefix: &str| {
        let name = c_quoted(path);
        match name.strip_prefix('"') {
            Some(rest) => format!("\"{prefix}/{rest}"),
            None => format!("{prefix}/{name}"),
        }
    };
    let (a, b) = (side("a"), side("b"));
    let mode = |entry: &Entry| match entry.mode {
        FileMode::File => "100644",
        FileMode::Executable => "100755",
        FileMode::Symlink => "120000",
        FileMode::Gitlink => "160000",
    };
    out.extend_from_slice(format!("diff --git {a} {b}\n").as_bytes());
    match (&change.old, &change.new) {
        (None, Some(new)) => {
            out.extend_from_slice(format!("new file mode {}\n", mode(new)).as_bytes())
        }
        (Some(old), None) => {
            out.extend_from_slice(format!("deleted file mode {}\n", mode(old)).as_bytes());
        }
        (Some(old), Some(new)) if old.mode != new.mode => {
            let text = format!("old mode {}\nnew mode {}\n", mode(old), mode(new));
            out.extend_from_slice(text.as_bytes());
        }
        _ => {}
    }
    if old == new {
        return;
    }
    let a = if change.old.is_some() { a } else { "/dev/null".to_owned() };
    let b = if change.new.is_some() { b } else { "/dev/null".to_owned() };
    if is_binary(old) || is_binary(new) {
        out.extend_from_slice(format!("Binary files {a} and {b} differ\n").as_bytes());
        return;
    }
    out.extend_from_slice(format!("--- {a}\n+++ {b}\n").as_bytes());
    let input = InternedInput::new(old, new);
    let mut diff = gix::diff::blob::Diff::compute(Algorithm::Histogram, &input);
    diff.postprocess_lines(&input);
    let hunks = Hunks { out: Vec::new() };
    let unified = UnifiedDiff::new(&diff, &input, hunks, ContextSize::symmetrical(3)).consume();
    // Writing to memory cannot fail.
    out.extend_from_slice(&unified.unwrap_or_default());
}

struct Hunks {
    out: Vec<u8>,
}

impl ConsumeHunk for Hunks {
    type Out = Vec<u8>;

    fn consume_hunk(
        &mut self,
        header: HunkHeader,
        lines: &[(DiffLineKind, &[u8])],
    ) -> std::io::Result<()> {
        let range = |start: u32, length: u32| match length {
            0 => format!("{},0", start.saturating_sub(1)),
            1 => start.to_string(),
            _ => format!("{start},{length}"),
        };
        let old = range(header.before_hunk_start, header.before_hunk_len);
        let new = range(header.after_hunk_start, header.after_hunk_len);
        self.out.extend_from_slice(format!("@@ -{old} +{new} @@\n").as_bytes());
        for (kind, line) in lines {
            self.out.push(match kind {
                DiffLineKind::Context => b' ',
                DiffLineKind::Add => b'+',
                DiffLineKind::Remove => b'-',
            });
            self.out.extend_from_slice(line);
            if !line.ends_with(b"\n") {
                self.out.extend_from_slice(b"\n\\ No newline at end of file\n");
            }
        }
        Ok(())
    }

    fn finish(self) -> Vec<u8> {
        self.out
    }
}

/// The vault on disk, as git would store it.
struct Disk<'a> {
    repo: &'a gix::Repository,
    place: &'a Place,
    filters: Filters<'a>,
    drivers: Drivers,
    executable_bit: bool,
    symlinks: bool,
}

/// A file as git would store it; nothing where none is there.
type Stored = Option<(Entry, Vec<u8>)>;

impl<'a> Disk<'a> {
    fn new(repo: &'a gix::Repository, place: &'a Place) -> Result<Self, ReadError> {
        let index = gix::index::State::new(repo.object_hash());
        let filters = Filters::new(repo, &index)?;
        // Who asks for a difference waits for it.
        let limits = Limits { patience: Limits::default().child, ..Limits::default() };
        let drivers = Drivers::new(place, limits, &Stop::default());
        let capabilities = git("read Git's settings", repo.filesystem_options())?;
        let (executable_bit, symlinks) = (capabilities.executable_bit, capabilities.symlink);
        Ok(Self { repo, place, filters, drivers, executable_bit, symlinks })
    }

    /// The committed paths, and `wanted` itself where it is new.
    fn paths(
        &self,
        committed: &ChangeSet,
        wanted: Option<&VaultPath>,
    ) -> Result<Vec<VaultPath>, ReadError> {
        let mut paths: Vec<_> = committed.iter().map(|it| it.0.clone()).collect();
        if let Some(wanted) = wanted
            && committed.get(wanted).is_none()
            && fs::lstat_if_there(&self.place.disk(wanted))?.is_some_and(|it| it.is_file())
        {
            paths.push(wanted.clone());
        }
        Ok(paths)
    }

    /// The file, beside what is committed of it; or why it cannot be compared.
    fn read(
        &mut self,
        path: &VaultPath,
        committed: Option<Entry>,
    ) -> Result<Result<Stored, String>, ReadError> {
        use std::os::unix::ffi::OsStringExt as _;
        let on_disk = self.place.disk(path);
        let Some(meta) = fs::lstat_if_there(&on_disk)? else { return Ok(Ok(None)) };
        let (bytes, mode) = if meta.is_symlink() {
            let target = fs::read_link(&on_disk)?.into_os_string().into_vec();
            (target, FileMode::Symlink)
        } else if meta.is_file() && meta.len() <= DISK_LIMIT {
            let rela: BString = self.place.rela(path);
            let rules = self.filters.rules(rela.as_bstr())?;
            let file = Arc::new(fs::open_regular(&on_disk)?);
            let job = Cleaning {
                rela: rela.as_bstr(),
                file: &file,
                seen: &Seen::new(&meta),
                size: meta.len(),
                limit: DISK_LIMIT,
            };
            let mut indexed = || reader::read_blob(self.repo, committed?.blob).ok();
            let bytes = match self.filters.to_git(&rules, job, &mut self.drivers, &mut indexed) {
                Filtered::Bytes(bytes) => bytes,
                Filtered::Wait { why, .. } | Filtered::Refused(why) => return Ok(Err(why)),
                Filtered::AtWork(name) => return Ok(Err(format!("the filter `{name}` is slow"))),
                Filtered::TooLarge(_) => return Ok(Ok(None)),
                Filtered::Unreadable(err) => return Ok(Err(err.to_string())),
            };
            (bytes, self.mode(&meta, committed))
        } else {
            return Ok(Ok(None));
        };
        let kind = gix::objs::Kind::Blob;
        let id: ObjectId =
            git("hash a file", gix::objs::compute_hash(self.repo.object_hash(), kind, &bytes))?;
        let blob = crate::vault::BlobId::from_bytes(id.as_bytes());
        Ok(Ok(blob.map(|blob| (Entry { blob, mode }, bytes))))
    }

    /// As a commit would have it, where the disk cannot say.
    fn mode(&self, meta: &std::fs::Metadata, committed: Option<Entry>) -> FileMode {
        use std::os::unix::fs::MetadataExt as _;
        match committed.map(|it| it.mode) {
            Some(FileMode::Symlink) if !self.symlinks => FileMode::Symlink,
            Some(FileMode::Executable) if !self.executable_bit => FileMode::Executable,
            _ if self.executable_bit && meta.mode() & libc::S_IXUSR != 0 => FileMode::Executable,
            _ => FileMode::File,
        }
    }
}
