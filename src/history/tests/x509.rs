//! Commits signed by a certificate (`gpg.format = x509`), by the real gpgsm.

use std::os::unix::fs::PermissionsExt;

use super::*;

/// A key ring with one certificate that signs itself and is trusted; it goes with its agent.
struct KeyRing(PathBuf);

impl KeyRing {
    fn new(home: PathBuf) -> Self {
        std::fs::create_dir(&home).unwrap();
        std::fs::set_permissions(&home, PermissionsExt::from_mode(0o700)).unwrap();
        let ring = Self(home);
        let wanted = "Key-Type: RSA\nKey-Length: 2048\nKey-Usage: sign\nSerial: 1\n\
                      Name-DN: CN=Ada\nName-Email: ada@example.org\n";
        let [wanted_at, made_at] = ["wanted", "made"].map(|it| ring.0.join(it));
        std::fs::write(&wanted_at, wanted).unwrap();
        let made = ring.gpgsm(&[
            "--pinentry-mode",
            "loopback",
            "--passphrase",
            "",
            "--generate-key",
            wanted_at.to_str().unwrap(),
        ]);
        std::fs::write(&made_at, made).unwrap();
        ring.gpgsm(&["--import", made_at.to_str().unwrap()]);
        let keys = String::from_utf8(ring.gpgsm(&["--with-colons", "-k"])).unwrap();
        let print = keys.lines().find(|it| it.starts_with("fpr:")).unwrap();
        let print = print.split(':').nth(9).unwrap();
        std::fs::write(ring.0.join("trustlist.txt"), format!("{print} S relax\n")).unwrap();
        // There is nobody to ask whether the certificate is still good.
        std::fs::write(ring.0.join("gpgsm.conf"), "disable-crl-checks\n").unwrap();
        ring.stop_agent();
        ring
    }

    fn gpgsm(&self, args: &[&str]) -> Vec<u8> {
        let mut command = Command::new("gpgsm");
        command.env("GNUPGHOME", &self.0).args(["--batch", "--quiet"]).args(args);
        let output = command.output().expect("this test needs gpgsm: apt-get install gnupg");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "gpgsm {args:?}: {said}");
        output.stdout
    }

    fn stop_agent(&self) {
        let mut kill = Command::new("gpgconf");
        let killed = kill.env("GNUPGHOME", &self.0).args(["--kill", "gpg-agent"]).status();
        assert!(killed.unwrap().success());
    }
}

impl Drop for KeyRing {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.stop_agent();
        }
    }
}

#[test]
fn commits_are_signed_with_the_users_certificate() {
    let mut vault = Vault::plain();
    History::init(&vault.root, &vault.options).unwrap();
    let mut vault = {
        vault.options.limits.child = Duration::from_secs(60);
        vault.opened()
    };
    let ring = KeyRing::new(vault.dir.path().join("gnupg"));
    // The key ring of the test, for us and for git: the real gpgsm behind it.
    let program = vault.dir.path().join("gpgsm");
    let script = format!("#!/bin/sh\nGNUPGHOME='{}' exec gpgsm \"$@\"\n", ring.0.display());
    std::fs::write(&program, script).unwrap();
    std::fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).unwrap();
    vault.git(&["config", "gpg.format", "x509"]);
    vault.git(&["config", "gpg.x509.program", program.to_str().unwrap()]);
    vault.git(&["config", "commit.gpgSign", "true"]);
    vault.git(&["config", "user.signingKey", "ada@example.org"]);
    vault.write("a.md", "one\n");
    vault.snapshot_all();
    vault.git(&["verify-commit", "HEAD"]);
    let raw = vault.git(&["cat-file", "commit", "HEAD"]);
    assert!(raw.contains("gpgsig -----BEGIN SIGNED MESSAGE-----"), "{raw}");
    // One whose certificate is not there: nothing is committed without a signature.
    vault.git(&["config", "user.signingKey", "nobody@example.org"]);
    vault.write("a.md", "two\n");
    match vault.try_snapshot_all() {
        Err(err @ SnapshotError::Held { .. }) => {
            assert!(err.to_string().contains("did not sign"), "{err}");
        }
        other => panic!("not held: {other:?}"),
    }
    assert_eq!(vault.committed("a.md").as_deref(), Some("one\n"));
    assert_eq!(vault.git(&["show", "refs/remd/wip/testhost:a.md"]), "two\n");
    vault.git(&["config", "user.signingKey", "ada@example.org"]);
    vault.snapshot_all();
    vault.git(&["verify-commit", "HEAD"]);
    assert_eq!(vault.committed("a.md").as_deref(), Some("two\n"));
    vault.assert_clean();
}
