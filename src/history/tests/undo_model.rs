//! Random edits, renames, undos and restores, against what must be left in the end.
//!
//! **Invariant:** taking a change back after unrelated edits gives the tree without the change.
//! **Invariant:** no line that somebody wrote and nobody took away is missing.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::model::cases;
use super::*;

// Notes of slots with lines between them that nobody touches: edits of two slots never meet.

const SLOTS: usize = 6;

fn text_of(note: &str, slots: &[u8]) -> String {
    // What makes a note itself, wherever it goes.
    let slot =
        |(at, it): (usize, &u8)| format!("{note} keeps this {at}\nslot {at} {it}\nand this\n");
    slots.iter().enumerate().map(slot).collect()
}

/// An edit of one note.
#[derive(Clone, Debug)]
enum Edit {
    Slot(usize, u8),
    Rename,
    Delete,
    Create,
}

fn edits() -> impl Strategy<Value = BTreeMap<usize, Vec<Edit>>> {
    let edit = prop_oneof![
        6 => (0..SLOTS, 1..200u8).prop_map(|(slot, value)| Edit::Slot(slot, value)),
        1 => Just(Edit::Rename),
        1 => Just(Edit::Delete),
        1 => Just(Edit::Create),
    ];
    prop::collection::btree_map(0..4usize, prop::collection::vec(edit, 1..4), 1..4)
}

/// What both sides of one note do without meeting: slots of one parity each; the other things are
/// done by one side alone.
fn apart(
    mut change: BTreeMap<usize, Vec<Edit>>,
    mut later: BTreeMap<usize, Vec<Edit>>,
) -> [BTreeMap<usize, Vec<Edit>>; 2] {
    for (sides, parity) in [(&mut change, 0), (&mut later, 1)] {
        for edits in sides.values_mut() {
            for edit in edits {
                if let Edit::Slot(slot, _) = edit {
                    *slot = *slot / 2 * 2 + parity;
                }
            }
        }
    }
    let is_slot = |it: &Edit| matches!(it, Edit::Slot(..));
    for (note, edits) in &mut change {
        if edits.iter().any(|it| matches!(it, Edit::Delete | Edit::Create)) {
            later.remove(note);
        } else if later.get(note).is_some_and(|it| !it.iter().all(is_slot)) {
            edits.retain(is_slot);
            if let Some(later) = later.get_mut(note) {
                later.retain(|it| matches!(it, Edit::Slot(..) | Edit::Rename));
            }
        }
    }
    [change, later]
}

/// Where the notes are, by who they are.
#[derive(Clone, Default)]
struct World {
    notes: BTreeMap<usize, (String, Vec<u8>)>,
    turn: usize,
}

impl World {
    fn edit(&mut self, edits: &BTreeMap<usize, Vec<Edit>>, side: &str) {
        for (note, edits) in edits {
            for edit in edits {
                self.turn += 1;
                match edit {
                    Edit::Slot(slot, value) => {
                        if let Some((_, slots)) = self.notes.get_mut(note) {
                            slots[*slot] = *value;
                        }
                    }
                    Edit::Rename => {
                        if let Some((path, _)) = self.notes.get_mut(note) {
                            *path = format!("{side}/{note}.md");
                        }
                    }
                    Edit::Delete => {
                        self.notes.remove(note);
                    }
                    Edit::Create => {
                        let made = 100 + note;
                        let path = format!("made by {side}/{made}.md");
                        self.notes.insert(made, (path, vec![0; SLOTS]));
                    }
                }
            }
        }
    }

    fn files(&self) -> BTreeMap<String, String> {
        let file = |(note, (path, slots)): (&usize, &(String, Vec<u8>))| {
            (path.clone(), text_of(&note.to_string(), slots))
        };
        self.notes.iter().map(file).collect()
    }

    fn write(&self, vault: &Vault, before: &World) {
        for path in before.files().keys() {
            std::fs::remove_file(vault.path(path)).unwrap();
        }
        for (path, text) in self.files() {
            vault.write(path, text);
        }
    }
}

fn on_disk(vault: &Vault) -> BTreeMap<String, String> {
    let text = |it: &VaultPath| std::fs::read_to_string(vault.root.join(it.as_path())).unwrap();
    vault.scan().found.iter().map(|it| (it.to_string(), text(it))).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(24), max_shrink_iters: 60, ..ProptestConfig::default() })]

    #[test]
    fn without_a_change_is_the_tree_that_never_had_it(change in edits(), later in edits()) {
        let [change, later] = apart(change, later);
        let mut start = World::default();
        for note in 0..4 {
            start.notes.insert(note, (format!("{note}.md"), vec![0; SLOTS]));
        }
        let mut vault = Vault::new();
        start.write(&vault, &World::default());
        vault.snapshot_all();
        let mut changed = start.clone();
        changed.edit(&change, "change");
        changed.write(&vault, &start);
        let Some(commit) = vault.snapshot_all().head.map(|it| it.commit) else { return Ok(()) };
        let mut both = changed.clone();
        both.edit(&later, "later");
        both.write(&vault, &changed);
        vault.snapshot_all();
        let reader = vault.reader();
        let plan = |head| reader.plan_undo(head, &[commit], None);
        let cause = Cause { kind: CauseKind::Undo, ..Cause::edit() };
        let applied = vault.history().change(&plan, &cause, &mut |_| {}).unwrap();
        prop_assert!(matches!(applied, Applied::Done(..)), "{:?}", applied);
        let mut never = start.clone();
        never.edit(&later, "later");
        prop_assert_eq!(on_disk(&vault), never.files());
        vault.assert_clean();
    }
}

/// What the two writers do.
#[derive(Clone, Debug)]
enum Step {
    Add(u8, u8),
    Remove(u8, u8),
    Rename(u8, u8),
    Commit,
    Undo(u8, bool),
    Restore(u8, u8),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0..4u8, any::<u8>()).prop_map(|(note, at)| Step::Add(note, at)),
        2 => (0..4u8, any::<u8>()).prop_map(|(note, at)| Step::Remove(note, at)),
        1 => (0..4u8, 0..4u8).prop_map(|(from, to)| Step::Rename(from, to)),
        3 => Just(Step::Commit),
        3 => (any::<u8>(), any::<bool>()).prop_map(|(which, mine)| Step::Undo(which, mine)),
        1 => (0..4u8, any::<u8>()).prop_map(|(note, which)| Step::Restore(note, which)),
    ]
}

fn lines_on_disk(vault: &Vault) -> BTreeSet<String> {
    on_disk(vault).values().flat_map(|it| it.lines().map(str::to_owned)).collect()
}

fn lines_in(vault: &Vault, tree: &str) -> BTreeSet<String> {
    let Some(list) = vault.try_git(&["ls-tree", "-r", "--name-only", tree]) else {
        return BTreeSet::new();
    };
    let text = |it: &str| vault.git(&["show", &format!("{tree}:{it}")]);
    list.lines().flat_map(|it| text(it).lines().map(str::to_owned).collect::<Vec<_>>()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(16), max_shrink_iters: 100, ..ProptestConfig::default() })]

    #[test]
    fn no_line_is_missing_that_nobody_took_away(steps in prop::collection::vec(step(), 4..30)) {
        let mut vault = Vault::new();
        vault.write("0.md", "first\n");
        vault.snapshot_all();
        let mut wanted = BTreeSet::from(["first".to_owned()]);
        let mut next = 0;
        for step in steps {
            let path = |note: u8| format!("{note}.md");
            match step {
                Step::Add(note, at) => {
                    next += 1;
                    let line = format!("line {next} of its own");
                    let old = std::fs::read_to_string(vault.path(path(note))).unwrap_or_default();
                    let mut lines: Vec<&str> = old.lines().collect();
                    lines.insert(usize::from(at) % (lines.len() + 1), &line);
                    vault.write(path(note), lines.join("\n") + "\n");
                    wanted.insert(line);
                }
                Step::Remove(note, at) => {
                    let old = std::fs::read_to_string(vault.path(path(note))).unwrap_or_default();
                    let mut lines: Vec<&str> = old.lines().collect();
                    if lines.is_empty() {
                        continue;
                    }
                    wanted.remove(lines.remove(usize::from(at) % lines.len()));
                    match lines.is_empty() {
                        true => vault.remove(path(note)),
                        false => vault.write(path(note), lines.join("\n") + "\n"),
                    }
                }
                Step::Rename(from, to) => {
                    if !vault.path(path(to)).exists() && vault.path(path(from)).exists() {
                        std::fs::rename(vault.path(path(from)), vault.path(path(to))).unwrap();
                    }
                }
                Step::Commit => {
                    vault.snapshot_all();
                }
                Step::Undo(which, mine) => {
                    let all = vault.git(&["rev-list", "HEAD"]);
                    let all: Vec<&str> = all.lines().collect();
                    let name = all[usize::from(which) % all.len()];
                    let commit = CommitId::from_hex(name).unwrap();
                    let parent = lines_in(&vault, &format!("{name}^"));
                    let added = &lines_in(&vault, name) - &parent;
                    let favor = mine.then_some(Favor::Mine);
                    let reader = vault.reader();
                    let plan = |head| reader.plan_undo(head, &[commit], favor);
                    let cause = Cause { kind: CauseKind::Undo, ..Cause::edit() };
                    let before = lines_on_disk(&vault);
                    let applied = vault.history().change(&plan, &cause, &mut |_| {}).unwrap();
                    match applied {
                        Applied::Done(..) => wanted = &wanted - &added,
                        _ => prop_assert_eq!(lines_on_disk(&vault), before),
                    }
                }
                Step::Restore(note, which) => {
                    let all = vault.git(&["rev-list", "HEAD"]);
                    let all: Vec<&str> = all.lines().collect();
                    let name = all[usize::from(which) % all.len()];
                    let Some(then) = vault.committed_at(name, &path(note)) else { continue };
                    let now = std::fs::read_to_string(vault.path(path(note))).unwrap_or_default();
                    let commit = CommitId::from_hex(name).unwrap();
                    let reader = vault.reader();
                    let at = vault_path(path(note));
                    let plan = |head| reader.plan_restore(head, commit, Some(&at), false);
                    let cause = Cause { kind: CauseKind::Restore, ..Cause::edit() };
                    vault.history().change(&plan, &cause, &mut |_| {}).unwrap();
                    let kept: BTreeSet<&str> = then.lines().collect();
                    wanted.retain(|it| {
                        kept.contains(it.as_str()) || !now.lines().any(|line| line == it)
                    });
                }
            }
            let there = lines_on_disk(&vault);
            let missing: Vec<_> = wanted.difference(&there).collect();
            prop_assert!(missing.is_empty(), "{:?} after {:?}", missing, step);
        }
        vault.snapshot_all();
        vault.assert_clean();
        prop_assert_eq!(lines_in(&vault, "HEAD"), lines_on_disk(&vault));
    }
}
