//! The past, mounted: a moment's tree is a commit's, whatever its name means later.

use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::sync::atomic::Ordering;

use super::House;

#[test]
fn a_moment_shows_files_sizes_links_and_programs() {
    let Some(house) = House::open() else { return };
    assert_eq!(
        house.says("ls -A at at/main at/main/d | tr '\\n' ' '"),
        "at:  at/main: .hidden a.md d  at/main/d: b.md in out run.sh "
    );
    assert_eq!(house.read("at/feature%2Fx/a.md"), "as it was\n");
    assert_eq!(house.read("at/main/d/in"), "as it was\n", "through the link, in the same tree");
    assert_eq!(house.says("readlink at/main/d/in").trim(), "../a.md");
    // It would lead out of the tree: a file that says so.
    assert!(house.path("at/main/d/out").symlink_metadata().unwrap().is_file());
    assert_eq!(house.read("at/main/d/out"), "../../a.md");
    let program = std::fs::metadata(house.path("at/main/d/run.sh")).unwrap();
    assert_eq!((program.permissions().mode() & 0o777, program.len()), (0o555, 10));
    assert_eq!(program.mtime(), 1_000_000);
    assert_eq!(std::fs::metadata(house.path("at/first")).unwrap().mtime(), 1000);
    for absent in
        ["at/none", "at/main/none", "at/main/d/.git", "at/.Trash", "at/main/a.md.versions"]
    {
        assert_eq!(house.errno(absent), libc::ENOENT, "{absent}");
    }
    assert_eq!(house.errno("at/broken/a.md"), libc::EIO);
    assert_eq!(house.errno("at/main/a.md/below"), libc::ENOTDIR);
}

#[test]
fn a_listing_reads_no_file_and_a_size_no_bytes() {
    let Some(house) = House::open() else { return };
    let read = || house.fake.blobs_read.load(Ordering::SeqCst);
    house.says("find at/main > /dev/null; ls -U at/main/d > /dev/null; ls -l at/main > /dev/null");
    assert_eq!(read(), 0);
    let folders = house.fake.folders_read.load(Ordering::SeqCst);
    house.says("for i in 1 2 3; do ls -l at/main at/main/d > /dev/null; done; stat at/main/.Trash at/main/d/desktop.ini > /dev/null 2>&1; true");
    assert_eq!(house.fake.folders_read.load(Ordering::SeqCst), folders, "once is enough");
    house.says("cat at/main/a.md > /dev/null");
    assert_eq!(read(), 1);
}

#[test]
fn a_name_moves_on_and_what_is_open_does_not() {
    let Some(house) = House::open() else { return };
    let number = |path: &str| std::fs::metadata(house.path(path)).unwrap().ino();
    let (folder, file) = (number("at/HEAD"), number("at/HEAD/a.md"));
    assert_eq!((number("at/HEAD"), number("at/HEAD/a.md")), (folder, file));
    // Two names of one commit: a folder has one name, a file may have many.
    assert_ne!(number("at/main"), folder);
    assert_eq!(number("at/main/a.md"), file);
    let script = "cd at/HEAD/d; before=$(stat -c %i ../a.md); echo ready; read -r; \
                  [ $(stat -c %i ../a.md) = $before ] && ls && cat b.md";
    let mut child = std::process::Command::new("timeout")
        .args(["60", "bash", "-c", script])
        .current_dir(&house.mount)
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut out = std::io::BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    std::io::BufRead::read_line(&mut out, &mut line).unwrap();
    *house.fake.head.lock().unwrap() = 1;
    assert_ne!(number("at/HEAD"), folder);
    assert_ne!(number("at/HEAD/a.md"), file);
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), b"go\n").unwrap();
    let rest = std::io::read_to_string(out).unwrap();
    assert_eq!(rest, "b.md\nin\nout\nrun.sh\nb\n", "who stands in it stays in its commit");
    assert!(child.wait().unwrap().success());
}

#[test]
fn versions_are_listed_and_what_is_gone_can_be_named() {
    let Some(house) = House::open() else { return };
    assert_eq!(
        house.says("ls history/d | tr '\\n' ' '"),
        "b.md.versions in.versions out.versions run.sh.versions "
    );
    // The newest comes first where the order is kept.
    assert_eq!(
        house.says("ls -U history/d/b.md.versions"),
        "2-2026-06-02-0000000.md\n1-2026-06-01-0000000.md\n"
    );
    assert_eq!(house.read("history/a.md.versions/1-2026-06-01-0000000.md"), "a version\n");
    assert_eq!(house.says("ls history/gone"), "");
    assert_eq!(house.says("ls history/gone/old.md.versions | wc -l").trim(), "2");
    for absent in [
        "history/none",
        "history/none.md.versions",
        "history/.Trash",
        "history/d/b.md",
        "history/a.md.versions/3-x.md",
    ] {
        assert_eq!(house.errno(absent), libc::ENOENT, "{absent}");
    }
}
