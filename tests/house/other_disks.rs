//! Vaults on disks that lack what a Unix disk has: hard links, symlinks, permission bits, and names
//! that differ in case only (exFAT, as on a stick).

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

use crate::adopt::{git, house};
use crate::house::{House, has_fuse};
use crate::users::is_root;

const TEST: &str = "a_vault_on_a_stick_is_adopted_committed_and_follows_its_names";

/// An exFAT file system in a file; unmounted and given back when dropped.
struct ExFat {
    at: PathBuf,
    device: String,
}

fn run(program: &str, args: &[&str]) -> String {
    let output = output(program, args);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {args:?}: {said}");
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

fn output(program: &str, args: &[&str]) -> Output {
    Command::new(program)
        .args(args)
        .env("PATH", format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap_or_default()))
        .output()
        .unwrap_or_else(|err| panic!("{program}: {err}; apt-get install exfat-fuse exfatprogs"))
}

impl ExFat {
    /// `None` where the kernel gives nobody a loop device, as in some containers.
    fn mount(house: &House, at: PathBuf) -> Option<Self> {
        let image = house.root().join("disk.img");
        fs::File::create(&image).unwrap().set_len(64 << 20).unwrap();
        run("mkfs.exfat", &[image.to_str().unwrap()]);
        fs::create_dir(&at).unwrap();
        let made = output("losetup", &["-f", "--show", image.to_str().unwrap()]);
        if !made.status.success() {
            let why = String::from_utf8_lossy(&made.stderr);
            let line = format!("left out, it needs a loop device: {TEST}: {why}");
            std::io::Write::write_all(&mut std::io::stderr(), line.as_bytes()).unwrap();
            return None;
        }
        let device = String::from_utf8_lossy(&made.stdout).trim().to_owned();
        let disk = Self { at, device };
        run("mount.exfat-fuse", &[&disk.device, disk.at.to_str().unwrap()]);
        Some(disk)
    }
}

impl Drop for ExFat {
    fn drop(&mut self) {
        // A test that failed must not leave it behind; the first failure counts.
        for (program, args) in [
            ("umount", vec!["-l", self.at.to_str().unwrap()]),
            ("losetup", vec!["-d", &self.device]),
        ] {
            let _undone = Command::new(program).args(args).output();
        }
    }
}

#[test]
fn a_vault_on_a_stick_is_adopted_committed_and_follows_its_names() {
    if !has_fuse(TEST) || !is_root(TEST) {
        return;
    }
    let mut house = house();
    let Some(disk) = ExFat::mount(&house, house.root().join("stick")) else { return };
    house.vault = disk.at.join("notes");
    fs::create_dir(&house.vault).unwrap();
    let refused = fs::hard_link(house.root().join("disk.img"), disk.at.join("x"));
    assert!(refused.is_err() && std::os::unix::fs::symlink("a", disk.at.join("y")).is_err());
    for at in 0..300 {
        house.write(format!("many/{at}.md"), format!("alfa {at}\n"));
    }
    house.write("one.md", "bravo\n");
    house.start();
    house.settle_and_check();
    assert_eq!((house.head_paths().len(), house.found("bravo")), (301, vec!["one.md".to_owned()]));
    assert_eq!(house.status()["verdict"], "ok", "{}", house.run(["status"]).stdout);
    house.write("one.md", "charlie\n");
    house.settle_and_check();
    assert_eq!(house.in_head("one.md"), b"charlie\n");

    // A name in another case is another name to Git, and the old one goes with the same commit.
    fs::rename(house.at("one.md"), house.at("One.md")).unwrap();
    house.settle_and_check();
    assert_eq!(house.git(["ls-tree", "--name-only", "HEAD"]), "One.md\nmany");
    assert_eq!(house.found("charlie"), ["One.md"]);
    fs::rename(house.at("many"), house.at("Many")).unwrap();
    house.settle_and_check();
    assert_eq!(house.git(["ls-tree", "--name-only", "HEAD"]), "Many\nOne.md");
    assert_eq!(house.head_paths().len(), 301);
    assert_eq!(house.status()["verdict"], "ok", "{}", house.run(["status"]).stdout);

    // Two notes that only another disk can tell apart: the one that is not here stays in Git.
    house.stop();
    let blob = house.git(["rev-parse", "HEAD:One.md"]);
    let entry = format!("100644,{blob},one.md");
    house.git(["-c", "core.ignoreCase=false", "update-index", "--add", "--cacheinfo", &entry]);
    house.git(["-c", "core.ignoreCase=false", "commit", "-q", "-m", "a twin"]);
    house.start();
    house.write("One.md", "delta\n");
    house.settle();
    assert_eq!(house.git(["ls-tree", "--name-only", "HEAD"]), "Many\nOne.md\none.md");
    assert_eq!(house.in_head("One.md"), b"delta\n");
    assert_eq!(house.in_head("one.md"), b"charlie\n");
    let said = house.run(["status"]).stdout;
    assert!(said.contains("not to be told from another note by this disk"), "{said}");

    // What a kill leaves is put right here too, without hard links to know a lock by.
    house.stop();
    house.git(["-c", "core.ignoreCase=false", "rm", "-q", "--cached", "one.md"]);
    house.git(["-c", "core.ignoreCase=false", "commit", "-q", "-m", "no twin"]);
    for point in ["committer.before_ref", "committer.in_ref", "committer.before_index"] {
        house.env("REMD_FAULT", point);
        house.spawn();
        crate::house::wait_for("the agent to answer", || house.is_running());
        house.write("One.md", point);
        house.wait_for_end();
        house.env("REMD_FAULT", "");
        house.start();
        house.settle_and_check();
        assert_eq!(house.in_head("One.md"), point.as_bytes());
        house.stop();
    }
    git(&house, &house.vault, &["fsck", "--strict"]);
}
