//! Beyond one query: times, replaced notes, what is near, what is linked, what was given before.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json as object};

use crate::house::{House, has_fuse};
use crate::providers;
use crate::providers::server::{Act, Server, say};

fn json(house: &House, args: &[&str]) -> Value {
    let said = house.run(args.iter().copied());
    assert!(matches!(said.code, 0 | 1), "{args:?}: {}{}", said.stdout, said.stderr);
    serde_json::from_str(&said.stdout).unwrap_or_else(|err| panic!("{args:?}: {err}"))
}

fn paths(found: &Value) -> Vec<&str> {
    found["results"].as_array().unwrap().iter().map(|it| it["path"].as_str().unwrap()).collect()
}

#[test]
fn a_time_in_the_question_moves_its_notes_up_with_an_agent_and_without() {
    let mut house = House::open();
    for day in 10..30 {
        let path = format!("memory/2026-05-{day}/dinner.md");
        house.write(&path, "# Dinner\n\nDinner with Ada, and soup of lentils.\n");
    }
    house.settle_and_check();
    let check = |house: &House| {
        let found = json(house, &["search", "--json", "what soup did we have on 28 May 2026"]);
        assert_eq!(paths(&found)[0], "memory/2026-05-28/dinner.md");
        let ranking = found["ranking"].as_str().unwrap();
        assert!(ranking.contains("notes of 2026-05-28 preferred"), "{ranking}");
        let plain = json(house, &["search", "--json", "what soup did we have"]);
        assert_eq!(paths(&plain)[0], "memory/2026-05-10/dinner.md");
        let said = house.run(["search", "--explain", "what soup did we have on 28 May 2026"]);
        assert!(said.stdout.contains(" it is of the time that the query names"), "{}", said.stdout);
    };
    check(&house);
    house.stop();
    check(&house);
    house.write("remd.yaml", "search:\n  prefer_dates: false\n");
    let found = json(&house, &["search", "--json", "what soup did we have on 28 May 2026"]);
    assert!(!found["ranking"].as_str().unwrap().contains("preferred"), "{}", found["ranking"]);
}

#[test]
fn a_replaced_note_says_by_what_and_stands_below_it() {
    let house = House::open();
    house.write(
        "old.md",
        "---\nstatus: superseded\nsuperseded_by: \"[[new]]\"\n---\nTide tables by post: tide tables.\n",
    );
    house.write(
        "new.md",
        "---\nname: New way\n---\nNow the tide tables are online, and much else.\n",
    );
    house.settle_and_check();
    let said = house.run(["search", "tide tables by post"]);
    let text = said.stdout;
    let (new, old) = (text.find("== new.md:").unwrap(), text.find("== old.md:").unwrap());
    assert!(new < old, "{text}");
    assert!(text.contains("\n  superseded by new.md  name=\"New way\"\n"), "{text}");
    let found = json(&house, &["search", "--json", "tide tables by post"]);
    assert_eq!(found["results"][1]["superseded_by"]["path"], "new.md");
    assert!(found["results"][0].get("superseded_by").is_none());
    if has_fuse("a replaced note under the mount") {
        assert_eq!(house.cat("search/tide tables by post"), text);
    }
}

#[test]
fn what_is_near_a_note_is_a_page_under_the_mount_and_a_command() {
    let mut house = House::open();
    house.write(
        "memory/commute.md",
        "# Commute\n\nEvery morning I ride my bicycle to the office.\n",
    );
    house.write("work.md", "# Going to work\n\nCycling to work on two wheels in the morning.\n");
    house.write("soup.md", "# Soup\n\nBoil lentils with carrots, salt and a bay leaf.\n");
    house.settle_and_check();
    let said = house.run(["similar", "memory/commute.md"]);
    assert_eq!(said.code, 0, "{}{}", said.stdout, said.stderr);
    assert!(said.stdout.starts_with("========== work.md:1-3 [score="), "{}", said.stdout);
    assert!(!said.stdout.contains("== memory/commute.md"), "{}", said.stdout);
    assert_eq!(house.run(["similar", "commute"]).stdout, said.stdout);
    if has_fuse("similar/ under the mount") {
        assert_eq!(house.cat("similar/memory/commute.md"), said.stdout);
        let page: Value =
            serde_json::from_str(&house.cat("similar/memory/commute.md.json")).unwrap();
        assert_eq!(paths(&page)[0], "work.md");
        let mut names: Vec<_> = std::fs::read_dir(house.mount.join("similar/memory"))
            .unwrap()
            .map(|it| it.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        assert_eq!(names, ["commute.md"]);
        assert_eq!(std::fs::read_dir(house.mount.join("similar")).unwrap().count(), 0);
        let none = std::fs::metadata(house.mount.join("similar/none.md")).unwrap_err();
        assert_eq!(none.kind(), std::io::ErrorKind::NotFound);
    }
    let none = house.run(["similar", "none.md"]);
    assert_eq!(none.code, 2);
    assert!(none.stderr.contains("There is no note `none.md`"), "{}", none.stderr);
    house.stop();
    let alone = house.run(["similar", "memory/commute.md"]);
    assert!(alone.stdout.starts_with("========== work.md:1-3 [score="), "{}", alone.stdout);
    assert!(alone.stdout.contains("no agent: edits since then unknown"), "{}", alone.stdout);
}

#[test]
fn nodes_links_graph_and_tags_are_commands_in_the_documented_shapes() {
    let mut house = House::open();
    house.write(
        "digest/wiki/bicycle.md",
        "---\nname: Bicycle\ndescription: Two wheels.\nmemory_tags: [Bike]\n---\nSee [[commute#Way]].\n",
    );
    for it in 0..40 {
        house.write(format!("memory/2026-07-23/{it}.md"), "bicycle bicycle bicycle #bike\n");
    }
    house.write("memory/2026-07-23/commute.md", "# Way\n\nBy [[bicycle]].\n");
    house.settle_and_check();
    let check = |house: &House| {
        let said = house.run(["nodes", "bicycle"]);
        let head = "=== node_search query=\"bicycle\" hits=1/";
        assert!(said.stdout.starts_with(head), "{}", said.stdout);
        let node = "digest/wiki/bicycle.md\n  name: Bicycle\n  description: Two wheels.\n";
        assert!(said.stdout.contains(node), "{}", said.stdout);
        let nodes = json(house, &["nodes", "--json", "bicycle"]);
        assert_eq!(
            (paths(&nodes), &nodes["counts"]["returned"]),
            (vec!["digest/wiki/bicycle.md"], &1.into())
        );
        assert_eq!(nodes["hits"][0]["description"], "Two wheels.");
        let found = json(house, &["search", "--json", "--tag", "bike", "-n", "1", "two wheels"]);
        let expansion = serde_json::json!({"digest/wiki/bicycle.md": {
            "outlinks": [{"path": "memory/2026-07-23/commute.md", "meta": {"name": "commute"},
                          "anchors": ["Way"]}],
            "inlinks": [{"path": "memory/2026-07-23/commute.md", "meta": {"name": "commute"},
                         "anchors": []}],
        }});
        assert_eq!(found["link_expansion"], expansion);
        assert_eq!(found["tag_filter"]["applied"], true);
        let walk =
            json(house, &["traverse", "--json", "--direction", "out", "digest/wiki/bicycle.md"]);
        let walked = serde_json::json!([
            {"id": "digest/wiki/bicycle.md", "path": "digest/wiki/bicycle.md", "name": "Bicycle",
             "description": "Two wheels.", "depth": 0, "indexed": true},
            {"id": "memory/2026-07-23/commute.md", "path": "memory/2026-07-23/commute.md",
             "name": "commute", "description": null, "depth": 1, "indexed": true},
        ]);
        assert_eq!((&walk["version"], &walk["nodes"]), (&1.into(), &walked));
        let edge = serde_json::json!([{"source": "digest/wiki/bicycle.md",
            "target": "memory/2026-07-23/commute.md", "target_anchor": "Way", "depth": 1}]);
        assert_eq!((&walk["edges"], &walk["seeds"][0]), (&edge, &"digest/wiki/bicycle.md".into()));
        let graph = json(house, &["graph", "--json"]);
        assert_eq!(graph["nodes"][0]["id"], "virtual:wiki");
        assert_eq!(graph["edges"][1]["source"], "virtual:wiki");
        let tags = json(house, &["tags", "--json"]);
        assert_eq!(
            (&tags["items"], &tags["range"]),
            (&serde_json::json!([["bike", 41]]), &serde_json::json!([1, 1]))
        );
        let said = house.run(["tags"]);
        assert!(said.stdout.starts_with("    41  bike\n-- 1 tag as of "), "{}", said.stdout);
    };
    check(&house);
    let wrong = house.run(["traverse", "--direction", "up", "a.md"]);
    assert_eq!(wrong.code, 2);
    assert!(wrong.stderr.contains("forward, backward, both, out, in"), "{}", wrong.stderr);
    house.stop();
    check(&house);
}

#[test]
fn a_conversation_is_given_no_passage_twice() {
    let mut house = House::open();
    for it in 0..3 {
        house.write(format!("{it}.md"), "tide tables\n");
    }
    house.settle_and_check();
    let ask = |context: &str| {
        json(&house, &["search", "--json", "-n", "2", "--context", context, "tide tables"])
    };
    assert_eq!(paths(&ask("a")), ["0.md", "1.md"]);
    let second = ask("a");
    assert_eq!(paths(&second), ["2.md"]);
    assert_eq!(second["dedup"]["skipped_seen"], 2);
    let third = ask("a");
    assert_eq!(third["empty_result"]["reason"], "all_returned");
    assert_eq!(paths(&ask("b")), ["0.md", "1.md"]);
    let said = house.run(["search", "--context", "a", "tide tables"]);
    assert!(said.stdout.starts_with("No new hits: 3 were given before.\n"), "{}", said.stdout);
    assert_eq!(said.code, 1);
    house.stop();
    let alone = house.run(["search", "--context", "a", "tide tables"]);
    assert_eq!(alone.code, 5, "{}", alone.stderr);
}

/// Puts passages in order by how many `!` they have, while it is well.
fn reranker(is_ill: &Arc<AtomicBool>) -> Server {
    let is_ill = Arc::clone(is_ill);
    Server::start(move |request, _| {
        if is_ill.load(Ordering::SeqCst) {
            return Act::Say(500, Vec::new(), "out of sk-order-1".to_owned());
        }
        let documents = request.body["documents"].as_array().unwrap();
        let marks = |at: &usize| documents[*at].as_str().unwrap().matches('!').count();
        let mut order: Vec<usize> = (0..documents.len()).collect();
        order.sort_by_key(|it| std::cmp::Reverse(marks(it)));
        let results: Vec<Value> = order.iter().map(|it| object!({"index": it})).collect();
        say(200, object!({"results": results}))
    })
}

#[test]
fn a_reranker_orders_what_was_found_and_its_failure_costs_nothing_else() {
    let is_ill = Arc::new(AtomicBool::new(false));
    let server = reranker(&is_ill);
    let config = format!(
        "reranker_config:\n  enabled: true\n  base_url: {}\n  model_name: m\n  api_key: sk-order-1\n",
        server.url()
    );
    let mut house = providers::house(&config);
    house.write("plain.md", "The tide tables of the harbour: tide tables.\n");
    house.write("loud.md", "The tide tables, and much else besides! And so on!\n");
    house.settle();
    let ask = |house: &House| house.run(["search", "-n", "1", "tide tables of the harbour"]);
    let said = ask(&house);
    assert!(said.stdout.starts_with("========== loud.md:"), "{}", said.stdout);
    assert!(said.stdout.ends_with(", reranked by m\n"), "{}", said.stdout);
    assert_eq!(server.requests()[0].headers["authorization"], "Bearer sk-order-1");
    // To the letter is to the letter.
    let before = server.requests().len();
    assert!(house.run(["search", "\"tables of the harbour\""]).stdout.contains("plain.md:1-1"));
    assert_eq!(server.requests().len(), before);
    is_ill.store(true, Ordering::SeqCst);
    let said = ask(&house);
    assert_eq!(said.code, 0);
    assert!(said.stdout.starts_with("========== plain.md:"), "{}", said.stdout);
    assert!(
        said.stdout.ends_with(", not reranked: it answered 500: out of ***\n"),
        "{}",
        said.stdout
    );
    let problem = providers::problem(&house, "reranker").expect("the problem is named");
    assert!(!problem.to_string().contains("sk-order-1"), "{problem}");
    is_ill.store(false, Ordering::SeqCst);
    ask(&house);
    assert!(providers::problem(&house, "reranker").is_none());
    house.stop();
    let alone = ask(&house);
    assert!(alone.stdout.starts_with("========== loud.md:"), "{}", alone.stdout);
    // Nothing from a vault names a server.
    providers::settings(&house, "");
    let vault = config.replace("enabled: true", "enabled: true\n  timeout: 1");
    house.write("remd.yaml", vault);
    let alone = ask(&house);
    assert!(alone.stdout.starts_with("========== plain.md:"), "{}", alone.stdout);
}
