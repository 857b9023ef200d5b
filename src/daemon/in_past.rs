//! Searches of what was.
//!
//! Takes a query with a moment, or for what is gone; reads the trees of the past beside whoever
//! writes history, and gives pages. Any thread; a few more read beside it.
//!
//! **Invariant:** nothing is fetched and nothing is kept; it ends with its deadline, and says what
//! it did not look at.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::base::{clock, fault};
use crate::history::{Deletion, ReadError, Reader};
use crate::render::past::Gone;
use crate::search::{Query, QueryError, Results, Scan};
use crate::vault::change::FileMode;
use crate::vault::role::role_of;
use crate::vault::{CommitId, Entry, Layout, Role, VaultPath};

/// How long a search of the past may take.
const LIMIT: Duration = Duration::from_secs(2);
/// Threads that read notes at once.
const MOST_THREADS: usize = 8;
/// Nothing larger is looked through.
const LARGEST: u64 = 8 << 20;

/// A note of the past that may be asked for.
struct Candidate {
    path: VaultPath,
    entry: Entry,
    role: Role,
}

/// The vault as it was at the query's moment.
pub fn search(
    reader: &Reader,
    layout: &Layout,
    query: &Query,
    moment: &str,
    until: Instant,
) -> Result<Results, QueryError> {
    let refused = |err: &ReadError| QueryError::Moment {
        value: moment.to_owned(),
        why: crate::base::trouble::told(err),
        hint: err.hint(),
    };
    let scan = Scan::new(query)?;
    let (begun, limit) = (clock::now(), fault::pause("past.limit", LIMIT));
    let at = reader.moment(moment).map_err(|err| refused(&err))?;
    let listed = reader.list(at).map_err(|err| refused(&err))?;
    let mut candidates: Vec<Candidate> =
        listed.into_iter().filter_map(|(path, entry)| candidate(layout, path, entry)).collect();
    // Where the time does not suffice for all, those were looked at that the query names.
    candidates.sort_by_cached_key(|it| !scan.is_named(&it.path));
    // A list of very many notes leaves some time for them, too.
    let until = until.min((begun + limit).max(clock::now() + limit / 2));
    let next = AtomicUsize::new(0);
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(MOST_THREADS);
    let look = || look(reader, scan.clone(), &candidates, &next, until);
    let seen = std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(look)).collect();
        let mut seen = look();
        for other in others {
            seen.join(other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        }
        seen
    });
    let partial = seen.partial(candidates.len());
    Ok(seen.scan.results(at, partial))
}

fn candidate(layout: &Layout, path: VaultPath, entry: Entry) -> Option<Candidate> {
    let role = role_of(&path, layout);
    let is_file = matches!(entry.mode, FileMode::File | FileMode::Executable);
    (is_file && role.is_indexed()).then_some(Candidate { path, entry, role })
}

/// What one thread looked at.
struct Seen {
    scan: Scan,
    looked: usize,
    /// What could not be read: left with a remote, too large, damaged.
    unread: usize,
}

impl Seen {
    fn join(&mut self, other: Self) {
        self.scan.join(other.scan);
        self.looked += other.looked;
        self.unread += other.unread;
    }

    fn partial(&self, all: usize) -> Option<String> {
        if self.looked < all {
            return Some(format!("{} of {all} notes were looked at in time", self.looked));
        }
        (self.unread > 0).then(|| format!("{} of {all} notes cannot be read", self.unread))
    }
}

fn look(
    reader: &Reader,
    scan: Scan,
    candidates: &[Candidate],
    next: &AtomicUsize,
    until: Instant,
) -> Seen {
    let blobs = reader.blobs();
    let mut seen = Seen { scan, looked: 0, unread: 0 };
    while clock::now() < until {
        let Some(it) = candidates.get(next.fetch_add(1, Ordering::Relaxed)) else { break };
        seen.looked += 1;
        if !seen.scan.is_asked(&it.path, it.entry.blob, it.role) {
            continue;
        }
        match blobs.read(it.entry.blob, LARGEST) {
            Some(bytes) => seen.scan.read(&it.path, it.entry.blob, it.role, &bytes),
            None => seen.unread += 1,
        }
    }
    seen
}

/// What is gone and has the query's words (all that is gone, where it has none).
pub struct FoundGone {
    /// Best first, among equals the newest deletion.
    pub gone: Vec<Gone>,
    pub head: Option<CommitId>,
    pub partial: Option<String>,
}

/// Searches the last versions of the notes that are gone.
pub fn deleted(
    reader: &Reader,
    layout: &Layout,
    query: &Query,
    until: Instant,
) -> Result<Result<FoundGone, ReadError>, QueryError> {
    let scan = match query.text.trim() {
        "" => Scan::of_all(query)?,
        _ => Scan::new(query)?,
    };
    Ok(found_gone(reader, layout, query, &scan, until))
}

fn found_gone(
    reader: &Reader,
    layout: &Layout,
    query: &Query,
    scan: &Scan,
    until: Instant,
) -> Result<FoundGone, ReadError> {
    let is_over = || clock::now() >= until;
    let head = reader.head()?.map(|it| it.commit);
    let is_note = |path: &VaultPath| role_of(path, layout).is_indexed();
    let deletions = reader.deleted(&is_note, &is_over)?;
    let mut partial =
        deletions.is_partial.then(|| "not the whole history was looked at in time".to_owned());
    let blobs = reader.blobs();
    let (all, mut gone) = (deletions.found.len(), Vec::new());
    let (mut unread, mut looked) = (0, 0);
    for deletion in deletions.found {
        if is_over() {
            partial.get_or_insert(format!("{looked} of {all} notes were looked at in time"));
            break;
        }
        looked += 1;
        let Deletion { path, entry, .. } = &deletion;
        let role = role_of(path, layout);
        if !scan.is_asked(path, entry.blob, role) {
            continue;
        }
        match blobs.read(entry.blob, LARGEST) {
            Some(bytes) => {
                if let Some(hit) = scan.hit(path, entry.blob, role, &bytes)
                    && reader.became(&deletion)?.is_none()
                {
                    gone.push(Gone { hit, deletion });
                }
            }
            None => unread += 1,
        }
    }
    if unread > 0 {
        partial.get_or_insert(format!("{unread} of {all} notes cannot be read"));
    }
    // They came newest first, and stay so where their scores are the same.
    gone.sort_by(|a, b| b.hit.score.total_cmp(&a.hit.score));
    gone.truncate(query.limit);
    Ok(FoundGone { gone, head, partial })
}
