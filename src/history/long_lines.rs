//! Lines of `.gitattributes` that git leaves out for their length, and the library does not.
//!
//! Takes where a match was found, says whether git sees that line; takes a path, gives what holds for
//! it without such lines. Any thread.
//!
//! **Invariant:** slow, and only asked of a path for which such a line matters.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use gix::attrs::search::{MatchLocation, MetadataCollection, Outcome};
use gix::attrs::{Search, Source};
use gix::bstr::{BStr, ByteSlice as _};

use crate::base::fs;
use crate::history::error::{GitError, git};

/// From so many bytes on, without its end.
const LONG: usize = 2048;

/// The numbers of the long lines of each file, from 1.
#[derive(Debug, Default)]
pub(super) struct LongLines(HashMap<PathBuf, HashSet<usize>>);

impl LongLines {
    pub fn has(&mut self, found: &MatchLocation<'_>) -> bool {
        let Some(file) = found.source else { return false };
        if !self.0.contains_key(file) {
            let text = fs::read(file).unwrap_or_default();
            let long = text.lines().enumerate().filter(|it| it.1.len() >= LONG);
            self.0.insert(file.to_owned(), long.map(|it| it.0 + 1).collect());
        }
        self.0.get(file).is_some_and(|it| it.contains(&found.sequence_number))
    }
}

/// What the attribute files say of a path, but for their long lines.
pub(super) fn matches_without(
    repo: &gix::Repository,
    rela: &BStr,
    attributes: &[&str],
) -> Result<Outcome, GitError> {
    const READ: &str = "read the attributes";
    let ignores_case = git("read Git's settings", repo.filesystem_options())?.ignore_case;
    let mut known = MetadataCollection::default();
    let mut search =
        git(READ, Search::new_globals(std::iter::empty::<PathBuf>(), &mut Vec::new(), &mut known))?;
    let mut add = |file: PathBuf, root: Option<&Path>, may_define: bool| {
        let Some(text) = git(READ, fs::read_if_there(&file))? else { return Ok(()) };
        let mut seen = Vec::with_capacity(text.len());
        for line in text.lines_with_terminator() {
            let is_long = line.trim_end_with(|it| it == '\n').len() >= LONG;
            seen.extend_from_slice(if is_long { b"\n" } else { line });
        }
        git(READ, search.add_patterns_buffer(&seen, file, root, &mut known, may_define))
    };
    let variable = &mut |name: &str| std::env::var_os(name);
    for source in [Source::GitInstallation, Source::System] {
        if let Some(file) = source.storage_location(variable) {
            add(file, None, true)?;
        }
    }
    let by_user = repo.config_snapshot().trusted_path("core.attributesFile");
    let by_user = git(READ, by_user)?.or_else(|| Source::Git.storage_location(variable));
    if let Some(file) = by_user {
        add(file, None, true)?;
    }
    let top = repo.workdir().unwrap_or(repo.git_dir());
    add(top.join(".gitattributes"), Some(top), true)?;
    for slash in rela.find_iter(b"/") {
        let folder = git(READ, gix::path::from_bstr(rela[..slash].as_bstr()))?;
        add(top.join(folder).join(".gitattributes"), Some(top), false)?;
    }
    add(repo.common_dir().join("info/attributes"), None, true)?;
    let mut found = Outcome::default();
    found.initialize_with_selection(&known, attributes);
    let case = match ignores_case {
        true => gix::glob::pattern::Case::Fold,
        false => gix::glob::pattern::Case::Sensitive,
    };
    search.pattern_matching_relative_path(rela, case, Some(false), &mut found);
    Ok(found)
}
