//! `remd config list`.
//!
//! Takes the vault, if there is one, and prints every setting with its source.

use std::path::Path;

use serde_json::json;

use crate::cli::report::{self, CliError, Exit};
use crate::config::keys::KEYS;
use crate::config::{Dirs, Source};
use crate::daemon::settings;

/// Prints every setting, its value and where it comes from.
pub fn list(vault: Option<&Path>, dirs: &Dirs, json: bool) -> Result<Exit, CliError> {
    let nowhere = Path::new("/nonexistent");
    let loaded = settings::load(vault.unwrap_or(nowhere), dirs, &[])?;
    let mut rows = Vec::new();
    for key in KEYS {
        let source = loaded.sources.get(key.name).cloned().unwrap_or(Source::Default);
        let value = loaded.settings.texts.get(key.name).map_or(key.default, String::as_str);
        rows.push((key, key.shown(value), source));
    }
    if json {
        let settings: Vec<_> = rows
            .iter()
            .map(|(key, value, source)| {
                json!({
                    "key": key.name,
                    "value": value,
                    "source": source.text(),
                    "level": key.level.name(),
                    "used": key.is_used(),
                })
            })
            .collect();
        let object =
            json!({"schema_version": 1, "settings": settings, "warnings": loaded.warnings});
        report::data(format!("{object:#}\n"))?;
    } else {
        let mut text = String::new();
        for (key, value, source) in &rows {
            let unused = if key.is_used() { "" } else { "  (not used by this version)" };
            text.push_str(&format!("{} = {value}  # {}{unused}\n", key.name, source.text()));
        }
        report::data(text)?;
        for warning in &loaded.warnings {
            report::talk(&format!("warning: {warning}"));
        }
    }
    Ok(Exit::Done)
}
