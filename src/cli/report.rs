//! The only printer.
//!
//! Takes what a command has to say, puts data on stdout and talk on stderr. One thread.
//!
//! **Invariant:** a closed pipe ends the program quietly; an error says what, where and what to
//! do. Nothing from a vault commands a terminal: where one reads, what would is shown instead. A
//! pipe and a file get the bytes as they are.

use std::borrow::Cow;
use std::error::Error;
use std::io::{self, IsTerminal as _, Write as _};

use crate::base::trouble::Trouble;
use crate::daemon::offline::Unreachable;
use crate::history::{Ink, ReadError};
use crate::vault::path::{escape, is_commanding};

/// How a command ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Exit {
    Done = 0,
    No = 1,
    Error = 2,
    Partial = 3,
    PersonMustDecide = 4,
    NoAgent = 5,
}

/// An error on its way to a person.
#[derive(Debug)]
pub struct CliError {
    pub message: String,
    pub causes: Vec<String>,
    pub hint: Option<String>,
    pub exit: Exit,
}

impl CliError {
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), causes: Vec::new(), hint: None, exit: Exit::Error }
    }

    /// From an error and its sources.
    pub fn from_error(err: &(dyn Error + 'static)) -> Self {
        let mut causes = Vec::new();
        let mut source = err.source();
        while let Some(cause) = source {
            causes.push(cause.to_string());
            source = cause.source();
        }
        let trouble = Trouble::behind(err);
        if let Some(trouble) = trouble {
            causes.insert(causes.len().saturating_sub(1), trouble.text().to_owned());
        }
        let hint = match err.downcast_ref::<ReadError>() {
            Some(err) => Some(err.hint()),
            None => trouble.map(|it| it.hint().to_owned()),
        };
        Self { message: err.to_string(), causes, hint, exit: Exit::Error }
    }

    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    pub fn exit(mut self, exit: Exit) -> Self {
        self.exit = exit;
        self
    }

    /// What every command that needs an agent says where none is, or none that answers here.
    pub fn no_agent(unreachable: Option<Unreachable>) -> Self {
        if let Some(Unreachable { what, remedy, .. }) = unreachable {
            let err = Self::new("The agent cannot be reached").hint(remedy).exit(Exit::NoAgent);
            return Self { causes: vec![what], ..err };
        }
        Self::new("No agent is running for this vault")
            .hint("Start it with `remd up`, or as a service (see the README).")
            .exit(Exit::NoAgent)
    }
}

impl<E: Error + 'static> From<E> for CliError {
    fn from(err: E) -> Self {
        Self::from_error(&err)
    }
}

/// Puts data on stdout. A reader that went away ends the program as it ends `cat`.
pub fn data(bytes: impl AsRef<[u8]>) -> Result<(), CliError> {
    let bytes = match io::stdout().is_terminal() {
        true => harmless(bytes.as_ref()),
        false => Cow::Borrowed(bytes.as_ref()),
    };
    write(&bytes)
}

fn write(bytes: &[u8]) -> Result<(), CliError> {
    let mut stdout = io::stdout().lock();
    let written = stdout.write_all(bytes).and_then(|()| stdout.flush());
    match written {
        Err(err) if err.kind() == io::ErrorKind::BrokenPipe => std::process::exit(0),
        Err(err) => Err(CliError::new("Cannot write the answer").hint(err.to_string())),
        Ok(()) => Ok(()),
    }
}

/// Puts talk on stderr.
pub fn talk(text: &str) {
    say(&String::from_utf8_lossy(&harmless(text.as_bytes())));
}

fn say(text: &str) {
    // Nobody is there to read the talk: nothing is lost.
    let _written = writeln!(io::stderr().lock(), "{text}");
}

/// Lines and tabs as they are; whatever else would command a terminal as C escapes, bytes that are
/// no text too.
fn harmless(bytes: &[u8]) -> Cow<'_, [u8]> {
    let is_plain = |it: char| it == '\n' || it == '\t' || !is_commanding(it);
    if std::str::from_utf8(bytes).is_ok_and(|text| text.chars().all(is_plain)) {
        return Cow::Borrowed(bytes);
    }
    let mut out = Vec::with_capacity(bytes.len());
    for line in bytes.split_inclusive(|it| *it == b'\n') {
        let end = if line.ends_with(b"\r\n") { 2 } else { usize::from(line.ends_with(b"\n")) };
        let (line, end) = line.split_at(line.len() - end);
        for (at, part) in line.split(|it| *it == b'\t').enumerate() {
            if at > 0 {
                out.push(b'\t');
            }
            out.extend_from_slice(escape(part).as_bytes());
        }
        out.extend_from_slice(end);
    }
    Cow::Owned(out)
}

/// Prints an error with its causes and hint.
pub fn error(err: &CliError) {
    let (bold, plain) = if colour() { ("\x1b[1;31m", "\x1b[0m") } else { ("", "") };
    let mut text = err.message.clone();
    for cause in &err.causes {
        text.push_str("\n  because: ");
        text.push_str(cause);
    }
    if let Some(hint) = &err.hint {
        text.push_str("\n\nhint: ");
        text.push_str(hint);
    }
    let text = harmless(text.as_bytes());
    say(&format!("{bold}error:{plain} {}", String::from_utf8_lossy(&text)));
}

/// Puts a diff on a terminal, in colours.
pub fn inked(pieces: &[(Ink, Vec<u8>)]) -> Result<(), CliError> {
    let mut out = Vec::new();
    for (ink, text) in pieces {
        let colour = match ink {
            Ink::Plain => "",
            Ink::Gone => "\x1b[31;9m",
            Ink::Come => "\x1b[32m",
            Ink::Head => "\x1b[1m",
            Ink::Place => "\x1b[36m",
        };
        // A colour ends with its line, so that a pager that shows a part shows it right.
        for line in text.split_inclusive(|it| *it == b'\n') {
            let (line, end) = match line.strip_suffix(b"\n") {
                Some(line) => (line, "\n"),
                None => (line, ""),
            };
            let plain = if colour.is_empty() || line.is_empty() { "" } else { "\x1b[0m" };
            out.extend_from_slice(if plain.is_empty() { b"" } else { colour.as_bytes() });
            out.extend_from_slice(&harmless(line));
            out.extend_from_slice(plain.as_bytes());
            out.extend_from_slice(end.as_bytes());
        }
    }
    write(&out)
}

/// Whether colours are wanted at all.
pub fn may_colour() -> bool {
    std::env::var_os("NO_COLOR").is_none_or(|it| it.is_empty())
}

/// Whether stderr may have colour.
pub fn colour() -> bool {
    may_colour() && io::stderr().is_terminal()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_is_told_nothing_but_lines_and_tabs() {
        let check = |text: &[u8], shown: &str| {
            assert_eq!(String::from_utf8_lossy(&harmless(text)), shown);
        };
        check("plain\n\ttext 日本\n".as_bytes(), "plain\n\ttext 日本\n");
        check(b"windows\r\nover\rwritten", "windows\r\nover\\rwritten");
        check(b"\x1b]52;c;aGk=\x07\x08\x7f", "\\033]52;c;aGk=\\007\\010\\177");
        check(
            "\u{9b}2J \u{202e}x\u{2028}".as_bytes(),
            "\\302\\2332J \\342\\200\\256x\\342\\200\\250",
        );
        check(b"\x9b2J caf\xe9\tx", "\\2332J caf\\351\tx");
    }
}
