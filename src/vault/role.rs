//! Which part a path plays.
//!
//! Pure. Takes a path and the vault's [`Layout`], gives its [`Role`]: whether search reads it by
//! default, only when asked for by `in=`, or never.

use crate::vault::path::VaultPath;

/// The names of a vault's folders, relative to its root.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Layout {
    /// Working memory: day pages and the notes of a day.
    pub daily: String,
    /// Long-term knowledge.
    pub digest: String,
    /// Files dropped in.
    pub resource: String,
    /// Sanitised conversations.
    pub session: String,
    /// The jobs' own model sessions; never committed, never searched.
    pub agent: String,
    /// Derived state; never committed, never searched.
    pub metadata: String,
    /// Obsidian's templates; committed, never searched.
    pub templates: Vec<String>,
}

impl Default for Layout {
    fn default() -> Self {
        Self {
            daily: "memory".into(),
            digest: "digest".into(),
            resource: "resource".into(),
            session: "mem_session".into(),
            agent: "mem_agent".into(),
            metadata: "mem_metadata".into(),
            templates: vec!["templates".into(), "Templates".into()],
        }
    }
}

impl Layout {
    /// The names that ReMe uses; its own agent's transcripts are what the jobs' sessions are here.
    pub fn reme() -> Self {
        Self {
            daily: "daily".into(),
            session: "session".into(),
            agent: "mem_session".into(),
            metadata: "metadata".into(),
            ..Self::default()
        }
    }

    /// The names of both, as a person calls them.
    pub const NAMES: [&str; 2] = ["default", "reme"];

    /// Each folder with the name of its setting, templates aside.
    pub fn folders(&self) -> [(&'static str, &str); 6] {
        [
            ("daily_dir", &self.daily),
            ("digest_dir", &self.digest),
            ("resource_dir", &self.resource),
            ("session_dir", &self.session),
            ("mem_session_dir", &self.agent),
            ("metadata_dir", &self.metadata),
        ]
    }

    /// The layout that a person calls so.
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "default" => Some(Self::default()),
            "reme" => Some(Self::reme()),
            _ => None,
        }
    }
}

/// What search does with a path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// A note that search reads.
    Note,
    /// A generated page that lists the notes of a day: a note that must not outrank them.
    DayPage,
    /// Text that search reads only where `in=` names its folder.
    OnRequest,
    /// Committed, but nothing that search reads.
    Other,
}

impl Role {
    /// Whether the index holds it.
    pub fn is_indexed(self) -> bool {
        !matches!(self, Self::Other)
    }

    /// Whether it counts as a note (also for held deletions).
    pub fn is_note(self) -> bool {
        matches!(self, Self::Note | Self::DayPage)
    }
}

/// The role of `path`.
pub fn role_of(path: &VaultPath, layout: &Layout) -> Role {
    let bytes = path.as_bytes();
    let inside = |folder: &str| !folder.is_empty() && path.is_within(folder.as_bytes());
    let hidden = path.components().any(|it| it.starts_with(b"."));
    if hidden
        || inside(&layout.agent)
        || inside(&layout.metadata)
        || layout.templates.iter().any(|it| inside(it))
    {
        return Role::Other;
    }
    let markdown = path
        .extension()
        .is_some_and(|it| it.eq_ignore_ascii_case(b"md") || it.eq_ignore_ascii_case(b"markdown"));
    let text = markdown
        || path.extension().is_some_and(|it| {
            [&b"txt"[..], b"jsonl", b"json", b"csv", b"org", b"rst", b"yaml", b"yml", b"log"]
                .iter()
                .any(|known| it.eq_ignore_ascii_case(known))
        });
    if inside(&layout.resource) || inside(&layout.session) {
        return if text { Role::OnRequest } else { Role::Other };
    }
    if !markdown {
        return Role::Other;
    }
    if is_conflict_copy(path) {
        return Role::OnRequest;
    }
    match bytes.strip_prefix(layout.daily.as_bytes()).and_then(|it| it.strip_prefix(b"/")) {
        Some(rest) if is_day_page(rest) => Role::DayPage,
        _ => Role::Note,
    }
}

/// `<name>.conflict-<short id>.md` (ours) and `<name>.sync-conflict-<date>.md` (Syncthing's).
fn is_conflict_copy(path: &VaultPath) -> bool {
    let stem = path.stem();
    [&b".conflict-"[..], b".sync-conflict-"]
        .iter()
        .any(|mark| stem.windows(mark.len()).any(|it| it == *mark))
}

/// Whether the part below the daily folder is `<date>.md` or `<date>/index.md`.
fn is_day_page(rest: &[u8]) -> bool {
    [&b"/index.md"[..], b".md"].iter().any(|end| rest.strip_suffix(*end).is_some_and(is_date))
}

/// Whether the bytes are `YYYY-MM-DD` (digits only; the calendar is not asked).
pub fn is_date(bytes: &[u8]) -> bool {
    bytes.len() == 10
        && bytes.iter().enumerate().all(|(at, it)| match at {
            4 | 7 => *it == b'-',
            _ => it.is_ascii_digit(),
        })
}

/// The date a path stands for: its first component or file stem that is one.
pub fn date_of(path: &VaultPath) -> Option<&str> {
    path.components()
        .chain([path.stem()])
        .find(|it| is_date(it))
        .and_then(|it| std::str::from_utf8(it).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_path_has_its_part() {
        let layout = Layout::default();
        for (path, role) in [
            ("memory/2026-06-29.md", Role::DayPage),
            ("memory/2026-06-29/index.md", Role::DayPage),
            ("memory/2026-06-29/plan.md", Role::Note),
            ("memory/2026-06-29/interests.yaml", Role::Other),
            ("digest/wiki/bicycle.md", Role::Note),
            ("Projects/Deep/Note.MARKDOWN", Role::Note),
            ("a.conflict-4f2c9e1.md", Role::OnRequest),
            ("a.sync-conflict-20260629-120000-ABCDEFG.md", Role::OnRequest),
            ("resource/2026-06-29/budget.txt", Role::OnRequest),
            ("resource/photo.jpg", Role::Other),
            ("mem_session/dialog/a.jsonl", Role::OnRequest),
            ("mem_metadata/x.md", Role::Other),
            ("mem_agent/x.md", Role::Other),
            ("Templates/Daily.md", Role::Other),
            (".obsidian/plugins/x.md", Role::Other),
            (".trash/old.md", Role::Other),
            ("remd.yaml", Role::Other),
            ("resources.md", Role::Note),
        ] {
            assert_eq!(role_of(&VaultPath::new(path).unwrap(), &layout), role, "{path}");
        }
    }

    #[test]
    fn dates_stand_in_folders_and_names() {
        let date = |path: &str| date_of(&VaultPath::new(path).unwrap()).map(str::to_owned);
        assert_eq!(date("memory/2026-06-29/plan.md").as_deref(), Some("2026-06-29"));
        assert_eq!(date("journal/2026-06-29.md").as_deref(), Some("2026-06-29"));
        assert_eq!(date("digest/wiki/bicycle.md"), None);
    }
}
