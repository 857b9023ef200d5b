//! Providers against a scripted server: what goes out, what comes in, when to ask again.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::testing::{Act, Request, Server, openai, say, texts};
use super::*;
use crate::embed::{Health, check_health};

const KEY: &str = "sk-very-secret";

fn config(backend: &str, url: &str, more: &[(&str, &str)]) -> Config {
    let base = [
        ("backend", backend),
        ("model_name", "m"),
        ("api_key", KEY),
        ("base_url", url),
        ("dimensions", "2"),
    ];
    let setup = Setup::read(|key| {
        more.iter().chain(&base).find(|it| it.0 == key).map(|it| it.1.to_owned())
    });
    match setup.unwrap() {
        Setup::Ready(config) => *config,
        other => panic!("{other:?}"),
    }
}

/// A remote whose pauses are short.
fn remote(backend: &str, url: &str, more: &[(&str, &str)]) -> Remote {
    Remote::with_unit(config(backend, url, more), Duration::from_millis(2)).unwrap()
}

fn soon() -> Instant {
    clock::now() + Duration::from_secs(20)
}

fn embed(remote: &Remote, texts: &[&str]) -> Answer {
    remote.embed(texts, Purpose::Passage, soon())
}

/// The second part by the first: the length of the text, as [`openai`] answers.
fn lengths(answer: &Answer) -> Vec<Option<u32>> {
    let length =
        |slot: &Slot| slot.vector().map(|it| (it.parts()[1] / it.parts()[0]).round() as u32);
    answer.slots.iter().map(length).collect()
}

#[test]
fn each_provider_is_asked_in_its_own_way() {
    let answers = Arc::new(|request: &Request, _| {
        let vectors: Vec<[usize; 2]> =
            texts(&request.body).iter().map(|it| [1, it.len()]).collect();
        let path = request.path.as_str();
        let list = |name: &str, index: &str| -> Vec<Value> {
            let item = |(at, it)| {
                if index.is_empty() { json!({name: it}) } else { json!({name: it, index: at}) }
            };
            vectors.iter().enumerate().map(item).collect()
        };
        say(
            200,
            match path {
                "/v1/embeddings" => json!({"data": list("embedding", "index")}),
                "/v1/api/embed" => json!({"embeddings": vectors}),
                it if it.contains("/multimodal-embedding/") => {
                    json!({"output": {"embeddings": list("embedding", "index")}})
                }
                it if it.contains("/text-embedding/") => {
                    json!({"output": {"embeddings": list("embedding", "text_index")}})
                }
                _ => json!({"embeddings": list("values", "")}),
            },
        )
    });
    let check = |backend, model, path: &str, header: Option<(&str, &str)>, body: Value| {
        let answers = Arc::clone(&answers);
        let server = Server::start(move |request, at| answers(request, at));
        let url = format!("{}/v1/", server.url());
        let remote = remote(
            backend,
            &url,
            &[("model_name", model), ("api_key", if header.is_some() { KEY } else { "" })],
        );
        let answer = embed(&remote, &["a", "bb"]);
        assert_eq!((lengths(&answer), answer.stopped), (vec![Some(1), Some(2)], None), "{backend}");
        let requests = server.requests();
        assert_eq!(requests.len(), 1);
        assert_eq!(requests[0].path, path);
        assert_eq!(requests[0].body, body);
        let keys: Vec<(&str, &str)> = ["authorization", "x-goog-api-key"]
            .into_iter()
            .filter_map(|it| Some((it, requests[0].headers.get(it)?.as_str())))
            .collect();
        assert_eq!(keys, header.into_iter().collect::<Vec<_>>());
    };
    let bearer = Some(("authorization", "Bearer sk-very-secret"));
    check(
        "openai",
        "m",
        "/v1/embeddings",
        bearer,
        json!({
            "model": "m", "input": ["a", "bb"], "encoding_format": "float"
        }),
    );
    check(
        "dashscope",
        "text-embedding-v4",
        "/v1/services/embeddings/text-embedding/text-embedding",
        bearer,
        json!({"model": "text-embedding-v4", "input": {"texts": ["a", "bb"]}, "parameters": {"dimension": 2}}),
    );
    check(
        "dashscope_multimodal",
        "m",
        "/v1/services/embeddings/multimodal-embedding/multimodal-embedding",
        bearer,
        json!({"model": "m", "input": {"contents": [{"text": "a"}, {"text": "bb"}]}, "parameters": {"dimension": 2}}),
    );
    let part = |text: &str| {
        json!({
            "model": "models/g/1", "content": {"parts": [{"text": text}]}, "outputDimensionality": 2
        })
    };
    check(
        "gemini",
        "models/g/1",
        "/v1/models/g%2F1:batchEmbedContents",
        Some(("x-goog-api-key", KEY)),
        json!({"requests": [part("a"), part("bb")]}),
    );
    check(
        "ollama",
        "m",
        "/v1/api/embed",
        None,
        json!({
            "model": "m", "input": ["a", "bb"], "truncate": false
        }),
    );
}

#[test]
fn only_openai_is_sent_use_dimensions() {
    for backend in ["openai", "ollama"] {
        let server = Server::start(|request, _| match request.path.as_str() {
            "/embeddings" => openai(request),
            _ => say(200, json!({"embeddings": [[1, 1]]})),
        });
        let remote = remote(backend, &server.url(), &[("use_dimensions", "true")]);
        assert_eq!(embed(&remote, &["a"]).stopped, None);
        let sent = server.requests()[0].body.get("dimensions").cloned();
        assert_eq!(sent, (backend == "openai").then(|| json!(2)));
    }
}

#[test]
fn texts_go_in_batches_and_answers_come_to_their_texts() {
    let server = Server::start(|request, _| openai(request));
    let remote = remote("openai", &server.url(), &[("max_batch_size", "3")]);
    let answer = embed(&remote, &["a", " \n", "bb", "ccc", "dddd", ""]);
    assert_eq!(lengths(&answer), [Some(1), None, Some(2), Some(3), Some(4), None]);
    assert_eq!((&answer.slots[1], &answer.slots[5]), (&Slot::Silent, &Slot::Silent));
    assert_eq!((server.sizes(), answer.stopped), (vec![3, 1], None));
    assert_eq!(embed(&remote, &[]), Answer { slots: vec![], stopped: None });
    assert_eq!(embed(&remote, &[""]).slots, [Slot::Silent]);
    assert_eq!(server.sizes().len(), 2);
}

#[test]
fn long_texts_are_cut_before_they_are_sent_and_marked() {
    let server = Server::start(|request, _| openai(request));
    let remote = remote("openai", &server.url(), &[("max_input_length", "100")]);
    let (ascii, chinese) = ("a".repeat(101), "中".repeat(200));
    let answer = embed(&remote, &[&ascii, &chinese, "short"]);
    // 100 characters; 100 * 2 * 92 % / 3 = 61 wide ones.
    assert_eq!(lengths(&answer), [Some(100), Some(61), Some(5)]);
    let cut: Vec<bool> =
        answer.slots.iter().map(|it| matches!(it, Slot::Vector { cut: true, .. })).collect();
    assert_eq!(cut, [true, true, false]);
}

/// A server that takes 512 tokens a text: a Chinese character is one, four others are one.
fn small(request: &Request, _: usize) -> Act {
    let tokens = |it: &String| -> usize {
        let wide = it.chars().filter(|it| *it >= '\u{2e80}').count();
        wide + (it.chars().count() - wide) / 4
    };
    match texts(&request.body).iter().any(|it| tokens(it) > 512) {
        true => say(400, json!({"error": "the input length exceeds the context length"})),
        false => openai(request),
    }
}

#[test]
fn one_text_that_is_too_long_costs_no_other_its_vector() {
    let server = Server::start(small);
    let remote = remote("openai", &server.url(), &[("max_batch_size", "32")]);
    let long = "中".repeat(700);
    let mut all = vec!["short"; 32];
    all[7] = &long;
    let answer = embed(&remote, &all);
    assert_eq!(answer.stopped, None);
    assert!(
        lengths(&answer)
            .iter()
            .enumerate()
            .all(|(at, it)| *it == Some(if at == 7 { 350 } else { 5 }))
    );
    assert!(matches!(answer.slots[7], Slot::Vector { cut: true, .. }));
    // The batch, each of it alone, half of the long one.
    assert_eq!(server.sizes().len(), 1 + 32 + 1);
}

#[test]
fn a_text_that_stays_too_long_is_refused_after_few_tries_and_later_windows_are_smaller() {
    let server = Server::start(small);
    let remote = remote("ollama", &server.url(), &[]);
    let before = remote.window();
    let long = "中".repeat(4000);
    let answer = remote.embed(&[&long], Purpose::Passage, soon());
    let why = "the input length exceeds the context length".to_owned();
    assert_eq!((&answer.slots[0], &answer.stopped), (&Slot::Refused(why), &None));
    assert_eq!(server.sizes().len(), 3); // whole, half, quarter
    assert_eq!((before, remote.window()), (15_073, 3000)); // 4000 * 3 / 4

    // Who cuts by the window has all of it embedded soon: each refusal makes it smaller.
    let server = Server::start(|request, at| match small(request, at) {
        Act::Say(200, ..) => {
            let count = texts(&request.body).len();
            say(200, json!({"embeddings": vec![[1, 1]; count]}))
        }
        act => act,
    });
    let remote = super::tests::remote("ollama", &server.url(), &[]);
    let whole =
        |slots: &[Slot]| slots.iter().all(|it| matches!(it, Slot::Vector { cut: false, .. }));
    let mut rounds = 0;
    loop {
        let windows = crate::embed::windows(&long, remote.window(), &|it| remote.count(it));
        let parts: Vec<&str> = windows.into_iter().map(|it| &long[it]).collect();
        let answer = remote.embed(&parts, Purpose::Passage, soon());
        assert_eq!(answer.stopped, None);
        rounds += 1;
        if whole(&answer.slots) {
            break;
        }
        assert!(rounds < 4);
    }
}

#[test]
fn emoji_only_and_other_odd_texts_come_through() {
    let server = Server::start(|request, _| openai(request));
    let remote = remote("openai", &server.url(), &[]);
    let odd = ["🚲🚲🚲", "\u{0}\u{1b}", "\"\\\n", "\u{feff}x"];
    assert_eq!(lengths(&embed(&remote, &odd)), [Some(3), Some(2), Some(3), Some(2)]);
    assert_eq!(texts(&server.requests()[0].body), odd);
}

/// A server that says these things and then embeds.
fn then_good(says: Vec<Act>) -> Server {
    let says = std::sync::Mutex::new(says);
    Server::start(move |request, _| {
        let mut says = says.lock().unwrap();
        if says.is_empty() { openai(request) } else { says.remove(0) }
    })
}

fn limited(status: u16, header: Option<&str>) -> Act {
    let headers = header.map(|it| ("retry-after", it.to_owned())).into_iter().collect();
    Act::Say(
        status,
        headers,
        json!({"error": {"code": "rate_limit_exceeded", "message": "slow"}}).to_string(),
    )
}

#[test]
fn a_failure_that_passes_is_sat_out() {
    for says in [
        vec![limited(429, None), limited(429, Some("0"))],
        vec![limited(503, Some("0")), limited(503, None)],
        vec![limited(429, Some("-1")), limited(429, Some("abc")), limited(429, None)],
        vec![limited(429, Some("Wed, 21 Oct 2015 07:28:00 GMT"))],
        vec![limited(400, None)], // the code says what the status does not
        vec![Act::Drop, Act::Drop, Act::Drop],
        vec![say(429, json!({"error": {"details": [{"retryDelay": "0s"}]}}))],
    ] {
        let count = says.len();
        let server = then_good(says);
        let answer = embed(&remote("openai", &server.url(), &[]), &["a"]);
        assert_eq!((lengths(&answer), answer.stopped), (vec![Some(1)], None));
        assert!(server.sizes().len() > count);
    }
}

#[test]
fn a_pause_of_nothing_is_no_leave_to_hurry() {
    for header in [Some("0"), Some("-1"), Some("abc"), Some("Wed, 21 Oct 2015 07:28:00 GMT"), None]
    {
        let server = Server::start(move |_, _| limited(429, header));
        let config = remote("openai", &server.url(), &[]).config().clone();
        let remote = Remote::with_unit(config, Duration::from_secs(3600)).unwrap();
        for _ in 0..3 {
            let answer = embed(&remote, &["a"]);
            assert!(matches!(answer.stopped, Some(EmbedError::RateLimited { .. })), "{answer:?}");
        }
        assert_eq!(server.sizes().len(), 1, "{header:?}");
    }
    // Who is turned away again and again asks ever more rarely, call by call.
    let server = Server::start(|_, _| limited(429, Some("0")));
    let remote = remote("openai", &server.url(), &[]);
    (0..3).for_each(|_| drop(embed(&remote, &["a"])));
    let turned = remote.turned_away.load(std::sync::atomic::Ordering::Relaxed);
    assert_eq!(turned, retry::MOST_DOUBLED);
}

#[test]
fn a_number_that_is_none_is_named() {
    let body = |text: &str| Act::Say(200, Vec::new(), text.to_owned());
    for (text, wanted) in [
        (r#"{"data": [{"embedding": [1, NaN, 2]}]}"#, "a number that is none"),
        (r#"{"data": [{"embedding": [-Infinity, 1]}]}"#, "a number that is none"),
        (r#"{"data": [{"embedding": "[NaN, \"NaN" }"#, "it is not JSON"),
        (r#"<html>NaN</html>"#, "it is not JSON"),
    ] {
        let server = then_good(vec![body(text)]);
        let answer = embed(&remote("openai", &server.url(), &[]), &["a"]);
        let said = answer.stopped.unwrap().to_string();
        assert!(said.contains(wanted), "{text}: {said}");
    }
    let hint = EmbedError::Dimension { actual: 0, configured: 3 }.hint().unwrap();
    assert!(!hint.contains("to 0") && hint.contains("model_name"), "{hint}");
}

#[test]
fn a_request_is_sent_four_times_at_most() {
    let server = Server::start(|_, _| limited(429, Some("0")));
    let answer = embed(&remote("openai", &server.url(), &[]), &["a"]);
    assert!(matches!(answer.stopped, Some(EmbedError::RateLimited { .. })), "{answer:?}");
    assert_eq!((answer.slots, server.sizes().len()), (vec![Slot::Missing], 4));

    // The library sends a request again once by itself where an idle connection was closed.
    let server = Server::start(|_, _| Act::Drop);
    let answer = embed(&remote("openai", &server.url(), &[]), &["a"]);
    assert!(matches!(answer.stopped, Some(EmbedError::Transport(_))), "{answer:?}");
    assert!((4..=8).contains(&server.sizes().len()), "{}", server.sizes().len());
}

#[test]
fn while_a_server_wants_a_pause_nothing_is_sent_to_it() {
    for header in ["7200", "1e9", "Thu, 01 Jan 2099 00:00:00 GMT"] {
        let server = Server::start(move |_, _| limited(429, Some(header)));
        let remote = Arc::new(remote("openai", &server.url(), &[]));
        let started = clock::now();
        let jobs: Vec<_> = (0..20)
            .map(|at| {
                let remote = Arc::clone(&remote);
                std::thread::spawn(move || {
                    let purpose = if at == 0 { Purpose::Query } else { Purpose::Passage };
                    remote.embed(&["a"], purpose, soon()).stopped
                })
            })
            .collect();
        let now = clock::unix_seconds();
        for job in jobs {
            let Some(EmbedError::RateLimited { until }) = job.join().unwrap() else { panic!() };
            assert!((now + 3590..now + 3610).contains(&until), "{header}: {}", until - now);
        }
        // One that asked for all passages, and the question beside it.
        assert!(server.sizes().len() <= 2, "{}", server.sizes().len());
        assert!(started.elapsed() < Duration::from_secs(15));
    }
}

#[test]
fn what_no_second_try_can_mend_is_sent_once() {
    let check = |status: u16, body: Value, wanted: fn(&EmbedError) -> bool| {
        let text = body.to_string();
        let server = Server::start(move |_, _| say(status, body.clone()));
        let answer = embed(&remote("openai", &server.url(), &[]), &["a", "b"]);
        let stopped = answer.stopped.unwrap();
        assert!(wanted(&stopped), "{status} {text}: {stopped:?}");
        assert_eq!((answer.slots, server.sizes().len()), (vec![Slot::Missing; 2], 1), "{text}");
    };
    let error = |code: &str| json!({"error": {"code": code, "message": "no"}});
    check(429, error("insufficient_quota"), |it| matches!(it, EmbedError::Quota(_)));
    check(402, json!({}), |it| matches!(it, EmbedError::Quota(_)));
    check(401, error("x"), |it| matches!(it, EmbedError::Denied { status: 401, .. }));
    check(403, error("x"), |it| matches!(it, EmbedError::Denied { status: 403, .. }));
    check(404, error("x"), |it| matches!(it, EmbedError::Refused { status: 404, .. }));
    check(400, error("x"), |it| matches!(it, EmbedError::Refused { status: 400, .. }));
    check(307, json!({}), |it| matches!(it, EmbedError::Refused { status: 307, .. }));
    check(500, error("x"), |it| matches!(it, EmbedError::Server { status: 500, .. }));
    check(200, json!({"error": {"message": "no"}}), |it| *it == EmbedError::Answer("no".into()));
    check(200, json!({"data": []}), |it| matches!(it, EmbedError::Answer(_)));
    check(200, json!([]), |it| matches!(it, EmbedError::Answer(_)));
    let data = |a: Value, b: Value| json!({"data": [a, b]});
    let item = |index: Value| json!({"index": index, "embedding": [1, 2]});
    for (a, b) in [(0, 0), (0, 2), (-1, 0)] {
        check(200, data(item(a.into()), item(b.into())), |it| matches!(it, EmbedError::Answer(_)));
    }
    check(200, data(item(0.into()), json!({"embedding": "AAAA"})), |it| {
        matches!(it, EmbedError::Answer(_))
    });
    check(200, data(item(0.into()), json!({"index": 1, "embedding": [1, 2, 3]})), |it| {
        *it == EmbedError::Dimension { actual: 3, configured: 2 }
    });
}

#[test]
fn a_page_instead_of_an_answer_is_said() {
    let server = Server::start(|_, _| {
        Act::Say(200, Vec::new(), "<html>\n<h1>Gateway</h1></html>".to_owned())
    });
    let answer = embed(&remote("openai", &server.url(), &[]), &["a"]);
    assert_eq!(answer.stopped, Some(EmbedError::Answer("it is not JSON".into())));
}

#[test]
fn hostile_numbers_are_refused_for_their_text_alone() {
    let server = Server::start(|_, _| {
        let embedding = |numbers: &str| format!(r#"{{"embedding": {numbers}}}"#);
        let all = ["[1, 2]", "[null, 1]", "[0, 0]", "[1e300, 1]", "[1e-300, 0]", "[3, 4]"];
        let all: Vec<String> = all.iter().map(|it| embedding(it)).collect();
        Act::Say(200, Vec::new(), format!(r#"{{"data": [{}]}}"#, all.join(", ")))
    });
    let answer = embed(&remote("openai", &server.url(), &[]), &["a", "b", "c", "d", "e", "f"]);
    let refused: Vec<bool> = answer.slots.iter().map(|it| matches!(it, Slot::Refused(_))).collect();
    assert_eq!((refused, answer.stopped), (vec![false, true, true, true, true, false], None));
    assert_eq!(answer.slots[5].vector().unwrap().parts(), [0.6, 0.8]);
}

#[test]
fn a_call_ends_at_its_deadline_whatever_the_server_does() {
    let server = Server::start(|_, at| if at == 0 { Act::Hang } else { Act::Drop });
    let remote = remote("openai", &server.url(), &[]);
    let limit = Duration::from_millis(100);
    let answer = remote.embed(&["a"], Purpose::Query, clock::now() + limit);
    assert!(matches!(answer.stopped, Some(EmbedError::Timeout(took)) if took >= limit));
    assert_eq!(answer.slots, [Slot::Missing]);
    // Past already.
    let answer = remote.embed(&["a"], Purpose::Query, clock::now());
    assert!(matches!(answer.stopped, Some(EmbedError::Timeout(_))), "{answer:?}");
}

#[test]
fn a_question_does_not_wait_behind_passages() {
    let server = Server::start(|request, _| match texts(&request.body)[0].as_str() {
        "passage" => Act::Hang,
        _ => openai(request),
    });
    let remote = Arc::new(remote("openai", &server.url(), &[]));
    let passages = {
        let remote = Arc::clone(&remote);
        let deadline = clock::now() + Duration::from_secs(5);
        std::thread::spawn(move || remote.embed(&["passage"], Purpose::Passage, deadline))
    };
    while server.requests().is_empty() {
        std::thread::yield_now();
    }
    let answer = remote.embed(&["asked"], Purpose::Query, soon());
    assert_eq!(lengths(&answer), [Some(5)]);
    assert!(!passages.is_finished());
    drop(passages);
}

#[test]
fn no_text_of_ours_carries_the_key() {
    // The server repeats it in every way it can.
    let echo = move |status: u16| {
        move |request: &Request, _: usize| {
            let key = request.headers["authorization"].replace("Bearer ", "");
            say(status, json!({"error": {"code": key, "message": format!("bad\nkey {key}")}}))
        }
    };
    for status in [200, 400, 401, 404, 413, 422, 500] {
        let server = Server::start(echo(status));
        let remote = remote("openai", &server.url(), &[]);
        let answer = embed(&remote, &["a"]);
        let health = check_health(&remote, Duration::from_secs(5));
        let said = format!(
            "{answer:?} {remote:?} {:?} {} {}",
            remote.config(),
            health.line(std::path::Path::new("/v")),
            answer.stopped.as_ref().map_or(String::new(), |it| it.to_string())
        );
        assert!(!said.contains(KEY), "{said}");
        assert!(said.contains("bad key ***"), "{said}");
    }
    let gone = Server::start(|_, _| Act::Drop);
    let remote = remote("gemini", &gone.url(), &[]);
    assert!(!format!("{:?}", embed(&remote, &["a"])).contains(KEY));
}

#[test]
fn no_redirect_is_followed() {
    let other = Server::start(|request, _| openai(request));
    let location = format!("{}/embeddings", other.url());
    let server = Server::start(move |_, _| {
        Act::Say(307, vec![("location", location.clone())], String::new())
    });
    let answer = embed(&remote("openai", &server.url(), &[]), &["a"]);
    assert!(matches!(answer.stopped, Some(EmbedError::Refused { status: 307, .. })));
    assert_eq!(other.requests().len(), 0);
}

#[test]
fn the_health_check_compares_the_dimension_and_keeps_its_time() {
    let line = |health: &Health| health.line(std::path::Path::new("/v"));
    let server = Server::start(|request, _| {
        assert_eq!(texts(&request.body), ["ping"]);
        openai(request)
    });
    let check = |more: &[(&str, &str)], url: &str| {
        let remote = remote("openai", url, more);
        line(&check_health(&remote, Duration::from_millis(200)))
    };
    let begins = "[EMBEDDING HEALTH CHECK] name=default workspace_dir=/v -> ";
    assert_eq!(check(&[], &server.url()), format!("{begins}OK"));
    assert_eq!(
        check(&[("dimensions", "1024")], &server.url()),
        format!("{begins}FAIL RuntimeError: embedding dimension mismatch: 2 != 1024")
    );
    let hangs = Server::start(|_, _| Act::Hang);
    assert_eq!(check(&[], &hangs.url()), format!("{begins}FAIL timeout(0.2s)"));
    let zero = Server::start(|_, _| say(200, json!({"data": [{"embedding": [0, 0]}]})));
    assert_eq!(
        check(&[], &zero.url()),
        format!("{begins}FAIL ValueError: answer can't be read: vector is zero")
    );
    // Nobody listens there.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let said = check(&[], &format!("http://{port}"));
    assert!(said.starts_with(&format!("{begins}FAIL ConnectionError: ")), "{said}");
    assert!(said.contains("refused"), "{said}");
}

#[test]
fn a_provider_that_comes_back_answers_again() {
    let server = then_good(vec![Act::Drop, say(500, json!({})), say(401, json!({}))]);
    let remote = remote("openai", &server.url(), &[]);
    let mut failed = 0;
    while embed(&remote, &["a"]).stopped.is_some() {
        failed += 1;
        assert!(failed < 4);
    }
    assert_eq!(failed, 2); // the dropped one was sent again at once
    assert_eq!(check_health(&remote, Duration::from_secs(5)), Health::Ok);
}

#[test]
fn a_provider_can_be_dropped_on_any_thread() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        drop(remote("openai", "http://127.0.0.1:9", &[]));
    });
}

#[test]
fn https_has_a_client_of_its_own() {
    let made = Remote::new(config("openai", "https://localhost:1/v1", &[]));
    // Where the machine has no certificates this says so, and nothing panics.
    if let Err(err) = made {
        assert!(err.to_string().contains("certificate"), "{err}");
    }
}

#[test]
fn a_credential_leaves_no_machine() {
    let server = Server::start(|request, _| openai(request));
    let remote = remote("openai", &server.url(), &[]);
    let token = format!("gh{}_q7RtZ2mW9xKc4VbN8sLd3JfHg6PyTq1EuXoA", 'p');
    let line = "q7RtZ2mW9xKc4VbN8sLd3JfHg6PyTq1EuXoA5iYwCzMkBvQnSrGhDpUeIlFjOa0T";
    let key = format!("-----BEGIN RSA PRIVATE KEY-----\n{}", format!("{line}\n").repeat(20));
    let before = sent_masked();
    let texts_sent = ["clean", &format!("the key is {token}, says Ada"), &key];
    let answer = embed(&remote, &texts_sent);
    assert!(answer.slots.iter().all(|it| it.vector().is_some()), "{answer:?}");
    remote.embed(&[&format!("where is {token}?")], Purpose::Query, soon());
    let sent: Vec<String> = server.requests().iter().flat_map(|it| texts(&it.body)).collect();
    assert!(sent.contains(&"clean".to_owned()), "{sent:?}");
    assert!(sent.contains(&"the key is [masked github-pat], says Ada".to_owned()), "{sent:?}");
    assert!(sent.contains(&"where is [masked github-pat]?".to_owned()), "{sent:?}");
    assert!(!sent.join(" ").contains(&token[6..]) && !sent.join(" ").contains(line), "{sent:?}");
    assert!(sent_masked() >= before + 3);
}
