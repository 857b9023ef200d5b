//! Git's protocol with a long-running filter (`filter.NAME.process`).
//!
//! Takes the command and files, gives their filtered bytes. The child is killed when it keeps us
//! waiting past its limit, so that every step ends. On the thread of its driver.
//!
//! **Invariant:** after an error of the protocol nothing more is read from that child.

use std::io::{self, Read, Write};
use std::time::Duration;

use gix::bstr::{BStr, BString, ByteSlice as _};

use crate::base::process::{Input, Job, ProcessError, Talk};
use crate::history::drivers::{Direction, Fault, rewound, said};

/// The most that one packet carries.
const PACKET: usize = 65_516;
/// How long a filter may take to end when its input is closed.
const GRACE: Duration = Duration::from_secs(1);

/// A child that has introduced itself.
pub(super) struct Dialogue {
    command: BString,
    /// Always there until the end.
    talk: Option<Talk>,
    capabilities: Vec<String>,
    limit: Duration,
}

impl Drop for Dialogue {
    fn drop(&mut self) {
        if let Some(talk) = self.talk.take() {
            talk.end(GRACE);
        }
    }
}

impl Dialogue {
    /// Starts the child and agrees on the protocol.
    pub fn open(command: &BStr, job: &Job) -> Result<Self, Fault> {
        let talk = Talk::start(job).map_err(|err| match err {
            ProcessError::Stopped { .. } => Fault::Stopped,
            err => Fault::Driver(err.to_string()),
        })?;
        let mut dialogue = Self {
            command: command.to_owned(),
            talk: Some(talk),
            capabilities: Vec::new(),
            limit: job.limit,
        };
        dialogue.step(|dialogue| dialogue.shake_hands()).map_err(|it| dialogue.fault(it, job))?;
        Ok(dialogue)
    }

    pub fn is_with(&self, command: &BStr) -> bool {
        self.command == command
    }

    /// One file through the filter.
    pub fn ask(
        &mut self,
        direction: Direction,
        rela: &BStr,
        input: &Input,
        keep: usize,
    ) -> Result<Vec<u8>, Fault> {
        if !self.capabilities.iter().any(|it| it == direction.as_str()) {
            return Err(Fault::File(format!("it does not do `{}`", direction.as_str())));
        }
        let result = self.step(|dialogue| dialogue.filter(direction, rela, input, keep));
        match result {
            Ok(Ok(bytes)) => Ok(bytes),
            Ok(Err(status)) => {
                if status == "abort" {
                    self.capabilities.retain(|it| it != direction.as_str());
                }
                Err(Fault::File(format!("it says `{status}`{}", self.said())))
            }
            Err(err) => Err(self.broken(err)),
        }
    }

    /// Does something with the child, which has its limit for that.
    fn step<T>(&mut self, step: impl FnOnce(&mut Self) -> io::Result<T>) -> io::Result<T> {
        if let Some(talk) = &self.talk {
            talk.begin();
        }
        let result = step(self);
        if let Some(talk) = &self.talk {
            talk.rest();
        }
        result
    }

    fn shake_hands(&mut self) -> io::Result<()> {
        self.write_line("git-filter-client")?;
        self.write_line("version=2")?;
        self.flush()?;
        if self.read_lines()? != ["git-filter-server", "version=2"] {
            return Err(io::Error::other("it does not speak git's filter protocol"));
        }
        self.write_line("capability=clean")?;
        self.write_line("capability=smudge")?;
        self.flush()?;
        let lines = self.read_lines()?;
        let named = lines.iter().filter_map(|it| it.strip_prefix("capability="));
        self.capabilities = named.map(str::to_owned).collect();
        Ok(())
    }

    /// The filtered bytes, or the status that says there are none.
    fn filter(
        &mut self,
        direction: Direction,
        rela: &BStr,
        input: &Input,
        keep: usize,
    ) -> io::Result<Result<Vec<u8>, String>> {
        self.write_line(format!("command={}", direction.as_str()))?;
        self.write_line([b"pathname=", rela.as_bytes()].concat())?;
        self.flush()?;
        match input {
            Input::Nothing => {}
            Input::Bytes(bytes) => {
                for part in bytes.chunks(PACKET) {
                    self.write_packet(part)?;
                }
            }
            Input::File(file) => {
                let mut file = rewound(file)?;
                let mut part = vec![0; PACKET];
                loop {
                    match file.read(&mut part)? {
                        0 => break,
                        read => self.write_packet(&part[..read])?,
                    }
                }
            }
        }
        self.flush()?;
        let status = status_in(&self.read_lines()?).unwrap_or_default();
        if status != "success" {
            return Ok(Err(status));
        }
        let mut bytes = Vec::new();
        while let Some(part) = self.read_packet()? {
            if bytes.len() + part.len() > keep {
                return Err(io::Error::other("it gave more than can be"));
            }
            bytes.extend_from_slice(&part);
        }
        // It may take its word back after the content.
        Ok(match status_in(&self.read_lines()?) {
            Some(status) if status != "success" => Err(status),
            _ => Ok(bytes),
        })
    }

    fn said(&self) -> String {
        self.talk.as_ref().map(|it| said(&it.stderr())).unwrap_or_default()
    }

    fn fault(&self, err: io::Error, job: &Job) -> Fault {
        match job.stop.is_set() {
            true => Fault::Stopped,
            false => self.broken(err),
        }
    }

    fn broken(&self, err: io::Error) -> Fault {
        let is_killed = self.talk.as_ref().is_some_and(Talk::is_killed);
        Fault::Driver(match is_killed {
            true => format!("it did not answer within {} s", self.limit.as_secs()),
            false
                if matches!(
                    err.kind(),
                    io::ErrorKind::UnexpectedEof | io::ErrorKind::BrokenPipe
                ) =>
            {
                format!("it ended in the middle{}", self.said())
            }
            false => err.to_string(),
        })
    }

    fn write_line(&mut self, text: impl AsRef<[u8]>) -> io::Result<()> {
        self.write_packet(&[text.as_ref(), b"\n"].concat())
    }

    fn write_packet(&mut self, bytes: &[u8]) -> io::Result<()> {
        let to = self.talk.as_mut().and_then(|it| it.to.as_mut()).ok_or_else(closed)?;
        to.write_all(format!("{:04x}", bytes.len() + 4).as_bytes())?;
        to.write_all(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        let to = self.talk.as_mut().and_then(|it| it.to.as_mut()).ok_or_else(closed)?;
        to.write_all(b"0000")?;
        to.flush()
    }

    /// A packet's content; `None` for the one that ends a list.
    fn read_packet(&mut self) -> io::Result<Option<Vec<u8>>> {
        let from = self.talk.as_mut().and_then(|it| it.from.as_mut()).ok_or_else(closed)?;
        let mut length = [0; 4];
        from.read_exact(&mut length)?;
        let length = std::str::from_utf8(&length).ok();
        let length = length.and_then(|it| usize::from_str_radix(it, 16).ok());
        match length {
            Some(0) => Ok(None),
            Some(length @ 4..=65_520) => {
                let mut bytes = vec![0; length - 4];
                from.read_exact(&mut bytes)?;
                Ok(Some(bytes))
            }
            _ => Err(io::Error::other("it does not speak git's filter protocol")),
        }
    }

    fn read_lines(&mut self) -> io::Result<Vec<String>> {
        let mut lines = Vec::new();
        while let Some(packet) = self.read_packet()? {
            let text = packet.strip_suffix(b"\n").unwrap_or(&packet);
            lines.push(String::from_utf8_lossy(text).into_owned());
            if lines.len() > 100 {
                return Err(io::Error::other("it does not speak git's filter protocol"));
            }
        }
        Ok(lines)
    }
}

fn closed() -> io::Error {
    io::ErrorKind::BrokenPipe.into()
}

/// The last status of a list; `None` where it has none.
fn status_in(lines: &[String]) -> Option<String> {
    lines.iter().rev().find_map(|it| it.strip_prefix("status=")).map(str::to_owned)
}
