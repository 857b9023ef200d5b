//! Views of the notes: `recent/`, `tag/`, and pages about all of them.
//!
//! Pure. Takes such a place and a name, gives what the name means there, as far as that can be said
//! without the notes.
//!
//! **Invariant:** a folder of a view is one place over all states of the notes; what it lists is made
//! of the state at the moment when it is opened.

use std::path::Path;
use std::sync::Arc;

/// A view.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum View {
    Page(ViewPage),
    /// `recent/`.
    Recent,
    /// `tag/`, and the folder of a tag, folded, with a `/` between its parts.
    Tag(Option<Arc<str>>),
    /// A link to a note in one of these.
    Link(Arc<Path>),
}

/// A page about all notes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ViewPage {
    Orphans,
    BrokenLinks,
    Today,
    Log,
}

/// A page about one note that history tells.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Told {
    History,
    Blame,
}

impl ViewPage {
    pub const ALL: [(&'static str, Self); 4] = [
        ("broken-links.md", Self::BrokenLinks),
        ("log.md", Self::Log),
        ("orphans.md", Self::Orphans),
        ("today.md", Self::Today),
    ];
}

impl View {
    pub fn is_folder(&self) -> bool {
        matches!(self, Self::Recent | Self::Tag(_))
    }
}

/// A part of a tag as the name of a folder: any tag has one, and none is `.` or `..`.
pub fn tag_name(part: &str) -> String {
    let mut name = part.replace('%', "%25").replace('\0', "%00");
    if name.starts_with('.') {
        name.replace_range(..1, "%2E");
    }
    name
}
