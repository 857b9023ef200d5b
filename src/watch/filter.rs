//! What is never a note's event.
//!
//! Pure. Takes a path, says whether the house looks away: derived folders, the mount point, and
//! the files that editors, desktops and sync clients keep beside the real ones. What Git ignores
//! is not decided here.
//!
//! **Invariant:** a visible `*.md` or `*.markdown` file is never dropped for its name
//! (property-tested), and no folder is dropped because it is named like a temp file.
//!
//! Files that live for milliseconds only need no pattern (vim's probe `4913`, `note.md.tmp` before
//! its rename): they are gone when the committer looks again, and a pattern for them could hide a
//! file that somebody keeps.

use crate::vault::VaultPath;

/// Files that programs keep beside the real ones for as long as they run, at any depth. One `*` a
/// pattern, no other wildcard.
const TEMP_FILES: &[&str] = &[
    // Ours.
    ".remd-tmp-*",
    // vim, nano, kate.
    "*.swp",
    "*.swo",
    "*.swn",
    "*.swx",
    ".*.kate-swp",
    // Backups of vim, emacs, gedit; emacs' autosaves and locks.
    "*~",
    "#*#",
    ".#*",
    // LibreOffice's and Microsoft Office's locks.
    ".~lock.*#",
    "~$*",
    // GLib's save in progress; a file that is deleted but open, over FUSE and NFS.
    ".goutputstream-*",
    ".fuse_hidden*",
    ".nfs0*",
    // Desktops.
    ".DS_Store",
    "._*",
    "Thumbs.db",
    "desktop.ini",
    // Downloads in progress.
    "*.part",
    "*.crdownload",
    // Syncthing's transfers in progress.
    ".syncthing.*.tmp",
    "~syncthing~*.tmp",
];

/// Folders that programs keep for themselves, at any depth.
const TEMP_FOLDERS: &[&str] = &[".stfolder", ".stversions", ".Trash-*"];

/// The same lists as lines of a `.gitignore`, so that Git and the house look away together.
pub fn ignore_lines() -> impl Iterator<Item = String> {
    let files = TEMP_FILES.iter().map(|it| match it.starts_with('#') {
        true => format!("\\{it}"),
        false => (*it).to_owned(),
    });
    files.chain(TEMP_FOLDERS.iter().map(|it| format!("{it}/")))
}

/// Says which paths the house looks away from.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Filter {
    never: Vec<VaultPath>,
}

impl Filter {
    /// Looks away from these folders of the vault (derived state, the jobs' sessions, the mount
    /// point where it lies inside) and from temp files anywhere.
    pub fn new(never: impl IntoIterator<Item = VaultPath>) -> Self {
        Self { never: never.into_iter().collect() }
    }

    /// Whether `path`, a file or symlink, is not looked at.
    pub fn drops_file(&self, path: &VaultPath) -> bool {
        is_temp_file(path.file_name())
            || self.is_never(path)
            || path.parent().is_some_and(|it| self.drops_folder(&it))
    }

    /// Whether `path`, a folder, is not entered.
    pub fn drops_folder(&self, path: &VaultPath) -> bool {
        self.is_never(path)
            || path.components().any(|it| TEMP_FOLDERS.iter().any(|pattern| matches(pattern, it)))
    }

    fn is_never(&self, path: &VaultPath) -> bool {
        self.never.iter().any(|it| path.is_within(it.as_bytes()))
    }
}

fn is_temp_file(name: &[u8]) -> bool {
    let ends = |end: &str| {
        name.len() > end.len()
            && name[name.len() - end.len()..].eq_ignore_ascii_case(end.as_bytes())
    };
    let visible_note = !name.starts_with(b".") && (ends(".md") || ends(".markdown"));
    !visible_note && TEMP_FILES.iter().any(|pattern| matches(pattern, name))
}

/// Whether `name` is `pattern`, in which one `*` stands for any bytes.
fn matches(pattern: &str, name: &[u8]) -> bool {
    match pattern.split_once('*') {
        None => name == pattern.as_bytes(),
        Some((start, end)) => {
            name.len() >= start.len() + end.len()
                && name.starts_with(start.as_bytes())
                && name.ends_with(end.as_bytes())
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::base::fs::TEMP_PREFIX;

    fn path(text: &str) -> VaultPath {
        VaultPath::new(text).unwrap()
    }

    fn filter() -> Filter {
        Filter::new([path("mem_metadata"), path("mem_agent"), path("deep/mount")])
    }

    #[test]
    fn what_programs_keep_beside_the_real_files_is_dropped() {
        for file in [
            "notes/.plan.md.swp",
            ".plan.md.swx",
            ".swp",
            "plan.md~",
            "#plan.md#",
            ".#plan.md",
            ".~lock.budget.odt#",
            "~$budget.docx",
            ".DS_Store",
            "a/b/._plan.md",
            ".goutputstream-X3B7P2",
            "film.mkv.part",
            "paper.pdf.crdownload",
            ".syncthing.plan.md.tmp",
            ".stfolder/x",
            ".stversions/plan~20260101-120000.md",
            "notes/.remd-tmp-12-0",
            "mem_metadata/keyword_index/meta.json",
            "mem_agent/run.jsonl",
            "deep/mount/search/x",
            "mem_metadata",
        ] {
            assert!(filter().drops_file(&path(file)), "{file}");
        }
        for folder in
            ["mem_metadata", "mem_agent/x", "deep/mount", ".stfolder", ".Trash-1000/files"]
        {
            assert!(filter().drops_folder(&path(folder)), "{folder}");
        }
    }

    #[test]
    fn what_somebody_keeps_is_not_dropped() {
        for file in [
            "plan.md",
            "~$plan.md",
            "~syncthing~plan.md",
            "#tag.md",
            "4913",
            "4913/note.md",
            "old~/note.md",
            "#inbox#/note.md",
            "a.swp/note.md",
            "notes.tmp",
            "plan.md.tmp",
            "party.md",
            "mem_metadata.md",
            "deep/mountain.md",
            "sub/mem_metadata/note.md",
            ".gitignore",
            ".obsidian/app.json",
            "part",
            "swp",
            "#",
        ] {
            assert!(!filter().drops_file(&path(file)), "{file}");
        }
        for folder in ["4913", "old~", "#inbox#", "a.swp", "film.part", "deep", ".obsidian"] {
            assert!(!filter().drops_folder(&path(folder)), "{folder}");
        }
    }

    #[test]
    fn our_own_temp_files_are_on_the_list() {
        assert!(TEMP_FILES.contains(&format!("{TEMP_PREFIX}*").as_str()));
        for pattern in TEMP_FILES.iter().chain(TEMP_FOLDERS) {
            assert!(pattern.matches('*').count() <= 1 && !pattern.contains(['?', '[', '/', '!']));
        }
    }

    proptest! {
        #[test]
        fn a_visible_note_is_never_dropped(
            folders in prop::collection::vec("[^/\0.][^/\0]{0,8}", 0..3),
            name in "[^/\0.][^/\0]{0,12}",
            end in prop::sample::select(vec![".md", ".markdown", ".MD"]),
        ) {
            let text = format!("{}{name}{end}", folders.iter().map(|it| format!("{it}/")).collect::<String>());
            prop_assert!(!Filter::default().drops_file(&path(&text)), "{}", text);
        }
    }
}
