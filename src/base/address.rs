//! What may be shown of an address.
//!
//! Pure. Takes the text of an address as somebody wrote it, which may be none.
//!
//! **Invariant:** no user, password, query or fragment is in what comes out, however odd the text.

/// The address with `…` for what may be secret in it.
pub fn masked(text: &str) -> String {
    let after = text.find("://").map_or(0, |at| at + "://".len());
    let (scheme, rest) = text.split_at(after);
    let query = rest.find(['?', '#']);
    let open = &rest[..query.unwrap_or(rest.len())];
    // A password with a question mark in it that nobody wrote as `%3F`.
    if !open.contains('@') && rest.contains('@') {
        return format!("{scheme}…");
    }
    let host = match open.rsplit_once('@') {
        Some((_, host)) => format!("…@{host}"),
        None => open.to_owned(),
    };
    let tail = query.map_or(String::new(), |at| format!("{}…", &rest[at..=at]));
    format!("{scheme}{host}{tail}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_be_secret_is_left_out() {
        for (text, wanted) in [
            ("", ""),
            ("https://h/v1", "https://h/v1"),
            ("localhost:11434", "localhost:11434"),
            ("https://u:PASS@h:8/v1?key=SECRET#S", "https://…@h:8/v1?…"),
            ("http://h#SECRET", "http://h#…"),
            ("u:PASS@box:11434", "…@box:11434"),
            ("http:/u:PASS@h", "…@h"),
            ("http://u:PA/SS@SS@h", "http://…@h"),
            ("http://u:PA?SS@h?k=SECRET", "http://…"),
            ("http://u:PASS@h h/é", "http://…@h h/é"),
        ] {
            assert_eq!(masked(text), wanted, "{text}");
        }
    }
}
