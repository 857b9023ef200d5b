//! `remd up` and `remd init`.
//!
//! Takes parsed arguments, makes or adopts the vault, runs the agent in the foreground. The main
//! thread.

use std::cell::Cell;
use std::path::Path;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

use crate::base::trouble::told;
use crate::base::{clock, fs, process};
use crate::cli::args::{Init, Up};
use crate::cli::find;
use crate::cli::report::{self, CliError, Exit};
use crate::config::{Dirs, Loaded, Settings, dirs};
use crate::daemon::boot::{self, BootError, End, MountWish, Plan};
use crate::daemon::create::{self, Made};
use crate::daemon::house::{House, MountState};
use crate::daemon::{alone, ground, hooking, settings};
use crate::render::status::grouped;

/// `remd up [DIR]`.
pub fn up(args: &Up, named: Option<&Path>, dirs: &Dirs, quiet: bool) -> Result<Exit, CliError> {
    require_files()?;
    let mut overrides = args.settings.clone();
    let mut dir = args.dir.clone();
    // `remd up commit.quiet=2s` names a setting, not a folder.
    if let Some(first) = dir.as_ref().and_then(|it| it.to_str())
        && first.contains('=')
        && fs::stat(Path::new(first)).is_err()
    {
        overrides.insert(0, first.to_owned());
        dir = None;
    }
    let vault = find::vault_to_make(dir.as_deref(), named, dirs)?;
    // Before anything is made: a bad setting must not leave half a vault behind.
    overrides.extend(args.layout.iter().map(|it| format!("layout={it}")));
    overrides.extend(args.no_hooks.then(|| "hooks=false".to_owned()));
    let loaded = load(&vault, dirs, &overrides)?;
    let wish = match (&args.mount, args.no_mount) {
        (_, true) => MountWish::Off,
        (Some(path), _) => MountWish::At(std::path::absolute(path)?),
        _ => match &loaded.settings.mount_path {
            Some(path) => MountWish::At(find::expand_home(Path::new(path))),
            None => MountWish::At(dirs::default_mount(&vault)),
        },
    };
    if args.dry_run {
        return dry_run(&vault, &wish, &loaded.settings);
    }
    if args.no_create && create::is_empty(&vault).map_err(|err| with_hint(&err, err.hint()))? {
        return Err(CliError::new(format!("There is no vault at `{}`", vault.display()))
            .hint("Mount the disk that it is on, or make one with `remd up` by hand.")
            .exit(Exit::Partial));
    }
    let made =
        create::create(&vault, &loaded.settings).map_err(|err| with_hint(&err, err.hint()))?;
    for warning in &loaded.warnings {
        report::talk(&format!("warning: {warning}"));
    }
    let mut plan = Plan {
        vault: vault.clone(),
        dirs: dirs.clone(),
        loaded,
        overrides,
        mount: wish,
        adopting: made != Made::Already,
    };
    let agent = boot::boot(plan.clone()).map_err(|err| boot_error(&err))?;
    let bar = (!quiet).then(Bar::new);
    let talk = move |house: &House| {
        if !quiet {
            welcome(house, made).iter().for_each(|it| report::talk(it));
        }
    };
    let mut end = agent
        .run_to_end(talk, move |what, done, all| {
            if let Some(bar) = &bar {
                bar.at(what, done, all);
            }
        })
        .map_err(|err| boot_error(&err))?;
    while end == End::Returned {
        // As a fresh start would: the folder may have other settings.
        match load(&plan.vault, dirs, &plan.overrides) {
            Ok(loaded) => plan.loaded = loaded,
            Err(err) => report::talk(&format!("warning: the last settings go on: {}", err.message)),
        }
        plan.adopting = false;
        let agent = boot::boot(plan.clone()).map_err(|err| boot_error(&err))?;
        end = agent.run_to_end(|_| {}, |_, _, _| {}).map_err(|err| boot_error(&err))?;
    }
    Ok(Exit::Done)
}

/// How many files an agent must be able to open at once: twice what one at rest has open.
const LEAST_FILES: u64 = 128;

/// Below that, what fails is whatever comes next; so it does not begin.
fn require_files() -> Result<(), CliError> {
    let files = process::raise_file_limit()?;
    if files >= LEAST_FILES {
        return Ok(());
    }
    let what = format!("Only {files} files may be open at once; remd needs {LEAST_FILES}");
    Err(CliError::new(what).hint(
        "Raise the hard limit: `/etc/security/limits.conf`, or `LimitNOFILE=` in the \
         unit.",
    ))
}

/// `remd unmount`: what a killed agent left mounted. The vault itself may be gone meanwhile.
pub fn unmount(named: Option<&Path>, dirs: &Dirs, quiet: bool) -> Result<Exit, CliError> {
    let vault = find::vault_to_make(None, named, dirs)?;
    let cleared = boot::clear_mount(&vault, dirs).map_err(|err| boot_error(&err))?;
    if !quiet {
        report::talk(&match cleared {
            Some(path) => format!("Nothing of it is left at `{}`.", path.display()),
            None => "Nothing was left behind.".to_owned(),
        });
    }
    Ok(Exit::Done)
}

/// `remd init [DIR]`.
pub fn init(args: &Init, named: Option<&Path>, dirs: &Dirs) -> Result<Exit, CliError> {
    require_files()?;
    let vault = find::vault_to_make(args.dir.as_deref(), named, dirs)?;
    let layout = args.layout.iter().map(|it| format!("layout={it}"));
    let overrides: Vec<_> = layout.chain(args.no_hooks.then(|| "hooks=false".to_owned())).collect();
    let loaded = load(&vault, dirs, &overrides)?;
    if args.dry_run {
        return dry_run(&vault, &MountWish::Off, &loaded.settings);
    }
    let made =
        create::create(&vault, &loaded.settings).map_err(|err| with_hint(&err, err.hint()))?;
    if let Err(err) = hooking::settle(&vault, &loaded.settings) {
        report::talk(&format!("note: Git's hooks are not in place: {}", told(&err)));
    }
    let bar = Bar::new();
    let tell = move |done, all| bar.at("adopting", done, all);
    let commit = alone::commit_once(&vault, dirs, &loaded.settings, made != Made::Already, tell)
        .map_err(|err| boot_error(&err))?;
    let how = match made {
        Made::FromTemplate => "made from the template",
        Made::Adopted => "adopted as it is",
        Made::Already => "already a vault",
    };
    report::talk(&format!("`{}` is {how}.", vault.display()));
    report::talk(&capitalised(&create::layout_line(&loaded.settings)));
    for note in ground::of(&vault) {
        report::talk(&format!("note: {}. {}", note.what, note.remedy));
    }
    if let Some(subject) = commit {
        report::talk(&format!("First commit: {subject}"));
    }
    report::talk(&format!("Run the agent with `remd up {}`.", vault.display()));
    Ok(Exit::Done)
}

fn load(vault: &Path, dirs: &Dirs, overrides: &[String]) -> Result<Loaded, CliError> {
    settings::load(vault, dirs, overrides).map_err(|err| with_hint(&err, err.hint()))
}

fn dry_run(vault: &Path, mount: &MountWish, settings: &Settings) -> Result<Exit, CliError> {
    for line in create::plan(vault, settings).map_err(|err| with_hint(&err, err.hint()))? {
        report::data(format!("{line}\n"))?;
    }
    if let MountWish::At(path) = mount {
        report::data(format!("would mount at `{}`\n", path.display()))?;
    }
    Ok(Exit::Done)
}

fn with_hint(err: &(dyn std::error::Error + 'static), hint: Option<String>) -> CliError {
    let cli = CliError::from_error(err);
    match hint {
        Some(hint) => cli.hint(hint),
        None => cli,
    }
}

fn boot_error(err: &BootError) -> CliError {
    let cli = with_hint(err, err.hint());
    // The service is started again after these; what a person must mend ends it.
    match err.is_transient() {
        true => cli.exit(Exit::Partial),
        false => cli,
    }
}

/// A few lines: what runs, and what to try next.
fn welcome(house: &House, made: Made) -> Vec<String> {
    let vault = &house.vault;
    let query = match made {
        Made::FromTemplate => "how does search work",
        _ => "some words",
    };
    let ask = match house.mount.get() {
        MountState::Mounted { path, .. } => {
            format!("  ask:    cat '{}'", path.join("search").join(query).display())
        }
        _ => format!("  ask:    remd search '{query}'"),
    };
    let mut lines = vec![
        format!("remd watches `{}`; every edit becomes a commit.", vault.display()),
        format!("  {}", create::layout_line(&house.settings.get())),
        "  edit:   any note in it, with any editor".to_owned(),
        ask,
        "  state:  remd status   (every problem comes with its remedy)".to_owned(),
        "  past:   remd log, remd show, remd diff   Stop with Ctrl-C; nothing is lost.".to_owned(),
    ];
    lines.extend(
        ground::of(vault).into_iter().map(|it| format!("note: {}. {}", it.what, it.remedy)),
    );
    lines
}

/// With a great letter at its beginning.
fn capitalised(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or(String::new(), |it| it.to_uppercase().chain(chars).collect())
}

/// A progress bar on a terminal, a line now and then anywhere else.
pub struct Bar {
    bar: ProgressBar,
    next_line: Cell<Instant>,
}

/// Without a terminal a line is written after this time, and then as often.
const LINE_EVERY: Duration = Duration::from_secs(10);

impl Bar {
    pub fn new() -> Self {
        let bar = ProgressBar::no_length();
        if let Ok(style) = ProgressStyle::with_template("{msg} {wide_bar} {pos}/{len}") {
            bar.set_style(style);
        }
        Self { bar, next_line: Cell::new(clock::now() + LINE_EVERY) }
    }

    pub fn at(&self, what: &str, done: usize, all: usize) {
        if self.bar.is_hidden() {
            let now = clock::now();
            if now >= self.next_line.get() {
                self.next_line.set(now + LINE_EVERY);
                report::talk(&format!("{what}: {} of {}", grouped(done), grouped(all)));
            }
            return;
        }
        self.bar.set_message(what.to_owned());
        self.bar.set_length(u64::try_from(all).unwrap_or(u64::MAX));
        self.bar.set_position(u64::try_from(done).unwrap_or(u64::MAX));
        self.bar.tick();
    }

    /// The same where nobody knows how much there is.
    pub fn at_unknown(&self, what: &str, done: usize) {
        let said = so_far(what, done);
        if !self.bar.is_hidden() {
            self.bar.set_message(said);
            self.bar.unset_length();
            self.bar.set_position(u64::try_from(done).unwrap_or(u64::MAX));
            self.bar.tick();
            return;
        }
        let now = clock::now();
        if now >= self.next_line.get() {
            self.next_line.set(now + LINE_EVERY);
            report::talk(&said);
        }
    }
}

fn so_far(what: &str, done: usize) -> String {
    format!("{what}: {} so far, nobody says of how many", grouped(done))
}

impl Default for Bar {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
