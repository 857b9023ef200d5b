//! `remd secrets`: what looks like a credential.
//!
//! Takes parsed arguments, reads the vault and the repository beside whoever writes them; what is
//! allowed is written here and taken up by the agent. One thread.
//!
//! **Invariant:** nothing that was found is printed: only where, by which rule, and a mask.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

use crate::base::fs;
use crate::cli::args::{SecretsAllowArgs, SecretsCommand, SecretsListArgs, SecretsScanArgs};
use crate::cli::report::{self, CliError, Exit};
use crate::cli::up::Bar;
use crate::cli::{past, status};
use crate::config::Dirs;
use crate::daemon::allowing::{self, AllowingError};
use crate::daemon::{leak_scan, settings};
use crate::history::{Clean, Reader, Span};
use crate::render::counted;
use crate::render::status::Leak;
use crate::secrets::{Allowance, Finding, Fingerprint};
use crate::serve::client;
use crate::serve::{Answer, Request};
use crate::vault::VaultPath;

/// How long committing what was let in may take.
const COMMIT: Duration = Duration::from_secs(60);

/// `remd secrets …`.
pub fn secrets(vault: &Path, dirs: &Dirs, command: &SecretsCommand) -> Result<Exit, CliError> {
    match command {
        SecretsCommand::List(args) => list(vault, dirs, args),
        SecretsCommand::Allow(args) => allow(vault, dirs, args),
        SecretsCommand::Scan(args) => scan(vault, dirs, args),
    }
}

fn allowance(vault: &Path, dirs: &Dirs) -> Result<Allowance, CliError> {
    // With a key, so that what is shown here can be allowed by its fingerprint.
    allowing::load_to_add(dirs, vault).map_err(with_hint)
}

fn with_hint(err: AllowingError) -> CliError {
    let cli = CliError::from_error(&err);
    match err.hint() {
        Some(hint) => cli.hint(hint),
        None => cli,
    }
}

/// What a running agent knows; `None` where none answers.
fn told_by_agent(vault: &Path, dirs: &Dirs) -> Result<Option<Vec<Leak>>, CliError> {
    match client::ask_any(&dirs.sockets(vault)?, &Request::Status, status::PROMPT) {
        Ok(Answer::Status(status)) => Ok(Some(status.leaks)),
        _ => Ok(None),
    }
}

fn list(vault: &Path, dirs: &Dirs, args: &SecretsListArgs) -> Result<Exit, CliError> {
    let allowance = allowance(vault, dirs)?;
    let leaks = told_by_agent(vault, dirs)?;
    if leaks.is_none() {
        report::talk("No agent runs: what is held is not known (`remd secrets scan` looks).");
    }
    let leaks = leaks.unwrap_or_default();
    if args.json {
        let allowed: Vec<Value> = allowance
            .list()
            .map(|(fingerprint, it)| {
                json!({"fingerprint": fingerprint, "rule": it.rule, "path": it.path, "at": it.at})
            })
            .collect();
        let object = json!({"schema_version": 1, "findings": leaks, "allowed": allowed});
        report::data(format!("{object:#}\n"))?;
        return Ok(Exit::Done);
    }
    for leak in &leaks {
        let state = if leak.held { "held     " } else { "committed" };
        report::data(format!("{state}  {}\n", line_of(leak)))?;
    }
    for (fingerprint, it) in allowance.list() {
        report::data(format!("allowed    {}: {}  {fingerprint}\n", it.path, it.rule))?;
    }
    if leaks.is_empty() && allowance.list().next().is_none() {
        report::talk("Nothing is held, and nothing was allowed.");
    }
    Ok(Exit::Done)
}

/// `a.md:3: github-pat ghp_… (40 characters)  <fingerprint>`.
fn line_of(leak: &Leak) -> String {
    let path = crate::vault::path::escape(leak.path.as_bytes());
    format!("{path}:{}: {} {}  {}", leak.line, leak.rule, leak.masked, leak.fingerprint)
}

fn allow(vault: &Path, dirs: &Dirs, args: &SecretsAllowArgs) -> Result<Exit, CliError> {
    let reader = past::open(vault)?;
    let allowance = allowance(vault, dirs)?;
    let named = match (&args.at, &args.fingerprint) {
        (Some(at), _) => found_at(vault, &reader, at)?,
        (None, Some(text)) => {
            let fingerprint = Fingerprint::read(text).ok_or_else(|| {
                CliError::new(format!("`{text}` is no fingerprint"))
                    .hint("`remd secrets list` shows them.")
            })?;
            let all = on_disk_and_in_head(vault, dirs, &reader)?;
            let is_it = |it: &Finding| allowance.fingerprint(it) == fingerprint;
            let here: Vec<_> = all.into_iter().filter(|it| is_it(&it.1)).collect();
            match here.is_empty() {
                true => in_the_past(&reader)?.into_iter().filter(|it| is_it(&it.1)).collect(),
                false => here,
            }
        }
        (None, None) => Vec::new(),
    };
    let mut new: Vec<Leak> = Vec::new();
    for (path, finding) in &named {
        let leak = leak(path, finding, &allowance);
        let is_known = new.iter().any(|it| it.fingerprint == leak.fingerprint);
        if !allowance.allows(finding) && !is_known {
            new.push(leak);
        }
    }
    if named.is_empty() {
        return Err(CliError::new("Nothing there looks like a credential")
            .hint("`remd secrets list` names what is held, `remd secrets scan` looks at all notes.")
            .exit(Exit::No));
    }
    if !args.dry_run {
        let list = new.iter().filter_map(|it| {
            Some((Fingerprint::read(&it.fingerprint)?, it.rule.clone(), it.path.clone()))
        });
        allowing::allow(dirs, vault, list.collect()).map_err(with_hint)?;
    }
    if args.json {
        let object = json!({"schema_version": 1, "allowed": new, "dry_run": args.dry_run});
        report::data(format!("{object:#}\n"))?;
    } else {
        for leak in &new {
            report::data(format!("{}\n", line_of(leak)))?;
        }
    }
    if new.is_empty() {
        report::talk("It was allowed before.");
    }
    match args.dry_run {
        true => Ok(Exit::Done),
        false => commit(vault, dirs),
    }
}

/// Has the agent commit what is let in now.
fn commit(vault: &Path, dirs: &Dirs) -> Result<Exit, CliError> {
    let timeout_ms = u64::try_from(COMMIT.as_millis()).unwrap_or(u64::MAX);
    let limit = COMMIT + status::PROMPT;
    match client::ask_any(&dirs.sockets(vault)?, &Request::Settle { timeout_ms }, limit) {
        Ok(Answer::Settled { .. }) => report::talk("Allowed, and taken up by the agent."),
        _ => report::talk("Allowed; it is committed when an agent runs."),
    }
    Ok(Exit::Done)
}

fn leak(path: &VaultPath, finding: &Finding, allowance: &Allowance) -> Leak {
    crate::daemon::committer::leaks::leak(path, finding, allowance, false)
}

/// The findings of `PATH` or `PATH:LINE`.
fn found_at(
    vault: &Path,
    reader: &Reader,
    at: &OsStr,
) -> Result<Vec<(VaultPath, Finding)>, CliError> {
    let bytes = at.as_bytes();
    let split = bytes.iter().rposition(|it| *it == b':').and_then(|colon| {
        let line: usize = std::str::from_utf8(&bytes[colon + 1..]).ok()?.parse().ok()?;
        Some((OsStr::from_bytes(&bytes[..colon]), line))
    });
    let whole = past::vault_path(vault, at)?;
    let is_file = fs::lstat_if_there(&vault.join(whole.as_path()))?.is_some();
    let (path, line) = match split {
        Some((path, line)) if !is_file => (past::vault_path(vault, path)?, Some(line)),
        _ => (whole, None),
    };
    let found = leak_scan::of_file(vault, reader, &path).map_err(|it| CliError::from_error(&it))?;
    let found = found.into_iter().filter(|it| line.is_none_or(|line| it.line == line));
    Ok(found.map(|it| (path.clone(), it)).collect())
}

fn on_disk_and_in_head(
    vault: &Path,
    dirs: &Dirs,
    reader: &Reader,
) -> Result<Vec<(VaultPath, Finding)>, CliError> {
    let settings =
        settings::load(vault, dirs, &[]).map_err(|it| CliError::from_error(&it))?.settings;
    let looked = leak_scan::on_disk(vault, reader, &settings, &[], &mut |_, _| {});
    let mut found = looked.map_err(|it| CliError::from_error(&it))?.found;
    // What HEAD has and the disk has not: the agent knows.
    let known: BTreeSet<String> = found.iter().map(|it| it.0.to_string()).collect();
    for leak in told_by_agent(vault, dirs)?.unwrap_or_default() {
        if let Ok(path) = VaultPath::new(leak.path.as_bytes())
            && !known.contains(&leak.path)
        {
            let of_file = leak_scan::of_file(vault, reader, &path);
            let of_file = of_file.map_err(|it| CliError::from_error(&it))?;
            found.extend(of_file.into_iter().map(|it| (path.clone(), it)));
        }
    }
    Ok(found)
}

/// What was ever committed, once.
fn in_the_past(reader: &Reader) -> Result<Vec<(VaultPath, Finding)>, CliError> {
    let bar = Bar::new();
    let mut tell = |done: usize, all: usize| {
        bar.at("commits", done, all);
        true
    };
    let exposure = reader.exposure(&Span::All, &mut Clean::default(), &mut tell);
    let exposure = exposure.map_err(|err| past::explained(reader, CliError::from_error(&err)))?;
    Ok(exposure.found.into_iter().map(|it| (it.path, it.finding)).collect())
}

/// One line of a report.
struct Row {
    leak: Leak,
    commit: Option<String>,
    is_allowed: bool,
}

fn scan(vault: &Path, dirs: &Dirs, args: &SecretsScanArgs) -> Result<Exit, CliError> {
    let reader = past::open(vault)?;
    let allowance = allowance(vault, dirs)?;
    let paths = args.paths.iter().map(|it| past::vault_path(vault, it));
    let paths = paths.collect::<Result<Vec<_>, _>>()?;
    let is_asked =
        |it: &VaultPath| paths.is_empty() || paths.iter().any(|path| it.is_within(path.as_bytes()));
    let bar = Bar::new();
    let (mut rows, mut unread) = (Vec::new(), Vec::new());
    let looked_at = match args.history {
        true => {
            let mut clean = Clean::default();
            let mut tell = |done: usize, all: usize| {
                bar.at("commits", done, all);
                true
            };
            let exposure = reader
                .exposure(&Span::All, &mut clean, &mut tell)
                .map_err(|err| past::explained(&reader, CliError::from_error(&err)))?;
            for it in exposure.found.iter().filter(|it| is_asked(&it.path)) {
                rows.push(Row {
                    leak: leak(&it.path, &it.finding, &allowance),
                    commit: Some(it.commit.to_string()),
                    is_allowed: allowance.allows(&it.finding),
                });
            }
            unread.extend(exposure.unread);
            let commits = counted(exposure.commits, "commit", "commits");
            format!("{commits}, {}", counted(exposure.contents, "content", "contents"))
        }
        false => {
            let settings = settings::load(vault, dirs, &[]);
            let settings = settings.map_err(|it| CliError::from_error(&it))?.settings;
            let mut tell = |done, all| bar.at("files", done, all);
            let looked = leak_scan::on_disk(vault, &reader, &settings, &paths, &mut tell)
                .map_err(|it| CliError::from_error(&it))?;
            for (path, finding) in &looked.found {
                rows.push(Row {
                    leak: leak(path, finding, &allowance),
                    commit: None,
                    is_allowed: allowance.allows(finding),
                });
            }
            unread.extend(looked.unread);
            counted(looked.files, "file", "files")
        }
    };
    unread.retain(|it| is_asked(&it.0));
    drop(bar);
    print(&rows, &unread, args.json)?;
    let open = rows.iter().filter(|it| !it.is_allowed).count();
    report::talk(&format!("{looked_at}: {}", counted(open, "finding", "findings")));
    Ok(match (open, unread.len()) {
        (0, 0) => Exit::Done,
        (0, _) => Exit::Partial,
        _ => Exit::No,
    })
}

fn print(rows: &[Row], unread: &[(VaultPath, String)], json: bool) -> Result<(), CliError> {
    if json {
        let findings: Vec<Value> = rows
            .iter()
            .map(|Row { leak, commit, is_allowed }| {
                json!({
                    "commit": commit, "path": leak.path, "line": leak.line, "rule": leak.rule,
                    "masked": leak.masked, "fingerprint": leak.fingerprint, "allowed": is_allowed,
                })
            })
            .collect();
        let unread: Vec<Value> = unread
            .iter()
            .map(|(path, why)| json!({"path": path.to_string(), "why": why}))
            .collect();
        let object = json!({"schema_version": 1, "findings": findings, "unread": unread});
        return report::data(format!("{object:#}\n"));
    }
    for Row { leak, commit, is_allowed } in rows {
        let commit = commit.as_ref().map_or(String::new(), |it| format!("{} ", &it[..7]));
        let allowed = if *is_allowed { "  (allowed)" } else { "" };
        report::data(format!("{commit}{}{allowed}\n", line_of(leak)))?;
    }
    for (path, why) in unread {
        report::talk(&format!(
            "not looked at: {}: {why}",
            crate::vault::path::escape(path.as_bytes())
        ));
    }
    Ok(())
}
