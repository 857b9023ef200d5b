//! The mount's views: what changed last, tags, notes that want looking after, today.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::blame::commit_as_job;
use crate::house::{House, has_fuse, wait_for};

fn names(folder: &Path) -> Vec<String> {
    let listed = fs::read_dir(folder).unwrap_or_else(|err| panic!("{}: {err}", folder.display()));
    listed.map(|it| it.unwrap().file_name().into_string().unwrap()).collect()
}

fn targets(house: &House, folder: &str) -> Vec<String> {
    let folder = house.mount.join(folder);
    let links = names(&folder).into_iter().filter_map(|it| fs::read_link(folder.join(it)).ok());
    links.map(|it| it.strip_prefix(&house.vault).unwrap().to_str().unwrap().to_owned()).collect()
}

fn mounted(house: &House) {
    wait_for("the mount", || house.status()["mount"]["state"] == "mounted");
}

/// The page without its last line, and that.
fn page(house: &House, name: &str) -> (String, String) {
    let page = house.cat(name);
    let (rest, last) = page.trim_end().rsplit_once('\n').unwrap();
    assert!(last.starts_with("-- ") && last.contains(" as of "), "{page}");
    (rest.to_owned(), last.to_owned())
}

#[test]
fn what_changed_last_comes_first() {
    if !has_fuse("what_changed_last_comes_first") {
        return;
    }
    let house = House::open();
    for name in ["a.md", "b.md", "c.md"] {
        house.write(name, format!("# {name}\n"));
        house.settle();
    }
    mounted(&house);
    assert_eq!(targets(&house, "recent"), ["c.md", "b.md", "a.md"]);
    assert_eq!(names(&house.mount.join("recent"))[0], "01-c.md");
    assert_eq!(fs::read_to_string(house.mount.join("recent/01-c.md")).unwrap(), "# c.md\n");
    house.write("a.md", "# a.md\n\nmore\n");
    fs::rename(house.at("c.md"), house.at("d.md")).unwrap();
    fs::write(house.at("picture.png"), [0, 1, 2]).unwrap();
    house.settle();
    assert_eq!(
        targets(&house, "recent"),
        ["a.md", "d.md", "b.md"],
        "notes that are there, each once"
    );
    // A folder that somebody stands in follows.
    let listed = Command::new("bash")
        .args(["-c", "cd recent && echo x > $V/e.md && remd status --wait settled >/dev/null && ls -U | head -n1"])
        .current_dir(&house.mount)
        .env("V", &house.vault)
        .env("REMD_VAULT", &house.vault)
        .env("HOME", house.root().join("home"))
        .env("XDG_RUNTIME_DIR", house.root().join("run"))
        .env("PATH", format!("{}:{}", Path::new(env!("CARGO_BIN_EXE_remd")).parent().unwrap().display(), std::env::var("PATH").unwrap()))
        .output()
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&listed.stdout), "01-e.md\n", "{listed:?}");
    for at in 0..60 {
        house.write(format!("many/{at}.md"), "x\n");
    }
    house.settle();
    assert_eq!(names(&house.mount.join("recent")).len(), 50, "a bounded number");
}

#[test]
fn tags_are_folders_within_folders() {
    if !has_fuse("tags_are_folders_within_folders") {
        return;
    }
    let house = House::open();
    house.write("memory/2026-06-01/a.md", "---\ntags: [Project/Remd, cooking]\n---\nA\n");
    house.write("memory/2026-06-03/b.md", "#project and #日記/六月\n");
    house.write("c.md", "---\ntags: [project/remd/mount, \"..\", \"50%\"]\n---\n");
    house.settle_and_check();
    mounted(&house);
    let tag = house.mount.join("tag");
    assert_eq!(names(&tag), ["%2E.", "50%25", "cooking", "project", "日記"]);
    assert_eq!(names(&tag.join("project")), ["remd", "01-b.md", "02-a.md", "03-c.md"]);
    assert_eq!(
        targets(&house, "tag/project/remd"),
        ["memory/2026-06-01/a.md", "c.md"],
        "the newest first, without a day last"
    );
    assert_eq!(names(&tag.join("project/remd")), ["mount", "01-a.md", "02-c.md"]);
    assert_eq!(targets(&house, "tag/PROJECT/Remd/mount"), ["c.md"], "in any case");
    assert_eq!(targets(&house, "tag/日記/六月"), ["memory/2026-06-03/b.md"]);
    assert_eq!(targets(&house, "tag/50%25"), ["c.md"]);
    for absent in ["none", "project/none", ".Trash", "cooking/remd"] {
        assert_eq!(fs::metadata(tag.join(absent)).unwrap_err().raw_os_error(), Some(2), "{absent}");
    }
    // Complete, as the command's list is.
    let said = house.run(["tags", "--json"]).stdout;
    let listed: serde_json::Value = serde_json::from_str(&said).unwrap();
    assert_eq!(listed["total_tags"], 7, "{said}");
    fs::remove_file(house.at("memory/2026-06-01/a.md")).unwrap();
    house.settle();
    assert_eq!(names(&tag), ["%2E.", "50%25", "project", "日記"]);
    let found = Command::new("find").arg(&tag).output().unwrap();
    assert!(found.status.success() && found.stderr.is_empty(), "{found:?}");
}

#[test]
fn orphans_and_broken_links_are_named_with_their_place() {
    if !has_fuse("orphans_and_broken_links_are_named_with_their_place") {
        return;
    }
    let house = House::open();
    house.write("digest/bicycle.md", "---\nname: The [Bicycle]\n---\nSee [[commute]].\n");
    house.write("memory/2026-06-01/commute.md", "By [[bicycel]], [map](../../resource/map.pdf), [gone](gone.md),\n[old](old/bicycle.md), ![[photo.png]] and [[no such thing at all]].\n");
    house.write("alone.md", "nobody\n");
    house.write("memory/2026-06-01.md", "the day\n");
    house.write("resource/map.pdf", "%PDF");
    house.settle_and_check();
    mounted(&house);
    let (orphans, last) = page(&house, "orphans.md");
    assert!(last.starts_with("-- 2 notes as of ") && last.ends_with(", current"), "{last}");
    assert!(
        orphans.contains("- [alone](file://")
            && orphans.contains("/alone.md), links nowhere itself\n"),
        "{orphans}"
    );
    assert!(orphans.contains("- [The \\[Bicycle\\]](file://"), "{orphans}");
    let (broken, last) = page(&house, "broken-links.md");
    let lines: Vec<_> = broken.lines().filter(|it| it.starts_with("- ")).collect();
    assert_eq!(lines.len(), 5, "{broken}");
    assert!(last.starts_with("-- 5 links as of "), "{last}");
    for (line, suggests) in [
        ("- memory/2026-06-01/commute.md:1: `bicycel`", "digest/bicycle.md"),
        ("- memory/2026-06-01/commute.md:1: `gone.md`", ""),
        ("- memory/2026-06-01/commute.md:2: `old/bicycle.md`", "digest/bicycle.md"),
        ("- memory/2026-06-01/commute.md:2: `photo.png`", ""),
        ("- memory/2026-06-01/commute.md:2: `no such thing at all`", ""),
    ] {
        let found = lines
            .iter()
            .find(|it| it.starts_with(line))
            .unwrap_or_else(|| panic!("{line} in\n{broken}"));
        match suggests {
            "" => assert_eq!(*found, line),
            path => assert!(
                found.contains(&format!(" → [{path}](file://")) && found.ends_with("?"),
                "{found}"
            ),
        }
    }
    // Mended at once.
    house.write("memory/2026-06-01/commute.md", "By [[bicycle]].\n");
    house.settle();
    assert!(page(&house, "broken-links.md").0.contains("None."));
    assert!(page(&house, "orphans.md").1.starts_with("-- 1 note as of "));
}

#[test]
fn today_and_the_log_tell_what_happened() {
    if !has_fuse("today_and_the_log_tell_what_happened") {
        return;
    }
    let mut house = House::open();
    house.git(["config", "user.name", "Ada"]);
    house.git(["config", "user.email", "ada@example.org"]);
    house.env("TZ", "UTC");
    let today =
        String::from_utf8(Command::new("date").args(["-u", "+%F"]).output().unwrap().stdout)
            .unwrap();
    let today = today.trim();
    house.stop();
    house.start();
    house.write("old.md", "old\n");
    house.git(["add", "-A"]);
    let old = Command::new("git")
        .args([
            "-c",
            "user.name=Ada",
            "-c",
            "user.email=ada@example.org",
            "commit",
            "-qm",
            "long *ago*",
        ])
        .env("GIT_AUTHOR_DATE", "2020-02-03T10:00:00Z")
        .env("GIT_COMMITTER_DATE", "2020-02-03T10:00:00Z")
        .env("HOME", house.root().join("home"))
        .current_dir(&house.vault)
        .status()
        .unwrap();
    assert!(old.success());
    house.settle();
    house.write(format!("memory/{today}.md"), "---\nname: The day\n---\n");
    house.write(
        format!("memory/{today}/plan.md"),
        "---\nname: Plan\ndescription: What to do.\n---\n",
    );
    house.settle();
    fs::remove_file(house.at("old.md")).unwrap();
    house.settle();
    house.run(["pause"]);
    house.write("by-job.md", "x\n");
    commit_as_job(
        &house,
        "memory: create by-job.md",
        &[("Remd-Cause", "job"), ("Remd-Job", "auto_dream"), ("Remd-Run", "01J")],
    );
    house.run(["resume"]);
    house.settle_and_check();
    mounted(&house);
    let (text, last) = page(&house, "today.md");
    assert!(
        text.starts_with(&format!("# {today}\n\nPage of the day: [The day](file://")),
        "{text}"
    );
    assert!(
        text.contains("- [Plan](file://") && text.contains("/plan.md): What to do.\n"),
        "{text}"
    );
    assert!(text.contains(" \\[job auto\\_dream\\] remd, run 01J: by-job.md, new\n"), "{text}");
    assert!(text.contains(": old.md, deleted\n"), "{text}");
    assert!(
        last.starts_with("-- 1 note, 4 files changed as of ") && last.ends_with(", current"),
        "{last}"
    );
    let (text, last) = page(&house, "log.md");
    let days: Vec<_> = text.lines().filter(|it| it.starts_with("## ")).collect();
    assert_eq!(days, [format!("## {today}"), "## 2020-02-03".to_owned()]);
    assert!(
        text.contains("\\[job auto\\_dream\\] remd, run 01J: memory: create by-job.md"),
        "{text}"
    );
    assert!(text.contains("Ada: long \\*ago\\* ("), "{text}");
    assert!(last.starts_with("-- 4 commits as of "), "{last}");
}

#[test]
fn a_note_has_its_history_and_its_lines_beside_it() {
    if !has_fuse("a_note_has_its_history_and_its_lines_beside_it") {
        return;
    }
    let house = House::open();
    house.write("notes/old name.md", "# Plan\n\nOne line that stays as it is.\n");
    house.settle();
    fs::rename(house.at("notes/old name.md"), house.at("notes/new.md")).unwrap();
    house.settle();
    house.write("notes/new.md", "# Plan\n\nOne line that stays as it is.\nAnother.\n");
    house.settle_and_check();
    mounted(&house);
    assert_eq!(
        names(&house.mount.join("note/notes/new.md")),
        ["backlinks", "blame", "history", "links"]
    );
    let (history, last) = page(&house, "note/notes/new.md/history");
    let lines: Vec<_> = history.lines().collect();
    assert_eq!((lines.len(), lines[0]), (4, "notes/new.md"), "{history}");
    assert!(
        lines[1].starts_with("3  ") && lines[2].starts_with("2  ") && lines[3].starts_with("1  "),
        "{history}"
    );
    assert!(lines[2].ends_with(", was notes/old name.md"), "{history}");
    assert!(last.starts_with("-- 3 versions as of ") && last.ends_with(", current"), "{last}");
    // The command says the same, but for the words that the index is current.
    let page = house.cat("note/notes/new.md/blame");
    let said = house.run(["blame", "notes/new.md"]).stdout;
    assert_eq!(page.replace(", current\n", "\n"), said);
    let first = house.git(["rev-parse", "HEAD~2"]);
    assert!(page.lines().nth(2).unwrap().starts_with(&first[..7]), "{page}");
    assert_eq!(
        fs::metadata(house.mount.join("note/none.md/blame")).unwrap_err().raw_os_error(),
        Some(2)
    );
}
