//! Reads a store from its beginning to its end.
//!
//! Takes what a line means, gives the meanings in the order of the lines. Frames are unpacked and
//! understood beside each other, on as many threads as there are processors, a few at most: opening
//! an index reads every line. Blocking.
//!
//! **Invariant:** the order is that of the file, and of two faults the first one is told, whatever
//! thread was faster.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::sync_channel;
use std::thread;

use crate::base::store::{Store, StoreError};

/// More threads than this would only wait for memory.
const MOST_THREADS: usize = 4;

impl Store {
    /// Gives each line but headings and cursors to `each`, oldest first, with its number.
    pub fn replay(
        &self,
        mut each: impl FnMut(u64, &[u8]) -> Result<(), String>,
    ) -> Result<(), StoreError> {
        let mut number = 0;
        for at in 0..self.frames.len() {
            self.lines(at, &mut |line| {
                number += 1;
                each(number - 1, line)
            })?;
        }
        Ok(())
    }

    /// Gives what each line but headings and cursors means to `each`, oldest first.
    pub fn replay_understood<T: Send>(
        &self,
        understand: impl Fn(&[u8]) -> Result<T, String> + Sync,
        mut each: impl FnMut(T),
    ) -> Result<(), StoreError> {
        let read = |at: usize| {
            let mut understood = Vec::with_capacity(self.frames[at].records as usize);
            self.lines(at, &mut |line| {
                understood.push(understand(line)?);
                Ok(())
            })?;
            Ok(understood)
        };
        let threads = thread::available_parallelism().map_or(1, usize::from);
        let threads = threads.min(MOST_THREADS).min(self.frames.len());
        if threads < 2 {
            for at in 0..self.frames.len() {
                read(at)?.into_iter().for_each(&mut each);
            }
            return Ok(());
        }
        let (next, stop) = (AtomicUsize::new(0), AtomicBool::new(false));
        thread::scope(|scope| {
            let (sender, receiver) = sync_channel(threads * 2);
            for _ in 0..threads {
                let sender = sender.clone();
                scope.spawn(|| {
                    let sender = sender;
                    while !stop.load(Ordering::Relaxed) {
                        let at = next.fetch_add(1, Ordering::Relaxed);
                        // Nobody listens any more where a frame before was at fault.
                        if at >= self.frames.len() || sender.send((at, read(at))).is_err() {
                            return;
                        }
                    }
                });
            }
            drop(sender);
            let (mut wanted, mut early) = (0, BTreeMap::new());
            for (at, lines) in receiver {
                early.insert(at, lines);
                while let Some(lines) = early.remove(&wanted) {
                    let lines: Result<Vec<T>, StoreError> = lines;
                    match lines {
                        Ok(lines) => lines.into_iter().for_each(&mut each),
                        Err(err) => {
                            stop.store(true, Ordering::Relaxed);
                            return Err(err);
                        }
                    }
                    wanted += 1;
                }
            }
            Ok(())
        })
    }

    /// Checks the hash of every frame, without decoding.
    pub fn verify(&self) -> Result<(), StoreError> {
        self.frames.iter().try_for_each(|frame| self.read_frame(frame).map(drop))
    }

    /// The lines of one frame but its heading and its cursor.
    fn lines(
        &self,
        at: usize,
        each: &mut dyn FnMut(&[u8]) -> Result<(), String>,
    ) -> Result<(), StoreError> {
        let frame = &self.frames[at];
        let raw = self.decode(frame)?;
        let mut lines: Vec<&[u8]> =
            raw.split(|it| *it == b'\n').filter(|it| !it.is_empty()).collect();
        if frame.has_cursor {
            lines.pop();
        }
        let mut lines = lines.into_iter().skip(usize::from(at == 0));
        lines.try_for_each(each).map_err(|why| self.corrupt(why))
    }
}

#[cfg(test)]
mod tests {
    use crate::base::store::{Batch, Heading, Store};

    #[test]
    fn what_lines_mean_comes_in_their_order_and_the_first_fault_is_told() {
        let dir = tempfile::tempdir().unwrap();
        let heading = Heading { format: "t".into(), version: 1, generation: "g".into() };
        let mut store = Store::create(&dir.path().join("s.jsonl.zst"), &heading).unwrap();
        for part in 0..40_u64 {
            let mut batch = Batch::default();
            (0..25).for_each(|it| batch.push(&(part * 25 + it)));
            store.append(batch, (part % 3 == 2).then_some("here")).unwrap();
        }
        let read = |line: &[u8]| -> Result<u64, String> {
            serde_json::from_slice(line).map_err(|err| err.to_string())
        };
        let mut found = Vec::new();
        store.replay_understood(read, |it| found.push(it)).unwrap();
        assert_eq!(found, (0..1000).collect::<Vec<u64>>());
        let mut found = Vec::new();
        let refuse = |line: &[u8]| match read(line)? {
            it @ (501 | 900) => Err(format!("not {it}")),
            it => Ok(it),
        };
        let err = store.replay_understood(refuse, |it| found.push(it)).unwrap_err();
        assert!(err.to_string().contains("not 501"), "{err}");
        assert_eq!(found, (0..500).collect::<Vec<u64>>());
    }
}
