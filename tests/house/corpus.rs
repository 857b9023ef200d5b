//! The fuzz targets' corpus, run without a fuzzer.
//!
//! Takes the files of `tests/fuzz/corpus/<target>`, hands each to the target's property. What a
//! fuzzer once found lies there too, so that it stays found.

use std::fs;
use std::panic::catch_unwind;
use std::path::Path;

#[path = "../fuzz/properties/chunker.rs"]
mod chunker;
#[path = "../fuzz/properties/frontmatter.rs"]
mod frontmatter;
#[path = "../fuzz/properties/links.rs"]
mod links;
#[path = "../fuzz/properties/query.rs"]
mod query;

/// Runs `property` on every input of a target, and on what lies near it.
fn run(target: &str, property: fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fuzz/corpus").join(target);
    let mut names: Vec<_> = fs::read_dir(&folder).unwrap().map(|it| it.unwrap().path()).collect();
    names.sort();
    assert!(names.len() >= 10, "{} inputs in {}", names.len(), folder.display());
    let mut broken = Vec::new();
    for name in names {
        let input = fs::read(&name).unwrap();
        // Also cut short, and on Windows' lines.
        let half = &input[..input.len() / 2];
        let windows = String::from_utf8_lossy(&input).replace('\n', "\r\n").into_bytes();
        let whole = [&input[..], half, &windows];
        if whole.iter().any(|it| catch_unwind(|| property(it)).is_err()) {
            broken.push(name);
        }
    }
    assert!(broken.is_empty(), "{broken:#?}");
}

#[test]
fn every_text_can_be_asked() {
    run("query", query::check);
}

#[test]
fn every_frontmatter_is_read_and_edited() {
    run("frontmatter", frontmatter::check);
}

#[test]
fn every_link_is_where_it_is_and_leads_where_it_should() {
    run("links", links::check);
}

#[test]
fn every_line_stands_in_one_passage() {
    run("chunker", chunker::check);
}
