//! The bytes of a file as git stores them.
//!
//! Takes what `.gitattributes` and git's settings say of a path, and the file; gives what
//! `git add` would have made of it: the user's driver first (`clean` or `process`), then the
//! encoding, the line endings and `$Id$`. One snapshot or one difference at a time, any thread.
//!
//! **Invariant:** the attributes only name a driver; what it runs stands in the user's own
//! settings, and it runs with a deadline, never on the thread that waits for it.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use gix::bstr::{BStr, BString};
use gix::filter::plumbing::eol::convert_to_git::{Options as EolOptions, RoundTripCheck};
use gix::filter::plumbing::eol::{AttributesDigest, Mode, convert_to_git};
use gix::filter::plumbing::ident;
use gix::filter::plumbing::pipeline::{CrlfRoundTripCheck, Options};

use crate::history::drivers::{Cleaned, Driver, Drivers};
use crate::history::encoding;
use crate::history::error::{GitError, git};
use crate::history::long_lines::{self, LongLines};
use crate::history::pointer;

/// The attributes that are asked for, in this order.
const ATTRIBUTES: [&str; 6] = ["crlf", "ident", "filter", "eol", "text", "working-tree-encoding"];

/// The filter rules as they are now.
pub(super) struct Filters<'a> {
    repo: &'a gix::Repository,
    stack: gix::worktree::Stack,
    matches: gix::attrs::search::Outcome,
    options: Options,
    drivers: Vec<Driver>,
    long_lines: LongLines,
}

/// What the rules say of one path.
#[derive(Debug)]
pub(super) struct Rules {
    driver: Named,
    /// `Err` where the attribute has no name.
    encoding: Option<Result<BString, ()>>,
    line_ends: AttributesDigest,
    ident: bool,
}

/// The driver that a path's attributes name.
#[derive(Clone, Debug)]
enum Named {
    Nothing,
    Configured(Driver),
    /// One whose files must never be stored as they are, and nothing is set up for it.
    Missing(BString),
}

/// What became of a file.
pub(super) enum Filtered {
    Bytes(Vec<u8>),
    /// The driver of that name is at work on it.
    AtWork(BString),
    /// Its driver failed, or is missing: `why` names it.
    Wait {
        why: String,
        remedy: &'static str,
        again: Duration,
    },
    TooLarge(u64),
    Unreadable(std::io::Error),
    /// Git would refuse it too.
    Refused(String),
}

impl Rules {
    /// Whether no program of the user's makes another text of the file.
    pub fn is_plain(&self) -> bool {
        matches!(self.driver, Named::Nothing)
    }
}

impl<'a> Filters<'a> {
    /// Reads the rules; `index` gives the attribute files that a sparse checkout left out.
    pub fn new(repo: &'a gix::Repository, index: &gix::index::State) -> Result<Self, GitError> {
        use gix::worktree::stack::state::attributes::Source;
        let options = git("read the filter settings", gix::filter::Pipeline::options(repo))?;
        let stack = repo.attributes_only(index, Source::WorktreeThenIdMapping);
        let stack = git("read the attributes", stack)?;
        let matches = stack.selected_attribute_matches(ATTRIBUTES);
        let drivers = options.drivers.iter().map(Driver::new).collect();
        let long_lines = LongLines::default();
        Ok(Self { repo, stack: stack.detach(), matches, options, drivers, long_lines })
    }

    /// What holds for a path, by its name in git.
    pub fn rules(&mut self, rela: &BStr) -> Result<Rules, GitError> {
        use gix::attrs::StateRef;
        let path = git("read the attributes", gix::path::from_bstr(rela))?;
        let platform = self.stack.at_path(path.as_ref(), None, &self.repo.objects);
        let platform = git("read the attributes", platform)?;
        self.matches.reset();
        platform.matching_attributes(&mut self.matches);
        let by_git;
        let is_long = self.matches.iter_selected().any(|it| self.long_lines.has(&it.location));
        let matches = match is_long {
            true => {
                by_git = long_lines::matches_without(self.repo, rela, &ATTRIBUTES)?;
                &by_git
            }
            false => &self.matches,
        };
        let mut states = [StateRef::Unspecified; ATTRIBUTES.len()];
        for (state, found) in states.iter_mut().zip(matches.iter_selected()) {
            *state = found.assignment.state;
        }
        let [crlf, ident, filter, eol, text, encoding] = states;
        let driver = match filter {
            StateRef::Value(name) => {
                let name = name.as_bstr();
                match self.drivers.iter().find(|it| it.name == name) {
                    Some(driver) if driver.can_clean() => Named::Configured(driver.clone()),
                    _ if pointer::is_guarded(name) => Named::Missing(name.to_owned()),
                    // Git fails on it, and so does asking it.
                    Some(driver) if driver.required => Named::Configured(driver.clone()),
                    _ => Named::Nothing,
                }
            }
            _ => Named::Nothing,
        };
        let encoding = match encoding {
            StateRef::Value(name) => Some(Ok(name.as_bstr().to_owned())),
            StateRef::Set | StateRef::Unset => Some(Err(())),
            StateRef::Unspecified => None,
        };
        let line_ends = self.line_ends(text, crlf, eol);
        Ok(Rules { driver, encoding, line_ends, ident: ident == StateRef::Set })
    }

    /// Whether the work tree has the very bytes that git stores.
    pub fn leaves_as_is(&self, rules: &Rules) -> bool {
        let ends = rules.line_ends.to_eol(self.options.eol_config);
        rules.is_plain() && rules.encoding.is_none() && !rules.ident && ends != Some(Mode::CrLf)
    }

    /// `text` decides, or the older `crlf`; `eol` alone means text; then git's settings.
    fn line_ends(
        &self,
        text: gix::attrs::StateRef<'_>,
        crlf: gix::attrs::StateRef<'_>,
        eol: gix::attrs::StateRef<'_>,
    ) -> AttributesDigest {
        use gix::attrs::StateRef;
        let of = |state| match state {
            StateRef::Set => Some(AttributesDigest::Text),
            StateRef::Unset => Some(AttributesDigest::Binary),
            StateRef::Value(value) if value.as_bstr() == "input" => {
                Some(AttributesDigest::TextInput)
            }
            StateRef::Value(value) if value.as_bstr() == "auto" => Some(AttributesDigest::TextAuto),
            StateRef::Value(_) | StateRef::Unspecified => None,
        };
        let by_attribute = of(text).or_else(|| of(crlf));
        if by_attribute == Some(AttributesDigest::Binary) {
            return AttributesDigest::Binary;
        }
        let mode = match eol {
            StateRef::Value(value) if value.as_bstr() == "lf" => Some(Mode::Lf),
            StateRef::Value(value) if value.as_bstr() == "crlf" => Some(Mode::CrLf),
            _ => None,
        };
        match (by_attribute, mode) {
            (Some(AttributesDigest::TextAuto), Some(Mode::Lf)) => AttributesDigest::TextAutoInput,
            (Some(AttributesDigest::TextAuto), Some(Mode::CrLf)) => AttributesDigest::TextAutoCrlf,
            (_, Some(mode)) => mode.into(),
            (None, None) => self.options.eol_config.auto_crlf.into(),
            (Some(AttributesDigest::Text), None) => self.options.eol_config.to_eol().into(),
            (Some(digest), None) => digest,
        }
    }

    /// The file as git stores it, if that is at most `limit` bytes.
    ///
    /// `indexed` is asked for what the index has, where line endings depend on it.
    pub fn to_git(
        &self,
        rules: &Rules,
        job: Cleaning<'_>,
        drivers: &mut Drivers,
        indexed: &mut dyn FnMut() -> Option<Vec<u8>>,
    ) -> Filtered {
        let Cleaning { rela, file, size, limit, .. } = job;
        let raw = match &rules.driver {
            Named::Nothing => None,
            Named::Configured(driver) => match drivers.clean(driver, &job) {
                Cleaned::Bytes(bytes) => Some(bytes),
                Cleaned::Raw => None,
                Cleaned::AtWork => return Filtered::AtWork(driver.name.clone()),
                Cleaned::Wait { why, again } => {
                    return Filtered::Wait {
                        why,
                        remedy: pointer::remedy(driver.name.as_ref()),
                        again,
                    };
                }
            },
            Named::Missing(name) => match pointer::read_start(file) {
                Ok(start) if pointer::is_stored_form(&start, size) => None,
                Ok(_) => {
                    let why = format!("the filter `{name}` of `.gitattributes` is not set up");
                    let again = Duration::from_secs(60);
                    return Filtered::Wait { why, remedy: pointer::remedy(name.as_ref()), again };
                }
                Err(err) => return Filtered::Unreadable(err),
            },
        };
        let bytes = match raw {
            Some(bytes) => bytes,
            // What an encoding makes of it is at least a quarter.
            None if size / 4 > limit || (size > limit && rules.encoding.is_none()) => {
                return Filtered::TooLarge(size);
            }
            None => {
                let mut bytes = Vec::new();
                bytes.reserve_exact(usize::try_from(size).unwrap_or(0));
                let mut file: &File = file;
                match std::io::Seek::rewind(&mut file).and_then(|()| file.read_to_end(&mut bytes)) {
                    Ok(_) => bytes,
                    Err(err) => return Filtered::Unreadable(err),
                }
            }
        };
        match self.convert(rules, rela, bytes, indexed) {
            Ok(bytes) if bytes.len() as u64 > limit && !pointer::is_lfs(&bytes) => {
                Filtered::TooLarge(bytes.len() as u64)
            }
            Ok(bytes) => Filtered::Bytes(bytes),
            Err(why) => Filtered::Refused(why),
        }
    }

    /// Encoding, line endings, `$Id$`.
    fn convert(
        &self,
        rules: &Rules,
        rela: &BStr,
        mut bytes: Vec<u8>,
        indexed: &mut dyn FnMut() -> Option<Vec<u8>>,
    ) -> Result<Vec<u8>, String> {
        match &rules.encoding {
            Some(Ok(name)) => {
                let checked = &self.options.encodings_with_roundtrip_check;
                let checked: Vec<_> = checked.iter().map(|it| it.name()).collect();
                if let Some(text) = encoding::to_utf8(name.as_ref(), &bytes, &checked)? {
                    bytes = text;
                }
            }
            Some(Err(())) => {
                return Err("`working-tree-encoding` in `.gitattributes` names no encoding".into());
            }
            None => {}
        }
        let mut converted = Vec::new();
        let path = gix::path::from_bstr(rela).unwrap_or_else(|_| Path::new("").into());
        let round_trip_check = match self.options.crlf_roundtrip_check {
            CrlfRoundTripCheck::Fail => Some(RoundTripCheck::Fail { rela_path: path.as_ref() }),
            CrlfRoundTripCheck::Warn | CrlfRoundTripCheck::Skip => None,
        };
        let options = EolOptions { round_trip_check, config: self.options.eol_config };
        let mut index_object = |into: &mut Vec<u8>| {
            Ok(indexed().map(|bytes| {
                into.clear();
                into.extend_from_slice(&bytes);
            }))
        };
        let changed =
            convert_to_git(&bytes, rules.line_ends, &mut converted, &mut index_object, options);
        match changed {
            Ok(true) => std::mem::swap(&mut bytes, &mut converted),
            Ok(false) => {}
            Err(_) => {
                return Err("`core.safecrlf` refuses it: its line endings would not come back as \
                            they are"
                    .into());
            }
        }
        if rules.ident && ident::undo(&bytes, &mut converted).map_err(|err| err.to_string())? {
            bytes = converted;
        }
        Ok(bytes)
    }
}

impl Rules {
    /// The driver that the attributes name, where it has a say or should have one.
    pub fn driver_name(&self) -> Option<&BStr> {
        match &self.driver {
            Named::Nothing => None,
            Named::Configured(driver) => Some(driver.name.as_ref()),
            Named::Missing(name) => Some(name.as_ref()),
        }
    }

    /// The driver by whose `smudge` the stored bytes become what a person reads, if there is one.
    pub fn driver(&self) -> Option<&Driver> {
        match &self.driver {
            Named::Configured(driver) => Some(driver),
            Named::Nothing | Named::Missing(_) => None,
        }
    }
}

/// A file to be cleaned.
#[derive(Clone, Copy)]
pub(super) struct Cleaning<'a> {
    pub rela: &'a BStr,
    pub file: &'a Arc<File>,
    /// Tells this state of the file from another.
    pub seen: &'a crate::history::seen::Seen,
    pub size: u64,
    /// Of what is stored.
    pub limit: u64,
}
