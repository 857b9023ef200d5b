//! Field cases G01 and G03: where the mount may be, and what a crash leaves.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use super::House;
use super::fake::{Fake, mount, require_or_tell};
use crate::mount::answers::Answers;
use crate::mount::mountpoint;
use crate::mount::session::{MountError, check_device};

const CHILD: &str = "REMD_TEST_MOUNT_CHILD";

/// Serves until killed; run by the tests below in a process of its own.
#[test]
fn child() {
    let Some(place) = std::env::var_os(CHILD) else { return };
    let place = Path::new(&place);
    let vault = place.with_extension("");
    let mut fake = Fake::new(vault);
    // For measuring: how long each search takes.
    if let Some(micros) = std::env::var("REMD_TEST_TOOK").ok().and_then(|it| it.parse().ok()) {
        fake.took = std::time::Duration::from_micros(micros);
    }
    let _mounted = mount(Arc::new(fake), place).unwrap();
    println!("\nmounted");
    loop {
        std::thread::park();
    }
}

fn serve_elsewhere(place: &Path) -> Child {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "mount::tests::healing::child", "--nocapture"])
        .env(CHILD, place)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.map_while(Result::ok).any(|it| it == "mounted"), "the child did not mount");
    child
}

/// Takes down whatever a failed test left at a place.
struct Cleared<'a>(&'a Path);

impl Drop for Cleared<'_> {
    fn drop(&mut self) {
        while mountpoint::device_at(self.0).is_some() && mountpoint::detach(self.0).is_ok() {}
    }
}

fn vault(dir: &tempfile::TempDir) -> std::path::PathBuf {
    let vault = dir.path().canonicalize().unwrap().join("vault");
    std::fs::create_dir(&vault).unwrap();
    vault
}

fn usable() -> bool {
    check_device().inspect_err(require_or_tell).is_ok()
}

#[test]
fn a_mount_left_by_a_killed_agent_is_cleared() {
    if !usable() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let vault = vault(&dir);
    let place = mountpoint::default_mountpoint(&vault);
    let _cleared = Cleared(&place);
    for round in 0..3 {
        let mut child = serve_elsewhere(&place);
        // Somebody stands in it, as shells do.
        let mut inside = Command::new("sleep").arg("600").current_dir(&place).spawn().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        let dead = std::fs::metadata(&place).unwrap_err();
        assert_eq!(dead.raw_os_error(), Some(libc::ENOTCONN), "{round}");
        let fake: Arc<dyn Answers> = Arc::new(Fake::new(vault.clone()));
        let mounted = mount(fake, &place).unwrap();
        assert!(std::fs::read_to_string(place.join("search/q")).unwrap().contains("needle"));
        mounted.stop().unwrap();
        inside.kill().unwrap();
        inside.wait().unwrap();
        assert!(!place.exists(), "the killed run made it, so it goes");
    }
}

#[test]
fn a_live_mount_is_left_alone() {
    if !usable() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let vault = vault(&dir);
    let place = mountpoint::default_mountpoint(&vault);
    let _cleared = Cleared(&place);
    let mut child = serve_elsewhere(&place);
    let refused = mount(Arc::new(Fake::new(vault)), &place).map(|_| ()).unwrap_err();
    assert!(matches!(refused, MountError::Serving { .. }), "{refused}");
    assert!(refused.hint().unwrap().contains("fusermount3 -uz"));
    assert!(std::fs::read_to_string(place.join("README.md")).is_ok());
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_foreign_mount_is_left_alone() {
    if !usable() || mountpoint::user() != 0 {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let vault = vault(&dir);
    let place = mountpoint::default_mountpoint(&vault);
    std::fs::create_dir(&place).unwrap();
    let sh = |line: &str| {
        let done = Command::new("sh").args(["-c", line]).arg("sh").arg(&place).output().unwrap();
        assert!(done.status.success(), "{line}: {done:?}");
    };
    // The source of the mount tries to look like ours.
    sh("mount -t tmpfs remd \"$1\" && touch \"$1/kept\"");
    let refused = mount(Arc::new(Fake::new(vault)), &place).map(|_| ());
    let kept = place.join("kept").exists();
    sh("umount \"$1\"");
    assert!(matches!(refused, Err(MountError::Foreign { .. })), "{refused:?}");
    assert!(kept);
}

#[test]
fn a_folder_that_holds_anything_is_refused_and_kept() {
    if !usable() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let vault = vault(&dir);
    let place = mountpoint::default_mountpoint(&vault);
    std::fs::create_dir(&place).unwrap();
    std::fs::write(place.join("mine"), "mine").unwrap();
    let fake: Arc<dyn Answers> = Arc::new(Fake::new(vault));
    let refused = mount(Arc::clone(&fake), &place).map(|_| ()).unwrap_err();
    assert!(matches!(refused, MountError::NotEmpty { .. }), "{refused}");
    assert_eq!(std::fs::read_to_string(place.join("mine")).unwrap(), "mine");
    let file = place.join("mine");
    let refused = mount(fake, &file).map(|_| ()).unwrap_err();
    assert!(matches!(refused, MountError::NotFolder { .. }), "{refused}");
}

#[test]
fn the_folder_goes_with_the_mount_only_if_it_was_made_for_it() {
    let Some(mut house) = House::open() else { return };
    house.mounted.take().unwrap().stop().unwrap();
    assert!(!house.mount.exists());
    std::fs::create_dir(&house.mount).unwrap();
    let fake = Arc::clone(&house.fake) as Arc<dyn Answers>;
    let mounted = mount(Arc::clone(&fake), &house.mount).unwrap();
    // Stopped while somebody stands in it: detached, not left behind.
    let mut inside = Command::new("sleep").arg("600").current_dir(&house.mount).spawn().unwrap();
    mounted.stop().unwrap();
    inside.kill().unwrap();
    inside.wait().unwrap();
    assert!(house.mount.is_dir() && mountpoint::device_at(&house.mount).is_none());
    // Unmounted by somebody else: noticed, and stopping is no error.
    let mounted = mount(fake, &house.mount).unwrap();
    mountpoint::detach(&house.mount).unwrap();
    let end = std::time::Instant::now() + std::time::Duration::from_secs(20);
    while mounted.is_serving() {
        assert!(std::time::Instant::now() < end);
        std::thread::yield_now();
    }
    mounted.stop().unwrap();
}

/// Field case G03.
#[test]
fn the_mount_is_never_in_the_vault_nor_around_it() {
    if !usable() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let vault = vault(&dir);
    let root = vault.parent().unwrap();
    std::fs::create_dir(vault.join("Search")).unwrap();
    let link = |target: &Path, name: &str| {
        std::os::unix::fs::symlink(target, root.join(name)).unwrap();
        root.join(name)
    };
    let into = link(&vault.join("Search"), "into");
    let dangling = link(&vault.join("later"), "dangling");
    let alias = link(&vault, "alias");
    let fake: Arc<dyn Answers> = Arc::new(Fake::new(vault.clone()));
    for place in [
        vault.clone(),
        vault.join(".search"),
        vault.join("Search"),
        vault.join("deep/er/still"),
        alias.join("Search"),
        alias.join("new"),
        into,
        dangling,
        vault.join("../vault/x"),
    ] {
        let refused = mount(Arc::clone(&fake), &place).map(|_| ()).unwrap_err();
        assert!(
            matches!(refused, MountError::InsideVault { .. }),
            "{}: {refused}",
            place.display()
        );
    }
    for place in [root.to_owned(), Path::new("/").to_owned()] {
        let refused = mount(Arc::clone(&fake), &place).map(|_| ()).unwrap_err();
        assert!(
            matches!(refused, MountError::VaultInside { .. }),
            "{}: {refused}",
            place.display()
        );
    }
    assert_eq!(std::fs::read_dir(&vault).unwrap().count(), 1, "nothing was made in the vault");
    // The other way round: a vault that is a symlink, its mount beside it.
    let fake: Arc<dyn Answers> = Arc::new(Fake::new(alias));
    let refused = mount(fake, &vault.join("x")).map(|_| ()).unwrap_err();
    assert!(matches!(refused, MountError::InsideVault { .. }), "{refused}");
}

/// A bind mount gives one folder two paths.
#[test]
fn a_second_path_to_the_vault_is_the_vault() {
    if !usable() || mountpoint::user() != 0 {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let vault = vault(&dir);
    let bound = vault.with_extension("bound");
    std::fs::create_dir(&bound).unwrap();
    std::fs::create_dir(vault.join("in")).unwrap();
    let run = |program: &str, args: &[&std::ffi::OsStr]| {
        assert!(Command::new(program).args(args).status().unwrap().success());
    };
    run("mount", &["--bind".as_ref(), vault.as_ref(), bound.as_ref()]);
    let refused = mount(Arc::new(Fake::new(vault)), &bound.join("in")).map(|_| ());
    run("umount", &[bound.as_ref()]);
    assert!(matches!(refused, Err(MountError::InsideVault { .. })), "{refused:?}");
}
