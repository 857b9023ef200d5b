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
}

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
            | Self::SimilarFolder(_) => Is::Folder,
            Self::Fixed(_) | Self::Page(..) | Self::Neighbours(..) | Self::Similar(..) => Is::File,
            Self::Ranked(..) => Is::Link,
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
        )
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
                "links",
                "nodes",
                "note",
                "search",
                "similar",
                "status.json",
                "status.md",
            ]),
            Self::Note(_) => names(&["backlinks", "links"]),
            Self::Ask("search", options, _) if *options == Options::default() => None,
            Self::Ask(..) | Self::Notes | Self::Similars => names(&[]),
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
            Self::Neighbours(note, _) | Self::Similar(note, _) if !notes.contains(note) => {
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
            _ => return Err(libc::ENOENT),
        }),
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
            _ => Err(libc::ENOENT),
        },
        Place::Fixed(_)
        | Place::Page(..)
        | Place::Ranked(..)
        | Place::Neighbours(..)
        | Place::Similar(..) => Err(libc::ENOTDIR),
    }
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
