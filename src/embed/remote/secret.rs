//! A key that nobody reads by accident.
//!
//! Pure. **Invariant:** it has no `Display`, its `Debug` hides it, and what a server says goes
//! through [`Secret::scrub`] before anybody sees it.

/// A provider's key.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Secret(String);

impl Secret {
    pub fn new(text: &str) -> Self {
        Self(text.trim().to_owned())
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The key itself, for the header of a request.
    pub(super) fn reveal(&self) -> &str {
        &self.0
    }

    /// The text without the key, in one short line.
    pub(super) fn scrub(&self, text: &str) -> String {
        const MOST: usize = 300;
        let hidden = if self.0.is_empty() { text.to_owned() } else { text.replace(&self.0, "***") };
        let words: Vec<&str> = hidden
            .split(|it: char| it.is_whitespace() || it.is_control())
            .filter(|it| !it.is_empty())
            .collect();
        let mut line = words.join(" ");
        if line.len() > MOST {
            line.truncate(line.floor_char_boundary(MOST));
            line.push('…');
        }
        line
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.0.is_empty() { "Secret()" } else { "Secret(***)" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neither_debug_nor_a_server_s_words_show_it() {
        let secret = Secret::new(" sk-1234\n");
        assert_eq!(format!("{secret:?} {:?}", Secret::default()), "Secret(***) Secret()");
        assert_eq!(secret.scrub("bad key sk-1234,\r\n  \u{1b}[1msk-1234"), "bad key ***, [1m***");
        assert_eq!(Secret::default().scrub("plain"), "plain");
        let long = secret.scrub(&"é ".repeat(400));
        assert!(long.len() <= 304 && long.ends_with('…'));
    }
}
