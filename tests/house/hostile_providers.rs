//! Providers that answer badly, too late, or not to this text: named, never taken for an answer,
//! and in nobody's way.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::json;

use crate::house::{House, wait_for};
use crate::providers::server::{Act, Request, Server, say, texts};
use crate::providers::{
    answer, first, house, openai, problem, sent, settings, vectors, wait_for_model,
};

fn is_ping(request: &Request) -> bool {
    texts(&request.body) == ["ping"]
}

/// H03: what cannot be read is no answer, and what it was asked for is not done.
#[test]
fn an_answer_that_cannot_be_read_is_never_taken_for_one_h03() {
    let bad = [
        "",
        "<html>busy</html>",
        "{}",
        "[]",
        r#"{"data": null}"#,
        r#"{"data": []}"#,
        r#"{"data": [{"index": 0, "embedding": [1, 2"#,
        r#"{"data": [{"index": 0, "embedding": "\ud83d"}]}"#,
        r#"{"data": [{"index": 0, "embedding": "\u00"}]}"#,
        r#"{"data": [{"index": 7, "embedding": [1, 0, 0]}]}"#,
    ];
    let mode = Arc::new(AtomicUsize::new(0));
    let now = Arc::clone(&mode);
    let server = Server::start(move |request, _| match bad.get(now.load(Ordering::SeqCst)) {
        Some(bad) if !is_ping(request) => Act::Say(200, Vec::new(), (*bad).to_owned()),
        _ => answer(request, 3),
    });
    let config = |round: usize| {
        let batch = format!("embedding_model_config:\n  max_batch_size: {}\n", round + 3);
        openai(&server, 3).replace("embedding_model_config:\n", &batch)
    };
    let house = house(&config(0));
    for (at, bad) in bad.iter().enumerate() {
        mode.store(at, Ordering::SeqCst);
        let asked = server.requests().len();
        settings(&house, &config(at + 1));
        assert_eq!(house.run(["reload"]).code, 0);
        wait_for("the notes to be sent", || {
            server.requests()[asked..].iter().any(|it| !is_ping(it))
        });
        wait_for("the problem", || problem(&house, "embedding").is_some());
        let vectors = vectors(&house);
        assert_eq!(
            (&vectors["model"], &vectors["next"]["done"]),
            (&json!("remd-static-256"), &json!(0)),
            "{bad}"
        );
        assert_eq!(first(&house, "travelling to work on two wheels"), "commute.md");
    }
    mode.store(bad.len(), Ordering::SeqCst);
    wait_for_model(&house, "m3");
    wait_for("its end", || problem(&house, "embedding").is_none());
    assert_eq!(vectors(&house)["vectors"], 3, "each note once");
}

/// What is no direction is no vector: the note is named, and found by its words, until an edit.
#[test]
fn a_text_that_a_model_does_not_take_is_named_until_it_is_another() {
    let server = Server::start(|request, _| {
        let vector = |text: &String| match text.contains("sorrel") {
            true => json!([0, 0, 0]),
            false => json!([1, 0.5, text.len() % 7]),
        };
        let texts = texts(&request.body);
        let data: Vec<_> = (0..texts.len())
            .map(|at| json!({"index": at, "embedding": vector(&texts[at])}))
            .collect();
        Act::Say(200, Vec::new(), json!({"data": data}).to_string())
    });
    let house = house(&openai(&server, 3));
    house.write("pulses.md", "# Pulses\n\nA sorrel.\n");
    house.settle();
    wait_for_model(&house, "m3");
    wait_for("its name", || problem(&house, "embedding-refused").is_some());
    let said = problem(&house, "embedding-refused").unwrap().to_string();
    assert!(said.contains("`pulses.md`") && said.contains("vector is zero"), "{said}");
    assert_eq!(house.status()["verdict"], "ok");
    assert_eq!(first(&house, "sorrel"), "pulses.md");
    house.write("pulses.md", "# Pulses\n\nRed beans.\n");
    house.settle();
    wait_for("its end", || problem(&house, "embedding-refused").is_none());
    // And one that is deleted is named no longer.
    house.write("pulses.md", "# Pulses\n\nA sorrel again.\n");
    wait_for("its name", || problem(&house, "embedding-refused").is_some());
    std::fs::remove_file(house.at("pulses.md")).unwrap();
    house.settle();
    wait_for("its end", || problem(&house, "embedding-refused").is_none());
}

/// H08: a model that takes no text, however well it answers a `ping`, is searched by nobody.
#[test]
fn a_model_without_vectors_takes_no_place_and_is_named_until_it_has_some_h08() {
    let is_mended = Arc::new(AtomicUsize::new(0));
    let now = Arc::clone(&is_mended);
    let server = Server::start(move |request, _| {
        if is_ping(request) || now.load(Ordering::SeqCst) == 1 {
            return answer(request, 3);
        }
        let zero = |at: usize| json!({"index": at, "embedding": [0, 0, 0]});
        let data: Vec<_> = (0..texts(&request.body).len()).map(zero).collect();
        Act::Say(200, Vec::new(), json!({"data": data}).to_string())
    });
    let mut house = house(&openai(&server, 3));
    let check = |house: &House| {
        wait_for("its name", || problem(house, "embedding-mute").is_some());
        let said = problem(house, "embedding-mute").unwrap();
        let what = said["what"].as_str().unwrap();
        assert!(what.starts_with("`m3` is not searched: it gives no vector of 3 of 3"), "{what}");
        assert!(what.contains("vector is zero") && what.contains("`remd-static-256`"), "{what}");
        assert!(said["remedy"].as_str().unwrap().contains("`remd reload`"), "{said}");
        assert_eq!(
            (&said["level"], &house.status()["verdict"]),
            (&json!("warning"), &json!("degraded"))
        );
        let vectors = vectors(house);
        assert_eq!(
            (&vectors["model"], &vectors["missing"]),
            (&json!("remd-static-256"), &json!(0))
        );
        assert_eq!(first(house, "travelling to work on two wheels"), "commute.md");
        let said = house.run(["search", "travelling to work on two wheels"]);
        assert!(!said.stdout.contains("vector off"), "{}", said.stdout);
    };
    check(&house);
    house.stop();
    house.start();
    house.settle();
    check(&house);
    is_mended.store(1, Ordering::SeqCst);
    assert_eq!(house.run(["reload"]).code, 0);
    wait_for_model(&house, "m3");
    wait_for("its end", || {
        ["embedding-mute", "embedding-refused"].iter().all(|it| problem(&house, it).is_none())
    });
    assert_eq!(
        (&vectors(&house)["vectors"], &house.status()["verdict"]),
        (&json!(3), &json!("ok"))
    );
}

/// The one before keeps a question to itself: `status` says that the new one is not asked yet.
#[test]
fn a_provider_that_waits_for_the_one_before_it_is_named() {
    let is_over = Arc::new(AtomicUsize::new(0));
    let over = Arc::clone(&is_over);
    let silent = Server::start(move |_, _| {
        while over.load(Ordering::SeqCst) == 0 {
            std::thread::yield_now();
        }
        Act::Drop
    });
    let long = "health_check_timeout: 300";
    let house = house(&openai(&silent, 3).replace("health_check_timeout: 0.5", long));
    wait_for("a question", || !silent.requests().is_empty());
    let good = Server::start(|request, _| answer(request, 4));
    settings(&house, &openai(&good, 4));
    assert_eq!(house.run(["reload"]).code, 0);
    wait_for("its name", || problem(&house, "embedding-unasked").is_some());
    let said = problem(&house, "embedding-unasked").unwrap().to_string();
    assert!(said.contains("`m4` has not been asked yet"), "{said}");
    assert_eq!(house.status()["verdict"], "degraded");
    is_over.store(1, Ordering::SeqCst);
    wait_for_model(&house, "m4");
    assert_eq!(problem(&house, "embedding-unasked"), None);
}

/// H05: a pause that a provider asks for is kept by everybody, and nobody starves in it.
#[test]
fn a_pause_is_kept_and_a_question_does_not_starve_in_it_h05() {
    let mode = Arc::new(AtomicUsize::new(0));
    let now = Arc::clone(&mode);
    let server = Server::start(move |request, _| {
        if is_ping(request) {
            return answer(request, 3);
        }
        let wait = |it: &str| vec![("retry-after", it.to_owned())];
        match now.load(Ordering::SeqCst) {
            0 => Act::Say(429, wait("1e9"), "{}".to_owned()),
            1 => {
                let error =
                    json!({"error": {"code": "insufficient_quota", "message": "none left"}});
                say(429, error)
            }
            _ => answer(request, 3),
        }
    });
    let house = house(&openai(&server, 3));
    let what = |wanted: &str| {
        wait_for(wanted, || {
            problem(&house, "embedding")
                .is_some_and(|it| it["what"].as_str().unwrap().contains(wanted))
        });
    };
    what("rate limited until ");
    let asked = server.requests().len();
    for _ in 0..5 {
        assert_eq!(first(&house, "travelling to work on two wheels"), "commute.md");
    }
    house.write("new.md", "# New\n\nSomething warm for supper.\n");
    house.settle();
    assert_eq!(first(&house, "supper"), "new.md");
    assert_eq!(server.requests().len(), asked, "nothing is sent in a pause");
    // Another client, with a pause of its own: none.
    mode.store(1, Ordering::SeqCst);
    let batch = "embedding_model_config:\n  max_batch_size: 9\n";
    settings(&house, &openai(&server, 3).replace("embedding_model_config:\n", batch));
    assert_eq!(house.run(["reload"]).code, 0);
    what("quota is used up: none left");
    mode.store(2, Ordering::SeqCst);
    wait_for_model(&house, "m3");
    assert_eq!(problem(&house, "embedding"), None);
}

/// A server that takes 512 tokens a text: a character of Chinese is one, four others are one.
fn small(request: &Request) -> Act {
    let tokens = |text: &String| {
        let wide = text.chars().filter(|it| *it > '\u{2e7f}').count();
        wide + (text.chars().count() - wide).div_ceil(4)
    };
    match texts(&request.body).iter().all(|it| tokens(it) <= 512) {
        true => answer(request, 3),
        false => {
            let message = "input length exceeds the context length";
            say(400, json!({"error": {"message": message}}))
        }
    }
}

/// H06: what is too long for a model is cut or marked, tried a few times, and costs no other note
/// its vector.
#[test]
fn a_text_that_is_too_long_costs_no_neighbour_and_is_not_sent_for_ever_h06() {
    let server = Server::start(|request, _| small(request));
    let mut house = house("");
    house.write("long.md", format!("# 推論\n\n{}\n", "機器推論洗成權威事實".repeat(400)));
    let row = "17,4.25,bicycle,2026-11-30,none\n";
    house.write("table.md", row.repeat(4431 / row.len()));
    house.write("smile.md", "🚲".repeat(40));
    for at in 0..32 {
        let text = match at {
            7 => "w ".repeat(6000),
            _ => format!("note {at} about lentils"),
        };
        house.write(format!("many/{at}.md"), text);
    }
    house.settle();
    house.stop();
    settings(&house, &openai(&server, 3));
    house.start();
    house.settle();
    wait_for_model(&house, "m3");
    assert_eq!(problem(&house, "embedding"), None);
    let mut times: HashMap<String, usize> = HashMap::new();
    for text in sent(&server) {
        *times.entry(text).or_default() += 1;
    }
    let most = times.iter().max_by_key(|it| it.1).unwrap();
    assert!(*most.1 <= 5, "sent {} times: {:.40}", most.1, most.0);
    // All is well, and it stays so: nothing is asked for any more.
    let asked = server.requests().len();
    house.write("last.md", "# Last\n\nOne about the bicycle.\n");
    house.settle();
    wait_for_model(&house, "m3");
    assert_eq!(server.requests().len(), asked + 1);
    let notes = house.status()["index"]["notes"].as_u64().unwrap();
    assert!(vectors(&house)["vectors"].as_u64().unwrap() >= notes, "each has one at least");
}

/// An answer with a vector for each text, but for those with these words.
fn fails_on(request: &Request, silent: &str, zero: &str) -> Act {
    let texts = texts(&request.body);
    if texts.iter().any(|it| it.contains(silent)) {
        return Act::Say(200, Vec::new(), "<html>out of memory</html>".to_owned());
    }
    let vector = |text: &String| match text.contains(zero) {
        true => json!([0, 0, 0]),
        false => json!([1, 0.5, text.len() % 7]),
    };
    let data: Vec<_> =
        (0..texts.len()).map(|at| json!({"index": at, "embedding": vector(&texts[at])})).collect();
    Act::Say(200, Vec::new(), json!({"data": data}).to_string())
}

/// A note that a provider fails on is named, keeps no other from its vectors and no space from its
/// turn, is not asked for without a pause, and has its vectors when the provider is better.
#[test]
fn a_note_that_a_provider_fails_on_stands_in_nobody_s_way_and_recovers() {
    let is_better = Arc::new(AtomicUsize::new(0));
    let now = Arc::clone(&is_better);
    let server = Server::start(move |request, _| match now.load(Ordering::SeqCst) {
        0 => fails_on(request, "sorrel", "\u{0}"),
        _ => fails_on(request, "\u{0}", "\u{0}"),
    });
    let house = house("");
    for number in 0..20 {
        house.write(format!("n/{number:02}.md"), format!("# Note {number}\n\nText {number}.\n"));
    }
    house.write("a.md", "# First of all\n\nA sorrel.\n");
    house.settle();
    settings(&house, &openai(&server, 3));
    assert_eq!(house.run(["reload"]).code, 0);
    wait_for("the others' vectors", || {
        let vectors = vectors(&house);
        vectors["model"] == "m3" && vectors["missing"] == 1 && vectors["next"].is_null()
    });
    wait_for("its name", || problem(&house, "embedding-notes").is_some());
    let said = problem(&house, "embedding-notes").unwrap().to_string();
    assert!(said.contains("`a.md`") && said.contains("answers for others"), "{said}");
    assert!(problem(&house, "embedding").is_none(), "the provider is well: {said}");
    // Who comes now has its turn at once, however long the other one waits.
    house.write("late.md", "# Late\n\nIt came later.\n");
    house.settle();
    wait_for("its vectors", || vectors(&house)["missing"] == 1);
    assert_eq!(first(&house, "sorrel"), "a.md");
    let asked = sent(&server).iter().filter(|it| it.contains("sorrel")).count();
    assert!(asked < 30, "it is asked for ever more rarely, not {asked} times");
    is_better.store(1, Ordering::SeqCst);
    wait_for("its vectors", || vectors(&house)["missing"] == 0);
    wait_for("the end of the problem", || problem(&house, "embedding-notes").is_none());
}

/// The index made anew asks in batches, goes on over what the provider refuses and says so, waits
/// for one that is away and says that, too; and a restart forgets no name.
#[test]
fn a_reindex_goes_on_over_what_a_provider_refuses_and_names_it_over_restarts() {
    let mode = Arc::new(AtomicUsize::new(0));
    let now = Arc::clone(&mode);
    let server = Server::start(move |request, _| match now.load(Ordering::SeqCst) {
        1 => Act::Say(500, Vec::new(), "{}".to_owned()),
        _ => fails_on(request, "\u{0}", "sorrel"),
    });
    // Nothing that was paid for is kept, so that all is asked for anew.
    let config = openai(&server, 3) + "  enable_cache: false\n";
    let mut house = house(&config);
    for number in 0..20 {
        house.write(format!("n/{number:02}.md"), format!("# Note {number}\n\nText {number}.\n"));
    }
    house.write("a.md", "# First of all\n\nA sorrel.\n");
    house.settle();
    wait_for_model(&house, "m3");
    let is_named = |house: &House| {
        problem(house, "embedding-refused").is_some_and(|it| it.to_string().contains("`a.md`"))
    };
    wait_for("its name", || is_named(&house));
    // Anew, while the provider is away at first.
    mode.store(1, Ordering::SeqCst);
    assert_eq!(house.run(["reindex", "--scope", "embedding"]).code, 0);
    let under_way = |house: &House| house.status()["index"]["reindex"]["text"].to_string();
    wait_for("why it does not go on", || under_way(&house).contains("asked again in"));
    assert!(under_way(&house).contains("server failed (500)"), "{}", under_way(&house));
    let asked = server.requests().len();
    mode.store(0, Ordering::SeqCst);
    wait_for("its end", || house.status()["index"]["reindex"].is_null());
    let batches = server.requests()[asked..].iter().filter(|it| texts(&it.body).len() > 1).count();
    assert!((1..10).contains(&batches), "{batches} requests for 24 notes");
    wait_for("its name", || is_named(&house));
    assert!(problem(&house, "reindex").is_none());
    assert_eq!(vectors(&house)["missing"], 0);
    // Called off while the provider keeps everybody waiting.
    mode.store(1, Ordering::SeqCst);
    assert_eq!(house.run(["reindex"]).code, 0);
    wait_for("why it does not go on", || under_way(&house).contains("asked again in"));
    assert_eq!(house.run(["reindex", "--cancel"]).code, 0);
    mode.store(0, Ordering::SeqCst);
    wait_for("another can be asked for", || house.run(["reindex", "--scope", "tag"]).code == 0);
    wait_for("its end", || house.status()["index"]["reindex"].is_null());
    // After a stop and after a kill.
    house.stop();
    house.start();
    wait_for("its name after a restart", || is_named(&house));
    house.kill();
    house.start();
    wait_for("its name after a kill", || is_named(&house));
    // As a command, too.
    house.stop();
    let said = house.run(["reindex", "--scope", "embedding"]);
    assert_eq!(said.code, 0, "{}", said.stderr);
    assert!(said.stderr.contains("does not take a text of `a.md`"), "{}", said.stderr);
    house.start();
    wait_for("its name", || is_named(&house));
    house.write("a.md", "# First of all\n\nA bean.\n");
    house.settle();
    wait_for("its end", || problem(&house, "embedding-refused").is_none());
    house.stop();
    house.start();
    house.settle();
    wait_for_model(&house, "m3");
    assert!(problem(&house, "embedding-refused").is_none());
}
