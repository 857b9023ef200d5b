//! Pages are made once, in time, and stay.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;

use super::*;
use crate::mount::tree::{Asked, Form};

const LIMIT: Duration = Duration::from_secs(20);

fn key(text: &str) -> PageKey {
    let asked = Asked { options: Arc::default(), text: text.into() };
    PageKey {
        node: Node::Answer(About::Passages, asked, Form::Text),
        view: 0,
        edition: 0,
        means: Means::Outside,
    }
}

fn text_of(key: &PageKey) -> String {
    match &key.node {
        Node::Answer(_, asked, _) => asked.text.to_string(),
        other => panic!("{other:?}"),
    }
}

fn pages(
    limits: Limits,
    maker: impl Fn(&PageKey) -> Result<Page, PageError> + Send + Sync + 'static,
) -> Pages {
    Pages::new(limits, Tally::default(), Box::new(move |key, _| maker(key))).unwrap()
}

fn ask(pages: &Pages, key: &PageKey) -> mpsc::Receiver<Made> {
    let (done, made) = mpsc::channel();
    pages.get(key, Box::new(move |it| done.send(it).unwrap()));
    made
}

fn whole(bytes: &[u8]) -> Result<Page, PageError> {
    Ok(Page::new(Content::Bytes(bytes.to_vec()), false))
}

#[test]
fn fifty_askers_at_once_cost_one_answer() {
    let made = Arc::new(AtomicUsize::new(0));
    let (release, gate) = mpsc::channel::<()>();
    let gate = Mutex::new(gate);
    let pages = pages(Limits::default(), {
        let made = Arc::clone(&made);
        move |_| {
            made.fetch_add(1, Ordering::SeqCst);
            let _released = gate.lock().unwrap().recv();
            whole(b"page")
        }
    });
    let waiting: Vec<_> = (0..50).map(|_| ask(&pages, &key("q"))).collect();
    drop(release);
    let got: Vec<_> = waiting.iter().map(|it| it.recv_timeout(LIMIT).unwrap().unwrap()).collect();
    assert!(got.iter().all(|it| Arc::ptr_eq(it, &got[0])));
    assert!(Arc::ptr_eq(&ask(&pages, &key("q")).try_recv().unwrap().unwrap(), &got[0]));
    assert_eq!(made.load(Ordering::SeqCst), 1);
}

/// Field cases G06 and G07: everybody hears by the deadline, and others are not held up.
#[test]
fn a_question_that_hangs_is_answered_at_the_deadline() {
    let (release, gate) = mpsc::channel::<()>();
    let gate = Mutex::new(gate);
    let limits =
        Limits { request: Duration::from_millis(300), askers: 1, queue: 4, ..Limits::default() };
    let pages = pages(limits, move |key| match &key.node {
        Node::Answer(..) => {
            let _released = gate.lock().unwrap().recv();
            whole(b"late")
        }
        _ => whole(b"status"),
    });
    let waiting: Vec<_> = (0..20).map(|it| ask(&pages, &key(&it.to_string()))).collect();
    let outcomes: Vec<_> =
        waiting.iter().map(|it| it.recv_timeout(LIMIT).unwrap().unwrap_err()).collect();
    assert!(outcomes.contains(&PageError::Deadline) && outcomes.contains(&PageError::Busy));
    let status = PageKey { node: Node::Readme, view: 0, edition: 0, means: Means::Outside };
    let made = ask(&pages, &status).recv_timeout(LIMIT).unwrap().unwrap();
    assert_eq!(made.bytes(), b"status");
    drop(release);
    // Once it lets go, the queue drains and the next one is answered.
    let end = clock::now() + LIMIT;
    while ask(&pages, &key("next")).recv_timeout(LIMIT).unwrap().is_err() {
        assert!(clock::now() < end);
    }
}

#[test]
fn a_panic_is_an_error_for_those_who_asked_and_nobody_else() {
    let pages = pages(Limits { askers: 1, ..Limits::default() }, |key| {
        assert_ne!(text_of(key), "bad", "on purpose");
        whole(b"good")
    });
    let bad = ask(&pages, &key("bad")).recv_timeout(LIMIT).unwrap();
    assert!(matches!(bad, Err(PageError::Failed(_))));
    assert!(ask(&pages, &key("good")).recv_timeout(LIMIT).unwrap().is_ok());
}

#[test]
fn errors_are_not_kept_and_the_cache_is_bounded_in_bytes() {
    let made = Arc::new(AtomicUsize::new(0));
    let limits = Limits { cache_bytes: 100_000, ..Limits::default() };
    let pages = pages(limits, {
        let made = Arc::clone(&made);
        move |key| {
            if made.fetch_add(1, Ordering::SeqCst) == 0 {
                return Err(PageError::NotYet("warming up".to_owned()));
            }
            whole(text_of(key).repeat(1000).as_bytes())
        }
    });
    assert!(ask(&pages, &key("first")).recv_timeout(LIMIT).unwrap().is_err());
    let held = ask(&pages, &key("first")).recv_timeout(LIMIT).unwrap().unwrap();
    for number in 0..200 {
        ask(&pages, &key(&number.to_string())).recv_timeout(LIMIT).unwrap().unwrap();
    }
    let state = pages.shared.lock();
    let bytes = state.bytes();
    assert!(bytes <= 100_000 && state.pages.len() < 100, "{bytes}");
    drop(state);
    assert!(pages.peek(&key("first")).is_none(), "dropped, the oldest");
    assert_eq!(held.size(), 5000, "and still whole for who holds it");
    pages.let_go(&key("199"));
    assert!(pages.peek(&key("199")).is_none());
}

/// The document is an anchor: what it says of limits is so.
#[test]
fn the_document_states_the_limits() {
    let document = include_str!("../semantics.md");
    let limits = Limits::default();
    for stated in [
        format!("A question gets {} s;", limits.answer.as_secs()),
        format!("A request gets {} s,", limits.request.as_secs()),
        format!("at most {} run at a time, 1,024 wait", limits.askers),
        format!("at most {} MiB", limits.cache_bytes >> 20),
    ] {
        assert!(document.contains(&stated), "{stated}");
    }
    assert_eq!(limits.queue, 1024);
}
