//! The floor plan is a test: who may import whom, which package lives where, how files look.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a test may fail loudly, and does to the disk what a person would"
)]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// A room may import itself and the rooms named on its line. Nothing else.
const MAY_IMPORT: &[(&str, &str)] = &[
    ("base", ""),
    ("secrets", ""),
    ("vault", "base"),
    ("config", "secrets base vault"),
    ("watch", "base vault"),
    ("embed", "base secrets"),
    ("history", "secrets base vault"),
    ("index", "base vault embed"),
    ("search", "base vault embed index"),
    ("render", "secrets base vault history search"),
    ("mount", "base vault search render"),
    ("serve", "secrets base vault history search render"),
    ("daemon", "secrets base vault config watch embed history index search render mount serve"),
    ("cli", "secrets base vault config embed history search render serve daemon"),
];

/// A package lives in one room (or file) and nowhere else.
const LIVES_IN: &[(&str, &[&str])] = &[
    ("gix", &["src/history/"]),
    ("notify_debouncer_full", &["src/watch/"]),
    ("walkdir", &["src/watch/"]),
    ("tantivy", &["src/index/"]),
    ("hnsw_rs", &["src/index/neighbours/"]),
    ("rayon", &["src/index/neighbours/"]),
    ("fuser", &["src/mount/"]),
    ("zstd", &["src/base/store.rs"]),
    ("serde_yaml", &["src/vault/frontmatter.rs", "src/config/"]),
    ("pulldown_cmark", &["src/vault/"]),
    ("clap", &["src/cli/", "src/main.rs"]),
    ("tikv_jemallocator", &["src/memory.rs"]),
    ("sd_notify", &["src/daemon/"]),
    ("indicatif", &["src/cli/"]),
    ("regex", &["src/secrets/"]),
    ("aho_corasick", &["src/secrets/"]),
    ("reqwest", &["src/embed/remote/"]),
    ("rustls", &["src/embed/remote/"]),
    ("zlib_rs", &["src/embed/package.rs"]),
    ("tokio", &["src/serve/", "src/daemon/", "src/embed/remote/"]),
];

/// Words that name nothing.
const NO_ROOM_IS_CALLED: &[&str] =
    &["utils", "util", "common", "helpers", "manager", "handler", "misc"];

/// The longest file, in lines.
const MAX_LINES: usize = 600;

struct File {
    path: String,
    text: String,
}

fn source_files(folder: &str) -> Vec<File> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = Vec::new();
    let mut folders = vec![root.join(folder)];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path: PathBuf = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|it| it == "rs") {
                let text = fs::read_to_string(&path).unwrap();
                let path = path.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
                files.push(File { path, text });
            }
        }
    }
    files.sort_by(|a, b| a.path.cmp(&b.path));
    assert!(!files.is_empty(), "no source files in {folder}");
    files
}

impl File {
    /// Whether the file is nothing but tests.
    fn is_test(&self) -> bool {
        self.path.contains("/tests/")
            || self.path.ends_with("/tests.rs")
            || self.path.ends_with("/testing.rs")
    }

    fn room(&self) -> Option<&str> {
        self.path.strip_prefix("src/")?.split_once('/').map(|it| it.0)
    }

    /// Lines of code before the unit tests, numbered, without comments.
    fn code(&self) -> impl Iterator<Item = (usize, &str)> {
        self.text
            .lines()
            .enumerate()
            .take_while(|(_, line)| !line.starts_with("#[cfg(test)]"))
            .filter(|(_, line)| !line.trim_start().starts_with("//"))
            .map(|(at, line)| (at + 1, line))
    }
}

/// Whether `name::` stands in the line as a path of its own.
fn names_crate(line: &str, name: &str) -> bool {
    line.match_indices(&format!("{name}::")).any(|(at, _)| {
        !line[..at].ends_with(|it: char| it.is_alphanumeric() || it == '_' || it == ':')
    })
}

#[test]
fn rooms_only_look_down() {
    for file in source_files("src") {
        let Some(room) = file.room() else { continue };
        let Some((_, allowed)) = MAY_IMPORT.iter().find(|(name, _)| *name == room) else {
            panic!("{}: room `{room}` is not on the floor plan", file.path);
        };
        for (number, line) in file.code() {
            for (at, _) in line.match_indices("crate::") {
                let target = line[at + 7..]
                    .split(|it: char| !it.is_alphanumeric() && it != '_')
                    .next()
                    .unwrap();
                let known = MAY_IMPORT.iter().any(|(name, _)| *name == target);
                assert!(
                    !known || target == room || allowed.split(' ').any(|it| it == target),
                    "{}:{number}: `{room}` must not import `{target}`",
                    file.path,
                );
            }
        }
    }
}

#[test]
fn a_package_stays_in_its_room() {
    for file in source_files("src") {
        for (number, line) in file.code() {
            for (package, homes) in LIVES_IN {
                assert!(
                    !names_crate(line, package) || homes.iter().any(|it| file.path.starts_with(it)),
                    "{}:{number}: `{package}` lives in {homes:?}",
                    file.path,
                );
            }
        }
    }
}

#[test]
fn every_file_says_what_it_is_and_is_short() {
    for file in
        source_files("src").into_iter().chain(source_files("tests")).chain(source_files("benches"))
    {
        let lines = file.text.lines().count();
        assert!(
            lines <= MAX_LINES,
            "{}: {lines} lines; cut it where the story changes step",
            file.path
        );
        let opens = file.text.starts_with("//!") || file.path == "src/lib.rs";
        assert!(opens, "{}: does not open with `//!`", file.path);
        let name = Path::new(&file.path).file_stem().unwrap().to_str().unwrap();
        let folder = Path::new(&file.path).parent().unwrap().file_name().unwrap().to_str().unwrap();
        for banned in NO_ROOM_IS_CALLED {
            assert!(
                name != *banned && folder != *banned,
                "{}: `{banned}` names nothing",
                file.path
            );
        }
    }
}

#[test]
fn pure_files_do_no_io() {
    for file in source_files("src") {
        let header: Vec<&str> = file.text.lines().take_while(|it| it.starts_with("//!")).collect();
        if file.is_test() || !header.iter().any(|it| it.starts_with("//! Pure")) {
            continue;
        }
        for (number, line) in file.code() {
            // An error of the disk may be carried; the disk may not be touched.
            let line = line.replace("base::fs::PathError", "").replace("base::fs::TEMP_PREFIX", "");
            for door in [
                "base::fs",
                "base::process",
                "clock::now()",
                "clock::wall()",
                "std::fs",
                "std::net",
            ] {
                assert!(!line.contains(door), "{}:{number}: a pure file uses `{door}`", file.path);
            }
        }
    }
}

#[test]
fn only_the_printer_prints_and_only_the_errno_table_knows_errno() {
    for file in source_files("src") {
        for (number, line) in file.code() {
            if file.path != "src/cli/report.rs" && !file.is_test() {
                for print in ["println!", "print!(", "eprintln!", "eprint!("] {
                    assert!(!line.contains(print), "{}:{number}: prints", file.path);
                }
            }
            if file.path.starts_with("src/mount/") && file.path != "src/mount/errno.rs" {
                assert!(!line.contains("Errno::E"), "{}:{number}: knows errno", file.path);
            }
        }
    }
}

#[test]
fn every_file_of_tests_is_in_the_one_binary() {
    let main =
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/house/main.rs"))
            .unwrap();
    let declared: BTreeSet<&str> =
        main.lines().filter_map(|it| it.trim().strip_prefix("mod ")?.strip_suffix(';')).collect();
    for file in source_files("tests/house") {
        let name = Path::new(&file.path).file_stem().unwrap().to_str().unwrap().to_owned();
        assert!(name == "main" || declared.contains(name.as_str()), "{} is forgotten", file.path);
    }
}

#[test]
fn no_way_back_without_a_name() {
    for file in source_files("src").into_iter().filter(|it| !it.is_test()) {
        for (number, line) in file.code() {
            for banned in
                ["reset --hard", "\"--force\"", "checkout -f", "\"clean\"", "remove_dir_all"]
            {
                let door = file.path == "src/base/fs.rs" && banned == "remove_dir_all";
                // The word of Git's filters, which removes nothing.
                let filter = file.path == "src/history/drivers.rs" && banned == "\"clean\"";
                assert!(
                    door || filter || !line.contains(banned),
                    "{}:{number}: `{banned}`",
                    file.path
                );
            }
        }
    }
}
