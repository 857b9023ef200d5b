//! `remd why`: from a sentence or a line back to its evidence.
//!
//! Takes what the person gave, finds the line that is meant, reads the chain from the repository,
//! prints it. A place (`PATH`, `PATH:LINE`) is one of the disk; a sentence is looked for in the notes
//! that search names first, then in all of them.

use std::collections::HashSet;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::base::clock;
use crate::cli::args::WhyArgs;
use crate::cli::blame::{meant, told};
use crate::cli::past::open;
use crate::cli::report::{self, CliError, Exit};
use crate::config::{Dirs, keys};
use crate::daemon::offline;
use crate::history::evidence::{Chain, Step, best_line};
use crate::history::{BlameError, ReadError, Reader};
use crate::render::why::{self, Asked};
use crate::search::Query;
use crate::serve::{Answer, Form, Request, client};
use crate::vault::overlap::{Folded, words};
use crate::vault::role::role_of;
use crate::vault::{CommitId, VaultPath};

/// Notes that search is asked for.
const CANDIDATES: usize = 50;
/// How long the notes that search did not name are read.
const SCAN: Duration = Duration::from_secs(5);
/// Places that are told beside the first.
const MOST_PLACES: usize = 20;

/// `remd why "SENTENCE" | PATH[:LINE]`.
pub fn why(vault: &Path, dirs: &Dirs, args: &WhyArgs) -> Result<Exit, CliError> {
    let limit = keys::duration(&args.timeout)
        .map_err(|wanted| CliError::new(format!("`--timeout` wants {wanted}")))?;
    let until = clock::now() + limit;
    let reader = open(vault)?;
    let given = args.words.join(" ");
    let sessions = offline::settings(vault, dirs).layout.session;
    let mut chain = Chain::new(&reader, &sessions, until);
    let explained = |step: Result<Step, BlameError>| step.map_err(|err| told(&reader, &err));
    let (asked, step) = match place(vault, &reader, &given)? {
        Some((path, Some(line))) => (Asked::Place, explained(chain.of_line(&path, line))?),
        Some((path, None)) => (Asked::Place, explained(chain.of_note(&path))?),
        None => {
            let Some((asked, path, line)) = sentence(vault, dirs, &reader, &given, until)? else {
                report::talk(&format!("No note says `{given}`."));
                return Ok(Exit::No);
            };
            (asked, explained(chain.of_line(&path, line))?)
        }
    };
    report::data(match args.json {
        true => why::json(&asked, &step),
        false => why::text(&asked, &step),
    })?;
    Ok(if clock::now() >= until { Exit::Partial } else { Exit::Done })
}

/// The note, and the line of it, that a person names; `None` for what is no place.
fn place(
    vault: &Path,
    reader: &Reader,
    given: &str,
) -> Result<Option<(VaultPath, Option<u32>)>, CliError> {
    // A name may end in a number itself.
    if let Some(path) = meant(vault, reader, given)? {
        return Ok(Some((path, None)));
    }
    let Some((name, line)) = given.rsplit_once(':') else { return Ok(None) };
    let Some(line) = line.parse::<u32>().ok().filter(|it| *it > 0) else { return Ok(None) };
    Ok(meant(vault, reader, name)?.map(|path| (path, Some(line))))
}

/// The line that says a sentence, or the nearest to it.
fn sentence(
    vault: &Path,
    dirs: &Dirs,
    reader: &Reader,
    given: &str,
    until: Instant,
) -> Result<Option<(Asked, VaultPath, u32)>, CliError> {
    let wanted = Folded::of(given);
    let hits = searched(vault, dirs, given);
    let mut places: Vec<(VaultPath, u32)> = Vec::new();
    let mut read = HashSet::new();
    for path in &hits {
        if read.insert(path.clone()) {
            look_in(reader, path, &wanted, &mut places)?;
        }
    }
    if places.is_empty()
        && !wanted.is_empty()
        && let Some(head) = reader.head()?
    {
        let layout = offline::settings(vault, dirs).layout;
        let until = until.min(clock::now() + SCAN);
        let takes = |it: &VaultPath| role_of(it, &layout).is_note();
        scan(reader, head.commit, &takes, &read, &wanted, until, &mut places)?;
    }
    if let Some((path, line)) = places.first().cloned() {
        let others = places.into_iter().skip(1).take(MOST_PLACES).collect();
        return Ok(Some((Asked::Sentence { others }, path, line)));
    }
    let wanted = words(given);
    let mut best: Option<(VaultPath, u32, f32)> = None;
    for path in hits {
        let Some(text) = text_of(reader, &path)? else { continue };
        if let Some((line, share)) = best_line(&text, &wanted)
            && best.as_ref().is_none_or(|it| it.2 < share)
        {
            best = Some((path, line, share));
        }
    }
    Ok(best.map(|(path, line, share)| (Asked::Nearest { share }, path, line)))
}

/// All notes that search did not name, until then.
fn scan(
    reader: &Reader,
    head: CommitId,
    takes: &dyn Fn(&VaultPath) -> bool,
    read: &HashSet<VaultPath>,
    wanted: &Folded,
    until: Instant,
    places: &mut Vec<(VaultPath, u32)>,
) -> Result<(), ReadError> {
    for (path, _) in reader.list(head)? {
        if clock::now() >= until {
            report::talk("note: not all notes were read in time");
            break;
        }
        if takes(&path) && !read.contains(&path) {
            look_in(reader, &path, wanted, places)?;
        }
    }
    Ok(())
}

fn look_in(
    reader: &Reader,
    path: &VaultPath,
    wanted: &Folded,
    places: &mut Vec<(VaultPath, u32)>,
) -> Result<(), ReadError> {
    let Some(text) = text_of(reader, path)? else { return Ok(()) };
    let found = Folded::of(&text).places(wanted);
    places.extend(found.into_iter().map(|it| (path.clone(), *it.start())));
    Ok(())
}

/// A note as it lies on the disk, else as it was committed; `None` for what is no text.
fn text_of(reader: &Reader, path: &VaultPath) -> Result<Option<String>, ReadError> {
    let bytes = match reader.on_the_disk(path)? {
        Some(bytes) => bytes,
        None => {
            let Some(head) = reader.head()? else { return Ok(None) };
            let Some(entry) = reader.entry(head.commit, path)? else { return Ok(None) };
            reader.read_blob(entry.blob)?
        }
    };
    let is_text = !bytes.iter().take(8000).any(|it| *it == 0);
    Ok(is_text.then(|| String::from_utf8_lossy(&bytes).into_owned()))
}

/// The notes that search names, best first; none where it cannot answer: the notes are read then.
fn searched(vault: &Path, dirs: &Dirs, given: &str) -> Vec<VaultPath> {
    let query = Query { limit: CANDIDATES, ..Query::new(given) };
    if crate::search::check(&query).is_err() {
        return Vec::new();
    }
    let request = Request::Search { query: query.clone(), form: Form::Json };
    let asked = dirs.sockets(vault).map(|mut sockets| {
        sockets.truncate(1);
        client::ask_any(&sockets, &request, Duration::from_secs(10))
    });
    let answer = match asked {
        Ok(Ok(answer)) => answer,
        Ok(Err(_)) | Err(_) => {
            offline::search(vault, dirs, &query, Form::Json, offline::NO_AGENT, &|_, _| {})
        }
    };
    let Answer::Page { text, .. } = answer else { return Vec::new() };
    let page: Value = serde_json::from_str(&text).unwrap_or_default();
    let hits = page["results"].as_array().map(Vec::as_slice).unwrap_or_default();
    let paths = hits.iter().filter_map(|hit| match hit["path_hex"].as_str() {
        Some(hex) => VaultPath::from_hex(hex),
        None => VaultPath::new(hit["path"].as_str()?).ok(),
    });
    paths.collect()
}
