//! The fixture: an agent on a temp vault, with folders of its own.
//!
//! Everything goes through the binary, as a person's or a program's use would. No test sleeps:
//! [`House::settle`] and [`wait_for`] wait for states.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// How long a state may take on a machine that is busy with other tests.
pub const LIMIT: Duration = Duration::from_secs(180);

/// One agent and its vault; everything goes when it is dropped.
pub struct House {
    pub temp: tempfile::TempDir,
    pub vault: PathBuf,
    pub mount: PathBuf,
    agent: Option<Child>,
    env: Vec<(String, String)>,
    args: Vec<String>,
    /// What the agent is started by, where not by us alone.
    under: Vec<String>,
    /// Where its next start logs to, where not to our file.
    said_to: Option<Stdio>,
    /// Whose it is, where not ours, and the program where they can run it.
    user: Option<(u32, PathBuf)>,
}

/// What a command said.
pub struct Said {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

impl House {
    /// An agent on an empty vault (a Git repository with no commit).
    pub fn open() -> Self {
        let mut house = Self::closed();
        fs::create_dir(&house.vault).unwrap();
        house.git(["init", "-q", "-b", "main"]);
        house.start();
        house
    }

    /// Folders for a vault and its agent; nothing made, nothing started.
    pub fn closed() -> Self {
        let temp = tempfile::Builder::new().prefix("remd-house-").tempdir().unwrap();
        // The canonical name: a test compares paths that the agent prints.
        let root = temp.path().canonicalize().unwrap();
        let house = Self {
            vault: root.join("memory"),
            mount: root.join("memory.fs"),
            temp,
            agent: None,
            env: Vec::new(),
            args: Vec::new(),
            under: Vec::new(),
            said_to: None,
            user: None,
        };
        for folder in ["home", "run"] {
            fs::create_dir(root.join(folder)).unwrap();
        }
        fs::set_permissions(root.join("run"), std::os::unix::fs::PermissionsExt::from_mode(0o700))
            .unwrap();
        house
    }

    /// Where the vault, its home and its mount lie; canonical.
    pub fn root(&self) -> PathBuf {
        self.temp.path().canonicalize().unwrap()
    }

    /// A variable for the next start and for commands.
    pub fn env(&mut self, name: &str, value: &str) -> &mut Self {
        self.env.retain(|it| it.0 != name);
        if !value.is_empty() {
            self.env.push((name.to_owned(), value.to_owned()));
        }
        self
    }

    /// Everything here belongs to another user from now on, whose agent and commands run as
    /// theirs. Only root can do that.
    pub fn give_to(&mut self, user: u32) {
        let root = self.vault.parent().unwrap().to_owned();
        let program = root.join("bin/remd");
        fs::create_dir(root.join("bin")).unwrap();
        copy_program(&program);
        let owner = format!("{user}:{user}");
        let given = Command::new("chown").args(["-R", &owner]).arg(&root).status().unwrap();
        assert!(given.success());
        self.user = Some((user, program));
    }

    /// Arguments of `remd up` for the next start.
    pub fn args<const N: usize>(&mut self, args: [&str; N]) -> &mut Self {
        self.args = args.map(str::to_owned).to_vec();
        self
    }

    /// Starts the agent and waits until it answers.
    pub fn start(&mut self) {
        self.spawn();
        wait_for("the agent to answer", || {
            self.run(["status", "--json"]).code != 5 && self.is_running()
        });
    }

    /// The same by a program that ends in starting it, as `prlimit`.
    pub fn start_under<const N: usize>(&mut self, program: [&str; N]) {
        self.under = program.map(str::to_owned).to_vec();
        self.spawn();
        self.under.clear();
        wait_for("the agent to answer", || self.is_running());
    }

    /// The same with a log of one's own.
    pub fn start_logging_to(&mut self, log: impl Into<Stdio>) {
        self.said_to = Some(log.into());
        self.start();
    }

    /// Both.
    pub fn start_under_logging_to<const N: usize>(
        &mut self,
        program: [&str; N],
        log: impl Into<Stdio>,
    ) {
        self.said_to = Some(log.into());
        self.start_under(program);
    }

    /// `remd` with these arguments; not waited for.
    pub fn spawn_command<const N: usize>(&self, args: [&str; N]) -> Child {
        self.command(args).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    }

    /// Starts the agent and waits for nothing.
    pub fn spawn(&mut self) {
        assert!(self.agent.is_none(), "already started");
        let told = ["--mount", "--no-mount"].iter().any(|it| self.args.iter().any(|arg| arg == it));
        let no_mount = !told && std::env::var_os("REMD_TEST_NO_FUSE").is_some_and(|it| it == "1");
        let log = fs::File::options().create(true).append(true).open(self.log_path()).unwrap();
        let said = self.said_to.take().unwrap_or_else(|| log.try_clone().unwrap().into());
        let child = self
            .command(["up".as_ref(), self.vault.as_os_str()])
            .args(&self.args)
            .args(no_mount.then_some("--no-mount"))
            .stdin(Stdio::null())
            .stdout(log)
            .stderr(said)
            .spawn()
            .unwrap();
        self.agent = Some(child);
    }

    /// What the agent has logged so far, over all its starts.
    pub fn log(&self) -> String {
        String::from_utf8_lossy(&fs::read(self.log_path()).unwrap_or_default()).into_owned()
    }

    fn log_path(&self) -> PathBuf {
        self.temp.path().join("agent.log")
    }

    pub fn pid(&self) -> u32 {
        self.agent.as_ref().expect("started").id()
    }

    pub fn is_running(&self) -> bool {
        let said = self.run(["status", "--json"]);
        serde_json::from_str::<serde_json::Value>(&said.stdout)
            .is_ok_and(|it| it["agent"]["running"] == true)
    }

    /// Whether the agent has ended by itself, as at a fault point.
    pub fn has_ended(&mut self) -> bool {
        self.agent.as_mut().expect("started").try_wait().unwrap().is_some()
    }

    /// Kills the agent as a crash would.
    pub fn kill(&mut self) {
        let mut agent = self.agent.take().expect("started");
        agent.kill().unwrap();
        agent.wait().unwrap();
    }

    /// Sends SIGKILL and waits for nothing: the agent may still be on its way out.
    pub fn kill_and_go_on(&mut self) -> Child {
        let mut agent = self.agent.take().expect("started");
        agent.kill().unwrap();
        agent
    }

    /// Sends SIGTERM and waits for nothing: the agent may still be on its way out.
    pub fn stop_and_go_on(&mut self) -> Child {
        let pid = self.pid().to_string();
        assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
        self.agent.take().expect("started")
    }

    /// Waits for the agent to end by itself, as at a fault point; gives its exit code.
    pub fn wait_for_end(&mut self) -> Option<i32> {
        let mut agent = self.agent.take().expect("started");
        let deadline = Instant::now() + LIMIT;
        loop {
            if let Some(status) = agent.try_wait().unwrap() {
                return status.code();
            }
            if Instant::now() > deadline {
                agent.kill().unwrap();
                panic!("the agent did not end\n{}", self.log());
            }
            pause();
        }
    }

    /// Stops the agent as systemd would; gives its exit code.
    pub fn stop(&mut self) -> Option<i32> {
        let pid = self.pid().to_string();
        assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
        self.wait_for_end()
    }

    /// `remd` with these arguments, for this vault.
    pub fn run<I: IntoIterator<Item = S>, S: AsRef<OsStr>>(&self, args: I) -> Said {
        let args: Vec<_> = args.into_iter().map(|it| it.as_ref().to_owned()).collect();
        Said::from(self.command(&args).output().unwrap())
    }

    fn command<I: IntoIterator<Item = S>, S: AsRef<OsStr>>(&self, args: I) -> Command {
        let root = self.root();
        let mut command = match &self.user {
            None => match self.under.split_first() {
                None => Command::new(env!("CARGO_BIN_EXE_remd")),
                Some((program, args)) => {
                    let mut command = Command::new(program);
                    command.args(args).arg(env!("CARGO_BIN_EXE_remd"));
                    command
                }
            },
            Some((user, program)) => {
                let user = user.to_string();
                let mut command = Command::new("setpriv");
                command.args(["--reuid", &user, "--regid", &user, "--clear-groups", "--"]);
                command.arg(program);
                command
            }
        };
        command
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", root.join("home"))
            .env("XDG_RUNTIME_DIR", root.join("run"))
            .env("REMD_VAULT", &self.vault)
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("RUST_BACKTRACE", "1")
            .envs(self.env.iter().map(|it| (&it.0, &it.1)))
            .current_dir(root)
            .args(args);
        command
    }

    /// `git` in the vault; must succeed; gives its stdout as bytes.
    pub fn git_bytes<const N: usize>(&self, args: [&str; N]) -> Vec<u8> {
        let root = self.root();
        let output = Command::new("git")
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", root.join("home"))
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .args(["-c", "user.name=Ada", "-c", "user.email=ada@example.org"])
            .current_dir(&self.vault)
            .args(args)
            .output()
            .unwrap();
        assert!(
            output.status.success(),
            "git {args:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        output.stdout
    }

    /// The same as text.
    pub fn git<const N: usize>(&self, args: [&str; N]) -> String {
        String::from_utf8_lossy(&self.git_bytes(args)).trim_end().to_owned()
    }

    /// Writes a file in the vault, making its folders.
    pub fn write(&self, path: impl AsRef<[u8]>, content: impl AsRef<[u8]>) {
        let path = self.at(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap_or_else(|err| panic!("{}: {err}", path.display()));
    }

    /// A path in the vault.
    pub fn at(&self, path: impl AsRef<[u8]>) -> PathBuf {
        self.vault.join(OsStr::from_bytes(path.as_ref()))
    }

    /// Waits until everything is committed and indexed.
    pub fn settle(&self) {
        let said = self.run(["status", "--wait", "settled", "--timeout", "180s"]);
        assert_eq!(said.code, 0, "{}\n{}\n{}", said.stdout, said.stderr, self.log());
    }

    /// `remd status --json`.
    pub fn status(&self) -> serde_json::Value {
        let said = self.run(["status", "--json"]);
        serde_json::from_str(&said.stdout)
            .unwrap_or_else(|err| panic!("{err}: {}{}", said.stdout, said.stderr))
    }

    /// Settles, and checks what holds after every case: a clean status, a sound repository.
    pub fn settle_and_check(&self) {
        self.settle();
        let status = self.git(["status", "--porcelain", "-z"]);
        assert_eq!(status, "", "git status is not clean\n{}", self.log());
        self.git(["fsck", "--strict"]);
    }

    /// The paths in HEAD, as bytes.
    pub fn head_paths(&self) -> Vec<Vec<u8>> {
        self.git_bytes(["ls-tree", "-r", "-z", "--name-only", "HEAD"])
            .split(|it| *it == 0)
            .filter(|it| !it.is_empty())
            .map(<[u8]>::to_vec)
            .collect()
    }

    /// The content of a path in HEAD.
    pub fn in_head(&self, path: &str) -> Vec<u8> {
        self.git_bytes(["cat-file", "blob", &format!("HEAD:{path}")])
    }

    /// How many commits HEAD has.
    pub fn commits(&self) -> usize {
        self.git(["rev-list", "--count", "HEAD"]).parse().unwrap()
    }

    /// The paths that a query finds, best first.
    pub fn found(&self, query: &str) -> Vec<String> {
        self.hits(query, |_| true)
    }

    /// Those whose text is in a commit: an edit is found before it is committed.
    pub fn found_committed(&self, query: &str) -> Vec<String> {
        self.hits(query, |it| it["uncommitted"] != true)
    }

    fn hits(&self, query: &str, takes: impl Fn(&serde_json::Value) -> bool) -> Vec<String> {
        let said = self.run(["search", "--json", "-n", "100", "--", query]);
        // 3: the index is still being built, and the page says so.
        assert!(matches!(said.code, 0 | 1 | 3), "search {query:?}: {}{}", said.stdout, said.stderr);
        let json: serde_json::Value = serde_json::from_str(&said.stdout).unwrap();
        let hits = json["results"].as_array().unwrap().iter().filter(|it| takes(it));
        hits.map(|it| it["path"].as_str().unwrap().to_owned()).collect()
    }

    /// A page under the mount.
    pub fn cat(&self, page: &str) -> String {
        let path = self.mount.join(page);
        let read = fs::read(&path).unwrap_or_else(|err| {
            let hint = "the mount needs /dev/fuse (as root, or with fuse3); REMD_TEST_NO_FUSE=1 leaves it out";
            panic!("{}: {err}; {hint}\n{}", path.display(), self.log())
        });
        String::from_utf8(read).unwrap()
    }
}

impl Drop for House {
    fn drop(&mut self) {
        if let Some(mut agent) = self.agent.take() {
            // A test that failed must not leave its agent or mount behind; the first failure counts.
            let _killed = agent.kill();
            let _waited = agent.wait();
        }
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        if mounts.contains(&*self.mount.to_string_lossy()) {
            let _unmounted = Command::new("umount").arg("-l").arg(&self.mount).output();
        }
        if std::thread::panicking() {
            eprintln!("--- log of the agent\n{}", self.log());
        }
    }
}

impl From<Output> for Said {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}

/// Words that share no part with each other: a needle for each of so many notes.
pub const NEEDLES: [&str; 16] = [
    "alfa", "bravo", "charlie", "delta", "echo", "foxtrot", "golf", "hotel", "india", "juliett",
    "kilo", "lima", "mike", "november", "oscar", "papa",
];

/// Whether tests may mount. `REMD_TEST_NO_FUSE=1` says no; then one line, straight to stderr,
/// names what was left out. Without it a test that mounts fails where it can't.
pub fn has_fuse(test: &str) -> bool {
    if std::env::var_os("REMD_TEST_NO_FUSE").is_none_or(|it| it != "1") {
        return true;
    }
    // Not by the macro: the harness would keep the line to itself.
    let line = format!("REMD_TEST_NO_FUSE=1: left out, it needs a mount: {test}\n");
    std::io::Write::write_all(&mut std::io::stderr(), line.as_bytes()).unwrap();
    false
}

/// Waits for a state, with a limit.
pub fn wait_for(what: &str, mut state: impl FnMut() -> bool) {
    let deadline = Instant::now() + LIMIT;
    while !state() {
        assert!(Instant::now() < deadline, "waited too long for {what}");
        pause();
    }
}

/// The pause between two looks at a state.
fn pause() {
    std::thread::park_timeout(Duration::from_millis(10));
}

/// Whether a path is there, also as a dangling link.
pub fn is_there(path: &Path) -> bool {
    path.symlink_metadata().is_ok()
}

/// A copy of the program, for users who may not enter the build's folder. By a child: while this
/// process had it open to write, another test's fork would keep it too busy to be run.
pub fn copy_program(to: &Path) {
    let copied = Command::new("cp").arg(env!("CARGO_BIN_EXE_remd")).arg(to).status().unwrap();
    assert!(copied.success(), "{}", to.display());
}
