//! Keeps the mount: makes it, and makes it again when somebody took it away or it could not be
//! made before.
//!
//! Takes the desk and a place, tells the house how the mount stands. A thread of its own, named
//! like this file.
//!
//! **Invariant:** a mount that is lost is named in `status` and tried again with growing pauses;
//! what stands in its place is never touched.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::base::clock;
use crate::base::trouble::told;
use crate::daemon::desk::Desk;
use crate::daemon::house::{House, MountState};
use crate::daemon::problems::Level;
use crate::mount::{self, Answers, MountError, Mounted, Wish};

/// How often is looked whether the mount is still there. It reads one file of the kernel's.
const HEARTBEAT: Duration = Duration::from_secs(4);

/// The pauses between two tries double from here to there.
const MIN_PAUSE: Duration = Duration::from_secs(2);
const MAX_PAUSE: Duration = Duration::from_secs(300);

/// A mount that lasted so long is not one that somebody keeps taking away.
const LASTING: Duration = Duration::from_secs(60);

/// The thread; dropping it without [`Keeper::stop`] unmounts too, a little later.
pub struct Keeper {
    stop: Sender<()>,
    thread: JoinHandle<()>,
}

impl Keeper {
    /// Makes the mount, if it can be made now, and keeps it.
    pub fn start(house: &House, desk: &Arc<Desk>, place: &Path) -> std::io::Result<Self> {
        let (stop, stopped) = channel();
        let mut work = Work {
            house: house.clone(),
            desk: Arc::clone(desk),
            place: place.to_owned(),
            record: house.dirs.mount_record(&house.vault),
            mounted: None,
            since: clock::now(),
            pause: MIN_PAUSE,
            in_the_way: false,
        };
        work.mount();
        let thread = std::thread::Builder::new()
            .name("keeper".to_owned())
            .spawn(move || work.run(&stopped))?;
        Ok(Self { stop, thread })
    }

    /// Unmounts.
    pub fn stop(self) {
        // Fails where the thread is gone already.
        let _sent = self.stop.send(());
        super::ending::join(self.thread);
    }
}

/// Puts away what a killed run left, where this run mounts nothing.
pub fn clear_left(house: &House) {
    if let Err(err) = mount::clear_left(&house.dirs.mount_record(&house.vault)) {
        let remedy = err.hint().unwrap_or_default();
        house.problems.report("mount", Level::Note, &told(&err), &remedy);
    }
}

struct Work {
    house: House,
    desk: Arc<Desk>,
    place: PathBuf,
    record: PathBuf,
    mounted: Option<Mounted>,
    /// When it was mounted.
    since: Instant,
    pause: Duration,
    /// Whether all that is wrong is what stands in its place: looking at that costs nothing.
    in_the_way: bool,
}

impl Work {
    fn run(mut self, stopped: &Receiver<()>) {
        loop {
            let wait = if self.mounted.is_some() { HEARTBEAT } else { self.pause };
            match stopped.recv_timeout(wait) {
                Err(RecvTimeoutError::Timeout) => self.beat(),
                Ok(()) | Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        self.house.mount.set(MountState::Off);
    }

    fn beat(&mut self) {
        match &self.mounted {
            Some(mounted) if mounted.is_serving() => {}
            Some(_) => {
                self.lost();
                if clock::now() - self.since >= LASTING {
                    self.pause = MIN_PAUSE;
                    self.mount();
                }
            }
            None => {
                self.pause = if self.in_the_way { HEARTBEAT } else { self.pause * 2 };
                self.pause = self.pause.min(MAX_PAUSE);
                self.mount();
            }
        }
    }

    fn lost(&mut self) {
        drop(self.mounted.take());
        let why =
            format!("`{}` was unmounted, or mounted over, by somebody else", self.place.display());
        let remedy = "It is mounted again by itself; without a mount: `remd up --no-mount`.";
        self.house.problems.report("mount", Level::Warning, &why, remedy);
        self.house.mount.set(MountState::Failed { path: self.place.clone(), why });
    }

    fn mount(&mut self) {
        let tally = &self.house.tally;
        let wish = Wish { place: &self.place, record: &self.record, tally };
        match mount::mount(Arc::clone(&self.desk) as Arc<dyn Answers>, wish) {
            Ok(mounted) => {
                let (path, device) = (self.place.clone(), mounted.device().map(str::to_owned));
                self.note_record(&mounted);
                self.mounted = Some(mounted);
                self.in_the_way = false;
                self.since = clock::now();
                self.house.problems.clear("mount");
                self.house.mount.set(MountState::Mounted { path, device });
            }
            Err(err) => {
                self.in_the_way = matches!(
                    err,
                    MountError::NotEmpty { .. }
                        | MountError::NotFolder { .. }
                        | MountError::Foreign { .. }
                        | MountError::Serving { .. }
                );
                let why = told(&err);
                let remedy = err.hint().unwrap_or_else(|| "Everything else works.".to_owned());
                self.house.problems.report("mount", Level::Warning, &why, &remedy);
                self.house.mount.set(MountState::Failed { path: self.place.clone(), why });
            }
        }
    }

    /// What a kill would leave behind is told where it could not be written down.
    fn note_record(&self, mounted: &Mounted) {
        let Some(err) = mounted.unrecorded() else {
            return self.house.problems.clear("mount-record");
        };
        self.house.problems.report(
            "mount-record",
            Level::Note,
            &format!("After a kill the mount's folder would stay behind: {}", told(err)),
            "Check who owns that folder; the mount works all the same.",
        );
    }
}
