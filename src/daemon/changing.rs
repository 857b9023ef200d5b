//! Changes of the vault that a person asks for: taking back, bringing back.
//!
//! Takes a wish, gives what became of it. What would be done is worked out by anybody; it is done
//! by whoever owns the [`History`].
//!
//! **Invariant:** what is on disk is committed before anything of it is changed.

use std::cell::RefCell;
use std::collections::BTreeSet;

use crate::base::trouble::told;
use crate::daemon::relinking;
use crate::history::{
    Applied, ApplyError, Cause, CauseKind, FORGET, History, Overlap, OverlapKind, Plan, ReadError,
    Reader, Snapshot, SnapshotError, message,
};
use crate::render::changed::{Changed, ChangedPath, Named, Outcome, Overlapping};
use crate::render::lint::Mended;
use crate::serve::protocol::{Forget, Mend, Wish};
use crate::vault::forget::is_too_short;
use crate::vault::path::{c_quoted, escape};
use crate::vault::{CommitId, VaultPath};

/// Lines of an overlap that are shown.
const SHOWN: usize = 5;
/// Lines of a commit's message about where links led.
const SAID: usize = 20;

/// Why nothing was changed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NotChanged {
    pub message: String,
    pub hint: Option<String>,
    /// Whether the wish itself was wrong.
    pub usage: bool,
    /// Whether only a person can go on.
    pub needs_person: bool,
}

impl NotChanged {
    pub fn new(message: impl Into<String>, hint: &str) -> Self {
        let hint = Some(hint.to_owned());
        Self { message: message.into(), hint, usage: false, needs_person: false }
    }

    pub(super) fn read(err: &ReadError) -> Self {
        let usage = err.is_not_found();
        Self { message: told(err), hint: Some(err.hint()), usage, needs_person: false }
    }
}

impl From<ApplyError> for NotChanged {
    fn from(err: ApplyError) -> Self {
        if let ApplyError::Read(err) = &err {
            return Self::read(err);
        }
        let needs_person = match &err {
            ApplyError::InTheWay { .. } => true,
            ApplyError::Snapshot(err) => {
                matches!(err, SnapshotError::Busy { .. } | SnapshotError::Held { .. })
            }
            _ => false,
        };
        let message = format!("Nothing is changed: {}", told(&err));
        Self { message, hint: err.hint(), usage: false, needs_person }
    }
}

/// A wish with its commits and paths found.
pub struct Meant {
    /// Newest first.
    commits: Vec<CommitId>,
    kind: Kind,
}

enum Kind {
    Undo(Option<crate::history::Favor>),
    Restore {
        path: Option<VaultPath>,
        from: Option<VaultPath>,
        exactly: bool,
    },
    ForgetPath(VaultPath),
    ForgetWords(String),
    Mend {
        mends: Vec<Mend>,
        /// What the last plan has of it.
        mended: RefCell<Mended>,
    },
}

impl Meant {
    /// Finds out what is meant at `head`.
    pub fn find(reader: &Reader, head: CommitId, wish: &Wish) -> Result<Self, NotChanged> {
        let path = |hex: &str| {
            let unread = || NotChanged::new("The path cannot be read", "Use the same remd.");
            VaultPath::from_hex(hex).ok_or_else(unread)
        };
        match wish {
            Wish::Undo { what, favor } => {
                let commits = reader.commits_to_undo(head, what);
                let commits = commits.map_err(|err| NotChanged::read(&err))?;
                Ok(Self { commits, kind: Kind::Undo(*favor) })
            }
            Wish::Restore { path: hex, at, exactly } => {
                let path = hex.as_deref().map(path).transpose()?;
                let (at, from) = match &path {
                    Some(path) => {
                        let source = reader.restore_source(head, path, *at);
                        source.map_err(|err| NotChanged::read(&err))?
                    }
                    None => (at.unwrap_or(head), None),
                };
                let kind = Kind::Restore { path, from, exactly: *exactly };
                Ok(Self { commits: vec![at], kind })
            }
            Wish::Forget(Forget::Path(hex)) => {
                Ok(Self { commits: Vec::new(), kind: Kind::ForgetPath(path(hex)?) })
            }
            Wish::Forget(Forget::Words(words)) if is_too_short(words) => Err(NotChanged {
                usage: true,
                ..NotChanged::new(
                    format!("`{}` stands everywhere", escape(words.as_bytes())),
                    "Give more of what is to be forgotten.",
                )
            }),
            Wish::Forget(Forget::Words(words)) => {
                Ok(Self { commits: Vec::new(), kind: Kind::ForgetWords(words.clone()) })
            }
            Wish::Mend { mends } => {
                let kind = Kind::Mend { mends: mends.clone(), mended: RefCell::default() };
                Ok(Self { commits: Vec::new(), kind })
            }
            Wish::Checkpoint { name, .. } => Err(NotChanged::new(
                format!(
                    "Would name the last commit `{}`; nothing is changed",
                    escape(name.as_bytes())
                ),
                "Leave `--dry-run` away.",
            )),
        }
    }

    fn plan(&self, reader: &Reader, head: CommitId) -> Result<Plan, ReadError> {
        match &self.kind {
            Kind::Undo(favor) => reader.plan_undo(head, &self.commits, *favor),
            Kind::Restore { path: Some(path), from: Some(from), .. } => {
                reader.plan_restore_as(head, self.commits[0], from, path)
            }
            Kind::Restore { path, exactly, .. } => {
                reader.plan_restore(head, self.commits[0], path.as_ref(), *exactly)
            }
            Kind::ForgetPath(path) => reader.plan_forget_path(head, path),
            Kind::ForgetWords(words) => reader.plan_forget_words(head, words),
            Kind::Mend { mends, mended } => {
                let (plan, now) = relinking::plan(reader, head, mends)?;
                mended.replace(now);
                Ok(plan)
            }
        }
    }

    fn cause(&self) -> Cause {
        match &self.kind {
            Kind::Undo(_) => Cause {
                kind: CauseKind::Undo,
                note: self.commits.iter().map(|it| message::reverts(*it)).collect(),
                ..Cause::edit()
            },
            Kind::Restore { .. } => Cause {
                kind: CauseKind::Restore,
                note: self.commits.iter().map(|it| format!("As of commit {it}.")).collect(),
                ..Cause::edit()
            },
            Kind::ForgetPath(_) => tombstone("path"),
            Kind::ForgetWords(_) => tombstone("lines"),
            // No edit: a person did not write it, they had it written.
            Kind::Mend { mends, .. } => {
                Cause { kind: CauseKind::Api, note: followed(mends), ..Cause::edit() }
            }
        }
    }

    fn named(&self, reader: &Reader) -> Vec<Named> {
        let named = |commit: &CommitId| {
            let (subject, when) = reader.subject(*commit).ok()?;
            Some(Named { commit: *commit, subject, when })
        };
        self.commits.iter().filter_map(named).collect()
    }

    fn told(&self, reader: &Reader, outcome: Outcome, plan: Option<&Plan>) -> Changed {
        let changes = plan.into_iter().flat_map(|it| it.changes.iter());
        let changes = changes.map(|(path, it)| {
            let verb = match (it.old, it.new) {
                (None, _) => "create",
                (_, None) => "delete",
                _ => "update",
            };
            ChangedPath::new(path, verb)
        });
        Changed {
            outcome,
            of: self.named(reader),
            commit: None,
            changes: changes.collect(),
            overlaps: Vec::new(),
            diff: None,
            notes: Vec::new(),
            mended: match &self.kind {
                Kind::Mend { mended, .. } => Some(mended.borrow().clone()),
                _ => None,
            },
        }
    }

    fn overlapping(&self, reader: &Reader, head: CommitId, plan: &Plan) -> Changed {
        let overlaps = plan.overlaps.iter().map(|it| overlapping(reader, head, it)).collect();
        Changed { overlaps, ..self.told(reader, Outcome::Overlaps, None) }
    }

    /// What would be done.
    pub fn rehearse(&self, reader: &Reader, head: CommitId) -> Result<Changed, NotChanged> {
        let plan = self.plan(reader, head).map_err(|err| NotChanged::read(&err))?;
        if !plan.overlaps.is_empty() {
            return Ok(self.overlapping(reader, head, &plan));
        }
        if plan.changes.is_empty() {
            return Ok(self.told(reader, Outcome::Nothing, None));
        }
        let diff = reader.plan_text(&plan).map_err(|err| NotChanged::read(&err))?;
        let diff = Some(String::from_utf8_lossy(&diff).into_owned());
        Ok(Changed { diff, ..self.told(reader, Outcome::Would, Some(&plan)) })
    }

    /// Does it.
    pub fn carry_out(
        &self,
        history: &mut History,
        reader: &Reader,
        on_edit: &mut dyn FnMut(&Snapshot),
    ) -> Result<(Changed, Option<Snapshot>), NotChanged> {
        let plan = |head| self.plan(reader, head);
        match history.change(&plan, &self.cause(), on_edit)? {
            Applied::Nothing => Ok((self.told(reader, Outcome::Nothing, None), None)),
            Applied::Overlaps(plan) => {
                let head = history.head().map_err(|err| NotChanged::read(&err))?;
                let Some(head) = head else {
                    return Ok((self.told(reader, Outcome::Nothing, None), None));
                };
                Ok((self.overlapping(reader, head.commit, &plan), None))
            }
            Applied::Done(done) => {
                let (plan, snapshot) = *done;
                let commit = snapshot.head.as_ref().map(|it| it.commit);
                let told = self.told(reader, Outcome::Done, Some(&plan));
                Ok((Changed { commit, ..told }, Some(snapshot)))
            }
        }
    }
}

/// Lines for the message of a commit that mends links.
fn followed(mends: &[Mend]) -> Vec<String> {
    let quoted = |hex: &str| VaultPath::from_hex(hex).map(|it| c_quoted(&it).into_owned());
    let line = |it: &Mend| {
        let to = quoted(&it.to)?;
        Some(match it.led_to.as_deref().and_then(quoted) {
            Some(old) if old != to => format!("Links to {old} lead to {to}."),
            _ => format!("Links that led nowhere lead to {to}."),
        })
    };
    let lines: BTreeSet<String> = mends.iter().filter_map(line).collect();
    lines.into_iter().take(SAID).collect()
}

/// A person's deletion that programs must respect.
fn tombstone(what: &str) -> Cause {
    Cause { trailers: vec![(FORGET.to_owned(), what.to_owned())], ..Cause::edit() }
}

fn overlapping(reader: &Reader, head: CommitId, overlap: &Overlap) -> Overlapping {
    let why = match &overlap.kind {
        OverlapKind::Lines(_) => "changed since",
        OverlapKind::EditedSince => "made by it, and edited since",
        OverlapKind::NoText => "no text, and changed since",
        OverlapKind::DeletedSince => "edited by it, and deleted since",
        OverlapKind::Taken => "another file or folder is there now",
    };
    let (mut lines, mut text) = (Vec::new(), Vec::new());
    if let OverlapKind::Lines(ranges) = &overlap.kind {
        let now = reader.entry(head, &overlap.path).ok().flatten();
        let now = now.and_then(|it| reader.read_blob(it.blob).ok()).unwrap_or_default();
        let now = String::from_utf8_lossy(&now);
        let all: Vec<&str> = now.lines().collect();
        for range in ranges {
            let (first, last) = (*range.start(), *range.end());
            lines.push((first, last));
            let (skip, take) = (first.saturating_sub(1) as usize, (last - first + 1) as usize);
            let shown: Vec<&str> = all.iter().skip(skip).take(take.min(SHOWN)).copied().collect();
            text.push(shown.join("\n"));
        }
    }
    Overlapping {
        path: overlap.path.lossy().into_owned(),
        path_hex: overlap.path.hex_if_lossy(),
        lines,
        text,
        why: why.to_owned(),
    }
}

/// What would be done on top of the last commit.
pub fn rehearse(reader: &Reader, wish: &Wish) -> Result<Changed, NotChanged> {
    let head = head(reader)?;
    Meant::find(reader, head, wish)?.rehearse(reader, head)
}

fn head(reader: &Reader) -> Result<CommitId, NotChanged> {
    let none = || NotChanged::new("There is no commit yet", "`remd up` makes the first one.");
    match reader.head().map_err(|err| NotChanged::read(&err))? {
        Some(head) => Ok(head.commit),
        None => Err(none()),
    }
}

/// Takes a wish from beginning to end, for whoever owns the history and has committed what is on
/// disk.
pub fn change(
    history: &mut History,
    wish: &Wish,
    on_edit: &mut dyn FnMut(&Snapshot),
) -> Result<(Changed, Option<Snapshot>), NotChanged> {
    let reader = history.reader();
    let head = head(&reader)?;
    if let Wish::Checkpoint { name, note } = wish {
        return checkpoint(history, &reader, name, note).map(|it| (it, None));
    }
    // Found only now: the last change may be one that is just committed.
    Meant::find(&reader, head, wish)?.carry_out(history, &reader, on_edit)
}

fn checkpoint(
    history: &mut History,
    reader: &Reader,
    name: &str,
    note: &str,
) -> Result<Changed, NotChanged> {
    let commit = history.checkpoint(name, note).map_err(|err| NotChanged {
        message: told(&err),
        hint: err.hint(),
        usage: true,
        needs_person: false,
    })?;
    let meant = Meant { commits: vec![commit], kind: Kind::Undo(None) };
    Ok(Changed { commit: Some(commit), ..meant.told(reader, Outcome::Done, None) })
}
