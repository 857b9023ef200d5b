//! Mounting and unmounting.
//!
//! Takes the answers and a place, gives a [`Mounted`] that serves until stopped or dropped.
//! Blocking; fuser brings its own threads.
//!
//! **Invariant:** what was mounted is unmounted: on stop, on drop, and after a kill by the next
//! start. A folder is removed only if it was made here and is empty.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use fuser::{Config, MountOption, Session, SessionACL, SessionUnmounter};

use crate::base::fs::{self, PathError};
use crate::base::latest::Latest;
use crate::mount::adapter::{Adapter, Owner};
use crate::mount::answers::Answers;
use crate::mount::errno;
use crate::mount::fs::VaultFs;
use crate::mount::mountpoint::{self, Place, SOURCE};
use crate::mount::page::Limits;
use crate::mount::record::{Left, Record};
use crate::mount::tally::Tally;

/// fuser's threads; none of them waits for an answer.
const THREADS: usize = 4;

/// How long the threads get to end after the unmount.
const END: Duration = Duration::from_secs(2);

const DEVICE: &str = "/dev/fuse";

/// Why there is no mount.
#[derive(Debug, thiserror::Error)]
pub enum MountError {
    #[error("There is no `/dev/fuse`")]
    NoDevice,
    #[error("`/dev/fuse` may not be opened")]
    DeviceClosed(#[source] io::Error),
    #[error("`fusermount3` is not installed")]
    NoHelper,
    #[error("`{}` lies in the vault `{}`", path.display(), vault.display())]
    InsideVault { path: PathBuf, vault: PathBuf },
    #[error("The vault `{}` lies in `{}`", vault.display(), path.display())]
    VaultInside { path: PathBuf, vault: PathBuf },
    #[error("`{}` is not empty", path.display())]
    NotEmpty { path: PathBuf },
    #[error("`{}` is not a folder", path.display())]
    NotFolder { path: PathBuf },
    /// A live mount of ours.
    #[error("Another agent serves `{}`", path.display())]
    Serving { path: PathBuf },
    #[error("Something else is mounted at `{}`: {what}", path.display())]
    Foreign { path: PathBuf, what: String },
    #[error(transparent)]
    Place(#[from] PathError),
    #[error("Cannot mount `{}`", path.display())]
    Mount { path: PathBuf, source: io::Error },
    #[error("Cannot unmount `{}`", path.display())]
    Unmount { path: PathBuf, source: io::Error },
}

impl MountError {
    /// Whether the same call may succeed later with nothing changed by hand.
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Serving { .. })
    }

    /// What the person at the keyboard can do about it.
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            Self::NoDevice => {
                "Load the module with `sudo modprobe fuse`; in a container, start it \
                               with `--device /dev/fuse --cap-add SYS_ADMIN`. Everything but the \
                               mount works without it (`--no-mount`)."
                    .to_owned()
            }
            Self::DeviceClosed(_) => "Let users open it: `sudo chmod 666 /dev/fuse`. Everything \
                                      but the mount works without it (`--no-mount`)."
                .to_owned(),
            Self::NoHelper => "Install it: `sudo apt install fuse3`.".to_owned(),
            Self::InsideVault { .. } | Self::VaultInside { .. } => {
                "Choose a folder beside the vault with `--mount DIR`.".to_owned()
            }
            Self::NotEmpty { .. } | Self::NotFolder { .. } => {
                "Move what is there away, or choose another place with `--mount DIR`.".to_owned()
            }
            Self::Serving { path } => format!(
                "Stop that agent, or choose another place with `--mount DIR`. If nobody answers \
                 there: `fusermount3 -uz {}`.",
                path.display()
            ),
            Self::Foreign { path, .. } => format!(
                "Unmount it with `umount {}`, or choose another place with `--mount DIR`.",
                path.display()
            ),
            Self::Place(err) => {
                format!("Check who owns `{}` and the folder it is in.", err.path.display())
            }
            Self::Mount { .. } => {
                "Where this user may not mount at all, use `--no-mount`.".to_owned()
            }
            Self::Unmount { path, .. } => {
                format!("Unmount it with `fusermount3 -uz {}`.", path.display())
            }
        })
    }
}

/// What to mount by.
#[derive(Clone, Copy, Debug)]
pub struct Wish<'a> {
    /// Where.
    pub place: &'a Path,
    /// The file that tells the next run what a killed one left.
    pub record: &'a Path,
    /// Who counts.
    pub tally: &'a Tally,
}

/// A served mount. Dropping it unmounts.
pub struct Mounted {
    left: Left,
    record: Record,
    unrecorded: Option<PathError>,
    device: Option<String>,
    unmounter: SessionUnmounter,
    server: Option<JoinHandle<io::Result<()>>>,
    ended: Latest<bool>,
}

/// Mounts the answers at the wished place.
pub fn mount(answers: Arc<dyn Answers>, wish: Wish<'_>) -> Result<Mounted, MountError> {
    mount_within(answers, wish, Limits::default())
}

/// The same with other limits.
pub(super) fn mount_within(
    answers: Arc<dyn Answers>,
    wish: Wish<'_>,
    limits: Limits,
) -> Result<Mounted, MountError> {
    check_device()?;
    let record = Record::at(wish.record);
    let place = mountpoint::prepare(answers.vault_root(), wish.place, &record)?;
    let left = place.left.clone();
    let mounted = serve(answers, place, record.clone(), wish.tally, limits);
    if mounted.is_err() {
        // The error that counts is the first one.
        let _removed = left.remove_folder().and_then(|()| record.erase());
    }
    mounted
}

/// Whether this user can mount at all, without trying.
pub fn check_device() -> Result<(), MountError> {
    let opened = fs::open_read_write(Path::new(DEVICE));
    match opened {
        Ok(_) => {}
        Err(err) if err.is_absent() || errno::is_no_device(&err.source) => {
            return Err(MountError::NoDevice);
        }
        Err(err) => return Err(MountError::DeviceClosed(err.source)),
    }
    if mountpoint::user() != 0 && !mountpoint::has_helper() {
        return Err(MountError::NoHelper);
    }
    Ok(())
}

impl Mounted {
    /// Where it is, with every symlink resolved.
    pub fn path(&self) -> &Path {
        &self.left.path
    }

    /// Why a kill would leave its folder behind, if it would.
    pub fn unrecorded(&self) -> Option<&PathError> {
        self.unrecorded.as_ref()
    }

    /// By which it is known again in the kernel's table, where it can be.
    pub fn device(&self) -> Option<&str> {
        self.device.as_deref()
    }

    /// Whether it still serves: somebody else may have unmounted it, or mounted over it.
    pub fn is_serving(&self) -> bool {
        self.server.as_ref().is_some_and(|it| !it.is_finished()) && self.is_there()
    }

    fn is_there(&self) -> bool {
        self.device.as_ref().is_none_or(|it| mountpoint::is_at(self.path(), it))
    }

    /// Unmounts, also while somebody uses it, and takes the folder away if it was made here.
    pub fn stop(mut self) -> Result<(), MountError> {
        self.unmount()
    }

    fn unmount(&mut self) -> Result<(), MountError> {
        let Some(server) = self.server.take() else { return Ok(()) };
        // What stands in its place when it is gone is not ours to unmount.
        if !server.is_finished() && self.is_there() {
            // Fails where somebody uses it; what counts is whether it is still there.
            let tried = self.unmounter.unmount();
            if self.device.is_some() && mountpoint::device_at(self.path()) == self.device {
                tracing::debug!(?tried, "the mount is in use and detached");
                mountpoint::detach(self.path())?;
            }
        }
        if self.ended.get() || self.ended.wait_newer(0, END).is_some() {
            match server.join() {
                Ok(Ok(())) => {}
                Ok(Err(err)) => tracing::debug!(%err, "the mount's server ended"),
                Err(_) => tracing::error!("the mount's server panicked"),
            }
        } else {
            // Whoever uses it still does; the threads end with the last of them.
            tracing::debug!("the mount is detached and still in use");
        }
        // Where this fails, the record tells the next run.
        if let Err(err) = self.left.remove_folder().and_then(|()| self.record.erase()) {
            tracing::debug!(%err, "the mount's folder");
        }
        Ok(())
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        if let Err(err) = self.unmount() {
            tracing::warn!(%err, "the mount stays behind");
        }
    }
}

fn serve(
    answers: Arc<dyn Answers>,
    place: Place,
    record: Record,
    tally: &Tally,
    limits: Limits,
) -> Result<Mounted, MountError> {
    let Place { left, unrecorded } = place;
    let path = left.path.as_path();
    let failed = |source| MountError::Mount { path: path.to_owned(), source };
    // SAFETY: getegid(2) takes nothing and can't fail.
    let owner = Owner { user: mountpoint::user(), group: unsafe { libc::getegid() } };
    let fs = VaultFs::new(answers, path.to_owned(), limits, tally.clone()).map_err(failed)?;
    let mut session = Session::new(Adapter { fs, owner }, path, &config()).map_err(failed)?;
    let device = mountpoint::device_at(path);
    let unmounter = session.unmount_callable();
    let ended = Latest::new(false);
    let end = ended.clone();
    let server = std::thread::Builder::new()
        .name("mount".to_owned())
        .spawn(move || {
            let result = session.run();
            end.set(true);
            result
        })
        .map_err(failed)?;
    let server = Some(server);
    Ok(Mounted { left, record, unrecorded, device, unmounter, server, ended })
}

/// No `default_permissions`: the kernel would ask for the attributes before each open, which costs a
/// round trip and would look like a stat. Who may come in at all is settled by the access rule.
fn config() -> Config {
    let mut config = Config::default();
    config.mount_options = vec![
        MountOption::FSName(SOURCE.to_owned()),
        MountOption::Subtype(SOURCE.to_owned()),
        MountOption::RO,
        MountOption::NoSuid,
        MountOption::NoDev,
        MountOption::NoExec,
        MountOption::NoAtime,
    ];
    config.acl = SessionACL::Owner;
    config.n_threads = Some(THREADS);
    config
}
