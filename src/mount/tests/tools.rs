//! Real tools on real pages.

use super::House;

#[test]
fn readers_of_every_kind_see_the_same_page() {
    let Some(house) = House::open() else { return };
    // Longer than one read of the kernel, with a beginning and an end.
    house.fake.say(&format!("BEGIN\n{}\nEND", "0123456789abcde\n".repeat(40_000)));
    let page = house.read("search/big");
    assert!(page.len() > 2 << 20, "{}", page.len());
    std::fs::write(house.dir.path().join("plain"), &page).unwrap();
    let fresh = |name: &str| format!("search/fresh-{name}");
    for (name, line) in [
        ("cat", "cat F | cmp - $OUT/plain"),
        ("cp", "cp F $OUT/c && cmp $OUT/c $OUT/plain"),
        ("cp-a", "cp -a F $OUT/d && cmp $OUT/d $OUT/plain"),
        ("cmp", "cmp F $OUT/plain"),
        ("dd", "dd if=F bs=777 status=none | cmp - $OUT/plain"),
        ("wc", "test $(wc -c < F) = $(stat -c %s $OUT/plain)"),
        ("wc2", "test $(wc -c F | cut -d' ' -f1) = $(stat -c %s $OUT/plain)"),
        ("stat", "test $(stat -c %s F) = $(stat -c %s $OUT/plain)"),
        ("head", "cmp <(head -c 100000 F) <(head -c 100000 $OUT/plain)"),
        ("tail", "cmp <(tail -c 100000 F) <(tail -c 100000 $OUT/plain)"),
        ("tail-n", "cmp <(tail -n 3 F) <(tail -n 3 $OUT/plain)"),
        ("grep", "test $(grep -c '^BEGIN' F) = 4"),
        ("sed", "sed -n '$p' F | cmp - <(tail -n 1 $OUT/plain)"),
        ("less", "less F | cmp - $OUT/plain"),
        ("tar", "tar cf - F 2>/dev/null | tar xOf - | cmp - $OUT/plain"),
        ("gzip", "gzip -c F | gunzip | cmp - $OUT/plain"),
        ("sort", "sort F | cmp - <(sort $OUT/plain)"),
        ("sha", "test $(sha256sum < F | cut -c1-64) = $(sha256sum < $OUT/plain | cut -c1-64)"),
        ("test", "test -s F -a -f F -a -r F -a ! -w $OUT/none"),
        ("ls", "ls -l F | grep -q $(stat -c %s $OUT/plain)"),
    ] {
        house.says(&line.replace('F', &fresh(name)));
    }
}

/// Readers that map the file see its whole length, in processes of their own.
#[test]
fn readers_that_map_the_page_see_all_of_it() {
    let Some(house) = House::open() else { return };
    let page = house.read("search/mapped");
    if house.sh("command -v python3").status.success() {
        let script = "import mmap,os,sys
with open(sys.argv[1],'rb') as f:
    with mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ) as m:
        data = m[:]
    assert len(data) == os.fstat(f.fileno()).st_size
    f.seek(0)
    assert f.read() == data
sys.stdout.buffer.write(data)";
        std::fs::write(house.dir.path().join("map.py"), script).unwrap();
        assert_eq!(house.says("python3 $OUT/map.py search/mapped"), page);
        assert_eq!(house.says("python3 $OUT/map.py search/mapped-fresh"), page);
    }
    if house.sh("command -v rg").status.success() {
        assert_eq!(house.says("rg --mmap -c needle search/mapped-too").trim(), "4");
    }
}

#[test]
fn editors_read_without_leaving_anything() {
    let Some(house) = House::open() else { return };
    let page = house.read("search/edited");
    if house.sh("command -v vim").status.success() {
        let line = "vim -R -es -u NONE -c 'w! '$OUT/seen -c 'q!' search/edited < /dev/null";
        house.says(line);
        assert_eq!(std::fs::read_to_string(house.dir.path().join("seen")).unwrap(), page);
        // With its swap file, as people start it.
        house.sh("vim -es -u NONE -c 'normal ox' -c 'wq' search/edited < /dev/null");
    }
    assert_eq!(house.read("search/edited"), page);
    assert_eq!(house.says("ls -A search"), "edited\n");
}

#[test]
fn fifty_readers_at_once_share_one_answer() {
    let Some(house) = House::open() else { return };
    house.says(
        "for i in $(seq 50); do cat 'search/slow but shared' > $OUT/out.$i & done; wait; \
         for i in $(seq 50); do cmp $OUT/out.1 $OUT/out.$i || exit 1; done; test -s $OUT/out.1",
    );
    assert_eq!(house.fake.asked(), 1);
    house.says(
        "for i in $(seq 50); do cat \"search/q $i\" > $OUT/out.$i & done; wait; \
         for i in $(seq 50); do cmp $OUT/out.1 $OUT/out.$i || exit 1; done",
    );
}

#[test]
fn the_status_is_new_each_time_and_can_be_copied() {
    let Some(house) = House::open() else { return };
    assert_ne!(house.read("status.md"), house.read("status.md"));
    for _ in 0..5 {
        // These compare what they saw with what they opened.
        house
            .says("cp -f status.json $OUT/s && grep -q asked $OUT/s && tar cf /dev/null status.md");
        house.says("test $(stat -c %s status.json) -gt 100 && wc -c status.json > /dev/null");
    }
    let open = std::fs::File::open(house.path("status.json")).unwrap();
    let size = open.metadata().unwrap().len();
    house.fake.asked.fetch_add(1_000_000, std::sync::atomic::Ordering::SeqCst);
    house.read("status.json");
    let held = std::io::read_to_string(&open).unwrap();
    assert_eq!(held.len() as u64, size);
    assert_eq!(open.metadata().unwrap().len(), size);
}

#[test]
fn an_answer_in_part_is_asked_again() {
    let Some(house) = House::open() else { return };
    *house.fake.partial.lock().unwrap() = Some("the index is being built, 40 %".to_owned());
    let page = house.read("search/early");
    assert!(page.ends_with("partial: the index is being built, 40 %\n"), "{page}");
    house.says("cp search/early $OUT/early && ls -l links/early/ > /dev/null");
    assert_eq!(house.says("ls search"), "", "not at hand, so not listed");
    *house.fake.partial.lock().unwrap() = None;
    assert!(!house.read("search/early").contains("partial"));
    let asked = house.fake.asked();
    house.read("search/early");
    assert_eq!(house.fake.asked(), asked, "whole now, and kept");
}
