//! Loose objects into packs.
//!
//! Takes a vault, gives what came of it. Git does the work, as children that step back for
//! everybody else: `git pack-objects` packs what lies loose, whether something refers to it or not,
//! `git prune-packed` removes what a pack has. Blocking, any thread but the committer's; reads and
//! writes beside it go on.
//!
//! Not `git gc`: that deletes what nothing refers to. Not `git maintenance`: it has no word for a
//! Git that is older, and one that is killed leaves its lock, which turns it off for good.
//!
//! **Invariant:** nothing is deleted but what a pack has that is durable. What a kill leaves lies
//! in one folder of ours, whose name git's own `gc` sweeps too.
//! **Invariant:** nothing is fetched, no setting is written, and a person's `gc.auto = 0` or
//! `maintenance.auto = false` is a no.

use std::ffi::OsString;
use std::fs::Metadata;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::base::fault;
use crate::base::fs::{self, PathError};
use crate::base::process::{Input, Job, Output, ProcessError, Stop, run_job};
use crate::history::drivers::{environment, said};
use crate::history::error::GitError;
use crate::history::find::{OpenError, find};
use crate::history::place::{Place, lock_of};
use crate::history::{busy, lock};

/// From so many loose objects on git packs them, where `gc.auto` says nothing else.
const GIT_AUTO: i64 = 6700;
/// The fan-out folder that stands for all 256, as in git.
const SAMPLE: &str = "17";
/// A batch ends at so many objects or bytes: each is done within [`LIMIT`].
const BATCH: usize = 50_000;
const BATCH_BYTES: u64 = 1 << 30;
/// A lock as old as this that nobody has open was left by a git that was killed; packing does not
/// touch what it stood for.
const STALE: Duration = Duration::from_secs(3600);
/// For each of the two children.
const LIMIT: Duration = Duration::from_secs(900);
/// What our folders among the objects begin with. Git sweeps what begins with `tmp_objdir-`.
const FOLDER: &str = "tmp_objdir-remd-";

/// A little memory, and all on the disk before anything is deleted, whatever the user's settings.
const SETTINGS: [&str; 6] = [
    "core.fsync=committed",
    "core.fsyncMethod=fsync",
    "pack.threads=1",
    "pack.windowMemory=64m",
    "pack.deltaCacheSize=32m",
    "protocol.allow=never",
];

/// What packing came to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Packing {
    /// There is little that is loose, or the user's settings say no.
    NotDue,
    /// Something is in the way, which passes.
    Waits(String),
    /// So many objects were loose.
    Done(usize),
}

/// Why loose objects stay loose.
#[derive(Debug, thiserror::Error)]
pub enum PackError {
    #[error("`git` is not installed")]
    NoGit,
    #[error("`git {command}` failed{said}")]
    Failed { command: &'static str, said: String },
    #[error("{left} loose objects stay, although a pack has them")]
    Left { left: usize },
    #[error(transparent)]
    Process(ProcessError),
    #[error(transparent)]
    Open(#[from] OpenError),
    #[error(transparent)]
    Git(#[from] GitError),
    #[error(transparent)]
    Disk(#[from] PathError),
}

impl PackError {
    /// What the person at the keyboard can do about it.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::NoGit => "sudo apt install git",
            _ => {
                "Commits go on; it is tried again by itself. `git fsck` says whether an object is damaged, `git gc` packs by hand."
            }
        }
    }
}

/// Packs the loose objects of the repository that holds `root`, where they are many.
pub fn pack_loose(root: &Path, stop: &Stop) -> Result<Packing, PackError> {
    let (repo, place) = find(root)?;
    let config = repo.config_snapshot();
    let most = config.integer("gc.auto").unwrap_or(GIT_AUTO);
    let is_off = config.boolean("maintenance.auto") == Some(false)
        || config.boolean("extensions.preciousObjects") == Some(true);
    let objects = repo.objects.store_ref().path().to_owned();
    let work = Work { place, objects, hex: repo.object_hash().len_in_hex(), stop: stop.clone() };
    let Some(most) = usize::try_from(most).ok().filter(|it| *it > 0 && !is_off) else {
        return Ok(Packing::NotDue);
    };
    let mut done = 0;
    // Each round takes what the one before it has left; edits beside us never keep us here.
    while done == 0 || !stop.is_set() {
        if work.estimate()? < most {
            break;
        }
        if let Some(why) = work.in_the_way() {
            return Ok(Packing::Waits(why));
        }
        let batch = work.loose()?;
        work.pack(&batch.ids)?;
        done += batch.ids.len();
        if batch.is_all {
            break;
        }
    }
    Ok(if done == 0 { Packing::NotDue } else { Packing::Done(done) })
}

/// Removes what an agent that was killed while it packed has left.
pub fn clear_packing(root: &Path) -> Result<(), PackError> {
    let (repo, _) = find(root)?;
    for entry in fs::read_dir(repo.objects.store_ref().path())? {
        let name = entry.file_name();
        let Some(pid) = name.to_str().and_then(|it| it.strip_prefix(FOLDER)) else { continue };
        // Another vault of the same repository may have an agent, too.
        let is_ours = pid.parse() == Ok(std::process::id());
        if is_ours || fs::lstat_if_there(&Path::new("/proc").join(pid))?.is_none() {
            fs::remove_derived(&entry.path())?;
        }
    }
    Ok(())
}

struct Work {
    place: Place,
    objects: PathBuf,
    /// Digits of an object's name.
    hex: usize,
    stop: Stop,
}

/// Loose objects to be packed together.
struct Batch {
    ids: Vec<String>,
    is_all: bool,
}

impl Work {
    /// About how many objects are loose, as git estimates it.
    fn estimate(&self) -> Result<usize, PathError> {
        Ok(self.names(SAMPLE)?.len() * 256)
    }

    /// The objects in a fan-out folder: the rest of their names.
    fn names(&self, fan: &str) -> Result<Vec<(String, Metadata)>, PathError> {
        let entries = match fs::read_dir(&self.objects.join(fan)) {
            Err(err) if err.is_absent() => return Ok(Vec::new()),
            entries => entries?,
        };
        let object = |entry: std::fs::DirEntry| {
            let name = entry.file_name().into_string().ok()?;
            let is_hex = |it: u8| matches!(it, b'0'..=b'9' | b'a'..=b'f');
            let is_object = name.len() + 2 == self.hex && name.bytes().all(is_hex);
            // One that is gone by now is no concern of ours.
            is_object.then_some(())?;
            Some((name, entry.metadata().ok()?))
        };
        Ok(entries.into_iter().filter_map(object).collect())
    }

    fn loose(&self) -> Result<Batch, PathError> {
        let mut batch = Batch { ids: Vec::new(), is_all: true };
        let mut bytes = 0;
        for fan in 0..=u8::MAX {
            let fan = format!("{fan:02x}");
            for (name, meta) in self.names(&fan)? {
                if batch.ids.len() >= BATCH || bytes >= BATCH_BYTES {
                    batch.is_all = false;
                    return Ok(batch);
                }
                bytes += meta.len();
                batch.ids.push(format!("{fan}{name}"));
            }
        }
        Ok(batch)
    }

    /// What a person is in the middle of.
    fn in_the_way(&self) -> Option<String> {
        if let Some(operation) = busy::operation(&self.place) {
            return Some(operation.to_string());
        }
        let locked = [
            lock_of(&self.place.index()),
            lock_of(&self.place.git_dir.join("HEAD")),
            lock_of(&self.place.common_dir.join("packed-refs")),
            lock_of(&self.objects.join("maintenance")),
        ];
        let held =
            lock::present(locked).into_iter().find(|it| it.age < STALE || it.holder.is_some());
        if let Some(held) = held {
            return Some(format!("`{}` is there", held.path.display()));
        }
        if let Some(pid) = busy::git_at_objects(&self.place.workdir) {
            return Some(format!("a git command is at work (process {pid})"));
        }
        let err = fs::try_write_in(&self.objects).err()?;
        Some(format!("{err}: {}", err.source))
    }

    fn pack(&self, ids: &[String]) -> Result<(), PackError> {
        let folder = self.objects.join(format!("{FOLDER}{}", std::process::id()));
        fs::remove_derived(&folder)?;
        let packed = self.pack_in(&folder, ids);
        let removed = fs::remove_derived(&folder);
        packed?;
        removed?;
        self.prune(ids)
    }

    /// Makes the packs in a folder of ours, as git does with what is pushed, and then moves them.
    fn pack_in(&self, folder: &Path, ids: &[String]) -> Result<(), PackError> {
        fs::create_dir(folder)?;
        fs::create_dir(&folder.join("info"))?;
        fs::create_dir(&folder.join("pack"))?;
        // From here all other objects are seen: the folder lies among them.
        fs::write_atomic(&folder.join("info/alternates"), b"..\n")?;
        let mut list = ids.join("\n");
        list.push('\n');
        let args = ["-q", "--incremental", "--non-empty"].map(OsString::from);
        let base = folder.join("pack/pack").into_os_string();
        let input = Input::Bytes(list.into_bytes().into());
        self.git("pack-objects", args.into_iter().chain([base]), input, Some(folder))?;
        fault::hold("packing.before_move");
        let into = self.objects.join("pack");
        self.place.shared.create_dir_all(&into)?;
        let mut files: Vec<_> = fs::read_dir(&folder.join("pack"))?;
        // A pack is one as soon as its index is there: that comes last.
        files.sort_by_key(|it| it.path().extension().map(|it| (it == "idx", it != "pack")));
        for file in files {
            fs::rename(&file.path(), &into.join(file.file_name()))?;
        }
        Ok(fs::sync_dir(&into)?)
    }

    /// Removes what the packs have.
    fn prune(&self, ids: &[String]) -> Result<(), PackError> {
        fault::hold("packing.before_prune");
        self.git("prune-packed", ["-q".into()], Input::Nothing, None)?;
        let is_there = |id: &&String| {
            let (fan, name) = id.split_at(2);
            fs::lstat_if_there(&self.objects.join(fan).join(name)).is_ok_and(|it| it.is_some())
        };
        // A few may have been written again meanwhile.
        let left = ids.iter().filter(is_there).count();
        if left > ids.len() / 2 {
            return Err(PackError::Left { left });
        }
        Ok(())
    }

    fn git(
        &self,
        command: &'static str,
        args: impl IntoIterator<Item = OsString>,
        input: Input,
        objects: Option<&Path>,
    ) -> Result<Output, PackError> {
        let mut env = environment();
        env.push(("LC_ALL".into(), Some("C".into())));
        env.push(("GIT_NO_LAZY_FETCH".into(), Some("1".into())));
        if let Some(objects) = objects {
            env.retain(|it| it.0 != "GIT_OBJECT_DIRECTORY");
            env.push(("GIT_OBJECT_DIRECTORY".into(), Some(objects.into())));
        }
        let settings = SETTINGS.iter().flat_map(|it| ["-c".into(), OsString::from(it)]);
        let job = Job {
            args: settings.chain([command.into()]).chain(args).collect(),
            dir: Some(self.place.workdir.clone()),
            env,
            input,
            keep: 64 << 10,
            stop: self.stop.clone(),
            is_background: true,
            ..Job::new("git", LIMIT)
        };
        match run_job(&job) {
            Ok(output) if output.status.success() => Ok(output),
            Ok(output) => Err(PackError::Failed { command, said: said(&output.stderr) }),
            Err(ProcessError::Start { source, .. })
                if source.kind() == std::io::ErrorKind::NotFound =>
            {
                Err(PackError::NoGit)
            }
            Err(err) => Err(PackError::Process(err)),
        }
    }
}
