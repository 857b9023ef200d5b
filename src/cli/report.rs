//! The only printer.
//!
//! Takes what a command has to say, puts data on stdout and talk on stderr. One thread.
//!
//! **Invariant:** a closed pipe ends the program quietly; an error says what, where and what to
//! do.

use std::error::Error;
use std::io::{self, IsTerminal as _, Write as _};

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
        Self { message: err.to_string(), causes, hint: None, exit: Exit::Error }
    }

    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    pub fn exit(mut self, exit: Exit) -> Self {
        self.exit = exit;
        self
    }

    /// What every command that needs an agent says where none is.
    pub fn no_agent() -> Self {
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
    let mut stdout = io::stdout().lock();
    let written = stdout.write_all(bytes.as_ref()).and_then(|()| stdout.flush());
    match written {
        Err(err) if err.kind() == io::ErrorKind::BrokenPipe => std::process::exit(0),
        Err(err) => Err(CliError::new("Cannot write the answer").hint(err.to_string())),
        Ok(()) => Ok(()),
    }
}

/// Puts talk on stderr.
pub fn talk(text: &str) {
    // Nobody is there to read the talk: nothing is lost.
    let _written = writeln!(io::stderr().lock(), "{text}");
}

/// Prints an error with its causes and hint.
pub fn error(err: &CliError) {
    let (bold, plain) = if colour() { ("\x1b[1;31m", "\x1b[0m") } else { ("", "") };
    let mut text = format!("{bold}error:{plain} {}", err.message);
    for cause in &err.causes {
        text.push_str("\n  because: ");
        text.push_str(cause);
    }
    if let Some(hint) = &err.hint {
        text.push_str("\n\nhint: ");
        text.push_str(hint);
    }
    talk(&text);
}

/// Whether stderr may have colour.
pub fn colour() -> bool {
    std::env::var_os("NO_COLOR").is_none_or(|it| it.is_empty()) && io::stderr().is_terminal()
}
