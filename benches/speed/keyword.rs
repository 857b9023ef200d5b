//! The index: built from nothing beside bare tantivy, and asked.
//!
//! The library's own calls; the notes come from the commit, as for an agent.

use std::error::Error;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use remd::daemon::changes::{indexed, update};
use remd::history::Reader;
use remd::index::bare::Bare;
use remd::index::{Index, IndexReader, Update};
use remd::search::{Query, Rules, search};
use remd::vault::note::read_note;
use remd::vault::role::role_of;
use remd::vault::{BlobId, Layout, VaultPath};

use crate::table::{self, Series};
use crate::vault::Vault;

type Done<T> = Result<T, Box<dyn Error>>;

/// What a thread of tantivy may gather before it writes a segment, as the agent has it.
pub const BUDGET: usize = 20 << 20;

/// Builds the index of a committed vault in `index`, and a bare one in `bare`.
pub fn build(vault: &Vault, root: &Path) -> Done<()> {
    let layout = Layout::default();
    let mut bare_one = Series::default();
    let mut bare_two = Series::default();
    let mut ours = Series::default();
    let mut reading = Series::default();
    // A large one takes minutes, and its figures vary less.
    let rounds = if vault.notes.len() > 20_000 { 1 } else { 3 };
    for round in 0..rounds {
        reading.time(|| read_all(vault, &mut |_, _| Ok(())))?;
        for (threads, series) in [(1, &mut bare_one), (2, &mut bare_two)] {
            let dir = root.join("bare");
            if dir.exists() {
                fs::remove_dir_all(&dir)?;
            }
            fs::create_dir(&dir)?;
            series.time(|| -> Done<()> {
                let mut bare = Bare::create(&dir, threads, BUDGET)?;
                read_all(vault, &mut |path, doc| {
                    Ok(bare.put(path, blob(path), role_of(path, &layout), doc)?)
                })?;
                bare.commit()?;
                Ok(bare.close()?)
            })?;
        }
        let dir = root.join("index");
        if round > 0 {
            fs::remove_dir_all(&dir)?;
        }
        fs::create_dir(&dir)?;
        ours.time(|| -> Done<()> {
            let reader = Reader::open(&vault.root)?;
            let head = reader.head()?.ok_or("no commit")?.commit;
            let (mut index, _) = Index::open(&dir, &layout)?;
            let notes = indexed(&reader, head, &layout)?;
            let mut build = index.begin_rebuild(notes.len())?;
            for (path, entry) in notes {
                if let Update::Put { path, blob, role, doc } =
                    update(&reader, path, Some(entry), &layout)?
                {
                    build.add(&path, blob, role, &doc)?;
                }
            }
            build.finish(head)?;
            Ok(())
        })?;
    }
    table::base("all notes read and cut, nothing kept", &reading);
    table::base("bare tantivy: all notes, 1 thread", &bare_one);
    table::base("bare tantivy: all notes, 2 threads", &bare_two);
    table::ours("all notes indexed, stores and graph (goal 2 x)", &ours, "tantivy", &bare_one);
    table::ours("  the same", &ours, "tantivy, 2 threads", &bare_two);
    Ok(())
}

/// Asks the index that was built for what is known to be in it.
pub fn ask(vault: &Vault, root: &Path) -> Done<()> {
    let layout = Layout::default();
    let mut open = Series::default();
    let view = open.time(|| -> Done<_> {
        let opened = IndexReader::open(&root.join("index"), &layout)?;
        let reader = opened.map_err(|why| why.to_string())?;
        let at = reader.cursors().first().copied();
        Ok(reader.view(Vec::new(), at)?)
    })?;
    let [mut first, mut again, mut grep] = <[Series; 3]>::default();
    let mut found = 0;
    for series in [&mut first, &mut again] {
        for (text, path) in &vault.queries {
            let results = series
                .time(|| search(&view, &Query::new(text.as_str()), Rules::default(), after(10)))?;
            found += usize::from(results.hits.iter().any(|it| it.path.as_path() == path));
        }
    }
    for (text, _) in vault.queries.iter().take(5) {
        let word = text.split(' ').next().unwrap_or_default();
        grep.time(|| {
            let mut grep = Command::new("grep");
            grep.args(["-rliw", "--exclude-dir=.git", word]).current_dir(&vault.root);
            grep.stdout(Stdio::null()).status()
        })?;
    }
    let share = 50.0 * found as f64 / vault.queries.len() as f64;
    table::base("grep -rliw of one word", &grep);
    table::ours("a query in process (goal: median 2, p99 10)", &first, "grep", &grep);
    table::ours("  the same queries again", &again, "grep", &grep);
    table::fact("  the note that the words are from is among the first 5", format!("{share:.0} %"));
    table::alone("the index opened by a command", &open, "");
    Ok(())
}

fn read_all(
    vault: &Vault,
    each: &mut dyn FnMut(&VaultPath, &remd::vault::NoteDoc) -> Done<()>,
) -> Done<()> {
    for path in &vault.notes {
        let bytes = fs::read(vault.root.join(path))?;
        let path = VaultPath::from_os(path)?;
        each(&path, &read_note(&path, &bytes))?;
    }
    Ok(())
}

/// Any 20 bytes: nothing asks a bare index for them.
fn blob(path: &VaultPath) -> BlobId {
    let mut bytes = [0; 20];
    for (at, byte) in path.as_bytes().iter().enumerate() {
        bytes[at % 20] ^= byte;
    }
    BlobId::from_bytes(&bytes).unwrap_or_else(|| unreachable!("20 bytes are an id"))
}

/// A deadline so many seconds from now.
pub fn after(seconds: u64) -> Instant {
    Instant::now() + Duration::from_secs(seconds)
}
