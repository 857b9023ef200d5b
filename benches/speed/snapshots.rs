//! Commits: the whole vault once, then one note at a time, beside git and the bare disk.
//!
//! The library's own calls, without an agent: the clock starts where the quiet window ends.

use std::collections::BTreeSet;
use std::error::Error;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use remd::daemon::changes::{changed_since, update};
use remd::history::{Cause, History, Look, Options};
use remd::index::bare::Bare;
use remd::index::{Index, Update};
use remd::search::{Query, Rules, search};
use remd::vault::note::read_note;
use remd::vault::role::role_of;
use remd::vault::{Layout, VaultPath};
use remd::watch::{Filter, scan};

use crate::keyword::{BUDGET, after};
use crate::table::{self, Series};
use crate::vault::Vault;

type Done<T> = Result<T, Box<dyn Error>>;

const EDITS: usize = 41;
/// How often the edits so far go to the disk.
const FLUSH_EVERY: usize = 8;
/// Stands for the quiet window: a file that changed a moment ago is not read before the clock of
/// the file system has ticked, which in an agent has always happened.
const QUIET: Duration = Duration::from_millis(30);
/// What one edit of a note in a folder of a folder makes: blob, three trees, commit, reference.
const FILES: usize = 6;

/// Commits the whole vault, and as git does it.
pub fn adopt(vault: &Vault, root: &Path) -> Done<History> {
    let (mut git, mut remd, mut look_again) =
        (Series::default(), Series::default(), Series::default());
    let copy = root.join("git");
    git.time(|| -> Done<()> {
        run_git(&copy, &["init", "-q", "-b", "main"])?;
        run_git(&copy, &["add", "-A"])?;
        run_git(&copy, &["commit", "-q", "-m", "all"])
    })?;
    for setting in ["gc.auto", "maintenance.auto"] {
        run_git(&copy, &["config", setting, "0"])?;
    }
    let mut history = remd.time(|| -> Done<History> {
        History::init(&vault.root, &Options::default())?;
        let mut history = History::open(&vault.root, &Options::default())?;
        whole(&mut history)?;
        Ok(history)
    })?;
    for _ in 0..5 {
        look_again.time(|| whole(&mut history))?;
    }
    let mut status = Series::default();
    for _ in 0..5 {
        status.time(|| run_git(&copy, &["status", "--porcelain"]))?;
    }
    table::base("git init, add -A, commit: all notes", &git);
    table::ours("all notes -> first commit", &remd, "git", &git);
    table::base("git status: nothing changed", &status);
    table::ours("a look at the whole vault: nothing changed", &look_again, "git", &status);
    Ok(history)
}

/// Commits everything; the second time there is nothing to commit.
fn whole(history: &mut History) -> Done<()> {
    let mut ignores = history.ignores()?;
    let root = history.root().to_owned();
    let found = scan(&root, None, &Filter::default(), &mut |path| ignores.is_ignored(path, true))?;
    let look = Look {
        found: found.found.into_iter().collect(),
        complete_below: vec![None],
        ..Look::default()
    };
    history.snapshot(&look, &Cause::edit())?;
    Ok(())
}

/// Edits one note at a time: durable, then searchable; beside the same in a smaller vault.
pub fn edit(
    vault: &Vault,
    root: &Path,
    history: &mut History,
    small: Option<&Edits>,
) -> Done<Edits> {
    let copy = root.join("git");
    let layout = Layout::default();
    let (mut index, _) = Index::open(&root.join("index"), &layout)?;
    let mut bare = Bare::create(&root.join("bare"), 1, BUDGET)?;
    let reader = history.reader();
    let [mut git, mut plain, mut at_once] = <[Series; 3]>::default();
    let [mut durable, mut whole, mut searchable, mut flush, mut tantivy] = <[Series; 5]>::default();
    let [mut cpu, mut index_cpu] = <[Series; 2]>::default();
    let mut missed = 0;
    // Called by this thread, between the reference and git's index.
    let at_durable = Arc::new(Mutex::new(Duration::ZERO));
    let seen = at_durable.clone();
    history.on_durable(move |_| *seen.lock().unwrap() = thread_cpu().unwrap());
    for round in 0..EDITS {
        let path = &vault.notes[(round * 7919 + 1) % vault.notes.len()];
        let needle = format!("needle{round}x");
        append(&copy.join(path), &needle)?;
        append(&vault.root.join(path), &needle)?;
        std::thread::sleep(QUIET);
        git.time(|| -> Done<()> {
            run_git(&copy, &["add", "-A"])?;
            run_git(&copy, &["commit", "-q", "-m", "one"])
        })?;
        plain.time(|| floor(&root.join(format!("floor-{round}")), false))?;
        at_once.time(|| floor(&root.join(format!("floors-{round}")), true))?;

        let name = VaultPath::from_os(path)?;
        let look = Look { paths: BTreeSet::from([name.clone()]), ..Look::default() };
        let before = thread_cpu()?;
        let snapshot = whole.time(|| history.snapshot(&look, &Cause::edit()))?;
        let durable_at = *at_durable.lock().unwrap();
        cpu.push(durable_at - before);
        index_cpu.push(thread_cpu()? - durable_at);
        let head = snapshot.head.ok_or("nothing was committed")?.commit;
        durable.push(snapshot.durable_after.ok_or("nothing was committed")?);

        let found = searchable.time(|| -> Done<bool> {
            let at = BTreeSet::from([index.view().at().ok_or("no commit")?]);
            let updates = changed_since(&reader, &at, head)?
                .ok_or("its commit is gone")?
                .into_iter()
                .map(|(path, entry)| update(&reader, path, entry, &layout))
                .collect::<Result<Vec<Update>, _>>()?;
            index.stage(updates, head)?;
            let results =
                search(&index.view(), &Query::new(needle.as_str()), Rules::default(), after(10))?;
            Ok(results.hits.first().is_some_and(|it| it.path == name))
        })?;
        missed += usize::from(!found);
        if round % FLUSH_EVERY == FLUSH_EVERY - 1 {
            flush.time(|| index.flush())?;
        }

        let bytes = fs::read(vault.root.join(path))?;
        let (doc, role) = (read_note(&name, &bytes), role_of(&name, &layout));
        let blob = snapshot.changes.iter().next().and_then(|it| it.1.new);
        let blob = blob.ok_or("nothing was committed")?.blob;
        tantivy.time(|| -> Done<()> {
            bare.put(&name, blob, role, &doc)?;
            Ok(bare.commit()?)
        })?;
    }
    if missed > 0 {
        return Err(format!("{missed} of {EDITS} edits were not found").into());
    }
    table::base("git add -A && git commit: one note", &git);
    table::base(&format!("{FILES} files written and synced, one by one"), &plain);
    table::base(&format!("{FILES} files written and synced side by side"), &at_once);
    table::ours("one note -> durable commit (goal 10)", &durable, "git", &git);
    table::ours("  the same", &durable, "disk, one by one", &plain);
    table::ours("  the same", &durable, "disk, side by side", &at_once);
    table::ours("  with git's index written too", &whole, "git", &git);
    table::alone("  CPU of its thread: until durable", &cpu, "");
    table::alone("  CPU of its thread: git's index", &index_cpu, "");
    if let Some(small) = small {
        let ratio = |now: f64, then: f64| format!("{:.2} x", now / then);
        let [now, then] = [(&cpu, &index_cpu), (&small.cpu, &small.index_cpu)]
            .map(|(until_durable, of_index)| until_durable.median() + of_index.median());
        table::fact(
            &format!("  beside {} notes (goal: 2 x until durable)", small.notes),
            format!(
                "{} wall, {} CPU until durable, {} CPU with git's index",
                ratio(durable.median(), small.durable.median()),
                ratio(cpu.median(), small.cpu.median()),
                ratio(now, then),
            ),
        );
    }
    Ok(Edits { notes: vault.notes.len(), durable, cpu, index_cpu })
}

/// What one edit took in a vault of so many notes.
pub struct Edits {
    notes: usize,
    durable: Series,
    /// Until durable, then for git's index.
    cpu: Series,
    index_cpu: Series,
}

/// What this thread has worked so far.
fn thread_cpu() -> Done<Duration> {
    let stat = fs::read_to_string("/proc/thread-self/schedstat")?;
    let nanos = stat.split(' ').next().ok_or("no figures")?;
    Ok(Duration::from_nanos(nanos.parse()?))
}

/// What the disk takes at least: objects and their folder, then a reference and its folder.
fn floor(dir: &Path, side_by_side: bool) -> io::Result<()> {
    fs::create_dir(dir)?;
    let write = |at: usize| -> io::Result<()> {
        let mut file = File::create(dir.join(at.to_string()))?;
        file.write_all(&[b'x'; 1024])?;
        file.sync_all()
    };
    if side_by_side {
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..FILES).map(|at| scope.spawn(move || write(at))).collect();
            threads.into_iter().try_for_each(|it| {
                it.join().unwrap_or_else(|_| Err(io::Error::other("a thread panicked")))
            })
        })?;
    } else {
        (0..FILES).try_for_each(write)?;
    }
    File::open(dir)?.sync_all()?;
    fs::rename(dir.join("0"), dir.join("ref"))?;
    File::open(dir)?.sync_all()
}

fn append(path: &Path, what: &str) -> io::Result<()> {
    writeln!(File::options().append(true).open(path)?, "\n{what}")
}

/// Runs git without anybody's settings; it must succeed.
pub fn run_git(dir: &Path, args: &[&str]) -> Done<()> {
    let status = Command::new("git")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .args(["-c", "user.name=Ada", "-c", "user.email=ada@example.org"])
        .current_dir(dir)
        .args(args)
        .stdout(Stdio::null())
        .status()?;
    if status.success() { Ok(()) } else { Err(format!("git {args:?}: {status}").into()) }
}

/// The time since a moment, for series that are filled by hand.
pub fn since(started: Instant, series: &mut Series) {
    series.push(started.elapsed());
}
