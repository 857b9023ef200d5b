//! The mount as tools meet it.

use std::fs::{self, File};
use std::io::{Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::MetadataExt as _;
use std::process::{Command, Stdio};

use crate::house::{House, has_fuse, wait_for};

fn shell(house: &House, script: &str) -> (i32, String) {
    let output = Command::new("timeout")
        .args(["60", "bash", "-uc", script])
        .env("M", &house.mount)
        .env("V", &house.vault)
        .env("T", house.temp.path())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status.code().unwrap_or(-1), String::from_utf8_lossy(&text).into_owned())
}

fn with_notes() -> House {
    let house = House::open();
    house.write(
        "digest/wiki/bicycle.md",
        "---\nname: Bicycle\ndescription: Two wheels.\n---\nA bicycle. [[commute]]\n",
    );
    house.write(
        "memory/2026-07-23/commute.md",
        "# Commute\n\nBy bicycle, see [[digest/wiki/bicycle.md]].\n",
    );
    house.settle_and_check();
    house
}

#[test]
fn every_kind_of_page_is_there() {
    if !has_fuse("every_kind_of_page_is_there") {
        return;
    }
    let house = with_notes();
    let text = house.cat("search/bicycle");
    assert!(text.contains("  outlinks (1):\n    → "), "{text}");
    let last = text.lines().last().unwrap();
    assert!(last.starts_with("-- 2 hits as of ") && last.contains("current"), "{last}");
    let json: serde_json::Value = serde_json::from_str(&house.cat("search/bicycle.json")).unwrap();
    assert_eq!(json["results"].as_array().unwrap().len(), 2);
    assert!(house.cat("search/bicycle.md").contains("digest/wiki/bicycle.md"));
    assert!(house.cat("search/limit=1/in=digest/bicycle").contains("digest/wiki/bicycle.md"));
    assert!(house.cat("nodes/bicycle").contains("Two wheels."));
    assert!(house.cat("note/digest/wiki/bicycle.md/links").contains("commute.md"));
    assert!(house.cat("note/digest/wiki/bicycle.md/backlinks").contains("commute.md"));
    assert!(house.cat("README.md").contains("search/"));
    assert!(house.cat("status.md").contains("ok"));
    let status: serde_json::Value = serde_json::from_str(&house.cat("status.json")).unwrap();
    assert_eq!(status["verdict"], "ok");
    let links: Vec<_> = fs::read_dir(house.mount.join("links/bicycle"))
        .unwrap()
        .map(|it| it.unwrap().path())
        .collect();
    assert_eq!(links.len(), 2, "{links:?}");
    assert!(links.iter().any(|it| fs::read_to_string(it).unwrap().contains("A bicycle.")));
    assert!(house.cat("search/nothing at all like it").contains("No hits"));
}

#[test]
fn tools_behave() {
    if !has_fuse("tools_behave") {
        return;
    }
    let house = with_notes();
    let (code, said) = shell(
        &house,
        r#"set -e
        cd "$M"
        q=search/bicycle
        n=$(cat "$q" | wc -c); [ "$n" -gt 100 ]
        [ "$(wc -c < "$q")" = "$n" ]; [ "$(stat -c %s "$q")" = "$n" ]
        [ "$(head -c 10 "$q")" = "==========" ]
        tail -1 "$q" | grep -q '^-- '
        grep -q bicycle "$q"; grep -c . "$q" >/dev/null
        cp "$q" "$T/copy"; cmp "$q" "$T/copy"
        tar -C "$M" -cf "$T/t.tar" "$q"; tar -xOf "$T/t.tar" "$q" | cmp - "$q"
        python3 -c 'import mmap,sys
f=open(sys.argv[1],"rb"); m=mmap.mmap(f.fileno(),0,prot=mmap.PROT_READ); assert m[:10]==b"=========="; assert len(m)==int(sys.argv[2])' "$q" "$n"
        ls -lR . >/dev/null; find . >/dev/null; cp -r search "$T/searches"; grep -r needle . || true
        dd if="$q" bs=7 2>/dev/null | cmp - "$q"
        for i in $(seq 50); do cat "search/bicycle $i" > "$T/out.$i" & done; wait
        for i in $(seq 50); do grep -q '^-- ' "$T/out.$i"; done"#,
    );
    assert_eq!(code, 0, "{said}");
}

#[test]
fn nobody_can_write_g10() {
    if !has_fuse("nobody_can_write_g10") {
        return;
    }
    let house = with_notes();
    for script in [
        "touch \"$M/x\"",
        "touch \"$M/search/x y z\" && echo hi > \"$M/search/x y z\"",
        "mkdir \"$M/dir\"",
        "mkdir \"$M/search/dir\"",
        "rm -rf \"$M\"/search \"$M\"/README.md",
        "ln -s a \"$M/l\"",
        "chmod -R 777 \"$M\"",
        "truncate -s 0 \"$M/README.md\"",
        "mv \"$M/README.md\" \"$M/x\"",
        "cp /etc/hostname \"$M/\"",
        "echo x > \"$M/status.md\"",
        "rmdir \"$M/search\"",
    ] {
        let (code, said) = shell(&house, script);
        assert_ne!(code, 0, "{script} went through: {said}");
        assert_ne!(code, 124, "{script} hung");
        let fits = said.contains("Read-only file system") || said.contains("File exists");
        assert!(fits, "{script}: {said}");
    }
    assert_eq!(house.git(["status", "--porcelain", "-z"]), "");
    assert!(house.cat("README.md").len() > 100);
}

#[test]
fn probes_and_listings_start_no_query_g05() {
    if !has_fuse("probes_and_listings_start_no_query_g05") {
        return;
    }
    let house = with_notes();
    let (_, said) = shell(
        &house,
        r#"cd "$M"; find . -type f | head; grep -r needle . ; du -s . ; ls -la; git -C "$M" status
        for p in .git .Trash .Trash-1000 .hidden autorun.inf desktop.ini .DS_Store .envrc; do
            for d in . search nodes links note; do [ -e "$d/$p" ] && echo "EXISTS $d/$p"; done
        done; true"#,
    );
    assert!(!said.contains("EXISTS"), "{said}");
    assert_eq!(fs::read_dir(house.mount.join("search")).unwrap().count(), 0, "nothing was asked");
    house.cat("search/bicycle");
    let names: Vec<_> = fs::read_dir(house.mount.join("search"))
        .unwrap()
        .map(|it| it.unwrap().file_name())
        .collect();
    assert_eq!(names, ["bicycle"], "a query that was asked is recent");
}

#[test]
fn an_open_page_never_changes_g09() {
    if !has_fuse("an_open_page_never_changes_g09") {
        return;
    }
    let house = with_notes();
    let mut a = File::open(house.mount.join("search/bicycle")).unwrap();
    let size = a.metadata().unwrap().len();
    let mut head = [0; 20];
    a.read_exact(&mut head).unwrap();
    house.write("more.md", format!("bicycle {}\n", "and more ".repeat(100)));
    house.settle_and_check();
    let b = fs::read(house.mount.join("search/bicycle")).unwrap();
    assert!(String::from_utf8_lossy(&b).contains("more.md"));
    assert_eq!(a.metadata().unwrap().len(), size);
    a.seek(SeekFrom::Start(0)).unwrap();
    let mut whole = Vec::new();
    a.read_to_end(&mut whole).unwrap();
    assert_eq!(whole.len() as u64, size);
    assert!(!String::from_utf8_lossy(&whole).contains("more.md") && !whole.contains(&0));
}

#[test]
fn errors_fit() {
    if !has_fuse("errors_fit") {
        return;
    }
    let house = with_notes();
    let errno = |path: &str| fs::read(house.mount.join(path)).unwrap_err().raw_os_error();
    assert_eq!(errno("note/no/such/note.md/links"), Some(libc_enoent()));
    assert_eq!(errno("nothing"), Some(libc_enoent()));
    assert_eq!(errno("search/limit=many/x"), Some(22), "a known option with a bad value");
    assert_eq!(errno("search/bicycle/below"), Some(20));
    assert!(
        !fs::read(house.mount.join("search/a=b")).unwrap().is_empty(),
        "any other name is a query"
    );
    assert!(house.cat("search/and%2For").contains("-- "));
}

fn libc_enoent() -> i32 {
    2
}

#[test]
fn a_dead_mount_is_cleared_at_the_next_start_g01() {
    if !has_fuse("a_dead_mount_is_cleared_at_the_next_start_g01") {
        return;
    }
    let mut house = with_notes();
    for _ in 0..3 {
        house.kill();
        let dead = fs::metadata(&house.mount).unwrap_err();
        assert_eq!(dead.raw_os_error(), Some(107), "{dead}");
        house.start();
        wait_for("the mount", || house.mount.join("README.md").exists());
        assert!(house.cat("search/bicycle").contains("bicycle.md"));
    }
    assert_eq!(house.stop(), Some(0));
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    assert!(!mounts.contains(&*house.mount.to_string_lossy()), "nothing stays mounted");
}

#[test]
fn a_foreign_place_is_refused_and_the_rest_works_g01_g03() {
    if !has_fuse("a_foreign_place_is_refused_and_the_rest_works_g01_g03") {
        return;
    }
    let mut house = House::open();
    house.stop();
    house.write("n.md", "needle\n");
    // A folder with files in it.
    fs::create_dir_all(&house.mount).unwrap();
    fs::write(house.mount.join("mine"), "mine").unwrap();
    house.start();
    house.settle_and_check();
    let status = house.status();
    assert_eq!(status["mount"]["state"], "failed", "{status}");
    assert_eq!(house.found("needle"), ["n.md"]);
    assert_eq!(fs::read(house.mount.join("mine")).unwrap(), b"mine");
    house.stop();
    // Inside the vault, plainly and through a symlink.
    std::os::unix::fs::symlink(&house.vault, house.temp.path().join("again")).unwrap();
    for place in [house.at("Search"), house.temp.path().join("again/Search")] {
        let place = place.to_str().unwrap().to_owned();
        house.args(["--mount", &place]);
        house.start();
        house.settle_and_check();
        assert_eq!(house.status()["mount"]["state"], "failed");
        assert_eq!(house.found("needle"), ["n.md"]);
        house.stop();
    }
    assert_eq!(house.head_paths(), [b"n.md"]);
}

#[test]
fn the_mount_serves_while_notes_change_g07() {
    if !has_fuse("the_mount_serves_while_notes_change_g07") {
        return;
    }
    let house = with_notes();
    let before = fs::metadata(&house.mount).unwrap().ino();
    std::thread::scope(|scope| {
        for reader in 0..8 {
            let house = &house;
            scope.spawn(move || {
                for at in 0..30 {
                    house.cat(&format!("search/bicycle {reader} {at}"));
                    fs::read_dir(&house.mount).unwrap().for_each(drop);
                    fs::metadata(house.mount.join("status.md")).unwrap();
                }
            });
        }
        for at in 0..20 {
            house.write(format!("n{at}.md"), format!("bicycle {at}\n"));
        }
    });
    house.settle_and_check();
    assert_eq!(fs::metadata(&house.mount).unwrap().ino(), before);
}

#[test]
fn a_mount_that_somebody_takes_away_is_told_and_comes_back() {
    let house = with_notes();
    // Lazily, while somebody stands in it, its server goes on.
    let unmounts = [
        "umount $M || fusermount3 -u $M",
        "(cd $M; exec sleep 600) >/dev/null 2>&1 & umount -l $M || fusermount3 -uz $M; echo $!",
    ];
    for unmount in unmounts {
        let (code, sleeper) = shell(&house, unmount);
        assert_eq!(code, 0, "{sleeper}");
        let status = house.status();
        assert_eq!(status["mount"]["state"], "failed", "{status}");
        assert_eq!(status["verdict"], "degraded");
        wait_for("the mount to come back", || house.status()["mount"]["state"] == "mounted");
        assert!(house.cat("status.md").contains("mounted"));
        assert_eq!(house.status()["verdict"], "ok");
        shell(&house, &format!("kill {sleeper}"));
    }
}
