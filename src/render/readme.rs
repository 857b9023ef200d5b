//! The page that explains the mount to whoever lists it first.
//!
//! Pure. **Invariant:** it names only what works.

use std::path::Path;

use crate::vault::path::escape;

/// `README.md` of the mount of the vault at `vault`, mounted at `mount`.
pub fn page(vault: &Path, mount: &Path) -> Vec<u8> {
    use std::os::unix::ffi::OsStrExt as _;
    let vault = escape(vault.as_os_str().as_bytes());
    let mount = escape(mount.as_os_str().as_bytes());
    format!(
        r#"# This folder answers questions

It belongs to the notes in `{vault}`.
A file name is a question, the file's content the answer.
Nothing here is stored and nothing can be written; edit the notes themselves.

## Ask

    cat "search/why did we leave mysql"

The answer is passages with their note and exact lines, best first.
The last line says how many, which commit they are true for, and what is missing.
Reading it replaces opening the notes.

| path | gives |
|---|---|
| `search/<question>` | passages as text |
| `search/<question>.json` | the same for programs |
| `search/<question>.md` | the same as Markdown, with links |
| `nodes/<question>` | long-term notes only: path, name, description (`.json` too) |
| `similar/<path>` | the notes nearest to a note, by their meaning (`.json` too) |
| `links/<question>/` | a folder of links to the notes, best first |
| `note/<path>/links` | what a note links to |
| `note/<path>/backlinks` | what links to a note |
| `note/<path>/history`, `note/<path>/blame` | its versions; who wrote each line, when and why |
| `recent/` | links to the notes that were changed last, the newest first |
| `tag/<tag>/` | links to the notes with a tag; `tag/project/remd/` for `#project/remd` |
| `today.md`, `log.md` | today's page, notes and changes; the last changes by day |
| `orphans.md`, `broken-links.md` | notes that nothing links to; links that lead nowhere, with what may be meant |
| `at/<moment>/` | the vault as it was: `at/yesterday/`, `at/2026-06-01/`, `at/3d/`, `at/HEAD~5/`, a branch, a tag, a hash |
| `history/<path>.versions/` | every version of a note as a file, the newest first; deleted notes too |
| `status.md`, `status.json` | how the agent is |

## Look back

    diff -r at/yesterday at/HEAD
    cat at/2026-06-01/memory/plan.md
    ls -U history/memory/plan.md.versions

`at/` and `history/` list nothing at their top; name what you mean (a `/` in a branch is `%2F`).
A name can mean another commit a moment later: a hash, or `cd at/main`, holds it still.

## Narrow it down

Options are folders before the question, in any order:

    cat "search/limit=10/in=digest/since=2026-01-01/bicycle"

| option | means |
|---|---|
| `limit=10` | how many notes, 1 to 200 |
| `since=2026-06-01`, `until=2026-06-30` | by the date in the note's path, else in its frontmatter; notes without a date stay |
| `in=digest` | notes below a folder; repeat it for more folders |
| `path=memory%2F2026*` | one path, or a pattern |
| `tag=cooking` | notes with a tag; repeat it for any of several |
| `min_score=0.5` | leave out what scores lower: a note that has the words has 1 at most (a little more where a time or a name counts), one that has none at most half; with `search.fusion: rrf` all scores lie below 0.0164 |
| `at=2026-06-01` | search the vault as it was: a date, an age (`2d`), a branch, tag or commit; literally, in two seconds |

A time in the question ("last week", "in May 2023", "on 3 June") is a wish: notes of those days move up a little, the others stay.

## Odd characters

A `/` in a question is `%2F`; any `%XX` is decoded.
A question that ends in `.md` or `.json` itself: `%2Emd`, `%2Ejson`.
One that starts with a dot: `%2ENET`.
One that looks like an option: `limit%3D10`.
Double quotes make a phrase; every other character is plain text.

## Good to know

Listing `search/` shows recent questions that are still answered; `find`, `grep -r` and file managers start no search.
Where your settings name a provider of vectors, only opening a page sends it the question, once, and at most `mount.paid_per_minute` of them; a `stat` before shows the size of the page without.
To keep the nightly `locate` index out as well, add to `/etc/updatedb.conf`:

    PRUNEFS = "... fuse fuse.remd"
    PRUNEPATHS = "... {mount}"
"#
    )
    .into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_names_the_vault_and_how_to_keep_indexers_out() {
        let page = page(Path::new("/home/ada/memory"), Path::new("/home/ada/memory.fs"));
        let page = String::from_utf8(page).unwrap();
        for part in ["`/home/ada/memory`", "PRUNEFS", "PRUNEPATHS = \"... /home/ada/memory.fs\""] {
            assert!(page.contains(part), "{part}");
        }
        // Only what works: later views must not be promised.
        for part in ["topics.md", "inbox.md"] {
            assert!(!page.contains(part), "{part}");
        }
    }
}
