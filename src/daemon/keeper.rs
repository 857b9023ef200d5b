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
use crate::daemon::committer::chain;
use crate::daemon::desk::Desk;
use crate::daemon::house::{House, MountState};
use crate::daemon::problems::Level;
use crate::mount::{self, Answers, Mounted};

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
            mounted: None,
            since: clock::now(),
            pause: MIN_PAUSE,
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
        super::boot::join(self.thread);
    }
}

struct Work {
    house: House,
    desk: Arc<Desk>,
    place: PathBuf,
    mounted: Option<Mounted>,
    /// When it was mounted.
    since: Instant,
    pause: Duration,
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
                self.pause = (self.pause * 2).min(MAX_PAUSE);
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
        match mount::mount(Arc::clone(&self.desk) as Arc<dyn Answers>, &self.place) {
            Ok(mounted) => {
                let (path, device) = (self.place.clone(), mounted.device().map(str::to_owned));
                self.mounted = Some(mounted);
                self.since = clock::now();
                self.house.problems.clear("mount");
                self.house.mount.set(MountState::Mounted { path, device });
            }
            Err(err) => {
                let why = chain(&err);
                let remedy = err.hint().unwrap_or_else(|| "Everything else works.".to_owned());
                self.house.problems.report("mount", Level::Warning, &why, &remedy);
                self.house.mount.set(MountState::Failed { path: self.place.clone(), why });
            }
        }
    }
}
