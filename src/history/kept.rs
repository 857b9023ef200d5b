//! Why a path stays out of the branch, in words.
//!
//! Pure. **Invariant:** every reason names what lets the path in again.

use std::borrow::Cow;

use crate::secrets::Finding;
use crate::vault::VaultPath;

/// So many findings are named of one file.
const NAMED: usize = 3;

/// Why a path is kept out of the branch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Kept {
    /// New and over the size limit.
    TooLarge { bytes: u64 },
    /// Its index entry differs from HEAD: a person staged it.
    Staged,
    /// The index holds it in conflict.
    Unmerged,
    /// It cannot be read.
    Unreadable { why: String },
    /// A tracked file is now a FIFO, a socket or a device.
    Special,
    /// A tracked file lies in what is now a repository of its own.
    NestedRepository,
    /// Git takes no tree with such a name in it: to some file system it names the `.git`.
    Name,
    /// The disk takes its name for that of another note, and has that one.
    Twin,
    /// It stands where git has a submodule, or below that.
    Submodule,
    /// A submodule whose commit is not the one that HEAD records.
    ModuleMoved,
    /// A submodule whose folder is gone.
    ModuleGone,
    /// A folder that remd makes itself, and that git tracks.
    Derived,
    /// Its index entry is marked so, and this is no sparse checkout.
    SkipWorktree,
    /// Its index entry is marked so.
    AssumeUnchanged,
    /// A filter of git's settings is at work on it.
    Filtering { name: String },
    /// A filter or a conversion of git's settings has not given what is to be stored.
    Filter { why: String, remedy: &'static str },
    /// A hook changes it each time it runs, and does not stage it.
    Hook,
    /// It has what looks like a credential, is new and not allowed.
    Secret { findings: Vec<Finding> },
    /// It was renamed to what is kept out.
    WaitsFor { path: VaultPath },
}

impl std::fmt::Display for Kept {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::TooLarge { bytes } => write!(f, "too large ({})", size(*bytes)),
            Self::Staged => f.write_str("staged by a person"),
            Self::Unmerged => f.write_str("in conflict"),
            Self::Unreadable { why } => write!(f, "unreadable: {why}"),
            Self::Special => f.write_str("no longer a file"),
            Self::NestedRepository => f.write_str("in a repository of its own"),
            Self::Name => f.write_str("a name that Git refuses"),
            Self::Twin => f.write_str("not to be told from another note by this disk"),
            Self::Submodule => f.write_str("in the place of a submodule"),
            Self::ModuleMoved => f.write_str("a submodule at another commit than recorded"),
            Self::ModuleGone => f.write_str("a submodule whose folder is gone"),
            Self::Derived => f.write_str("made by remd, and tracked by Git"),
            Self::SkipWorktree => f.write_str("changed, and marked skip-worktree"),
            Self::AssumeUnchanged => f.write_str("changed, and marked assume-unchanged"),
            Self::Filtering { name } => write!(f, "the filter `{name}` is at work"),
            Self::Filter { why, .. } => f.write_str(why),
            Self::Hook => f.write_str("it changes each time the hook `pre-commit` runs"),
            Self::Secret { findings } => {
                f.write_str("looks like it holds a credential")?;
                for (at, finding) in findings.iter().take(NAMED).enumerate() {
                    write!(f, "{} {finding}", if at == 0 { ":" } else { ";" })?;
                }
                match findings.len().saturating_sub(NAMED) {
                    0 => Ok(()),
                    more => write!(f, "; and {more} more"),
                }
            }
            Self::WaitsFor { path } => write!(f, "renamed to `{path}`, which is kept out"),
        }
    }
}

impl Kept {
    /// What lets the path in again.
    pub fn hint(&self, path: &VaultPath) -> Cow<'static, str> {
        let path = word(path);
        let unmark = |option: &str| {
            format!("To have it committed, run `git update-index {option} {path}` in the vault.")
        };
        Cow::Borrowed(match self {
            Self::Derived => {
                return format!("Run `git rm -r --cached {path}` in the vault, and `git commit`.")
                    .into();
            }
            Self::ModuleMoved => {
                return format!(
                    "remd records no submodule's commit: run `git add {path}` and `git commit` in \
                     the vault; `git submodule update {path}` goes back to the recorded one."
                )
                .into();
            }
            Self::ModuleGone => {
                return format!(
                    "`git submodule update --init {path}` brings it back; if that is meant, run \
                     `git rm {path}` and `git commit` in the vault."
                )
                .into();
            }
            Self::Secret { findings } => {
                let line = findings.first().map_or(1, |it| it.line);
                return format!(
                    "Take it out of the file, and change it where it is used if others may have \
                     seen it; if it is none: `remd secrets allow {path}:{line}`."
                )
                .into();
            }
            Self::SkipWorktree => return unmark("--no-skip-worktree").into(),
            Self::AssumeUnchanged => return unmark("--no-assume-unchanged").into(),
            Self::TooLarge { .. } => "Raise `commit.max_file`, or list it in `.gitignore`.",
            Self::Staged => {
                "Commit it with `git commit`, or unstage it with `git restore --staged`."
            }
            Self::Unmerged => "Resolve it, then `git add` and `git commit`.",
            Self::Unreadable { .. } => {
                "Check its permissions and those of the folders above it, or what else the reason \
                 names; it is looked at again by itself."
            }
            Self::Special => "Put the file back, or `git rm` it.",
            Self::NestedRepository => "Move the inner `.git` away, or `git rm --cached` the file.",
            Self::Name => "Give it another name; on some systems this one means Git's own files.",
            Self::Twin => "Give one of the two another name, on a disk that can hold both.",
            Self::Submodule => {
                "Move it elsewhere, or take the submodule out: `git rm --cached` and `git commit`."
            }
            Self::Filtering { .. } => "It goes by itself when the filter is done.",
            Self::Filter { remedy, .. } => remedy,
            Self::Hook => "It is committed now and then; let the hook `git add` what it changes.",
            Self::WaitsFor { .. } => "It goes with the file that it was renamed to.",
        })
    }
}

/// Bytes for people; never none where there are some.
fn size(bytes: u64) -> String {
    match bytes {
        0..1_000 => format!("{bytes} B"),
        1_000..1_000_000 => format!("{} kB", bytes / 1_000),
        _ => format!("{} MB", bytes / 1_000_000),
    }
}

/// A path as one word for a shell.
fn word(path: &VaultPath) -> String {
    let text = path.to_string();
    let is_plain = |it: char| it.is_alphanumeric() || "._/-+".contains(it);
    match text.chars().all(is_plain) && !text.starts_with('-') {
        true => text,
        false => format!("'./{}'", text.replace('\'', "'\\''")),
    }
}
