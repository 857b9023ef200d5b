//! What embeds, by the settings.
//!
//! Takes the user's settings, gives a provider, a model that was fetched, or the one on board, and
//! what of the settings could not be done. The model on board is read in when the first text is
//! embedded, once a process: opening an index and asking for the status need none of it. Any
//! thread.
//!
//! **Invariant:** without a model everything goes on by keywords; what was asked for and is not in
//! use is named, with its remedy.

use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use crate::base::fs;
use crate::base::trouble::told;
use crate::config::{Dirs, Settings};
use crate::embed::remote::{Config, Remote, Setup};
use crate::embed::{
    Answer, Cache, Cached, Embedder, Identity, LocalError, LocalModel, Purpose, Slot, StaticModel,
};
use crate::index::Models;

/// What embeds.
pub struct Chosen {
    pub models: Models,
    /// Where it is one that takes its time.
    pub serving: Option<Serving>,
    /// What could not be done as asked for, and the remedy.
    pub trouble: Option<(String, String)>,
}

/// A model that takes its time.
#[derive(Clone)]
pub struct Serving {
    /// Without a cache between.
    pub model: Arc<dyn Embedder>,
    pub cached: Option<Arc<Cached>>,
    /// The same in this process, where it has to be read first.
    pub local: Option<Arc<LocalModel>>,
    /// How long a provider may take for a health check; `None` for a model in this process.
    pub check: Option<Duration>,
}

/// The settings that choose, and what they point to: equal where the same is chosen.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Wish {
    texts: Vec<(&'static str, String)>,
    digest: Option<String>,
}

/// The setting that names a model.
pub const MODEL_KEY: &str = "search.model";
/// A provider where one is configured, else the model on board.
pub const AUTO: &str = "auto";
const PROVIDER: &str = "embedding_model_config.";

impl Wish {
    pub fn of(settings: &Settings, dirs: &Dirs) -> Self {
        let is_ours = |it: &str| it == MODEL_KEY || it.starts_with(PROVIDER);
        let texts = settings.texts.iter().filter(|it| is_ours(it.0));
        let digest = LocalModel::open(&dirs.models(), named(settings))
            .ok()
            .map(|it| it.manifest().digest.clone());
        Self { texts: texts.map(|(key, text)| (*key, text.clone())).collect(), digest }
    }
}

/// The model that the settings name, or [`AUTO`].
pub fn named(settings: &Settings) -> &str {
    settings.texts.get(MODEL_KEY).map_or(AUTO, |it| it.trim())
}

/// Whose name it is, where no fetched model may have it: nobody could choose that one.
pub fn reserved(name: &str, settings: &Settings) -> Option<&'static str> {
    let name = name.trim();
    if name.eq_ignore_ascii_case(AUTO) {
        return Some("the choice between a provider and the model on board");
    }
    if name.eq_ignore_ascii_case(&StaticModel::on_board_identity().model) {
        return Some("the model on board");
    }
    let is_provider = matches!(provider(settings), Ok(Setup::Ready(it)) if it.model_name == name);
    is_provider.then_some("the provider's model in your settings")
}

/// The provider that the settings describe.
pub fn provider(settings: &Settings) -> Result<Setup, String> {
    Setup::read(|key| settings.texts.get(format!("{PROVIDER}{key}").as_str()).cloned())
        .map_err(|err| err.to_string())
}

/// What the settings mean.
enum Choice {
    Board,
    /// The model on board instead of what was asked for: why, and the remedy.
    Instead(String, String),
    Local(Box<LocalModel>),
    Provider(Box<Config>),
}

fn decide(settings: &Settings, dirs: &Dirs) -> Choice {
    let name = named(settings);
    if name == StaticModel::on_board_identity().model {
        return Choice::Board;
    }
    let setup = provider(settings);
    let is_provider = matches!(&setup, Ok(Setup::Ready(it)) if it.model_name == name);
    if name != AUTO && !is_provider {
        return match LocalModel::open(&dirs.models(), name) {
            Ok(model) => Choice::Local(Box::new(model)),
            Err(err) => {
                let again = if matches!(err, LocalError::Absent(_)) { "" } else { " again" };
                let remedy = format!(
                    "`remd model get {name}` fetches it{again}; `remd model use auto` does \
                     without it."
                );
                Choice::Instead(told(&err), remedy)
            }
        };
    }
    match setup {
        Ok(Setup::OnBoard) => Choice::Board,
        Ok(Setup::Incomplete(why)) => {
            let begun = "Add what is missing, or take `embedding_model_config` out,";
            Choice::Instead(why, in_file(begun, dirs))
        }
        Err(why) => Choice::Instead(why, in_file("Mend it", dirs)),
        Ok(Setup::Ready(config)) => Choice::Provider(config),
    }
}

fn in_file(what: &str, dirs: &Dirs) -> String {
    let file = dirs.user_settings();
    format!("{what} in `{}`; then `remd reload`, or restart the agent.", file.display())
}

/// What of the settings cannot be done, as far as it can be known without trying.
pub fn trouble(settings: &Settings, dirs: &Dirs) -> Option<(String, String)> {
    match decide(settings, dirs) {
        Choice::Instead(why, remedy) => with_board(Some((why, remedy))).trouble,
        Choice::Board | Choice::Local(_) | Choice::Provider(_) => None,
    }
}

/// The name and kind of the model that the settings choose.
pub fn in_use(settings: &Settings, dirs: &Dirs) -> Identity {
    match decide(settings, dirs) {
        Choice::Board | Choice::Instead(..) => StaticModel::on_board_identity(),
        Choice::Local(model) => model.identity().clone(),
        Choice::Provider(config) => config.identity(),
    }
}

/// Chooses by the settings; what a provider is paid for is kept below `metadata`, where that is
/// given.
pub fn choose(settings: &Settings, dirs: &Dirs, metadata: Option<&Path>) -> Chosen {
    match decide(settings, dirs) {
        Choice::Board => with_board(None),
        Choice::Instead(why, remedy) => with_board(Some((why, remedy))),
        Choice::Local(model) => with_local(*model, settings, metadata),
        Choice::Provider(config) => with_provider(*config, metadata, &in_file("Mend it", dirs)),
    }
}

/// The model for one command: what has to be read is read; without a cache, which is the agent's.
pub fn for_a_command(settings: &Settings, dirs: &Dirs) -> Arc<dyn Embedder> {
    let Chosen { models, serving, .. } = choose(settings, dirs, None);
    match serving.and_then(|it| it.local).map(|it| it.load()) {
        Some(Err(err)) => {
            tracing::warn!("{err}");
            on_board()
        }
        Some(Ok(())) | None => models.wanted,
    }
}

/// The model that the program carries.
pub fn on_board() -> Arc<dyn Embedder> {
    static MODEL: OnceLock<Arc<OnBoard>> = OnceLock::new();
    let model = MODEL.get_or_init(|| {
        Arc::new(OnBoard { identity: StaticModel::on_board_identity(), model: OnceLock::new() })
    });
    Arc::clone(model) as Arc<dyn Embedder>
}

fn with_board(trouble: Option<(String, String)>) -> Chosen {
    let trouble = trouble.map(|(why, remedy)| {
        (format!("The model on board is used instead of the one that was asked for: {why}"), remedy)
    });
    Chosen { models: Models::only(on_board()), serving: None, trouble }
}

fn with_provider(config: Config, metadata: Option<&Path>, remedy: &str) -> Chosen {
    let (room, check) = (config.cache, Some(config.health_check_timeout));
    match Remote::new(config) {
        Ok(remote) => {
            let model: Arc<dyn Embedder> = Arc::new(remote);
            served(Serving { model, cached: None, local: None, check }, room, metadata)
        }
        Err(err) => {
            let hint = err.hint().unwrap_or_else(|| remedy.to_owned());
            with_board(Some((told(&err), hint)))
        }
    }
}

fn with_local(model: LocalModel, settings: &Settings, metadata: Option<&Path>) -> Chosen {
    let text = |key: &str| settings.texts.get(format!("{PROVIDER}{key}").as_str());
    let is_off = text("enable_cache").is_some_and(|it| it.trim().eq_ignore_ascii_case("false"));
    let most = text("max_cache_size").and_then(|it| it.trim().parse().ok()).unwrap_or(10_000);
    let room = NonZeroUsize::new(most).filter(|_| !is_off);
    let local = Arc::new(model);
    let model = Arc::clone(&local) as Arc<dyn Embedder>;
    served(Serving { model, cached: None, local: Some(local), check: None }, room, metadata)
}

fn served(mut serving: Serving, room: Option<NonZeroUsize>, metadata: Option<&Path>) -> Chosen {
    let mut trouble = None;
    let mut wanted = Arc::clone(&serving.model);
    if let Some((most, metadata)) = room.zip(metadata) {
        let opened = Cache::open(metadata, serving.model.identity(), most).and_then(|opened| {
            let (cache, state) = opened;
            tracing::debug!(?state, texts = cache.len(), "vectors that were paid for");
            // The vault's folder: that of derived state may be deleted and made again.
            let home = metadata.parent().unwrap_or(metadata);
            Ok(Cached::new(Arc::clone(&serving.model), cache).kept_below(home)?)
        });
        match opened {
            Ok(cached) => {
                let cached = Arc::new(cached);
                wanted = Arc::clone(&cached) as Arc<dyn Embedder>;
                serving.cached = Some(cached);
            }
            Err(err) => {
                let what = format!("Vectors that were paid for can't be kept: {}", told(&err));
                let remedy = "Look at the room and the owner of the folder of derived state; then \
                              `remd reload`. A text may be paid for twice until then.";
                trouble = Some((what, remedy.to_owned()));
            }
        }
    }
    Chosen {
        models: Models { wanted, meanwhile: Some(on_board()) },
        serving: Some(serving),
        trouble,
    }
}

/// Whether others can read a key in the user's settings file.
pub fn is_key_open(dirs: &Dirs) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    let file = dirs.user_settings();
    let is_open = fs::stat(&file).is_ok_and(|it| it.permissions().mode() & 0o077 != 0);
    is_open
        && fs::read_regular(&file, 1 << 20).is_ok_and(|it| {
            String::from_utf8_lossy(&it).lines().any(|it| {
                let line = it.trim_start();
                line.starts_with("api_key:") && !line["api_key:".len()..].trim().is_empty()
            })
        })
}

struct OnBoard {
    identity: Identity,
    model: OnceLock<Option<StaticModel>>,
}
impl OnBoard {
    fn model(&self) -> Option<&StaticModel> {
        let read = || match StaticModel::on_board() {
            Ok(model) => Some(model),
            Err(err) => {
                // Never but in a program that was damaged: its texts say nothing to it then.
                tracing::error!(err = told(&err), "the model on board can't be used");
                None
            }
        };
        self.model.get_or_init(read).as_ref()
    }
}

impl Embedder for OnBoard {
    fn identity(&self) -> &Identity {
        &self.identity
    }

    fn window(&self) -> usize {
        StaticModel::WINDOW
    }

    fn count(&self, text: &str) -> usize {
        self.model().map_or(0, |it| it.count(text))
    }

    fn embed(&self, texts: &[&str], purpose: Purpose, deadline: Instant) -> Answer {
        match self.model() {
            Some(model) => model.embed(texts, purpose, deadline),
            None => Answer { slots: vec![Slot::Silent; texts.len()], stopped: None },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_known_before_reading_is_what_is_read() {
        let (lazy, read) = (on_board(), StaticModel::on_board().unwrap());
        assert_eq!(lazy.identity(), read.identity());
        assert_eq!(lazy.window(), read.window());
    }
}
