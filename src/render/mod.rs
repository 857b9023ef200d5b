//! Values to bytes.
//!
//! Pure. Every page that a person or program reads is made here, so that the mount, the command
//! line and the socket give the same bytes.
//!
//! **Invariant:** a page is a function of its arguments alone; wall time stands only in `status`,
//! and comes in as a parameter.

pub mod as_of;
pub mod blame;
pub mod changed;
pub mod graph;
pub mod links;
pub mod lint;
pub mod nodes;
pub mod past;
pub mod readme;
pub mod results;
pub mod status;
pub mod tags;
pub mod views;
pub mod why;

pub use as_of::AsOf;

use std::borrow::Cow;

use crate::vault::VaultPath;
use crate::vault::path::escape;

/// The version of every JSON document made here.
pub const SCHEMA_VERSION: u32 = 1;

/// `value` between double quotes on one line, so that it can forge neither a line nor a field.
fn quoted(value: &str) -> String {
    format!("\"{}\"", escape(value.as_bytes()).replace('"', "\\\""))
}

/// `1 hit`, `2 hits`.
pub fn counted(count: usize, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

/// Text of others inside Markdown prose: one line, nothing in it taken as markup.
fn markdown_escaped(value: &str) -> String {
    let mut out = String::with_capacity(value.len());
    for char in escape(value.as_bytes()).chars() {
        if matches!(char, '\\' | '`' | '*' | '_' | '[' | ']' | '<' | '>' | '#' | '|' | '!') {
            out.push('\\');
        }
        out.push(char);
    }
    out
}

/// A link to a note, by its name.
fn markdown_link(name: &str, root: &std::path::Path, path: &VaultPath) -> String {
    format!("[{}]({})", markdown_escaped(name), file_url(root, path))
}

/// Where a path opens from anywhere: a `file://` address below the vault's root.
fn file_url(root: &std::path::Path, path: &VaultPath) -> String {
    use std::os::unix::ffi::OsStrExt as _;
    let whole = root.join(path.as_path());
    format!("file://{}", percent_encoding::percent_encode(whole.as_os_str().as_bytes(), IN_URL))
}

/// All that is not plain in a path of a URL or would end a Markdown link.
const IN_URL: &percent_encoding::AsciiSet = &percent_encoding::NON_ALPHANUMERIC
    .remove(b'/')
    .remove(b'.')
    .remove(b'-')
    .remove(b'_')
    .remove(b'~');

/// A JSON document as a page: indented, with a final line end.
fn json_page(value: &impl serde::Serialize) -> Vec<u8> {
    // Maps with string keys, strings and numbers: nothing in them that JSON cannot hold.
    let mut bytes = serde_json::to_vec_pretty(value).unwrap_or_else(|err| {
        format!("{{\"schema_version\": {SCHEMA_VERSION}, \"error\": \"{err}\"}}").into_bytes()
    });
    bytes.push(b'\n');
    bytes
}

/// A path as JSON holds it: readable, and exact where reading loses bytes.
#[derive(serde::Serialize)]
struct JsonPath<'a> {
    path: Cow<'a, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    path_hex: Option<String>,
}

impl<'a> From<&'a VaultPath> for JsonPath<'a> {
    fn from(path: &'a VaultPath) -> Self {
        Self { path: path.lossy(), path_hex: path.hex_if_lossy() }
    }
}
