//! Obsidian's and ReMe's vaults, and vaults on odd ground: clones, synced folders, other disks.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::adopt::{digest, git, house, repository, write};
use crate::house::{House, has_fuse, wait_for};

#[test]
fn an_obsidian_vault_keeps_its_own_folders() {
    let mut house = house();
    for (path, text) in [
        ("Notes/Idea.md", "The word quagga, ![[attachments/pic.png]].\n"),
        ("Meta/Blueprints/Daily.md", "The word quagga in {{title}}.\n"),
        ("Scripts/T.md", "The word quagga in <% tp %>.\n"),
        ("attachments/pic.png", "\u{89}PNG"),
        (".obsidian/app.json", "{\"attachmentFolderPath\": \"attachments\"}"),
        (".obsidian/templates.json", "{\"folder\": \"Meta/Blueprints\"}"),
        (".obsidian/plugins/templater-obsidian/data.json", "{\"templates_folder\": \"Scripts\"}"),
        (".obsidian/workspace.json", "{\"active\": 1}"),
        (".obsidian/workspace-mobile.json", "{}"),
        (".trash/Gone.md", "The word quagga, thrown away.\n"),
    ] {
        write(&house.vault, path, text);
    }
    let before = digest(&house.vault, &[".git", "mem_metadata"]);
    house.start();
    house.settle_and_check();
    let paths: Vec<_> =
        house.head_paths().into_iter().map(|it| String::from_utf8(it).unwrap()).collect();
    assert_eq!(
        paths,
        [
            ".obsidian/app.json",
            ".obsidian/plugins/templater-obsidian/data.json",
            ".obsidian/templates.json",
            "Meta/Blueprints/Daily.md",
            "Notes/Idea.md",
            "Scripts/T.md",
            "attachments/pic.png",
        ]
    );
    assert_eq!(house.found("quagga"), ["Notes/Idea.md"]);
    assert_eq!(digest(&house.vault, &[".git", "mem_metadata"]), before);
    // Obsidian writes this at every click.
    let commits = house.commits();
    write(&house.vault, ".obsidian/workspace.json", "{\"active\": 2}");
    house.settle_and_check();
    assert_eq!(house.commits(), commits);
}

/// A workspace as ReMe leaves it.
fn reme_workspace(at: &Path) {
    for (path, text) in [
        ("daily/2026-06-20.md", "# 2026-06-20\n\n- [[daily/2026-06-20/login.md]]\n"),
        ("daily/2026-06-20/login.md", "---\nname: login\n---\nThe word quagga stands here.\n"),
        ("digest/wiki/okapi.md", "The word okapi stands here.\n"),
        ("resource/2026-06-20/budget.txt", "budget\n"),
        ("session/dialog/s-1.jsonl", "{\"role\":\"user\"}\n"),
        ("mem_session/agentscope/s-1.jsonl", "{}\n"),
        ("metadata/file_store/file_chunks_default_v1.jsonl.zst", "ReMe's own chunks"),
        ("metadata/file_catalog/dream.jsonl.zst", "ReMe's own catalog"),
        ("metadata/keyword_index/bm25_default_regex_0123456789ab_v1.pkl", "pickled"),
    ] {
        write(at, path, text);
    }
}

#[test]
fn a_reme_workspace_is_recognised_and_stays_one() {
    let mut house = house();
    reme_workspace(&house.vault);
    let before = digest(&house.vault, &[".git", "metadata"]);
    house.start();
    house.settle_and_check();
    assert_eq!(house.status()["layout"], "reme");
    assert!(house.log().contains("layout reme: `daily/` for days"), "{}", house.log());
    let paths = house.head_paths();
    let has = |start: &str| paths.iter().any(|it| it.starts_with(start.as_bytes()));
    assert!(has("daily/") && has("session/dialog/") && has("resource/") && has("digest/"));
    assert!(!has("metadata/") && !has("mem_session/") && !has("remd.yaml"));
    assert_eq!(house.found("quagga"), ["daily/2026-06-20/login.md"]);
    assert_eq!(digest(&house.vault, &[".git", "metadata"]), before);
    assert!(house.at("metadata/keyword_index").exists() && !house.at("mem_metadata").exists());
    // What ReMe had derived is there as it was.
    let kept = house.at("metadata/before-remd");
    let read = |name: &str| fs::read(kept.join(name)).unwrap();
    assert_eq!(read("file_store/file_chunks_default_v1.jsonl.zst"), b"ReMe's own chunks");
    assert_eq!(read("file_catalog/dream.jsonl.zst"), b"ReMe's own catalog");
    assert_eq!(read("keyword_index/bm25_default_regex_0123456789ab_v1.pkl"), b"pickled");

    // Remembered, also when what it was known by is gone.
    house.stop();
    fs::remove_dir_all(house.at("metadata")).unwrap();
    fs::remove_dir_all(house.at("session")).unwrap();
    fs::create_dir(house.at("mem_metadata")).unwrap();
    let said = house.run(["config", "list"]);
    assert!(said.stdout.contains("layout = reme  # as adopted"), "{}", said.stdout);
    assert!(said.stdout.contains("daily_dir = daily  # as adopted"), "{}", said.stdout);
    house.args(["--no-mount", "--layout", "reme"]);
    house.start();
    house.settle_and_check();
    assert!(house.at("metadata/keyword_index").exists());
    house.stop();
    let said = house.run(["up", "--no-mount", "--layout", "default"]);
    assert_eq!(said.code, 2);
    assert!(said.stderr.contains("has the layout `reme` (as adopted), not `default`"));
    assert!(said.stderr.contains("hint: Leave `--layout` away"), "{}", said.stderr);
}

#[test]
fn a_new_vault_can_have_the_layout_of_reme() {
    let house = house();
    let vault = house.vault.to_str().unwrap();
    let said = house.run(["init", "--layout", "reme", "--dry-run", vault]);
    assert!(said.stdout.contains("layout reme: `daily/`"), "{}", said.stdout);
    assert!(!house.vault.exists());
    let said = house.run(["init", "--layout", "reme", vault]);
    assert_eq!(said.code, 0, "{}", said.stderr);
    assert!(house.git(["show", "HEAD:remd.yaml"]).contains("\nlayout: reme\n"));
    assert!(house.git(["show", "HEAD:.gitignore"]).contains("/metadata/"));
    assert_eq!(house.git(["status", "--porcelain"]), "");
    assert_eq!(house.status()["layout"], "reme");
    let said = house.run(["init", "--layout", "default", vault]);
    assert_eq!(said.code, 2);
    assert!(said.stderr.contains("(vault file), not `default`"), "{}", said.stderr);
    let said = house.run(["init", "--layout", "other", vault]);
    assert_eq!(said.code, 2);
    assert!(said.stderr.contains("reme"), "{}", said.stderr);
}

#[test]
fn a_shallow_clone_and_a_synced_folder_are_notes_and_no_failure() {
    let mut house = house();
    let other = house.root().join("other");
    repository(&house, &other, &["-b", "main"]);
    let url = format!("file://{}", other.display());
    fs::create_dir(house.root().join("shared")).unwrap();
    house.vault = house.root().join("shared/memory");
    git(&house, &house.root(), &["clone", "-q", "--depth", "1", &url, "shared/memory"]);
    fs::create_dir(house.root().join("shared/.stfolder")).unwrap();
    house.start();
    house.settle_and_check();
    let status = house.status();
    assert_eq!(status["verdict"], "ok", "{status}");
    for (id, word) in [("shallow", "shallow clone"), ("cloud-folder", "Syncthing")] {
        let problem =
            status["problems"].as_array().unwrap().iter().find(|it| it["id"] == id).unwrap();
        assert_eq!(problem["level"], "note");
        assert!(problem["what"].as_str().unwrap().contains(word), "{problem}");
        assert!(!problem["remedy"].as_str().unwrap().is_empty());
        assert!(house.log().contains(word), "`up` says it too");
    }
    house.stop();
    assert!(house.run(["status"]).stdout.contains("Syncthing"), "also with no agent");
}

/// E20: what only the remote has is missed by nobody, with the network away.
#[test]
fn a_partial_sparse_clone_works_without_its_remote() {
    let mut house = house();
    let other = house.root().join("other");
    repository(&house, &other, &["-b", "main"]);
    write(&other, "outside/absent.md", "The word addax stands here.\n");
    write(&other, "outside/deep/also.md", "also\n");
    git(&house, &other, &["add", "-A"]);
    git(&house, &other, &["commit", "-q", "-m", "outside"]);
    git(&house, &other, &["config", "uploadpack.allowFilter", "true"]);
    let url = format!("file://{}", other.display());
    let root = house.root();
    git(&house, &root, &["clone", "-q", "--filter=blob:none", "--sparse", &url, "memory"]);
    git(&house, &house.vault, &["sparse-checkout", "set", "deep"]);
    fs::rename(&other, root.join("unreachable")).unwrap();
    assert!(!house.at("outside").exists() && house.at("deep/er/note.md").exists());
    house.start();
    house.write("deep/new.md", "The word okapi stands here.\n");
    house.write("outside/written.md", "The word nyala stands here.\n");
    house.settle();
    assert_eq!(house.git(["status", "--porcelain"]), "");
    let listed = house.git(["ls-tree", "-r", "--name-only", "HEAD"]);
    for path in ["outside/absent.md", "outside/deep/also.md", "outside/written.md", "deep/new.md"] {
        assert!(listed.contains(path), "{path} of {listed}");
    }
    assert_eq!(house.found("okapi"), ["deep/new.md"]);
    assert_eq!(house.found("nyala"), ["outside/written.md"]);
    assert_eq!(house.found("quagga"), ["old.md"]);
    // The texts that are not here are named, and stop nobody.
    let status = house.status();
    assert_eq!(status["verdict"], "ok", "{status}");
    let troubled: Vec<_> = status["index"]["troubled"].as_array().unwrap().iter().collect();
    assert!(troubled.iter().any(|it| it["path"] == "outside/absent.md"), "{status}");
    let problems = status["problems"].as_array().unwrap();
    assert!(!problems.iter().any(|it| it["id"] == "git-objects"), "{status}");
    assert!(problems.iter().all(|it| it["level"] == "note"), "{status}");

    // Fetched by the person: searched without a restart.
    fs::rename(root.join("unreachable"), &other).unwrap();
    assert_eq!(house.found("addax"), Vec::<String>::new());
    // Nobody looks for edits meanwhile, and yet it is taken for none.
    assert_eq!(house.run(["pause"]).code, 0);
    git(&house, &house.vault, &["sparse-checkout", "add", "outside"]);
    let hits = || -> Vec<(String, bool)> {
        let page = house.run(["search", "--json", "addax"]).stdout;
        let page: serde_json::Value = serde_json::from_str(&page).unwrap();
        let hits = page["results"].as_array().into_iter().flatten();
        hits.map(|it| (it["path"].as_str().unwrap().into(), it["uncommitted"] == true)).collect()
    };
    wait_for("its text", || {
        let hits = hits();
        assert!(hits.iter().all(|it| !it.1), "HEAD has it: {hits:?}");
        !hits.is_empty()
    });
    assert_eq!(house.run(["resume"]).code, 0);
    for _ in 0..20 {
        assert_eq!(hits(), [("outside/absent.md".to_owned(), false)], "it comes and goes");
    }
    let troubled = || house.status()["index"]["troubled"].as_array().unwrap().len();
    wait_for("what was fetched", || {
        house.found_committed("addax") == ["outside/absent.md"] && troubled() == 0
    });
    house.settle();
    assert_eq!((house.found("addax"), troubled()), (vec!["outside/absent.md".to_owned()], 0));
    house.stop();
    // Without an agent and an index as well.
    fs::remove_dir_all(house.at("mem_metadata")).unwrap();
    assert_eq!(house.found("addax"), ["outside/absent.md"]);
}

/// What the past of a partial clone lacks is said file by file, with what fetches it.
#[test]
fn the_past_of_a_partial_clone_says_what_is_not_here() {
    let mut house = house();
    let other = house.root().join("other");
    repository(&house, &other, &["-b", "main"]);
    for word in ["first", "second", "third"] {
        write(&other, "p1.md", &format!("{word}\n"));
        write(&other, "p2.md", &format!("{word} too\n"));
        git(&house, &other, &["add", "-A"]);
        git(&house, &other, &["commit", "-q", "-m", word]);
    }
    git(&house, &other, &["config", "uploadpack.allowFilter", "true"]);
    let url = format!("file://{}", other.display());
    let root = house.root();
    git(&house, &root, &["clone", "-q", "--filter=blob:none", &url, "memory"]);
    // One of the two is fetched.
    git(&house, &house.vault, &["cat-file", "-p", "HEAD~1:p2.md"]);
    git(&house, &house.vault, &["cat-file", "-p", "HEAD~2:p2.md"]);
    fs::rename(&other, root.join("unreachable")).unwrap();
    house.start();
    house.settle();
    let blob = git(&house, &root.join("unreachable"), &["rev-parse", "HEAD~1:p1.md"]);
    let shown = house.run(["show", "HEAD~1"]);
    assert_eq!(shown.code, 0, "{}{}", shown.stdout, shown.stderr);
    assert!(shown.stdout.contains("# p1.md is not in this partial clone; "), "{}", shown.stdout);
    assert!(shown.stdout.contains(&format!("`git show {blob}`")), "{}", shown.stdout);
    assert!(shown.stdout.contains("-first too\n+second too\n"), "goes on: {}", shown.stdout);
    let log = house.run(["log", "p1.md"]).stdout;
    assert_eq!(log.matches("(+? -?)").count(), 3, "{log}");
    assert!(house.run(["log", "--json", "p1.md"]).stdout.contains("\"left_out\": true"));
    let log = house.run(["log", "p2.md"]).stdout;
    assert_eq!(log.matches("(+1 -1)").count(), 2, "{log}");
    assert!(!log.contains('?'), "{log}");
    let diff = house.run(["diff", "HEAD~2..HEAD"]);
    assert!(diff.code == 0 && diff.stdout.contains("+third too\n"), "{}", diff.stderr);
    // Against the disk as well.
    house.stop();
    house.write("p1.md", "fourth\n");
    let diff = house.run(["diff", "HEAD~1"]);
    assert_eq!(diff.code, 0, "{}", diff.stderr);
    assert!(diff.stdout.contains("# p1.md is not in") && diff.stdout.contains("+third too\n"));
}

/// Git's own list names it, and remd with it; the same for what nobody looks into.
#[test]
fn a_submodule_that_is_not_as_recorded_is_named() {
    let mut house = house();
    let inner = house.root().join("inner");
    repository(&house, &inner, &["-b", "main"]);
    repository(&house, &house.vault, &["-b", "main"]);
    let vault = house.vault.clone();
    let by_file = ["-c", "protocol.file.allow=always", "submodule"];
    git(&house, &vault, &[&by_file[..], &["add", "-q", "../inner", "sm"]].concat());
    git(&house, &vault, &["commit", "-q", "-m", "with a submodule"]);
    house.start();
    house.settle();
    let kept = |house: &House| house.status()["pending"]["kept_out"].clone();
    assert_eq!(kept(&house), serde_json::json!([]));

    // A commit in it raises no event: it is named by the next look, staged or not.
    write(&vault.join("sm"), "new.md", "new\n");
    git(&house, &vault.join("sm"), &["add", "-A"]);
    git(&house, &vault.join("sm"), &["commit", "-q", "-m", "inside"]);
    assert_eq!(git(&house, &vault, &["status", "--porcelain"]), " M sm");
    let named = |house: &House, why: &str, remedy: &str| {
        house.settle();
        let kept = kept(house);
        assert!(
            kept[0]["path"] == "sm" && kept[0]["why"].as_str().unwrap().contains(why),
            "{kept}"
        );
        let said = house.run(["status"]).stdout;
        assert!(said.contains(remedy) && !said.starts_with("ok"), "{said}");
    };
    named(&house, "another commit than recorded", "`git add sm` and `git commit`");
    git(&house, &vault, &["add", "sm"]);
    named(&house, "another commit than recorded", "`git submodule update sm`");
    git(&house, &vault, &["commit", "-q", "-m", "moved"]);
    house.settle();
    assert_eq!(kept(&house), serde_json::json!([]));

    fs::remove_dir_all(vault.join("sm")).unwrap();
    assert_eq!(git(&house, &vault, &["status", "--porcelain"]), " D sm");
    named(&house, "whose folder is gone", "`git submodule update --init sm`");
    git(&house, &vault, &["submodule", "update", "-q", "--init", "sm"]);
    house.settle();
    assert_eq!(kept(&house), serde_json::json!([]));
    assert_eq!(git(&house, &vault, &["status", "--porcelain"]), "");

    for at in 0..7 {
        repository(&house, &vault.join(format!("n{at}")), &["-b", "main"]);
    }
    house.settle();
    let skipped = house.status()["pending"]["skipped"].clone();
    let paths: Vec<_> = skipped.as_array().unwrap().iter().map(|it| &it["path"]).collect();
    assert_eq!(paths, ["n0", "n1", "n2", "n3", "n4", "n5", "n6", "sm"]);
    assert_eq!(skipped[7]["why"], "is a repository of its own");
    let said = house.run(["status"]).stdout;
    assert!(
        said.contains("8 places are not looked into, as `n0`, `n1`, `n2`, `n3`, `n4`:"),
        "{said}"
    );
    assert!(said.contains("names them all"), "{said}");
    house.stop();
}

/// A file system that is unmounted at the end, whatever the test says.
pub struct Mounted(pub PathBuf);

impl Drop for Mounted {
    fn drop(&mut self) {
        let _unmounted = Command::new("umount").arg("-l").arg(&self.0).output();
    }
}

/// What another machine writes raises no event here; it is found all the same.
#[test]
fn a_network_disk_is_polled_and_a_note_says_so() {
    if !has_fuse("a_network_disk_is_polled_and_a_note_says_so") {
        return;
    }
    let mut house = house();
    let disk = house.root().join("disk");
    repository(&house, &disk, &["-b", "main"]);
    fs::create_dir(&house.vault).unwrap();
    // The kernel names a FUSE file system by what it is told at the mount.
    let bound = Command::new("bindfs")
        .args(["-o", "subtype=sshfs"])
        .args([&disk, &house.vault])
        .status()
        .expect("this test needs bindfs: apt-get install bindfs");
    assert!(bound.success());
    let _mounted = Mounted(house.vault.clone());
    house.start();
    house.settle_and_check();
    let status = house.status();
    assert_eq!((&status["watch"]["mode"], &status["verdict"]), (&"polling".into(), &"ok".into()));
    let notes = status["problems"].as_array().unwrap();
    let note = notes.iter().find(|it| it["id"] == "network-disk").unwrap();
    assert_eq!(note["level"], "note");
    assert!(note["what"].as_str().unwrap().contains("fuse.sshfs"), "{note}");
    assert!(house.log().contains("network file system"), "`up` says it too");
    // By the other machine: beside the mount, not through it.
    write(&disk, "theirs.md", "The word okapi stands here.\n");
    wait_for("the other machine's edit", || house.found_committed("okapi") == ["theirs.md"]);
    write(&house.vault, "ours.md", "The word nyala stands here.\n");
    house.settle_and_check();
    assert_eq!(house.found("nyala"), ["ours.md"]);
    house.stop();
}
