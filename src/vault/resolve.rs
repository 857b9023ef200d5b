//! Where a link leads.
//!
//! Pure. Takes the set of the vault's paths ([`Names`]) and a link's target, gives a
//! [`Resolution`]: one rule for index, rename and display.
//!
//! The rule. A target is tried in three degrees: as written, then in another normal form, then
//! without case (see [`crate::vault::fold`]). In each degree a wikilink is tried as a path from the
//! vault's root, then as the end of a path (`README`, `notes/README`); a Markdown link first as a
//! path from the note's folder, then from the root, then as the end of a path. `/x` is tried from
//! the root only, `./x` and `../x` from the note's folder only. In every place the name is taken
//! as written, then with `.md`, then with `.markdown`.
//!
//! Where several ends of paths fit as written: the one in the note's own folder, else the one with
//! the fewest segments, else the first by bytes; the link is reported as ambiguous with all of
//! them. Where only case-insensitive matches are left, a single one is taken; two or more are
//! ambiguous and none is taken. Of two names that differ in their normal form alone, the one
//! spelled as the link is taken (else the first by bytes), and the link is reported as ambiguous.
//!
//! [`keys_of_link`] and [`key_of_path`] let an index resolve lazily: a path that comes or goes can
//! only change links that share its key.
//!
//! **Invariant:** what [`Names`] answers depends on the set of paths only, not on how it came
//! about (property-tested).

use std::borrow::Cow;

use crate::base::cow::CowMap;
use crate::vault::fold::{folded, normal};
use crate::vault::link::LinkKind;
use crate::vault::path::VaultPath;

/// The most candidates that an ambiguous link reports.
pub const MAX_CANDIDATES: usize = 20;

/// Where a link leads.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Resolution {
    To(VaultPath),
    /// More than one path fits; `candidates` are in order of preference, at most
    /// [`MAX_CANDIDATES`], and `chosen`, where there is a choice, is the first of them.
    Ambiguous {
        chosen: Option<VaultPath>,
        candidates: Vec<VaultPath>,
    },
    /// No path fits: a wish, or a mistake.
    Missing,
    /// A link without a target (`[[#heading]]`) leads to the note it stands in.
    SelfLink,
}

impl Resolution {
    /// The path that a reader who follows the link gets to, if it leads to another place.
    pub fn path(&self) -> Option<&VaultPath> {
        match self {
            Self::To(path) | Self::Ambiguous { chosen: Some(path), .. } => Some(path),
            Self::Ambiguous { chosen: None, .. } | Self::Missing | Self::SelfLink => None,
        }
    }
}

/// What the names that may answer to each other have in common; never stored.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct NameKey(u64);

/// The key of a path: its name without case, normal form and Markdown extension.
pub fn key_of_path(path: &VaultPath) -> NameKey {
    key_of_file(path.file_name())
}

/// The key of every path that ends in this file name.
pub fn key_of_file(name: &[u8]) -> NameKey {
    key_of_name(markdown_stem(name).map_or(name, |it| it.0))
}

/// The keys of the paths that a link may lead to; none for a link that leads nowhere else.
pub fn keys_of_link(target: &str) -> impl Iterator<Item = NameKey> {
    let name = target.trim().rsplit('/').next().unwrap_or_default().as_bytes();
    let whole = (!matches!(name, b"" | b"." | b"..")).then_some(name);
    let stem = whole.and_then(markdown_stem).map(|it| it.0);
    whole.into_iter().chain(stem).map(key_of_name)
}

/// The vault's paths, by name.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Names {
    /// Each sorted by number of segments, then bytes; never empty.
    buckets: CowMap<NameKey, Vec<VaultPath>>,
    count: usize,
}

impl Names {
    /// Adds a path; says whether it was new.
    pub fn insert(&mut self, path: VaultPath) -> bool {
        let key = key_of_path(&path);
        let bucket = self.buckets.get(&key).map(Vec::as_slice).unwrap_or_default();
        let Err(at) = bucket.binary_search_by(|it| rank(it).cmp(&rank(&path))) else {
            return false;
        };
        let mut bucket = self.buckets.remove(&key).unwrap_or_else(|| Vec::with_capacity(1));
        bucket.insert(at, path);
        self.buckets.insert(key, bucket);
        self.count += 1;
        true
    }

    /// Takes a path out; says whether it was there.
    pub fn remove(&mut self, path: &VaultPath) -> bool {
        let key = key_of_path(path);
        let bucket = self.buckets.get(&key).map(Vec::as_slice).unwrap_or_default();
        let Ok(at) = bucket.binary_search_by(|it| rank(it).cmp(&rank(path))) else { return false };
        let mut bucket = self.buckets.remove(&key).unwrap_or_default();
        bucket.remove(at);
        if !bucket.is_empty() {
            self.buckets.insert(key, bucket);
        }
        self.count -= 1;
        true
    }

    pub fn contains(&self, path: &VaultPath) -> bool {
        self.buckets
            .get(&key_of_path(path))
            .is_some_and(|it| it.binary_search_by(|it| rank(it).cmp(&rank(path))).is_ok())
    }

    pub fn len(&self) -> usize {
        self.count
    }

    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The paths, in no order.
    pub fn iter(&self) -> impl Iterator<Item = &VaultPath> {
        self.buckets.iter().flat_map(|it| it.1)
    }

    /// Where a link with this target leads that stands in the note `from`.
    pub fn resolve(&self, from: &VaultPath, target: &str, kind: LinkKind) -> Resolution {
        let target = target.trim();
        if target.is_empty() {
            return Resolution::SelfLink;
        }
        let pool: Vec<&Vec<VaultPath>> =
            keys_of_link(target).filter_map(|it| self.buckets.get(&it)).collect();
        if pool.is_empty() {
            return Resolution::Missing;
        }
        let shapes = shapes(from, target, kind);
        // What most links are, without a look at every path of that name.
        if let Some(first) = shapes.first().filter(|it| it.whole)
            && let Some(path) = self.exactly(&first.segments)
        {
            return self.settled(from, vec![path]);
        }
        for degree in [Degree::Bytes, Degree::Normal] {
            for shape in &shapes {
                let found = matches(&pool, shape, degree);
                if !found.is_empty() {
                    return self.settled(from, found);
                }
            }
        }
        // A wikilink from the root is also the end of a path: only one of the two is needed.
        let widest = shapes.iter().filter(|it| kind == LinkKind::Markdown || it.is_last);
        for shape in widest {
            match matches(&pool, shape, Degree::Folded).as_slice() {
                [] => {}
                [one] => return Resolution::To((*one).clone()),
                several => {
                    let candidates = several.iter().take(MAX_CANDIDATES).copied().cloned();
                    return Resolution::Ambiguous {
                        chosen: None,
                        candidates: candidates.collect(),
                    };
                }
            }
        }
        Resolution::Missing
    }

    /// The paths whose name is the link's but for case, normal form and folder, by segments and
    /// bytes.
    pub fn alike(&self, target: &str) -> Vec<&VaultPath> {
        let name = target.trim().rsplit('/').next().unwrap_or_default();
        let name = folded(name.as_bytes());
        let pools = keys_of_link(target).filter_map(|it| self.buckets.get(&it));
        let mut found: Vec<&VaultPath> = pools
            .flatten()
            .filter(|it| fits(it.file_name(), &name, Degree::Folded).is_some())
            .collect();
        found.sort_by(|a, b| rank(a).cmp(&rank(b)));
        found.dedup();
        found
    }

    /// The path of these segments, as it is or with a Markdown extension in lower case.
    fn exactly(&self, segments: &[&[u8]]) -> Option<&VaultPath> {
        ["", ".md", ".markdown"].iter().find_map(|extension| {
            let path = [&segments.join(&b'/'), extension.as_bytes()].concat();
            let path = VaultPath::new(path).ok()?;
            let bucket = self.buckets.get(&key_of_path(&path))?;
            let at = bucket.binary_search_by(|it| rank(it).cmp(&rank(&path))).ok()?;
            bucket.get(at)
        })
    }

    /// The choice among paths that fit but for their normal form.
    fn settled<'a>(&'a self, from: &VaultPath, mut found: Vec<&'a VaultPath>) -> Resolution {
        // Stable: below it, fewest segments and then bytes stay.
        found.sort_by_key(|it| folder_of(it) != folder_of(from));
        if let [one] = found.as_slice()
            && !one.as_bytes().is_ascii()
        {
            let one = *one;
            let twins = self.buckets.get(&key_of_path(one)).into_iter().flatten();
            found.extend(
                twins.filter(|it| *it != one && normal(it.as_bytes()) == normal(one.as_bytes())),
            );
        }
        match found.as_slice() {
            [] => Resolution::Missing,
            [one] => Resolution::To((*one).clone()),
            [first, ..] => Resolution::Ambiguous {
                chosen: Some((*first).clone()),
                candidates: found.iter().take(MAX_CANDIDATES).copied().cloned().collect(),
            },
        }
    }
}

impl FromIterator<VaultPath> for Names {
    fn from_iter<I: IntoIterator<Item = VaultPath>>(paths: I) -> Self {
        let mut keyed: Vec<(NameKey, VaultPath)> =
            paths.into_iter().map(|it| (key_of_path(&it), it)).collect();
        keyed.sort_unstable_by(|(a, one), (b, other)| {
            a.cmp(b).then_with(|| rank(one).cmp(&rank(other)))
        });
        keyed.dedup();
        let count = keyed.len();
        let buckets = keyed
            .chunk_by(|a, b| a.0 == b.0)
            .map(|it| (it[0].0, it.iter().map(|it| it.1.clone()).collect()))
            .collect();
        Self { buckets, count }
    }
}

/// How closely a name must fit.
#[derive(Clone, Copy)]
enum Degree {
    Bytes,
    Normal,
    Folded,
}

impl Degree {
    fn of(self, name: &[u8]) -> Cow<'_, [u8]> {
        match self {
            Self::Bytes => Cow::Borrowed(name),
            Self::Normal => normal(name),
            Self::Folded => folded(name),
        }
    }
}

/// One way to read a target.
struct Shape<'a> {
    segments: Vec<&'a [u8]>,
    /// Whether it is a whole path, not the end of one.
    whole: bool,
    is_last: bool,
}

/// The ways to read a target, in order; none where it leaves the vault.
fn shapes<'a>(from: &'a VaultPath, target: &'a str, kind: LinkKind) -> Vec<Shape<'a>> {
    let mut folder: Vec<&[u8]> = from.components().collect();
    folder.pop();
    let dotted = matches!(target.split('/').next(), Some("." | ".."));
    let relative = walked(folder, target).map(|it| (it, true));
    let rooted = walked(Vec::new(), target);
    let end = rooted.clone().map(|it| (it, false));
    let rooted = rooted.map(|it| (it, true));
    let readings = if target.starts_with('/') {
        vec![rooted]
    } else if dotted {
        vec![relative]
    } else if kind == LinkKind::Markdown {
        vec![relative, rooted, end]
    } else {
        vec![rooted, end]
    };
    let last = readings.len() - 1;
    let readings = readings.into_iter().enumerate();
    readings
        .filter_map(|(at, it)| {
            it.map(|(segments, whole)| Shape { segments, whole, is_last: at == last })
        })
        .collect()
}

/// The segments one gets to from `base`; `None` above the root or for a folder.
pub(in crate::vault) fn walked<'a>(
    mut base: Vec<&'a [u8]>,
    target: &'a str,
) -> Option<Vec<&'a [u8]>> {
    if target.ends_with('/') {
        return None;
    }
    for segment in target.split('/') {
        match segment {
            "" | "." => {}
            ".." => {
                base.pop()?;
            }
            it => base.push(it.as_bytes()),
        }
    }
    (!base.is_empty()).then_some(base)
}

/// The paths that fit best: as written, else with `.md`, else with `.markdown`; by segments, then
/// bytes.
fn matches<'a>(
    pool: &[&'a Vec<VaultPath>],
    shape: &Shape<'_>,
    degree: Degree,
) -> Vec<&'a VaultPath> {
    let wanted: Vec<Cow<'_, [u8]>> = shape.segments.iter().map(|it| degree.of(it)).collect();
    let Some((name, folders)) = wanted.split_last() else { return Vec::new() };
    let mut best = u8::MAX;
    let mut found: Vec<&VaultPath> = Vec::new();
    for path in pool.iter().copied().flatten() {
        let Some(extension) = fits(path.file_name(), name, degree) else { continue };
        if extension > best || !folders_fit(path, folders, shape.whole, degree) {
            continue;
        }
        if extension < best {
            found.clear();
            best = extension;
        }
        found.push(path);
    }
    if pool.len() > 1 {
        found.sort_by(|a, b| rank(a).cmp(&rank(b)));
    }
    found
}

/// Whether a file's name answers to `wanted`: 0 as it is, 1 without `.md`, 2 without `.markdown`.
fn fits(file_name: &[u8], wanted: &[u8], degree: Degree) -> Option<u8> {
    if *degree.of(file_name) == *wanted {
        return Some(0);
    }
    let (stem, extension) = markdown_stem(file_name)?;
    (*degree.of(stem) == *wanted).then_some(extension)
}

fn folders_fit(path: &VaultPath, wanted: &[Cow<'_, [u8]>], whole: bool, degree: Degree) -> bool {
    let mut folders = path.components().rev().skip(1);
    let fit = wanted.iter().rev().all(|it| folders.next().is_some_and(|own| degree.of(own) == *it));
    fit && (!whole || folders.next().is_none())
}

/// A name without its Markdown extension, and 1 for `.md`, 2 for `.markdown`.
pub(in crate::vault) fn markdown_stem(name: &[u8]) -> Option<(&[u8], u8)> {
    let dot = name.iter().rposition(|it| *it == b'.').filter(|it| *it > 0)?;
    let (stem, extension) = (&name[..dot], &name[dot + 1..]);
    if extension.eq_ignore_ascii_case(b"md") {
        Some((stem, 1))
    } else if extension.eq_ignore_ascii_case(b"markdown") {
        Some((stem, 2))
    } else {
        None
    }
}

fn folder_of(path: &VaultPath) -> &[u8] {
    let bytes = path.as_bytes();
    &bytes[..bytes.len() - path.file_name().len()]
}

fn rank(path: &VaultPath) -> (usize, &[u8]) {
    let bytes = path.as_bytes();
    (bytes.iter().filter(|it| **it == b'/').count(), bytes)
}

/// FNV-1a over the folded name: two names may share a key by chance, which costs a look.
fn key_of_name(name: &[u8]) -> NameKey {
    NameKey(folded(name).iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    }))
}

#[cfg(test)]
mod tests;
