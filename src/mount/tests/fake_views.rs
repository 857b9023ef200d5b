//! Faked views: all notes are recent, and one of them has the tag `x/y`.

use std::time::Instant;

use super::fake::Fake;
use crate::mount::answers::{Named, Tagged, Unanswered, Views, Written};
use crate::mount::tree::{Told, ViewPage};
use crate::vault::VaultPath;

impl Views for Fake {
    fn view_page(&self, page: ViewPage, _until: Instant) -> Result<Written, Unanswered> {
        let text = self.text.lock().unwrap();
        Ok(Written { bytes: format!("{page:?}\n{text}\n").into_bytes(), is_part: false })
    }

    fn told(
        &self,
        path: &VaultPath,
        told: Told,
        _until: Instant,
    ) -> Result<Option<Written>, Unanswered> {
        let notes = self.notes.lock().unwrap();
        Ok(notes.get(path).map(|name| Written {
            bytes: format!("{told:?} {name}\n").into_bytes(),
            is_part: false,
        }))
    }

    fn recent(&self, _until: Instant) -> Result<(Vec<Named>, bool), Unanswered> {
        let notes = self.notes.lock().unwrap();
        Ok((notes.iter().map(|it| (it.0.clone(), it.1.clone())).collect(), false))
    }

    fn tagged(&self, tag: Option<&str>) -> Result<Option<Tagged>, Unanswered> {
        let note = (VaultPath::new("top.md").unwrap(), "top".to_owned());
        let tagged = |parts: &[&str], notes: Vec<Named>| Tagged {
            parts: parts.iter().map(|it| (*it).to_owned()).collect(),
            notes,
        };
        Ok(match tag {
            None => Some(tagged(&["x"], Vec::new())),
            Some("x") => Some(tagged(&["y"], vec![note])),
            Some("x/y") => Some(tagged(&[], vec![note])),
            Some(_) => None,
        })
    }
}
