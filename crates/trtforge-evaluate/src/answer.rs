//! Scoring one answer by the rules of SQuAD's official evaluation script (version 2.0).

use std::collections::BTreeMap;

use crate::scored::AnswerRow;

/// Scores an answer against the accepted ones.
///
/// - `predicted`: the answer's text; empty for "no answer".
/// - `golds`: every accepted answer; empty, or only blank ones, when the question has none.
///
/// A question without an answer is right only when none is given. Source: `evaluate-v2.0.py` of SQuAD: lower case, without punctuation,
/// without the articles "a", "an" and "the", white space collapsed; best of all accepted answers, each of exact match and F1 by itself.
pub fn score_answer(predicted: &str, golds: &[String]) -> AnswerRow {
    let predicted = normalise(predicted);
    let mut golds: Vec<String> = golds.iter().map(|gold| normalise(gold)).collect();
    golds.retain(|gold| !gold.is_empty());
    let answerable = !golds.is_empty();
    if !answerable {
        golds.push(String::new());
    }
    let best =
        |score: &dyn Fn(&str) -> f64| golds.iter().map(|gold| score(gold)).fold(0.0, f64::max);
    AnswerRow {
        exact: best(&|gold| f64::from(u8::from(gold == predicted))),
        f1: best(&|gold| overlap(&predicted, gold)),
        answerable,
        answer: Some(digest(&predicted)),
    }
}

impl AnswerRow {
    /// A row whose logits are not finite: there is no answer, and it scores 0.
    pub fn not_finite(answerable: bool) -> Self {
        Self { exact: 0.0, f1: 0.0, answerable, answer: None }
    }
}

/// Lower case, no ASCII punctuation, no English articles, single spaces.
fn normalise(text: &str) -> String {
    let bare: String = text.to_lowercase().chars().filter(|c| !c.is_ascii_punctuation()).collect();
    let mut kept = String::with_capacity(bare.len());
    let mut rest = bare.as_str();
    while let Some(first) = rest.chars().next() {
        // The script's `\b` ends a word at any character that is no letter or digit, such as a dash beyond ASCII.
        let word = |c: char| c.is_alphanumeric() == first.is_alphanumeric();
        let (run, after) = rest.split_at(rest.find(|c| !word(c)).unwrap_or(rest.len()));
        kept.push_str(if matches!(run, "a" | "an" | "the") { " " } else { run });
        rest = after;
    }
    kept.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// F1 of the bags of words.
fn overlap(predicted: &str, gold: &str) -> f64 {
    let (predicted, gold) = (bag(predicted), bag(gold));
    let count = |bag: &BTreeMap<&str, usize>| bag.values().sum::<usize>();
    if predicted.is_empty() || gold.is_empty() {
        return f64::from(u8::from(predicted.is_empty() && gold.is_empty()));
    }
    let common: usize =
        predicted.iter().map(|(word, &n)| n.min(gold.get(word).copied().unwrap_or(0))).sum();
    2.0 * common as f64 / (count(&predicted) + count(&gold)) as f64
}

fn bag(text: &str) -> BTreeMap<&str, usize> {
    let mut bag = BTreeMap::new();
    for word in text.split_whitespace() {
        *bag.entry(word).or_insert(0) += 1;
    }
    bag
}

/// FNV-1a, folded to 32 bits: enough to see that an answer changed.
fn digest(text: &str) -> u32 {
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325, step);
    (hash ^ (hash >> 32)) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn score(predicted: &str, golds: &[&str]) -> (f64, f64) {
        let golds: Vec<String> = golds.iter().map(|&gold| gold.to_owned()).collect();
        let row = score_answer(predicted, &golds);
        (row.exact, row.f1)
    }

    #[test]
    fn answers_by_hand() {
        assert_eq!(score("The Eiffel Tower!", &["eiffel tower"]), (1.0, 1.0));
        // 2 common words of 3 and 2: 2 · 2 / 5.
        assert_eq!(score("big eiffel tower", &["Eiffel Tower"]), (0.0, 0.8));
        assert_eq!(score("Paris", &["Lyon", "Paris, France", "paris"]), (1.0, 1.0));
        // "to to be" against "to be to": the same bag.
        assert_eq!(score("to to be", &["to be to"]), (0.0, 1.0));
        // Repeats count as often as both have them: 1 common of 3 and 1.
        assert_eq!(score("no no no", &["no"]), (0.0, 0.5));
        assert_eq!(score("Müller", &["müller"]), (1.0, 1.0));
        // The dash is not ASCII punctuation, and stays part of the word, as in the official script.
        assert_eq!(score("1914–1918", &["1914 1918"]), (0.0, 0.0));
        assert_eq!(score("1914-1918", &["19141918"]), (1.0, 1.0));
        assert_eq!(score("a–z", &["–z"]), (1.0, 1.0));
        assert_eq!(score("another theatre", &["other atre"]), (0.0, 0.0));
    }

    #[test]
    fn questions_without_an_answer() {
        assert_eq!(score("", &[]), (1.0, 1.0));
        assert_eq!(score("", &[""]), (1.0, 1.0));
        assert_eq!(score("something", &[]), (0.0, 0.0));
        assert_eq!(score("", &["something"]), (0.0, 0.0));
        // Only articles: nothing is left, which is no answer.
        assert_eq!(score("the", &[]), (1.0, 1.0));
        assert!(!score_answer("x", &[String::new()]).answerable);
        assert_eq!(score("", &["", "x"]), (0.0, 0.0));
    }

    #[test]
    fn equal_answers_have_equal_digests() {
        let digest = |text: &str| score_answer(text, &[]).answer;
        assert_eq!(digest("The Tower"), digest("tower"));
        assert_ne!(digest("tower"), digest("power"));
    }
}
