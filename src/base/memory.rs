//! How much memory is free.
//!
//! Takes what the kernel says, gives bytes. Reads two files of the kernel's; any thread.
//!
//! **Invariant:** what cannot be read is `None`, never nought.

use std::path::Path;

use crate::base::fs;

/// How many bytes this process can have without taking them from others.
pub fn free_bytes() -> Option<u64> {
    let of_machine = fs::read(Path::new("/proc/meminfo")).ok().and_then(|it| available(&it));
    let of_group = group_limit().and_then(|it| Some(it.0.saturating_sub(it.1?)));
    of_machine.into_iter().chain(of_group).min()
}

/// What the kernel's table says is free.
fn available(meminfo: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(meminfo).ok()?;
    let line = text.lines().find_map(|it| it.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// The limit of the control group that we are in, and what it uses; `None` where there is none.
fn group_limit() -> Option<(u64, Option<u64>)> {
    let number = |path: &Path| {
        let bytes = fs::read(path).ok()?;
        std::str::from_utf8(&bytes).ok()?.trim().parse::<u64>().ok()
    };
    let own = fs::read(Path::new("/proc/self/cgroup")).ok()?;
    let own = std::str::from_utf8(&own).ok()?.lines().find_map(|it| it.strip_prefix("0::/"))?;
    let folder = Path::new("/sys/fs/cgroup").join(own.trim());
    Some((number(&folder.join("memory.max"))?, number(&folder.join("memory.current"))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_available_is_read_from_the_table() {
        let table = b"MemTotal:       100 kB\nMemFree:  3 kB\nMemAvailable:   2048 kB\n";
        assert_eq!(available(table), Some(2 << 20));
        for odd in [&b"MemTotal: 1 kB\n"[..], b"MemAvailable: x kB", b"MemAvailable: 1", b"\xff"] {
            assert_eq!(available(odd), None);
        }
    }
}
