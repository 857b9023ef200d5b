//! The mount with a provider that wants money: looking is free, opening asks once, and no reader
//! waits for one that is silent.

use std::fs;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::house::{House, has_fuse, wait_for};
use crate::providers::server::{Act, Server, say};
use crate::providers::{answer, house, openai, problem, sent, settings, wait_for_model};
use crate::suspended::{Freezer, GONE_BY, ends, reader, signal};

/// An agent with its mount, whose notes have their vectors.
fn mounted(config: &str) -> House {
    let mut house = house("");
    house.stop();
    house.write("digest/wiki/wheels.md", "---\nname: Wheels\n---\nA bicycle has two.\n");
    settings(&house, config);
    house.args([]).start();
    house.settle();
    wait_for_model(&house, "m3");
    wait_for("the mount", || house.status()["mount"]["state"] == "mounted");
    house
}

fn shell(house: &House, line: &str) -> String {
    let output = Command::new("timeout")
        .args(["-k", "1", "120", "bash", "-c", line])
        .env("M", &house.mount)
        .env("T", house.root())
        .env("HOME", house.root().join("home"))
        .output()
        .unwrap();
    String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
}

/// Everything that programs do unasked, and whoever asks for a size: nobody pays for it.
#[test]
fn a_look_sends_a_provider_nothing_and_a_question_goes_out_once_g05() {
    if !has_fuse("a_look_sends_a_provider_nothing_and_a_question_goes_out_once_g05") {
        return;
    }
    let server = Server::start(|request, _| match request.path.as_str() {
        "/v1/embeddings" => answer(request, 3),
        _ => say(200, json!({"results": [{"index": 0, "relevance_score": 1.0}]})),
    });
    let rerank = format!(
        "reranker_config:\n  enabled: true\n  api_key: k\n  base_url: {}\n  model_name: r\n",
        server.url()
    );
    let house = mounted(&(openai(&server, 3) + &rerank));
    let before = server.requests().len();
    let said = shell(
        &house,
        r#"cd "$M"; updatedb -l no -U "$M" -o "$T/db"; find . > "$T/o"; grep -r needle . > "$T/o"
        du -sh . > "$T/o"; for i in 1 2 3 4 5; do ls -la . search nodes links > "$T/o"; done
        git -C "$M" status > "$T/o" 2>&1; compgen -f "$M/sea"; compgen -f "$M/search/tra"
        for d in . search nodes links note similar; do
            for p in .git .Trash .Trash-1000 .hidden autorun.inf desktop.ini .DS_Store .obsidian \
                .vscode package.json HEAD; do [ -e "$d/$p" ] && echo "EXISTS $d/$p"; done
        done
        stat search/two\ wheels search/two\ wheels.json nodes/two\ wheels search/limit=2/a\ supper \
            similar/commute.md > "$T/o" || echo FAILED
        [ -s search/two\ wheels ] || echo EMPTY
        ls -lL links/two\ wheels/ > "$T/o" || echo FAILED
        cat links/*/01-* > "$T/o" 2>&1; cat similar/commute.md > "$T/o" || echo FAILED"#,
    );
    for word in ["EXISTS", "FAILED", "EMPTY"] {
        assert!(!said.contains(word), "{said}");
    }
    assert_eq!(server.requests().len(), before, "{:?}", &server.requests()[before..]);

    let page = house.cat("search/two wheels");
    assert!(page.contains("========== commute.md:1-3 "), "{page}");
    assert!(page.ends_with(", keyword + vector\n"), "{page}");
    assert_eq!(
        fs::metadata(house.mount.join("search/two wheels")).unwrap().len(),
        page.len() as u64
    );
    for other in ["search/two wheels.json", "search/limit=2/two wheels", "nodes/two wheels"] {
        house.cat(other);
    }
    shell(
        &house,
        "cd $M; find . > $T/o; grep -r wheels . > $T/o; ls -lL links/two\\ wheels > $T/o",
    );
    house.write("new.md", "# New\n\nThree wheels.\n");
    house.settle();
    wait_for_model(&house, "m3");
    house.cat("search/two wheels");
    let asked = |server: &Server, question: &str| {
        sent(server).iter().filter(|it| it.as_str() == question).count()
    };
    assert_eq!(asked(&server, "two wheels"), 1, "{:?}", sent(&server));
    // Many at once, in several forms, of a question that nobody asked yet.
    shell(
        &house,
        "cd $M; for i in 1 2 3 4; do for f in search nodes search/limit=$i; do for e in '' .json .md; \
         do cat \"$f/a warm supper$e\" > $T/o.$i & done; done; done; wait",
    );
    assert_eq!(asked(&server, "a warm supper"), 1, "{:?}", sent(&server));
    assert_eq!(
        (&house.status()["mount"]["sent"], &house.status()["mount"]["withheld"]),
        (&2.into(), &0.into())
    );
    let reranked = server.requests().iter().filter(|it| it.path != "/v1/embeddings").count();
    assert_eq!(reranked, 0, "who opens a page has not asked for another order");
}

#[test]
fn what_the_mount_asks_in_a_minute_is_bounded_and_the_page_says_so_g05() {
    if !has_fuse("what_the_mount_asks_in_a_minute_is_bounded_and_the_page_says_so_g05") {
        return;
    }
    let server = Server::start(|request, _| answer(request, 3));
    let limited =
        |most: usize| format!("mount:\n  paid_per_minute: {most}\n{}", openai(&server, 3));
    let house = mounted(&limited(3));
    let before = sent(&server).len();
    let pages = |house: &House| -> Vec<String> {
        (0..6).map(|at| house.cat(&format!("search/the wheels of year {at}"))).collect()
    };
    let whole =
        |pages: &[String]| pages.iter().filter(|it| it.ends_with("keyword + vector\n")).count();
    let first = pages(&house);
    // A machine so slow that a minute passes has more.
    let sent_now = sent(&server).len() - before;
    assert_eq!(whole(&first), sent_now);
    assert!((3..6).contains(&sent_now), "{sent_now}");
    let refused = first.iter().find(|it| !it.ends_with("keyword + vector\n")).unwrap();
    let why = "(vector off: the mount has asked the provider enough for this minute)\n";
    assert!(refused.ends_with(why) && refused.contains("wheels.md"), "{refused}");
    let mount = house.status()["mount"].clone();
    assert_eq!(
        (mount["sent"].as_u64(), mount["withheld"].as_u64()),
        (Some(sent_now as u64), Some(6 - sent_now as u64))
    );
    assert!(house.run(["status"]).stdout.contains(" more than `mount.paid_per_minute`"));
    // Whoever asks by a command means it.
    let said = house.run(["search", "the wheels of another year"]);
    assert!(said.stdout.ends_with(", keyword + vector\n"), "{}", said.stdout);
    // No page of that outlives its reason.
    settings(&house, &limited(100));
    assert_eq!(house.run(["reload"]).code, 0);
    let again = pages(&house);
    assert_eq!(whole(&again), 6, "{again:?}");
    assert_eq!(sent(&server).len() - before, 7, "each question once: {:?}", sent(&server));
    settings(&house, &limited(0));
    assert_eq!(house.run(["reload"]).code, 0);
    assert!(house.cat("search/wheels that nobody asked for").ends_with(why));
    assert_eq!(whole(&pages(&house)), 6, "what was paid for is there");
}

/// Readers of a provider that hangs: answered by words in time, frozen, killed, and the agent ends.
#[test]
fn a_provider_that_hangs_holds_up_no_reader_g06() {
    if !has_fuse("a_provider_that_hangs_holds_up_no_reader_g06") {
        return;
    }
    let hangs = Arc::new(AtomicBool::new(false));
    let now = Arc::clone(&hangs);
    let server = Server::start(move |request, _| match now.load(Ordering::SeqCst) {
        true => Act::Hang,
        false => answer(request, 3),
    });
    let mut house = mounted(&openai(&server, 3));
    hangs.store(true, Ordering::SeqCst);
    let question = |at: usize| format!("search/wheels of the year {at}");
    let start = Instant::now();
    let mut waiting: Vec<_> = (0..20).map(|at| reader(&house, &question(at))).collect();
    // A look at the same names waits for nobody.
    for at in 0..20 {
        assert!(fs::metadata(house.mount.join(question(at))).unwrap().len() > 0);
    }
    ends(&mut waiting, GONE_BY, "waiting");
    assert!(
        waiting.iter_mut().all(|it| it.wait().unwrap().success()),
        "words answered all of them"
    );
    for page in ["search/wheels again", "nodes/wheels again"] {
        let text = house.cat(page);
        assert!(text.contains("heels.md"), "{text}");
        assert!(text.ends_with("(vector off: the model gave no answer)\n"), "{text}");
    }
    wait_for("the provider to be named", || problem(&house, "embedding").is_some());

    let mut frozen: Vec<_> = (20..30).map(|at| reader(&house, &question(at))).collect();
    let mut killed: Vec<_> = (30..40).map(|at| reader(&house, &question(at))).collect();
    let freezer = Freezer::make();
    if let Some(freezer) = &freezer {
        frozen.iter().for_each(|it| freezer.add(it.id()));
        freezer.set(true);
    }
    killed.iter().for_each(|it| signal(it.id(), libc::SIGKILL));
    ends(&mut killed, GONE_BY, "killed");
    if let Some(freezer) = &freezer {
        wait_for("the cgroup to freeze", || freezer.is_frozen());
    }
    drop(freezer);
    ends(&mut frozen, GONE_BY, "thawed");
    assert!(start.elapsed() < Duration::from_secs(20) + 3 * GONE_BY);

    // What was said while it was silent is not kept.
    hangs.store(false, Ordering::SeqCst);
    for page in ["search/wheels again", "nodes/wheels again"] {
        wait_for("the answer by meaning", || house.cat(page).ends_with(", keyword + vector\n"));
    }
    hangs.store(true, Ordering::SeqCst);
    let mut last: Vec<_> = (40..60).map(|at| reader(&house, &question(at))).collect();
    let start = Instant::now();
    assert_eq!(house.stop(), Some(0));
    assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
    ends(&mut last, GONE_BY, "left behind");
}
