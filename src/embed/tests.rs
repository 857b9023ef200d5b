//! The model on board against what other programs work out (`model/golden.py`).

use std::borrow::Cow;

use proptest::prelude::*;
use sha2::{Digest as _, Sha256};

use super::*;
use crate::base::clock;

#[derive(serde::Deserialize)]
struct Golden {
    texts: Vec<GoldenText>,
    cosines: Vec<GoldenCosine>,
}

#[derive(serde::Deserialize)]
struct GoldenText {
    text: String,
    ids: Vec<u32>,
    vector: Option<Vec<f32>>,
}

#[derive(serde::Deserialize)]
struct GoldenCosine {
    a: usize,
    b: usize,
    cosine: f32,
}

fn golden() -> Golden {
    serde_json::from_str(include_str!("model/golden.json")).unwrap()
}

fn model() -> &'static StaticModel {
    static MODEL: std::sync::OnceLock<StaticModel> = std::sync::OnceLock::new();
    MODEL.get_or_init(|| StaticModel::on_board().unwrap())
}

#[test]
fn pieces_are_those_of_the_reference_tokenizer() {
    let pieces = WordPiece::from_json(include_bytes!("model/tokenizer.json")).unwrap();
    let golden = golden();
    assert!(golden.texts.len() > 30);
    for text in &golden.texts {
        assert_eq!(pieces.encode(&text.text), text.ids, "{:?}", text.text);
    }
}

#[test]
fn vectors_are_those_of_double_precision() {
    let golden = golden();
    for text in &golden.texts {
        let found = model().vector(&text.text);
        match (&found, &text.vector) {
            (None, None) => {}
            (Some(found), Some(wanted)) => {
                for (found, wanted) in found.parts().iter().zip(wanted) {
                    assert!((found - wanted).abs() < 2e-6, "{:?}: {found} {wanted}", text.text);
                }
            }
            _ => panic!("{:?}: {found:?}", text.text),
        }
    }
    for pair in &golden.cosines {
        let [a, b] = [pair.a, pair.b].map(|it| model().vector(&golden.texts[it].text).unwrap());
        assert!((a.cosine(&b) - pair.cosine).abs() < 2e-6, "{} {}", pair.a, pair.b);
    }
}

#[test]
fn the_model_on_board_is_the_one_its_identity_names() {
    let mut hash = Sha256::new();
    hash.update(include_bytes!("model/remd-static-256.safetensors"));
    hash.update(include_bytes!("model/tokenizer.json"));
    let digest: String = hash.finalize().iter().map(|it| format!("{it:02x}")).collect();
    assert_eq!(model().identity().source, digest);
    assert_eq!(model().identity().dimension, 256);
}

#[test]
fn a_text_that_says_nothing_to_the_model_has_no_vector() {
    let texts = ["", "\n", "🚲", "東京都庁の会議", "!?", "the bicycle", "ride 🚲"];
    let answer = model().embed(&texts, Purpose::Passage, clock::now());
    let has: Vec<bool> = answer.slots.iter().map(|it| it.vector().is_some()).collect();
    assert_eq!(has, [false, false, false, false, false, true, true]);
    assert!(answer.slots[..5].iter().all(|it| *it == Slot::Silent));
    assert_eq!(answer.stopped, None);
}

#[test]
fn meaning_is_nearer_than_words_are() {
    let vector = |text: &str| model().vector(text).unwrap();
    let asked = vector("how does the user travel to work");
    let bicycle = asked.cosine(&vector("Rides a bicycle to the office every morning."));
    let budget = asked.cosine(&vector("Quarterly budget review with the finance team"));
    assert!(bicycle > budget + 0.1, "{bicycle} {budget}");
}

#[test]
fn the_nearest_part_is_the_sentences_that_say_it() {
    let asked = model().vector("how does the user travel to work").unwrap();
    let text = "The quarterly budget was reviewed by the finance team, and nothing was decided, \
                since two of the figures were those of the year before and one was missing.\n\
                Rides a bicycle to the office every morning. Takes the tram when it snows.\n\
                The cat had kittens, four of them, and all of them are black with white paws.\n";
    let part = model().nearest_part(text, &asked).unwrap();
    assert!(text[part.range.clone()].contains("bicycle"), "{}", &text[part.range]);
    assert!(!text[part.range.clone()].contains("budget"));
    let whole = model().vector(text).unwrap().cosine(&asked);
    assert!(part.cosine > whole + 0.1, "{} {whole}", part.cosine);
    for silent in ["", "東京都庁の会議", "?!"] {
        assert_eq!(model().nearest_part(silent, &asked), None);
    }
}

#[test]
fn a_model_whose_files_do_not_fit_is_refused() {
    let table: &'static [u8] = include_bytes!("model/remd-static-256.safetensors");
    let vocabulary = include_bytes!("model/tokenizer.json");
    let read = |table: &'static [u8], vocabulary: &[u8]| {
        StaticModel::read("m", "d", Cow::Borrowed(table), vocabulary).map(drop)
    };
    assert!(read(table, vocabulary).is_ok());
    assert!(matches!(read(&table[..table.len() - 1], vocabulary), Err(ModelError::Tensors(_))));
    assert!(matches!(read(b"", vocabulary), Err(ModelError::Tensors(_))));
    assert!(matches!(read(table, b"{}"), Err(ModelError::Vocabulary(_))));
    let mut other: serde_json::Value = serde_json::from_slice(vocabulary).unwrap();
    other["model"]["vocab"].as_object_mut().unwrap().remove("zoom");
    let other = serde_json::to_vec(&other).unwrap();
    assert!(read(table, &other).is_err());
    for (at, value) in [("lowercase", false), ("clean_text", false), ("strip_accents", false)] {
        let mut other: serde_json::Value = serde_json::from_slice(vocabulary).unwrap();
        other["normalizer"][at] = value.into();
        let refused = read(table, &serde_json::to_vec(&other).unwrap());
        assert!(matches!(refused, Err(ModelError::Vocabulary(VocabularyError::Other(_)))), "{at}");
    }
}

#[test]
fn windows_of_a_long_text_are_within_what_the_model_reads() {
    let text = "A line of some words about nothing at all, and a bicycle.\n".repeat(60);
    let ranges = windows(&text, model().window(), &|it| model().count(it));
    assert_eq!(model().count(&text), 60 * 14);
    assert_eq!(ranges.len(), 4);
    for range in ranges {
        assert!(text[range.clone()].ends_with('\n') && model().count(&text[range]) <= 256);
    }
}

proptest! {
    #[test]
    fn any_text_has_a_unit_vector_or_none(text in any::<String>()) {
        if let Some(vector) = model().vector(&text) {
            let norm: f32 = vector.parts().iter().map(|it| it * it).sum();
            prop_assert!((norm - 1.0).abs() < 1e-5);
        }
    }

    #[test]
    fn a_part_is_as_near_as_its_own_vector_and_no_part_is_nearer(
        text in "([a-z]{1,7}[ .\n]{1,2}){0,120}"
    ) {
        let asked = model().vector("a bicycle").unwrap();
        let near = |it: &str| model().vector(it).map(|it| it.cosine(&asked));
        match model().nearest_part(&text, &asked) {
            Some(part) => {
                let own = near(&text[part.range]).unwrap();
                prop_assert!((own - part.cosine).abs() < 1e-4, "{} {}", own, part.cosine);
            }
            None => prop_assert_eq!(near(&text), None),
        }
    }

    #[test]
    fn the_order_of_words_and_their_case_do_not_matter(
        words in prop::collection::vec("[a-z]{1,9}", 1..12)
    ) {
        let forward = model().vector(&words.join(" "));
        let mut other = words;
        other.reverse();
        let backward = model().vector(&other.join("\n").to_uppercase());
        match (forward, backward) {
            (Some(a), Some(b)) => prop_assert!(a.cosine(&b) > 0.999_99),
            (a, b) => prop_assert_eq!(a, b),
        }
    }

    #[test]
    fn pieces_of_a_text_are_those_of_its_words(text in "[a-zé.,日 \n-]{0,60}") {
        let count = |it: &str| model().count(it);
        let apart: usize = text.split_whitespace().map(count).sum();
        prop_assert_eq!(count(&text), apart);
    }
}
