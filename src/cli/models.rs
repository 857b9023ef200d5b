//! `remd model list`, `get` and `use`.
//!
//! Prints the models at hand, fetches one, writes down which one is meant and tells the agent.

use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

use crate::base::fs;
use crate::cli::args::{ModelGet, ModelUse};
use crate::cli::report::{self, CliError, Exit};
use crate::cli::status;
use crate::cli::up::Bar;
use crate::config::{self, Dirs, Settings, keys};
use crate::daemon::{models, settings};
use crate::embed::remote::Setup;
use crate::embed::{self, GetError, Identity, Manifest, Place};
use crate::serve::client::{self, AskError};
use crate::serve::{Answer, Request};

/// A model at hand.
struct Row {
    name: String,
    kind: String,
    dimension: usize,
    source: String,
    bytes: Option<u64>,
    place: String,
    trouble: Option<String>,
}

/// Prints every model, and which one is in use.
pub fn list(vault: Option<&Path>, dirs: &Dirs, json: bool) -> Result<Exit, CliError> {
    let settings = settings_of(vault, dirs)?;
    let in_use = models::in_use(&settings, dirs);
    let rows = rows(&settings, dirs);
    let is_in_use = |it: &Row| {
        let Identity { backend, model, source, .. } = &in_use;
        it.name == *model && it.kind == *backend && it.source == *source
    };
    if json {
        let models: Vec<Value> = rows
            .iter()
            .map(|it| {
                json!({
                    "name": it.name,
                    "kind": it.kind,
                    "dimension": it.dimension,
                    "digest": it.source,
                    "bytes": it.bytes,
                    "where": it.place,
                    "in_use": is_in_use(it),
                    "problem": it.trouble,
                })
            })
            .collect();
        let object = json!({
            "schema_version": 1,
            "chosen": models::named(&settings),
            "models": models,
        });
        report::data(format!("{object:#}\n"))?;
    } else {
        for it in &rows {
            let size = it.bytes.map_or(String::new(), |it| format!("{}, ", size(it)));
            let place = &it.place;
            let (name, kind, dimension) = (&it.name, &it.kind, it.dimension);
            let mut line = format!("{name}  {kind}, {dimension} parts, {size}{place}");
            if is_in_use(it) {
                line.push_str(", in use");
            }
            if let Some(trouble) = &it.trouble {
                line = format!("{name}  cannot be used: {trouble}");
            }
            report::data(format!("{line}\n"))?;
        }
    }
    if let Some((what, remedy)) = models::trouble(&settings, dirs) {
        report::talk(&format!("warning: {what}\nhint: {remedy}"));
    }
    Ok(Exit::Done)
}

fn rows(settings: &Settings, dirs: &Dirs) -> Vec<Row> {
    let board = embed::StaticModel::on_board_identity();
    let mut rows = vec![Row {
        name: board.model,
        kind: board.backend,
        dimension: board.dimension,
        source: board.source,
        bytes: None,
        place: "on board".to_owned(),
        trouble: None,
    }];
    rows.extend(embed::fetched(&dirs.models()).into_iter().map(|it| match it {
        Ok(manifest) => Row {
            bytes: Some(manifest.bytes()),
            kind: "transformer".to_owned(),
            dimension: manifest.dimension,
            source: manifest.digest,
            place: format!("from {}", manifest.from),
            name: manifest.name,
            trouble: None,
        },
        Err((name, err)) => Row {
            name,
            kind: "transformer".to_owned(),
            dimension: 0,
            source: String::new(),
            bytes: None,
            place: dirs.models().display().to_string(),
            trouble: Some(crate::base::trouble::told(&err)),
        },
    }));
    if let Ok(Setup::Ready(config)) = models::provider(settings) {
        let identity = config.identity();
        rows.push(Row {
            name: identity.model,
            kind: identity.backend,
            dimension: identity.dimension,
            place: format!("at {}", identity.source),
            source: identity.source,
            bytes: None,
            trouble: None,
        });
    }
    rows
}

fn size(bytes: u64) -> String {
    match bytes {
        0..1_000_000 => format!("{} kB", bytes.div_ceil(1000)),
        _ => format!("{} MB", (bytes + 500_000) / 1_000_000),
    }
}

/// `remd model get NAME`.
pub fn get(args: &ModelGet, vault: Option<&Path>, dirs: &Dirs) -> Result<Exit, CliError> {
    let settings = settings_of(vault, dirs)?;
    if let Some(whose) = models::reserved(&args.name, &settings) {
        let said = format!("`{}` cannot be fetched: it is the name of {whose}", args.name);
        return Err(CliError::new(said)
            .hint("`remd model use` knows it without; `remd model list` shows what is at hand."));
    }
    let place = match &args.from {
        Some(from) => Place::Named(from.clone()),
        None => Place::Hub(settings.model_hub.trim_end_matches('/').to_owned()),
    };
    let limit = keys::duration(&args.timeout)
        .map_err(|wanted| CliError::new(format!("`--timeout` wants {wanted}")))?;
    let models_dir = dirs.models();
    let name = &args.name;
    if args.dry_run {
        let from = match &place {
            Place::Named(from) => embed::shown(from),
            Place::Hub(hub) => embed::shown(hub),
        };
        report::talk(&format!("Would fetch `{name}` from `{from}` to `{}`.", models_dir.display()));
        return Ok(Exit::Done);
    }
    let bar = Bar::new();
    let count = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
    let got = embed::get(&models_dir, name, &place, limit, &|what, done, all| match all {
        Some(all) => bar.at(what, count(done), count(all)),
        None => bar.at_unknown(what, count(done)),
    });
    drop(bar);
    let manifest = got.map_err(|err| get_error(&err))?;
    if args.json {
        let object = json!({
            "schema_version": 1,
            "name": manifest.name,
            "dimension": manifest.dimension,
            "digest": manifest.digest,
            "bytes": manifest.bytes(),
            "from": manifest.from,
        });
        report::data(format!("{object:#}\n"))?;
    }
    let Manifest { name, dimension, .. } = &manifest;
    report::talk(&format!("`{name}` is here: {dimension} parts, {}.", size(manifest.bytes())));
    match models::named(&settings) == name {
        // An agent that could not have it, or had another one of its name.
        true => tell_agent(vault, dirs),
        false => report::talk(&format!("`remd model use {name}` goes over to it.")),
    }
    Ok(Exit::Done)
}

fn get_error(err: &GetError) -> CliError {
    let said = CliError::from_error(err);
    match err.hint() {
        Some(hint) => said.hint(hint),
        None => said,
    }
}

/// `remd model use NAME`.
pub fn choose(args: &ModelUse, vault: Option<&Path>, dirs: &Dirs) -> Result<Exit, CliError> {
    let before = settings_of(vault, dirs)?;
    let name = args.name.as_str();
    let rows = rows(&before, dirs);
    if name != models::AUTO && !rows.iter().any(|it| it.name == name && it.trouble.is_none()) {
        let known: Vec<String> = rows.iter().map(|it| format!("`{}`", it.name)).collect();
        return Err(CliError::new(format!("There is no model `{name}` here")).hint(format!(
            "There is `{}` (a provider where one is configured), {}; `remd model get {name}` \
             fetches another one.",
            models::AUTO,
            known.join(", ")
        )));
    }
    let file = dirs.user_settings();
    let text = fs::read_if_there(&file)?.unwrap_or_default();
    let by_hand =
        || format!("Write it there by hand: `{}: {name}`, then `remd reload`.", models::MODEL_KEY);
    let refused = |why: String| {
        CliError::new(format!("`{}` cannot be changed: {why}", file.display())).hint(by_hand())
    };
    let text = String::from_utf8(text).map_err(|_| refused("it is not UTF-8".to_owned()))?;
    let edited = config::edit::set(&text, "search", "model", name)
        .map_err(|err| refused(err.to_string()))?;
    if args.dry_run {
        let key = models::MODEL_KEY;
        report::talk(&format!("Would write `{key}: {name}` into `{}`.", file.display()));
        return Ok(Exit::Done);
    }
    if edited != text {
        fs::create_private_dir_all(&dirs.config)?;
        let is_new = fs::lstat_if_there(&file)?.is_none();
        fs::write_atomic(&file, edited.as_bytes())?;
        if is_new {
            fs::set_mode(&file, 0o600)?;
        }
    }
    let after = settings_of(vault, dirs)?;
    if models::named(&after) != name {
        return Err(CliError::new(format!(
            "`{name}` is written down, and `{}` is in use all the same",
            models::named(&after)
        ))
        .hint("The environment (`REMD_SEARCH_MODEL`) says otherwise."));
    }
    let Identity { model, .. } = models::in_use(&after, dirs);
    report::talk(&format!("`{model}` is the model from now on."));
    tell_agent(vault, dirs);
    Ok(Exit::Done)
}

/// How long an agent may take for reading its settings.
const RELOAD: Duration = Duration::from_secs(5);

/// Has the vault's agent read the settings; other vaults' agents see by themselves that they
/// changed, and say so.
fn tell_agent(vault: Option<&Path>, dirs: &Dirs) {
    let Some(vault) = vault else { return };
    // Without a name for its socket nobody could have reached it before.
    let Ok(sockets) = dirs.sockets(vault) else { return };
    report::talk(&match client::ask_any(&sockets, &Request::Reload, RELOAD) {
        Ok(Answer::Done { .. }) => {
            "The agent goes over to it; `remd status` says how far it is.".to_owned()
        }
        Ok(other) => {
            let said = status::unexpected(other);
            format!("warning: the agent goes by its old settings: {}", said.message)
        }
        Err(AskError::NobodyThere) => return,
        Err(err) => {
            format!("warning: the agent was not told: {err}\nhint: `remd reload` tells it.")
        }
    });
}

fn settings_of(vault: Option<&Path>, dirs: &Dirs) -> Result<Settings, CliError> {
    let nowhere = Path::new("/nonexistent");
    Ok(settings::load(vault.unwrap_or(nowhere), dirs, &[])?.settings)
}
