//! Models by the settings: a provider is asked, kept from being in the way, and left behind.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};

use crate::house::{House, has_fuse, wait_for};

#[path = "../../src/embed/remote/testing.rs"]
#[allow(dead_code, reason = "the unit tests use all of it")]
pub mod server;

use server::{Act, Request, Server, say, texts};

/// What nobody may ever see.
const KEY: &str = "sk-very-secret-4711";

/// A vector by what a text is about: riding, cooking, or something else.
fn about(text: &str, dimension: usize) -> Vec<f64> {
    let text = text.to_lowercase();
    let has = |words: &[&str]| words.iter().any(|it| text.contains(it));
    let mut vector = vec![0.01; dimension];
    let axis = match () {
        () if has(&["bicycle", "wheels"]) => 0,
        () if has(&["lentils", "supper"]) => 1,
        () => 2,
    };
    vector[axis] = 1.0;
    vector
}

pub fn answer(request: &Request, dimension: usize) -> Act {
    let data: Vec<Value> = texts(&request.body)
        .iter()
        .enumerate()
        .map(|(at, text)| json!({"index": at, "embedding": about(text, dimension)}))
        .collect();
    say(200, json!({"data": data}))
}

fn provider(dimension: usize) -> Server {
    Server::start(move |request, _| answer(request, dimension))
}

/// All texts that were sent, but for the health check's.
pub fn sent(server: &Server) -> Vec<String> {
    let all = server.requests().iter().flat_map(|it| texts(&it.body)).collect::<Vec<_>>();
    all.into_iter().filter(|it| it != "ping").collect()
}

pub fn settings(house: &House, text: &str) {
    let folder = house.root().join("home/.config/remd");
    fs::create_dir_all(&folder).unwrap();
    let file = folder.join("config.yaml");
    fs::write(&file, text).unwrap();
    fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
}

pub fn openai(server: &Server, dimension: usize) -> String {
    format!(
        "embedding_model_config:\n  backend: openai\n  api_key: {KEY}\n  base_url: {}/v1\n  \
         model_name: m{dimension}\n  dimensions: {dimension}\n  health_check_timeout: 0.5\n",
        server.url()
    )
}

/// A vault of three notes whose agent has these settings.
pub fn house(config: &str) -> House {
    let mut house = House::closed();
    fs::create_dir(&house.vault).unwrap();
    house.git(["init", "-q", "-b", "main"]);
    house.write("commute.md", "# Commute\n\nEvery morning I ride my bicycle to the office.\n");
    house.write("soup.md", "# Soup\n\nBoil lentils with carrots, salt and a bay leaf.\n");
    house.write("db.md", "# Database\n\nWe left MySQL; Postgres it is now.\n");
    settings(&house, config);
    house.args(["--no-mount"]);
    house.start();
    house.settle();
    house
}

pub fn vectors(house: &House) -> Value {
    house.status()["index"]["vectors"].clone()
}

pub fn problem(house: &House, id: &str) -> Option<Value> {
    let status = house.status();
    let problems = status["problems"].as_array().unwrap().clone();
    problems.into_iter().find(|it| it["id"] == id)
}

pub fn wait_for_model(house: &House, model: &str) {
    wait_for("the vectors of the model", || {
        let vectors = vectors(house);
        vectors["model"] == model && vectors["missing"] == 0 && vectors["next"].is_null()
    });
}

/// The first note of an answer.
pub fn first(house: &House, query: &str) -> String {
    let said = house.run(["search", query]);
    assert_eq!(said.code, 0, "{}{}", said.stdout, said.stderr);
    let line = said.stdout.lines().next().unwrap().to_owned();
    line.trim_start_matches("========== ").split(':').next().unwrap().to_owned()
}

/// The key is in nothing that anybody reads, and in no file of the vault.
fn check_secret(house: &House) {
    assert!(!house.log().contains(KEY), "{}", house.log());
    for args in [&["status"][..], &["status", "--json"], &["config", "list"], &["model", "list"]] {
        let said = house.run(args);
        assert!(!format!("{}{}", said.stdout, said.stderr).contains(KEY), "{args:?}");
    }
    let found = std::process::Command::new("grep")
        .args(["-r", "-l", KEY])
        .arg(&house.vault)
        .output()
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&found.stdout), "");
}

#[test]
fn a_provider_of_the_settings_takes_over_when_it_has_seen_all_notes() {
    let server = provider(3);
    let house = house(&openai(&server, 3));
    wait_for_model(&house, "m3");
    assert_eq!(first(&house, "something with two wheels"), "commute.md");
    let vault = house.vault.display();
    let log = house.log();
    let health = format!("[EMBEDDING HEALTH CHECK] name=default workspace_dir={vault} -> OK\n");
    assert!(log.contains(&health), "{log}");
    assert!(log.contains(" vector_hits=3 keyword_hits="), "{log}");
    let requests = server.requests();
    assert!(requests.iter().all(|it| it.path == "/v1/embeddings"));
    assert!(requests.iter().all(|it| it.headers["authorization"] == format!("Bearer {KEY}")));
    let status = house.status();
    assert_eq!(status["verdict"], "ok", "{status:#}");
    check_secret(&house);
}

#[test]
fn no_text_is_paid_for_twice_whatever_becomes_of_its_note() {
    let server = provider(3);
    let mut house = house(&openai(&server, 3));
    wait_for_model(&house, "m3");
    let paid = sent(&server).len();
    assert_eq!(paid, 3, "{:?}", sent(&server));
    fs::rename(house.at("soup.md"), house.at("supper.md")).unwrap();
    fs::copy(house.at("db.md"), house.at("db-again.md")).unwrap();
    house.settle();
    wait_for_model(&house, "m3");
    house.stop();
    for folder in ["vector_index", "keyword_index"] {
        fs::remove_dir_all(house.at("mem_metadata").join(folder)).unwrap();
        house.start();
        house.settle();
        wait_for_model(&house, "m3");
        house.stop();
    }
    assert_eq!(sent(&server).len(), paid, "{:?}", sent(&server));
    house.start();
    assert_eq!(first(&house, "a warm supper"), "supper.md");
}

#[test]
fn half_a_configuration_is_named_and_mended_without_a_restart() {
    let server = provider(3);
    let config = openai(&server, 3);
    let without = |key: &str| {
        let lines = config.lines().filter(|it| !it.trim_start().starts_with(key));
        lines.map(|it| format!("{it}\n")).collect::<String>()
    };
    let mut house = house(&without("api_key"));
    for (key, name) in [("api_key", "openai"), ("model_name", "openai")] {
        settings(&house, &without(key));
        assert_eq!(house.run(["reload"]).code, 0);
        wait_for("what is missing to be named", || {
            problem(&house, "model").is_some_and(|it| {
                let what = it["what"].as_str().unwrap().to_owned();
                what.ends_with(&format!("`{name}` needs `embedding_model_config.{key}`"))
                    && it["remedy"].as_str().unwrap().contains("config.yaml")
            })
        });
        wait_for_model(&house, "remd-static-256");
        assert_eq!(first(&house, "travelling to work on two wheels"), "commute.md");
    }
    assert_eq!(sent(&server), [""; 0], "nobody was asked");
    settings(&house, &config);
    assert_eq!(house.run(["reload"]).code, 0);
    wait_for_model(&house, "m3");
    assert_eq!(problem(&house, "model"), None);
    // Bad values keep the last good ones; ollama needs no key.
    settings(&house, &config.replace("dimensions: 3", "dimensions: many"));
    let said = house.run(["reload"]);
    assert!(said.stderr.contains("config.yaml:6"), "{}", said.stderr);
    assert_eq!(vectors(&house)["model"], "m3");
    house.stop();
    settings(&house, "embedding_model_config:\n  backend: ollama\n  base_url: localhost:1\n");
    let status = house.status();
    assert!(status["problems"].to_string().contains("`ollama` needs"), "{status:#}");
    check_secret(&house);
}

/// Whatever is wrong with an address, nobody reads a password in it.
#[test]
fn no_command_prints_what_is_secret_in_an_address() {
    let house = House::closed();
    fs::create_dir(&house.vault).unwrap();
    for address in [
        "https://user:PASSWD99@h.example/v1?key=SECRETKEY",
        "user:PASSWD99@h.example",
        "https://user:PASS?WD99@h.example/v1#SECRETKEY",
        "https://user:PASSWD99@h h/?SECRETKEY",
    ] {
        settings(
            &house,
            &format!(
                "embedding_model_config:\n  backend: openai\n  api_key: k\n  model_name: m\n  \
                 base_url: \"{address}\"\nreranker_config:\n  enabled: true\n  model_name: r\n  \
                 base_url: \"{address}\"\nmodel:\n  hub: \"{address}\"\n"
            ),
        );
        for args in [
            &["config", "list"][..],
            &["config", "list", "--json"],
            &["model", "list"],
            &["model", "get", "tiny", "--dry-run"],
            &["status"],
            &["status", "--json"],
        ] {
            let said = house.run(args);
            let said = format!("{}{}", said.stdout, said.stderr);
            for secret in ["PASS", "WD99", "SECRET"] {
                assert!(!said.contains(secret), "{address} {args:?}: {said}");
            }
        }
    }
    let said = house.run(["config", "list"]).stdout;
    assert!(said.contains("embedding_model_config.base_url = https://…@h h/?…  # "), "{said}");
}

#[test]
fn a_vault_names_no_provider() {
    let server = provider(3);
    let mut house = house("");
    house.write("remd.yaml", openai(&server, 3) + "search:\n  model: m3\n");
    house.stop();
    house.start();
    house.settle();
    wait_for_model(&house, "remd-static-256");
    assert_eq!(server.requests().len(), 0);
    let what = problem(&house, "settings").unwrap();
    assert!(what.to_string().contains("only your own config.yaml may set it"), "{what}");
}

#[test]
fn a_provider_that_fails_is_named_by_its_health_check_and_comes_back_by_itself() {
    let mode = Arc::new(AtomicUsize::new(0));
    let now = Arc::clone(&mode);
    let server = Server::start(move |request, _| match now.load(Ordering::SeqCst) {
        0 => Act::Hang,
        1 => say(401, json!({"error": {"message": format!("bad key {KEY}")}})),
        2 => answer(request, 4),
        3 => Act::Say(200, Vec::new(), "<html>".to_owned()),
        4 => Act::Drop,
        _ => answer(request, 3),
    });
    let house = house(&openai(&server, 3));
    let vault = house.vault.display().to_string();
    let lines = [
        "FAIL timeout(0.5s)\n",
        "FAIL AuthenticationError: access denied (401): bad key ***\n",
        "FAIL RuntimeError: embedding dimension mismatch: 4 != 3\n",
        "FAIL ValueError: answer can't be read: ",
    ];
    for (at, wanted) in lines.iter().enumerate() {
        mode.store(at, Ordering::SeqCst);
        // What is new is asked for at once.
        let name = format!("embedding_model_config:\n  max_batch_size: {}\n", at + 1);
        settings(&house, &openai(&server, 3).replace("embedding_model_config:\n", &name));
        assert_eq!(house.run(["reload"]).code, 0);
        let line =
            format!("[EMBEDDING HEALTH CHECK] name=default workspace_dir={vault} -> {wanted}");
        wait_for("the line of the health check", || house.log().contains(&line));
        wait_for("the problem", || problem(&house, "embedding").is_some());
        // The model on board, and words, answer meanwhile.
        assert_eq!(vectors(&house)["model"], "remd-static-256");
        assert_eq!(vectors(&house)["next"]["model"], "m3");
        assert_eq!(first(&house, "travelling to work on two wheels"), "commute.md");
    }
    let said = house.run(["status"]);
    assert!(said.stdout.contains("those of m3 (3 parts) take their place"), "{}", said.stdout);
    mode.store(5, Ordering::SeqCst);
    wait_for_model(&house, "m3");
    assert_eq!(problem(&house, "embedding"), None);
    // It goes away while nothing is owed: a question notices, and is answered all the same.
    mode.store(4, Ordering::SeqCst);
    let said = house.run(["search", "where is the bicycle now"]);
    assert!(said.stdout.contains("commute.md"), "{}", said.stdout);
    assert!(said.stdout.contains("(vector off: the model gave no answer)"), "{}", said.stdout);
    wait_for("the problem", || problem(&house, "embedding").is_some());
    mode.store(5, Ordering::SeqCst);
    wait_for("its end", || problem(&house, "embedding").is_none());
    check_secret(&house);
}

/// A question is never waited for longer than half a second; the answer that comes after that is
/// there for the next one.
#[test]
fn a_provider_that_is_slow_answers_the_second_time() {
    let question = "something with two wheels";
    let asked = Arc::new(AtomicUsize::new(0));
    let times = Arc::clone(&asked);
    let server = Server::start(move |request, _| {
        let is_asked = texts(&request.body).iter().any(|it| it == question);
        match is_asked && times.fetch_add(1, Ordering::SeqCst) == 0 {
            true => Act::Hang,
            false => answer(request, 3),
        }
    });
    let house = house(&openai(&server, 3));
    wait_for_model(&house, "m3");
    let search = || house.run(["search", question]).stdout;
    let said = search();
    assert!(said.contains("(vector off: the model gave no answer)"), "{said}");
    wait_for("the vector of the question", || search().ends_with(", keyword + vector\n"));
    assert_eq!(first(&house, question), "commute.md");
    assert!(asked.load(Ordering::SeqCst) <= 3, "asked {asked:?} times");
    assert_eq!(problem(&house, "embedding"), None);
}

/// Where a provider did not answer in time, no page of that is kept.
#[test]
fn a_page_without_vectors_is_made_anew_when_the_provider_answers_again() {
    if !has_fuse("a page while a provider is away") {
        return;
    }
    let is_away = Arc::new(AtomicUsize::new(0));
    let now = Arc::clone(&is_away);
    let server = Server::start(move |request, _| match now.load(Ordering::SeqCst) {
        0 => answer(request, 3),
        _ => Act::Hang,
    });
    let mut house = house("");
    house.stop();
    settings(&house, &openai(&server, 3));
    house.args([]).start();
    wait_for_model(&house, "m3");
    wait_for("the mount", || house.mount.join("status.md").exists());
    let page = || house.cat("search/something with two wheels");
    is_away.store(1, Ordering::SeqCst);
    let said = page();
    assert!(said.contains("(vector off: the model gave no answer)"), "{said}");
    is_away.store(0, Ordering::SeqCst);
    let said = page();
    assert!(said.starts_with("========== commute.md:1-3 "), "{said}");
    assert!(said.ends_with(", keyword + vector\n"), "{said}");
}

#[test]
fn a_key_that_others_can_read_is_named_until_they_cannot() {
    let server = provider(3);
    let house = house(&openai(&server, 3));
    let file = house.root().join("home/.config/remd/config.yaml");
    let set_mode = |mode| {
        fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(mode)).unwrap();
    };
    assert_eq!(problem(&house, "settings-mode"), None);
    set_mode(0o644);
    let remedy = problem(&house, "settings-mode").unwrap()["remedy"].clone();
    assert_eq!(remedy, format!("chmod 600 '{}'", file.display()));
    set_mode(0o600);
    assert_eq!(problem(&house, "settings-mode"), None);
}

/// H08: 768 → 384 → 768 with no file changed, a probe that fails, a kill half-way.
#[test]
fn another_dimension_is_made_beside_the_old_one_and_never_mixed_h08() {
    let fails = Arc::new(AtomicUsize::new(0));
    let now = Arc::clone(&fails);
    let server = Server::start(move |request, _| {
        let dimension = request.body["model"].as_str().unwrap()[1..].parse().unwrap();
        match now.load(Ordering::SeqCst) {
            1 => say(500, json!({})),
            2 => answer(request, dimension + 1),
            // The health check is answered, of the notes only the first.
            3 if texts(&request.body).iter().all(|it| !it.contains("ping")) => Act::Hang,
            _ => answer(request, dimension),
        }
    });
    let mut house = house(&openai(&server, 7));
    wait_for_model(&house, "m7");
    let turn = |house: &House, dimension| {
        settings(house, &openai(&server, dimension));
        assert_eq!(house.run(["reload"]).code, 0);
    };
    let is_searched = |house: &House| {
        assert_eq!(first(house, "bicycle"), "commute.md");
        assert_eq!(first(house, "travelling to work on two wheels"), "commute.md");
    };
    for mode in [1, 2] {
        fails.store(mode, Ordering::SeqCst);
        turn(&house, 5);
        wait_for("the problem", || problem(&house, "embedding").is_some());
        is_searched(&house);
        assert_eq!(vectors(&house)["next"]["done"], 0);
        // Back to what is whole: nothing was taken away, nothing is asked for.
        let asked = sent(&server).len();
        turn(&house, 7);
        wait_for("the old space", || vectors(&house)["model"] == "m7");
        assert_eq!((&vectors(&house)["missing"], sent(&server).len()), (&json!(0), asked));
        fails.store(0, Ordering::SeqCst);
        wait_for("its end", || problem(&house, "embedding").is_none());
    }
    fails.store(3, Ordering::SeqCst);
    turn(&house, 5);
    wait_for("the notes to be sent", || {
        server.requests().iter().any(|it| it.body["model"] == "m5" && texts(&it.body).len() > 1)
    });
    house.kill();
    fails.store(0, Ordering::SeqCst);
    house.start();
    house.settle();
    // Whichever it is, it is one of the two.
    wait_for("vectors", || vectors(&house)["missing"] == 0);
    is_searched(&house);
    wait_for_model(&house, "m5");
    is_searched(&house);
    assert_eq!(vectors(&house)["vectors"], 3);
    turn(&house, 7);
    wait_for_model(&house, "m7");
    assert_eq!(vectors(&house)["vectors"], 3);
    is_searched(&house);
}
