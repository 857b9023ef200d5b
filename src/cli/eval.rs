//! `remd eval QUERIES.jsonl`.
//!
//! Takes a file of questions, asks the vault, prints how well each branch answers, and on demand
//! which weight of vectors would do better. What the figures leave out is said beside them.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Value, json};

use crate::base::fs;
use crate::cli::args::EvalArgs;
use crate::cli::find;
use crate::cli::report::{self, CliError, Exit};
use crate::cli::up::Bar;
use crate::config::Dirs;
use crate::daemon::evaluation::{Asked, Branch, Evaluation, evaluate};
use crate::render::counted;
use crate::search::judge::weights::{FEW, tune};
use crate::search::judge::{Measures, Questions, Tuned};

/// A larger file is no set of questions.
const LARGEST: u64 = 256 << 20;
/// So many names are shown of what is amiss; `--json` has all.
const SHOWN: usize = 10;

/// Asks, measures, prints.
pub fn eval(vault: &Path, dirs: &Dirs, args: &EvalArgs) -> Result<Exit, CliError> {
    find::require(vault)?;
    let bytes = fs::read_regular(&args.queries, LARGEST)?;
    let mut questions = Questions::read(&bytes);
    let bar = Bar::new();
    let progress = |what: &str, done, all| bar.at(what, done, all);
    let asked = match questions.all.is_empty() {
        true => None,
        false => Some(
            evaluate(vault, dirs, &mut questions, &progress)
                .map_err(|it| CliError::new(it.message).hint(it.hint))?,
        ),
    };
    let asked = asked.filter(|it| !it.evaluation.answered.is_empty());
    let tuned = match &asked {
        Some(asked) if args.tune => Some(tuned(asked, &progress)?),
        _ => None,
    };
    drop(bar);
    let Some(Asked { evaluation, .. }) = asked else {
        let said = CliError::new(format!("`{}` has no question to ask", args.queries.display()));
        let said = said.hint(
            "Each line is `{\"query\": \"…\", \"relevant_paths\": [\"note.md\"]}`, the notes that \
             answer named from the vault's root; `category` and `qid` may be there, too.",
        );
        return Err(CliError { causes: bad_lines(&questions), ..said });
    };
    if args.json {
        let object = object(&evaluation, &questions, tuned.as_ref(), args);
        report::data(format!("{object:#}\n"))?;
    } else {
        report::data(table(&evaluation, &questions, args.by_category))?;
        if let Some(tuned) = &tuned {
            report::data(tuned_text(tuned, &evaluation))?;
        }
    }
    let amiss = amiss(&evaluation, &questions);
    for line in &amiss {
        report::talk(line);
    }
    Ok(if amiss.is_empty() { Exit::Done } else { Exit::Partial })
}

fn tuned(asked: &Asked, progress: &dyn Fn(&str, usize, usize)) -> Result<Tuned, CliError> {
    let evaluation = &asked.evaluation;
    if evaluation.model.is_none() {
        return Err(CliError::new("There is no model in use, so that nothing has a weight"));
    }
    let tried = asked.tried(progress).map_err(CliError::new)?;
    tune(&tried, evaluation.weight).ok_or_else(|| {
        CliError::new(
            "One question has no two halves: a weight is chosen on one and looked at on the other",
        )
        .hint(format!("Ask at least {} questions.", 2 * FEW))
    })
}

/// What keeps the figures from being the whole truth, a line each.
fn amiss(evaluation: &Evaluation, questions: &Questions) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(why) = &evaluation.partial {
        lines.push(format!("note: not all of the vault was asked: {why}"));
    }
    if evaluation.without_vectors > 0 {
        let notes = counted(evaluation.without_vectors, "note has", "notes have");
        lines.push(format!("note: {notes} no vectors yet; `remd status` says how far they are"));
    }
    lines.extend(bad_lines(questions).into_iter().map(|it| format!("note: left out: {it}")));
    let absent = evaluation.absent.iter().map(|(path, lines)| {
        let lines: Vec<String> = lines.iter().take(SHOWN).map(usize::to_string).collect();
        format!("`{path}` is not in the vault, and counts as not found (line {})", lines.join(", "))
    });
    lines.extend(shortened(absent.collect()).into_iter().map(|it| format!("note: {it}")));
    lines
}

fn bad_lines(questions: &Questions) -> Vec<String> {
    shortened(questions.bad.iter().map(|it| format!("line {}: {}", it.line, it.why)).collect())
}

fn shortened(mut lines: Vec<String>) -> Vec<String> {
    if lines.len() > SHOWN + 1 {
        let more = lines.len() - SHOWN;
        lines.truncate(SHOWN);
        lines.push(format!("and {more} more (`--json` names all)"));
    }
    lines
}

/// What each branch is called in the table.
fn label(branch: Branch, evaluation: &Evaluation) -> String {
    match (branch, evaluation.weight) {
        (Branch::Hybrid, Some(weight)) => format!("hybrid (score {weight})"),
        (Branch::Hybrid, None) => format!("hybrid (rrf {})", evaluation.rrf_weight),
        (Branch::Rrf, _) => format!("rrf {}", evaluation.rrf_weight),
        _ => branch.name().to_owned(),
    }
}

fn table(evaluation: &Evaluation, questions: &Questions, by_category: bool) -> String {
    let mut out = counted(evaluation.answered.len(), "question", "questions");
    let at = evaluation.at.map_or("nothing committed yet".to_owned(), |it| it.short());
    out.push_str(&format!(", as of {at}, model {}\n", model(evaluation)));
    for (why, count) in &evaluation.silent {
        let questions = counted(*count, "question", "questions");
        out.push_str(&format!("no vectors were asked for {questions}: {why}\n"));
    }
    out.push_str(&format!("\n{:<32}", ""));
    for name in Measures::NAMES {
        out.push_str(&format!("{name:>9}"));
    }
    out.push('\n');
    rows(&mut out, evaluation, |_| true);
    let categories = if by_category { questions.categories() } else { Default::default() };
    for category in categories {
        let of = |it: Option<&str>| it == category;
        let count = evaluation.answered.iter();
        let count = count.filter(|it| of(it.question.category.as_deref())).count();
        let name = category.unwrap_or("no category");
        out.push_str(&format!("\n{name} ({})\n", counted(count, "question", "questions")));
        rows(&mut out, evaluation, of);
    }
    out
}

fn rows(out: &mut String, evaluation: &Evaluation, is_of: impl Fn(Option<&str>) -> bool) {
    for (branch, measures) in branches(evaluation, is_of) {
        out.push_str(&format!("{:<32}", label(branch, evaluation)));
        for value in measures.values() {
            out.push_str(&format!("{value:>9.3}"));
        }
        out.push('\n');
    }
}

fn branches(
    evaluation: &Evaluation,
    is_of: impl Fn(Option<&str>) -> bool,
) -> BTreeMap<Branch, Measures> {
    let of = |branch: Branch| {
        let chosen = evaluation.answered.iter();
        let chosen = chosen.filter(|it| is_of(it.question.category.as_deref()));
        let measures: Vec<Measures> = chosen.map(|it| it.measures(branch)).collect();
        (branch, Measures::mean(&measures))
    };
    Branch::ALL.into_iter().map(of).collect()
}

fn model(evaluation: &Evaluation) -> &str {
    evaluation.model.as_deref().unwrap_or("none")
}

fn tuned_text(tuned: &Tuned, evaluation: &Evaluation) -> String {
    let mut out = format!("\n{:<32}", "weights, on all questions");
    for name in Measures::NAMES {
        out.push_str(&format!("{name:>9}"));
    }
    out.push('\n');
    for (weight, measures) in &tuned.with {
        let mark = if evaluation.weight == Some(*weight) { "  in use" } else { "" };
        out.push_str(&format!("{:<32}", format!("score {weight}{mark}")));
        for value in measures.values() {
            out.push_str(&format!("{value:>9.3}"));
        }
        out.push('\n');
    }
    out.push('\n');
    for it in &tuned.crossed {
        out.push_str(&format!(
            "chosen on {} questions: {}; on the {} others: R@5 {}, MRR {}, nDCG@10 {}\n",
            it.chosen_on,
            it.weight,
            it.seen_on,
            change(it.in_use.recall_5, it.found.recall_5),
            change(it.in_use.mrr, it.found.mrr),
            change(it.in_use.ndcg_10, it.found.ndcg_10),
        ));
    }
    if tuned.is_few {
        out.push_str(&format!(
            "so few questions say little: at least {} would be better\n",
            2 * FEW
        ));
    }
    out.push('\n');
    match tuned.proposed {
        Some(weight) => {
            out.push_str(&format!("proposal for {}: {weight}\n", model(evaluation)));
            out.push_str("in `remd.yaml`, then `remd reload`:\n\nsearch:\n");
            if evaluation.weight.is_none() {
                out.push_str("  fusion: score\n");
            }
            out.push_str(&format!("  vector_weight: {weight}\n"));
        }
        None => out.push_str(
            "no proposal: no other weight does better on questions that it was not chosen on\n",
        ),
    }
    out
}

/// `.553 to .564 (+.011)`.
fn change(from: f64, to: f64) -> String {
    format!("{from:.3} to {to:.3} ({:+.3})", to - from)
}

fn object(
    evaluation: &Evaluation,
    questions: &Questions,
    tuned: Option<&Tuned>,
    args: &EvalArgs,
) -> Value {
    let named = |is_of: &dyn Fn(Option<&str>) -> bool| -> Value {
        let all = branches(evaluation, is_of);
        all.into_iter().map(|(branch, it)| (branch.name().to_owned(), json!(it))).collect()
    };
    let absent: Vec<Value> = evaluation
        .absent
        .iter()
        .map(|(path, lines)| json!({"path": path, "lines": lines}))
        .collect();
    let mut object = json!({
        "schema_version": 1,
        "commit": evaluation.at.map(|it| it.to_string()),
        "partial": evaluation.partial,
        "model": evaluation.model,
        "rule": evaluation.rule,
        "vector_weight": evaluation.weight,
        "rrf_vector_weight": evaluation.rrf_weight,
        "questions": evaluation.answered.len(),
        "branches": named(&|_| true),
        "without_vectors": evaluation.without_vectors,
        "vector_silent": evaluation.silent,
        "bad_lines": questions.bad,
        "not_in_vault": absent,
    });
    if args.by_category {
        let of = |category: Option<&str>| {
            let name = category.unwrap_or_default().to_owned();
            (name, named(&|it| it == category))
        };
        object["categories"] = questions.categories().into_iter().map(of).collect();
    }
    if args.paths {
        let answers = evaluation.answered.iter().map(|it| {
            let found: serde_json::Map<String, Value> = it
                .found
                .iter()
                .map(|(branch, paths)| (branch.name().to_owned(), json!(paths)))
                .collect();
            json!({"qid": it.question.id, "line": it.question.line, "paths": found})
        });
        object["answers"] = answers.collect();
    }
    if let Some(tuned) = tuned {
        let crossed: Vec<Value> = tuned
            .crossed
            .iter()
            .map(|it| {
                json!({
                    "vector_weight": it.weight,
                    "chosen_on": it.chosen_on,
                    "seen_on": it.seen_on,
                    "in_use": it.in_use,
                    "found": it.found,
                })
            })
            .collect();
        let with: Vec<Value> = tuned
            .with
            .iter()
            .map(|(weight, it)| json!({"vector_weight": weight, "measures": it}))
            .collect();
        object["tune"] = json!({
            "proposed": tuned.proposed,
            "crossed": crossed,
            "weights": with,
            "few_questions": tuned.is_few,
        });
    }
    object
}
