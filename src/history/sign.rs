//! Signs commits as the user's own settings say (`commit.gpgsign`).
//!
//! Takes the bytes of a commit, gives the signature that git would have put into it: by
//! `gpg`, `gpgsm`, `ssh-keygen`, or what the settings name instead. Committer thread only.
//!
//! **Invariant:** nobody is asked for a passphrase, nothing is waited for past the deadline, and
//! what should be signed is signed or not committed.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use gix::bstr::{BString, ByteSlice as _};

use crate::base::fs::{self, PathError};
use crate::base::process::{Input, Job, Output, ProcessError, Stop, run_job};
use crate::history::drivers::{environment, said};
use crate::history::gate::Refusal;
use crate::history::place::Place;

/// What `gpg.format` can be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Format {
    OpenPgp,
    X509,
    Ssh,
}

/// How this repository's commits are signed.
#[derive(Debug)]
pub(super) struct Signer {
    format: Format,
    program: OsString,
    key: Key,
}

#[derive(Debug)]
enum Key {
    /// A name for gpg, or a file for ssh-keygen.
    Named(OsString),
    /// A public key itself, whose private half an agent has.
    Literal(BString),
}

/// What a signature may cost.
pub(super) struct Terms<'a> {
    pub place: &'a Place,
    pub limit: Duration,
    pub stop: &'a Stop,
}

/// Whether commits are to be signed.
pub(super) fn is_wanted(repo: &gix::Repository) -> bool {
    repo.config_snapshot().boolean("commit.gpgSign").unwrap_or(false)
}

impl Signer {
    /// By git's settings; `user` is whose key it is where none is named.
    pub fn new(repo: &gix::Repository, user: &str, terms: &Terms<'_>) -> Result<Self, Refusal> {
        let config = repo.config_snapshot();
        let set = |key: &str| config.string(key).filter(|it| !it.is_empty());
        let (format, own, usual) = match set("gpg.format").as_deref().map(|it| it.as_bytes()) {
            None | Some(b"openpgp") => (Format::OpenPgp, "gpg.openpgp.program", "gpg"),
            Some(b"x509") => (Format::X509, "gpg.x509.program", "gpgsm"),
            Some(b"ssh") => (Format::Ssh, "gpg.ssh.program", "ssh-keygen"),
            Some(other) => {
                let other = other.as_bstr();
                return Err(refusal(
                    format!("`gpg.format` is `{other}`, which git does not know"),
                    "Set it to openpgp, x509 or ssh.",
                ));
            }
        };
        let named = set(own).or_else(|| match format {
            Format::OpenPgp => set("gpg.program"),
            Format::X509 | Format::Ssh => None,
        });
        let program = named.map_or_else(|| usual.into(), at_home);
        let key = match set("user.signingKey") {
            Some(key) => Self::key(format, key),
            None if format != Format::Ssh => Key::Named(user.into()),
            None => {
                let command = set("gpg.ssh.defaultKeyCommand");
                Self::default_key(command, terms)?
            }
        };
        Ok(Self { format, program, key })
    }

    fn key(format: Format, key: BString) -> Key {
        match format {
            Format::Ssh => match literal(&key) {
                Some(literal) => Key::Literal(literal),
                None => Key::Named(at_home(key)),
            },
            Format::OpenPgp | Format::X509 => Key::Named(OsString::from_vec(key.into())),
        }
    }

    /// The first key that the user's command lists.
    fn default_key(command: Option<BString>, terms: &Terms<'_>) -> Result<Key, Refusal> {
        let Some(command) = command else {
            return Err(refusal(
                "no key is set to sign commits with".to_owned(),
                "Set one: `git config --global user.signingKey ~/.ssh/id_ed25519.pub`.",
            ));
        };
        let args = vec!["-c".into(), OsString::from_vec(command.into())];
        let output = terms.run(Job { args, ..terms.job("sh".into()) })?;
        let first = output.stdout.lines().next().unwrap_or_default();
        match literal(first) {
            Some(key) if output.status.success() => Ok(Key::Literal(key)),
            _ => Err(refusal(
                format!("`gpg.ssh.defaultKeyCommand` gives no key{}", said(&output.stderr)),
                "Mend it, or set `user.signingKey`.",
            )),
        }
    }

    /// The signature of these bytes.
    pub fn sign(&self, bytes: &[u8], terms: &Terms<'_>) -> Result<BString, Refusal> {
        let signature = match self.format {
            Format::OpenPgp | Format::X509 => self.by_gpg(bytes, terms),
            Format::Ssh => self.by_ssh(bytes, terms),
        }?;
        let mut signature = signature.replace(b"\r", b"");
        while signature.ends_with(b"\n") {
            signature.pop();
        }
        Ok(signature.into())
    }

    fn by_gpg(&self, bytes: &[u8], terms: &Terms<'_>) -> Result<Vec<u8>, Refusal> {
        let Key::Named(key) = &self.key else { return Err(self.failed(b"")) };
        let mut args: Vec<OsString> = Vec::new();
        // What stands in for gpg need not know gpg's other options.
        let name = Path::new(&self.program).file_name().unwrap_or_default();
        if self.format == Format::OpenPgp && ["gpg", "gpg2"].iter().any(|it| name == *it) {
            args.extend(["--batch", "--no-tty", "--pinentry-mode", "error"].map(OsString::from));
        }
        args.extend(["--status-fd=2", "-bsau"].map(OsString::from));
        args.push(key.clone());
        let input = Input::Bytes(bytes.into());
        let output = terms.run(Job { args, input, ..terms.job(self.program.clone()) })?;
        let made = output.stderr.lines().any(|it| it.starts_with(b"[GNUPG:] SIG_CREATED "));
        match output.status.success() && made && output.is_whole {
            true => Ok(output.stdout),
            false => Err(self.failed(&output.stderr)),
        }
    }

    fn by_ssh(&self, bytes: &[u8], terms: &Terms<'_>) -> Result<Vec<u8>, Refusal> {
        let folder = terms.place.own("sign");
        // What a crash left there.
        let prepared =
            fs::remove_derived(&folder).and_then(|()| fs::create_private_dir_all(&folder));
        prepared.map_err(|err| disk(&err))?;
        let signature = self.by_ssh_in(&folder, bytes, terms);
        if let Err(err) = fs::remove_derived(&folder) {
            tracing::warn!(%err, "what a signature was made of stays behind");
        }
        signature
    }

    fn by_ssh_in(
        &self,
        folder: &Path,
        bytes: &[u8],
        terms: &Terms<'_>,
    ) -> Result<Vec<u8>, Refusal> {
        let (payload, key_file) = (folder.join("commit"), folder.join("key"));
        fs::write_atomic(&payload, bytes).map_err(|err| disk(&err))?;
        let mut args: Vec<OsString> = ["-Y", "sign", "-n", "git", "-f"].map(Into::into).into();
        match &self.key {
            Key::Named(file) => args.push(file.clone()),
            Key::Literal(key) => {
                fs::write_atomic(&key_file, key).map_err(|err| disk(&err))?;
                args.extend([key_file.into(), "-U".into()]);
            }
        }
        args.push(payload.into());
        let output = terms.run(Job { args, ..terms.job(self.program.clone()) })?;
        if !output.status.success() {
            return Err(self.failed(&output.stderr));
        }
        fs::read(&folder.join("commit.sig")).map_err(|err| disk(&err))
    }

    fn failed(&self, stderr: &[u8]) -> Refusal {
        let program = self.program.to_string_lossy();
        let spoken: Vec<u8> = stderr
            .lines_with_terminator()
            .filter(|it| !it.starts_with(b"[GNUPG:]"))
            .flatten()
            .copied()
            .collect();
        let spoken = said(&spoken);
        refusal(
            format!("`{program}` did not sign{spoken}"),
            match self.format {
                Format::Ssh => {
                    "Add the key to your agent (`ssh-add`), or set `user.signingKey`; \
                                `git config commit.gpgSign false` commits without a signature."
                }
                Format::OpenPgp | Format::X509 => {
                    "Unlock the key once (`echo | gpg -s >/dev/null`), or set `user.signingKey`; \
                     `git config commit.gpgSign false` commits without a signature."
                }
            },
        )
    }
}

impl Terms<'_> {
    fn job(&self, program: OsString) -> Job {
        let mut env = environment();
        env.push(("LC_ALL".into(), Some("C".into())));
        Job {
            dir: Some(self.place.workdir.clone()),
            env,
            stop: self.stop.clone(),
            ..Job::new(program, self.limit)
        }
    }

    fn run(&self, job: Job) -> Result<Output, Refusal> {
        let program = job.program.to_string_lossy();
        let _at_work = self.stop.errands.begin(format!("the signature by `{program}`"), None);
        run_job(&job).map_err(|err| {
            let remedy = match &err {
                ProcessError::Start { .. } => {
                    "Install it, or name another one in `gpg.program` (`gpg.ssh.program`)."
                }
                ProcessError::Deadline { .. } => {
                    "Its agent may wait for you: unlock the key (`ssh-add`, `gpg-connect-agent`)."
                }
                ProcessError::Stopped { .. } => "It is tried again at the next start.",
            };
            refusal(err.to_string(), remedy)
        })
    }
}

fn refusal(why: String, remedy: &str) -> Refusal {
    Refusal {
        what: format!("Commits are to be signed, and cannot be: {why}"),
        remedy: remedy.to_owned(),
        is_about_content: false,
    }
}

fn disk(err: &PathError) -> Refusal {
    refusal(format!("{err}: {}", err.source), "Check `.git/remd` and the disk.")
}

/// A public key that stands in the settings itself: `key::ssh-…`, or `ssh-…` as of old.
fn literal(key: &[u8]) -> Option<BString> {
    let key = key.trim();
    match key.strip_prefix(b"key::") {
        Some(key) => Some(key.into()),
        None => key.starts_with(b"ssh-").then(|| key.into()),
    }
}

/// `~/` is the user's home.
pub(super) fn at_home(path: BString) -> OsString {
    let home = std::env::var_os("HOME").filter(|it| !it.is_empty());
    match (path.strip_prefix(b"~/"), home) {
        (Some(rest), Some(home)) => {
            PathBuf::from(home).join(OsString::from_vec(rest.to_vec())).into_os_string()
        }
        _ => OsString::from_vec(path.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_in_the_settings_is_told_from_a_file() {
        let check = |key: &str, expected: Option<&str>| {
            assert_eq!(literal(key.as_bytes()), expected.map(BString::from), "{key}");
        };
        check("key::ecdsa-sha2 AAAA", Some("ecdsa-sha2 AAAA"));
        check("ssh-ed25519 AAAA me\n", Some("ssh-ed25519 AAAA me"));
        check("~/.ssh/id_ed25519.pub", None);
        check("/keys/ssh-rsa", None);
    }
}
