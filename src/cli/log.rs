//! The log: one fact a line, to stderr or the journal.
//!
//! Takes the verbosity, installs the subscriber once. **Invariant:** never to stdout, which
//! belongs to data; no note text and no secret at the default level.

use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};

use crate::base::sink::{self, Sink};
use crate::cli::report;

/// Installs the log: warnings for commands, facts for the agent; `REMD_LOG` decides over both.
pub fn install(verbose: u8, agent: bool) {
    sink::outlive_size_limit();
    let level = match (verbose, agent) {
        (0, false) => "remd=warn",
        (0, true) => "remd=info",
        (1, _) => "remd=debug",
        _ => "trace",
    };
    let filter = EnvFilter::try_from_env("REMD_LOG").unwrap_or_else(|_| EnvFilter::new(level));
    // The journal has its own clock.
    let journal = std::env::var_os("JOURNAL_STREAM").is_some();
    let builder = tracing_subscriber::fmt()
        .with_writer(|| Sink)
        // It would be told where the log cannot be written, by a macro that panics then.
        .log_internal_errors(false)
        .with_env_filter(filter)
        .with_target(false)
        .with_ansi(report::colour() && !journal)
        .with_timer(Clock { silent: journal });
    // Already installed only in a test that runs two commands in one process.
    let _installed = builder.try_init();
}

struct Clock {
    silent: bool,
}

impl FormatTime for Clock {
    fn format_time(&self, w: &mut tracing_subscriber::fmt::format::Writer<'_>) -> std::fmt::Result {
        if self.silent { Ok(()) } else { SystemTime.format_time(w) }
    }
}
