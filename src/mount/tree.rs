//! What a name in the mount means.
//!
//! Pure. Takes a folder's [`Node`] and a name, gives the child's node or says why there is none;
//! [`query_name`] is the way back.
//!
//! **Invariant:** two spellings of one question (options in another order, `%41` for `A`) are one
//! node, so that they share one page.

use std::path::Path;
use std::sync::Arc;

use crate::mount::tree::options::Options;
use crate::render::links::Direction;
use crate::search::Query;
use crate::vault::VaultPath;

pub mod options;
mod past;
mod views;

pub use past::{Moment, Past, PastFile, VERSIONS};
pub use views::{Told, View, ViewPage, tag_name};

/// The longest name of a question, in bytes: what older kernels accept at all.
pub const MAX_NAME: usize = 1024;

/// The fixed entries of the root, as they are listed.
pub const ROOT: &[&str] = &[
    "README.md",
    "at",
    "broken-links.md",
    "history",
    "links",
    "log.md",
    "nodes",
    "note",
    "orphans.md",
    "recent",
    "search",
    "similar",
    "status.json",
    "status.md",
    "tag",
    "today.md",
];

/// A place in the mount.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Node {
    Root,
    Readme,
    /// `status.md` or `status.json`.
    Status(Form),
    /// `search/`, `nodes/`, `links/` and the option folders below them.
    Ask(About, Arc<Options>),
    /// `search/<query>` or `nodes/<query>`.
    Answer(About, Asked, Form),
    /// `links/<query>/`.
    Ranking(Asked),
    /// `links/<query>/<name>`, and where it points.
    Ranked(Asked, Arc<[u8]>, Arc<Path>),
    /// `note/`.
    Notes,
    /// `note/<folder>/`.
    Folder(VaultPath),
    /// `note/<path>/`.
    Note(VaultPath),
    /// `note/<path>/links` or `note/<path>/backlinks`.
    Neighbours(VaultPath, Direction),
    /// `similar/`.
    Similars,
    /// `similar/<folder>/`.
    SimilarFolder(VaultPath),
    /// `similar/<path>`.
    Similar(VaultPath, Form),
    /// `note/<path>/history` or `note/<path>/blame`.
    Told(VaultPath, Told),
    /// Below `at/` and `history/`.
    Past(Past),
    /// `recent/`, `tag/` and what lies below, `today.md` and the like.
    View(View),
}

/// What a question is asked about.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum About {
    Passages,
    Nodes,
    Links,
}

/// How a page is written.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Form {
    Text,
    Json,
    Markdown,
}

/// A question with its options.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Asked {
    pub options: Arc<Options>,
    pub text: Arc<str>,
}

/// What a name leads to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Step {
    Node(Node),
    /// Whether there is a note or a folder is for the index to say.
    InVault(VaultPath),
    /// The same below `similar/`, where a form may stand behind the note's own name.
    InSimilar(VaultPath),
    /// Which names there are is for the folder's own page to say.
    InListing,
    /// Which commit is meant is for Git to say.
    Moment(Arc<str>),
}

/// Why a name leads nowhere.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum NameError {
    #[error("There is no such name")]
    Absent,
    #[error("The option's value cannot be read")]
    BadOption,
    #[error("The name is too long")]
    TooLong,
    #[error("The name is not UTF-8")]
    NotText,
    #[error("This is a file")]
    NotFolder,
}

impl Node {
    pub fn is_folder(&self) -> bool {
        match self {
            Self::Past(past) => return past.is_folder(),
            Self::View(view) => return view.is_folder(),
            _ => {}
        }
        matches!(
            self,
            Self::Root
                | Self::Ask(..)
                | Self::Ranking(_)
                | Self::Notes
                | Self::Folder(_)
                | Self::Note(_)
                | Self::Similars
                | Self::SimilarFolder(_)
        )
    }

    /// Whether names in it can be asked for, and none is listed.
    pub fn is_top(&self) -> bool {
        matches!(self, Self::Past(Past::Moments | Past::HistoryFolder(None)))
    }

    /// Whether what it is depends on the state of the index.
    pub fn is_of_a_view(&self) -> bool {
        matches!(
            self,
            Self::Answer(..)
                | Self::Ranking(_)
                | Self::Ranked(..)
                | Self::Neighbours(..)
                | Self::Similar(..)
                | Self::Told(..)
                | Self::View(View::Page(_))
        )
    }
}

impl Asked {
    /// The question for the search room.
    pub fn query(&self, about: About) -> Query {
        self.options.query(&self.text, about)
    }
}

/// What `name` means in the folder `parent`.
pub fn child(parent: &Node, name: &[u8]) -> Result<Step, NameError> {
    if name.len() > MAX_NAME {
        return Err(NameError::TooLong);
    }
    let node = match parent {
        Node::Root => root_child(name)?,
        Node::Ask(about, options) => return ask_child(*about, options, name).map(Step::Node),
        Node::Ranking(_) => return Ok(Step::InListing),
        Node::Past(past) => return past.child(name),
        Node::View(View::Recent | View::Tag(_)) => return Ok(Step::InListing),
        Node::Notes => {
            return VaultPath::new(name).map(Step::InVault).map_err(|_| NameError::Absent);
        }
        Node::Folder(folder) => {
            return folder.join(name).map(Step::InVault).map_err(|_| NameError::Absent);
        }
        Node::Similars => {
            return VaultPath::new(name).map(Step::InSimilar).map_err(|_| NameError::Absent);
        }
        Node::SimilarFolder(folder) => {
            return folder.join(name).map(Step::InSimilar).map_err(|_| NameError::Absent);
        }
        Node::Note(path) => match name {
            b"links" => Node::Neighbours(path.clone(), Direction::Out),
            b"backlinks" => Node::Neighbours(path.clone(), Direction::In),
            b"history" => Node::Told(path.clone(), Told::History),
            b"blame" => Node::Told(path.clone(), Told::Blame),
            _ => return Err(NameError::Absent),
        },
        Node::Readme
        | Node::Status(_)
        | Node::Answer(..)
        | Node::Ranked(..)
        | Node::Neighbours(..)
        | Node::Similar(..)
        | Node::Told(..)
        | Node::View(View::Page(_) | View::Link(_)) => return Err(NameError::NotFolder),
    };
    Ok(Step::Node(node))
}

/// The names that a note may have below `similar/`, with the form that each asks for: its own, and
/// what is left of the name without the end that picks a form.
pub fn similar_forms(path: &VaultPath) -> Vec<(VaultPath, Form)> {
    let mut forms = vec![(path.clone(), Form::Text)];
    for (end, form) in [(&b".json"[..], Form::Json), (b".md", Form::Markdown)] {
        let stem = path.as_bytes().strip_suffix(end).and_then(|it| VaultPath::new(it).ok());
        forms.extend(stem.map(|it| (it, form)));
    }
    forms
}

/// The file name that asks `text` in that form; `None` for the empty question, which has none.
pub fn query_name(text: &str, form: Form) -> Option<String> {
    if text.is_empty() {
        return None;
    }
    let mut name = String::with_capacity(text.len() + 8);
    for (at, char) in text.char_indices() {
        match char {
            '.' if at == 0 => name.push_str("%2E"),
            '%' => name.push_str("%25"),
            '/' => name.push_str("%2F"),
            '\0' => name.push_str("%00"),
            '=' if options::is_key(&text[..at]) => name.push_str("%3D"),
            it => name.push(it),
        }
    }
    // The letters, where the end would pick a form or the whole is no question.
    for (suffix, letters) in [(".md", "%2Emd"), (".json", "%2Ejson")] {
        if form == Form::Text && name.ends_with(suffix) {
            name.truncate(name.len() - suffix.len());
            name.push_str(letters);
        }
    }
    match form {
        Form::Text => {}
        Form::Json => name.push_str(".json"),
        Form::Markdown => name.push_str(".md"),
    }
    if is_probe(name.as_bytes()) {
        let first = name.remove(0);
        name.insert_str(0, &format!("%{:02X}", u32::from(first)));
    }
    Some(name)
}

/// A note's name as a file name in `links/<query>/`: ranked, one line, at most 255 bytes.
pub fn ranked_name(rank: usize, of: usize, name: &str) -> Vec<u8> {
    let width = of.to_string().len().max(2);
    let prefix = format!("{rank:0width$}-");
    let room = 255 - prefix.len() - ".md".len();
    let escaped = crate::vault::path::escape(name.as_bytes()).replace('/', "-");
    let mut end = escaped.len().min(room);
    while !escaped.is_char_boundary(end) {
        end -= 1;
    }
    format!("{prefix}{}.md", &escaped[..end]).into_bytes()
}

fn root_child(name: &[u8]) -> Result<Node, NameError> {
    Ok(match name {
        b"README.md" => Node::Readme,
        b"status.md" => Node::Status(Form::Markdown),
        b"status.json" => Node::Status(Form::Json),
        b"search" => Node::Ask(About::Passages, Arc::default()),
        b"nodes" => Node::Ask(About::Nodes, Arc::default()),
        b"links" => Node::Ask(About::Links, Arc::default()),
        b"note" => Node::Notes,
        b"similar" => Node::Similars,
        b"at" => Node::Past(Past::Moments),
        b"history" => Node::Past(Past::HistoryFolder(None)),
        b"recent" => Node::View(View::Recent),
        b"tag" => Node::View(View::Tag(None)),
        name => {
            let page = ViewPage::ALL.iter().find(|it| it.0.as_bytes() == name);
            Node::View(View::Page(page.ok_or(NameError::Absent)?.1))
        }
    })
}

fn ask_child(about: About, options: &Arc<Options>, name: &[u8]) -> Result<Node, NameError> {
    if is_probe(name) {
        return Err(NameError::Absent);
    }
    let name = std::str::from_utf8(name).map_err(|_| NameError::NotText)?;
    if let Some((key, value)) = name.split_once('=')
        && options::is_key(key)
    {
        let options = options.with(key, &decoded(value))?;
        return Ok(Node::Ask(about, Arc::new(options)));
    }
    let asked = |text: &str| Asked { options: Arc::clone(options), text: decoded(text).into() };
    if about == About::Links {
        return Ok(Node::Ranking(asked(name)));
    }
    let (text, form) = match name.strip_suffix(".json") {
        Some(text) => (text, Form::Json),
        None => match name.strip_suffix(".md") {
            Some(text) => (text, Form::Markdown),
            None => (name, Form::Text),
        },
    };
    Ok(Node::Answer(about, asked(text), form))
}

/// Names that desktops, editors, backup tools and version control look for on their own in every
/// folder; nobody asks them. Whoever does spells one letter as `%XX`.
pub fn is_probe(name: &[u8]) -> bool {
    // In exactly these letters: `head` is a question like any other.
    const EXACT: &[&str] = &[
        // Git asks every folder whether it is a bare repository; this is the first it looks for.
        "HEAD",
        "CACHEDIR.TAG",
        "package.json",
        "node_modules",
        "tsconfig.json",
        "jsconfig.json",
    ];
    const PROBES: &[&str] = &[
        "autorun.inf",
        "desktop.ini",
        "thumbs.db",
        "ehthumbs.db",
        "folder.jpg",
        "system volume information",
        "$recycle.bin",
        "recycler",
        "lost+found",
        "icon\r",
    ];
    name.is_empty()
        || name.starts_with(b".")
        || EXACT.iter().any(|it| name == it.as_bytes())
        // What Emacs would save by itself.
        || (name.len() > 2 && name.starts_with(b"#") && name.ends_with(b"#"))
        || PROBES.iter().any(|it| name.eq_ignore_ascii_case(it.as_bytes()))
}

/// `text` with every `%XX` decoded where that gives UTF-8, and left as it is where it does not.
fn decoded(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('%') {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let run = escapes(rest);
        if run.is_empty() {
            out.push('%');
            rest = &rest[1..];
            continue;
        }
        let mut at = 0;
        for chunk in run.utf8_chunks() {
            out.push_str(chunk.valid());
            at += chunk.valid().len();
            let end = at + chunk.invalid().len();
            out.push_str(&rest[at * 3..end * 3]);
            at = end;
        }
        rest = &rest[run.len() * 3..];
    }
    out.push_str(rest);
    out
}

/// The bytes of the `%XX` that `text` starts with, one after the other.
fn escapes(text: &str) -> Vec<u8> {
    let hex = |it: u8| char::from(it).to_digit(16).and_then(|it| u8::try_from(it).ok());
    text.as_bytes()
        .chunks_exact(3)
        .map_while(|it| (it[0] == b'%').then_some(hex(it[1])? * 16 + hex(it[2])?))
        .collect()
}

#[cfg(test)]
mod tests;
