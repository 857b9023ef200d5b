//! Why a line stands in a note.
//!
//! Pure. Takes a chain back to the evidence, gives it as text and JSON.
//!
//! **Invariant:** one step a heading, what it was made from below it and further in; a text from the
//! vault stands behind `>` and on lines of its own.

use serde_json::{Value, json};

use crate::history::Message;
use crate::history::evidence::{Evidence, Found, Step};
use crate::render::blame::{cause_of, details_of, writer_json};
use crate::render::{SCHEMA_VERSION, counted};
use crate::vault::VaultPath;
use crate::vault::path::escape;

/// Text of a line or message that a page of text shows.
const SHOWN: usize = 400;

/// How what was asked for was found.
#[derive(Clone, PartialEq, Debug)]
pub enum Asked {
    /// It is the name of a place.
    Place,
    /// The sentence stands there, and in these other places.
    Sentence { others: Vec<(VaultPath, u32)> },
    /// It stands nowhere; this line has this share of its words.
    Nearest { share: f32 },
}

/// The chain as text.
pub fn text(asked: &Asked, chain: &Step) -> Vec<u8> {
    let mut out = String::new();
    match asked {
        Asked::Place => {}
        Asked::Sentence { others } if others.is_empty() => {}
        Asked::Sentence { others } => {
            let places = counted(others.len(), "other place", "other places");
            out.push_str(&format!("It stands in {places}, too (`remd why PATH:LINE`):\n"));
            for (at, (path, line)) in (2..).zip(others) {
                out.push_str(&format!("{at:>4}. {path}:{line}\n"));
            }
        }
        Asked::Nearest { share } => out.push_str(&format!(
            "No note says exactly that; this is the nearest ({} % of its words).\n",
            percent(*share)
        )),
    }
    push_step(&mut out, chain, 0);
    let ends = ends(chain);
    out.push_str(&format!("-- {}, {}\n", counted(steps(chain), "step", "steps"), ends));
    out.into_bytes()
}

/// The same as JSON.
pub fn json(asked: &Asked, chain: &Step) -> Vec<u8> {
    let (exact, share, others) = match asked {
        Asked::Place => (true, None, Vec::new()),
        Asked::Sentence { others } => (true, None, others.clone()),
        Asked::Nearest { share } => (false, Some(*share), Vec::new()),
    };
    let others: Vec<Value> =
        others.iter().map(|(path, line)| json!({"path": path, "line": line})).collect();
    let page = json!({
        "schema_version": SCHEMA_VERSION,
        "exact": exact,
        "share": share,
        "others": others,
        "chain": step_json(chain),
    });
    format!("{page:#}\n").into_bytes()
}

fn push_step(out: &mut String, step: &Step, depth: usize) {
    let indent = "  ".repeat(depth);
    let place = match step.line {
        Some(line) => format!("{}:{line}", step.path),
        None => step.path.to_string(),
    };
    let at = match step.at {
        Some(at) => format!(" at {}", at.short()),
        None => String::new(),
    };
    out.push_str(&format!("{indent}{place}{at}\n"));
    if !step.text.trim().is_empty() {
        push_text(out, &step.text, depth + 1);
    }
    let Some(writer) = &step.writer else {
        let why = step.cut.unwrap_or("no commit has it yet");
        return out.push_str(&format!("{indent}  {why}\n"));
    };
    let subject = escape(writer.subject.as_bytes());
    let commit = writer.commit.short();
    out.push_str(&format!(
        "{indent}  {commit} {} {}: {subject}\n",
        writer.when(),
        cause_of(writer)
    ));
    let details = details_of(writer);
    if !details.is_empty() {
        out.push_str(&format!("{indent}  {details}\n"));
    }
    if let Some((path, line)) = &step.written {
        out.push_str(&format!("{indent}  written in {path}:{line}\n"));
    }
    for evidence in &step.evidence {
        push_evidence(out, evidence, depth + 1);
    }
    if let Some(why) = step.cut {
        out.push_str(&format!("{indent}  {why}\n"));
    }
}

fn push_evidence(out: &mut String, evidence: &Evidence, depth: usize) {
    let indent = "  ".repeat(depth);
    let named = escape(evidence.named.as_bytes());
    match &evidence.found {
        Found::Text { place, step, .. } => {
            let found = match place {
                Some((_, share)) => format!(" ({} % of its words)", percent(*share)),
                None => " (no line of it has the words)".to_owned(),
            };
            out.push_str(&format!("{indent}from `{named}`{found}\n"));
            push_step(out, step, depth + 1);
        }
        Found::File { at, bytes, .. } => {
            out.push_str(&format!(
                "{indent}from `{named}`, {} at {}\n",
                counted(*bytes, "byte", "bytes"),
                at.short()
            ));
        }
        Found::Message { path, at, message, share } => {
            let Message { line, name, role, when, text } = &**message;
            let who = match name == role {
                true => escape(name.as_bytes()).into_owned(),
                false => format!("{} ({})", escape(name.as_bytes()), escape(role.as_bytes())),
            };
            let when = match when.as_str() {
                "" => String::new(),
                when => format!(", {}", escape(when.as_bytes())),
            };
            out.push_str(&format!(
                "{indent}session `{named}`, {path}:{line} at {}, {who}{when} ({} % of its words)\n",
                at.short(),
                percent(*share)
            ));
            push_text(out, text, depth + 1);
        }
        Found::Conversation { path, at, messages } => out.push_str(&format!(
            "{indent}session `{named}`, {path} at {}: none of its {} has the words\n",
            at.short(),
            counted(*messages, "message", "messages")
        )),
        Found::Missing { why, last } => {
            out.push_str(&format!("{indent}`{named}` is missing: {}\n", escape(why.as_bytes())));
            if let Some((path, commit)) = last {
                out.push_str(&format!(
                    "{indent}  commit {} still has it: `git show {}:./{path}`\n",
                    commit.short(),
                    commit.short()
                ));
            }
        }
    }
}

fn push_text(out: &mut String, text: &str, depth: usize) {
    let indent = "  ".repeat(depth);
    let mut shown: String = text.trim().chars().take(SHOWN).collect();
    if shown.len() < text.trim().len() {
        shown.push('…');
    }
    for line in shown.lines() {
        out.push_str(&format!("{indent}> {}\n", escape(line.trim_end().as_bytes())));
    }
}

fn step_json(step: &Step) -> Value {
    json!({
        "path": step.path,
        "path_hex": step.path.hex_if_lossy(),
        "line": step.line,
        "at": step.at,
        "text": step.text,
        "uncommitted": step.writer.is_none() && step.cut.is_none(),
        "commit": step.writer.as_ref().map(writer_json),
        "written_in": step.written.as_ref().map(|(path, line)| json!({"path": path, "line": line})),
        "cut": step.cut,
        "evidence": step.evidence.iter().map(evidence_json).collect::<Vec<_>>(),
    })
}

fn evidence_json(evidence: &Evidence) -> Value {
    let mut value = match &evidence.found {
        Found::Text { path, at, place, step } => json!({
            "kind": "note",
            "path": path,
            "at": at,
            "line": place.map(|it| it.0),
            "share": place.map(|it| it.1),
            "chain": step_json(step),
        }),
        Found::File { path, at, blob, bytes } => {
            json!({"kind": "file", "path": path, "at": at, "blob": blob, "bytes": bytes})
        }
        Found::Message { path, at, message, share } => json!({
            "kind": "message",
            "path": path,
            "at": at,
            "line": message.line,
            "name": message.name,
            "role": message.role,
            "when": message.when,
            "text": message.text,
            "share": share,
        }),
        Found::Conversation { path, at, messages } => {
            json!({"kind": "conversation", "path": path, "at": at, "messages": messages})
        }
        Found::Missing { why, last } => json!({
            "kind": "missing",
            "why": why,
            "last_path": last.as_ref().map(|it| &it.0),
            "last_commit": last.as_ref().map(|it| it.1),
        }),
    };
    value["named"] = json!(evidence.named);
    value
}

fn steps(step: &Step) -> usize {
    let below = step.evidence.iter().map(|it| match &it.found {
        Found::Text { step, .. } => steps(step),
        _ => 0,
    });
    1 + below.sum::<usize>()
}

/// Where the chain comes to.
fn ends(step: &Step) -> String {
    let mut counts = [0; 3];
    count_ends(step, &mut counts);
    let [messages, files, missing] = counts;
    let mut ends = Vec::new();
    if messages > 0 {
        ends.push(counted(messages, "message", "messages"));
    }
    if files > 0 {
        ends.push(counted(files, "file", "files"));
    }
    if missing > 0 {
        ends.push(format!("{missing} missing"));
    }
    match (ends.is_empty(), &step.writer) {
        (false, _) => format!("back to {}", ends.join(", ")),
        (true, Some(_)) => "back to a commit that names nothing it was made from".to_owned(),
        (true, None) => "not committed yet".to_owned(),
    }
}

fn count_ends(step: &Step, counts: &mut [usize; 3]) {
    for evidence in &step.evidence {
        match &evidence.found {
            Found::Text { step, .. } => count_ends(step, counts),
            Found::Message { .. } | Found::Conversation { .. } => counts[0] += 1,
            Found::File { .. } => counts[1] += 1,
            Found::Missing { .. } => counts[2] += 1,
        }
    }
}

fn percent(share: f32) -> i32 {
    #[expect(clippy::cast_possible_truncation, reason = "a share is between 0 and 1")]
    let percent = (share * 100.0).round() as i32;
    percent
}
