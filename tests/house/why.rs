//! `remd why`: from a sentence back to the message it came from, with commits as jobs write them.

use std::fs;

use serde_json::Value;

use crate::blame::{by_hand, commit_as_job};
use crate::house::{House, Said};

const SAID: &str = "We left mysql because nobody could restore the backups in time";

/// A line of a session's log.
fn message(name: &str, role: &str, at: &str, text: &str) -> String {
    let text = serde_json::to_string(text).unwrap();
    format!(
        "{{\"name\":\"{name}\",\"content\":[{{\"type\":\"text\",\"text\":{text}}}],\"role\":\"{role}\",\"id\":\"{at}\",\"created_at\":\"{at}\"}}\n"
    )
}

fn json(said: &Said) -> Value {
    serde_json::from_str(&said.stdout)
        .unwrap_or_else(|err| panic!("{err}: {}{}", said.stdout, said.stderr))
}

fn head(house: &House) -> String {
    house.git(["rev-parse", "HEAD"])
}

/// Session → daily note → digest note, each step a commit of a job.
fn with_a_chain() -> (House, [String; 3]) {
    let house = by_hand();
    let log = [
        message("Ada", "user", "2026-06-29T10:00:00", "What do we do about the outage?"),
        message(
            "Ada",
            "user",
            "2026-06-29T10:05:00",
            &format!("Listen.\n{SAID}, and it cost us a week."),
        ),
        message("claude", "assistant", "2026-06-29T10:06:00", "I will note that down."),
    ];
    house.write("mem_session/dialog/session-a.jsonl", log.concat());
    commit_as_job(
        &house,
        "memory: create mem_session/dialog/session-a.jsonl",
        &[("Remd-Cause", "api"), ("Remd-Agent", "claude-code")],
    );
    let session = head(&house);
    house.write(
        "memory/2026-06-29/outage.md",
        format!("# Outage\n\n- {SAID}.\n- Postgres is next.\n"),
    );
    commit_as_job(
        &house,
        "memory: create memory/2026-06-29/outage.md",
        &[
            ("Remd-Cause", "job"),
            ("Remd-Job", "auto_memory"),
            ("Remd-Run", "01JAAA"),
            ("Remd-Session", "session-a"),
            ("Remd-Agent", "claude-code"),
        ],
    );
    let daily = head(&house);
    house.write("digest/wiki/databases.md", "# Databases\n\nIn June **we left `mysql`**, because nobody\ncould restore the backups in time.\n\nAnother line.\n");
    commit_as_job(
        &house,
        "memory: create digest/wiki/databases.md",
        &[
            ("Remd-Cause", "job"),
            ("Remd-Job", "auto_dream"),
            ("Remd-Run", "01JBBB"),
            ("Remd-Input", "memory/2026-06-29/outage.md"),
        ],
    );
    let digest = head(&house);
    (house, [session, daily, digest])
}

#[test]
fn a_sentence_is_followed_to_the_message_it_came_from() {
    let (house, [session, daily, digest]) = with_a_chain();
    let said =
        house.run(["why", "--json", "we left mysql, because nobody could restore the backups"]);
    assert_eq!(said.code, 0, "{}", said.stderr);
    let page = json(&said);
    assert_eq!(page["exact"], true);
    let places: Vec<_> = [&page["chain"]]
        .into_iter()
        .chain(page["others"].as_array().unwrap())
        .map(|it| format!("{}:{}", it["path"].as_str().unwrap(), it["line"]))
        .collect();
    // Both notes say it; the other one is named.
    assert_eq!(places.len(), 2, "{places:?}");
    assert!(
        places.contains(&"digest/wiki/databases.md:3".to_owned())
            && places.contains(&"memory/2026-06-29/outage.md:3".to_owned()),
        "{places:?}"
    );

    let chain = &json(&house.run(["why", "--json", "digest/wiki/databases.md:4"]))["chain"];
    assert_eq!(
        (&chain["commit"]["commit"], &chain["commit"]["job"], &chain["commit"]["run"]),
        (&Value::from(digest), &Value::from("auto_dream"), &Value::from("01JBBB"))
    );
    let input = &chain["evidence"][0];
    assert_eq!(
        (&input["kind"], &input["named"], &input["line"]),
        (&Value::from("note"), &Value::from("memory/2026-06-29/outage.md"), &Value::from(3))
    );
    let below = &input["chain"];
    assert_eq!(
        (&below["commit"]["commit"], &below["commit"]["session"]),
        (&Value::from(daily), &Value::from("session-a"))
    );
    let message = &below["evidence"][0];
    assert_eq!(
        (&message["kind"], &message["line"], &message["name"]),
        (&Value::from("message"), &Value::from(2), &Value::from("Ada"))
    );
    assert_eq!(message["when"], "2026-06-29T10:05:00");
    assert!(message["text"].as_str().unwrap().contains(SAID));
    assert_ne!(message["at"], Value::from(session), "as the note's commit has it");

    let text = house.run(["why", "digest/wiki/databases.md:4"]).stdout;
    for part in [
        "digest/wiki/databases.md:4 at ",
        "  > could restore the backups in time.\n",
        "[job] remd: memory: create digest/wiki/databases.md\n",
        "job auto_dream, run 01JBBB\n",
        "from `memory/2026-06-29/outage.md` (",
        "session `session-a`, mem_session/dialog/session-a.jsonl:2 at ",
        "Ada (user), 2026-06-29T10:05:00",
        "-- 2 steps, back to 1 message\n",
    ] {
        assert!(text.contains(part), "{part:?} in\n{text}");
    }
}

#[test]
fn what_is_nowhere_is_the_nearest_or_nothing() {
    let (house, _) = with_a_chain();
    let page = json(&house.run(["why", "--json", "the backups nobody could restore"]));
    assert_eq!(page["exact"], false, "{page}");
    assert!(page["share"].as_f64().unwrap() > 0.3);
    let text = house.run(["why", "the backups nobody could restore"]).stdout;
    assert!(text.starts_with("No note says exactly that; this is the nearest ("), "{text}");
    let said = house.run(["why", "zebra quagga okapi"]);
    assert_eq!((said.code, said.stdout.as_str()), (1, ""), "{}", said.stderr);
    // The same over the agent.
    let mut house = house;
    house.start();
    house.settle();
    assert_eq!(
        json(&house.run(["why", "--json", "nobody could restore the backups in time"]))["exact"],
        true
    );
    let text = house.run(["why", "Another line."]).stdout;
    assert!(
        text.contains("digest/wiki/databases.md:6 at ") && text.contains("> Another line."),
        "{text}"
    );
    // Nobody has committed it yet, or nobody ever will: it is shown as that.
    house.run(["pause"]);
    house.write("memory/2026-06-29/outage.md", "# Outage\n\nA sentence that was just written.\n");
    let text = house.run(["why", "memory/2026-06-29/outage.md:3"]).stdout;
    assert!(
        text.contains("no commit has it yet") && text.ends_with("-- 1 step, not committed yet\n"),
        "{text}"
    );
    house.run(["resume"]);
}

#[test]
fn the_end_of_a_chain_is_said() {
    let (house, _) = with_a_chain();
    // A person's own commit is its end.
    house.write("mine.md", "I wrote this myself.\n");
    house.git(["add", "-A"]);
    house.git(["commit", "-qm", "by hand"]);
    let text = house.run(["why", "mine.md:1"]).stdout;
    assert!(
        text.contains("[-] Ada: by hand")
            && text.ends_with("-- 1 step, back to a commit that names nothing it was made from\n"),
        "{text}"
    );
    // The log of the session is gone from HEAD, and from the commit that it is asked at not.
    fs::remove_file(house.at("mem_session/dialog/session-a.jsonl")).unwrap();
    house.git(["add", "-A"]);
    house.git(["commit", "-qm", "tidied"]);
    let text = house.run(["why", "memory/2026-06-29/outage.md:3"]).stdout;
    assert!(text.contains("session-a.jsonl:2 at "), "its own commit has it: {text}");
    let last = house.git(["rev-parse", "HEAD~1"]);
    house.write("late.md", format!("{SAID}.\n"));
    commit_as_job(
        &house,
        "memory: create late.md",
        &[
            ("Remd-Cause", "job"),
            ("Remd-Session", "session-a"),
            ("Remd-Input", "memory/none.md"),
            ("Remd-Input", "../../etc/passwd"),
            ("Remd-Session", "x"),
        ],
    );
    let said = house.run(["why", "--json", "late.md:1"]);
    let evidence = json(&said)["chain"]["evidence"].clone();
    assert_eq!(
        (&evidence[0]["kind"], &evidence[0]["last_commit"]),
        (&Value::from("missing"), &Value::Null)
    );
    assert_eq!(evidence[1]["why"], "it is neither a blob nor a path in the vault");
    assert_eq!(evidence[2]["kind"], "missing");
    let has = house.git([
        "log",
        "-1",
        "--format=%H",
        "--diff-filter=A",
        "--",
        "mem_session/dialog/session-a.jsonl",
    ]);
    assert_eq!(evidence[2]["last_commit"], Value::from(has.clone()), "{last}");
    let text = house.run(["why", "late.md:1"]).stdout;
    assert!(
        text.contains(&format!(
            "commit {} still has it: `git show {}:./mem_session/dialog/session-a.jsonl`",
            &has[..7],
            &has[..7]
        )),
        "{text}"
    );
    assert!(text.ends_with("-- 1 step, back to 3 missing\n"), "{text}");
    // A session's name leads nowhere else.
    house.write("odd.md", "odd\n");
    commit_as_job(
        &house,
        "memory: create odd.md",
        &[("Remd-Cause", "job"), ("Remd-Session", "../../../outside")],
    );
    let text = house.run(["why", "odd.md:1"]).stdout;
    assert!(text.contains("it names no conversation of this vault"), "{text}");
}

#[test]
fn inputs_are_blobs_files_and_notes_that_name_each_other() {
    let house = by_hand();
    house.write("resource/2026-06-29/budget.csv", "item,cost\nferry tickets for the crew,120\n");
    fs::create_dir_all(house.at("resource")).unwrap();
    fs::write(house.at("resource/scan.pdf"), b"%PDF\0\x01\x02").unwrap();
    house.git(["add", "-A"]);
    house.git(["commit", "-qm", "dropped"]);
    let blob = house.git(["rev-parse", "HEAD:resource/2026-06-29/budget.csv"]);
    house.write("a.md", "The ferry tickets for the crew cost 120.\n");
    commit_as_job(
        &house,
        "memory: create a.md",
        &[
            ("Remd-Cause", "job"),
            ("Remd-Job", "auto_resource"),
            ("Remd-Input", &blob),
            ("Remd-Input", "resource/scan.pdf"),
            ("Remd-Input", "0123456789012345678901234567890123456789"),
        ],
    );
    let evidence = json(&house.run(["why", "--json", "a.md:1"]))["chain"]["evidence"].clone();
    assert_eq!(
        (&evidence[0]["kind"], &evidence[0]["path"], &evidence[0]["line"]),
        (&Value::from("note"), &Value::from("resource/2026-06-29/budget.csv"), &Value::from(2))
    );
    assert_eq!(
        (&evidence[1]["kind"], &evidence[1]["bytes"]),
        (&Value::from("file"), &Value::from(7))
    );
    assert_eq!(evidence[2]["kind"], "missing");
    // Two notes made of each other, in turns: the chain ends.
    for turn in 0..12 {
        let (to, from) = if turn % 2 == 0 { ("x.md", "y.md") } else { ("y.md", "x.md") };
        house.write(to, format!("The tide tables of the harbour, told {turn} times\n"));
        commit_as_job(
            &house,
            "memory: turn",
            &[("Remd-Cause", "job"), ("Remd-Input", from), ("Remd-Input", to)],
        );
    }
    let said = house.run(["why", "--json", "x.md:1"]);
    assert_eq!(said.code, 0, "{}", said.stderr);
    assert!(
        said.stdout.contains("it was gone through above")
            && said.stdout.contains("the chain is longer than is followed"),
        "{}",
        said.stdout
    );
    // A note as a whole, and one of an odd name.
    let text = house.run(["why", "a.md"]).stdout;
    assert!(
        text.starts_with("a.md at ") && text.contains("from `resource/scan.pdf`, 7 bytes at "),
        "{text}"
    );
    house.write("it's \"a\"\nb.md", "odd\n");
    house.git(["add", "-A"]);
    house.git(["commit", "-qm", "odd"]);
    let said = house.run(["why", "it's \"a\"\nb.md:1"]);
    assert!(said.stdout.contains("> odd") && said.code == 0, "{}{}", said.stdout, said.stderr);
}
