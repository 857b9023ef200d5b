//! When two names are the same name.
//!
//! Pure. Names are bytes; people see text. Three degrees: the same bytes; the same text in another
//! normal form (`é` as one character or two); the same text but for case.
//!
//! Case is Unicode's full default folding (`Straße` is `STRASSE`), the same in every locale: the
//! Turkish `İ` folds to `i` with a dot above, so `istanbul` does not name `İstanbul`. Bytes that
//! are not UTF-8 are compared as they are, but for ASCII case.

use std::borrow::Cow;

use caseless::Caseless as _;
use unicode_normalization::{IsNormalized, UnicodeNormalization as _, is_nfc_quick};

/// The name in the normal form NFC.
pub fn normal(name: &[u8]) -> Cow<'_, [u8]> {
    match std::str::from_utf8(name) {
        Ok(text) if is_nfc_quick(text.chars()) != IsNormalized::Yes => {
            Cow::Owned(text.nfc().collect::<String>().into_bytes())
        }
        _ => Cow::Borrowed(name),
    }
}

/// The name without case and normal form: equal for names that differ in these only.
pub fn folded(name: &[u8]) -> Cow<'_, [u8]> {
    if name.is_ascii() {
        return if name.iter().any(u8::is_ascii_uppercase) {
            Cow::Owned(name.to_ascii_lowercase())
        } else {
            Cow::Borrowed(name)
        };
    }
    match std::str::from_utf8(name) {
        Ok(text) => {
            Cow::Owned(text.nfd().default_case_fold().nfc().collect::<String>().into_bytes())
        }
        Err(_) => Cow::Owned(name.to_ascii_lowercase()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_the_same_to_a_degree() {
        let same = |a: &str, b: &str| {
            (
                normal(a.as_bytes()) == normal(b.as_bytes()),
                folded(a.as_bytes()) == folded(b.as_bytes()),
            )
        };
        assert_eq!(same("café", "cafe\u{301}"), (true, true));
        assert_eq!(same("CAFÉ", "cafe\u{301}"), (false, true));
        assert_eq!(same("MyNote.MD", "mynote.md"), (false, true));
        assert_eq!(same("Straße", "STRASSE"), (false, true));
        assert_eq!(same("İstanbul", "istanbul"), (false, false));
        assert_eq!(same("İstanbul", "i\u{307}stanbul"), (false, true));
        assert_eq!(same("ΣΊΣΥΦΟΣ", "σίσυφος"), (false, true));
        assert_eq!(same("a", "b"), (false, false));
        assert_eq!(folded(b"\xffA"), folded(b"\xffa"));
        assert_ne!(folded(b"\xffA"), folded("\u{fffd}a".as_bytes()));
    }
}
