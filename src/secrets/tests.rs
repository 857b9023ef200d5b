//! The rules on what they must find and what they must leave alone.
//!
//! No credential stands here in one piece, so that no scanner of others' takes this for a leak.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail loudly")]

use proptest::strategy::{Strategy as _, ValueTree as _};
use proptest::test_runner::TestRunner;

use super::rules::{Rule, compile, rules};
use super::scan::entropy;
use super::*;

/// Letters and digits without a word in them, as a random credential has.
const MIX: &str = "q7RtZ2mW9xKc4VbN8sLd3JfHg6PyTq1EuXoA5iYwCzMkBvQnSrGhDpUeIlFjOa0T\
                   Wq8ZkR3nVx6YbM2cLt9HsJd4PfGm7QuEoCi1XwAz5SvBrDyKhNgUpTeIlFjOa0Mq";
/// The same in hexadecimal digits, without a long run of one of them.
const HEX: &str = "3f9a1c7e5b2d8064a7c1e9f3b5d20846c9e7a1f35b8d2064e1c7a9f3b5d82046";

fn mix(length: usize) -> String {
    MIX.chars().filter(|it| it.is_ascii_alphanumeric()).take(length).collect()
}

fn hex(length: usize) -> String {
    HEX[..length].to_owned()
}

fn upper(length: usize) -> String {
    mix(128).to_uppercase().replace(['0', '1', '8', '9'], "7").chars().take(length).collect()
}

/// What is found in a note, as rules.
fn found(text: &str) -> Vec<&'static str> {
    scan(b"note.md", text.as_bytes()).iter().map(|it| it.rule).collect()
}

fn key_block(kind: &str) -> String {
    let body: Vec<String> =
        (0..6).map(|at| format!("{}{}", &mix(60), &hex(64)[at..at + 4])).collect();
    format!("-----BEGIN {kind}-----\n{}\n-----END {kind}-----\n", body.join("\n"))
}

/// Well-known kinds, each as somebody would paste it into a note.
fn well_known() -> Vec<(&'static str, String)> {
    let (m, h) = (mix, hex);
    let jwt = format!("ey{}.ey{}.{}", m(30), m(60), m(43));
    vec![
        ("aws-access-token", format!("AKI{}{}", "A", upper(16))),
        ("aws-secret-access-key", format!("aws_secret_access_key = {}", m(40))),
        ("github-pat", format!("gh{}_{}", "p", m(36))),
        ("github-oauth", format!("gh{}_{}", "o", m(36))),
        ("github-app-token", format!("gh{}_{}", "s", m(36))),
        ("github-app-token", format!("gh{}_{}", "u", m(36))),
        ("github-refresh-token", format!("gh{}_{}", "r", m(36))),
        ("github-fine-grained-pat", format!("github_{}_{}", "pat", m(82))),
        ("gitlab-pat", format!("gl{}-{}", "pat", m(20))),
        ("slack-bot-token", format!("xox{}-{}-{}-{}", "b", "2748190365", "9036527481", m(24))),
        (
            "slack-webhook-url",
            format!("https://hooks.{}.com/services/T{}/B{}", "slack", m(20), m(24)),
        ),
        ("stripe-access-token", format!("sk_{}_{}", "live", m(24))),
        ("stripe-webhook-secret", format!("wh{}_{}", "sec", m(32))),
        ("openai-api-key", format!("sk-{}-{}T3Blbk{}{}", "proj", m(74), "FJ", m(74))),
        ("anthropic-api-key", format!("sk-{}-api03-{}AA", "ant", m(93))),
        ("gcp-api-key", format!("AI{}{}", "za", m(35))),
        ("google-oauth-client-secret", format!("GOC{}-{}", "SPX", m(28))),
        ("jwt", jwt.clone()),
        ("authorization-header", format!("Authorization: Bearer {}", m(40))),
        ("url-password", format!("postgres://ada:{}@db.internal/notes", m(14))),
        ("npm-access-token", format!("np{}_{}", "m", m(36).to_lowercase())),
        ("pypi-upload-token", format!("py{}-AgEIcHlwaS5vcmc{}", "pi", m(60))),
        (
            "age-secret-key",
            format!(
                "AGE-{}-1{}",
                "SECRET-KEY",
                "QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L".repeat(2).get(..58).unwrap()
            ),
        ),
        ("huggingface-access-token", format!("h{}_{}", "f", "qXbRtZmWvxKcyVbNksLdzJfHgwPyTquEhX")),
        ("sendgrid-api-token", format!("S{}.{}", "G", m(66))),
        ("twilio-api-key", format!("S{}{}", "K", h(32))),
        ("digitalocean-pat", format!("dop_{}_{}", "v1", h(64))),
        ("linear-api-key", format!("lin_{}_{}", "api", m(40))),
        ("private-key", key_block("RSA PRIVATE KEY")),
        ("private-key", key_block("OPENSSH PRIVATE KEY")),
        ("private-key", key_block("PGP PRIVATE KEY BLOCK")),
        ("private-key-part", key_block("PRIVATE KEY").replace("-----END PRIVATE KEY-----\n", "")),
        ("groq-api-key", format!("gs{}_{}", "k", m(52))),
        ("openrouter-api-key", format!("sk-or-{}-{}", "v1", h(64))),
        ("docker-access-token", format!("dckr_{}_{}", "pat", m(27))),
        ("generic-api-key", format!("api_key: \"{}\"", m(32))),
        ("password", format!("Password: {}#x9", m(9))),
        ("password", format!("密码：{}#x9", m(9))),
    ]
}

#[test]
fn well_known_kinds_are_found_wherever_they_stand() {
    for (rule, text) in well_known() {
        assert_eq!(found(&text), [rule], "alone");
        assert_eq!(found(&format!("# Notes\r\n\r\n{text}\r\n")), [rule], "after CRLF");
        if !text.contains('\n') {
            assert_eq!(found(&format!("It is `{text}`, says Ada.\n")), [rule], "in code");
            assert_eq!(found(&format!("- \"{text}\"\n")), [rule], "in quotes");
            assert_eq!(found(&format!("| staging | {text} | old |\n")), [rule], "in a table");
            let is_open_ended = ["url-password", "password"].contains(&rule);
            if !is_open_ended && rule != "generic-api-key" {
                assert_eq!(found(&format!("(it was {text}).\n")), [rule], "in prose");
            }
        }
        let utf16: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
        let marked = [&[0xff, 0xfe], utf16.as_slice()].concat();
        assert_eq!(scan(b"a.txt", &marked).len(), 1, "UTF-16 of {rule}");
        if text.is_ascii() {
            assert_eq!(scan(b"a.txt", &utf16).len(), 1, "UTF-16 without a mark of {rule}");
        }
    }
}

#[test]
fn what_is_none_is_left_alone() {
    let base64 = MIX.repeat(40);
    let innocent = [
        "id: 3f2b8c1e-9a47-4c8e-b1d2-0f6a7e5c4d3b",
        "commit 4f2c9e1a7b3d5c8e0f1a2b3c4d5e6f7a8b9c0d1e fixes it",
        "sha256: 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        "See [[API keys and tokens]], [[Access|how we got access]] and ![[secret-garden.png]].",
        "key: value, token: none, password: example, secret: santa",
        "password = \"example\"",
        "password = \"hunter2\"",
        "const PASSWORD: &str = \"correct horse\";",
        "let password = std::env::var(\"DB_PASSWORD\")?;",
        "api_key = os.environ[\"OPENAI_API_KEY\"]",
        "export GITHUB_TOKEN=${{ secrets.GITHUB_TOKEN }}",
        "export TOKEN=$(cat ~/.token)",
        "api_key: <your-api-key>",
        "Authorization: Bearer YOUR_ACCESS_TOKEN_GOES_HERE",
        "Authorization: Bearer <token>",
        "AKIAIOSFODNN7EXAMPLE is Amazon's own example.",
        "aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
        "https://docs.example.org/d/1BxiMVs0XRA5nFMdKvBdBZjgmUUqptlbs74OgvE2upms/edit?usp=sharing",
        "https://example.org/watch?v=dQw4w9WgXcQ&list=PLrAXtmErZgOeiKm4sgNOknGvNjby9efdf",
        "git clone ssh://git@example.org:2222/notes.git",
        "postgres://user:password@localhost/db and redis://:changeme@cache",
        "mongodb://user:$DB_PASSWORD@host, https://user:<password>@host",
        "The marks are -----BEGIN PRIVATE KEY----- and -----END PRIVATE KEY-----, with the key \
         between them in base64, as the standard has it; nothing of one stands here.",
        "The keyboard's keys: access, auth, credential, token; the monkey and the turkey.",
        "密钥放在保险箱里，口令：见信封。パスワード：紙に書いた。",
        "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ0mGJ3kq7v1m0Z2c4x5y6z7A8B9C0D1E2F3G4H5I6J7 ada@host",
        "[^key]: a footnote, access 2026-06-01T12:00:00Z, key=memory/2026-07-23/commute.md:1-6",
        "Remd-Run: 01JZX3V9K8Q2M4N6P7R8S9T0VW",
        "tags: [api, token, secret]  aliases: [access-key-rotation-2026]",
    ];
    for text in innocent {
        assert_eq!(found(text), [""; 0], "{text}");
    }
    assert_eq!(found(&format!("![](data:image/png;base64,{base64})")), [""; 0]);
    assert_eq!(found(&base64), [""; 0]);
}

/// A text that the pattern fits, without the marks of its ends, which the generator does not know.
fn sample(rule: &Rule, runner: &mut TestRunner) -> Vec<u8> {
    let ends = [r#"(?:[\x60'"\s;,.:!?)\]}>|*<&#]|\\[nr]|$)"#, r#"(?:[\x60'"\s;]|\\[nr]|$)"#];
    let mut pattern = rule.regex.text().to_owned();
    for end in ends {
        pattern = pattern.replace(end, "");
    }
    let looks = [
        (r"(?:\B|\s|\z)", ""),
        (r#"(?:[\x60'"\s;]|\\[nr]|$|\b)"#, ""),
        (r"(?:[^a-z0-9+/=]|$)", ""),
        ("(?:^|", "(?:"),
        ("(?:$|", "(?:"),
        (r"|\z)", ")"),
        ("|$)", ")"),
        (r"\b", ""),
    ];
    for (look, instead) in looks {
        pattern = pattern.replace(look, instead);
    }
    let texts = proptest::string::bytes_regex(&format!("(?-u){pattern}"));
    let texts = texts.unwrap_or_else(|err| panic!("{}: {err} in {pattern}", rule.id));
    texts.new_tree(runner).unwrap().current()
}

#[test]
fn every_rule_compiles_and_finds_something() {
    let all = rules();
    assert!(all.rules.len() > 230);
    let mut runner = TestRunner::deterministic();
    for rule in &all.rules {
        compile(rule.regex.text()).unwrap_or_else(|err| panic!("{}: {err}", rule.id));
        let path = match rule.path.as_ref().map(|it| it.text()) {
            None => "note.md",
            Some(it) if it.contains("ya?ml") => "a.yaml",
            Some(it) if it.contains("php") => "a.php",
            Some(it) if it.contains("tf") => "a.tf",
            Some(it) if it.contains("nuget") => "nuget.config",
            Some(it) => panic!("{}: no file for {it}", rule.id),
        };
        assert!(!rule.keywords.is_empty(), "{}: asked of every text", rule.id);
        let well_known = well_known();
        let own =
            well_known.iter().filter(|it| it.0 == rule.id).map(|it| it.1.clone().into_bytes());
        let own: Vec<Vec<u8>> = own.collect();
        let is_found = own.into_iter().any(|text| finds(&text, path, rule))
            || (0..300).any(|_| {
                let mut text = format!("{}\n", rule.keywords[0]).into_bytes();
                text.extend(sample(rule, &mut runner));
                text.push(b'\n');
                finds(&text, path, rule)
            });
        assert!(is_found, "{} finds nothing", rule.id);
    }
}

fn finds(text: &[u8], path: &str, rule: &Rule) -> bool {
    let all = rules();
    let is_asked = all.asked(text).into_iter().any(|at| all.rules[at].id == rule.id);
    let mut found = Vec::new();
    super::scan::ask(
        all,
        rules().rules.iter().find(|it| it.id == rule.id).unwrap(),
        path.as_bytes(),
        text,
        &mut found,
    );
    is_asked && !found.is_empty()
}

#[test]
fn entropy_is_shannon_s() {
    assert_eq!(entropy(b""), 0.0);
    assert_eq!(entropy(b"aaaa"), 0.0);
    assert_eq!(entropy(b"abab"), 1.0);
    assert_eq!(entropy(b"abcdefgh"), 3.0);
}

#[test]
fn lines_are_counted_and_nothing_shows_what_was_found() {
    let (token, url) =
        (format!("gh{}_{}", "p", mix(36)), format!("https://ada:{}@host/x", mix(14)));
    let text = format!("one\n\n{token} and again {token}\r\n{url}\n");
    let findings = scan(b"a.md", text.as_bytes());
    let seen: Vec<_> = findings.iter().map(|it| (it.rule, it.line)).collect();
    assert_eq!(seen, [("github-pat", 3), ("github-pat", 3), ("url-password", 4)]);
    assert_eq!(&text[findings[0].span.clone()], token);
    assert!(findings[0].is_same(&findings[1]) && !findings[0].is_same(&findings[2]));
    assert_eq!(findings[0].to_string(), "line 3: `github-pat` ghp_… (40 characters)");
    assert_eq!(findings[2].to_string(), "line 4: `url-password` … (14 characters)");
    let refusal = check_write(b"a.md", None, text.as_bytes(), &Allowance::default()).unwrap_err();
    let shown = format!("{findings:?} {refusal} {refusal:?} {:?}", Key::new([7; KEY_BYTES]));
    assert!(!shown.contains(&token[8..]) && !shown.contains(&mix(14)), "{shown}");
    assert_eq!(
        refusal.to_string(),
        "Line 3 has what looks like a credential (rule `github-pat`: ghp_… (40 characters)), and 2 more"
    );
}

#[test]
fn only_what_is_new_and_not_allowed_is_refused() {
    let (old, new) = (format!("gh{}_{}", "p", mix(36)), format!("gl{}-{}", "pat", mix(20)));
    let mut allowance = Allowance::new(Key::new([7; KEY_BYTES]));
    let check = |before: Option<&str>, after: &str, allowance: &Allowance| {
        check_write(b"a.md", before.map(str::as_bytes), after.as_bytes(), allowance)
            .map_err(|it| it.finding.rule)
    };
    assert_eq!(check(None, "nothing\n", &allowance), Ok(()));
    assert_eq!(check(None, &old, &allowance), Err("github-pat"));
    assert_eq!(check(Some(&old), &format!("more\n\n{old}\n"), &allowance), Ok(()), "it was there");
    assert_eq!(check(Some(&old), &format!("{old}\n{new}\n"), &allowance), Err("gitlab-pat"));

    let finding = &scan(b"a.md", new.as_bytes())[0];
    let fingerprint = allowance.fingerprint(finding);
    assert_eq!(Fingerprint::read(&fingerprint.to_string()), Some(fingerprint.clone()));
    let allowed = Allowed { rule: finding.rule.to_owned(), path: "a.md".into(), at: 1 };
    allowance.allow(fingerprint.clone(), allowed);
    assert_eq!(check(Some(&old), &format!("{old}\n{new}\n"), &allowance), Ok(()));
    assert_eq!(check(None, &old, &allowance), Err("github-pat"), "only that one");
    let text = allowance.text().unwrap();
    assert!(!text.contains(&new), "{text}");
    let read = Allowance::read(Key::new([7; KEY_BYTES]), &text).unwrap();
    assert!(read.has(&fingerprint) && read.allows(finding));
    let other = Allowance::read(Key::new([8; KEY_BYTES]), &text).unwrap();
    assert!(!other.allows(finding), "another machine's key");
    assert!(Allowance::read(Key::default(), "{").is_err());
}

#[test]
fn a_key_is_the_same_with_other_line_ends() {
    let key = key_block("RSA PRIVATE KEY");
    let crlf = key.replace('\n', "\r\n");
    let (one, other) = (scan(b"a", key.as_bytes()), scan(b"a", crlf.as_bytes()));
    assert!(one[0].is_same(&other[0]));
}

#[test]
fn a_binary_file_is_looked_at_and_takes_no_longer_than_its_size() {
    let token = format!("gh{}_{}", "p", mix(36));
    let binary = [b"\0\x01\x02 SQLite ", token.as_bytes(), b"\0\0"].concat();
    assert_eq!(scan(b"a.db", &binary).len(), 1);
    let film = [binary.as_slice(), &vec![7; 5 << 20], token.as_bytes()].concat();
    assert_eq!(scan(b"a.db", &film).len(), 1, "of a large one the beginning");
    // Nothing of it is a credential, and each line asks the costly rules.
    let long = "key: value, token = \"none\", they say ey is a word; secret=abc\n".repeat(4_000);
    assert_eq!(scan(b"a.md", long.as_bytes()), []);
    let many = format!("{token}\n").repeat(3_000);
    assert_eq!(scan(b"a.md", many.as_bytes()).len(), 3_000);
}

#[test]
fn masked_text_keeps_everything_else() {
    let token = format!("gh{}_{}", "p", mix(36));
    let text = format!("Ключ: {token} — so.\n");
    let masked = mask(&text);
    assert_eq!(masked.text, "Ключ: [masked github-pat] — so.\n");
    assert_eq!(masked.findings.len(), 1);
    assert_eq!(mask("nothing at all").text, "nothing at all");
    let key = key_block("RSA PRIVATE KEY");
    for at in [40, 120, key.len() / 2, key.len() - 60] {
        for piece in [&key[..at], &key[at..]] {
            let masked = mask(piece).text;
            let left = masked.lines().filter(|it| it.len() > 30 && it.starts_with('q')).count();
            // A first or last line of it that was cut may be short.
            assert!(left == 0, "{at}: {masked}");
        }
    }
}

#[test]
fn a_masked_log_is_json_as_before() {
    let token = format!("gh{}_{}", "p", mix(36));
    let key = key_block("RSA PRIVATE KEY");
    let line = |it: &str| serde_json::json!({ "role": "user", "text": it }).to_string();
    let log = [
        line("hello"),
        line(&format!("use \"{token}\" here\nand\tthere")),
        line(&key),
        serde_json::json!({ "api_key": mix(32), "n": 1.50, "z": [], "a": null }).to_string(),
        "{\"b\": 1,  \"a\" : \"\\u00e9 spaced\"}".to_owned(),
        format!("no JSON: {token}"),
        String::new(),
    ]
    .join("\n");
    let masked = mask_jsonl(&log);
    let (old, new): (Vec<_>, Vec<_>) = (log.lines().collect(), masked.lines().collect());
    assert_eq!(old.len(), new.len());
    assert_eq!((old[0], old[4]), (new[0], new[4]), "nothing in it, nothing changed");
    for (old, new) in old.iter().zip(&new) {
        let value = serde_json::from_str::<serde_json::Value>(new);
        assert_eq!(value.is_ok(), serde_json::from_str::<serde_json::Value>(old).is_ok(), "{new}");
        assert!(!new.contains(&token[4..]) && !new.contains(&mix(32)), "{new}");
    }
    let text = serde_json::from_str::<serde_json::Value>(new[1]).unwrap();
    assert_eq!(text["text"], "use \"[masked github-pat]\" here\nand\tthere");
    let value: serde_json::Value = serde_json::from_str(new[3]).unwrap();
    assert_eq!(value["api_key"], "[masked generic-api-key]");
    assert_eq!(value["n"], 1.5);
    assert!(!new[2].contains(&mix(60)));
    assert!(matches!(mask_jsonl("{\"a\":1}\n"), std::borrow::Cow::Borrowed(_)));
}

#[test]
fn policies_go_from_loose_to_strict() {
    assert!(Policy::Off < Policy::Warn && Policy::Warn < Policy::Hold);
    assert_eq!(Policy::default(), Policy::Hold);
    for policy in Policy::ALL {
        assert_eq!(Policy::named(policy.name()), Some(policy));
    }
    assert_eq!(Policy::named("on"), None);
}
