//! Names and what they mean.

use proptest::prelude::*;

use super::*;

fn walk(path: &str) -> Result<Node, NameError> {
    let mut node = Node::Root;
    for name in path.split('/') {
        node = match child(&node, name.as_bytes())? {
            Step::Node(it) => it,
            other => panic!("{other:?}"),
        };
    }
    Ok(node)
}

#[track_caller]
fn check(path: &str, text: &str, form: Form) {
    match walk(path) {
        Ok(Node::Answer(_, asked, got)) => assert_eq!((&*asked.text, got), (text, form), "{path}"),
        other => panic!("{path}: {other:?}"),
    }
}

#[test]
fn a_name_is_a_question_and_its_end_picks_the_form() {
    check("search/why did we leave mysql", "why did we leave mysql", Form::Text);
    check("search/x.json", "x", Form::Json);
    check("search/x.md", "x", Form::Markdown);
    check("search/x%2Emd", "x.md", Form::Text);
    check("search/x%2Ejson.md", "x.json", Form::Markdown);
    check("search/%2ENET", ".NET", Form::Text);
    check("search/a%2Fb", "a/b", Form::Text);
    check("nodes/bicycle", "bicycle", Form::Text);
    // Any other name with `=`, and an escaped one.
    check("search/a=b", "a=b", Form::Text);
    check("search/limit%3D10", "limit=10", Form::Text);
    check("search/Limit=10", "Limit=10", Form::Text);
    // A folder in links has no form.
    assert!(matches!(walk("links/x.md"), Ok(Node::Ranking(asked)) if &*asked.text == "x.md"));
}

#[test]
fn escapes_are_decoded_only_where_they_are_text() {
    check("search/50%", "50%", Form::Text);
    check("search/50%2", "50%2", Form::Text);
    check("search/100%zz", "100%zz", Form::Text);
    check("search/caf%C3%A9", "café", Form::Text);
    check("search/caf%c3%a9 %ff", "café %ff", Form::Text);
    check("search/%ff%C3%A9%C3", "%ffé%C3", Form::Text);
    check("search/%2525", "%25", Form::Text);
    check("search/日%E6%9C%AC", "日本", Form::Text);
}

/// Field cases F01 and F03: whatever is asked is a question.
#[test]
fn no_character_is_syntax() {
    for text in [
        "- *",
        "-*",
        "+ *",
        "* ",
        "NOT *",
        "@nasa",
        "#tag",
        "why?",
        "50%",
        "a=b",
        "C++",
        "usb-c",
        "--error-on-warnings",
        "don't",
        "\"",
        "test\"",
        ">>>",
        "following:",
        "y+(y+25)",
        "AND",
        "OR NOT",
        "[[Link]]",
        "e:\\dir",
        " ",
        "   ",
        "~",
        "$(x)",
        "a\nb",
        "%s",
    ] {
        check(&format!("search/{text}"), text, Form::Text);
    }
}

#[test]
fn options_come_in_any_order_and_are_one_page() {
    let one = walk("search/limit=10/in=digest/tag=b/tag=A/min_score=0.5/q").unwrap();
    let two = walk("search/tag=#a/limit=3/min_score=0.50/in=digest%2F/tag=B/limit=10/%71").unwrap();
    assert_eq!(one, two);
    let Node::Answer(_, asked, _) = &one else { panic!("{one:?}") };
    let query = asked.query(About::Passages);
    assert_eq!((query.limit, query.min_score), (10, Some(0.5)));
    assert_eq!((query.within, query.tags), (vec!["digest".into()], vec!["a".into(), "b".into()]));
    let Ok(Node::Answer(_, asked, _)) = walk("search/path=a%2F*.md/since=2024-02-29/x") else {
        panic!()
    };
    let query = asked.query(About::Passages);
    assert_eq!(
        (query.path.as_deref(), query.since.as_deref()),
        (Some("a/*.md"), Some("2024-02-29"))
    );
    let Ok(Node::Answer(about, asked, _)) = walk("nodes/x") else { panic!() };
    assert_eq!(asked.query(about).limit, 20);
}

#[test]
fn a_known_option_with_a_bad_value_is_refused() {
    for name in [
        "limit=",
        "limit=0",
        "limit=201",
        "limit=ten",
        "limit=+5",
        "limit=-1",
        "limit=1.json",
        "since=yesterday",
        "since=2026-13-01",
        "since=2026-02-29",
        "until=2026-6-01",
        "until=2026-06-31",
        "in=",
        "in=%2Fetc",
        "in=..%2Fx",
        "in=.git",
        "path=",
        "tag=",
        "tag=#",
        "min_score=high",
        "min_score=NaN",
        "min_score=inf",
        "min_score=",
        "since=２０２６-01-01",
    ] {
        assert_eq!(walk(&format!("search/{name}")), Err(NameError::BadOption), "{name}");
    }
}

/// Field case G05: what desktops probe for does not exist, unless asked for by its letters.
#[test]
fn probes_do_not_exist() {
    for name in [
        ".Trash",
        ".Trash-1000",
        ".git",
        ".hidden",
        ".directory",
        ".DS_Store",
        ".gitignore",
        ".envrc",
        "autorun.inf",
        "Autorun.inf",
        "desktop.ini",
        "Thumbs.db",
        "HEAD",
        "CACHEDIR.TAG",
        "package.json",
        "node_modules",
        "tsconfig.json",
        "jsconfig.json",
        "#draft#",
        ".json",
        ".md",
    ] {
        for folder in ["search", "nodes", "links", "search/limit=3"] {
            let path = format!("{folder}/{name}");
            assert_eq!(walk(&path), Err(NameError::Absent), "{path}");
        }
        assert_eq!(walk(name), Err(NameError::Absent), "{name}");
    }
    check("search/autorun%2Einf", "autorun.inf", Form::Text);
    check("search/head", "head", Form::Text);
    check("search/%48EAD", "HEAD", Form::Text);
    check("search/%70ackage.json", "package", Form::Json);
    check("search/package", "package", Form::Text);
    check("search/##", "##", Form::Text);
    for name in ["topics.md", "inbox.md", "Today.md", "x"] {
        assert_eq!(walk(name), Err(NameError::Absent), "{name}");
    }
}

#[test]
fn what_is_no_text_or_too_long_is_told_apart() {
    let search = Node::Ask(About::Passages, Arc::default());
    assert_eq!(child(&search, b"bad\xff"), Err(NameError::NotText));
    assert_eq!(child(&search, &b"x".repeat(MAX_NAME + 1)), Err(NameError::TooLong));
    assert!(child(&search, &b"x".repeat(MAX_NAME)).is_ok());
    let mut node = search;
    let refused = (0..200).find_map(|number| {
        match child(&node, format!("tag={}{number}", "t".repeat(100)).as_bytes()) {
            Ok(Step::Node(it)) => {
                node = it;
                None
            }
            other => Some(other),
        }
    });
    assert_eq!(refused, Some(Err(NameError::TooLong)), "options are bounded");
}

#[test]
fn notes_are_named_by_their_bytes() {
    let path = |bytes: &[u8]| VaultPath::new(bytes).unwrap();
    assert_eq!(child(&Node::Notes, b"bad\xff"), Ok(Step::InVault(path(b"bad\xff"))));
    assert_eq!(
        child(&Node::Folder(path(b"a")), b"50%25.md"),
        Ok(Step::InVault(path(b"a/50%25.md")))
    );
    assert_eq!(child(&Node::Notes, b".git"), Err(NameError::Absent));
    let note = Node::Note(path(b"a.md"));
    assert_eq!(
        child(&note, b"backlinks"),
        Ok(Step::Node(Node::Neighbours(path(b"a.md"), Direction::In)))
    );
    assert_eq!(child(&note, b"versions"), Err(NameError::Absent));
}

/// Field case A09: any length, cut on a character.
#[test]
fn ranked_names_fit_and_stay_text() {
    assert_eq!(ranked_name(1, 5, "Why/how"), b"01-Why-how.md");
    assert_eq!(ranked_name(7, 100, "a\nb"), b"007-a\\nb.md");
    for unit in ["─", "日", "👨‍👩‍👧", "é", "a"] {
        for shift in 0..4 {
            let name = format!("{}{}", "x".repeat(shift), unit.repeat(300));
            let ranked = ranked_name(3, 5, &name);
            assert!(ranked.len() <= 255 && ranked.len() > 240, "{unit} {shift}");
            assert!(std::str::from_utf8(&ranked).is_ok());
        }
    }
    assert_eq!(ranked_name(1, 1, ""), b"01-.md");
}

fn form() -> impl Strategy<Value = Form> {
    prop_oneof![Just(Form::Text), Just(Form::Json), Just(Form::Markdown)]
}

proptest! {
    #[test]
    fn a_question_comes_back_from_its_name(
        text in prop_oneof![
            any::<String>(),
            "(\\.|%[0-9A-F]{2}|limit=|tag=|=|/|autorun\\.inf|Thumbs\\.db|HEAD|package|node_modules|#|\\.md|\\.json|a|é){1,6}",
        ],
        form in form(),
    ) {
        let Some(name) = query_name(&text, form) else {
            prop_assert!(text.is_empty());
            return Ok(());
        };
        prop_assert!(!name.contains(['/', '\0']));
        let search = Node::Ask(About::Passages, Arc::default());
        if name.len() > MAX_NAME {
            return Ok(());
        }
        let asked = Asked { options: Arc::default(), text: text.into() };
        prop_assert_eq!(
            child(&search, name.as_bytes()),
            Ok(Step::Node(Node::Answer(About::Passages, asked, form)))
        );
    }

    #[test]
    fn any_bytes_mean_something_or_nothing(names in prop::collection::vec(
        prop_oneof![
            prop::collection::vec(any::<u8>(), 0..40),
            "(search|nodes|links|note|similar|limit=[0-9]{1,3}|in=%2?[a-z]*|tag=.*|%[0-9a-f]{0,2}|min_score=.*)"
                .prop_map(String::into_bytes),
        ],
        0..6,
    )) {
        let mut node = Node::Root;
        for name in names {
            match child(&node, &name) {
                Ok(Step::Node(it)) => node = it,
                Ok(Step::InVault(path)) => node = Node::Folder(path),
                Ok(Step::InSimilar(path)) => node = Node::SimilarFolder(path),
                Ok(Step::InListing | Step::Moment(_)) | Err(_) => break,
            }
        }
        if let Node::Answer(about, asked, _) = node {
            prop_assert!((1..=Query::MAX_LIMIT).contains(&asked.query(about).limit));
        }
    }
}
