//! The doors for programs: a Unix socket that speaks JSON lines.
//!
//! One request a line, one answer a line. The socket belongs to the user alone (0600 in a 0700
//! folder). HTTP and MCP will call the same table of requests.

pub mod client;
pub mod protocol;
pub mod socket;

pub use protocol::{Answer, Form, Request};
