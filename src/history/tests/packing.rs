//! Loose objects become packs, beside everything else and with nothing lost.

use super::coexist::with_notes;
use super::*;
use crate::base::process::Stop;

/// Contents whose objects lie in the folder that the estimate looks at, by their SHA-1.
const SAMPLES: [&str; 4] =
    ["# Packing 98\n", "# Packing 355\n", "# Packing 522\n", "# Packing 1278\n"];

/// The same by their SHA-256.
const LONG_SAMPLE: &str = "# Packing 59\n";

fn pack(vault: &Vault) -> Result<Packing, PackError> {
    pack_loose(&vault.root, &Stop::default())
}

/// Loose objects, objects in packs, packs.
fn counts(vault: &Vault) -> [usize; 3] {
    let said = vault.git(&["count-objects", "-v"]);
    let number = |name: &str| {
        let line = said.lines().find_map(|it| it.strip_prefix(name)).unwrap();
        line.trim().parse().unwrap()
    };
    [number("count:"), number("in-pack:"), number("packs:")]
}

/// `count` of the samples are notes, and git packs from `most` loose objects on.
fn due(count: usize, most: &str) -> Vault {
    // The name of a commit depends on the second it is of, and one in 256 is counted too.
    for _ in 0..1000 {
        let mut vault = with_notes();
        vault.git(&["config", "gc.auto", most]);
        for (at, text) in SAMPLES.iter().take(count).enumerate() {
            vault.write(format!("sample {at}.md"), text);
            vault.snapshot_all();
        }
        let folder = vault.root.join(".git/objects/17");
        if std::fs::read_dir(folder).map_or(0, Iterator::count) == count {
            return vault;
        }
    }
    panic!("no more than the {count} samples are counted");
}

/// What stands in the objects' folder beside what git puts there.
fn strangers(vault: &Vault) -> Vec<String> {
    let entries = std::fs::read_dir(vault.root.join(".git/objects")).unwrap();
    let names = entries.map(|it| it.unwrap().file_name().into_string().unwrap());
    names.filter(|it| it.len() != 2 && it != "pack" && it != "info").collect()
}

#[test]
fn many_loose_objects_are_packed_and_open_readers_go_on() {
    let mut vault = due(3, "513");
    let reader = vault.reader();
    let head = reader.head().unwrap().unwrap();
    let [loose, packed, packs] = counts(&vault);
    assert!(loose > 9 && packed == 0 && packs == 0);
    assert_eq!(pack(&vault).unwrap(), Packing::Done(loose));
    assert_eq!(counts(&vault), [0, loose, 1]);
    assert_eq!(strangers(&vault), [""; 0]);
    assert_eq!(reader.head().unwrap().unwrap(), head);
    assert_eq!(reader.log(&LogFilter { limit: 100, path: None }).unwrap().len(), 4);
    // The writer goes on, also back to what is packed: 3 × 256 is over the limit no more.
    vault.write("sample 0.md", SAMPLES[1]);
    assert!(vault.snapshot_all().head.is_some());
    vault.write("sample 0.md", SAMPLES[0]);
    assert!(vault.snapshot_all().head.is_some());
    assert_eq!(reader.log(&LogFilter { limit: 100, path: None }).unwrap().len(), 6);
    assert_eq!(pack(&vault).unwrap(), Packing::NotDue);
    vault.assert_clean();
    // A second time: what is packed already is only swept.
    vault.write("sample 9.md", SAMPLES[3]);
    vault.snapshot_all();
    assert!(matches!(pack(&vault).unwrap(), Packing::Done(_)), "three samples are loose again");
    let [loose, _, packs] = counts(&vault);
    assert_eq!((loose, packs), (0, 2));
    vault.assert_clean();
}

#[test]
fn few_objects_and_a_persons_no_leave_them_alone() {
    for (name, value) in [
        ("gc.auto", "0"),
        ("gc.auto", "769"),
        ("maintenance.auto", "false"),
        ("extensions.preciousObjects", "true"),
    ] {
        let vault = due(3, "768");
        let before = counts(&vault);
        if name.starts_with("extensions") {
            vault.git(&["config", "core.repositoryFormatVersion", "1"]);
        }
        vault.git(&["config", name, value]);
        assert_eq!(pack(&vault).unwrap(), Packing::NotDue, "{name}={value}");
        assert_eq!(counts(&vault), before);
        vault.git(&["config", name, if name == "gc.auto" { "768" } else { "" }]);
        if name != "gc.auto" {
            vault.git(&["config", "--unset", name]);
        }
        assert!(matches!(pack(&vault).unwrap(), Packing::Done(_)), "{name} was the reason");
    }
}

#[test]
fn a_persons_operation_or_lock_goes_first() {
    let vault = due(2, "512");
    let before = counts(&vault);
    for name in
        ["MERGE_HEAD", "rebase-merge", "index.lock", "HEAD.lock", "objects/maintenance.lock"]
    {
        let path = vault.root.join(".git").join(name);
        std::fs::write(&path, "").unwrap();
        assert!(matches!(pack(&vault).unwrap(), Packing::Waits(_)), "{name}");
        assert_eq!(counts(&vault), before);
        std::fs::remove_file(&path).unwrap();
    }
    // One that was left behind turns git's own maintenance off for good, not ours.
    let left = vault.root.join(".git/objects/maintenance.lock");
    let two_hours_ago = std::time::SystemTime::now() - std::time::Duration::from_secs(7200);
    std::fs::File::create(&left).unwrap().set_modified(two_hours_ago).unwrap();
    assert!(matches!(pack(&vault).unwrap(), Packing::Done(_)));
    assert!(left.exists(), "and stays where it is");
}

#[test]
fn what_nothing_refers_to_survives() {
    let vault = due(2, "512");
    vault.write("../thought", "once staged, never committed\n");
    let id = vault.git(&["hash-object", "-w", "../thought"]);
    let file = {
        let (fan, name) = id.trim().split_at(2);
        vault.root.join(".git/objects").join(fan).join(name)
    };
    // Far older than what `git gc` keeps.
    let old = std::time::SystemTime::UNIX_EPOCH;
    std::fs::File::open(&file).unwrap().set_modified(old).unwrap();
    assert!(matches!(pack(&vault).unwrap(), Packing::Done(_)));
    assert!(!file.exists(), "packed like the others");
    assert_eq!(vault.git(&["cat-file", "-p", id.trim()]), "once staged, never committed\n");
}

#[test]
fn a_damaged_object_is_named_and_costs_nothing() {
    let mut vault = due(2, "512");
    let before = counts(&vault);
    vault.write("../note", "of which the disk kept nothing\n");
    let id = vault.git(&["hash-object", "-w", "../note"]);
    let (fan, name) = id.trim().split_at(2);
    let file = vault.root.join(".git/objects").join(fan).join(name);
    std::fs::remove_file(&file).unwrap();
    std::fs::write(&file, "").unwrap();
    let err = pack(&vault).unwrap_err();
    assert!(err.to_string().contains(id.trim()), "{err}");
    assert_eq!(counts(&vault)[1..], before[1..]);
    assert_eq!(counts(&vault)[0], before[0] + 1);
    assert_eq!(strangers(&vault), [""; 0]);
    vault.write("a.md", "edits go on\n");
    assert!(vault.snapshot_all().head.is_some());
    std::fs::remove_file(&file).unwrap();
    assert!(matches!(pack(&vault).unwrap(), Packing::Done(_)));
    vault.assert_clean();
}

#[test]
fn what_a_dead_agent_left_goes_and_what_a_living_one_has_stays() {
    let vault = due(1, "999");
    // No process has this number: the kernel's greatest is 2^22.
    let dead = vault.root.join(".git/objects/tmp_objdir-remd-4194305/pack");
    let living = vault.root.join(".git/objects/tmp_objdir-remd-1");
    let foreign = vault.root.join(".git/objects/tmp_objdir-incoming-4194305");
    for folder in [&dead, &living, &foreign] {
        std::fs::create_dir_all(folder).unwrap();
    }
    std::fs::write(dead.join("tmp_pack_x"), "half").unwrap();
    clear_packing(&vault.root).unwrap();
    assert!(!dead.parent().unwrap().exists() && living.exists() && foreign.exists());
}

#[test]
fn a_stop_comes_before_the_first_child() {
    let vault = due(2, "512");
    let before = counts(&vault);
    let stop = Stop::default();
    stop.set();
    assert!(matches!(pack_loose(&vault.root, &stop), Err(PackError::Process(_))));
    assert_eq!(counts(&vault), before);
    assert_eq!(strangers(&vault), [""; 0]);
}

/// A partial clone packs what it has and asks nobody for the rest; a linked work tree packs for
/// all; a borrowed object stays with its lender.
#[test]
fn repositories_of_every_kind_are_packed() {
    // Odd in every list of paths that git reads.
    let dir = tempfile::tempdir().unwrap();
    let odd = dir.path().join("a: \"b\"\nc\\");
    std::fs::create_dir(&odd).unwrap();
    let git = |root: &Path, arguments: &[&str]| {
        let output = git_command(root, arguments).output().unwrap();
        assert!(
            output.status.success(),
            "{arguments:?} {:?}",
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let source = dir.path().join("source");
    std::fs::create_dir(&source).unwrap();
    git(&source, &["init", "-q", "-b", "main"]);
    git(&source, &["config", "uploadpack.allowFilter", "true"]);
    for text in ["old\n", "new\n"] {
        std::fs::write(source.join("a.md"), text).unwrap();
        git(&source, &["add", "."]);
        git(&source, &["commit", "-q", "-m", "a"]);
    }
    let url = format!("file://{}", source.display());
    let at = |name: &str| odd.join(name).to_str().unwrap().to_owned();
    git(&odd, &["clone", "-q", "--filter=blob:none", &url, "partial"]);
    git(&odd, &["clone", "-q", "--shared", source.to_str().unwrap(), "shared"]);
    git(&source, &["worktree", "add", "-q", "-b", "side", &at("linked")]);
    git(&odd, &["init", "-q", "-b", "main", "--object-format=sha256", "long"]);
    let old = git(&source, &["rev-parse", "HEAD~:a.md"]);
    for name in ["partial", "shared", "linked", "long"] {
        let root = odd.join(name);
        git(&root, &["config", "gc.auto", "256"]);
        let sample = if name == "long" { LONG_SAMPLE } else { SAMPLES[0] };
        std::fs::write(root.join("sample.md"), sample).unwrap();
        git(&root, &["add", "."]);
        git(&root, &["-c", "gc.auto=0", "commit", "-q", "-m", "sample"]);
        if name == "partial" {
            std::fs::rename(&source, dir.path().join("away")).unwrap();
        }
        let packed = pack_loose(&root, &Stop::default());
        if name == "partial" {
            std::fs::rename(dir.path().join("away"), &source).unwrap();
            let missing = git(&root, &["rev-list", "--objects", "--all", "--missing=print"]);
            assert!(missing.contains(&format!("?{}", old.trim())), "nothing was fetched");
        }
        assert!(matches!(packed, Ok(Packing::Done(_))), "{name}: {packed:?}");
        let said = git(&root, &["count-objects", "-v"]);
        assert!(said.starts_with("count: 0\n") && !said.contains("packs: 0\n"), "{name}: {said}");
        git(&root, &["fsck", "--strict"]);
    }
}
