//! Programs that nobody sent: indexers, backups, editors, file managers, Git. They walk, probe and
//! try to write; none of it starts a search, changes a note or hangs.

use std::fs;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::house::{House, has_fuse, wait_for};

/// A shell line with a limit; gives its status and what it said.
fn shell(house: &House, line: &str) -> (i32, String) {
    let root = house.vault.parent().unwrap();
    let output = Command::new("timeout")
        .args(["-k", "1", "60", "bash", "-uc", line])
        .envs([("M", &house.mount), ("V", &house.vault)])
        .env("T", root.join("scratch"))
        .env("HOME", root.join("home"))
        .env("LC_ALL", "C.UTF-8")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .current_dir(&house.mount)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status.code().unwrap_or(-1), String::from_utf8_lossy(&text).into_owned())
}

/// How many searches the mount has started.
fn questions(house: &House) -> u64 {
    house.status()["mount"]["questions"].as_u64().unwrap()
}

fn with_notes() -> House {
    let house = House::open();
    house.write("digest/wiki/bicycle.md", "---\nname: Bicycle\n---\nA bicycle. [[commute]]\n");
    house.write("memory/2026-07-23/commute.md", "# Commute\n\nBy bicycle.\n");
    house.write("memory/tide.md", "The tide tables came by post.\n");
    fs::create_dir(house.vault.parent().unwrap().join("scratch")).unwrap();
    house.settle_and_check();
    wait_for("the mount", || house.status()["mount"]["state"] == "mounted");
    house
}

fn needs(program: &str, package: &str) {
    let found = Command::new("sh").args(["-c", "command -v \"$0\"", program]).output().unwrap();
    assert!(found.status.success(), "`{program}` is needed: sudo apt install {package}");
}

/// Field case G05: every walker that comes by itself.
#[test]
fn walkers_of_every_kind_start_no_search_g05() {
    if !has_fuse("walkers_of_every_kind_start_no_search_g05") {
        return;
    }
    for (program, package) in [
        ("updatedb", "plocate"),
        ("rsync", "rsync"),
        ("rg", "ripgrep"),
        ("file", "file"),
        ("xxd", "xxd"),
        ("gio", "libglib2.0-bin"),
        ("vim", "vim-tiny"),
        ("getfattr", "attr"),
    ] {
        // Debian's small vim is called `vi` only.
        needs(if program == "vim" { "vi" } else { program }, package);
    }
    let house = with_notes();
    // Asked before, so that there is something to walk.
    house.cat("search/bicycle");
    house.cat("search/tide.json");
    house.cat("search/limit=1/in=memory/tide");
    let asked = questions(&house);
    assert_eq!(asked, 3);
    for (line, wanted) in [
        (
            "updatedb -l no -U $M --prunefs '' --prunepaths '' -o $T/db && plocate -d $T/db -c memory.fs",
            0,
        ),
        ("find . -ls > $T/found && find . -xdev -name 'b*' -newer README.md", 0),
        ("grep -rIn zzzz . ; rg -uuu zzzz . ; rg --files .", 0),
        ("du -sh . ; du -a --apparent-size . ; ls -laRi . ; tree . 2>/dev/null; true", 0),
        ("for i in $(seq 20); do ls -la $M $M/search > $T/listed; done", 0),
        ("tar -C $M -cf $T/all.tar . && tar -tf $T/all.tar | grep -q README.md", 0),
        ("mkdir -p $T/x && tar -C $T/x -xf $T/all.tar && cmp $T/x/README.md README.md", 0),
        ("rsync -a $M/ $T/copy/ && rsync -an --checksum --delete $M/search/ $T/copy/search/", 0),
        ("cp -a . $T/copied && cmp README.md $T/copied/README.md", 0),
        ("find . -type f -print0 | xargs -0 file; find . -type f -exec xxd -l 16 {} ';'", 0),
        ("getfattr -R -d -m - . 2>$T/attributes; true", 0),
        // A file manager, by the library that most of them use.
        ("gio list -h -a 'standard::*,access::*,thumbnail::*' . && gio info . && gio tree .", 0),
        ("gio list search && gio info README.md && gio cat status.md > $T/seen", 0),
        ("gio info -f . ; gio mount -l > $T/mounts; true", 0),
        // Git, here, in a folder of questions, and around it.
        ("git -C $M status; git -C $M/search status; git -C $M/links log; true", 0),
        (
            "git init -q $T/../around && ln -s $M $T/../around/m && git -C $T/../around status --porcelain",
            0,
        ),
        // Completion of a shell.
        ("compgen -f $M/search/que; compgen -f $M/search/; compgen -d $M/; true", 0),
        // What desktops, editors and tools look for.
        (
            "for f in . search nodes links note; do for n in .Trash .Trash-1000 .hidden .git .gitignore \
             .directory .DS_Store ._x .obsidian .vscode .editorconfig .envrc .nomedia .nobackup HEAD \
             package.json node_modules tsconfig.json CACHEDIR.TAG autorun.inf desktop.ini Thumbs.db \
             '#x#' lost+found; do [ -e $f/$n ] && { echo \"$f/$n is there\"; exit 1; }; done; done; true",
            0,
        ),
        // An editor opens a page, with its swap file and all it looks for.
        ("vi -es -u NONE -c q README.md < /dev/null; true", 0),
    ] {
        let (code, said) = shell(&house, line);
        assert_eq!(code, wanted, "{line}: {said}");
        assert_eq!(questions(&house), asked, "{line} asked something: {said}");
    }
    // A real question costs one search, however many ask it, and is kept.
    shell(&house, "for i in $(seq 30); do cat search/new > $T/out & done; wait; cat search/new");
    assert_eq!(questions(&house), asked + 1);
    // After an edit the answers are new ones; walking still asks nothing.
    house.write("memory/tide.md", "The tide tables never came.\n");
    house.settle_and_check();
    let (_, said) = shell(&house, "grep -r tide . ; find . | wc -l; ls search");
    assert_eq!(questions(&house), asked + 1, "{said}");
    assert!(house.run(["status"]).stdout.contains("4 questions asked"));
}

/// Tools that are told to stay on one file system stay out of the mount.
#[test]
fn one_file_system_means_without_the_mount() {
    if !has_fuse("one_file_system_means_without_the_mount") {
        return;
    }
    let house = with_notes();
    let (code, said) = shell(
        &house,
        "cd $V/.. && tar --one-file-system --exclude=./home --exclude=./run --exclude=./agent.log \
         --exclude=./scratch --exclude=./memory/mem_metadata -cf $T/one.tar . && tar -tf $T/one.tar \
         | grep memory.fs/.; rsync -ax --exclude=scratch --exclude=mem_metadata ./ $T/one/; \
         find $T/one/memory.fs | wc -l",
    );
    assert_eq!(code, 0, "{said}");
    let lines: Vec<_> = said.lines().filter(|it| !it.starts_with("tar: ")).collect();
    assert_eq!(lines, ["1"], "the empty folder at most: {said}");
    assert_eq!(questions(&house), 0);
}

/// Obsidian, VS Code and their like: list, stat, probe, and watch what they can.
#[test]
fn watchers_are_granted_and_hear_nothing() {
    if !has_fuse("watchers_are_granted_and_hear_nothing") {
        return;
    }
    let house = with_notes();
    // SAFETY: inotify_init1(2) takes flags and gives a descriptor of ours.
    let watch = unsafe {
        let fd = libc::inotify_init1(libc::IN_NONBLOCK | libc::IN_CLOEXEC);
        assert!(fd >= 0);
        OwnedFd::from_raw_fd(fd)
    };
    let mask = libc::IN_CREATE
        | libc::IN_DELETE
        | libc::IN_MODIFY
        | libc::IN_MOVE
        | libc::IN_ATTRIB
        | libc::IN_CLOSE_WRITE
        | libc::IN_DELETE_SELF;
    let mut folders = vec![house.mount.clone()];
    let mut watched = 0;
    while let Some(folder) = folders.pop() {
        let name = std::ffi::CString::new(folder.as_os_str().as_bytes()).unwrap();
        // SAFETY: the name ends in NUL and lives for the whole call.
        let added = unsafe { libc::inotify_add_watch(watch.as_raw_fd(), name.as_ptr(), mask) };
        assert!(added >= 0, "{}", folder.display());
        watched += 1;
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if fs::symlink_metadata(&path).unwrap().is_dir() {
                for probe in [".git", ".obsidian", ".vscode", "package.json", "node_modules"] {
                    assert!(!path.join(probe).exists());
                }
                folders.push(path);
            }
        }
    }
    assert_eq!(watched, 10);
    assert_eq!(questions(&house), 0);
    house.write("memory/tide.md", "Another tide.\n");
    house.settle_and_check();
    assert!(house.cat("search/tide").contains("Another tide."));
    let mut heard = [0u8; 4096];
    // SAFETY: the buffer is ours and as long as we say.
    let length = unsafe { libc::read(watch.as_raw_fd(), heard.as_mut_ptr().cast(), heard.len()) };
    assert_eq!(length, -1, "the kernel tells nothing: the answers change by themselves");
}

/// Field case G10: whatever writes is refused, ends, and no note is touched.
#[test]
fn tools_that_write_end_and_change_nothing_g10() {
    if !has_fuse("tools_that_write_end_and_change_nothing_g10") {
        return;
    }
    needs("rsync", "rsync");
    needs("vi", "vim-tiny");
    let house = with_notes();
    house.cat("search/bicycle");
    let head = house.git(["rev-parse", "HEAD"]);
    let listing = shell(
        &house,
        "ls -AlR $M | grep -v status; cd $V && find . -not -path './.git*' -not -path './mem_metadata*' -type f -exec sha256sum {} + | sort",
    );
    for line in [
        "touch $M/x",
        "touch $M/search/x",
        "vi -es -u NONE -c 'normal ix' -c 'wq' $M/README.md < /dev/null",
        "vi -es -u NONE -c 'normal ix' -c 'wq!' $M/search/bicycle < /dev/null",
        "cp /etc/hostname $M/",
        "cp /etc/hostname $M/search/bicycle",
        "rm -rf $M/*",
        "rm -rf $M",
        "mkdir $T/empty; rsync -a --delete $T/empty/ $M/",
        "rsync -a $V/memory/ $M/memory/",
        "rsync -a --inplace $V/memory/tide.md $M/search/tide",
        "chmod -R u+w $M",
        "chown -R 1:1 $M",
        "truncate -s 0 $M/README.md",
        "mkdir $M/d",
        "mkdir -p $M/search/limit=3/d",
        "ln -s a $M/l",
        "mv $V/memory/tide.md $M/search/tide",
        "mv $M/search/bicycle $V/memory/",
        "mv $M/links/bicycle/01-Bicycle.md $T/",
        "git -C $M init",
        "git -C $M clean -fdx",
        "sed -i s/a/b/ $M/README.md",
        "tar -C $M -xf <(tar -C $V -c memory)",
        "dd if=/dev/zero of=$M/status.md count=1",
        "fallocate -l 1M $M/README.md",
        "find $M -delete",
        "patch $M/README.md < /dev/null; printf x | tee $M/README.md",
    ] {
        let (code, said) = shell(&house, line);
        assert_ne!(code, 0, "{line} went through: {said}");
        assert!(code != 124 && code != 137, "{line} hung: {said}");
    }
    // What moved out of the mount was a copy at most.
    let _copy = fs::remove_file(house.at("memory/bicycle"));
    house.settle_and_check();
    assert_eq!(house.git(["diff", "--stat", &head, "HEAD"]), "");
    let after = shell(
        &house,
        "ls -AlR $M | grep -v status; cd $V && find . -not -path './.git*' -not -path './mem_metadata*' -type f -exec sha256sum {} + | sort",
    );
    assert_eq!(notes_of(&after.1), notes_of(&listing.1));
    assert!(house.cat("search/bicycle").contains("A bicycle."));
}

/// The checksums of the notes and the names of the root, without times.
fn notes_of(text: &str) -> Vec<&str> {
    text.lines()
        .filter(|it| it.contains("  ./") || it.starts_with("dr-x"))
        .map(|it| if it.starts_with("dr-x") { it.rsplit(' ').next().unwrap_or(it) } else { it })
        .collect()
}

/// Field case G03: the vault leads to the mount; nobody here goes after it.
#[test]
fn a_vault_that_leads_to_its_mount_is_no_loop_g03() {
    if !has_fuse("a_vault_that_leads_to_its_mount_is_no_loop_g03") {
        return;
    }
    let mut house = with_notes();
    std::os::unix::fs::symlink(&house.mount, house.at("s")).unwrap();
    house.settle_and_check();
    let tree = house.git(["ls-tree", "HEAD", "s"]);
    assert!(tree.starts_with("120000 blob"), "a link, nothing behind it: {tree}");
    // The mount itself under the vault, as a person may bind it while the agent runs.
    let bound = house.at("bound");
    fs::create_dir(&bound).unwrap();
    let bind = |args: &[&Path]| Command::new("mount").args(args).status().unwrap().success();
    let binds = bind(&["--bind".as_ref(), &house.mount, &bound]);
    for _ in 0..2 {
        house.write("memory/tide.md", format!("The tide is {}.\n", house.commits()));
        house.settle();
        assert_eq!(house.git(["status", "--porcelain", "-z", "--", "memory"]), "");
        assert!(!house.head_paths().iter().any(|it| it.starts_with(b"bound")));
        assert_eq!(house.found("tide"), ["memory/tide.md"]);
        let (code, said) = shell(&house, "tar -C $V --one-file-system -cf $T/backup.tar . ; true");
        assert_eq!(code, 0, "{said}");
        assert_eq!(questions(&house), 0, "nobody looked behind it");
        // From nothing again: a look at everything and an index built anew.
        if binds {
            assert!(Command::new("umount").arg("-l").arg(&bound).status().unwrap().success());
        }
        house.stop();
        fs::remove_dir_all(house.at("mem_metadata")).unwrap();
        house.start();
        house.settle();
        wait_for("the mount", || house.status()["mount"]["state"] == "mounted");
        if binds {
            assert!(bind(&["--bind".as_ref(), &house.mount, &bound]));
        }
        nothing_is_stuck(&house);
    }
    if binds {
        assert!(Command::new("umount").arg("-l").arg(&bound).status().unwrap().success());
    }
}

/// No thread of the agent waits where no signal reaches it.
fn nothing_is_stuck(house: &House) {
    let tasks = format!("/proc/{}/task", house.pid());
    for task in fs::read_dir(&tasks).unwrap() {
        let stat = task.unwrap().path().join("stat");
        // Disk waits are such waits, and pass.
        wait_for("no thread to be stuck", || {
            let text = fs::read_to_string(&stat).unwrap_or_default();
            !text.rsplit(')').next().unwrap_or("").trim_start().starts_with('D')
        });
    }
}
