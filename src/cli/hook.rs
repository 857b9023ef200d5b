//! `remd hook`: Git's hooks in the repository of a vault.
//!
//! Takes parsed arguments, says what is there and what was done. One thread.

use std::path::Path;

use serde_json::{Value, json};

use crate::cli::args::{HookArgs, HookCommand};
use crate::cli::report::{self, CliError, Exit};
use crate::history::{self, HookState, OpenError, OwnHook, OwnHooks};

/// `remd hook install`, `remove` and `status`.
pub fn hook(vault: &Path, command: &HookCommand) -> Result<Exit, CliError> {
    match command {
        HookCommand::Install(args) => install(vault, args),
        HookCommand::Remove(args) => remove(vault, args),
        HookCommand::Status(args) => {
            let hooks = history::own_hooks(vault).map_err(|err| open_error(&err))?;
            show(&hooks, args.json, None)?;
            Ok(if hooks.are_installed() { Exit::Done } else { Exit::No })
        }
    }
}

fn install(vault: &Path, args: &HookArgs) -> Result<Exit, CliError> {
    let before = history::own_hooks(vault).map_err(|err| open_error(&err))?;
    let hooks = match args.dry_run {
        true => before.clone(),
        false => history::install_hooks(vault).map_err(|err| open_error(&err))?,
    };
    let changed: Vec<&OwnHook> = before
        .hooks
        .iter()
        .filter(|it| matches!(it.state, HookState::Missing | HookState::Outdated))
        .collect();
    if args.dry_run && !args.json {
        for hook in &changed {
            report::data(format!("would write `{}`\n", hook.path.display()))?;
        }
    }
    match args.dry_run && !args.json {
        true => say_left_alone(&hooks),
        false => show(&hooks, args.json, Some((args.dry_run, &changed)))?,
    }
    let left = hooks.left_alone().len();
    let all_left = hooks.hooks.iter().all(|it| matches!(it.state, HookState::LeftAlone(_)));
    Ok(match (left, all_left) {
        (0, _) => Exit::Done,
        (_, true) => Exit::No,
        _ => Exit::Partial,
    })
}

fn remove(vault: &Path, args: &HookArgs) -> Result<Exit, CliError> {
    let removed = match args.dry_run {
        true => history::removable(vault),
        false => history::remove_hooks(vault),
    };
    let removed = removed.map_err(|err| open_error(&err))?;
    if args.json {
        let paths: Vec<_> = removed.iter().map(|it| it.display().to_string()).collect();
        let object = json!({"schema_version": 1, "dry_run": args.dry_run, "removed": paths});
        report::data(format!("{object:#}\n"))?;
        return Ok(Exit::Done);
    }
    let verb = if args.dry_run { "would take ours out of" } else { "took ours out of" };
    for path in &removed {
        report::data(format!("{verb} `{}`\n", path.display()))?;
    }
    match (args.dry_run, removed.is_empty()) {
        (true, true) => report::talk("There is nothing of ours in the hooks."),
        (true, false) => {}
        (false, _) => {
            report::talk(
                "`remd up` leaves them out from now on; `remd hook install` brings them back.",
            );
        }
    }
    Ok(Exit::Done)
}

fn show(
    hooks: &OwnHooks,
    as_json: bool,
    done: Option<(bool, &[&OwnHook])>,
) -> Result<(), CliError> {
    if as_json {
        let mut object = json!({
            "schema_version": 1,
            "folder": hooks.folder.display().to_string(),
            "installed": hooks.are_installed(),
            "unwanted": hooks.is_off,
            "hooks": hooks.hooks.iter().map(in_json).collect::<Vec<_>>(),
        });
        if let Some((dry_run, changed)) = done {
            object["dry_run"] = json!(dry_run);
            object["written"] = changed.iter().map(|it| it.name).collect();
        }
        return report::data(format!("{object:#}\n"));
    }
    for hook in &hooks.hooks {
        report::data(format!("{:14} {}\n", hook.name, word(&hook.state)))?;
    }
    say_left_alone(hooks);
    let is_missing = |it: &OwnHook| matches!(it.state, HookState::Missing | HookState::Outdated);
    match (hooks.is_off, hooks.hooks.iter().any(is_missing)) {
        (true, _) => report::talk("They were taken out; `remd hook install` brings them back."),
        (false, true) => report::talk("`remd hook install` puts them there."),
        (false, false) => {}
    }
    Ok(())
}

fn say_left_alone(hooks: &OwnHooks) {
    let reasons = hooks.left_alone();
    for why in &reasons {
        report::talk(&format!("left alone: {why}"));
    }
    if !reasons.is_empty() {
        report::talk(
            "Everything works without hooks; with `remd notify EVENT &` in yours, the agent hears \
             at once what you do in Git.",
        );
    }
}

fn in_json(hook: &OwnHook) -> Value {
    let why = match &hook.state {
        HookState::LeftAlone(why) => Some(why),
        _ => None,
    };
    json!({
        "name": hook.name,
        "path": hook.path.display().to_string(),
        "state": word(&hook.state).replace(' ', "_"),
        "why": why,
    })
}

fn word(state: &HookState) -> &'static str {
    match state {
        HookState::Installed => "installed",
        HookState::Outdated => "outdated",
        HookState::Missing => "missing",
        HookState::LeftAlone(_) => "left alone",
    }
}

fn open_error(err: &OpenError) -> CliError {
    CliError { hint: err.hint(), ..CliError::from_error(err) }
}
