//! What the names of the mount mean, written a second time and plainly, from `semantics.md`.
//!
//! Pure. Nothing here looks at `tree`: a model that shares code with what it checks finds nothing.

use std::collections::{BTreeMap, BTreeSet};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Is {
    Folder,
    File,
    Link,
}

/// Options, in the one way that all spellings of them share: what was said last, and all of what
/// adds up.
pub type Options = (BTreeMap<String, String>, BTreeSet<String>);

/// A place in the mount; two spellings of it are equal.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Place {
    Root,
    /// README and status.
    Fixed(&'static str),
    /// `search`, `nodes`, `links` with options, and the path as it was spelled: a folder has only
    /// one name.
    Ask(&'static str, Options, Vec<u8>),
    /// Where, options, text, form.
    Page(&'static str, Options, String, &'static str),
    /// As it was spelled, too.
    Ranking(Options, String, Vec<u8>),
    Ranked(Options, String, Vec<u8>),
    Notes,
    Folder(Vec<u8>),
    Note(Vec<u8>),
    Neighbours(Vec<u8>, &'static str),
    Similars,
    SimilarFolder(Vec<u8>),
    /// Note, form.
    Similar(Vec<u8>, &'static str),
    /// `recent/`, a link in it, `tag/…`, a link there, and the pages about all notes.
    Recent,
    RecentLink(Vec<u8>),
    Tag(&'static str),
    TagLink,
    ViewPage(&'static str),
    /// A note's history or blame.
    Told(Vec<u8>, &'static str),
    Moments,
    /// How the moment was spelled, and the path below it.
    PastFolder(Vec<u8>, &'static str),
    /// Which commit, and the path.
    PastFile(&'static str, &'static str),
    PastLink(&'static str, &'static str),
    /// A folder in `history/`.
    History(String),
    Versions(String),
    /// Its folder, and its name.
    Version(String, Vec<u8>),
}

/// The files of the fake's past.
const PAST: &[(&str, Is)] = &[
    ("a.md", Is::File),
    ("d/b.md", Is::File),
    ("d/in", Is::Link),
    // It would lead out.
    ("d/out", Is::File),
    ("d/run.sh", Is::File),
    (".hidden", Is::File),
];

/// The moments that the fake knows, and which commit each is.
const MOMENTS: &[(&[u8], &str)] =
    &[(b"HEAD", "HEAD"), (b"main", "HEAD"), (b"feature%2Fx", "HEAD"), (b"first", "first")];

impl Place {
    pub fn is(&self) -> Is {
        match self {
            Self::Root
            | Self::Ask(..)
            | Self::Ranking(..)
            | Self::Notes
            | Self::Folder(_)
            | Self::Note(_)
            | Self::Similars
            | Self::SimilarFolder(_)
            | Self::Recent
            | Self::Tag(_)
            | Self::Moments
            | Self::PastFolder(..)
            | Self::History(_)
            | Self::Versions(_) => Is::Folder,
            Self::Fixed(_)
            | Self::Page(..)
            | Self::Neighbours(..)
            | Self::Similar(..)
            | Self::PastFile(..)
            | Self::Version(..)
            | Self::ViewPage(_)
            | Self::Told(..) => Is::File,
            Self::Ranked(..) | Self::PastLink(..) | Self::RecentLink(_) | Self::TagLink => Is::Link,
        }
    }

    /// Whether another state of the answers is another inode.
    pub fn is_of_a_view(&self) -> bool {
        matches!(
            self,
            Self::Page(..)
                | Self::Ranking(..)
                | Self::Ranked(..)
                | Self::Neighbours(..)
                | Self::Similar(..)
                | Self::ViewPage(_)
                | Self::Told(..)
        )
    }

    /// Whether it is one of a commit, that another name or HEAD's next move gives another inode.
    pub fn is_of_the_past(&self) -> bool {
        matches!(
            self,
            Self::PastFolder(..)
                | Self::PastFile(..)
                | Self::PastLink(..)
                | Self::History(_)
                | Self::Versions(_)
                | Self::Version(..)
                // A link is where it leads, whatever its rank.
                | Self::RecentLink(_)
                | Self::TagLink
                | Self::Recent
                | Self::Tag(_)
        )
    }

    pub fn is_program(&self) -> bool {
        matches!(self, Self::PastFile(_, "d/run.sh"))
    }

    /// Whether each lookup may be another inode.
    pub fn is_fleeting(&self) -> bool {
        matches!(self, Self::Fixed("status.md" | "status.json"))
    }

    /// What it lists, sorted; `None` where that is for the answers to say.
    pub fn lists(&self, notes: &[Vec<u8>]) -> Option<Vec<Vec<u8>>> {
        let names = |names: &[&str]| Some(names.iter().map(|it| it.as_bytes().to_vec()).collect());
        match self {
            Self::Root => names(&[
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
            ]),
            Self::Note(_) => names(&["backlinks", "blame", "history", "links"]),
            Self::Recent => Some(recent(notes)),
            Self::Tag("") => names(&["x"]),
            Self::Tag("x") => names(&["01-top.md", "y"]),
            Self::Tag(_) => names(&["01-top.md"]),
            Self::Ask("search", options, _) if *options == Options::default() => None,
            Self::Ask(..) | Self::Notes | Self::Similars | Self::Moments => names(&[]),
            Self::PastFolder(_, "") => names(&[".hidden", "a.md", "d"]),
            Self::PastFolder(..) => names(&["b.md", "in", "out", "run.sh"]),
            Self::History(folder) if folder == "d" => {
                names(&["b.md.versions", "in.versions", "out.versions", "run.sh.versions"])
            }
            // At its top nothing is listed, and what is gone neither.
            Self::History(_) => names(&[]),
            Self::Versions(path) => {
                let names = versions_of(path);
                Some(names.into_iter().map(String::into_bytes).collect())
            }
            Self::Folder(folder) | Self::SimilarFolder(folder) => {
                let below = notes.iter().filter_map(|it| {
                    let rest = it.strip_prefix(folder.as_slice())?.strip_prefix(b"/")?;
                    rest.split(|it| *it == b'/').next().map(<[u8]>::to_vec)
                });
                let below: BTreeSet<_> = below.collect();
                Some(below.into_iter().collect())
            }
            _ => None,
        }
    }

    /// The errno of asking for its page, where there is one.
    pub fn refusal(&self, notes: &[Vec<u8>]) -> Option<i32> {
        match self {
            Self::Page("search", _, text, _)
            | Self::Ranking(_, text, _)
            | Self::Ranked(_, text, _) => match text.as_str() {
                "panic" | "broken" => Some(libc::EIO),
                "refused" => Some(libc::EINVAL),
                "later" => Some(libc::EAGAIN),
                _ => None,
            },
            Self::Neighbours(note, _) | Self::Similar(note, _) | Self::Told(note, _)
                if !notes.contains(note) =>
            {
                Some(libc::ENOENT)
            }
            _ => None,
        }
    }
}

/// What `name` is in `parent`, or the errno.
pub fn meaning(parent: &Place, name: &[u8], notes: &[Vec<u8>]) -> Result<Place, i32> {
    if name.len() > 1024 {
        return Err(libc::ENAMETOOLONG);
    }
    match parent {
        Place::Root => Ok(match name {
            b"README.md" => Place::Fixed("README.md"),
            b"status.md" => Place::Fixed("status.md"),
            b"status.json" => Place::Fixed("status.json"),
            b"search" => Place::Ask("search", Options::default(), Vec::new()),
            b"nodes" => Place::Ask("nodes", Options::default(), Vec::new()),
            b"links" => Place::Ask("links", Options::default(), Vec::new()),
            b"note" => Place::Notes,
            b"similar" => Place::Similars,
            b"at" => Place::Moments,
            b"history" => Place::History(String::new()),
            b"recent" => Place::Recent,
            b"tag" => Place::Tag(""),
            b"broken-links.md" => Place::ViewPage("broken-links.md"),
            b"log.md" => Place::ViewPage("log.md"),
            b"orphans.md" => Place::ViewPage("orphans.md"),
            b"today.md" => Place::ViewPage("today.md"),
            _ => return Err(libc::ENOENT),
        }),
        Place::Recent => match recent(notes).iter().any(|it| it == name) {
            true => Ok(Place::RecentLink(name.to_vec())),
            false => Err(libc::ENOENT),
        },
        Place::Tag(tag) => match (*tag, name) {
            ("", b"x") => Ok(Place::Tag("x")),
            ("x", b"y") => Ok(Place::Tag("x/y")),
            ("x" | "x/y", b"01-top.md") => Ok(Place::TagLink),
            _ => Err(libc::ENOENT),
        },
        Place::Moments if name == b"broken" => Err(libc::EIO),
        Place::Moments => match MOMENTS.iter().find(|it| it.0 == name) {
            Some(_) => Ok(Place::PastFolder(name.to_vec(), "")),
            None => Err(libc::ENOENT),
        },
        Place::PastFolder(moment, folder) => in_past(moment, folder, name),
        Place::History(folder) => in_history(folder, name),
        Place::Versions(path) => match std::str::from_utf8(name) {
            Ok(text) if versions_of(path).iter().any(|it| it == text) => {
                Ok(Place::Version(path.clone(), name.to_vec()))
            }
            _ => Err(libc::ENOENT),
        },
        Place::Ask(about, options, way) => question(about, options, way, name),
        Place::Ranking(options, text, _) => {
            // Asking for a link is asking the question.
            match parent.refusal(notes) {
                Some(errno) => Err(errno),
                None => Ok(Place::Ranked(options.clone(), text.clone(), name.to_vec())),
            }
        }
        Place::Notes => in_vault(name.to_vec(), notes),
        Place::Folder(folder) => in_vault([folder, &b"/"[..], name].concat(), notes),
        Place::Similars => in_similar(name.to_vec(), notes),
        Place::SimilarFolder(folder) => in_similar([folder, &b"/"[..], name].concat(), notes),
        Place::Note(path) => match name {
            b"links" => Ok(Place::Neighbours(path.clone(), "links")),
            b"backlinks" => Ok(Place::Neighbours(path.clone(), "backlinks")),
            b"blame" => Ok(Place::Told(path.clone(), "blame")),
            b"history" => Ok(Place::Told(path.clone(), "history")),
            _ => Err(libc::ENOENT),
        },
        Place::Fixed(_)
        | Place::Page(..)
        | Place::Ranked(..)
        | Place::Neighbours(..)
        | Place::Similar(..)
        | Place::RecentLink(_)
        | Place::TagLink
        | Place::ViewPage(_)
        | Place::Told(..)
        | Place::PastFile(..)
        | Place::PastLink(..)
        | Place::Version(..) => Err(libc::ENOTDIR),
    }
}

/// The links in `recent/`: of all notes, by their names.
fn recent(notes: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let name = |(at, note): (usize, &Vec<u8>)| {
        let note = String::from_utf8_lossy(note).replace('/', "-");
        format!("{:02}-{note}.md", at + 1).into_bytes()
    };
    let mut notes = notes.to_vec();
    notes.sort();
    notes.iter().enumerate().map(name).collect()
}

fn in_past(moment: &[u8], folder: &str, name: &[u8]) -> Result<Place, i32> {
    let commit = MOMENTS.iter().find(|it| it.0 == moment).expect("a moment").1;
    let name = std::str::from_utf8(name).map_err(|_| libc::ENOENT)?;
    let path = if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") };
    if path == "d" {
        return Ok(Place::PastFolder(moment.to_vec(), "d"));
    }
    match PAST.iter().find(|it| it.0 == path) {
        Some((path, Is::Link)) => Ok(Place::PastLink(commit, path)),
        Some((path, _)) => Ok(Place::PastFile(commit, path)),
        None => Err(libc::ENOENT),
    }
}

fn in_history(folder: &str, name: &[u8]) -> Result<Place, i32> {
    let name = std::str::from_utf8(name).map_err(|_| libc::ENOENT)?;
    let whole = |name: &str| match folder {
        "" => name.to_owned(),
        folder => format!("{folder}/{name}"),
    };
    if let Some(note) = name.strip_suffix(".versions") {
        let note = whole(note);
        if PAST.iter().any(|it| it.0 == note) || note == "gone/old.md" {
            return Ok(Place::Versions(note));
        }
    }
    match whole(name).as_str() {
        "d" | "gone" => Ok(Place::History(whole(name))),
        _ => Err(libc::ENOENT),
    }
}

/// What the fake says of each note's two versions; their commit is HEAD.
fn versions_of(path: &str) -> Vec<String> {
    let end = path.rsplit_once('.').filter(|it| !it.0.is_empty() && !it.0.ends_with('/'));
    let end = end.map(|it| format!(".{}", it.1)).filter(|it| !it.contains('/')).unwrap_or_default();
    vec![format!("1-2026-06-01-0000000{end}"), format!("2-2026-06-02-0000000{end}")]
}

fn in_vault(path: Vec<u8>, notes: &[Vec<u8>]) -> Result<Place, i32> {
    if notes.contains(&path) {
        return Ok(Place::Note(path));
    }
    let folder = [&path, &b"/"[..]].concat();
    if notes.iter().any(|it| it.starts_with(&folder)) {
        return Ok(Place::Folder(path));
    }
    Err(libc::ENOENT)
}

fn in_similar(path: Vec<u8>, notes: &[Vec<u8>]) -> Result<Place, i32> {
    match in_vault(path.clone(), notes) {
        Ok(Place::Note(note)) => return Ok(Place::Similar(note, "text")),
        Ok(Place::Folder(folder)) => return Ok(Place::SimilarFolder(folder)),
        _ => {}
    }
    for (end, form) in [(&b".json"[..], "json"), (b".md", "md")] {
        if let Some(note) = path.strip_suffix(end).filter(|it| notes.contains(&it.to_vec())) {
            return Ok(Place::Similar(note.to_vec(), form));
        }
    }
    Err(libc::ENOENT)
}

fn question(about: &'static str, options: &Options, way: &[u8], name: &[u8]) -> Result<Place, i32> {
    let way = [way, b"/", name].concat();
    let lower = name.to_ascii_lowercase();
    let probe = name[0] == b'.'
        || (name.len() > 2 && name[0] == b'#' && name[name.len() - 1] == b'#')
        || [
            "HEAD",
            "CACHEDIR.TAG",
            "package.json",
            "node_modules",
            "tsconfig.json",
            "jsconfig.json",
        ]
        .iter()
        .any(|it| it.as_bytes() == name)
        || [
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
        ]
        .iter()
        .any(|it| it.as_bytes() == lower);
    if probe {
        return Err(libc::ENOENT);
    }
    let Ok(name) = std::str::from_utf8(name) else { return Err(libc::EILSEQ) };
    if let Some((key, value)) = name.split_once('=')
        && ["limit", "since", "until", "in", "path", "tag", "min_score"].contains(&key)
    {
        // Only values that the walks above use: what is good is stated, all else is bad.
        let good = matches!(
            (key, value),
            ("limit", "3" | "1") | ("in", "digest") | ("tag", "x") | ("min_score", "0.5")
        );
        let mut options = options.clone();
        if !good {
            return Err(libc::EINVAL);
        } else if key == "in" || key == "tag" {
            options.1.insert(name.to_owned());
        } else {
            options.0.insert(key.to_owned(), value.to_owned());
        }
        return Ok(Place::Ask(about, options, way));
    }
    if about == "links" {
        return Ok(Place::Ranking(options.clone(), decoded(name), way));
    }
    let (text, form) = match name.strip_suffix(".json") {
        Some(text) => (text, "json"),
        None => name.strip_suffix(".md").map_or((name, "text"), |it| (it, "md")),
    };
    Ok(Place::Page(about, options.clone(), decoded(text), form))
}

/// Byte by byte: a run of escapes counts where it is UTF-8, a character at a time.
fn decoded(text: &str) -> String {
    let bytes = text.as_bytes();
    let escape = |at: usize| {
        let digits = bytes.get(at..at + 3).filter(|it| it[0] == b'%')?;
        u8::from_str_radix(std::str::from_utf8(&digits[1..]).ok()?, 16)
            .ok()
            .filter(|_| digits[1] != b'+')
    };
    let mut out = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let run: Vec<u8> = (0..4).map_while(|it| escape(at + it * 3)).collect();
        let char = (1..=run.len()).find(|it| std::str::from_utf8(&run[..*it]).is_ok());
        match char {
            Some(length) => {
                out.extend_from_slice(&run[..length]);
                at += length * 3;
            }
            None => {
                out.push(bytes[at]);
                at += 1;
            }
        }
    }
    String::from_utf8(out).expect("whole characters in, whole characters out")
}
