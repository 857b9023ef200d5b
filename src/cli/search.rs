//! `remd search`.
//!
//! Takes parsed arguments, asks the agent, or answers from the last index where none runs; prints
//! the same bytes either way, but for the words that nobody has looked at the disk.

use std::path::Path;
use std::time::Duration;

use crate::base::clock;
use crate::cli::args::SearchArgs;
use crate::cli::report::{self, CliError, Exit};
use crate::cli::status::unexpected;
use crate::cli::up::Bar;
use crate::cli::{find, past};
use crate::config::{Dirs, keys};
use crate::daemon::offline::{self, Unreachable};
use crate::daemon::{in_past, pages};
use crate::render;
use crate::search::{self, Query, QueryError};
use crate::serve::client::{self, AskError};
use crate::serve::{Answer, Form, Request};

/// How long an agent that is there may take for a page: more than it takes by its own limit.
const LIMIT: Duration = Duration::from_secs(10);

/// `remd search QUERY…`.
pub fn search(vault: &Path, dirs: &Dirs, args: &SearchArgs) -> Result<Exit, CliError> {
    let options = &args.options;
    let query = Query {
        text: args.words.join(" "),
        limit: options.limit,
        since: options.since.clone(),
        until: options.until.clone(),
        within: options.within.clone(),
        path: options.path.clone(),
        tags: options.tag.clone(),
        min_score: options.min_score,
        vector_weight: options.vector_weight,
        context: options.context.clone(),
        at: args.at.clone(),
        explain: options.explain,
    };
    if args.deleted {
        return deleted(vault, dirs, args, &query);
    }
    // Here, not only where it is answered: the wire has no words for some wrong values.
    checked(&query)?;
    let form = form_of(options.json, options.markdown);
    if let Some(moment) = &query.at {
        return at(vault, dirs, &query, moment, form);
    }
    let request = Request::Search { query: query.clone(), form };
    ask(vault, dirs, &request, &|unseen, progress| match query.context {
        // Nobody would know what it was given.
        Some(_) => Err(CliError::new("No agent is there that remembers the conversation")
            .hint("Start it (`remd up`), or leave `--context` out.")
            .exit(Exit::NoAgent)),
        None => Ok(offline::search(vault, dirs, &query, form, unseen, progress)),
    })
}

/// The past is read here: the agent has nothing that git has not.
fn at(
    vault: &Path,
    dirs: &Dirs,
    query: &Query,
    moment: &str,
    form: Form,
) -> Result<Exit, CliError> {
    let (reader, layout) = past::open_with_table(vault, dirs)?;
    let results = in_past::search(&reader, &layout, query, moment, clock::now() + LIMIT);
    let results = results.map_err(|err| past::explained(&reader, refused(&err)))?;
    print(pages::answer(query, &results, form, vault))
}

/// `remd search --deleted`.
fn deleted(vault: &Path, dirs: &Dirs, args: &SearchArgs, query: &Query) -> Result<Exit, CliError> {
    let timeout = keys::duration(&args.timeout)
        .map_err(|why| CliError::new(format!("`--timeout {}`: {why}", args.timeout)))?;
    let (reader, layout) = past::open_with_table(vault, dirs)?;
    let found = in_past::deleted(&reader, &layout, query, clock::now() + timeout);
    let found = found.map_err(|err| refused(&err))?;
    let found = found.map_err(|err| past::explained(&reader, CliError::from_error(&err)))?;
    let (gone, head, partial) = (&found.gone, found.head, found.partial.as_deref());
    report::data(match args.options.json {
        true => render::past::gone_json(gone, head, partial),
        false => render::past::gone_text(gone, head, partial),
    })?;
    Ok(match (partial, gone.is_empty()) {
        (Some(_), _) => Exit::Partial,
        (None, true) => Exit::No,
        (None, false) => Exit::Done,
    })
}

/// Answers where no agent does; takes why nobody has looked at the disk.
pub(super) type Offline<'a> =
    &'a dyn Fn(&'static str, &dyn Fn(usize, usize)) -> Result<Answer, CliError>;

/// Says what is wrong with a query before anybody is asked.
pub(super) fn checked(query: &Query) -> Result<(), CliError> {
    search::check(query).map_err(|err| refused(&err))
}

fn refused(err: &QueryError) -> CliError {
    let said = CliError::from_error(err);
    match err.hint() {
        Some(hint) => said.hint(hint),
        None => said,
    }
}

pub(super) fn form_of(is_json: bool, is_markdown: bool) -> Form {
    match (is_json, is_markdown) {
        (true, _) => Form::Json,
        (_, true) => Form::Markdown,
        _ => Form::Text,
    }
}

/// Asks the agent, or the last index where none runs, and prints the page.
pub(super) fn ask(
    vault: &Path,
    dirs: &Dirs,
    request: &Request,
    offline: Offline<'_>,
) -> Result<Exit, CliError> {
    // Whoever serves another folder of this path has another one's notes; where none is there, the
    // agent still has those of the last commit.
    let mut sockets = dirs.sockets(vault)?;
    sockets.truncate(1);
    let asked = client::ask_any(&sockets, request, LIMIT);
    let unseen = match &asked {
        Err(AskError::NobodyThere) => Some(offline::NO_AGENT),
        Err(AskError::Silent | AskError::Deadline(_)) => {
            let Unreachable { what, remedy, .. } = offline::silent(vault);
            report::talk(&format!("note: {what}; the last index answers instead. {remedy}"));
            Some(offline::SILENT_AGENT)
        }
        _ => None,
    };
    let answer = match unseen {
        Some(unseen) => {
            find::require(vault)?;
            let bar = Bar::new();
            let at = |done, all| bar.at("indexing", done, all);
            let answer = offline(unseen, &at)?;
            drop(bar);
            answer
        }
        None => asked?,
    };
    print(answer)
}

fn print(answer: Answer) -> Result<Exit, CliError> {
    match answer {
        Answer::Page { text, hits, partial } => {
            report::data(text)?;
            Ok(match (partial, hits) {
                (true, _) => Exit::Partial,
                (_, 0) => Exit::No,
                _ => Exit::Done,
            })
        }
        other => Err(unexpected(other)),
    }
}
