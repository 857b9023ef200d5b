//! Questions that go to somebody outside: whoever looks costs nothing, whoever opens gets all of it.

use std::fs::File;
use std::os::unix::fs::MetadataExt as _;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::House;

const AT_HAND: &str = "what words found\n";

/// A mount whose questions go to a provider, which makes this text of every passage.
fn paid(text: &str) -> Option<House> {
    let house = House::open()?;
    house.fake.outside.store(true, Ordering::SeqCst);
    house.fake.say(AT_HAND);
    text.clone_into(&mut house.fake.outside_text.lock().unwrap());
    Some(house)
}

fn sent(house: &House) -> Vec<String> {
    house.fake.sent.lock().unwrap().clone()
}

#[test]
fn looking_sends_nothing_and_opening_sends_a_question_once() {
    let Some(house) = paid("what was meant, at length\n") else { return };
    house.says(
        "ls -la . search search/limit=2 > $OUT/o; find . > $OUT/o; ls -lR . > $OUT/o; du -s . > $OUT/o; \
         stat search/q search/q.json search/q.md search/limit=2/q nodes/q nodes/q.json \
         similar/top.md > $OUT/o; \
         ls -lL links/q/ > $OUT/o; cat links/q/01-* > $OUT/o; test -s search/q; test -r nodes/q; \
         for name in .git .Trash HEAD desktop.ini; do test -e search/$name; done; \
         python3 -c 'import os; os.stat(\"search/q\"); os.access(\"nodes/q\", os.R_OK)'",
    );
    assert_eq!(sent(&house), [""; 0]);
    let page = house.read("search/q");
    assert!(page.contains("what was meant, at length") && !page.contains(AT_HAND), "{page}");
    assert!(page.ends_with(", keyword + vector\n"), "{page}");
    for other in ["search/q", "search/q.json", "search/limit=2/q", "nodes/q", "search/q.md"] {
        house.read(other);
    }
    assert_eq!(sent(&house), ["q"]);
    // Known now, so that whoever looks sees the page itself, and so does the folder of links.
    assert_eq!(std::fs::metadata(house.path("search/q")).unwrap().len(), page.len() as u64);
    assert_eq!(house.says("grep -r 'what was' search | wc -l").trim(), "12");
    house.says("ls -lL links/q/ > $OUT/o; find . > $OUT/o");
    assert_eq!(sent(&house), ["q"]);
}

/// Longer and shorter than what the stat before has shown.
#[test]
fn whoever_looked_first_reads_the_whole_page_all_the_same() {
    for text in ["0123456789abcde\n".repeat(30_000), "m\n".to_owned()] {
        let Some(house) = paid(&text) else { return };
        let page = house.read("search/page");
        assert!(page.contains(&text));
        std::fs::write(house.dir.path().join("plain"), &page).unwrap();
        for (name, line) in [
            ("cat", "cat \"$F\" | cmp - $P"),
            ("cp", "cp \"$F\" $OUT/c && cmp $OUT/c $P"),
            ("cp-a", "cp -a \"$F\" $OUT/d && cmp $OUT/d $P"),
            ("cmp", "cmp \"$F\" $P"),
            ("dd", "dd if=\"$F\" bs=777 status=none | cmp - $P"),
            ("wc", "test $(wc -c < \"$F\") = $(stat -c %s $P)"),
            ("wc2", "test $(wc -c \"$F\" | cut -d' ' -f1) = $(stat -c %s $P)"),
            ("wc-l", "test $(wc -l < \"$F\") = $(wc -l < $P)"),
            ("head", "cmp <(head -c 100000 \"$F\") <(head -c 100000 $P)"),
            ("tail", "cmp <(tail -c 1000 \"$F\") <(tail -c 1000 $P)"),
            ("tail-n", "cmp <(tail -n 3 \"$F\") <(tail -n 3 $P)"),
            ("tac", "tac \"$F\" | cmp - <(tac $P)"),
            ("grep", "cmp <(grep -c . \"$F\") <(grep -c . $P)"),
            ("sed", "sed -n '$p' \"$F\" | cmp - <(tail -n 1 $P)"),
            ("less", "less \"$F\" | cmp - $P"),
            ("tar", "tar cf - \"$F\" 2>/dev/null | tar xOf - | cmp - $P"),
            ("gzip", "gzip -c \"$F\" | gunzip | cmp - $P"),
            (
                "rsync",
                "! command -v rsync > /dev/null || { rsync \"$F\" $OUT/r && cmp $OUT/r $P; }",
            ),
            ("rg", "! command -v rg > /dev/null || cmp <(rg --mmap -c . \"$F\") <(rg -c . $P)"),
            ("stat", "exec 3< \"$F\"; test $(stat -L -c %s /dev/fd/3) = $(stat -c %s $P)"),
            (
                "read",
                "python3 -c 'import os; assert open(os.environ[\"F\"]).read() == open(os.environ[\"P\"]).read()'",
            ),
            (
                "pread",
                "python3 -c 'import os; a, b = os.open(os.environ[\"F\"], 0), os.open(os.environ[\"P\"], 0); \
                       n = os.fstat(a).st_size; assert n == os.fstat(b).st_size; \
                       assert os.pread(a, 99, n - 40) == os.pread(b, 99, n - 40); \
                       assert os.lseek(a, 0, 2) == n'",
            ),
            ("direct", "dd if=\"$F\" bs=4096 iflag=direct status=none | cmp - $P"),
            (
                "sendfile",
                "python3 -c 'import os, shutil; shutil.copyfile(os.environ[\"F\"], \"/dev/shm/x\" + str(os.getpid())); \
                       a = open(\"/dev/shm/x\" + str(os.getpid()), \"rb\").read(); \
                       os.unlink(\"/dev/shm/x\" + str(os.getpid())); \
                       assert a == open(os.environ[\"P\"], \"rb\").read()'",
            ),
            (
                "hole",
                "python3 -c 'import os; a = os.open(os.environ[\"F\"], 0); \
                       assert os.lseek(a, 0, os.SEEK_HOLE) == os.stat(os.environ[\"P\"]).st_size'",
            ),
            (
                "shared",
                "python3 -c 'import mmap, os; a = open(os.environ[\"F\"], \"rb\"); \
                        m = mmap.mmap(a.fileno(), 0, prot=mmap.PROT_READ); \
                        assert m[:] == open(os.environ[\"P\"], \"rb\").read() == a.read() == m[:]'",
            ),
            (
                "private",
                "python3 -c 'import mmap, os; a = open(os.environ[\"F\"], \"rb\"); \
                         m = mmap.mmap(a.fileno(), 0, mmap.MAP_PRIVATE, mmap.PROT_READ); \
                         assert m[:] == open(os.environ[\"P\"], \"rb\").read() == a.read() == m[:]'",
            ),
        ] {
            let file = format!("search/page {name}");
            let shown = std::fs::metadata(house.path(&file)).unwrap().len();
            assert_ne!(shown, page.len() as u64, "what is at hand is another page");
            assert!(!sent(&house).contains(&format!("page {name}")), "{name}");
            house.says(&format!("export F='{file}' P=$OUT/plain; {line}"));
            assert!(sent(&house).contains(&format!("page {name}")), "{name}");
        }
    }
}

/// From the open on the inode is the page: its size is exact, whoever asks and however often.
#[test]
fn an_open_page_is_exact_whatever_was_shown_before() {
    let Some(house) = paid(&"meant ".repeat(5_000)) else { return };
    let path = house.path("search/q");
    let before = std::fs::metadata(&path).unwrap();
    let again = std::fs::metadata(&path).unwrap();
    assert_eq!((before.len(), before.ino()), (again.len(), again.ino()));
    let file = File::open(&path).unwrap();
    let (open, path_now) = (file.metadata().unwrap(), std::fs::metadata(&path).unwrap());
    let text = std::io::read_to_string(&file).unwrap();
    assert_eq!(open.len(), text.len() as u64);
    assert_ne!(open.len(), before.len());
    assert_eq!((open.ino(), path_now.len()), (before.ino(), open.len()), "one inode, one page");
    // Another state of the index is another inode; the open file stays what it is.
    house.fake.say("other words\n");
    assert_ne!(std::fs::metadata(&path).unwrap().ino(), open.ino());
    assert_eq!(file.metadata().unwrap().len(), open.len());
    assert_eq!(std::io::read_to_string(File::open(&path).unwrap()).unwrap(), text, "known");
    assert_eq!(sent(&house), ["q"]);
}

#[test]
fn a_question_that_may_not_be_sent_is_answered_by_words_and_asked_again() {
    let Some(house) = paid("what was meant\n") else { return };
    for page in ["search/silent", "nodes/silent"] {
        house.says(&format!("stat {page} > $OUT/o && cp {page} $OUT/c && test -s $OUT/c"));
        let text = house.read(page);
        assert!(text.contains("(vector off: the mount has asked the provider enough"), "{text}");
    }
    assert_eq!(house.says("ls search"), "", "a page that passes is not listed");
    house.fake.sent.lock().unwrap().push("silent".to_owned());
    for page in ["search/silent", "nodes/silent"] {
        assert!(house.read(page).ends_with(", keyword + vector\n"), "{page}");
    }
    assert_eq!(house.says("ls search"), "silent\n");
}

/// Lookers, readers and mappers at once while the index moves: no page is cut, mixed or sent twice.
#[test]
fn lookers_and_readers_at_once_see_whole_pages() {
    let Some(house) = paid(&"meant ".repeat(4_000)) else { return };
    let looks = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for number in 0..6 {
            let (house, looks) = (&house, &looks);
            scope.spawn(move || {
                for round in 0..40 {
                    let path = house.path(&format!("search/q {}", round % 8));
                    if (number + round) % 2 == 0 {
                        looks.fetch_add(1, Ordering::SeqCst);
                        assert!(std::fs::metadata(&path).unwrap().len() > 0);
                        continue;
                    }
                    let file = File::open(&path).unwrap();
                    let size = file.metadata().unwrap().len();
                    let text = std::io::read_to_string(&file).unwrap();
                    assert_eq!((text.len() as u64, file.metadata().unwrap().len()), (size, size));
                    assert!(text.ends_with(", keyword + vector\n") && text.contains("meant"));
                }
            });
        }
        scope.spawn(|| {
            for number in 0..100 {
                house.fake.say(&"x".repeat(1 + number * 97 % 5_000));
                std::thread::yield_now();
            }
        });
    });
    assert!(looks.load(Ordering::SeqCst) > 0);
    let mut asked = sent(&house);
    asked.sort();
    asked.dedup();
    assert_eq!((asked.len(), sent(&house).len()), (8, 8), "each once");
}
