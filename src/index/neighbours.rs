//! Keeps a graph of neighbours beside the vectors of a space, where they are many.
//!
//! Takes the blocks as they are when the index opens or rests, gives a graph that names candidates
//! for a query. It is read, checked and built on a thread of its own, while the blocks are searched
//! as a whole; what came after it was built is searched beside it, and what is dead in it is passed
//! over. It goes by the numbers of notes, so that files of vectors may become one under it.
//!
//! **Invariant:** nothing waits for a graph, and none is needed: one that is damaged, of another
//! space or not there yet costs time. How near a note is never comes from it.

mod build;
mod graph;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use crate::base::fs;
use crate::base::trouble::told;
use crate::base::{clock, fault, memory, process};
use crate::index::neighbours::build::{BuildError, Progress, build, memory_for};
use crate::index::neighbours::graph::Graph;
use crate::index::rows::{Heading, Rows, RowsError};
use crate::index::state::State;

/// The graph of a space, and the thread that sees to it. It ends with this.
pub(super) struct Neighbours {
    known: Known,
    /// So many vectors are searched without.
    above: usize,
}

/// What a view asks.
#[derive(Clone, Default)]
pub(super) struct Known(Arc<Shared>);

#[derive(Default)]
struct Shared {
    inner: Mutex<Inner>,
    progress: Progress,
}

#[derive(Default)]
struct Inner {
    graph: Option<Arc<Drawn>>,
    state: GraphState,
    /// What is to be looked at next.
    plan: Option<Plan>,
    is_at_work: bool,
    /// Whether the file was looked for.
    is_read: bool,
    failed_at: Option<Instant>,
}

/// A graph, and what of each block is not in it.
pub(super) struct Drawn {
    pub(super) graph: Graph,
    beside: Mutex<Vec<Beside>>,
    /// Why it is in memory only.
    unkept: Option<String>,
}

/// A block, and its rows that are not in a graph.
type Beside = (Weak<Rows>, Arc<[u32]>);

/// What the vectors are when a graph may be wanted.
pub(super) struct Plan {
    pub(super) folder: PathBuf,
    pub(super) heading: Heading,
    /// Those in files: only their notes keep their numbers whatever happens.
    pub(super) blocks: Vec<Arc<Rows>>,
    pub(super) state: State,
    /// Living notes without vectors.
    pub(super) missing: usize,
    /// Whether there is time to build.
    pub(super) is_idle: bool,
    above: usize,
}

/// Whether a graph of neighbours is in use.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum GraphState {
    /// None is wanted: there are few vectors, or it is switched off.
    #[default]
    None,
    /// Wanted, when the index rests or has the vectors that are being made.
    Waiting,
    Reading,
    Building {
        done: usize,
        all: usize,
    },
    /// In use, with so many vectors; `unkept` says why it will be built again at the next start.
    InUse {
        vectors: usize,
        unkept: Option<String>,
    },
    /// It could not be built; all vectors are looked at instead.
    Failed(String),
}

const FILE: &str = "neighbours.hnsw";
/// Rebuilt when more than one note in so many of it is dead …
const DEAD_SHARE: usize = 5;
/// … or one in so many of the living is not in it.
const OUTSIDE_SHARE: usize = 10;
/// What failed is tried again after this long.
const PAUSE: Duration = Duration::from_secs(3600);

impl Neighbours {
    /// None yet, and none for up to `above` vectors.
    pub(super) fn new(above: usize) -> Self {
        Self { known: Known::default(), above }
    }

    pub(super) fn above(&self) -> usize {
        self.above
    }

    pub(super) fn known(&self) -> Known {
        self.known.clone()
    }

    /// Has somebody see to it that there is a graph where one is wanted.
    pub(super) fn look(&self, mut plan: Plan) {
        plan.above = self.above;
        let mut inner = self.known.0.inner();
        if inner.graph.is_none() && !plan.is_large() {
            if !inner.is_at_work {
                inner.state = GraphState::None;
                plan.tidy_up();
            }
            return;
        }
        inner.plan = Some(plan);
        if inner.is_at_work {
            return;
        }
        let shared = Arc::clone(&self.known.0);
        let spawned =
            std::thread::Builder::new().name("neighbours".to_owned()).spawn(move || shared.work());
        match spawned {
            Ok(_ends_by_itself) => inner.is_at_work = true,
            Err(err) => inner.fail(format!("No thread for it can be had: {err}")),
        }
    }
}

impl Drop for Neighbours {
    fn drop(&mut self) {
        self.known.0.progress.is_stopped.store(true, Ordering::SeqCst);
    }
}

impl Plan {
    pub(super) fn of(
        folder: &Path,
        heading: &Heading,
        blocks: &[Arc<Rows>],
        state: &State,
        missing: usize,
    ) -> Self {
        Self {
            folder: folder.to_owned(),
            heading: heading.clone(),
            blocks: blocks.to_vec(),
            state: state.clone(),
            missing,
            is_idle: false,
            above: usize::MAX,
        }
    }

    /// The same, when there is time to build.
    pub(super) fn when_idle(self) -> Self {
        Self { is_idle: true, ..self }
    }

    fn path(&self) -> PathBuf {
        self.folder.join(FILE)
    }

    fn rows(&self) -> usize {
        self.blocks.iter().map(|it| it.rows()).sum()
    }

    fn is_large(&self) -> bool {
        self.rows() > self.above
    }

    /// Removes what is no use any more.
    fn tidy_up(&self) {
        if self.is_idle
            && let Err(err) = fs::remove_file(&self.path())
        {
            tracing::warn!(err = told(&err), "a graph of neighbours that is no use stays");
        }
    }

    fn lives(&self, id: u64) -> bool {
        self.state.card_of(id).is_some()
    }

    /// Whether another graph would be so much better that it is worth its while.
    fn is_outgrown(&self, graph: &Graph) -> bool {
        let dead = (0..graph.notes()).filter(|it| !self.lives(graph.id(*it))).count();
        let outside = |block: &Rows| {
            let is_outside = |group: &usize| {
                self.lives(block.id(*group))
                    && !block.rows_of(*group).is_empty()
                    && !graph.has(block, *group)
            };
            (0..block.groups()).filter(is_outside).count()
        };
        let outside: usize = self.blocks.iter().map(|it| outside(it)).sum();
        dead * DEAD_SHARE > graph.notes() || outside * OUTSIDE_SHARE > self.state.notes()
    }
}

impl Known {
    /// The graph, if it is there and what it was.
    pub(super) fn graph(&self) -> Option<Arc<Drawn>> {
        let graph = self.0.inner().graph.clone()?;
        if !graph.graph.is_whole() {
            self.0.lose(&graph);
            return None;
        }
        Some(graph)
    }

    /// Whether one is wanted that nobody is about to make.
    pub(super) fn is_due(&self) -> bool {
        // A look at it, so that what is damaged counts as gone.
        let _graph = self.graph();
        let inner = self.0.inner();
        inner.state == GraphState::Waiting && !inner.is_at_work
    }

    #[cfg(test)]
    pub(super) fn is_at_work(&self) -> bool {
        self.0.inner().is_at_work
    }

    pub(super) fn state(&self) -> GraphState {
        let (done, all) = (&self.0.progress.done, &self.0.progress.all);
        match self.0.inner().state.clone() {
            GraphState::Building { .. } => GraphState::Building {
                done: done.load(Ordering::SeqCst),
                all: all.load(Ordering::SeqCst),
            },
            state => state,
        }
    }
}

impl Drawn {
    fn new(graph: Graph, unkept: Option<String>) -> Arc<Self> {
        Arc::new(Self { graph, beside: Mutex::default(), unkept })
    }

    /// The rows of a block that are not in the graph, ascending.
    pub(super) fn beside(&self, block: &Arc<Rows>) -> Arc<[u32]> {
        let lock = || self.beside.lock().unwrap_or_else(PoisonError::into_inner);
        let is_it = |it: &Weak<Rows>| std::ptr::eq(it.as_ptr(), Arc::as_ptr(block));
        if let Some((_, rows)) = lock().iter().find(|it| is_it(&it.0)) {
            return Arc::clone(rows);
        }
        let outside = (0..block.groups()).filter(|it| !self.graph.has(block, *it));
        let rows: Arc<[u32]> =
            outside.flat_map(|it| block.rows_of(it)).map(|it| it as u32).collect();
        let mut beside = lock();
        beside.retain(|it| it.0.strong_count() > 0 && !is_it(&it.0));
        beside.push((Arc::downgrade(block), Arc::clone(&rows)));
        rows
    }
}

impl Inner {
    fn fail(&mut self, why: String) {
        tracing::warn!(why, "no graph of neighbours: all vectors are looked at");
        self.failed_at = Some(clock::now());
        self.state = GraphState::Failed(why);
    }

    fn show(&mut self, drawn: Arc<Drawn>) {
        let vectors = drawn.graph.rows();
        self.state = GraphState::InUse { vectors, unkept: drawn.unkept.clone() };
        self.graph = Some(drawn);
    }
}

impl Shared {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets go of a graph whose file somebody touched.
    fn lose(&self, graph: &Arc<Drawn>) {
        let mut inner = self.inner();
        if inner.graph.as_ref().is_some_and(|it| Arc::ptr_eq(it, graph)) {
            tracing::warn!(
                "the graph of neighbours was touched by another program; it is built again"
            );
            inner.graph = None;
            inner.state = GraphState::Waiting;
        }
    }

    fn is_stopped(&self) -> bool {
        self.progress.is_stopped.load(Ordering::SeqCst)
    }

    fn work(&self) {
        process::let_others_go_first();
        loop {
            let plan = {
                let mut inner = self.inner();
                match inner.plan.take().filter(|_| !self.is_stopped()) {
                    Some(plan) => plan,
                    None => {
                        inner.is_at_work = false;
                        return;
                    }
                }
            };
            // The library panics here and there; what it was given is ours alone.
            if catch_unwind(AssertUnwindSafe(|| self.see_to(&plan))).is_err() {
                self.inner().fail("It failed for a reason of its own".to_owned());
            }
        }
    }

    fn see_to(&self, plan: &Plan) {
        let (known, is_read, failed_at) = {
            let mut inner = self.inner();
            (inner.graph.clone(), std::mem::replace(&mut inner.is_read, true), inner.failed_at)
        };
        let known = match known {
            None if !is_read => self.read(plan),
            known => known,
        };
        if !plan.is_large() {
            let is_near = plan.rows() as u64 * 4 > plan.above as u64 * 3;
            if known.is_none() || !is_near {
                self.give_up(plan);
            }
            return;
        }
        let is_wanted = known.as_ref().is_none_or(|it| plan.is_outgrown(&it.graph));
        let rests = failed_at.is_some_and(|it| clock::now().duration_since(it) < PAUSE);
        if !is_wanted || rests || self.is_stopped() {
            return;
        }
        // While most of it is to come it would be outgrown at once.
        let is_time = plan.is_idle && plan.missing * OUTSIDE_SHARE <= plan.state.notes();
        if !is_time {
            if known.is_none() {
                self.inner().state = GraphState::Waiting;
            }
            return;
        }
        self.build(plan);
    }

    /// What the file has, if it can be believed.
    fn read(&self, plan: &Plan) -> Option<Arc<Drawn>> {
        self.inner().state = GraphState::Reading;
        let path = plan.path();
        let why = match Graph::open(&path, &plan.heading) {
            Ok(graph) => {
                tracing::info!(vectors = graph.rows(), "the graph of neighbours is in use");
                let drawn = Drawn::new(graph, None);
                self.inner().show(Arc::clone(&drawn));
                return Some(drawn);
            }
            Err(RowsError::Io(err)) if err.is_absent() => None,
            Err(err) => Some(err),
        };
        if let Some(err) = why {
            tracing::warn!(err = told(&err), "the graph of neighbours is built again");
        }
        self.inner().state = GraphState::None;
        None
    }

    /// There are too few vectors for one.
    fn give_up(&self, plan: &Plan) {
        {
            let mut inner = self.inner();
            inner.graph = None;
            inner.state = GraphState::None;
        }
        plan.tidy_up();
    }

    fn build(&self, plan: &Plan) {
        let rows = plan.rows();
        let needed = memory_for(rows, plan.heading.identity.dimension) as u64;
        if memory::free_bytes().is_some_and(|free| free / 2 < needed) {
            let why =
                format!("It takes {} MB of memory to build, which are not free", needed >> 20);
            return self.inner().fail(why);
        }
        self.inner().state = GraphState::Building { done: 0, all: rows };
        let started = clock::now();
        tracing::info!(vectors = rows, "building a graph of neighbours");
        let keep = |id| plan.lives(id);
        let bytes = match build(&plan.heading, &plan.blocks, &keep, &self.progress) {
            Ok(bytes) => bytes,
            Err(BuildError::Stopped) => return,
            Err(err) => return self.inner().fail(told(&err)),
        };
        fault::point("neighbours.before_write");
        if self.is_stopped() {
            return;
        }
        let path = plan.path();
        let (graph, unkept) = match fs::write_atomic(&path, &bytes) {
            Ok(()) => (Graph::open(&path, &plan.heading), None),
            Err(err) => (Graph::of(bytes, &plan.heading), Some(told(&err))),
        };
        fault::point("neighbours.after_write");
        if let Some(why) = &unkept {
            tracing::warn!(why, "the graph of neighbours can't be kept");
        }
        let mut inner = self.inner();
        match graph {
            Ok(graph) => {
                let (vectors, took) = (graph.rows(), clock::now().duration_since(started));
                tracing::info!(
                    vectors,
                    took_s = took.as_secs(),
                    "the graph of neighbours is built"
                );
                inner.failed_at = None;
                inner.show(Drawn::new(graph, unkept));
            }
            Err(err) => inner.fail(told(&err)),
        }
    }
}

impl std::fmt::Debug for Known {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Known").field(&self.state()).finish()
    }
}
