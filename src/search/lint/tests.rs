//! What is found in small vaults, worked out by hand; and that it is the same however the index
//! came about.

use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::index::Update;
use crate::index::testing::{commit, open, path, put, remove};

fn view_of(updates: Vec<Update>) -> (tempfile::TempDir, Arc<IndexView>) {
    let dir = tempfile::tempdir().unwrap();
    let view = open(dir.path(), updates, commit(1)).view();
    (dir, view)
}

/// The paths of all notes but these.
fn names_but(view: &IndexView, others: &[&str]) -> Vec<String> {
    let all = view.notes().iter().map(|it| it.path.to_string());
    all.filter(|it| !others.contains(&it.as_str())).collect()
}

/// Findings as `path:line id: what`, of the whole vault.
fn told(view: &Arc<IndexView>, others: &[&str]) -> Vec<String> {
    shown(&all(view, others, &Part::default()))
}

fn all(view: &Arc<IndexView>, others: &[&str], part: &Part) -> Vec<Finding> {
    let others: Vec<VaultPath> = others.iter().map(path).collect();
    let surveyed = survey(view, Beside::new(view, others.iter()), |_| Seen::default());
    findings(view, &surveyed, part)
}

fn shown(findings: &[Finding]) -> Vec<String> {
    let line = |it: &Finding| {
        let line = it.line.map(|it| format!(":{it}")).unwrap_or_default();
        format!("{}{line} {}: {}", it.path, it.check.id(), it.what)
    };
    findings.iter().map(line).collect()
}

fn only(check: Check) -> Part {
    Part { only: [check].into(), ..Part::default() }
}

#[test]
fn each_check_finds_its_own_and_nothing_in_a_vault_that_is_well() {
    let (_dir, view) = view_of(vec![
        put(
            "a.md",
            "to [[b]] and [[b|the other]] and ![[pic.png]] and [t](sub/) \n\n[[c]] [[sub/README]] [[other/README]] [[2026-06-29]]\n",
        ),
        put("b.md", "back to [a](a.md#top), [[#here]] and [[Templates/T]]\n"),
        put("sub/c.md", "[up](../a.md) [root](/b.md) ![](../assets/x%20y.png) https://x.org\n"),
        put("memory/2026-06-29.md", "a day: [[2026-06-29/plan]] [[2026-06-30/plan]]\n"),
        put("memory/2026-06-29/plan.md", "---\ntitle: Plan\n---\na plan of a day\n"),
        put("memory/2026-06-30/plan.md", "---\ntitle: Plan\n---\nanother plan\n"),
        put("sub/README.md", "see [[a]]\n"),
        put("other/README.md", "also see [[a]]\n"),
    ]);
    let others = ["pic.png", "assets/x y.png", "Templates/T.md", "a.md"];
    assert_eq!(told(&view, &others), Vec::<String>::new());
    // Without the other files each of those links leads nowhere, but the one to a folder.
    let broken = told(&view, &[]);
    assert_eq!(
        broken,
        [
            "a.md:1 broken-link: ![[pic.png]] leads nowhere",
            "b.md:1 broken-link: [[Templates/T]] leads nowhere",
            "sub/c.md:1 broken-link: (../assets/x y.png) leads nowhere",
        ]
    );
}

#[test]
fn links_that_lead_nowhere_and_links_that_could_lead_elsewhere() {
    // C02, C03, C05: nothing in code or comments, one rule for several, case that is not exact.
    let (_dir, view) = view_of(vec![
        put("real.md", "[[src]]\n"),
        put("_Inbox/README.md", "[[real]]\n"),
        put("00.projects/README.md", "[[real]]\n"),
        put("notes/README.md", "[[real]]\n"),
        put(
            "notes/src.md",
            "[[README]] [[notes/README]]\n![[README#Setup]]\n`[[Ghost]]` [[real]] `[[` and `]]`\n\
             ```\n[[Ghost]]\n```\n<!-- [[Ghost]] -->\n%%[[Ghost]]%%\n\n    [[Ghost]]\n",
        ),
        put("out.md", "[[README]]\n"),
        put("Case.md", "[[out]]\n"),
        put("cASE.md", "[[out]]\n"),
        put("by-case.md", "[[case]] [[REAL]]\n"),
        put("gone.md", "| [[Host — A (VM 111)\\|a]] | x |\n|-|-|\n\n[[x/Real]] [[日記]]\n"),
    ]);
    let links = Part { only: [Check::BrokenLink, Check::AmbiguousLink].into(), ..Part::default() };
    let found = all(&view, &[], &links);
    let told: Vec<String> = found
        .iter()
        .map(|it| {
            let names: Vec<String> = it.candidates.iter().map(ToString::to_string).collect();
            let line = it.line.unwrap();
            format!(
                "{}:{line} {} {} [{}]",
                it.path,
                it.check.id(),
                it.target.clone().unwrap(),
                names.join(" ")
            )
        })
        .collect();
    let readmes = "00.projects/README.md _Inbox/README.md notes/README.md";
    assert_eq!(
        told,
        [
            "by-case.md:1 ambiguous-link case [Case.md cASE.md]".to_owned(),
            "gone.md:1 broken-link Host — A (VM 111) []".to_owned(),
            "gone.md:4 broken-link x/Real [real.md]".to_owned(),
            "gone.md:4 broken-link 日記 []".to_owned(),
            "notes/src.md:1 ambiguous-link README [notes/README.md 00.projects/README.md _Inbox/README.md]".to_owned(),
            "notes/src.md:2 ambiguous-link README [notes/README.md 00.projects/README.md _Inbox/README.md]".to_owned(),
            format!("out.md:1 ambiguous-link README [{readmes}]"),
        ]
    );
    assert!(found[4].what.contains("[[README]] leads to `notes/README.md`"), "{}", found[4].what);
    assert!(found[0].what.contains("leads nowhere, and could mean"), "{}", found[0].what);
}

#[test]
fn frontmatter_doubles_conflicts_and_text_that_is_none() {
    // B02, B05, B06.
    let (_dir, view) = view_of(vec![
        put(
            "hub.md",
            "[[bad]] [[twice]] [[open]] [[conflict]] [[latin]] [[fences]] [[copy a]] [[copy b]] [[t1]] [[t2]]\n",
        ),
        put("bad.md", "---\nname: my-note\ndescription: explains: badly\n---\nbody\n"),
        put("twice.md", "---\ntags: [alpha, beta]\nstatus: open\nstatus: closed\n---\n"),
        put("open.md", "---\nname: x\n\nno fence\n"),
        put("conflict.md", "a\n<<<<<<< HEAD\nmine\n=======\ntheirs\n>>>>>>> side\n"),
        put("latin.md", b"caf\xe9 au lait\n"),
        put("fences.md", "--- \nname: ok\n---\t\nbody\n\n---\n\n```\n---\n```\n"),
        put("copy a.md", "the same text\n"),
        put("copy b.md", "the same text\n"),
        put("t1.md", "---\ntitle: Bicycle\n---\none [[hub]]\n"),
        put("t2.md", "---\nname: bicycle\n---\ntwo\n"),
    ]);
    let found = all(&view, &[], &Part::default());
    let told: Vec<String> = found
        .iter()
        .map(|it| format!("{}:{} {}", it.path, it.line.unwrap_or(0), it.check.id()))
        .collect();
    assert_eq!(
        told,
        [
            "bad.md:3 bad-frontmatter",
            "conflict.md:2 conflict-markers",
            "copy a.md:0 duplicate-note",
            "copy b.md:0 duplicate-note",
            "latin.md:1 bad-text",
            "open.md:1 bad-frontmatter",
            "t1.md:0 duplicate-note",
            "t2.md:0 duplicate-note",
            "twice.md:4 duplicate-key",
        ]
    );
    assert!(found[2].what.contains("`copy b.md`"), "{}", found[2].what);
    assert_eq!(all(&view, &[], &only(Check::DuplicateKey)).len(), 1);
}

#[test]
fn names_that_cannot_be_linked_or_told_apart_and_notes_that_nobody_finds() {
    // C05, C08.
    let (_dir, view) = view_of(vec![
        put("A|B.md", "[[hub]]\n"),
        put("Sq]uare.md", "[[hub]]\n"),
        put("Sprint #4.md", "[[hub]]\n"),
        put("odd .md", "[[hub]]\n"),
        put("x ^ y.md", "[[hub]]\n"),
        put("hub.md", "text\n"),
        put("caf\u{e9}.md", "[[hub]]\n"),
        put("cafe\u{301}.md", "[[hub]] \n"),
        put("Notes/a.md", "[[hub]]  \n"),
        put("notes/a.md", "[[hub]]   \n"),
        put("alone.md", "nobody comes here\n"),
        put("self.md", "[[self]] [[#x]] [[no such]]\n"),
        put("2026-06-29.md", "a day\n"),
        put("resource/r.md", "on request\n"),
    ]);
    let names: Vec<String> = shown(&all(&view, &["pic.png", "PIC.png"], &only(Check::NameTrouble)));
    let expected = [
        "A|B.md name-trouble: no wikilink can hold its name: it has a bar",
        "Notes/a.md name-trouble: its name differs from `notes/a.md` only in case",
        "PIC.png name-trouble: its name differs from `pic.png` only in case",
        "Sprint #4.md name-trouble: no wikilink can hold its name: it has a hash",
        "Sq]uare.md name-trouble: no wikilink can hold its name: it has a bracket",
        "cafe\u{301}.md name-trouble: its name differs from `caf\u{e9}.md` only in its normal form \
         (the accents of its letters)",
        "caf\u{e9}.md name-trouble: its name differs from `cafe\u{301}.md` only in its normal form \
         (the accents of its letters)",
        "notes/a.md name-trouble: its name differs from `Notes/a.md` only in case",
        "odd .md name-trouble: no wikilink can hold its name: it begins or ends with a space",
        "pic.png name-trouble: its name differs from `PIC.png` only in case",
    ];
    assert_eq!(names, expected);
    let lonely = all(&view, &[], &only(Check::Orphan));
    let lonely: Vec<String> = lonely.iter().map(|it| it.path.to_string()).collect();
    let expected = names_but(&view, &["hub.md", "resource/r.md"]);
    assert_eq!(lonely, expected);
}

#[test]
fn a_part_is_looked_at_alone_and_what_is_on_request_only_by_name() {
    let (_dir, view) = view_of(vec![
        put("a/x.md", "[[gone]]\n"),
        put("ab/y.md", "[[gone]]\n"),
        put("z.md", "[[gone]]\n"),
        put("resource/clip.md", "[[gone]]\n"),
        put("z.sync-conflict-20260629-120000-ABCDEFG.md", "[[gone]]\n"),
    ]);
    let check = |paths: &[&str], expected: &[&str]| {
        let paths = paths.iter().map(path).collect();
        let part = Part { paths, ..only(Check::BrokenLink) };
        let found: Vec<String> =
            all(&view, &[], &part).iter().map(|it| it.path.to_string()).collect();
        assert_eq!(found, expected);
    };
    check(&[], &["a/x.md", "ab/y.md", "z.md"]);
    check(&["a"], &["a/x.md"]);
    check(&["a", "z.md"], &["a/x.md", "z.md"]);
    check(&["resource"], &["resource/clip.md"]);
    check(&["z"], &[]);
}

/// The pages under the mount say the same.
fn check_pages(view: &Arc<IndexView>, others: &[&str]) {
    let until = crate::base::clock::now() + std::time::Duration::from_secs(60);
    let others: Vec<VaultPath> = others.iter().map(path).collect();
    let surveyed = survey(view, Beside::new(view, others.iter()), |_| Seen::default());
    let mut lonely = crate::search::care::orphans(view, until).notes;
    lonely.sort_by(|a, b| a.path.cmp(&b.path));
    let paths = |cards: &[Arc<Card>]| -> Vec<VaultPath> {
        cards.iter().map(|it| it.path.clone()).collect()
    };
    assert_eq!(paths(&surveyed.lonely), paths(&lonely));
    let broken = crate::search::care::broken_links(view, others.into_iter(), until).links;
    let broken: Vec<_> =
        broken.iter().map(|it| (it.from.path.clone(), it.line, it.target.clone())).collect();
    let loose = surveyed.loose.iter().filter(|it| it.kind == LooseKind::Broken);
    let loose: Vec<_> = loose
        .map(|it| (it.card.path.clone(), it.edge().line, it.edge().target.trim().to_owned()))
        .collect();
    assert_eq!(loose, broken);
}

/// Small notes that link to each other in many ways.
fn vaults() -> impl Strategy<Value = Vec<(String, String)>> {
    let name =
        prop::sample::select(vec!["a", "A", "b", "d/a", "d/b", "e/a", "é", "e\u{301}", "x|y"]);
    let link = prop::sample::select(vec![
        "[[a]]",
        "[[A]]",
        "[[d/a]]",
        "[x](../a.md)",
        "[x](b.md)",
        "[[nowhere]]",
        "![[p.png]]",
        "`[[a]]`",
        "[[é]]",
        "text",
        "---",
        "title: t",
        "[x](d/)",
    ]);
    let text = prop::collection::vec(link, 0..5).prop_map(|it| it.join("\n"));
    prop::collection::vec((name.prop_map(|it| format!("{it}.md")), text), 0..10)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn what_is_found_is_what_a_fresh_walk_finds(before in vaults(), after in vaults(), gone in 0..4usize) {
        // One index that went through all of it, one that is built of what is left.
        let mut left: std::collections::BTreeMap<String, String> = before.into_iter().collect();
        let dir = tempfile::tempdir().unwrap();
        let first = left.iter().map(|it| put(it.0, it.1)).collect();
        let mut index = open(dir.path(), first, commit(1));
        let mut steps = Vec::new();
        let removed: Vec<String> = left.keys().take(gone).cloned().collect();
        for name in removed {
            left.remove(&name);
            steps.push(remove(&name));
        }
        index.apply(steps, commit(2)).unwrap();
        for (name, text) in after {
            index.apply(vec![put(&name, &text)], commit(3)).unwrap();
            left.insert(name, text);
        }
        let followed = index.view();
        let (_b, fresh) = view_of(left.iter().map(|it| put(it.0, it.1)).collect());
        for others in [&[][..], &["p.png", "d/p.png"]] {
            let part = Part::default();
            prop_assert_eq!(all(&followed, others, &part), all(&fresh, others, &part));
            check_pages(&fresh, others);
        }
    }
}
