//! Old objects removed for good.
//!
//! Takes a repository whose references have left some contents behind, lets the program `git` pack
//! what is still wanted and drop the rest. Committer thread only.

use std::ffi::OsString;
use std::time::Duration;

use gix::ObjectId;

use crate::base::fs;
use crate::base::process::{Input, Job, ProcessError, run_job};
use crate::history::History;
use crate::history::drivers::{environment, said};
use crate::history::purge::PurgeError;
use crate::history::{find, pointer};

/// How long packing everything may take.
const LIMIT: Duration = Duration::from_secs(3600);

impl History {
    /// Forgets where references have been, and removes what nothing refers to.
    pub(super) fn sweep(&mut self, blobs: &[ObjectId]) -> Result<usize, PurgeError> {
        // What LFS keeps beside the pointers; read while they are there.
        let large: Vec<_> = blobs
            .iter()
            .filter_map(|it| self.repo.find_blob(*it).ok())
            .filter_map(|it| Some(pointer::object_path(pointer::lfs(&it.data)?.1)))
            .collect();
        for name in ["ORIG_HEAD", "FETCH_HEAD", "AUTO_MERGE", "COMMIT_EDITMSG"] {
            fs::remove_file(&self.place.git_dir.join(name)).map_err(disk)?;
        }
        self.git_command(
            "reflog",
            &["expire", "--expire=now", "--expire-unreachable=now", "--all"],
        )?;
        let objects = self.repo.objects.store_ref().path().to_owned();
        // Written anew by git when it likes; it names commits that are gone.
        fs::remove_file(&objects.join("info/commit-graph")).map_err(disk)?;
        fs::remove_derived(&objects.join("info/commit-graphs")).map_err(disk)?;
        self.git_command("repack", &["-a", "-d", "-q", "--no-write-bitmap-index"])?;
        self.git_command("prune", &["--expire=now"])?;
        self.repo = find::reopen(&self.place).map_err(PurgeError::from)?;
        let is_left = |it: &&ObjectId| self.repo.try_find_header(**it).is_ok_and(|it| it.is_some());
        let left = blobs.iter().filter(is_left).count();
        if left == 0 {
            for path in large {
                let path = self.place.common_dir.join("lfs").join(path);
                fs::remove_file(&path).map_err(disk)?;
            }
        }
        Ok(left)
    }

    fn git_command(&self, command: &'static str, args: &[&str]) -> Result<(), PurgeError> {
        let settings = ["-c", "protocol.allow=never", "-c", "core.fsync=committed", command];
        let job = Job {
            args: settings.iter().chain(args).map(OsString::from).collect(),
            dir: Some(self.place.workdir.clone()),
            env: environment(),
            input: Input::Nothing,
            keep: 64 << 10,
            stop: self.options.stop.clone(),
            ..Job::new("git", LIMIT)
        };
        let failed = |said: String| PurgeError::Git { command, said };
        match run_job(&job) {
            Ok(output) if output.status.success() => Ok(()),
            Ok(output) => Err(failed(said(&output.stderr))),
            Err(ProcessError::Start { source, .. })
                if source.kind() == std::io::ErrorKind::NotFound =>
            {
                Err(failed("there is no program `git`".to_owned()))
            }
            Err(err) => Err(failed(err.to_string())),
        }
    }
}

fn disk(err: fs::PathError) -> PurgeError {
    PurgeError::Snapshot(err.into())
}
