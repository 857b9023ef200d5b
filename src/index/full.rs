//! Disks of every size that are too small: tests.
//!
//! Takes file systems of their own, of which each is full at another place of a build.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use tempfile::TempDir;

use crate::base::trouble::Trouble;
use crate::base::{clock, fs};
use crate::index::testing::{WordModel, commit, hits, make_vectors, open_with_model, put, rebuild};
use crate::index::{Index, IndexError, Opened, Update, Why};
use crate::vault::Layout;

/// A small file system, unmounted when dropped.
struct Disk(TempDir);

impl Disk {
    fn of(size: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let size = format!("size={size}");
        let mut mount = Command::new("mount");
        let done = mount.args(["-t", "tmpfs", "-o", &size, "none"]).arg(dir.path()).status();
        assert!(done.unwrap().success(), "these tests mount file systems: run them as root");
        Self(dir)
    }

    fn metadata(&self) -> PathBuf {
        self.0.path().join("mem_metadata")
    }

    fn fill(&self) -> PathBuf {
        let filler = self.0.path().join("filler");
        let mut file = std::fs::File::create(&filler).unwrap();
        while std::io::Write::write_all(&mut file, &[0; 4096]).is_ok() {}
        filler
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // A test that failed must not leave it behind; the first failure counts.
        let _unmounted = Command::new("umount").arg("-l").arg(self.0.path()).output();
    }
}

/// Notes of which each has words of its own.
fn notes(from: usize, count: usize) -> Vec<Update> {
    let word = |note: usize, at: usize| format!("w{:x} ", (note * 977 + at) * 7919);
    let text = |note: usize| (0..150).map(|at| word(note, at)).collect::<String>();
    (from..from + count).map(|it| put(format!("{it}.md"), format!("tide {}", text(it)))).collect()
}

fn build(index: &mut Index, notes: Vec<Update>) -> Result<(), IndexError> {
    // It says that none come, so that it begins.
    let mut build = index.begin_rebuild(0)?;
    for (at, note) in notes.into_iter().enumerate() {
        build.take(note)?;
        if at % 100 == 99 {
            build.step()?;
        }
    }
    build.finish(commit(1)).map(drop)
}

#[test]
fn a_disk_that_is_too_small_is_full_wherever_the_build_meets_it() {
    let mut failed = 0;
    for kib in [560, 640, 760, 900, 1100] {
        let disk = Disk::of(&format!("{kib}k"));
        let (mut index, _) = Index::open(&disk.metadata(), &Layout::default()).unwrap();
        let Err(err) = build(&mut index, notes(0, 400)) else { continue };
        failed += 1;
        assert_eq!(err.trouble(), Some(Trouble::Full), "{kib}: {err:?}");
        assert!(err.hint().unwrap().contains("Free some space"));
        drop(index);
        // What is left there was not damaged.
        let (_, opened) = Index::open(&disk.metadata(), &Layout::default()).unwrap();
        assert!(
            matches!(opened, Opened::Unfinished | Opened::Rebuild(Why::Missing | Why::Unfinished)),
            "{kib}: {opened:?}"
        );
    }
    assert!(failed >= 3, "{failed}");
}

#[test]
fn a_disk_that_is_full_when_an_index_is_written_to_is_full_each_time_and_over_with_room() {
    let disk = Disk::of("8m");
    let (mut index, _) = Index::open(&disk.metadata(), &Layout::default()).unwrap();
    rebuild(&mut index, notes(0, 50), commit(1));
    let filler = disk.fill();
    index.stage(notes(50, 50), commit(2)).unwrap();
    for _ in 0..2 {
        let err = index.flush().unwrap_err();
        assert_eq!(err.trouble(), Some(Trouble::Full), "{err:?}");
        assert_eq!(hits(&index.view(), "tide").len(), 100, "searched from memory");
        let err = index.rest().unwrap_err();
        assert_eq!(err.trouble(), Some(Trouble::Full), "{err:?}");
    }
    std::fs::remove_file(filler).unwrap();
    index.rest().unwrap();
    assert_eq!(hits(&index.view(), "tide").len(), 100);
    // A damaged file is none of the disk's: what it met before is forgotten.
    drop(index);
    let meta = disk.metadata().join("keyword_index/meta.json");
    std::fs::write(&meta, "{").unwrap();
    let (_, opened) = Index::open(&disk.metadata(), &Layout::default()).unwrap();
    assert!(matches!(opened, Opened::Rebuild(Why::Corrupt(_))), "{opened:?}");
}

#[test]
fn a_build_that_found_no_room_is_not_begun_again_before_there_is_more() {
    let disk = Disk::of("1200k");
    let (mut index, _) = Index::open(&disk.metadata(), &Layout::default()).unwrap();
    let room = crate::index::Room::default();
    index.knows(room.clone());
    let mut begun = index.begin_rebuild(800).unwrap();
    let mut met = None;
    for note in notes(0, 800) {
        met = met.or(begun.take(note).err());
    }
    let err = met.or_else(|| begun.step().err()).unwrap();
    assert_eq!(err.trouble(), Some(Trouble::Full), "{err:?}");
    drop(index);
    for _ in 0..2 {
        let (mut index, _) = Index::open(&disk.metadata(), &Layout::default()).unwrap();
        index.knows(room.clone());
        let Err(err) = index.begin_rebuild(800) else { panic!("there is no more room") };
        assert_eq!(err.trouble(), Some(Trouble::Full), "{err:?}");
        // Nothing of the last one is in the way of what is more worth, once what was opened of it
        // is given up as the indexer does it: a slow machine had made a step of it durable.
        drop(index);
        let mut left = std::fs::File::create(disk.0.path().join("a commit")).unwrap();
        std::io::Write::write_all(&mut left, &[0; 900 << 10]).unwrap();
        std::fs::remove_file(disk.0.path().join("a commit")).unwrap();
    }
    let more = Command::new("mount").args(["-o", "remount,size=32m"]).arg(disk.0.path()).status();
    assert!(more.unwrap().success());
    let (mut index, _) = Index::open(&disk.metadata(), &Layout::default()).unwrap();
    index.knows(room);
    rebuild(&mut index, notes(0, 800), commit(1));
    assert_eq!(hits(&index.view(), "tide").len(), 200, "as many as are asked for");
}

#[test]
fn vectors_that_a_full_disk_has_no_room_for_are_searched_and_written_with_room() {
    let disk = Disk::of("4m");
    let model = WordModel::instant("m");
    let mut index = open_with_model(&disk.metadata(), model.clone(), notes(0, 50), commit(1));
    index.rest().unwrap();
    let filler = disk.fill();
    index.stage(notes(50, 50), commit(2)).unwrap();
    index.flush().unwrap_err();
    assert_eq!(index.view().vectors().map(|it| it.missing), Some(0), "made all the same");
    // What a note is is written first: its vectors wait for it.
    assert!(!index.owes_vectors());
    std::fs::remove_file(filler).unwrap();
    index.flush().unwrap();
    assert!(!index.owes_vectors());
    drop(index);

    // No vector is on the disk: they are made, and can't be kept.
    fs::remove_derived(&disk.metadata().join("vector_index")).unwrap();
    let filler = disk.fill();
    let layout = Layout::default();
    let (mut index, _) = Index::open_with_model(&disk.metadata(), &layout, model.clone()).unwrap();
    let far = clock::now() + Duration::from_secs(60);
    for _ in 0..2 {
        let err = index.tend_vectors(far).unwrap_err();
        assert_eq!(err.trouble(), Some(Trouble::Full), "{err:?}");
        assert!(index.owes_vectors() && err.hint().unwrap().contains("Free some space"));
    }
    std::fs::remove_file(filler).unwrap();
    make_vectors(&mut index);
    drop(index);
    let (index, _) = Index::open_with_model(&disk.metadata(), &layout, model).unwrap();
    let counts = index.view().vectors().unwrap();
    assert_eq!((counts.missing, counts.vectors >= 100), (0, true));
}

/// A build that follows one which found no room leaves all that there is to the words.
#[test]
fn after_a_full_disk_words_are_built_alone_and_vectors_come_later() {
    let (dir, room) = (tempfile::tempdir().unwrap(), crate::index::Room::default());
    let model = WordModel::wide("m");
    let mut index = Index::open_with_model(dir.path(), &Layout::default(), model).unwrap().0;
    index.knows(room.clone());
    room.was_too_little(1000, 40);
    let mut build = index.begin_rebuild(40).unwrap();
    for note in notes(0, 40) {
        build.take(note).unwrap();
    }
    build.end(commit(1)).unwrap();
    assert!(!dir.path().join("vector_index").exists());
    let missing = |index: &Index| index.view().vectors().unwrap().missing;
    assert_eq!((missing(&index), hits(&index.view(), "tide").len()), (40, 40));
    make_vectors(&mut index);
    assert_eq!(missing(&index), 0);
}
