//! `remd log`, `show`, `diff`: the past, with its causes.
//!
//! Takes parsed arguments, reads the repository beside whoever writes it.

use std::ffi::OsStr;
use std::io::IsTerminal as _;
use std::path::Path;

use serde_json::{Value, json};

use crate::base::{clock, fs, when};
use crate::cli::args::{DiffArgs, LogArgs, Marks, ShowArgs};
use crate::cli::report::{self, CliError, Exit};
use crate::config::{Dirs, keys};
use crate::daemon::{chronicler, offline};
use crate::history::{self, LogEntry, LogWalk, Needle, Reader, Side};
use crate::render::past::{self, Session};
use crate::vault::path::escape;
use crate::vault::{Layout, VaultPath};

/// After so many commits in a row from before `--since`, no later one is expected: clocks of several
/// machines differ by less.
const SLOP: usize = 200;

/// `remd log [PATH]`.
pub fn log(vault: &Path, dirs: &Dirs, args: &LogArgs) -> Result<Exit, CliError> {
    let wanted = Wanted::new(args)?;
    let (reader, _) = open_with_table(vault, dirs)?;
    log_from(vault, &reader, args, &wanted).map_err(|err| explained(&reader, err))
}

/// What a log shows, of all that there is.
struct Wanted {
    since: Option<i64>,
    until: Option<i64>,
    needle: Option<Needle>,
    deadline: std::time::Instant,
}

impl Wanted {
    fn new(args: &LogArgs) -> Result<Self, CliError> {
        let now = clock::unix_seconds();
        let stretch = |option: &str, text: Option<&str>| match text {
            None => Ok(None),
            Some(text) => when::read(text, now).map(Some).ok_or_else(|| {
                CliError::new(format!("`{option} {text}` is no date, time or age"))
                    .hint("Write it as `2026-06-01`, `2026-06-01T14:00`, `3d` or `yesterday`.")
            }),
        };
        let timeout = keys::duration(&args.timeout)
            .map_err(|why| CliError::new(format!("`--timeout {}`: {why}", args.timeout)))?;
        Ok(Self {
            since: stretch("--since", args.since.as_deref())?.map(|it| it.from),
            until: stretch("--until", args.until.as_deref())?.map(|it| it.to),
            needle: args.grep.as_deref().map(Needle::new),
            deadline: clock::now() + timeout,
        })
    }

    fn is_over(&self) -> bool {
        clock::now() >= self.deadline
    }

    /// By what the commit says of itself.
    fn has(&self, args: &LogArgs, entry: &LogEntry) -> bool {
        let is = |wanted: &Option<String>, key: &str| match wanted {
            Some(wanted) => entry.trailer(key) == Some(wanted),
            None => true,
        };
        let cause = entry.cause.map_or("none", |it| it.as_str());
        self.since.is_none_or(|it| entry.committed >= it)
            && self.until.is_none_or(|it| entry.committed <= it)
            && (args.cause.is_empty() || args.cause.iter().any(|it| it == cause))
            && (is(&args.job, "Remd-Job") || is(&args.job, "Remd-Run"))
            && is(&args.agent, "Remd-Agent")
            && is(&args.session, "Remd-Session")
    }
}

fn log_from(
    vault: &Path,
    reader: &Reader,
    args: &LogArgs,
    wanted: &Wanted,
) -> Result<Exit, CliError> {
    let path = args.path.as_deref().map(|it| vault_path(vault, it)).transpose()?;
    let mut walk = reader.walk(reader.head()?.map(|it| it.commit), path.as_ref())?;
    let mut page = Page::new(args);
    let (mut is_partial, mut too_old) = (false, 0);
    while !page.is_full() {
        if wanted.is_over() {
            is_partial = true;
            break;
        }
        let Some(entry) = walk.step()? else { break };
        too_old = if wanted.since.is_some_and(|it| entry.committed < it) { too_old + 1 } else { 0 };
        if too_old > SLOP {
            break;
        }
        if !wanted.has(args, &entry) {
            continue;
        }
        if let Some(needle) = &wanted.needle {
            match walk.mentions(&entry, needle, &|| wanted.is_over())? {
                Some(true) => {}
                Some(false) => continue,
                None => {
                    is_partial = true;
                    break;
                }
            }
        }
        page.add(entry, &walk)?;
    }
    let is_cut = walk.cut().is_shallow && !page.is_full();
    let shown = page.finish(is_partial, is_cut, &walk)?;
    if is_partial {
        report::talk(&format!(
            "note: not everything was looked at within {}; `--timeout` gives it longer, `--since` \
             makes it less",
            args.timeout
        ));
    }
    if is_cut {
        report::talk(
            "note: this is a shallow clone, older commits are not here; `git fetch --unshallow` gets \
             them",
        );
    }
    if shown == 0 && !is_partial {
        report::talk(&match &path {
            _ if wanted.needle.is_some() || is_filtered(args) => {
                "No commit is of this kind.".to_owned()
            }
            Some(path) => format!("No commit changed `{path}`."),
            None => "There is no commit yet.".to_owned(),
        });
    }
    Ok(match (is_partial, shown) {
        (true, _) => Exit::Partial,
        (_, 0) => Exit::No,
        _ => Exit::Done,
    })
}

fn is_filtered(args: &LogArgs) -> bool {
    let named = [&args.job, &args.agent, &args.session, &args.since, &args.until];
    !args.cause.is_empty() || named.into_iter().any(Option::is_some)
}

/// What is printed as it is found.
struct Page<'a> {
    args: &'a LogArgs,
    session: Session,
    commits: Vec<Value>,
    lines: usize,
}

impl<'a> Page<'a> {
    fn new(args: &'a LogArgs) -> Self {
        Self { args, session: Session::default(), commits: Vec::new(), lines: 0 }
    }

    fn is_full(&self) -> bool {
        self.lines + self.commits.len() >= self.args.limit
    }

    fn add(&mut self, mut entry: LogEntry, walk: &LogWalk) -> Result<(), CliError> {
        if self.args.json {
            walk.fill(&mut entry)?;
            self.commits.push(past::json(&entry));
        } else if self.args.all {
            walk.fill(&mut entry)?;
            self.lines += 1;
            report::data(past::line(&entry))?;
        } else if let Some(other) = self.session.add(entry) {
            self.close(walk)?;
            // The first of a session is always taken.
            self.session.add(other);
        }
        Ok(())
    }

    /// Prints the session that is complete.
    fn close(&mut self, walk: &LogWalk) -> Result<(), CliError> {
        let mut session = std::mem::take(&mut self.session);
        match session.span() {
            Some((newest, oldest)) => {
                let net = walk.between(newest, oldest)?;
                session.set_net(net);
            }
            None => {
                for commit in session.commits_mut() {
                    walk.fill(commit)?;
                }
            }
        }
        let text = session.text();
        // Two commits of one session may be the last line that is wanted and one too many.
        let wanted = self.args.limit - self.lines.min(self.args.limit);
        let text: String = text.split_inclusive('\n').take(wanted).collect();
        self.lines += session.lines();
        report::data(text)
    }

    /// Prints the rest; says how many there are in all.
    fn finish(mut self, is_partial: bool, is_cut: bool, walk: &LogWalk) -> Result<usize, CliError> {
        if !self.args.json {
            self.close(walk)?;
            return Ok(self.lines);
        }
        let count = self.commits.len();
        let page = json!({
            "schema_version": 1,
            "commits": self.commits,
            "partial": is_partial,
            "shallow": is_cut,
        });
        report::data(format!("{page:#}\n"))?;
        Ok(count)
    }
}

/// `remd show [MOMENT]`.
pub fn show(vault: &Path, dirs: &Dirs, args: &ShowArgs) -> Result<Exit, CliError> {
    let (reader, _) = open_with_table(vault, dirs)?;
    show_from(&reader, args).map_err(|err| explained(&reader, err))
}

fn show_from(reader: &Reader, args: &ShowArgs) -> Result<Exit, CliError> {
    let commit = reader.moment(&args.rev).map_err(|err| {
        CliError::from_error(&err).hint("`remd log` lists the commits; `HEAD~2` counts back.")
    })?;
    let entry = reader.show(commit)?;
    if args.json {
        report::data(format!("{:#}\n", past::json(&entry)))?;
        return Ok(Exit::Done);
    }
    let mut text = past::line(&entry);
    let author = escape(entry.author.as_bytes());
    text.push_str(&format!("commit {}\nauthor {author} <{}>\n", entry.commit, entry.mail));
    if entry.is_merge() {
        let parents: Vec<String> = entry.parents.iter().map(|it| it.short()).collect();
        text.push_str(&format!("merge of {}\n", parents.join(" and ")));
    }
    for message in entry.body.lines() {
        text.push_str(&format!("    {message}\n"));
    }
    for (key, value) in &entry.trailers {
        text.push_str(&format!("{key}: {value}\n"));
    }
    text.push('\n');
    report::data(text)?;
    let from = reader.parent(commit)?.filter(|it| reader.exists(*it));
    let from = from.map_or(Side::Nothing, Side::Commit);
    print_diff(reader.diff_text(from, Side::Commit(commit), None)?, &args.marks)?;
    Ok(Exit::Done)
}

/// A diff as it suits whoever reads it.
fn print_diff(unified: Vec<u8>, marks: &Marks) -> Result<(), CliError> {
    let is_terminal = std::io::stdout().is_terminal();
    if marks.patch || (!marks.word_diff && !is_terminal) {
        return report::data(unified);
    }
    if is_terminal && report::may_colour() {
        return report::inked(&history::words(&unified));
    }
    report::data(history::bracketed(&unified))
}

/// `remd diff [A[..B]] [PATH]`.
pub fn diff(vault: &Path, dirs: &Dirs, args: &DiffArgs) -> Result<Exit, CliError> {
    let (reader, _) = open_with_table(vault, dirs)?;
    diff_from(vault, &reader, args).map_err(|err| explained(&reader, err))
}

fn diff_from(vault: &Path, reader: &Reader, args: &DiffArgs) -> Result<Exit, CliError> {
    let (from, to, path) = match (args.range.as_deref(), args.path.as_deref()) {
        (None, path) => (head(reader)?, Side::Disk, path),
        (Some(range), Some(path)) => {
            let (from, to) = sides(reader, range)?;
            (from, to, Some(path))
        }
        // A single argument that is no revision may be a path, but only one that is there: a
        // mistyped revision must not read as "no difference".
        (Some(first), None) => match sides(reader, first) {
            Ok((from, to)) => (from, to, None),
            Err(_) if is_there(vault, reader, first)? => (head(reader)?, Side::Disk, Some(first)),
            Err(err) => return Err(err),
        },
    };
    let path = path.map(|it| vault_path(vault, it)).transpose()?;
    let text = reader.diff_text(from, to, path.as_ref())?;
    let exit = if text.is_empty() { Exit::No } else { Exit::Done };
    if args.json {
        let diff = String::from_utf8_lossy(&text);
        report::data(format!("{:#}\n", json!({"schema_version": 1, "diff": diff})))?;
    } else {
        print_diff(text, &args.marks)?;
    }
    Ok(exit)
}

/// What `A` or `A..B` compares.
fn sides(reader: &Reader, range: &str) -> Result<(Side, Side), CliError> {
    let commit = |revision: &str| {
        let revision = if revision.is_empty() { "HEAD" } else { revision };
        reader.moment(revision).map(Side::Commit).map_err(|err| {
            CliError::from_error(&err)
                .hint("Give `A`, `A..B` or a path in the vault; `remd log` lists the commits.")
        })
    };
    match range.split_once("..") {
        Some((from, to)) => Ok((commit(from)?, commit(to)?)),
        None => Ok((commit(range)?, Side::Disk)),
    }
}

fn head(reader: &Reader) -> Result<Side, CliError> {
    Ok(reader.head()?.map_or(Side::Nothing, |it| Side::Commit(it.commit)))
}

/// Whether a path is in the vault, on disk or committed.
pub(super) fn is_there(
    vault: &Path,
    reader: &Reader,
    given: impl AsRef<OsStr>,
) -> Result<bool, CliError> {
    let Ok(path) = vault_path(vault, given) else { return Ok(false) };
    if fs::lstat_if_there(&vault.join(path.as_path()))?.is_some() {
        return Ok(true);
    }
    let Some(head) = reader.head()? else { return Ok(false) };
    Ok(reader.list(head.commit)?.iter().any(|it| it.0.is_within(path.as_bytes())))
}

/// The error, or the part of the repository that is missing, where that is why.
pub(super) fn explained(reader: &Reader, err: CliError) -> CliError {
    match reader.missing(None) {
        Some(missing) => CliError::new(missing.what).hint(missing.remedy).exit(err.exit),
        None => err,
    }
}

pub(super) fn open(vault: &Path) -> Result<Reader, CliError> {
    Reader::open(vault).map_err(|err| {
        let cli = CliError::from_error(&err);
        match err.hint() {
            Some(hint) => cli.hint(hint),
            None => cli,
        }
    })
}

/// The same with the table of paths that an agent keeps.
pub(super) fn open_with_table(vault: &Path, dirs: &Dirs) -> Result<(Reader, Layout), CliError> {
    let layout = offline::settings(vault, dirs).layout;
    Ok((open(vault)?.with_path_log(&chronicler::folder(vault, &layout)), layout))
}

/// A path as the person gave it: below the vault, or from the current folder.
pub(super) fn vault_path(vault: &Path, given: impl AsRef<OsStr>) -> Result<VaultPath, CliError> {
    use std::os::unix::ffi::OsStrExt as _;
    let given = given.as_ref();
    let refused = |why: crate::vault::path::PathRefused| {
        CliError::new(format!("`{}` is no path in the vault: {why}", given.display()))
            .hint("Give it relative to the vault, as `memory/2026-06-29.md`.")
    };
    let absolute = std::path::absolute(given)?;
    if let Ok(inside) = absolute.strip_prefix(vault)
        && !inside.as_os_str().is_empty()
    {
        return VaultPath::from_os(inside).map_err(refused);
    }
    let bytes = given.as_bytes();
    let end = bytes.iter().rposition(|it| *it != b'/').map_or(0, |it| it + 1);
    VaultPath::new(&bytes[..end]).map_err(refused)
}
