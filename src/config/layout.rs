//! What a vault's folders say of its layout.
//!
//! Takes a folder, gives the layout that it was made by and the templates folders that Obsidian's
//! own settings name. Blocking, a few looks at the disk, any thread.
//!
//! **Invariant:** only what no ordinary folder of notes has counts as a sign: a `daily/` alone is
//! everybody's. What is not sure is not said.

use std::path::Path;

use crate::base::fs;
use crate::vault::Layout;
use crate::vault::role::is_date;

/// Settings files of Obsidian are small.
const MAX_BYTES: u64 = 1 << 20;

/// The layout that `vault` was made by, where its folders say so clearly.
pub fn found_in(vault: &Path) -> Option<&'static str> {
    let by = |name: &'static str| {
        Layout::named(name).is_some_and(|it| is_made_by(vault, &it)).then_some(name)
    };
    match (by("default"), by("reme")) {
        // Signs of both: nobody can tell, and the person's word counts.
        (Some(_), Some(_)) => None,
        (one, other) => one.or(other),
    }
}

/// Derived stores below the metadata folder, ours or ReMe's; or conversations beside daily notes.
fn is_made_by(vault: &Path, layout: &Layout) -> bool {
    let is_dir = |path: &Path| fs::lstat(path).is_ok_and(|it| it.is_dir());
    let metadata = vault.join(&layout.metadata);
    let has_stores = ["file_store", "file_graph", "file_catalog", "keyword_index"]
        .iter()
        .any(|it| is_dir(&metadata.join(it)));
    has_stores
        || (is_dir(&vault.join(&layout.session).join("dialog"))
            && has_days(&vault.join(&layout.daily)))
}

/// Whether a folder has a day in it: `<date>` or `<date>.md`.
fn has_days(folder: &Path) -> bool {
    fs::read_dir(folder).unwrap_or_default().iter().any(|it| {
        let name = it.file_name();
        let name = name.as_encoded_bytes();
        is_date(name.strip_suffix(b".md").unwrap_or(name))
    })
}

/// The templates folders by Obsidian's own settings and those of its plugin Templater.
pub fn obsidian_templates(vault: &Path) -> Vec<String> {
    let named = [
        (".obsidian/templates.json", "folder"),
        (".obsidian/plugins/templater-obsidian/data.json", "templates_folder"),
    ];
    let mut found: Vec<String> = named
        .into_iter()
        .filter_map(|(file, key)| {
            let bytes = fs::read_regular(&vault.join(file), MAX_BYTES).ok()?;
            // Obsidian's file: one that it cannot read either names nothing.
            let value: serde_json::Value = serde_json::from_slice(&bytes).ok()?;
            let folder = value.get(key)?.as_str()?.trim_matches('/').to_owned();
            // The whole vault, or a list of settings where a comma separates.
            (!folder.is_empty() && folder != "." && !folder.contains(',')).then_some(folder)
        })
        .collect();
    found.dedup();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The folders and files of a vault, made; ends with `/` for a folder.
    fn check(there: &[&str], expected: Option<&str>) {
        let dir = tempfile::tempdir().unwrap();
        for path in there {
            let path = dir.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::create_dir_all(&path).unwrap();
        }
        assert_eq!(found_in(dir.path()), expected, "{there:?}");
    }

    #[test]
    fn a_layout_is_recognised_by_what_nobody_else_has() {
        check(&[], None);
        check(&["notes", "daily", "attachments"], None);
        check(&["daily/2026-01-02.md", "session", "metadata"], None);
        check(&["metadata/file_store"], Some("reme"));
        check(&["daily/2026-01-02", "session/dialog", "mem_session"], Some("reme"));
        check(&["metadata/keyword_index", "daily"], Some("reme"));
        check(&["mem_metadata/file_catalog"], Some("default"));
        check(&["memory/2026-01-02.md", "mem_session/dialog"], Some("default"));
        check(&["metadata/file_store", "mem_metadata/file_store"], None);
    }

    #[test]
    fn obsidian_s_templates_are_those_that_its_settings_name() {
        let dir = tempfile::tempdir().unwrap();
        assert!(obsidian_templates(dir.path()).is_empty());
        let write = |path: &str, text: &str| {
            let path = dir.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write_atomic(&path, text.as_bytes()).unwrap();
        };
        write(".obsidian/templates.json", r#"{"folder": "Meta/Templates/"}"#);
        write(".obsidian/plugins/templater-obsidian/data.json", r#"{"templates_folder": "T"}"#);
        assert_eq!(obsidian_templates(dir.path()), ["Meta/Templates", "T"]);
        write(".obsidian/templates.json", "{broken");
        write(".obsidian/plugins/templater-obsidian/data.json", r#"{"templates_folder": "/"}"#);
        assert!(
            obsidian_templates(dir.path()).is_empty(),
            "the whole vault is no templates folder"
        );
    }
}
