//! Asks a vault the questions of a labelled set, with an agent or without.
//!
//! Takes the last index and what was committed since, as a command without an agent does; gives for
//! each question what each branch found. Changes nothing but a missing index. Blocking, the
//! command's thread.
//!
//! **Invariant:** the model is asked once a question, whatever is tried with it; what a branch could
//! not say is counted, never left out in silence.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::base::clock;
use crate::config::Dirs;
use crate::daemon::offline::{self, Ready};
use crate::daemon::settings;
use crate::embed::{Answer, Embedder, Identity, Purpose, Slot};
use crate::index::IndexView;
use crate::search::fuse::{Fusion, RRF_VECTOR_WEIGHT};
use crate::search::judge::weights::Tried;
use crate::search::judge::{Measures, Question, Questions, WEIGHTS};
use crate::search::{self, BranchState, Query, Rules, as_asked};
use crate::vault::CommitId;

/// How many notes count of an answer.
pub const DEPTH: usize = 20;
/// How long a query may take; a set is no place for partial answers.
const QUERY_LIMIT: Duration = Duration::from_secs(30);
/// How long a model may take for one list of questions.
const MODEL_LIMIT: Duration = Duration::from_secs(60);
/// So many questions go to a model at once.
const AT_ONCE: usize = 32;

/// A way to search.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Branch {
    Keyword,
    Vector,
    /// As the vault's own settings say.
    Hybrid,
    /// The documented rank fusion.
    Rrf,
}

impl Branch {
    pub const ALL: [Self; 4] = [Self::Keyword, Self::Vector, Self::Hybrid, Self::Rrf];

    pub fn name(self) -> &'static str {
        match self {
            Self::Keyword => "keyword",
            Self::Vector => "vector",
            Self::Hybrid => "hybrid",
            Self::Rrf => "rrf",
        }
    }
}

/// How a vault answered.
pub struct Evaluation {
    /// The commit that all of it is true for.
    pub at: Option<CommitId>,
    /// Why it is less than HEAD.
    pub partial: Option<String>,
    /// The model in use; `None` where there is none.
    pub model: Option<String>,
    /// How both branches become one, for people.
    pub rule: String,
    /// The weight of the cosine in use; `None` where ranks are fused.
    pub weight: Option<f64>,
    /// The share of vectors in `rrf`.
    pub rrf_weight: f64,
    pub answered: Vec<Answered>,
    /// Notes that answer and are not in the vault, with the lines that name them.
    pub absent: BTreeMap<String, Vec<usize>>,
    /// Why the vector branch had nothing to say, and to how many questions.
    pub silent: BTreeMap<String, usize>,
    /// Notes that lack vectors.
    pub without_vectors: usize,
}

/// A question with what was found, best first.
pub struct Answered {
    pub question: Question,
    pub found: BTreeMap<Branch, Vec<String>>,
}

impl Answered {
    pub fn measures(&self, branch: Branch) -> Measures {
        let none = Vec::new();
        Measures::of(&self.question.relevant, self.found.get(&branch).unwrap_or(&none))
    }
}

/// Asks all questions; one that cannot be asked is named among the bad lines. `progress` is told how
/// many of how many are answered.
pub fn evaluate(
    vault: &Path,
    dirs: &Dirs,
    questions: &mut Questions,
    progress: &dyn Fn(&str, usize, usize),
) -> Result<Asked, offline::Failed> {
    let settings = offline::settings(vault, dirs);
    let rules = settings::rules(&settings);
    let indexed = |done, all| progress("indexing", done, all);
    let Ready { view, partial, .. } = offline::ready(vault, dirs, &settings, &indexed)?;
    let view = view.asking_by(|it| Arc::new(Once::new(it)));
    let model = view.embedder().map(|it| it.identity().model.clone());
    let known: BTreeSet<String> =
        view.notes().iter().map(|it| it.path.lossy().into_owned()).collect();
    let mut absent: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for question in &questions.all {
        for path in question.relevant.iter().filter(|it| !known.contains(*it)) {
            absent.entry(path.clone()).or_default().push(question.line);
        }
    }
    ask_the_model(&view, &questions.all, progress);
    let fusion =
        Fusion::chosen(None, rules.by_rank, rules.by_score, model.as_deref().unwrap_or(""));
    let mut evaluation = Evaluation {
        at: view.at(),
        partial,
        rule: fusion.text(),
        weight: match fusion {
            Fusion::Score { vector_weight } => Some(vector_weight),
            Fusion::Rrf { .. } => None,
        },
        rrf_weight: rules.by_rank.unwrap_or(RRF_VECTOR_WEIGHT),
        model,
        answered: Vec::new(),
        absent,
        silent: BTreeMap::new(),
        without_vectors: view.vectors().map_or(0, |it| it.missing),
    };
    let all = questions.all.len();
    for (at, question) in questions.all.clone().into_iter().enumerate() {
        match evaluation.answers(&view, rules, &question) {
            Ok(found) => evaluation.answered.push(Answered { question, found }),
            Err(why) => questions.refuse(question.line, why),
        }
        progress("asking", at + 1, all);
    }
    Ok(Asked { evaluation, view, rules })
}

/// An evaluation, and what else can be tried with the same questions.
pub struct Asked {
    pub evaluation: Evaluation,
    view: Arc<IndexView>,
    rules: Rules,
}

impl Asked {
    /// How each question is answered with each of [`WEIGHTS`].
    pub fn tried(&self, progress: &dyn Fn(&str, usize, usize)) -> Result<Vec<Tried>, String> {
        let answered = &self.evaluation.answered;
        let mut all = Vec::with_capacity(answered.len());
        for (at, one) in answered.iter().enumerate() {
            let with = |weight: &f64| {
                let rules = Rules { by_score: Some(*weight), by_rank: None, ..self.rules };
                let found = found(&self.view, &query(&one.question.text), rules)?;
                Ok(Measures::of(&one.question.relevant, &found.0))
            };
            let with = WEIGHTS.iter().map(with).collect::<Result<Vec<_>, String>>();
            all.push(Tried {
                category: one.question.category.clone(),
                by_words: one.measures(Branch::Keyword),
                in_use: one.measures(Branch::Hybrid),
                with: with.map_err(|why| format!("line {}: {why}", one.question.line))?,
            });
            progress("trying weights", at + 1, answered.len());
        }
        Ok(all)
    }
}

impl Evaluation {
    fn answers(
        &mut self,
        view: &IndexView,
        rules: Rules,
        question: &Question,
    ) -> Result<BTreeMap<Branch, Vec<String>>, String> {
        let mut answers = BTreeMap::new();
        for branch in Branch::ALL {
            let vector_weight = match branch {
                Branch::Keyword => Some(0.0),
                Branch::Vector => Some(1.0),
                Branch::Hybrid => None,
                Branch::Rrf => Some(self.rrf_weight),
            };
            let query = Query { vector_weight, ..query(&question.text) };
            let (paths, vector) = found(view, &query, rules)?;
            if let (Branch::Vector, BranchState::Off(why)) = (branch, &vector) {
                *self.silent.entry((*why).to_owned()).or_default() += 1;
            }
            answers.insert(branch, paths);
        }
        Ok(answers)
    }
}

fn query(text: &str) -> Query {
    Query { limit: DEPTH, ..Query::new(text) }
}

/// The notes found, best first, and how the vector branch took part; or why it can't be asked, or
/// not to the end.
fn found(
    view: &IndexView,
    query: &Query,
    rules: Rules,
) -> Result<(Vec<String>, BranchState), String> {
    let results = search::search(view, query, rules, clock::now() + QUERY_LIMIT)
        .map_err(|err| err.to_string())?;
    match results.partial {
        Some(why) => Err(why),
        None => {
            let paths = results.hits.iter().map(|it| it.path.lossy().into_owned()).collect();
            Ok((paths, results.vector))
        }
    }
}

/// Asks for the vectors of all questions, many at once and with more patience than a search has.
fn ask_the_model(view: &IndexView, questions: &[Question], progress: &dyn Fn(&str, usize, usize)) {
    let Some(model) = view.embedder() else { return };
    let texts: Vec<&str> = questions.iter().map(|it| as_asked(&it.text)).collect();
    for (at, texts) in texts.chunks(AT_ONCE).enumerate() {
        let answer = model.embed(texts, Purpose::Query, clock::now() + MODEL_LIMIT);
        progress(
            "asking the model",
            (at * AT_ONCE + texts.len()).min(questions.len()),
            questions.len(),
        );
        if let Some(err) = answer.stopped {
            // Each question that has no vector is counted, with why.
            tracing::debug!(%err, "questions have no vectors");
            if !err.is_transient() {
                return;
            }
        }
    }
}

/// A model that is asked for each question once.
struct Once {
    inner: Arc<dyn Embedder>,
    known: Mutex<HashMap<String, Slot>>,
}

impl Once {
    fn new(inner: Arc<dyn Embedder>) -> Self {
        Self { inner, known: Mutex::default() }
    }
}

impl Embedder for Once {
    fn identity(&self) -> &Identity {
        self.inner.identity()
    }

    fn window(&self) -> usize {
        self.inner.window()
    }

    fn count(&self, text: &str) -> usize {
        self.inner.count(text)
    }

    fn prepare<'a>(&self, text: &'a str, purpose: Purpose) -> (Cow<'a, str>, bool) {
        self.inner.prepare(text, purpose)
    }

    fn is_remote(&self) -> bool {
        self.inner.is_remote()
    }

    fn embed(&self, texts: &[&str], purpose: Purpose, deadline: Instant) -> Answer {
        if purpose != Purpose::Query {
            return self.inner.embed(texts, purpose, deadline);
        }
        // Whatever a panic interrupted, each entry is whole.
        let known = || self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let lacking: Vec<&str> = {
            let known = known();
            let mut seen = BTreeSet::new();
            texts
                .iter()
                .filter(|it| !known.contains_key(**it) && seen.insert(**it))
                .copied()
                .collect()
        };
        let mut stopped = None;
        if !lacking.is_empty() {
            let answer = self.inner.embed(&lacking, purpose, deadline);
            stopped = answer.stopped;
            let lasting = lacking.iter().zip(answer.slots).filter(|it| it.1 != Slot::Missing);
            known().extend(lasting.map(|(text, slot)| ((*text).to_owned(), slot)));
        }
        let known = known();
        let slots =
            texts.iter().map(|it| known.get(*it).cloned().unwrap_or(Slot::Missing)).collect();
        Answer { slots, stopped }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::daemon::models;

    struct Counting(Arc<dyn Embedder>, AtomicUsize);

    impl Embedder for Counting {
        fn identity(&self) -> &Identity {
            self.0.identity()
        }

        fn window(&self) -> usize {
            self.0.window()
        }

        fn count(&self, text: &str) -> usize {
            self.0.count(text)
        }

        fn embed(&self, texts: &[&str], purpose: Purpose, deadline: Instant) -> Answer {
            self.1.fetch_add(texts.len(), Ordering::Relaxed);
            self.0.embed(texts, purpose, deadline)
        }
    }

    #[test]
    fn a_model_is_asked_once_a_question_whatever_is_tried() {
        let counting = Arc::new(Counting(models::on_board(), AtomicUsize::new(0)));
        let once = Once::new(counting.clone());
        let ask =
            |texts: &[&str], purpose| once.embed(texts, purpose, clock::now() + MODEL_LIMIT).slots;
        let first = ask(&["a bicycle", "soup", "a bicycle"], Purpose::Query);
        assert_eq!((first.len(), counting.1.load(Ordering::Relaxed)), (3, 2));
        assert!(first[0] == first[2] && first[0] != first[1]);
        assert_eq!(
            ask(&["soup", "a bicycle"], Purpose::Query)[..],
            [first[1].clone(), first[0].clone()]
        );
        assert_eq!(counting.1.load(Ordering::Relaxed), 2);
        ask(&["soup"], Purpose::Passage);
        assert_eq!(counting.1.load(Ordering::Relaxed), 3);
    }
}
