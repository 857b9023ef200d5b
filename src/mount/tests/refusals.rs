//! What can't be done is refused with an errno that fits.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;

use super::House;

#[test]
fn what_cannot_be_answered_has_its_errno() {
    let Some(house) = House::open() else { return };
    for (path, errno) in [
        ("search/.git", libc::ENOENT),
        ("search/limit=0/q", libc::EINVAL),
        ("search/limit=lots", libc::EINVAL),
        ("search/since=soon/q", libc::EINVAL),
        ("search/refused", libc::EINVAL),
        ("search/broken", libc::EIO),
        ("search/later", libc::EAGAIN),
        ("search/panic", libc::EIO),
        ("search/q/more", libc::ENOTDIR),
        ("search", libc::EISDIR),
        ("search/limit=3", libc::EISDIR),
        ("none", libc::ENOENT),
        ("at", libc::EISDIR),
        ("at/none", libc::ENOENT),
    ] {
        assert_eq!(house.errno(path), errno, "{path}");
    }
    assert_eq!(house.errno(format!("search/{}", "x".repeat(1025))), libc::ENAMETOOLONG);
    assert!(house.read(&format!("search/{}", "x".repeat(1024))).contains("hits as of"));
    let bytes = OsStr::from_bytes(b"search/bad\xff");
    assert_eq!(house.errno(bytes), libc::EILSEQ);
    // The next one is answered: nothing above took a thread with it.
    assert!(house.read("search/q").contains("needle"));
    assert!(house.read("search/nothing").starts_with("No hits.\n-- 0 hits"));
}

/// Field cases F01, F03, A09: any text is a question.
#[test]
fn any_text_is_a_question() {
    let Some(house) = House::open() else { return };
    for text in [
        "- *",
        "-*",
        "+ *",
        "* ",
        "NOT *",
        "why?",
        "50%",
        "a=b",
        "C++",
        "\"",
        ">>>",
        " ",
        "~",
        "$(id)",
        "a\nb",
        "`id`",
        "e:\\dir",
        "日記 🔥",
        "-n",
        "--help",
    ] {
        assert!(house.read(&format!("search/{text}")).contains("hits as of"), "{text:?}");
    }
    for unit in ["─", "日", "👨‍👩‍👧", "é"] {
        for shift in 0..3 {
            let text = format!("{}{}", "k".repeat(shift), unit.repeat(50));
            assert!(house.read(&format!("search/{text}.md")).starts_with(&format!("# {text}\n")));
            house.fake.notes.lock().unwrap().values_mut().for_each(|it| *it = text.repeat(9));
            house.fake.say("moved");
            assert!(house.says(&format!("ls links/{text} | wc -l")).starts_with('4'));
        }
    }
}

/// Field case G10: nothing is written, and tools end.
#[test]
fn writes_are_refused_and_tools_end() {
    let Some(house) = House::open() else { return };
    house.read("search/q");
    std::fs::write(house.dir.path().join("x"), "x").unwrap();
    std::fs::create_dir(house.dir.path().join("empty")).unwrap();
    let before = (house.says("ls -AR"), house.says("find \"$OUT\"/vault | sort"));
    for line in [
        "touch new",
        "touch search/q",
        "echo x > search/q",
        "echo x >> README.md",
        "echo x > new",
        "cp $OUT/x .",
        "cp $OUT/x search/",
        "mkdir new",
        "mkdir search/limit=3",
        "mkdir search/new",
        "ln -s x new",
        "ln README.md new",
        "ln -s x search/.new",
        "rm -rf README.md search/q",
        "rm -rf ./*",
        "mv README.md search/z",
        "mv $OUT/x search/z",
        "chmod -R u+w .",
        "truncate -s 0 search/q",
        "truncate -s 0 README.md",
        "mkfifo new",
        "rmdir search",
        "rmdir search/limit=3",
        "mv search nodes/",
        "sed -i s/a/b/ README.md",
        "cp README.md new",
        "chown 1 README.md",
        "touch -d yesterday README.md",
        "dd if=/dev/zero of=search/q count=1",
        "touch note/memory/a.md/links",
        "touch note/new.md",
        "mkdir note/new",
        "touch links/q/01-x.md",
    ] {
        let output = house.sh(line);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success(), "{line} succeeded");
        assert_ne!(output.status.code(), Some(124), "{line} hangs");
        assert!(
            said.contains("Read-only file system") || said.contains("File exists")
                // rmdir of what cannot be told from a folder in use, rename onto a file.
                || said.contains("cannot move") || said.contains("cannot overwrite"),
            "{line}: {said}"
        );
    }
    if house.sh("command -v rsync").status.success() {
        assert!(!house.sh("rsync -a --delete $OUT/empty/ .").status.success());
    }
    if house.sh("command -v setfattr").status.success() {
        assert!(!house.sh("setfattr -n user.x -v y README.md").status.success());
    }
    assert_eq!((house.says("ls -AR"), house.says("find \"$OUT\"/vault | sort")), before);
    assert!(house.read("search/q").contains("needle"));
}
