//! Every setting: its name, level, default and check.
//!
//! Pure. One table; reading, listing, help and the nearest-name hint all come from it.
//!
//! **Invariant:** a key of level [`Level::User`] is never taken from a vault.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::base::address;
use crate::secrets::Policy;
use crate::vault::Layout;

/// Who may set a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Level {
    /// The vault's `remd.yaml`, or the user.
    Vault,
    /// The user; the vault's `remd.yaml` may only make it stricter.
    Stricter,
    /// Only the user: what names commands, endpoints, keys or paths outside.
    User,
}

impl Level {
    /// For programs.
    pub fn name(self) -> &'static str {
        match self {
            Self::Vault => "vault",
            Self::Stricter => "stricter",
            Self::User => "user",
        }
    }
}

/// A setting of the table.
#[derive(Debug)]
pub struct Key {
    pub name: &'static str,
    pub level: Level,
    pub default: &'static str,
    /// Checks a value and puts it in its place; `Err` says what is wanted.
    set: Option<Set>,
}

/// Checks a value's text and puts it in its place.
type Set = fn(&mut Settings, &str) -> Result<(), String>;

impl Key {
    /// Whether this version acts on it; the others keep their value for a later one.
    pub fn is_used(&self) -> bool {
        self.set.is_some()
    }

    /// What may be printed of a value: no key, and no password of an address.
    pub fn shown(&self, value: &str) -> String {
        let is_address = ["_url", ".hub", ".http"].iter().any(|it| self.name.ends_with(it));
        match self.name.ends_with("api_key") {
            true if value.is_empty() => String::new(),
            true => "(set)".to_owned(),
            false if is_address || value.contains("://") => address::masked(value),
            false => value.to_owned(),
        }
    }
}

/// The settings of one vault, checked.
#[derive(Clone, PartialEq, Debug)]
pub struct Settings {
    pub layout: Layout,
    /// What the layout's names began with: `default` or `reme`.
    pub layout_name: &'static str,
    /// A burst of edits is over when nothing came for this long.
    pub quiet: Duration,
    /// A burst that never pauses is committed after this long.
    pub max_wait: Duration,
    /// A new file larger than this (bytes) is kept out of Git.
    pub max_file: u64,
    /// Deletions are held back from this many notes at once …
    pub hold_count: usize,
    /// … if they are also at least this share (0..=1) of all notes.
    pub hold_share: f64,
    /// What becomes of a file with something that looks like a credential.
    pub secrets: Policy,
    /// Above how many vectors a graph of neighbours says where to look.
    pub ann_above: usize,
    /// The vault of commands that name none.
    pub default_vault: Option<String>,
    /// Where the mount goes; `None` for the default.
    pub mount_path: Option<String>,
    /// How many questions the mount may send a provider in a minute.
    pub paid_per_minute: usize,
    /// Whether two branches of a search are fused by rank, not by score.
    pub fuse_by_rank: bool,
    /// How much vectors weigh, where it is not the default.
    pub vector_weight: Option<f64>,
    /// Whether notes of a time that a question names are preferred.
    pub prefer_dates: bool,
    /// After how many days a note is half as recent, where recent notes are preferred.
    pub recency: Option<u32>,
    /// Where models are fetched from that are named by nothing but their name.
    pub model_hub: String,
    /// Whether Git's hooks are put into the repository when the agent starts.
    pub hooks: bool,
    /// The text of every key that is set, also of those not used yet.
    pub texts: BTreeMap<&'static str, String>,
}

impl Settings {
    /// Whether both have the same effect: a key that is set to its default is as good as not set.
    pub fn are_as(&self, other: &Self) -> bool {
        let usual =
            |name: &str, text: &str| KEYS.iter().any(|key| key.name == name && key.default == text);
        let bare = |it: &Self| {
            let mut it = it.clone();
            it.texts.retain(|name, text| !usual(name, text));
            it
        };
        bare(self) == bare(other)
    }
}

macro_rules! key {
    ($name:literal, $level:ident, $default:literal) => {
        Key { name: $name, level: Level::$level, default: $default, set: None }
    };
    ($name:literal, $level:ident, $default:literal, $set:expr) => {
        Key { name: $name, level: Level::$level, default: $default, set: Some($set) }
    };
}

/// All settings, in the order in which they are listed.
pub const KEYS: &[Key] = &[
    key!("agent.id", Vault, "default"),
    key!("timezone", Vault, "system"),
    key!("layout", Vault, "default", |s, v| {
        let name = Layout::NAMES.into_iter().find(|it| *it == v);
        s.layout_name = name.ok_or_else(|| format!("one of `{}`", Layout::NAMES.join("`, `")))?;
        Ok(())
    }),
    key!("daily_dir", Vault, "memory", |s, v| folder(v).map(|it| s.layout.daily = it)),
    key!("digest_dir", Vault, "digest", |s, v| folder(v).map(|it| s.layout.digest = it)),
    key!("resource_dir", Vault, "resource", |s, v| folder(v).map(|it| s.layout.resource = it)),
    key!("session_dir", Vault, "mem_session", |s, v| folder(v).map(|it| s.layout.session = it)),
    key!("mem_session_dir", Vault, "mem_agent", |s, v| folder(v).map(|it| s.layout.agent = it)),
    key!("metadata_dir", Vault, "mem_metadata", |s, v| folder(v).map(|it| s.layout.metadata = it)),
    key!("templates_dir", Vault, "templates, Templates", |s, v| {
        s.layout.templates =
            v.split(',').map(|it| folder(it.trim())).collect::<Result<Vec<_>, _>>()?;
        Ok(())
    }),
    key!("commit.quiet", Vault, "1s", |s, v| duration(v).map(|it| s.quiet = it)),
    key!("commit.max_wait", Vault, "10s", |s, v| duration(v).map(|it| s.max_wait = it)),
    key!("commit.max_file", Vault, "100MB", |s, v| bytes(v).map(|it| s.max_file = it)),
    key!("commit.hold_deletions.count", Vault, "20", |s, v| {
        s.hold_count = v.parse().map_err(|_| "a whole number, as `20`".to_owned())?;
        Ok(())
    }),
    key!("commit.hold_deletions.share", Vault, "0.5", |s, v| share(v).map(|it| s.hold_share = it)),
    key!("vault", User, "", |s, v| {
        s.default_vault = (!v.is_empty()).then(|| v.to_owned());
        Ok(())
    }),
    key!("mount.path", User, "", |s, v| {
        s.mount_path = (!v.is_empty()).then(|| v.to_owned());
        Ok(())
    }),
    // How many questions a minute may send a provider, from pages that are opened in the mount.
    key!("mount.paid_per_minute", User, "60", |s, v| {
        let count = v.parse().ok().filter(|it| *it <= 100_000);
        s.paid_per_minute = count.ok_or_else(|| "a whole number, 0 for none".to_owned())?;
        Ok(())
    }),
    // Whether Git's hooks are put into the repository by `init` and `up`.
    key!("hooks", User, "true", |s, v| yes_no(v).map(|it| s.hooks = it)),
    key!("search.fusion", Vault, "score", |s, v| {
        s.fuse_by_rank = match v {
            "score" => false,
            "rrf" => true,
            _ => return Err("`score` or `rrf`".to_owned()),
        };
        Ok(())
    }),
    // By itself: the model's own in score fusion, 0.7 in rank fusion.
    key!("search.vector_weight", Vault, "auto", |s, v| {
        let weight = |it: f64| it.is_finite() && (0.0..=10.0).contains(&it);
        s.vector_weight = match v {
            "auto" => None,
            v => match v.parse().ok().filter(|it| weight(*it)) {
                Some(weight) => Some(weight),
                None => return Err("`auto`, or a number from 0 to 10, as `0.7`".to_owned()),
            },
        };
        Ok(())
    }),
    key!("search.candidate_multiplier", Vault, "3"),
    key!("search.prefer_dates", Vault, "true", |s, v| yes_no(v).map(|it| s.prefer_dates = it)),
    // After how many days a note is half as recent.
    key!("search.recency", Vault, "off", |s, v| {
        let days = |it: &str| it.strip_suffix('d').unwrap_or(it).parse::<u32>().ok();
        s.recency = match v {
            "off" => None,
            v => match days(v).filter(|it| (1..=36_500).contains(it)) {
                Some(days) => Some(days),
                None => return Err("`off`, or a number of days, as `90d`".to_owned()),
            },
        };
        Ok(())
    }),
    key!("auto_memory_interval", Vault, "5"),
    key!("summarize_when_compact", Vault, "true"),
    key!("inbox_push_enabled", Vault, "true"),
    key!("dream_cron_enabled", Vault, "true"),
    key!("dream_cron", Vault, "0 23 * * *"),
    key!("auto_memory_search_config.enabled", Vault, "false"),
    key!("auto_memory_search_config.max_results", Vault, "2"),
    key!("memory_manager_backend", Vault, "remelight"),
    key!("memory_tags", Vault, "memory_tags"),
    key!("memory.max_images", Vault, "5"),
    key!("resource.without_model", Vault, "extract"),
    key!("resource.images", Vault, "false"),
    key!("secrets.policy", Stricter, "hold", |s, v| {
        let policy = Policy::named(v);
        let names = Policy::ALL.map(Policy::name).join("`, `");
        policy.map(|it| s.secrets = it).ok_or_else(|| format!("one of `{names}`"))
    }),
    key!("jobs.host", Vault, ""),
    // What embeds: a provider where one is configured, else the model on board; or one by its name.
    key!("search.model", User, "auto", |_, v| match v.trim() {
        "" => Err("`auto`, or a name that `remd model list` shows".to_owned()),
        _ => Ok(()),
    }),
    // Above how many vectors a graph of neighbours says where to look, instead of a look at all.
    key!("search.ann_above", User, "250000", |s, v| {
        s.ann_above = match v.trim() {
            "off" => usize::MAX,
            v => match v.parse().ok().filter(|it| *it < usize::MAX) {
                Some(vectors) => vectors,
                None => return Err("`off`, or a number of vectors, as `250000`".to_owned()),
            },
        };
        Ok(())
    }),
    key!("model.hub", User, "https://huggingface.co", |s, v| {
        let is_address = v.starts_with("https://") || v.starts_with("http://");
        s.model_hub = v.to_owned();
        is_address.then_some(()).ok_or_else(|| "an address, as `https://huggingface.co`".to_owned())
    }),
    // The texts are read where the provider is made; what one of them alone can get wrong is said
    // here, with file and line.
    key!("embedding_model_config.backend", User, "openai", |_, _| Ok(())),
    key!("embedding_model_config.api_key", User, "", |_, _| Ok(())),
    key!("embedding_model_config.base_url", User, "", |_, _| Ok(())),
    key!("embedding_model_config.model_name", User, "", |_, _| Ok(())),
    key!("embedding_model_config.dimensions", User, "1024", |_, v| count(v, 1 << 16)),
    key!("embedding_model_config.enable_cache", User, "true", |_, v| flag(v)),
    key!("embedding_model_config.use_dimensions", User, "false", |_, v| flag(v)),
    key!("embedding_model_config.max_cache_size", User, "10000", |_, v| count(v, 1 << 24)),
    key!("embedding_model_config.max_input_length", User, "8192", |_, v| count(v, 1 << 24)),
    key!("embedding_model_config.max_batch_size", User, "10", |_, v| count(v, 1 << 12)),
    key!("embedding_model_config.health_check_timeout", User, "15.0", |_, v| {
        let is_good = |it: &f64| *it > 0.0 && *it <= 300.0;
        let seconds = v.trim().parse().ok().filter(is_good);
        seconds.map(|_| ()).ok_or_else(|| "seconds above 0, at most 300".to_owned())
    }),
    key!("reranker_config.enabled", User, "false", |_, v| flag(v)),
    key!("reranker_config.base_url", User, "", |_, _| Ok(())),
    key!("reranker_config.api_key", User, "", |_, _| Ok(())),
    key!("reranker_config.model_name", User, "", |_, _| Ok(())),
    key!("reranker_config.candidate_multiplier", User, "3", |_, v| count(v, 20)),
    key!("reranker_config.timeout", User, "10", |_, _| Ok(())),
    key!("service.http", User, ""),
];

/// Families of keys that later versions fill: known, so that they don't look like a slip.
const FAMILIES: &[(&str, Level)] = &[("sync.", Level::User), ("llm.", Level::User)];

/// Where the graph and a look at all vectors take about as long.
const ANN_ABOVE: usize = 250_000;

impl Default for Settings {
    fn default() -> Self {
        Self {
            layout: Layout::default(),
            layout_name: "default",
            quiet: Duration::from_secs(1),
            max_wait: Duration::from_secs(10),
            max_file: 100_000_000,
            hold_count: 20,
            hold_share: 0.5,
            secrets: Policy::Hold,
            ann_above: ANN_ABOVE,
            default_vault: None,
            mount_path: None,
            paid_per_minute: 60,
            fuse_by_rank: false,
            vector_weight: None,
            prefer_dates: true,
            recency: None,
            model_hub: "https://huggingface.co".to_owned(),
            hooks: true,
            texts: BTreeMap::new(),
        }
    }
}

impl Settings {
    /// Sets one key from its text; the error says what is wanted.
    pub fn set(&mut self, key: &'static Key, value: &str) -> Result<(), String> {
        if let Some(set) = key.set {
            set(self, value)?;
        }
        self.texts.insert(key.name, value.to_owned());
        Ok(())
    }

    /// What only several keys together can get wrong: folders that overlap.
    pub fn check(&self) -> Result<(), String> {
        let folders = self.layout.folders();
        for (at, (name, folder)) in folders.iter().enumerate() {
            for (other, taken) in &folders[..at] {
                let within = |a: &str, b: &str| {
                    a.strip_prefix(b).is_some_and(|it| it.is_empty() || it.starts_with('/'))
                };
                if within(folder, taken) || within(taken, folder) {
                    return Err(format!("`{name}` ({folder}) overlaps `{other}` ({taken})"));
                }
            }
        }
        if self.max_wait < self.quiet {
            return Err("`commit.max_wait` is shorter than `commit.quiet`".to_owned());
        }
        Ok(())
    }
}

/// What a name in a settings file stands for.
pub enum Lookup {
    Known(&'static Key),
    /// A name that a later version will read.
    Family(Level),
    /// Not a key; the nearest one, if any is near.
    Unknown(Option<&'static str>),
}

/// Finds a key by its dotted name.
pub fn find(name: &str) -> Lookup {
    if let Some(key) = KEYS.iter().find(|it| it.name == name) {
        return Lookup::Known(key);
    }
    if let Some((_, level)) = FAMILIES.iter().find(|(prefix, _)| name.starts_with(prefix)) {
        return Lookup::Family(*level);
    }
    let nearest = KEYS
        .iter()
        .map(|it| (edit_distance(it.name, name), it.name))
        .min()
        .filter(|(distance, _)| *distance <= 1 + name.len() / 4);
    Lookup::Unknown(nearest.map(|it| it.1))
}

/// Levenshtein's distance, in characters.
fn edit_distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, a_char) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, b_char) in b.iter().enumerate() {
            let substituted = diagonal + usize::from(a_char != *b_char);
            diagonal = row[j + 1];
            row[j + 1] = substituted.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

fn folder(value: &str) -> Result<String, String> {
    let trimmed = value.strip_suffix('/').unwrap_or(value);
    crate::vault::VaultPath::new(trimmed)
        .map(|_| trimmed.to_owned())
        .map_err(|why| format!("a folder inside the vault ({why})"))
}

/// `1s`, `500ms`, `2m`, `1h`, or plain seconds; at most a day.
pub fn duration(value: &str) -> Result<Duration, String> {
    let wanted = || "a duration, as `500ms`, `1s` or `2m`, at most a day".to_owned();
    let digits = value.find(|it: char| !it.is_ascii_digit() && it != '.').unwrap_or(value.len());
    let (number, unit) = value.split_at(digits);
    let number: f64 = number.parse().map_err(|_| wanted())?;
    let seconds = match unit.trim() {
        "ms" => number / 1000.0,
        "" | "s" => number,
        "m" | "min" => number * 60.0,
        "h" => number * 3600.0,
        _ => return Err(wanted()),
    };
    Duration::try_from_secs_f64(seconds)
        .ok()
        .filter(|it| *it <= Duration::from_secs(86_400))
        .ok_or_else(wanted)
}

/// `10MB`, `512KiB`, `2GB`, or plain bytes. Decimal units are powers of 1000.
fn bytes(value: &str) -> Result<u64, String> {
    let wanted = || "a size, as `10MB` or `512KiB`".to_owned();
    let digits = value.find(|it: char| !it.is_ascii_digit()).unwrap_or(value.len());
    let (number, unit) = value.split_at(digits);
    let number: u64 = number.parse().map_err(|_| wanted())?;
    let factor = match unit.trim() {
        "" | "B" => 1,
        "k" | "kB" | "KB" => 1000,
        "M" | "MB" => 1_000_000,
        "G" | "GB" => 1_000_000_000,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        _ => return Err(wanted()),
    };
    number.checked_mul(factor).ok_or_else(wanted)
}

fn yes_no(value: &str) -> Result<bool, String> {
    value.parse().map_err(|_| "`true` or `false`".to_owned())
}

/// A whole number from 1.
fn count(value: &str, most: usize) -> Result<(), String> {
    let number = value.trim().parse().ok().filter(|it| (1..=most).contains(it));
    number.map(|_| ()).ok_or_else(|| format!("a whole number from 1 to {most}"))
}

fn flag(value: &str) -> Result<(), String> {
    yes_no(&value.trim().to_lowercase()).map(drop)
}

/// `0.5` or `50%`.
fn share(value: &str) -> Result<f64, String> {
    let parsed = match value.strip_suffix('%') {
        Some(percent) => percent.trim().parse::<f64>().map(|it| it / 100.0),
        None => value.parse::<f64>(),
    };
    parsed
        .ok()
        .filter(|it| (0.0..=1.0).contains(it))
        .ok_or_else(|| "a share between 0 and 1, as `0.5` or `50%`".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_s_defaults_are_the_struct_s() {
        let mut settings = Settings::default();
        for key in KEYS {
            settings.set(key, key.default).unwrap_or_else(|err| panic!("{}: {err}", key.name));
        }
        settings.texts.clear();
        assert_eq!(settings, Settings::default());
        assert_eq!(settings.check(), Ok(()));
    }

    #[test]
    fn values_are_read_as_people_write_them() {
        assert_eq!(duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(duration("1.5"), Ok(Duration::from_millis(1500)));
        assert_eq!(duration("2m"), Ok(Duration::from_secs(120)));
        assert!(duration("fast").is_err() && duration("-1s").is_err() && duration("9e9h").is_err());
        assert_eq!(bytes("100MB"), Ok(100_000_000));
        assert_eq!(bytes("1KiB"), Ok(1024));
        assert!(bytes("99999999999GB").is_err());
        assert_eq!(share("50%"), Ok(0.5));
        assert!(share("2").is_err());
        assert_eq!((yes_no("true"), yes_no("false")), (Ok(true), Ok(false)));
        assert!(yes_no("perhaps").is_err());
        assert!(folder("../out").is_err() && folder("/etc").is_err() && folder(".git").is_err());
    }

    #[test]
    fn a_slip_finds_its_nearest_name() {
        assert!(matches!(find("commit.quite"), Lookup::Unknown(Some("commit.quiet"))));
        assert!(matches!(find("zzzzzz"), Lookup::Unknown(None)));
        assert!(matches!(find("llm.model"), Lookup::Family(Level::User)));
    }

    #[test]
    fn folders_that_overlap_are_refused() {
        let mut settings = Settings::default();
        settings.layout.digest = "memory/digest".into();
        assert!(settings.check().unwrap_err().contains("overlaps"));
    }
}
