//! Questions with the notes that answer them, a JSON object a line.
//!
//! Pure. Takes the text of such a file, gives its questions, and each line that is none, with its
//! number and why. `{"query": …, "relevant_paths": [path, …], "category": …, "qid": …}`; the last
//! two may be missing, whatever else an object has is left alone.
//!
//! **Invariant:** a line that is none costs no other line anything.

use std::collections::BTreeSet;

use serde::Deserialize;
use serde_json::Value;

use crate::vault::VaultPath;

/// A question.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Question {
    /// From 1.
    pub line: usize,
    /// As the file calls it, else the line's number.
    pub id: String,
    pub text: String,
    pub category: Option<String>,
    /// The notes that answer, at least one.
    pub relevant: BTreeSet<String>,
}

/// What a file has.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Questions {
    pub all: Vec<Question>,
    pub bad: Vec<BadLine>,
}

/// A line that is no question.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize)]
pub struct BadLine {
    /// From 1.
    pub line: usize,
    pub why: String,
}

/// Why a line is no question.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Wrong {
    #[error("it is no UTF-8")]
    Bytes,
    #[error("it is no JSON object: {0}")]
    Json(String),
    #[error("it has no `query`")]
    NoQuery,
    #[error("it has no `relevant_paths`")]
    NoAnswer,
    #[error("`{0}` in `relevant_paths` is no path in a vault")]
    Path(String),
    #[error("its `qid` is that of line {0}")]
    Twice(usize),
}

#[derive(Deserialize)]
struct Line {
    #[serde(default)]
    qid: Option<Value>,
    #[serde(default, alias = "question")]
    query: Option<String>,
    #[serde(default)]
    category: Option<String>,
    #[serde(default)]
    relevant_paths: Vec<String>,
}

impl Questions {
    /// Reads a file. Empty lines are none, and no fault.
    pub fn read(bytes: &[u8]) -> Self {
        let mut questions = Self::default();
        let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
        for (at, line) in bytes.split(|it| *it == b'\n').enumerate() {
            let (line, number) = (line.trim_ascii(), at + 1);
            if line.is_empty() {
                continue;
            }
            match question(line, number).and_then(|it| questions.distinct(it)) {
                Ok(question) => questions.all.push(question),
                Err(why) => questions.refuse(number, why.to_string()),
            }
        }
        questions
    }

    /// Counts a line as none.
    pub fn refuse(&mut self, line: usize, why: String) {
        self.all.retain(|it| it.line != line);
        let at = self.bad.partition_point(|it| it.line < line);
        self.bad.insert(at, BadLine { line, why });
    }

    /// The categories, in order; `None` where no question has one.
    pub fn categories(&self) -> BTreeSet<Option<&str>> {
        let all: BTreeSet<_> = self.all.iter().map(|it| it.category.as_deref()).collect();
        if all.iter().all(Option::is_none) { BTreeSet::new() } else { all }
    }

    fn distinct(&self, question: Question) -> Result<Question, Wrong> {
        // From the end: whoever writes a line twice writes it beside the first.
        match self.all.iter().rev().find(|it| it.id == question.id) {
            Some(first) => Err(Wrong::Twice(first.line)),
            None => Ok(question),
        }
    }
}

fn question(line: &[u8], number: usize) -> Result<Question, Wrong> {
    let text = std::str::from_utf8(line).map_err(|_| Wrong::Bytes)?;
    let read = |text| -> Result<Line, serde_json::Error> {
        // A list would be taken for the fields in their order.
        let fields: serde_json::Map<String, Value> = serde_json::from_str(text)?;
        serde_json::from_value(Value::Object(fields))
    };
    let read = read(text).map_err(|err| Wrong::Json(err.to_string()))?;
    let text = read.query.filter(|it| !it.trim().is_empty()).ok_or(Wrong::NoQuery)?;
    let mut relevant = BTreeSet::new();
    for path in read.relevant_paths {
        match VaultPath::new(path.strip_prefix("./").unwrap_or(&path)) {
            Ok(path) => relevant.insert(path.lossy().into_owned()),
            Err(_) => return Err(Wrong::Path(path)),
        };
    }
    if relevant.is_empty() {
        return Err(Wrong::NoAnswer);
    }
    let id = match read.qid {
        Some(Value::String(id)) => id,
        Some(Value::Null) | None => format!("line {number}"),
        Some(other) => other.to_string(),
    };
    let category = read.category.filter(|it| !it.is_empty());
    Ok(Question { line: number, id, text, category, relevant })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bad_line_is_named_and_costs_no_other() {
        let file =
            b"\xef\xbb\xbf{\"query\": \"a\", \"relevant_paths\": [\"x.md\", \"./x.md\"]}\r\n\
            \n\
            {\"query\": \"b\"\n\
            {\"qid\": 7, \"question\": \"c\", \"relevant_paths\": [\"y.md\"], \"answer\": [1]}\n\
            {\"query\": \" \", \"relevant_paths\": [\"x.md\"]}\n\
            {\"query\": \"d\", \"relevant_paths\": []}\n\
            {\"query\": \"e\", \"relevant_paths\": [\"../out.md\"]}\n\
            {\"qid\": \"7\", \"query\": \"f\", \"relevant_paths\": [\"x.md\"]}\n\
            \xff\n\
            [1]\n\
            {\"query\": \"g\", \"category\": \"k\", \"relevant_paths\": [\"z/\xe6\x97\xa5.md\"]}";
        let questions = Questions::read(file);
        let good: Vec<_> =
            questions.all.iter().map(|it| (it.line, it.id.as_str(), it.text.as_str())).collect();
        assert_eq!(good, [(1, "line 1", "a"), (4, "7", "c"), (11, "line 11", "g")]);
        assert_eq!(questions.all[0].relevant.len(), 1);
        assert_eq!(questions.categories(), BTreeSet::from([None, Some("k")]));
        let bad: Vec<_> = questions.bad.iter().map(|it| (it.line, it.why.as_str())).collect();
        let begins = [
            (3, "it is no JSON object: EOF"),
            (5, "it has no `query`"),
            (6, "it has no `relevant_paths`"),
            (7, "`../out.md` in `relevant_paths` is no path in a vault"),
            (8, "its `qid` is that of line 4"),
            (9, "it is no UTF-8"),
            (10, "it is no JSON object: "),
        ];
        assert_eq!(bad.len(), begins.len(), "{bad:?}");
        for (found, wanted) in bad.iter().zip(begins) {
            assert!(found.0 == wanted.0 && found.1.starts_with(wanted.1), "{found:?} {wanted:?}");
        }
    }

    #[test]
    fn a_file_without_categories_has_none() {
        let questions = Questions::read(b"{\"query\": \"a\", \"relevant_paths\": [\"x.md\"]}\n");
        assert!(questions.categories().is_empty() && questions.bad.is_empty());
        assert_eq!(Questions::read(b""), Questions::default());
    }
}
