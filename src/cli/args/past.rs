//! The arguments of `remd log`, `show` and `diff`.
//!
//! Pure.

use clap::Args;

use super::at_least_one;

/// What a moment may be, for the help of every command that takes one.
pub const MOMENT: &str = "\
A moment is a branch, tag, commit or `HEAD~2`, a date or time (`2026-06-01`: the last commit of that
day, `2026-06-01T14:00`), or an age (`2h`, `3d`, `yesterday`).";

#[derive(Debug, Args)]
pub struct LogArgs {
    /// Only changes of this note, under its earlier names too, or of this folder
    pub path: Option<String>,
    /// At most so many lines; with --json or --all so many commits
    #[arg(short = 'n', default_value_t = 20, value_parser = at_least_one)]
    pub limit: usize,
    /// Every commit a line of its own, also the many small ones of one session
    #[arg(long)]
    pub all: bool,
    /// Only of this cause; `none` is a commit that says none, as those made by hand
    #[arg(long, value_name = "CAUSE", value_delimiter = ',', value_parser = [
        "edit", "api", "job", "sync", "restore", "undo", "adopt", "none",
    ])]
    pub cause: Vec<String>,
    /// Only of this job, as `auto_dream`, or of this run of one
    #[arg(long, value_name = "NAME|RUN")]
    pub job: Option<String>,
    /// Only by this agent, as `claude-code`
    #[arg(long, value_name = "NAME")]
    pub agent: Option<String>,
    /// Only from this session
    #[arg(long, value_name = "ID")]
    pub session: Option<String>,
    /// Only commits since then: a date, a time or an age
    #[arg(long, value_name = "WHEN")]
    pub since: Option<String>,
    /// Only commits until then, a date with its whole day
    #[arg(long, value_name = "WHEN")]
    pub until: Option<String>,
    /// Only commits where an added or removed line has this text, in whatever case
    #[arg(long, value_name = "TEXT")]
    pub grep: Option<String>,
    /// How long it may look; what was found by then is shown, and the exit code is 3
    #[arg(long, value_name = "DURATION", default_value = "10s")]
    pub timeout: String,
    /// One JSON object, always with each commit
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
#[command(after_help = MOMENT)]
pub struct ShowArgs {
    /// Which commit: its hash, or a moment
    #[arg(default_value = "HEAD", value_name = "MOMENT")]
    pub rev: String,
    #[command(flatten)]
    pub marks: Marks,
    /// One JSON object
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
#[command(after_help = MOMENT)]
pub struct DiffArgs {
    /// `A` or `A..B`, each a moment; by default what differs on disk from the last commit, new files
    /// aside
    pub range: Option<String>,
    /// Only this path or folder
    pub path: Option<String>,
    #[command(flatten)]
    pub marks: Marks,
    /// One JSON object
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct Marks {
    /// The words that changed within their lines, in a pipe too, as `[-old-]{+new+}`
    ///
    /// A terminal shows changed words in colours by default; a pipe gets a plain unified diff, which
    /// `git apply` reads.
    #[arg(long, conflicts_with_all = ["patch", "json"])]
    pub word_diff: bool,
    /// A plain unified diff on a terminal, too
    #[arg(long, conflicts_with = "json")]
    pub patch: bool,
}
