//! Field case G09: the inode is the page.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::process::{Command, Stdio};

use super::House;

#[test]
fn an_open_page_stays_what_it_was_while_the_index_moves() {
    let Some(house) = House::open() else { return };
    for (before, after) in [("short", "long ".repeat(50_000)), ("x\n", String::new())]
        .into_iter()
        .flat_map(|(a, b)| [(a.to_owned(), b.clone()), (b, a.to_owned())])
    {
        house.fake.say(&before);
        let mut a = File::open(house.path("search/q")).unwrap();
        let mut start = vec![0; 10];
        a.read_exact(&mut start).unwrap();
        let size_a = a.metadata().unwrap().len();

        house.fake.say(&after);
        let b = File::open(house.path("search/q")).unwrap();
        let (meta_a, meta_b) = (a.metadata().unwrap(), b.metadata().unwrap());
        assert_ne!(meta_a.ino(), meta_b.ino());
        assert_eq!(meta_a.len(), size_a);
        let text_b = std::io::read_to_string(&b).unwrap();
        assert_eq!(text_b.len() as u64, meta_b.len());
        assert!(text_b.contains(&after));

        // A reads on to its end, twice the same, with no hole and no byte of B.
        let mut rest = Vec::new();
        a.read_to_end(&mut rest).unwrap();
        a.seek(SeekFrom::Start(0)).unwrap();
        let mut again = Vec::new();
        a.read_to_end(&mut again).unwrap();
        assert_eq!(again, [start, rest].concat());
        assert_eq!(again.len() as u64, size_a);
        assert!(!again.contains(&0) && again != text_b.as_bytes());
        assert!(String::from_utf8(again).unwrap().contains(&before));
        let mut piece = vec![0; 4];
        b.read_exact_at(&mut piece, 2).unwrap();
        assert_eq!(piece, &text_b.as_bytes()[2..6]);
    }
}

#[test]
fn a_stat_and_the_open_after_it_are_one_inode() {
    let Some(house) = House::open() else { return };
    let path = house.path("search/q");
    let stat = std::fs::metadata(&path).unwrap();
    let open = File::open(&path).unwrap().metadata().unwrap();
    assert_eq!((stat.ino(), stat.len()), (open.ino(), open.len()));
    assert_eq!(stat.mode() & 0o777, 0o444);
    // Other spellings are the same page.
    let same = std::fs::metadata(house.path("search/%71")).unwrap();
    assert_eq!(same.ino(), stat.ino());
    assert_eq!(house.fake.asked(), 1);
}

/// The trial that the design rests on, in another process: a mapping would hang this one if the
/// server needed memory just then.
#[test]
fn a_mapped_page_stays_what_it_was_too() {
    let Some(house) = House::open() else { return };
    if !house.sh("command -v python3").status.success() {
        return;
    }
    let script = "import mmap,os,sys
a = open('search/q','rb')
m = mmap.mmap(a.fileno(), 0, access=mmap.ACCESS_READ)
head = m[:100]
print('mapped', flush=True)
sys.stdin.readline()
b = open('search/q','rb')
sa, sb = os.fstat(a.fileno()), os.fstat(b.fileno())
assert sa.st_ino != sb.st_ino and sa.st_size != sb.st_size, (sa, sb)
whole = m[:]
assert len(whole) == sa.st_size and whole[:100] == head and 0 not in whole
a.seek(0)
assert a.read() == whole and b'after' not in whole
n = mmap.mmap(b.fileno(), 0, access=mmap.ACCESS_READ)
assert len(n) == sb.st_size and n[:] == b.read() and b'before' not in n[:]
assert m[:] == whole";
    for (before, after) in [(10, 90_000), (90_000, 10)] {
        house.fake.say(&"before ".repeat(before));
        let mut child = Command::new("timeout")
            .args(["60", "python3", "-c", script])
            .current_dir(&house.mount)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut said).unwrap();
        assert_eq!(said, "mapped\n");
        house.fake.say(&"after ".repeat(after));
        child.stdin.take().unwrap().write_all(b"go\n").unwrap();
        assert!(child.wait().unwrap().success());
    }
}

/// A reader in a loop while the answer grows and shrinks: each copy is one page, whole.
#[test]
fn no_reader_ever_sees_a_mix() {
    let Some(house) = House::open() else { return };
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for number in 0..200usize {
                let letter = char::from(b'a' + u8::try_from(number % 26).unwrap());
                house.fake.say(&letter.to_string().repeat(1 + (number * 7919) % 60_000));
                std::thread::yield_now();
            }
        });
        let mut looks = 0;
        while !writer.is_finished() || looks < 50 {
            looks += 1;
            let file = File::open(house.path("search/limit=1/moving")).unwrap();
            let size = file.metadata().unwrap().len();
            let text = std::io::read_to_string(&file).unwrap();
            assert_eq!(text.len() as u64, size);
            let body = text.lines().nth(1).unwrap();
            let first = body.chars().next().unwrap();
            assert!(text.ends_with("(vector off: no model)\n"), "cut short");
            assert!(body.starts_with('#') || body.chars().all(|it| it == first), "a mix");
        }
        writer.join().unwrap();
    });
}

/// The whole trial with the tools that compare: tar, cp and mmap beside a moving index.
#[test]
fn tools_that_compare_get_whole_pages_from_a_moving_index() {
    let Some(house) = House::open() else { return };
    house.read("search/q");
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for number in 0.. {
                if stop.load(std::sync::atomic::Ordering::SeqCst) {
                    break;
                }
                house.fake.say(&"z".repeat(1 + (number * 31) % 9000));
                // A view a millisecond: far more than any vault moves.
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
        });
        let output = house.sh(
            "for i in $(seq 40); do tar cf - search/q | tar xOf - | tail -n1 | grep -q '^-- 4 hits' \
             || exit 1; cat search/q | tail -n1 | grep -q '^-- 4 hits' || exit 2; done",
        );
        stop.store(true, std::sync::atomic::Ordering::SeqCst);
        assert!(output.status.success(), "{output:?}");
    });
}
