//! The faces of a status, by hand.

use super::*;

fn well() -> Status {
    Status {
        schema_version: 1,
        verdict: "ok".to_owned(),
        summary: "everything is committed and searchable".to_owned(),
        vault: "/home/ada/memory".to_owned(),
        agent: Agent {
            running: true,
            silent: None,
            pid: Some(71),
            since: Some(1000),
            version: "0.1.0".to_owned(),
            paused: false,
        },
        head: Some(Head {
            commit: "4f2c9e1d00000000000000000000000000000abc".to_owned(),
            branch: Some("main".to_owned()),
            subject: "memory: update a.md".to_owned(),
            time: 4540,
        }),
        index: Index {
            commit: Some("4f2c9e1d00000000000000000000000000000abc".to_owned()),
            notes: 1,
            chunks: 2,
            links: 0,
            bytes: 1_200_000,
            ..Index::default()
        },
        mount: Mount {
            state: "mounted".to_owned(),
            path: Some("/home/ada/memory.fs".to_owned()),
            ..Mount::default()
        },
        watch: Watch { mode: "inotify".to_owned(), watches: 12, watch_limit: Some(65536) },
        secrets: "off".to_owned(),
        ..Status::default()
    }
}

#[test]
fn a_well_agent_is_one_quiet_screen() {
    assert_eq!(
        String::from_utf8(text(&well(), 4600)).unwrap(),
        "ok: everything is committed and searchable
  vault    /home/ada/memory
  agent    running for 60 min, process 71, version 0.1.0
  head     4f2c9e1 on main, 60 s ago, memory: update a.md
  pending  nothing
  index    at 4f2c9e1, current; 1 note, 2 chunks, 0 links, 1.2 MB
  mount    mounted at /home/ada/memory.fs
  watch    inotify, 12 of 65536 watches
  secrets  off
"
    );
}

#[test]
fn what_is_wrong_stands_with_its_remedy_and_forges_no_line() {
    let mut status = well();
    status.verdict = "held".to_owned();
    status.summary = "23 deletions wait for your word".to_owned();
    status.pending = Pending {
        paths: Vec::new(),
        edits: 2,
        waiting_for: Some("a merge is in progress".to_owned()),
        held_deletions: 23,
        held_examples: vec!["a\nok: forged".to_owned()],
        kept_out: vec![KeptOut { path: "big.md".to_owned(), why: "over 100 MB".to_owned() }],
        skipped: Vec::new(),
        at_work: vec![AtWork {
            what: "the filter `x`".to_owned(),
            path: Some("a\nok: forged".to_owned()),
            more: 1,
            since: 4588,
            is_waited_for: true,
        }],
        committing: None,
        unseen: Some("no agent looks at the disk".to_owned()),
    };
    status.index.commits_behind = 2;
    status.index.behind_for = Some(3.0);
    status.problems = vec![Problem {
        id: "held-deletions".to_owned(),
        level: "warning".to_owned(),
        what: "23 notes vanished at once".to_owned(),
        remedy: "Bring them back, or run `remd accept`.".to_owned(),
        since: 4570,
        count: 2,
    }];
    let page = String::from_utf8(text(&status, 4600)).unwrap();
    assert!(page.starts_with("held: 23 deletions wait for your word\n"), "{page}");
    for line in [
        "  pending  2 edits not committed yet: a merge is in progress; 23 deletions held back; \
         1 path kept out; unknown: no agent looks at the disk",
        "  at work  the filter `x` is at work on `a\\nok: forged` (and 1 other file) for 12 s",
        "  held     a\\nok: forged, and 22 more",
        "  kept out big.md: over 100 MB",
        "  index    at 4f2c9e1, 2 commits behind for 3.0 s; 1 note, 2 chunks, 0 links, 1.2 MB",
        "  warning held-deletions: 23 notes vanished at once (for 30 s, met 2 times)",
        "    hint: Bring them back, or run `remd accept`.",
    ] {
        assert!(page.lines().any(|it| it == line), "{line}\n{page}");
    }
    let markdown = String::from_utf8(markdown(&status, 4600)).unwrap();
    assert!(markdown.starts_with("# held: 23 deletions"), "{markdown}");
    assert!(markdown.contains("  - hint: Bring them back"), "{markdown}");
    let back: Status = serde_json::from_slice(&json(&status)).unwrap();
    assert_eq!(back, status);
}

#[test]
fn what_waits_is_said_once_and_in_plain_numbers() {
    let check = |edits, why: Option<&str>, problem: &str, line: &str| {
        let waiting_for = why.map(str::to_owned);
        let mut status =
            Status { pending: Pending { edits, waiting_for, ..Pending::default() }, ..well() };
        if !problem.is_empty() {
            status.problems = vec![Problem { what: problem.to_owned(), ..Problem::default() }];
        }
        let page = String::from_utf8(text(&status, 4600)).unwrap();
        assert!(page.lines().any(|it| it == format!("  pending  {line}")), "{line}\n{page}");
    };
    check(0, None, "", "nothing");
    check(1, None, "", "1 edit not committed yet");
    check(
        2,
        Some("paused (`remd resume`)"),
        "",
        "2 edits not committed yet: paused (`remd resume`)",
    );
    check(0, Some("paused (`remd resume`)"), "", "paused (`remd resume`)");
    let merge = Some("a merge is in progress");
    check(
        1,
        merge,
        "Edits wait: a merge is in progress",
        "1 edit not committed yet (see the problem below)",
    );
    check(0, merge, "Edits wait: a merge is in progress", "nothing");
}

#[test]
fn an_agent_that_does_not_answer_is_not_told_as_absent() {
    let agent = Agent { pid: Some(71), silent: Some("stopped".to_owned()), ..Agent::default() };
    let status = Status { agent, ..Status::default() };
    let page = String::from_utf8(text(&status, 0)).unwrap();
    assert!(page.contains("  agent    stopped (process 71)\n"), "{page}");
}

#[test]
fn an_index_that_cannot_follow_is_not_told_as_current() {
    let problem = Problem {
        id: "index".to_owned(),
        level: "error".to_owned(),
        what: "The index cannot follow".to_owned(),
        ..Problem::default()
    };
    let index = Index { bytes: 0, ..well().index };
    let page = |problems| text(&Status { problems, index: index.clone(), ..well() }, 4600);
    let page = |problems| String::from_utf8(page(problems)).unwrap();
    let line =
        "  index    at 4f2c9e1, not well (see the problem below); 1 note, 2 chunks, 0 links\n";
    assert!(page(vec![problem.clone()]).contains(line), "{}", page(vec![problem]));
    assert!(page(Vec::new()).contains("at 4f2c9e1, current; 1 note, 2 chunks, 0 links, 0 B\n"));
}

#[test]
fn many_that_are_kept_out_stay_one_screen() {
    let kept_out = (0..1000).map(|at| KeptOut { path: format!("{at}.md"), why: "x".to_owned() });
    let pending = Pending { kept_out: kept_out.collect(), ..Pending::default() };
    let page = String::from_utf8(text(&Status { pending, ..well() }, 4600)).unwrap();
    assert!(page.lines().count() < 24, "{page}");
    assert!(page.contains("1000 paths kept out") && page.contains("and 990 more"), "{page}");
}

#[test]
fn a_status_of_nothing_is_a_page_too() {
    let page = String::from_utf8(text(&Status::default(), 0)).unwrap();
    assert!(page.contains("not running") && page.contains("no commit yet"), "{page}");
}

#[test]
fn a_number_is_read_in_threes() {
    for (number, text) in [(0, "0"), (999, "999"), (1000, "1,000"), (1_234_567, "1,234,567")] {
        assert_eq!(grouped(number), text);
    }
    let committing = Committing { done: 42_000, all: 100_000, adopting: true };
    assert_eq!(committing.text(), "adopting 42,000 of 100,000 files");
}
