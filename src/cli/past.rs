//! `remd log`, `show`, `diff`: the past, with its causes.
//!
//! Takes parsed arguments, reads the repository beside whoever writes it.

use std::path::Path;

use serde_json::{Value, json};

use crate::base::fs;
use crate::cli::args::{DiffArgs, LogArgs, ShowArgs};
use crate::cli::report::{self, CliError, Exit};
use crate::history::{LogEntry, LogFilter, PathStat, Reader, Side};
use crate::vault::VaultPath;

/// `remd log [PATH]`.
pub fn log(vault: &Path, args: &LogArgs) -> Result<Exit, CliError> {
    let reader = open(vault)?;
    log_from(vault, &reader, args).map_err(|err| explained(&reader, err))
}

fn log_from(vault: &Path, reader: &Reader, args: &LogArgs) -> Result<Exit, CliError> {
    let path = args.path.as_deref().map(|it| vault_path(vault, it)).transpose()?;
    let entries = reader.log(&LogFilter { path: path.clone(), limit: args.limit })?;
    if entries.is_empty() {
        report::talk(&match &path {
            Some(path) => format!("No commit changed `{path}`."),
            None => "There is no commit yet.".to_owned(),
        });
    }
    if args.json {
        let commits: Vec<Value> = entries.iter().map(entry_json).collect();
        report::data(format!("{:#}\n", json!({"schema_version": 1, "commits": commits})))?;
    } else {
        for entry in &entries {
            report::data(line(entry))?;
        }
    }
    Ok(if entries.is_empty() { Exit::No } else { Exit::Done })
}

/// `remd show [REV]`.
pub fn show(vault: &Path, args: &ShowArgs) -> Result<Exit, CliError> {
    let reader = open(vault)?;
    show_from(&reader, args).map_err(|err| explained(&reader, err))
}

fn show_from(reader: &Reader, args: &ShowArgs) -> Result<Exit, CliError> {
    let commit = reader.resolve(&args.rev).map_err(|err| {
        CliError::from_error(&err).hint("`remd log` lists the commits; `HEAD~2` counts back.")
    })?;
    let entry = reader.show(commit)?;
    if args.json {
        report::data(format!("{:#}\n", entry_json(&entry)))?;
        return Ok(Exit::Done);
    }
    let mut text = line(&entry);
    text.push_str(&format!("commit {}\nauthor {} <{}>\n", entry.commit, entry.author, entry.mail));
    for message in entry.body.lines() {
        text.push_str(&format!("    {message}\n"));
    }
    for (key, value) in &entry.trailers {
        text.push_str(&format!("{key}: {value}\n"));
    }
    text.push('\n');
    report::data(text)?;
    let from = reader.parent(commit)?.map_or(Side::Nothing, Side::Commit);
    report::data(reader.diff_text(from, Side::Commit(commit), None)?)?;
    Ok(Exit::Done)
}

/// `remd diff [A[..B]] [PATH]`.
pub fn diff(vault: &Path, args: &DiffArgs) -> Result<Exit, CliError> {
    let reader = open(vault)?;
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
        report::data(text)?;
    }
    Ok(exit)
}

/// What `A` or `A..B` compares.
fn sides(reader: &Reader, range: &str) -> Result<(Side, Side), CliError> {
    let commit = |revision: &str| {
        let revision = if revision.is_empty() { "HEAD" } else { revision };
        reader.resolve(revision).map(Side::Commit).map_err(|err| {
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
fn is_there(vault: &Path, reader: &Reader, given: &str) -> Result<bool, CliError> {
    let Ok(path) = vault_path(vault, given) else { return Ok(false) };
    if fs::lstat_if_there(&vault.join(path.as_path()))?.is_some() {
        return Ok(true);
    }
    let Some(head) = reader.head()? else { return Ok(false) };
    Ok(reader.list(head.commit)?.iter().any(|it| it.0.is_within(path.as_bytes())))
}

/// The error, or the part of the repository that is missing, where that is why.
fn explained(reader: &Reader, err: CliError) -> CliError {
    match reader.missing(None) {
        Some(missing) => CliError::new(missing.what).hint(missing.remedy).exit(err.exit),
        None => err,
    }
}

fn open(vault: &Path) -> Result<Reader, CliError> {
    Reader::open(vault).map_err(|err| {
        let cli = CliError::from_error(&err);
        match err.hint() {
            Some(hint) => cli.hint(hint),
            None => cli,
        }
    })
}

/// A path as the person gave it: below the vault, or from the current folder.
fn vault_path(vault: &Path, given: &str) -> Result<VaultPath, CliError> {
    let refused = |why: crate::vault::path::PathRefused| {
        CliError::new(format!("`{given}` is no path in the vault: {why}"))
            .hint("Give it relative to the vault, as `memory/2026-06-29.md`.")
    };
    let absolute = std::path::absolute(given)?;
    if let Ok(inside) = absolute.strip_prefix(vault)
        && !inside.as_os_str().is_empty()
    {
        return VaultPath::from_os(inside).map_err(refused);
    }
    VaultPath::new(given.trim_end_matches('/')).map_err(refused)
}

/// One change a line: when, cause, who, what, how many lines.
fn line(entry: &LogEntry) -> String {
    let (added, deleted) = entry
        .changes
        .iter()
        .filter_map(|it| it.lines)
        .fold((0, 0), |sum: (u64, u64), it| (sum.0 + u64::from(it.0), sum.1 + u64::from(it.1)));
    let cause = entry.cause.map_or("-", |it| it.as_str());
    let when = entry.when();
    let who = crate::vault::path::escape(entry.author.as_bytes());
    let what = crate::vault::path::escape(entry.subject.as_bytes());
    // A sum of what is here would pass for all.
    let lines = match entry.changes.iter().any(|it| it.is_left_out) {
        true => "+? -?".to_owned(),
        false => format!("+{added} -{deleted}"),
    };
    format!("{} {when} [{cause}] {who}: {what} ({lines})\n", entry.commit.short())
}

fn entry_json(entry: &LogEntry) -> Value {
    let trailers: serde_json::Map<String, Value> =
        entry.trailers.iter().map(|(key, value)| (key.clone(), json!(value))).collect();
    json!({
        "schema_version": 1,
        "commit": entry.commit,
        "time": entry.time,
        "author": entry.author,
        "email": entry.mail,
        "subject": entry.subject,
        "body": entry.body,
        "cause": entry.cause.map(|it| it.as_str()),
        "trailers": trailers,
        "changes": entry.changes.iter().map(change_json).collect::<Vec<_>>(),
    })
}

fn change_json(change: &PathStat) -> Value {
    let mut value = json!({
        "path": change.path,
        "old": change.old.map(|it| it.blob),
        "new": change.new.map(|it| it.blob),
        "added": change.lines.map(|it| it.0),
        "deleted": change.lines.map(|it| it.1),
    });
    if change.is_left_out {
        value["left_out"] = json!(true);
    }
    if let Some(hex) = change.path.hex_if_lossy() {
        value["path_hex"] = json!(hex);
    }
    value
}
