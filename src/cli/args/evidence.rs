//! The arguments of `remd blame` and `why`.
//!
//! Pure.

use clap::Args;

#[derive(Debug, Args)]
pub struct BlameArgs {
    /// The note
    pub path: String,
    /// Only these lines: `12`, `12,20`, `12,` or `,20`
    #[arg(short = 'L', long = "lines", value_name = "A,B", value_parser = lines)]
    pub lines: Option<std::ops::RangeInclusive<u32>>,
    /// How long git may take; then what is known is shown
    #[arg(long, value_name = "DURATION", default_value = "30s")]
    pub timeout: String,
    /// One JSON object
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct WhyArgs {
    /// A sentence of a note, in any spelling of marks, case and line breaks; or `PATH:LINE`, or `PATH`
    #[arg(required = true, value_name = "SENTENCE|PATH[:LINE]")]
    pub words: Vec<String>,
    /// How long it may take
    #[arg(long, value_name = "DURATION", default_value = "30s")]
    pub timeout: String,
    /// One JSON object
    #[arg(long)]
    pub json: bool,
}

/// `12`, `12,20`, `12,`, `,20`.
fn lines(text: &str) -> Result<std::ops::RangeInclusive<u32>, String> {
    let number = |text: &str, otherwise: u32| match text.trim() {
        "" => Some(otherwise),
        text => text.parse().ok().filter(|it| *it > 0),
    };
    let range = match text.split_once(',') {
        Some((from, to)) => number(from, 1).zip(number(to, u32::MAX)),
        None => number(text, 0).filter(|it| *it > 0).map(|it| (it, it)),
    };
    let wanted = || "wanted lines as `12` or `12,20`, counted from 1".to_owned();
    range.filter(|it| it.0 <= it.1).map(|it| it.0..=it.1).ok_or_else(wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_a_number_or_a_range() {
        for (text, expected) in [
            ("12", Some(12..=12)),
            ("12,20", Some(12..=20)),
            ("12,", Some(12..=u32::MAX)),
            (",20", Some(1..=20)),
            ("0", None),
            ("", None),
            ("20,12", None),
            ("x", None),
            ("0,3", None),
        ] {
            assert_eq!(lines(text).ok(), expected, "{text}");
        }
    }
}
