//! Reads the settings files.
//!
//! Takes the vault, the user's folder, the environment and overrides; gives checked settings,
//! each value's source, and warnings. Blocking, any thread.
//!
//! **Invariant:** an error leaves the caller with its last good settings; a warning never does.

use std::collections::BTreeMap;
use std::path::Path;

use serde_yaml::Value;

use crate::base::fs::{self, PathError};
use crate::config::keys::{self, KEYS, Key, Level, Lookup, Settings};
use crate::config::layout;
use crate::vault::Layout;

/// Where a value comes from.
#[derive(Clone, PartialEq, Eq, Debug, PartialOrd, Ord)]
pub enum Source {
    Default,
    UserFile,
    /// What the vault's folders look like.
    Found,
    /// What was settled when the vault was adopted.
    Remembered,
    VaultFile,
    Environment,
    Override,
}

impl Source {
    /// For people.
    pub fn text(&self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::UserFile => "user file",
            Self::Found => "the vault's folders",
            Self::Remembered => "as adopted",
            Self::VaultFile => "vault file",
            Self::Environment => "environment",
            Self::Override => "command line",
        }
    }
}

/// Settings, and how they came about.
#[derive(Clone, Debug)]
pub struct Loaded {
    pub settings: Settings,
    pub sources: BTreeMap<&'static str, Source>,
    /// What was odd but harmless: unknown keys, keys a vault may not set.
    pub warnings: Vec<String>,
}

/// Why settings could not be read.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    #[error(transparent)]
    Read(#[from] PathError),
    #[error("`{file}` is not YAML{}", line.map_or(String::new(), |it| format!(" (line {it})")))]
    Yaml { file: String, line: Option<usize>, source: serde_yaml::Error },
    #[error("{origin}: `{key}` is `{value}`; wanted: {wanted}")]
    Value { origin: String, key: String, value: String, wanted: String },
    #[error("Settings don't fit together: {0}")]
    Together(String),
    #[error("`{vault}` has the layout `{there}` ({by}), not `{wanted}`")]
    Layout { vault: String, there: &'static str, by: &'static str, wanted: &'static str },
    #[error("`{0}` is not of the form `key=value`")]
    Override(String),
    #[error("There is no setting `{name}`{}", nearest.map_or(String::new(), |it| format!("; did you mean `{it}`?")))]
    Unknown { name: String, nearest: Option<&'static str> },
}

impl LoadError {
    /// What the person at the keyboard can do about it, where the message does not say it.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Layout { there, wanted, .. } => {
                let name = |it: &str| Layout::named(it).unwrap_or_default();
                let (old, new) = (name(there), name(wanted));
                Some(format!(
                    "Leave `--layout` away; or rename `{}/` to `{}/` and `{}/` to `{}/`, and write \
                     `layout: {wanted}` into `{VAULT_FILE}`.",
                    old.daily, new.daily, old.session, new.session
                ))
            }
            Self::Unknown { .. } => Some("`remd config list` shows them all.".to_owned()),
            _ => None,
        }
    }
}

/// The vault's settings file.
pub const VAULT_FILE: &str = "remd.yaml";

/// Settings files are small; a larger one is a mistake or an attack.
const MAX_BYTES: u64 = 1 << 20;

/// Reads default, user file, vault file, environment and overrides, each over the one before.
///
/// `remembered` is the layout that was settled when the vault was adopted.
pub fn load(
    vault: &Path,
    user_file: &Path,
    remembered: Option<&str>,
    overrides: &[String],
) -> Result<Loaded, LoadError> {
    let mut loaded =
        Loaded { settings: Settings::default(), sources: BTreeMap::new(), warnings: Vec::new() };
    loaded.take_file(user_file, Source::UserFile)?;
    loaded.take_file(&vault.join(VAULT_FILE), Source::VaultFile)?;
    let there = loaded.layout_there(vault, remembered);
    if let Some((name, source)) = &there {
        loaded.set(layout_key(), name, source.clone(), VAULT_FILE)?;
    }
    for key in KEYS {
        let variable = format!("REMD_{}", key.name.replace('.', "_").to_uppercase());
        if let Ok(value) = std::env::var(&variable) {
            loaded.set(key, &value, Source::Environment, &variable)?;
        }
    }
    for text in overrides {
        let (name, value) =
            text.split_once('=').ok_or_else(|| LoadError::Override(text.clone()))?;
        match keys::find(name) {
            Lookup::Known(key) => loaded.set(key, value, Source::Override, "command line")?,
            Lookup::Family(_) => {}
            Lookup::Unknown(nearest) => {
                return Err(LoadError::Unknown { name: name.to_owned(), nearest });
            }
        }
    }
    let wanted = loaded.settings.layout_name;
    match there {
        Some((there, by)) if there != wanted => {
            let vault = vault.display().to_string();
            return Err(LoadError::Layout { vault, there, by: by.text(), wanted });
        }
        _ => loaded.take_layout(vault)?,
    }
    loaded.settings.check().map_err(LoadError::Together)?;
    Ok(loaded)
}

fn layout_key() -> &'static Key {
    match keys::find("layout") {
        Lookup::Known(key) => key,
        // The table is in this room and tested.
        Lookup::Family(_) | Lookup::Unknown(_) => &KEYS[0],
    }
}

impl Loaded {
    /// The layout by what is there, whoever asks for another one: the vault's own file, what was
    /// settled before, what its folders look like.
    fn layout_there(
        &self,
        vault: &Path,
        remembered: Option<&str>,
    ) -> Option<(&'static str, Source)> {
        if self.sources.get("layout") == Some(&Source::VaultFile) {
            return Some((self.settings.layout_name, Source::VaultFile));
        }
        let known = |name| Layout::NAMES.into_iter().find(|it| Some(*it) == name);
        let remembered = known(remembered).map(|it| (it, Source::Remembered));
        remembered.or_else(|| known(layout::found_in(vault)).map(|it| (it, Source::Found)))
    }

    /// Names the folders by the layout, where nothing names them one by one.
    fn take_layout(&mut self, vault: &Path) -> Result<(), LoadError> {
        let base = Layout::named(self.settings.layout_name).unwrap_or_default();
        let source = self.sources.get("layout").cloned().unwrap_or(Source::Default);
        for (name, value) in base.folders() {
            if let Lookup::Known(key) = keys::find(name)
                && key.default != value
                && !self.sources.contains_key(key.name)
            {
                self.set(key, value, source.clone(), "layout")?;
            }
        }
        if let Lookup::Known(key) = keys::find("templates_dir")
            && !self.sources.contains_key(key.name)
            && let found = layout::obsidian_templates(vault)
            && !found.is_empty()
        {
            let all = format!("{}, {}", key.default, found.join(", "));
            // What Obsidian's files name may be no folder of this vault: then it is none.
            if self.settings.set(key, &all).is_ok() {
                self.sources.insert(key.name, Source::Found);
            }
        }
        Ok(())
    }

    fn set(
        &mut self,
        key: &'static Key,
        value: &str,
        source: Source,
        origin: &str,
    ) -> Result<(), LoadError> {
        self.settings.set(key, value).map_err(|wanted| LoadError::Value {
            origin: origin.to_owned(),
            key: key.name.to_owned(),
            // A key of the user's level may be a secret; its text stays out of error messages.
            value: if key.level == Level::User { "…".to_owned() } else { value.to_owned() },
            wanted,
        })?;
        self.sources.insert(key.name, source);
        Ok(())
    }

    fn take_file(&mut self, path: &Path, source: Source) -> Result<(), LoadError> {
        let bytes = match fs::read_regular(path, MAX_BYTES) {
            Ok(bytes) => bytes,
            Err(err) if err.is_absent() => return Ok(()),
            Err(err) => return Err(err.into()),
        };
        let text = String::from_utf8_lossy(&bytes);
        let file = path.display().to_string();
        let value: Value = serde_yaml::from_str(&text).map_err(|source| LoadError::Yaml {
            file: file.clone(),
            line: source.location().map(|it| it.line()),
            source,
        })?;
        let mut leaves = Vec::new();
        flatten(&value, String::new(), &mut leaves);
        for (name, value) in leaves {
            let origin = match line_of(&text, &name) {
                Some(line) => format!("{file}:{line}"),
                None => file.clone(),
            };
            match keys::find(&name) {
                Lookup::Known(key) if key.level == Level::User && source == Source::VaultFile => {
                    self.warnings.push(format!(
                        "{origin}: `{name}` is ignored: only your own config.yaml may set it"
                    ));
                }
                Lookup::Known(key)
                    if key.level == Level::Stricter && source == Source::VaultFile =>
                {
                    self.tighten(key, &value, &origin)?;
                }
                Lookup::Known(key) => self.set(key, &value, source.clone(), &origin)?,
                Lookup::Family(_) => {}
                Lookup::Unknown(nearest) => {
                    let hint =
                        nearest.map_or(String::new(), |it| format!("; did you mean `{it}`?"));
                    self.warnings.push(format!("{origin}: there is no setting `{name}`{hint}"));
                }
            }
        }
        Ok(())
    }
}

impl Loaded {
    /// Takes what the vault's file says where it is stricter than what the user's says.
    fn tighten(&mut self, key: &'static Key, value: &str, origin: &str) -> Result<(), LoadError> {
        let before = self.settings.clone();
        let source = self.sources.get(key.name).cloned();
        self.set(key, value, Source::VaultFile, origin)?;
        if self.settings.secrets > before.secrets {
            return Ok(());
        }
        if self.settings.secrets < before.secrets {
            let (name, now) = (key.name, before.secrets.name());
            self.warnings.push(format!(
                "{origin}: `{name}: {value}` is ignored: a vault may only make it stricter than `{now}`"
            ));
        }
        self.settings = before;
        match source {
            Some(source) => self.sources.insert(key.name, source),
            None => self.sources.remove(key.name),
        };
        Ok(())
    }
}

/// The leaves of a YAML mapping as dotted names and texts; lists join with `, `.
pub(super) fn flatten(value: &Value, name: String, leaves: &mut Vec<(String, String)>) {
    match value {
        Value::Mapping(map) => {
            for (key, value) in map {
                let key = scalar(key);
                let name = if name.is_empty() { key } else { format!("{name}.{key}") };
                flatten(value, name, leaves);
            }
        }
        Value::Sequence(items) => {
            leaves.push((name, items.iter().map(scalar).collect::<Vec<_>>().join(", ")));
        }
        // An empty file, or a key with everything below it commented out.
        Value::Null => {}
        other => leaves.push((name, scalar(other))),
    }
}

fn scalar(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Bool(it) => it.to_string(),
        Value::Number(it) => it.to_string(),
        _ => String::new(),
    }
}

/// The 1-based line where the last part of a dotted name stands as a key.
fn line_of(text: &str, name: &str) -> Option<usize> {
    let last = name.rsplit('.').next()?;
    text.lines()
        .position(|line| {
            line.trim_start().strip_prefix(last).is_some_and(|it| it.trim_start().starts_with(':'))
        })
        .map(|at| at + 1)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::secrets::Policy;

    fn check(user: &str, vault: &str, overrides: &[&str]) -> Result<Loaded, LoadError> {
        let dir = tempfile::tempdir().unwrap();
        let user_file = dir.path().join("config.yaml");
        fs::write_atomic(&user_file, user.as_bytes()).unwrap();
        fs::write_atomic(&dir.path().join(VAULT_FILE), vault.as_bytes()).unwrap();
        let overrides: Vec<String> = overrides.iter().map(|it| (*it).to_owned()).collect();
        load(dir.path(), &user_file, None, &overrides)
    }

    #[test]
    fn each_source_goes_over_the_one_before() {
        let loaded = check("commit:\n  quiet: 3s\n  max_wait: 30s\n", "commit.quiet: 2s\n", &[])
            .expect("dotted and nested names are both fine");
        assert_eq!(loaded.settings.quiet, Duration::from_secs(2));
        assert_eq!(loaded.settings.max_wait, Duration::from_secs(30));
        assert_eq!(loaded.sources["commit.quiet"], Source::VaultFile);
        let loaded = check("", "commit: {quiet: 2s}\n", &["commit.quiet=200ms"]).unwrap();
        assert_eq!(loaded.settings.quiet, Duration::from_millis(200));
    }

    #[test]
    fn a_vault_cannot_choose_paths_outside_or_secrets() {
        let vault =
            "mount:\n  path: /home/victim\nembedding_model_config:\n  base_url: http://evil\n";
        let loaded = check("", vault, &[]).unwrap();
        assert_eq!(loaded.settings.mount_path, None);
        assert_eq!(loaded.warnings.len(), 2, "{:?}", loaded.warnings);
        assert!(check("", "metadata_dir: ../../out\n", &[]).is_err());
    }

    #[test]
    fn a_vault_may_only_tighten_the_secrets_policy() {
        let check = |user: &str, vault: &str, overrides: &[&str]| {
            let loaded = check(user, vault, overrides).unwrap();
            let source = loaded.sources.get("secrets.policy").cloned();
            (loaded.settings.secrets, source, loaded.warnings.len())
        };
        let (user, vault) = (Some(Source::UserFile), Some(Source::VaultFile));
        assert_eq!(check("", "", &[]), (Policy::Hold, None, 0));
        assert_eq!(check("", "secrets: {policy: off}\n", &[]), (Policy::Hold, None, 1));
        assert_eq!(check("", "secrets.policy: warn\n", &[]), (Policy::Hold, None, 1));
        assert_eq!(check("secrets.policy: warn\n", "", &[]), (Policy::Warn, user.clone(), 0));
        let tightened = check("secrets.policy: warn\n", "secrets.policy: hold\n", &[]);
        assert_eq!(tightened, (Policy::Hold, vault.clone(), 0));
        let loosened = check("secrets.policy: warn\n", "secrets.policy: off\n", &[]);
        assert_eq!(loosened, (Policy::Warn, user.clone(), 1));
        let same = check("secrets.policy: warn\n", "secrets.policy: warn\n", &[]);
        assert_eq!(same, (Policy::Warn, user, 0));
        let mine = check("", "secrets.policy: hold\n", &["secrets.policy=off"]);
        assert_eq!(mine, (Policy::Off, Some(Source::Override), 0), "the user has the last word");
        let err = super::tests::check("secrets.policy: perhaps\n", "", &[]).unwrap_err();
        assert!(err.to_string().contains("`off`, `warn`, `hold`"), "{err}");
        // A word that YAML takes for another one is that all the same.
        assert_eq!(
            super::tests::check("secrets:\n  policy: off\n", "", &[]).unwrap().settings.secrets,
            Policy::Off
        );
    }

    #[test]
    fn a_bad_value_names_file_line_and_remedy() {
        let err = check("", "# remd\ncommit:\n  quiet: soon\n", &[]).unwrap_err().to_string();
        assert!(err.contains("remd.yaml:3") && err.contains("500ms"), "{err}");
        let err = check("", "a: [", &[]).unwrap_err().to_string();
        assert!(err.contains("is not YAML (line"), "{err}");
    }

    #[test]
    fn an_unknown_key_warns_with_the_nearest_name() {
        let loaded = check("", "commit:\n  quite: 1s\n", &[]).unwrap();
        assert!(
            loaded.warnings[0].contains("did you mean `commit.quiet`?"),
            "{:?}",
            loaded.warnings
        );
    }

    #[test]
    fn an_empty_or_commented_file_is_fine() {
        assert!(check("", "# nothing\ncommit:\n  # quiet: 1s\n", &[]).unwrap().warnings.is_empty());
    }

    /// One layout: what is there counts, then what the user's file wishes for.
    #[test]
    fn the_layout_is_what_is_there_and_a_flag_that_contradicts_it_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let user_file = dir.path().join("config.yaml");
        let vault = dir.path().join("vault");
        let load = |remembered, flag: &[&str]| {
            let flag: Vec<String> = flag.iter().map(|it| (*it).to_owned()).collect();
            load(&vault, &user_file, remembered, &flag)
        };
        let daily = |loaded: Result<Loaded, LoadError>| loaded.unwrap().settings.layout.daily;
        assert_eq!(daily(load(None, &[])), "memory");
        assert_eq!(daily(load(None, &["layout=reme"])), "daily", "nothing there says otherwise");
        assert_eq!(daily(load(Some("reme"), &[])), "daily");
        let one = load(None, &["layout=reme", "daily_dir=journal"]).unwrap();
        assert_eq!(one.settings.layout.daily, "journal", "a folder that is named is that");
        assert_eq!(one.settings.layout.metadata, "metadata");
        assert_eq!(one.sources["metadata_dir"], Source::Override);
        fs::write_atomic(&user_file, b"layout: reme\n").unwrap();
        assert_eq!(daily(load(None, &[])), "daily");
        assert_eq!(daily(load(Some("default"), &[])), "memory");
        let err = load(Some("default"), &["layout=reme"]).unwrap_err();
        assert!(err.to_string().contains("`default` (as adopted), not `reme`"), "{err}");
        assert!(err.hint().unwrap().contains("layout: reme"));
        fs::create_dir_all(&vault.join("mem_metadata/file_store")).unwrap();
        assert_eq!(daily(load(None, &[])), "memory");
        let err = load(None, &["layout=reme"]).unwrap_err();
        assert!(err.to_string().contains("the vault's folders"), "{err}");
        fs::write_atomic(&vault.join(VAULT_FILE), b"layout: reme\n").unwrap();
        assert_eq!(daily(load(Some("default"), &[])), "daily", "the vault's own file says more");
        assert!(load(None, &["layout=default"]).is_err());
        assert!(load(None, &["layout=other"]).unwrap_err().to_string().contains("`reme`"));
    }
}
