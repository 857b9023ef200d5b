//! How many inotify watches there may be.
//!
//! Takes nothing, gives the smallest limit the kernel names, and the command that raises it.
//! Blocking (two small reads of `/proc`), any thread.
//! **Invariant:** a limit that cannot be read is unknown, not zero.

use std::path::Path;

use crate::base::fs;

/// The limit that is met first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WatchLimit {
    pub watches: usize,
    /// The setting that holds it, as `sysctl` names it.
    pub setting: &'static str,
}

/// The limit on watches of this user, here and now.
pub fn watch_limit() -> Option<WatchLimit> {
    [
        ("fs.inotify.max_user_watches", "/proc/sys/fs/inotify/max_user_watches"),
        // A container's or user namespace's own limit.
        ("user.max_inotify_watches", "/proc/sys/user/max_inotify_watches"),
    ]
    .into_iter()
    .filter_map(|(setting, file)| Some(WatchLimit { watches: number_in(file)?, setting }))
    .min_by_key(|it| it.watches)
}

fn number_in(file: &str) -> Option<usize> {
    let text = fs::read(Path::new(file)).ok()?;
    std::str::from_utf8(&text).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_names_a_limit() {
        let limit = watch_limit().unwrap();
        assert!(limit.watches > 0 && limit.setting.contains("watches"));
    }
}
