//! The files of `vault-template`, carried in the program.
//!
//! Pure. **Invariant:** every file of the folder is here (a test compares).

macro_rules! files {
    ($($path:literal),* $(,)?) => {
        &[$(($path, include_str!(concat!("../../vault-template/", $path)))),*]
    };
}

use crate::config::load::VAULT_FILE;
use crate::vault::Layout;

/// Path and content of each file.
pub const FILES: &[(&str, &str)] = files![
    ".gitignore",
    "README.md",
    "digest/personal/about-me.md",
    "digest/procedure/editors-and-obsidian.md",
    "digest/procedure/keep-a-day.md",
    "digest/procedure/let-an-agent-read.md",
    "digest/procedure/take-back-an-edit.md",
    "digest/procedure/when-something-waits.md",
    "digest/wiki/folders-of-the-vault.md",
    "digest/wiki/how-history-works.md",
    "digest/wiki/how-links-work.md",
    "digest/wiki/how-search-works.md",
    "remd.yaml",
    "resource/README.md",
];

/// A file of the template as a vault with this layout has it.
pub fn content(path: &str, text: &str, layout: &Layout, layout_name: &str) -> String {
    let usual = Layout::default();
    let daily = |around: [&str; 2]| around.join(&format!("{}/", usual.daily));
    let mut text = text.to_owned();
    // The vault of the examples has the name of the usual folder for days.
    for around in [["~/memory/", ""], ["`", "`"], ["\n", "\n"]] {
        text = text.replace(&daily(around), &around.join(&format!("{}/", layout.daily)));
    }
    text = text.replace(&usual.metadata, &layout.metadata).replace(&usual.agent, &layout.agent);
    if path == VAULT_FILE && layout_name != "default" {
        text = text.replacen(
            "\n\n",
            &format!("\n\n# The names of the folders.\nlayout: {layout_name}\n\n"),
            1,
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use super::*;
    use crate::watch::{Filter, filter, scan};

    #[test]
    fn every_file_of_the_folder_is_carried() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("vault-template");
        let on_disk = scan(&folder, None, &Filter::default(), &mut |_| false).unwrap();
        let on_disk: BTreeSet<String> = on_disk.found.iter().map(ToString::to_string).collect();
        assert_eq!(on_disk, FILES.iter().map(|it| it.0.to_owned()).collect());
    }

    #[test]
    fn the_template_ignores_what_the_watcher_looks_away_from() {
        let (_, rules) = FILES.iter().find(|it| it.0 == ".gitignore").unwrap();
        let rules: BTreeSet<&str> = rules.lines().collect();
        let layout = Layout::default();
        for line in filter::ignore_lines()
            .chain([layout.metadata, layout.agent].map(|it| format!("/{it}/")))
        {
            assert!(rules.contains(line.as_str()), "`{line}` is missing");
        }
    }

    #[test]
    fn the_template_speaks_of_the_folders_that_the_layout_has() {
        let all = |layout: &Layout, name| -> Vec<String> {
            FILES.iter().map(|it| content(it.0, it.1, layout, name)).collect()
        };
        let usual = all(&Layout::default(), "default");
        assert!(usual.iter().zip(FILES).all(|(text, file)| text == file.1));
        let reme = all(&Layout::reme(), "reme").join("\n");
        for gone in ["mem_metadata", "mem_agent", "`memory/`", "/memory/memory"] {
            assert!(!reme.contains(gone), "{gone}");
        }
        for there in ["\nlayout: reme\n", "\n/metadata/\n", "`daily/`", "~/memory/daily/<today>"] {
            assert!(reme.contains(there), "{there}");
        }
        assert!(reme.contains("~/memory/keys.md"), "the example's own name stays");
    }

    /// Every setting that a vault may set and that does something, with its default.
    #[test]
    fn the_template_names_every_setting_of_a_vault() {
        use crate::config::keys::{KEYS, Level};
        let (_, text) = FILES.iter().find(|it| it.0 == VAULT_FILE).unwrap();
        for key in KEYS.iter().filter(|it| it.level == Level::Vault && it.is_used()) {
            let name = key.name.rsplit('.').next().unwrap();
            let line = format!("{name}: {}", key.default);
            let is_there = |it: &str| it.trim_start_matches(['#', ' ']) == line;
            assert!(text.lines().any(is_there), "`{line}` is missing");
        }
    }

    /// Every wikilink of the manual names one of its notes.
    #[test]
    fn the_manual_s_links_lead_somewhere() {
        let names: BTreeSet<&str> = FILES
            .iter()
            .filter_map(|it| it.0.strip_suffix(".md"))
            .filter_map(|it| it.rsplit('/').next())
            .collect();
        for (path, text) in FILES.iter().filter(|it| it.0.ends_with(".md")) {
            // Text in code is about links; it is none.
            let prose: String = text.split("```").step_by(2).collect();
            let prose: String = prose.split('`').step_by(2).collect();
            for link in prose.split("[[").skip(1).filter_map(|it| it.split("]]").next()) {
                assert!(names.contains(link), "{path}: [[{link}]]");
            }
            assert!(text.starts_with("---\nname: ") && text.contains("\ndescription: "), "{path}");
        }
    }
}
