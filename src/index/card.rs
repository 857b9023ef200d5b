//! What the index knows of a note without opening it, and how that is written down.
//!
//! Pure. A card is kept in memory for every indexed note (no text); its lines in the catalog, the
//! graph and the chunk store are made and read here.
//!
//! **Invariant:** a card read back from its lines is the card that was written, byte-exact paths
//! included.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::index::vectors::AtRest;
use crate::vault::role::date_of;
use crate::vault::{BlobId, Chunk, Link, LinkKind, NoteDoc, Role, VaultPath};

/// An indexed note.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Card {
    /// Names this version of the note in the index; never used again for another.
    pub(super) id: u64,
    pub path: VaultPath,
    pub blob: BlobId,
    pub role: Role,
    pub name: Box<str>,
    pub description: Option<Box<str>>,
    pub tags: Box<[Box<str>]>,
    /// `YYYY-MM-DD`, from the path, else from the frontmatter.
    pub date: Option<Box<str>>,
    /// The target that replaced the note, empty where none is named; `None` for one that holds.
    pub superseded: Option<Box<str>>,
    /// First and last line of each chunk, 1-based, inclusive.
    pub chunks: Box<[(u32, u32)]>,
    pub links: Box<[Edge]>,
    /// What of the note could not be read as it stands.
    pub problems: Box<[Box<str>]>,
}

/// A link of a card.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Edge {
    pub kind: LinkKind,
    pub target: Box<str>,
    pub anchor: Option<Box<str>>,
    pub relation: Option<Box<str>>,
    pub line: u32,
}

/// Numbers from here on are of notes that no commit has, and in no file.
pub(super) const FIRST_DRAFT: u64 = 1 << 63;

impl Card {
    /// Whether it is of a version on the disk that no commit has yet.
    pub fn is_uncommitted(&self) -> bool {
        self.id >= FIRST_DRAFT
    }

    /// Of a version that no index has.
    pub fn of(path: &VaultPath, blob: BlobId, role: Role, doc: &NoteDoc) -> Self {
        Self::new(0, path, blob, role, doc)
    }

    pub(super) fn new(id: u64, path: &VaultPath, blob: BlobId, role: Role, doc: &NoteDoc) -> Self {
        Self {
            id,
            path: path.clone(),
            blob,
            role,
            name: doc.name.as_str().into(),
            description: doc.description.as_deref().map(Into::into),
            tags: doc.tags.iter().map(|it| it.as_str().into()).collect(),
            date: date_of(path).or(doc.date.as_deref()).map(Into::into),
            superseded: doc.superseded.as_deref().map(Into::into),
            chunks: doc.chunks.iter().map(|it| (it.start_line, it.end_line)).collect(),
            links: doc.links.iter().map(Edge::from).collect(),
            problems: doc.problems.iter().map(|it| it.as_str().into()).collect(),
        }
    }
}

impl From<&Link> for Edge {
    fn from(link: &Link) -> Self {
        Self {
            kind: link.kind,
            target: link.target.as_str().into(),
            anchor: link.anchor.as_deref().map(Into::into),
            relation: link.relation.as_deref().map(Into::into),
            line: link.line,
        }
    }
}

/// A line of the catalog. No flattened parts: opening reads every one of them.
#[derive(Serialize, Deserialize)]
pub(super) struct CatalogLine<'a> {
    #[serde(borrow)]
    path: Cow<'a, str>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    path_hex: Option<String>,
    #[serde(default, skip_serializing_if = "is_false")]
    pub(super) deleted: bool,
    #[serde(default)]
    id: u64,
    #[serde(default)]
    blob: Option<BlobId>,
    #[serde(default, borrow)]
    role: Cow<'a, str>,
    #[serde(default, borrow)]
    name: Cow<'a, str>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    description: Option<Box<str>>,
    #[serde(default, skip_serializing_if = "<[_]>::is_empty")]
    tags: Box<[Box<str>]>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    date: Option<Box<str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    superseded: Option<Box<str>>,
    #[serde(default)]
    lines: Box<[(u32, u32)]>,
    #[serde(default, skip_serializing_if = "<[_]>::is_empty")]
    problems: Box<[Box<str>]>,
}

/// A line of the graph.
#[derive(Serialize, Deserialize)]
pub(super) struct GraphLine<'a> {
    #[serde(borrow)]
    path: Cow<'a, str>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    path_hex: Option<String>,
    #[serde(default)]
    links: Cow<'a, [Link]>,
}

/// A line of the chunk store.
#[derive(Serialize)]
pub(super) struct ChunkLine<'a> {
    id: &'a str,
    text: &'a str,
    metadata: ChunkMetadata<'a>,
    path: Cow<'a, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    path_hex: Option<String>,
    start_line: u32,
    end_line: u32,
    scores: serde_json::Map<String, serde_json::Value>,
    /// In half precision, little-endian, base64; left out where it is not made yet.
    #[serde(rename = "_embedding_f16_b64", skip_serializing_if = "Option::is_none")]
    embedding: Option<String>,
    #[serde(rename = "_embedding_space", skip_serializing_if = "Option::is_none")]
    space: Option<SpaceOfLine<'a>>,
}

/// What a line's embedding is of.
#[derive(Serialize)]
struct SpaceOfLine<'a> {
    model: &'a str,
    dimension: usize,
    space: &'a str,
}

#[derive(Serialize)]
struct ChunkMetadata<'a> {
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    headings: &'a [String],
}

/// What every line has: whose it is, and whether it takes back all earlier ones of that path.
#[derive(Deserialize)]
pub(super) struct AnyLine<'a> {
    #[serde(borrow)]
    path: Cow<'a, str>,
    #[serde(default)]
    path_hex: Option<String>,
    #[serde(default)]
    pub(super) deleted: bool,
}

/// The line that takes back all earlier ones of a path.
#[derive(Serialize)]
pub(super) struct Tombstone<'a> {
    path: Cow<'a, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    path_hex: Option<String>,
    deleted: bool,
}

impl<'a> CatalogLine<'a> {
    pub(super) fn of(card: &'a Card) -> Self {
        Self {
            path: card.path.lossy(),
            path_hex: card.path.hex_if_lossy(),
            deleted: false,
            id: card.id,
            blob: Some(card.blob),
            role: role_name(card.role).into(),
            name: (&*card.name).into(),
            description: card.description.clone(),
            tags: card.tags.clone(),
            date: card.date.clone(),
            superseded: card.superseded.clone(),
            lines: card.chunks.clone(),
            problems: card.problems.clone(),
        }
    }

    pub(super) fn path(&self) -> Result<VaultPath, String> {
        read_path(&self.path, self.path_hex.as_deref())
    }

    /// The card, still without links.
    pub(super) fn read(self) -> Result<Card, String> {
        Ok(Card {
            id: self.id,
            path: self.path()?,
            blob: self.blob.ok_or("a line without a blob")?,
            role: role_from(&self.role).ok_or_else(|| format!("role `{}`", self.role))?,
            name: self.name.into(),
            description: self.description,
            tags: self.tags,
            date: self.date,
            superseded: self.superseded,
            chunks: self.lines,
            links: Box::default(),
            problems: self.problems,
        })
    }
}

impl<'a> GraphLine<'a> {
    pub(super) fn of(path: &'a VaultPath, links: &'a [Link]) -> Self {
        let (lossy, path_hex) = (path.lossy(), path.hex_if_lossy());
        Self { path: lossy, path_hex, links: links.into() }
    }

    pub(super) fn path(&self) -> Result<VaultPath, String> {
        read_path(&self.path, self.path_hex.as_deref())
    }

    pub(super) fn links(&self) -> Box<[Edge]> {
        self.links.iter().map(Edge::from).collect()
    }
}

impl<'a> ChunkLine<'a> {
    /// The line of a note's chunk number `at`.
    pub(super) fn of(
        path: &'a VaultPath,
        at: usize,
        chunk: &'a Chunk,
        vectors: Option<&'a AtRest<'a>>,
    ) -> Self {
        let embedding = vectors.and_then(|it| it.of(at));
        let space = vectors.filter(|_| embedding.is_some()).map(SpaceOfLine::of);
        Self {
            id: &chunk.id.0,
            text: &chunk.text,
            metadata: ChunkMetadata { headings: &chunk.headings },
            path: path.lossy(),
            path_hex: path.hex_if_lossy(),
            start_line: chunk.start_line,
            end_line: chunk.end_line,
            scores: serde_json::Map::new(),
            embedding,
            space,
        }
    }
}

impl<'a> SpaceOfLine<'a> {
    fn of(vectors: &'a AtRest<'a>) -> Self {
        let AtRest { identity, space, .. } = vectors;
        Self { model: &identity.model, dimension: identity.dimension, space }
    }
}

/// The line of a chunk with its embedding, where it has none of that space yet.
pub(super) fn completed(line: &[u8], at: usize, vectors: &AtRest) -> Option<Vec<u8>> {
    let mut fields: serde_json::Map<String, serde_json::Value> =
        serde_json::from_slice(line).ok()?;
    let space = serde_json::to_value(SpaceOfLine::of(vectors)).ok()?;
    if fields.get("_embedding_space") == Some(&space) {
        return None;
    }
    fields.insert("_embedding_f16_b64".to_owned(), vectors.of(at)?.into());
    fields.insert("_embedding_space".to_owned(), space);
    serde_json::to_vec(&fields).ok()
}

impl AnyLine<'_> {
    pub(super) fn path(&self) -> Result<VaultPath, String> {
        read_path(&self.path, self.path_hex.as_deref())
    }
}

impl<'a> Tombstone<'a> {
    pub(super) fn of(path: &'a VaultPath) -> Self {
        Self { path: path.lossy(), path_hex: path.hex_if_lossy(), deleted: true }
    }
}

/// A path from its text, or from its bytes where the text lost some.
fn read_path(text: &str, hex: Option<&str>) -> Result<VaultPath, String> {
    let path = match hex {
        Some(hex) => VaultPath::new(from_hex(hex).ok_or_else(|| format!("path_hex `{hex}`"))?),
        None => VaultPath::new(text),
    };
    path.map_err(|err| err.to_string())
}

fn is_false(flag: &bool) -> bool {
    !flag
}

fn role_name(role: Role) -> &'static str {
    match role {
        Role::Note => "note",
        Role::DayPage => "day_page",
        Role::OnRequest => "on_request",
        Role::Other => "other",
    }
}

fn role_from(name: &str) -> Option<Role> {
    [Role::Note, Role::DayPage, Role::OnRequest, Role::Other]
        .into_iter()
        .find(|it| role_name(*it) == name)
}

fn from_hex(hex: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u8>> =
        hex.chars().map(|it| it.to_digit(16).and_then(|it| u8::try_from(it).ok())).collect();
    let digits = digits?;
    let (pairs, rest) = digits.as_chunks::<2>();
    rest.is_empty().then(|| pairs.iter().map(|it| it[0] << 4 | it[1]).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_card_comes_back_from_its_lines() {
        for bytes in
            [&b"memory/2026-06-29/a \"b\".md"[..], b"bad\xff\xfename.md", "日記.md".as_bytes()]
        {
            let path = VaultPath::new(bytes).unwrap();
            let doc = NoteDoc {
                name: "A \u{2028} name".into(),
                description: Some("d\n\"e\"".into()),
                tags: vec!["x/y".into()],
                superseded: Some("new".into()),
                problems: ["line 3: key `a` twice".into()].into(),
                links: vec![Link {
                    kind: LinkKind::Wiki,
                    target: "b".into(),
                    anchor: Some("h".into()),
                    alias: Some("B".into()),
                    relation: None,
                    line: 3,
                    span: 0..5,
                }],
                ..NoteDoc::default()
            };
            let blob = BlobId::from_bytes(&[7; 20]).unwrap();
            let card = Card::new(9, &path, blob, Role::Note, &doc);
            let line = serde_json::to_vec(&CatalogLine::of(&card)).unwrap();
            let mut read = serde_json::from_slice::<CatalogLine>(&line).unwrap().read().unwrap();
            let line = serde_json::to_vec(&GraphLine::of(&path, &doc.links)).unwrap();
            let graph: GraphLine = serde_json::from_slice(&line).unwrap();
            read.links = graph.links();
            assert_eq!((graph.path().unwrap(), read), (path, card));
        }
    }
}
