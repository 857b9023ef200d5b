//! What is said over the socket.
//!
//! Pure data. **Invariant:** an answer to an unknown or newer request is an error that says so,
//! never silence.

use serde::{Deserialize, Serialize};

use crate::history::{Favor, What};
use crate::render::changed::Changed;
use crate::render::lint::Linted;
use crate::render::status::Status;
use crate::search::lint::Check;
use crate::search::{Look, Query};
use crate::vault::{CommitId, LinkKind};

/// The version of this protocol; a client and an agent of different versions say so.
pub const VERSION: u32 = 1;

/// The longest request in bytes.
pub const MAX_REQUEST: usize = 4 << 20;

/// A request with its version.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Envelope {
    pub version: u32,
    pub request: Request,
}

/// What an agent can be asked.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case")]
pub enum Request {
    Status,
    /// Commits and indexes everything that is on disk now, then answers.
    Settle {
        timeout_ms: u64,
    },
    Search {
        query: Query,
        form: Form,
    },
    /// Looks over the notes for what a person may want to mend.
    Lint {
        asked: LintAsked,
    },
    /// Another look at the notes than a search.
    Look {
        look: Look,
        form: Form,
    },
    /// One of Git's hooks says what Git did.
    Notify {
        event: String,
    },
    /// Takes something back, or brings something back.
    Change {
        wish: Wish,
        dry_run: bool,
    },
    /// Lets held deletions through.
    Accept {
        dry_run: bool,
    },
    Pause,
    Resume,
    /// Reads the settings again.
    Reload,
    /// Makes the index, or the part of it that `scope` names, anew in the background.
    Reindex {
        scope: String,
        dry_run: bool,
    },
    /// Calls that off.
    CancelReindex,
}

impl Request {
    /// Whether it changes how the agent goes on: never carried out for somebody who is gone.
    pub fn changes(&self) -> bool {
        match self {
            Self::Lint { asked } => asked.fix == Fix::Mend,
            Self::Accept { dry_run }
            | Self::Reindex { dry_run, .. }
            | Self::Change { dry_run, .. } => !dry_run,
            Self::Pause | Self::Resume | Self::Reload | Self::CancelReindex => true,
            Self::Status | Self::Settle { .. } | Self::Search { .. } | Self::Look { .. } => false,
            // Nobody waits for it from the start.
            Self::Notify { .. } => false,
        }
    }
}

/// What a lint is about.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct LintAsked {
    /// Notes and folders in hexadecimal
    /// ([`VaultPath::to_hex`](crate::vault::VaultPath::to_hex)); all notes where there are none.
    pub paths: Vec<String>,
    /// All checks where there are none.
    pub only: Vec<Check>,
    pub fix: Fix,
}

/// What is done about links that lead nowhere.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fix {
    #[default]
    Nothing,
    /// It is said what would be done.
    Rehearse,
    Mend,
}

/// A change of the vault that a person asks for.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Wish {
    /// Takes back what commits did.
    Undo { what: What, favor: Option<Favor> },
    /// Brings a file back, or all below a folder, as it was in a commit.
    Restore {
        /// In hexadecimal ([`VaultPath::to_hex`](crate::vault::VaultPath::to_hex)); the whole vault
        /// where there is none.
        path: Option<String>,
        /// The commit; what is gone comes back as it was last where none is named.
        at: Option<CommitId>,
        /// Whether what came later goes.
        exactly: bool,
    },
    /// Deletes so that no job brings it back.
    Forget(Forget),
    /// Names the moment.
    Checkpoint { name: String, note: String },
    /// Has links that lead nowhere lead to what they led to.
    Mend { mends: Vec<Mend> },
}

/// What is known of a broken link.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Mend {
    /// The note it stands in, in hexadecimal as all paths here.
    pub note: String,
    pub kind: LinkKind,
    /// What it says.
    pub target: String,
    /// What it led to, where that is known.
    pub led_to: Option<String>,
    /// What it shall lead to.
    pub to: String,
    /// How that is known: `renamed`, `moved`, `name`.
    pub by: String,
}

/// What is to be forgotten.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Forget {
    /// A note, or all below a folder, in hexadecimal.
    Path(String),
    /// Every line of a note that holds these words.
    Words(String),
}

/// How an answer is written.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Form {
    #[default]
    Text,
    Json,
    Markdown,
}

/// What comes back.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "snake_case")]
pub enum Answer {
    Status(Box<Status>),
    /// The state reached, or how far it came. `settled` is false after a timeout, and where a
    /// person must decide first.
    Settled {
        settled: bool,
        /// What still waits, for people.
        waiting_for: Vec<String>,
        /// Whether only a person can go on (held deletions, an unfinished rebase).
        needs_person: bool,
        status: Box<Status>,
    },
    /// A rendered page.
    Page {
        text: String,
        hits: usize,
        partial: bool,
    },
    /// Done, with a sentence for people and the paths it is about.
    Done {
        said: String,
        paths: Vec<String>,
    },
    /// How a change of the vault went.
    Changed(Box<Changed>),
    /// What a lint found.
    Linted(Box<Linted>),
    /// A no that is no fault: there is nothing to do, or it is under way already.
    No {
        said: String,
        hint: Option<String>,
    },
    /// A person must do something first.
    Decide {
        message: String,
        hint: Option<String>,
    },
    Failed {
        message: String,
        hint: Option<String>,
        /// Whether the request itself was wrong.
        usage: bool,
    },
}
