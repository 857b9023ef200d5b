//! Files that are held for what looks like a credential: by what policy, and named.
//!
//! Takes the settings and what a person allowed, gives history its options and `status` the held
//! files. The committer's thread.
//!
//! **Invariant:** what is held is named, with its line and rule and never with what was found.

use std::collections::BTreeSet;

use crate::daemon::committer::Committer;
use crate::daemon::problems::Level;
use crate::embed::remote::sent_masked;
use crate::history::{Kept, Options, Secrets};
use crate::render::counted;
use crate::render::status::{Leak, grouped};
use crate::secrets::{Allowance, Finding, Policy};
use crate::vault::VaultPath;

impl Committer {
    /// Takes the settings and what is allowed, as they are now.
    pub(super) fn take_options(&mut self) {
        let settings = self.house.settings.get();
        self.allowing.follow(&self.house.dirs, &self.house.vault);
        report_list(self);
        let allowance = self.allowing.get().clone();
        let secrets = Secrets { policy: settings.secrets, allowance };
        let stop = self.house.children.clone();
        self.history.set_options(Options { stop, secrets, ..crate::daemon::options(&settings) });
    }

    /// What is held now, finding by finding.
    pub(super) fn leaks(&self) -> Vec<Leak> {
        let allowance = self.allowing.get();
        let held = self.held_for_leaks();
        held.flat_map(|(path, all)| all.iter().map(|it| leak(path, it, allowance, true))).collect()
    }

    fn held_for_leaks(&self) -> impl Iterator<Item = (&VaultPath, &Vec<Finding>)> {
        self.kept_out.iter().filter_map(|(path, why)| match why {
            Kept::Secret { findings } => Some((path, findings)),
            _ => None,
        })
    }

    /// Which files are held.
    pub(super) fn leaking(&self) -> BTreeSet<VaultPath> {
        self.held_for_leaks().map(|it| it.0.clone()).collect()
    }

    /// Whether only a person can let some file in.
    pub(super) fn is_leak_held(&self) -> bool {
        self.held_for_leaks().next().is_some()
    }

    /// Names what is held.
    pub(super) fn report_leaks(&self) {
        let problems = &self.house.problems;
        let Some((path, findings)) = self.held_for_leaks().next() else {
            return problems.clear("secrets");
        };
        let why = Kept::Secret { findings: findings.clone() };
        let what = match self.held_for_leaks().count() {
            1 => format!("`{path}` is held off the branch: {why}"),
            files => {
                let files = counted(files, "file", "files");
                format!("{files} are held off the branch, as `{path}`: {why}")
            }
        };
        let remedy = format!("{} `remd secrets list` names all.", why.hint(path));
        problems.report("secrets", Level::Warning, &what, &remedy);
    }
}

/// As `status` lists it.
pub fn leak(path: &VaultPath, finding: &Finding, allowance: &Allowance, held: bool) -> Leak {
    Leak {
        path: path.to_string(),
        line: finding.line,
        rule: finding.rule.to_owned(),
        masked: finding.masked.clone(),
        fingerprint: allowance.fingerprint(finding).to_string(),
        held,
    }
}

fn report_list(committer: &Committer) {
    let problems = &committer.house.problems;
    match committer.allowing.failed() {
        None => problems.clear("secrets-allowed"),
        Some((what, hint)) => problems.report(
            "secrets-allowed",
            Level::Warning,
            &format!("What was allowed with `remd secrets allow` is not known: {what}"),
            hint.as_deref().unwrap_or("It is read again by itself; until then it is held."),
        ),
    }
}

/// The policy, and what was kept from providers, for people.
pub fn policy_line(policy: Policy) -> String {
    let line = match policy {
        Policy::Hold => "hold (a file with what looks like a credential stays off the branch)",
        Policy::Warn => "warn (what looks like a credential is committed, and named)",
        Policy::Off => "off (credentials in notes are committed like any text)",
    };
    match sent_masked() {
        0 => line.to_owned(),
        1 => format!("{line}; 1 text was sent to a provider masked"),
        many => format!(
            "{line}; {} texts were sent to a provider masked",
            grouped(usize::try_from(many).unwrap_or(usize::MAX))
        ),
    }
}
