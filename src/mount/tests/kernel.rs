//! The model once more, through the kernel: random paths are looked at, read, listed and written
//! to, while answers change and pages are held open.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::PathBuf;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use super::House;
use super::model::name;
use super::reference::{Is, Place, meaning};

#[derive(Clone, Debug)]
enum Op {
    Look(Vec<Vec<u8>>),
    Read(Vec<Vec<u8>>),
    Hold(Vec<Vec<u8>>),
    List(Vec<Vec<u8>>),
    Write(Vec<Vec<u8>>, u8),
    Say(usize),
}

/// Starts where names mean something, mostly.
fn path() -> impl Strategy<Value = Vec<Vec<u8>>> {
    let start = prop::sample::select(vec![
        "search", "nodes", "links", "note", "similar", "at", "history", "recent", "tag",
    ]);
    prop_oneof![
        6 => (start, prop::collection::vec(name(), 0..4)).prop_map(|(start, mut rest)| {
            rest.insert(0, start.as_bytes().to_vec());
            rest
        }),
        1 => prop::collection::vec(name(), 1..3),
    ]
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        4 => path().prop_map(Op::Look),
        4 => path().prop_map(Op::Read),
        2 => path().prop_map(Op::Hold),
        3 => path().prop_map(Op::List),
        3 => (path(), any::<u8>()).prop_map(|(path, how)| Op::Write(path, how)),
        1 => (0usize..30_000).prop_map(Op::Say),
    ]
}

/// Below a link the kernel goes on in the vault, where anything may be.
const ELSEWHERE: i32 = -1;

/// A place, or the errno on the way to it.
fn place(path: &[Vec<u8>], notes: &[Vec<u8>]) -> Result<Place, i32> {
    let mut place = Place::Root;
    for name in path {
        match place.is() {
            Is::Link => return Err(ELSEWHERE),
            Is::File => return Err(libc::ENOTDIR),
            Is::Folder => {}
        }
        place = meaning(&place, name, notes)?;
    }
    Ok(place)
}

fn errno<T>(result: io::Result<T>) -> Option<i32> {
    result.err().map(|err| err.raw_os_error().expect("an errno"))
}

fn run(house: &House, ops: Vec<Op>) -> usize {
    let notes: Vec<_> = {
        let notes = house.fake.notes.lock().unwrap();
        notes.keys().map(|it| it.as_bytes().to_vec()).collect()
    };
    let full = |path: &[Vec<u8>]| -> PathBuf {
        house.mount.join(path.iter().map(|it| OsStr::from_bytes(it)).collect::<PathBuf>())
    };
    let mut held: Vec<(File, Vec<u8>)> = Vec::new();
    let mut read = 0;
    for op in ops {
        match &op {
            Op::Look(path) | Op::Read(path) | Op::Hold(path) | Op::List(path) => {
                let wanted = place(path, &notes);
                let found = fs::symlink_metadata(full(path));
                let (meta, wanted) = match (found, wanted) {
                    (Ok(meta), Ok(wanted)) => (meta, wanted),
                    // There is no such link, or no such page.
                    (Err(err), Ok(wanted)) => {
                        let said = err.raw_os_error().unwrap();
                        let absent = matches!(wanted, Place::Ranked(..)) && said == libc::ENOENT;
                        assert!(absent || wanted.refusal(&notes) == Some(said), "{path:?}: {err}");
                        continue;
                    }
                    (Err(err), Err(wanted)) => {
                        let said = err.raw_os_error();
                        assert!(wanted == ELSEWHERE || said == Some(wanted), "{path:?}: {err}");
                        continue;
                    }
                    (Ok(_), Err(wanted)) => panic!("{path:?} is there, the model: {wanted}"),
                };
                assert_eq!(meta.is_dir(), wanted.is() == Is::Folder, "{path:?}");
                assert_eq!(meta.is_symlink(), wanted.is() == Is::Link, "{path:?}");
                assert_eq!(meta.nlink(), 1);
                match (&op, wanted.is()) {
                    (Op::Read(_) | Op::Hold(_), Is::File) => {
                        let file = File::open(full(path)).unwrap();
                        let open = file.metadata().unwrap();
                        let bytes = io::read_to_string(&file).unwrap().into_bytes();
                        assert_eq!(open.len(), bytes.len() as u64, "{path:?}");
                        if !wanted.is_fleeting() {
                            assert_eq!((open.ino(), open.len()), (meta.ino(), meta.len()));
                        }
                        assert!(!bytes.is_empty() && !bytes.contains(&0));
                        read += 1;
                        if matches!(op, Op::Hold(_)) {
                            held.push((file, bytes));
                        }
                    }
                    (Op::List(_), Is::Folder) => {
                        let Ok(listing) = fs::read_dir(full(path)) else {
                            assert!(wanted.refusal(&notes).is_some(), "{path:?}");
                            continue;
                        };
                        let mut names: Vec<_> =
                            listing.map(|it| it.unwrap().file_name().as_bytes().to_vec()).collect();
                        names.sort();
                        if let Some(wanted) = wanted.lists(&notes) {
                            assert_eq!(names, wanted, "{path:?}");
                        }
                    }
                    _ => {}
                }
            }
            Op::Write(path, how) => {
                let target = full(path);
                let said = match how % 8 {
                    0 => errno(
                        File::options().write(true).create(true).truncate(false).open(&target),
                    ),
                    1 => errno(fs::create_dir(&target)),
                    2 => errno(fs::remove_file(&target)),
                    3 => errno(fs::rename(&target, house.mount.join("search/other"))),
                    4 => errno(std::os::unix::fs::symlink("x", &target)),
                    5 => errno(fs::remove_dir(&target)),
                    6 => errno(File::options().write(true).truncate(true).open(&target)),
                    _ => errno(fs::hard_link(house.mount.join("README.md"), &target)),
                };
                let said = said.unwrap_or_else(|| panic!("{path:?} {how}: written"));
                let fits = match place(path, &notes) {
                    Ok(_) => matches!(
                        said,
                        libc::EROFS
                            | libc::EEXIST
                            | libc::EISDIR
                            | libc::ENOTDIR
                            | libc::ENOTEMPTY
                            | libc::EXDEV
                            | libc::EBUSY
                            | libc::EINVAL
                            // A link of a ranking that leads to no file, or is none.
                            | libc::ENOENT
                            | libc::EIO
                            | libc::EAGAIN
                    ),
                    Err(ELSEWHERE) => true,
                    Err(wanted) => said == wanted || said == libc::EROFS || said == libc::ENOTDIR,
                };
                assert!(fits, "{path:?} {how}: {said}");
            }
            Op::Say(length) => house.fake.say(&format!("text {}", "word ".repeat(length / 5))),
        }
        for (file, bytes) in &held {
            let mut again = vec![0; bytes.len() + 1];
            let length = file.read_at(&mut again, 0).unwrap();
            // One read may give less, but nothing else.
            assert_eq!(again[..length], bytes[..length]);
            assert_eq!(file.metadata().unwrap().len(), bytes.len() as u64);
        }
    }
    read
}

#[test]
fn the_kernel_sees_what_the_model_says() {
    let Some(house) = House::open() else { return };
    let before = house.says("find \"$OUT\"/vault -type f -exec sha256sum {} + | sort");
    let read = std::cell::Cell::new(0);
    // What is drawn may be few pages: more is drawn then.
    for _ in 0..10 {
        let mut runner = TestRunner::new(Config { cases: 40, ..Config::default() });
        let ran = runner.run(&prop::collection::vec(op(), 1..60), |ops| {
            read.set(read.get() + run(&house, ops));
            Ok(())
        });
        if let Err(err) = ran {
            panic!("{err}");
        }
        if read.get() > 20 {
            break;
        }
    }
    assert!(read.get() > 20, "{} pages were read", read.get());
    assert_eq!(house.says("find \"$OUT\"/vault -type f -exec sha256sum {} + | sort"), before);
    // The kernel tells of a close a little later.
    let end = std::time::Instant::now() + std::time::Duration::from_secs(20);
    while house.tally.read().open > 0 {
        assert!(std::time::Instant::now() < end, "{:?}", house.tally.read());
        std::thread::yield_now();
    }
}
