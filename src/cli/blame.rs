//! `remd blame`: who wrote each line, by which commit, and why.
//!
//! Takes parsed arguments, reads the repository beside whoever writes it; what lies on the disk and
//! in no commit is shown as that.

use std::path::Path;

use crate::base::clock;
use crate::cli::args::BlameArgs;
use crate::cli::past::{explained, open, vault_path};
use crate::cli::report::{self, CliError, Exit};
use crate::config::keys;
use crate::history::{BlameError, Reader};
use crate::render;
use crate::vault::VaultPath;

/// `remd blame PATH`.
pub fn blame(vault: &Path, args: &BlameArgs) -> Result<Exit, CliError> {
    let limit = keys::duration(&args.timeout)
        .map_err(|wanted| CliError::new(format!("`--timeout` wants {wanted}")))?;
    let reader = open(vault)?;
    let path = match meant(vault, &reader, &args.path)? {
        Some(path) => path,
        None => vault_path(vault, &args.path)?,
    };
    let until = clock::now() + limit;
    let at = reader.head().map_err(|err| explained(&reader, err.into()))?.map(|it| it.commit);
    let blame = reader
        .blame_on_disk(&path, args.lines.clone(), until)
        .map_err(|err| told(&reader, &err))?;
    let page = match args.json {
        true => render::blame::json(&path, at, &blame),
        false => {
            let as_of = match at {
                Some(at) => format!(" as of {}", at.short()),
                None => ", nothing committed yet".to_owned(),
            };
            render::blame::text(&path, &as_of, &blame)
        }
    };
    report::data(page)?;
    Ok(if blame.partial.is_some() { Exit::Partial } else { Exit::Done })
}

/// The file that a person means, if there is one: from the current folder, or below the vault. Beside
/// a vault `memory` that has a folder `memory` both may be meant by one name.
pub(super) fn meant(
    vault: &Path,
    reader: &Reader,
    given: &str,
) -> Result<Option<VaultPath>, CliError> {
    let head = reader.head()?.map(|it| it.commit);
    let below = VaultPath::new(given.trim_end_matches('/')).ok();
    for path in vault_path(vault, given).ok().into_iter().chain(below) {
        let committed = match head {
            Some(head) => reader.entry(head, &path)?.is_some(),
            None => false,
        };
        if committed || reader.on_the_disk(&path)?.is_some() {
            return Ok(Some(path));
        }
    }
    Ok(None)
}

/// The error for a person.
pub(super) fn told(reader: &Reader, err: &BlameError) -> CliError {
    let cli = CliError::from_error(err);
    let cli = match (cli.hint.is_some(), err.hint()) {
        (false, Some(hint)) => cli.hint(hint),
        _ => cli,
    };
    match err {
        BlameError::Read(read) if !read.is_not_found() => explained(reader, cli),
        _ => cli,
    }
}
