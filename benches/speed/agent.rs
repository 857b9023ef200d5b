//! A running agent: from a folder to a settled vault, edits, pages, memory, rest.
//!
//! The real binary, through its own doors.

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use remd::config::Dirs;
use remd::search::Query;
use remd::serve::{Answer, Form, Request, client};

use crate::snapshots::{run_git, since};
use crate::table::{self, Series};
use crate::vault::Vault;

type Done<T> = Result<T, Box<dyn Error>>;

const LIMIT: Duration = Duration::from_secs(1200);
const PAGES: usize = 60;
const EDITS: usize = 21;
/// An agent that has nothing to do closes its writer after five seconds.
const REST: Duration = Duration::from_secs(9);
/// Merges go on after a first index, the longer the more notes there are.
const MOST_WORK: Duration = Duration::from_secs(300);
const IDLE: Duration = Duration::from_secs(10);

/// Runs one and measures it.
pub fn run(vault: &Vault, root: &Path, edits: usize) -> Done<()> {
    let mut start = Series::default();
    let started = Instant::now();
    let mut agent = Agent::start(root)?;
    agent.settle()?;
    since(started, &mut start);
    table::alone("agent: a plain folder -> committed and indexed", &start, "");
    agent.memory("right after the first index")?;
    agent.come_to_rest()?;
    agent.memory("at rest (goal 150 MB anonymous)")?;
    agent.rest()?;
    state_bytes(vault, &agent.vault)?;
    agent.asked()?;
    if Path::new("/dev/fuse").exists() {
        agent.pages(vault)?;
    } else {
        println!("!! no /dev/fuse: the pages were NOT measured");
    }
    agent.edits(vault)?;
    agent.come_to_rest()?;
    agent.memory("at rest after the edits and pages")?;
    if edits > 0 {
        agent.flat(vault, edits)?;
    }
    let [mut again, mut searchable, mut mounted] = <[Series; 3]>::default();
    let mut known = vault.queries.iter().filter(|it| agent.finds(&it.0, &it.1).unwrap_or(false));
    let (words, path) = known.next().ok_or("no query finds its note")?;
    agent.stop()?;
    let started = Instant::now();
    agent.spawn()?;
    while !agent.finds(words, path).unwrap_or(false) {
        std::thread::sleep(Duration::from_millis(2));
    }
    since(started, &mut searchable);
    let page = agent.mount.join("search").join(words);
    while Path::new("/dev/fuse").exists() && !fs::exists(&page)? {
        std::thread::sleep(Duration::from_millis(2));
    }
    since(started, &mut mounted);
    agent.settle()?;
    since(started, &mut again);
    table::alone("agent: started again -> searchable (goal 1000)", &searchable, "");
    table::alone("  and mounted (goal 1000)", &mounted, "");
    table::alone("  and settled", &again, "");
    agent.come_to_rest()?;
    agent.memory("at rest after that start")?;
    agent.stop()?;
    agent.without(vault)
}

struct Agent {
    vault: PathBuf,
    mount: PathBuf,
    root: PathBuf,
    socket: PathBuf,
    child: Child,
}

impl Agent {
    fn start(root: &Path) -> Done<Self> {
        let (vault, mount) = (root.join("agent"), root.join("agent.fs"));
        let runtime = root.join("run");
        fs::create_dir(&runtime)?;
        fs::create_dir(root.join("home"))?;
        let dirs = Dirs {
            config: root.join("home"),
            state: root.join("home"),
            data: root.join("home"),
            runtime: runtime.join("remd"),
            runtime_is_fallback: false,
        };
        let socket = dirs.socket(&vault)?;
        let root = root.to_owned();
        let child = command(&root).args(["up", "commit.quiet=1ms"]).spawn()?;
        Ok(Self { vault, mount, root, socket, child })
    }

    fn spawn(&mut self) -> Done<()> {
        self.child = command(&self.root).args(["up", "commit.quiet=1ms"]).spawn()?;
        Ok(())
    }

    fn stop(&mut self) -> Done<()> {
        let mut kill = Command::new("kill");
        kill.args(["-TERM", &self.child.id().to_string()]).status()?;
        self.child.wait()?;
        Ok(())
    }

    fn ask(&self, request: Request) -> Done<Answer> {
        Ok(client::ask(&self.socket, request, LIMIT)?)
    }

    fn settle(&self) -> Done<()> {
        let until = Instant::now() + LIMIT;
        loop {
            match client::ask(&self.socket, Request::Settle { timeout_ms: 1_000_000 }, LIMIT) {
                Ok(Answer::Settled { settled: true, .. }) => return Ok(()),
                Err(client::AskError::NobodyThere) if Instant::now() < until => {
                    std::thread::sleep(Duration::from_millis(5));
                }
                other => return Err(format!("not settled: {other:?}").into()),
            }
        }
    }

    fn status_of(&self, name: &str) -> Done<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let line = status.lines().find_map(|it| it.strip_prefix(name)).ok_or("no such line")?;
        Ok(line.trim_matches([':', '\t', ' ']).trim_end_matches(" kB").trim().parse()?)
    }

    fn memory(&self, when: &str) -> Done<()> {
        let mb = |name| -> Done<f64> { Ok(self.status_of(name)? as f64 / 1024.0) };
        let (anonymous, mapped, peak) = (mb("RssAnon")?, mb("RssFile")?, mb("VmHWM")?);
        table::fact(
            &format!("agent: memory {when}"),
            format!("{anonymous:.1} MB anonymous, {mapped:.1} MB mapped, peak {peak:.1} MB"),
        );
        Ok(())
    }

    /// Waits until it has done next to nothing for as long as the indexer waits before it rests.
    fn come_to_rest(&self) -> Done<()> {
        let begun = Instant::now();
        loop {
            let before = self.work()?.ticks;
            std::thread::sleep(REST);
            if self.work()?.ticks - before <= 5 {
                return Ok(());
            }
            if begun.elapsed() > MOST_WORK {
                return Err("the agent does not come to rest".into());
            }
        }
    }

    /// What it does when there is nothing to do.
    fn rest(&self) -> Done<()> {
        let before = self.work()?;
        std::thread::sleep(IDLE);
        let after = self.work()?;
        let ticks = after.ticks - before.ticks;
        let share = ticks as f64 / (IDLE.as_secs_f64() * 100.0) * 100.0;
        table::fact(
            "agent: idle for 10 s (goal: under 0.1 % of a core, no disk)",
            format!(
                "{share:.2} % of a core, {} switches, {} bytes written, {} read",
                after.switches.saturating_sub(before.switches),
                after.written - before.written,
                after.read - before.read
            ),
        );
        Ok(())
    }

    fn work(&self) -> Done<Work> {
        let proc = PathBuf::from(format!("/proc/{}", self.child.id()));
        let mut work = Work::default();
        // Of the whole process: threads come and go.
        let stat = fs::read_to_string(proc.join("stat"))?;
        let fields: Vec<&str> = stat.rsplit(") ").next().unwrap_or("").split(' ').collect();
        work.ticks = fields[11].parse::<u64>()? + fields[12].parse::<u64>()?;
        for task in fs::read_dir(proc.join("task"))? {
            let status = fs::read_to_string(task?.path().join("status"))?;
            for line in status.lines().filter(|it| it.contains("ctxt_switches")) {
                work.switches += line.rsplit(['\t', ' ']).next().unwrap_or("0").parse::<u64>()?;
            }
        }
        for line in fs::read_to_string(proc.join("io"))?.lines() {
            let Some((name, value)) = line.split_once(": ") else { continue };
            match name {
                "write_bytes" => work.written = value.parse()?,
                "read_bytes" => work.read = value.parse()?,
                _ => {}
            }
        }
        Ok(work)
    }

    /// Status and settling.
    fn asked(&self) -> Done<()> {
        let [mut git, mut status, mut inside, mut settle] = <[Series; 4]>::default();
        for _ in 0..11 {
            git.time(|| run_git(&self.vault, &["status", "--porcelain"]))?;
            status.time(|| command(&self.root).arg("status").stdout(Stdio::null()).status())?;
            inside.time(|| self.ask(Request::Status))?;
            settle.time(|| self.settle())?;
        }
        table::base("git status", &git);
        table::ours("remd status, as a command", &status, "git", &git);
        table::ours("  the same through the socket", &inside, "git", &git);
        table::ours("settle: nothing to do", &settle, "git", &git);
        Ok(())
    }

    /// `cat` of pages beside `cat` of a file.
    fn pages(&self, vault: &Vault) -> Done<()> {
        let [mut plain, mut fresh, mut repeated] = <[Series; 3]>::default();
        let file = self.vault.join(&vault.notes[0]);
        let repeat = self.mount.join("search/backup library");
        cat(&repeat)?;
        for at in 0..PAGES {
            let (words, _) = &vault.queries[at % vault.queries.len()];
            plain.time(|| cat(&file))?;
            fresh.time(|| cat(&self.mount.join("search").join(words)))?;
            repeated.time(|| cat(&repeat))?;
        }
        table::base("cat of a file", &plain);
        table::ours("cat of a new query (goal 3 x)", &fresh, "file", &plain);
        table::ours("cat of a repeated query (goal 1.5 x)", &repeated, "file", &plain);
        Ok(())
    }

    /// From a written file to a hit.
    fn edits(&self, vault: &Vault) -> Done<()> {
        let head = self.vault.join(".git/refs/heads/main");
        let [mut committed, mut searchable, mut whole] = <[Series; 3]>::default();
        for round in 0..EDITS {
            let path = &vault.notes[(round * 104_729 + 3) % vault.notes.len()];
            let needle = format!("thread{round}y");
            let before = fs::read(&head)?;
            let text = fs::read_to_string(self.vault.join(path))?;
            let started = Instant::now();
            fs::write(self.vault.join(path), format!("{text}\n{needle}\n"))?;
            while fs::read(&head)? == before {
                std::thread::sleep(Duration::from_micros(200));
            }
            since(started, &mut committed);
            let seen = Instant::now();
            while !self.finds(&needle, path)? {
                std::thread::sleep(Duration::from_micros(200));
            }
            since(seen, &mut searchable);
            since(started, &mut whole);
        }
        table::alone("agent: file written -> commit (0.1 s debounce, 1 ms quiet)", &committed, "");
        table::alone("agent: commit -> found through the socket (goal 100)", &searchable, "");
        table::alone("agent: file written -> found", &whole, "");
        Ok(())
    }

    /// Memory over many edits, each a commit and searchable.
    fn flat(&self, vault: &Vault, edits: usize) -> Done<()> {
        let head = self.vault.join(".git/refs/heads/main");
        for round in 0..edits {
            let path = self.vault.join(&vault.notes[(round * 7919 + 5) % vault.notes.len()]);
            let before = fs::read(&head)?;
            let text = fs::read_to_string(&path)?;
            fs::write(&path, format!("{}\nedit {round}\n", text.trim_end()))?;
            while fs::read(&head)? == before {
                std::thread::sleep(Duration::from_millis(1));
            }
            if (round + 1) % (edits / 10).max(1) == 0 {
                self.memory(&format!("after {} edits", round + 1))?;
            }
        }
        self.settle()?;
        self.come_to_rest()?;
        self.memory("at rest after those (goal: flat)")
    }

    fn finds(&self, needle: &str, path: &Path) -> Done<bool> {
        let query = Query::new(needle);
        match self.ask(Request::Search { query, form: Form::Json })? {
            Answer::Page { text, .. } => Ok(text.contains(&*path.to_string_lossy())),
            other => Err(format!("no page: {other:?}").into()),
        }
    }

    /// What a command takes when no agent runs.
    fn without(&self, vault: &Vault) -> Done<()> {
        let [mut help, mut search] = <[Series; 2]>::default();
        for (words, _) in vault.queries.iter().take(11) {
            help.time(|| command(&self.root).arg("--version").stdout(Stdio::null()).status())?;
            search.time(|| {
                command(&self.root).args(["search", "--", words]).stdout(Stdio::null()).status()
            })?;
        }
        table::base("remd --version", &help);
        table::alone("remd search, no agent", &search, "");
        Ok(())
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        // After a failure; a stopped one is gone already.
        let _killed = self.child.kill();
        let _waited = self.child.wait();
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        if mounts.contains(&*self.mount.to_string_lossy()) {
            let _unmounted = Command::new("umount").arg("-l").arg(&self.mount).status();
        }
    }
}

#[derive(Default)]
struct Work {
    ticks: u64,
    switches: u64,
    written: u64,
    read: u64,
}

fn command(root: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_remd"));
    command
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("HOME", root.join("home"))
        .env("XDG_RUNTIME_DIR", root.join("run"))
        .env("REMD_VAULT", root.join("agent"))
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .current_dir(root)
        .stdin(Stdio::null());
    if std::env::var_os("REMD_BENCH_LOG").is_none() {
        command.stderr(Stdio::null());
    }
    command
}

fn cat(path: &Path) -> Done<()> {
    let status = Command::new("/bin/cat").arg(path).stdout(Stdio::null()).status()?;
    if status.success() { Ok(()) } else { Err(format!("cat {}: {status}", path.display()).into()) }
}

fn state_bytes(vault: &Vault, root: &Path) -> Done<()> {
    let per_note = |name: &str| -> Done<f64> {
        Ok(bytes_of(&root.join(name))? as f64 / vault.notes.len() as f64)
    };
    table::fact(
        "state on disk for each note",
        format!(
            "{:.0} bytes of index and stores, {:.0} of git (blocks), the note itself {:.0}",
            per_note("mem_metadata")?,
            per_note(".git")?,
            vault.bytes as f64 / vault.notes.len() as f64
        ),
    );
    Ok(())
}

fn bytes_of(path: &Path) -> Done<u64> {
    use std::os::unix::fs::MetadataExt as _;
    let meta = fs::symlink_metadata(path)?;
    if !meta.is_dir() {
        return Ok(meta.blocks() * 512);
    }
    let mut sum = 0;
    for entry in fs::read_dir(path)? {
        sum += bytes_of(&entry?.path())?;
    }
    Ok(sum)
}
