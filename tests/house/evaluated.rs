//! How well a vault answers: `remd eval`, and a labelled set of our own.

use serde_json::Value;

use crate::house::{House, Said};

const NOTES: &str = include_str!("../labelled/notes.txt");
const QUESTIONS: &str = include_str!("../labelled/questions.jsonl");

fn eval(house: &House, questions: &str, args: &[&str]) -> Said {
    let file = house.root().join("questions.jsonl");
    std::fs::write(&file, questions).unwrap();
    let file = file.display().to_string();
    house.run(["eval", &file].into_iter().chain(args.iter().copied()))
}

fn json(said: &Said) -> Value {
    serde_json::from_str(&said.stdout)
        .unwrap_or_else(|err| panic!("{err}: {}{}", said.stdout, said.stderr))
}

fn check(object: &Value, wanted: [(&str, f64); 6]) {
    for (name, wanted) in wanted {
        let found = object[name].as_f64().unwrap_or_else(|| panic!("{name}: {object:#}"));
        assert!((found - wanted).abs() < 1e-9, "{name}: {found}, not {wanted}");
    }
}

/// A house with the labelled notes, as a new user has it: those of the template are there, too.
fn labelled() -> House {
    let mut house = House::closed();
    house.start();
    let mut count = 0;
    for note in NOTES.split("=== ").filter(|it| !it.is_empty()) {
        let (path, text) = note.split_once('\n').unwrap();
        house.write(path, text);
        count += 1;
    }
    assert!(count > 40, "{count}");
    house.settle_and_check();
    house
}

#[test]
fn figures_are_those_worked_out_by_hand_and_bad_lines_cost_nothing() {
    let mut house = House::open();
    house.write("falcon.md", "# Falcon\n\nThe falcon dives.\n");
    house.write("river.md", "# River\n\nThe river floods in spring.\n");
    house.write("soup.md", "# Soup\n\nBoil lentils with salt.\n");
    house.settle_and_check();
    let questions = r#"{"query": "falcon", "relevant_paths": ["falcon.md"], "category": "one"}
{"query": "river", "relevant_paths": ["river.md", "falcon.md"], "category": "two"}
{"query": "zzxqy", "relevant_paths": ["soup.md"], "category": "two"}
"#;
    // A word that is found is answered by words alone, so that hybrid has the same.
    // falcon: all 1. river: one of two, at the first place: 1 / (1 + 1/log2 3). zzxqy: nothing.
    let half = 1.0 / (1.0 + 1.0 / 3_f64.log2());
    let all = [
        ("recall@1", 0.5),
        ("recall@5", 0.5),
        ("recall@10", 0.5),
        ("hit@5", 2.0 / 3.0),
        ("mrr", 2.0 / 3.0),
        ("ndcg@10", (1.0 + half) / 3.0),
    ];
    let two = [
        ("recall@1", 0.25),
        ("recall@5", 0.25),
        ("recall@10", 0.25),
        ("hit@5", 0.5),
        ("mrr", 0.5),
        ("ndcg@10", half / 2.0),
    ];
    let with_and_without = |house: &House| {
        let said = eval(house, questions, &["--json", "--by-category", "--paths"]);
        assert_eq!(said.code, 0, "{}{}", said.stdout, said.stderr);
        let object = json(&said);
        assert_eq!(object["schema_version"], 1);
        assert_eq!(object["commit"], house.git(["rev-parse", "HEAD"]));
        assert_eq!(
            (&object["questions"], &object["model"]),
            (&3.into(), &"remd-static-256".into())
        );
        for branch in ["keyword", "hybrid"] {
            check(&object["branches"][branch], all);
            check(&object["categories"]["two"][branch], two);
        }
        assert_eq!(object["answers"][1]["paths"]["keyword"], serde_json::json!(["river.md"]));
        let said = eval(house, questions, &["--by-category"]);
        let row =
            format!("{:<32}    0.500    0.500    0.500    0.667    0.667    0.538", "keyword");
        assert!(said.stdout.lines().any(|it| it == row), "{}", said.stdout);
        assert!(said.stdout.contains("\ntwo (2 questions)\nkeyword "), "{}", said.stdout);
        assert!(said.stdout.contains("\nhybrid (score 0.5) "), "{}", said.stdout);
    };
    with_and_without(&house);
    house.stop();
    with_and_without(&house);

    let odd = format!(
        "{questions}{{\"query\": \"soup\"\n\n{{\"query\": \"soup\", \"relevant_paths\": \
         [\"gone.md\", \"soup.md\"]}}\n{{\"query\": \"x\"}}\n"
    );
    let said = eval(&house, &odd, &["--json"]);
    assert_eq!(said.code, 3, "{}{}", said.stdout, said.stderr);
    let object = json(&said);
    assert_eq!(object["questions"], 4);
    let lines: Vec<_> =
        object["bad_lines"].as_array().unwrap().iter().map(|it| &it["line"]).collect();
    assert_eq!(lines, [4, 7]);
    assert_eq!(object["not_in_vault"], serde_json::json!([{"path": "gone.md", "lines": [6]}]));
    for named in ["line 4: it is no JSON", "line 7: it has no `relevant_paths`", "`gone.md`"] {
        assert!(said.stderr.contains(named), "{named}: {}", said.stderr);
    }

    let said = eval(&house, "nothing\n", &[]);
    assert_eq!((said.code, said.stdout.as_str()), (2, ""));
    assert!(said.stderr.contains("line 1: it is no JSON") && said.stderr.contains("hint: "));
    let said = house.run(["eval", "missing.jsonl"]);
    assert_eq!(said.code, 2, "{}", said.stderr);
    let said = eval(&house, questions.lines().next().unwrap(), &["--tune"]);
    assert_eq!(said.code, 2, "one question has no halves: {}", said.stdout);
}

#[test]
fn on_every_kind_of_question_both_branches_do_at_least_as_well_as_words() {
    let house = labelled();
    let said = eval(&house, QUESTIONS, &["--json", "--by-category", "--paths"]);
    assert_eq!(said.code, 0, "{}{}", said.stdout, said.stderr);
    let object = json(&said);
    let kinds = object["categories"].as_object().unwrap();
    assert_eq!(kinds.len(), 4, "{kinds:?}");
    for (kind, branches) in kinds {
        let asked = QUESTIONS.matches(&format!("\"category\": \"{kind}\"")).count();
        assert!(asked >= 10, "{kind}: {asked}");
        for measure in ["recall@5", "mrr"] {
            let of = |branch: &str| branches[branch][measure].as_f64().unwrap();
            let (words, both) = (of("keyword"), of("hybrid"));
            assert!(both >= words, "{kind} {measure}: {words} by words, {both} by both");
        }
    }
    // What is written to the letter is first, whatever vectors say; other scripts are found.
    for kind in ["identifier", "cjk", "accents"] {
        for answer in answers(&object, kind) {
            let found = &answer["paths"]["hybrid"][0];
            assert_eq!(*found, answer["wanted"], "{answer:#}");
        }
    }
    // What has none of the words is found by its meaning.
    let paraphrases = answers(&object, "paraphrase");
    let among = |branch: &str, answer: &Value| {
        let found = answer["paths"][branch].as_array().unwrap();
        found.iter().take(5).any(|it| *it == answer["wanted"])
    };
    let missed: Vec<_> = paraphrases.iter().filter(|it| !among("keyword", it)).collect();
    assert!(missed.len() >= 8, "words alone miss only {}", missed.len());
    let found = missed.iter().filter(|it| among("hybrid", it)).count();
    assert!(found * 4 >= missed.len() * 3, "{found} of {}", missed.len());
    let bicycle = &paraphrases[0];
    assert_eq!(bicycle["query"], "how does the user travel to work");
    assert!(among("hybrid", bicycle), "{bicycle:#}");
}

#[test]
fn in_a_new_vault_the_bicycle_is_what_the_user_travels_to_work_by() {
    let mut house = House::closed();
    house.start();
    house.write(
        "memory/2026-07-23/commute.md",
        "# Commute\n\nThe user rides a bicycle to the office every morning, along the canal.\n",
    );
    house.write("memory/2026-07-23/lunch.md", "# Lunch\n\nA sandwich at the desk, mostly.\n");
    house.settle_and_check();
    let found = house.run(["search", "--json", "how does the user travel to work"]);
    assert_eq!(json(&found)["results"][0]["path"], "memory/2026-07-23/commute.md");
    // The manual is found by what it tells.
    let found = house.run(["search", "--json", "how do I get back a deleted note"]);
    assert_eq!(json(&found)["results"][0]["path"], "digest/procedure/take-back-an-edit.md");
}

/// The answers to questions of one kind, with the note that was wanted.
fn answers(object: &Value, kind: &str) -> Vec<Value> {
    let questions: Vec<Value> =
        QUESTIONS.lines().map(|it| serde_json::from_str(it).unwrap()).collect();
    let answers = object["answers"].as_array().unwrap();
    assert_eq!(answers.len(), questions.len());
    let both = questions.iter().zip(answers).filter(|it| it.0["category"] == kind);
    both.map(|(question, answer)| {
        let mut answer = answer.clone();
        answer["wanted"] = question["relevant_paths"][0].clone();
        answer["query"] = question["query"].clone();
        answer
    })
    .collect()
}

#[test]
fn a_weight_is_proposed_by_what_it_gains_where_it_was_not_chosen() {
    let mut house = labelled();
    house.stop();
    // With no weight at all, meaning helps only where words find nothing.
    house.write("remd.yaml", "search:\n  vector_weight: 0\n");
    house.git(["add", "remd.yaml"]);
    house.git(["commit", "-qm", "settings"]);
    let overall = |object: &Value, branch: &str| {
        let of = |name: &str| object["branches"][branch][name].as_f64().unwrap();
        of("recall@5") + of("mrr") + of("ndcg@10")
    };
    let said = eval(&house, QUESTIONS, &["--json", "--tune"]);
    assert_eq!(said.code, 0, "{}{}", said.stdout, said.stderr);
    let object = json(&said);
    let before = overall(&object, "hybrid");
    assert_eq!(object["vector_weight"], 0.0);
    let proposed = object["tune"]["proposed"].as_f64().unwrap();
    assert!(proposed > 0.0, "{:#}", object["tune"]);
    for crossed in object["tune"]["crossed"].as_array().unwrap() {
        let (on, seen) = (&crossed["chosen_on"], &crossed["seen_on"]);
        assert_eq!(on.as_u64().unwrap() + seen.as_u64().unwrap(), 57);
        let of = |which: &str| crossed[which]["mrr"].as_f64().unwrap();
        assert!(of("found") > of("in_use"), "{crossed:#}");
    }
    // The text says what to write, and that does what was said.
    let said = eval(&house, QUESTIONS, &["--tune"]);
    let (_, lines) = said.stdout.split_once("then `remd reload`:\n\n").unwrap();
    assert_eq!(lines, format!("search:\n  vector_weight: {proposed}\n"));
    house.write("remd.yaml", lines);
    let object = json(&eval(&house, QUESTIONS, &["--json"]));
    assert_eq!(object["vector_weight"], proposed);
    assert!(overall(&object, "hybrid") > before);
}
