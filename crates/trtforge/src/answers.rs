//! From start and end logits to the answer of a question.

use crate::profile::AnswerRules;
use crate::rows::{Question, WindowTokens};

/// A part of the context that could be the answer.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Candidate {
    /// Sum of its start and end logit.
    score: f64,
    /// Characters of the context, from and up to (not including).
    characters: (u32, u32),
}

/// The answer that a model gives to a question.
///
/// - `logits`: `[windows][start | end · tokens]`, as [`crate::readout`] flattens them.
/// - returns: a part of the context, empty for "no answer"; `None` when a logit is NaN or infinite.
///
/// Of each window the `n_best` largest start logits are paired with the `n_best` largest end logits; a pair counts where both lie in the
/// context, in order, within `max_answer_tokens`; the largest sum of all windows wins, the first of equal ones. "No answer" is scored by the
/// first token, by the window that is surest of an answer. Source: `postprocess_qa_predictions` of the transformers examples.
pub fn answer<'q>(question: &'q Question, logits: &[f32], rules: &AnswerRules) -> Option<&'q str> {
    if logits.iter().any(|logit| !logit.is_finite()) {
        return None;
    }
    let mut rest = logits;
    let mut best: Option<Candidate> = None;
    let mut nothing = f64::INFINITY;
    for window in &question.windows {
        let (start, others) = rest.split_at_checked(window.length)?;
        let (end, others) = others.split_at_checked(window.length)?;
        rest = others;
        nothing = nothing.min(sum(start, 0, end, 0));
        for candidate in candidates(window, start, end, rules) {
            if best.is_none_or(|best| candidate.score > best.score) {
                best = Some(candidate);
            }
        }
    }
    let Some(best) = best else { return Some("") };
    if rules.no_answer && nothing - best.score > rules.no_answer_threshold {
        return Some("");
    }
    Some(part(&question.context, best.characters))
}

fn sum(start: &[f32], from: usize, end: &[f32], to: usize) -> f64 {
    let value = |logits: &[f32], at: usize| logits.get(at).copied().map_or(0.0, f64::from);
    value(start, from) + value(end, to)
}

fn candidates(
    window: &WindowTokens,
    start: &[f32],
    end: &[f32],
    rules: &AnswerRules,
) -> Vec<Candidate> {
    let (starts, ends) = (largest(start, rules.n_best), largest(end, rules.n_best));
    let offset =
        |position: usize| window.offsets.get(position.checked_sub(window.context_start)?).copied();
    let mut found = Vec::new();
    for &from in &starts {
        let Some((first, _)) = offset(from) else { continue };
        for &to in &ends {
            let Some((_, last)) = offset(to) else { continue };
            if to >= from && to - from < rules.max_answer_tokens {
                let score = sum(start, from, end, to);
                found.push(Candidate { score, characters: (first, last) });
            }
        }
    }
    found
}

/// Positions of the `count` largest logits, largest first, the earlier of equal ones first.
fn largest(logits: &[f32], count: usize) -> Vec<usize> {
    let mut positions: Vec<usize> = (0..logits.len()).collect();
    positions.sort_by(|&a, &b| logits[b].total_cmp(&logits[a]));
    positions.truncate(count);
    positions
}

/// The characters `from` up to (not including) `to` of a text.
fn part(text: &str, (from, to): (u32, u32)) -> &str {
    let byte = |character: u32| {
        text.char_indices().nth(character as usize).map_or(text.len(), |(byte, _)| byte)
    };
    text.get(byte(from)..byte(to)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULES: AnswerRules = AnswerRules {
        stride: 0,
        max_answer_tokens: 30,
        n_best: 20,
        no_answer: false,
        no_answer_threshold: 0.0,
    };

    /// Tokens of [CLS] question [SEP] 😀 Café 東 京 [SEP], the context cut into two windows of two tokens.
    fn question() -> Question {
        let window = |offsets: &[(u32, u32)]| WindowTokens {
            length: 4 + offsets.len(),
            context_start: 3,
            offsets: offsets.to_vec(),
        };
        Question {
            context: "😀 Café 東京".to_owned(),
            answers: Vec::new(),
            windows: vec![window(&[(0, 1), (2, 6)]), window(&[(7, 8), (8, 9)])],
        }
    }

    /// Logits that are −5 but at the named places: window, 0 for start and 1 for end, position, value.
    fn logits(high: &[(usize, usize, usize, f32)]) -> Vec<f32> {
        let mut logits = vec![-5.0; 24];
        for &(window, side, position, value) in high {
            logits[window * 12 + side * 6 + position] = value;
        }
        logits
    }

    fn told(high: &[(usize, usize, usize, f32)], rules: &AnswerRules) -> String {
        answer(&question(), &logits(high), rules).unwrap().to_owned()
    }

    #[test]
    fn the_best_span_of_all_windows_wins() {
        assert_eq!(told(&[(0, 0, 3, 1.0), (0, 1, 4, 1.0)], &RULES), "😀 Café");
        assert_eq!(told(&[(0, 0, 4, 1.0), (0, 1, 4, 1.0)], &RULES), "Café");
        let both = [(0, 0, 4, 1.0), (0, 1, 4, 1.0), (1, 0, 3, 2.0), (1, 1, 4, 2.0)];
        assert_eq!(told(&both, &RULES), "東京");
        // All alike: the first start and the first end behind it.
        assert_eq!(told(&[], &RULES), "😀");
    }

    #[test]
    fn spans_lie_in_the_context_in_order_and_within_the_limit() {
        // The question's and the special tokens' logits are largest, and an end before the start is larger than the one behind it.
        let high = [(0, 0, 1, 9.0), (0, 1, 5, 9.0), (0, 0, 4, 3.0), (0, 1, 3, 3.0), (0, 1, 4, 2.0)];
        assert_eq!(told(&high, &RULES), "Café");
        let short = AnswerRules { max_answer_tokens: 1, ..RULES };
        let long = [(1, 0, 3, 4.0), (1, 1, 4, 4.0), (1, 1, 3, 3.0)];
        assert_eq!(told(&long, &RULES), "東京");
        assert_eq!(told(&long, &short), "東");
    }

    #[test]
    fn only_the_best_positions_are_tried() {
        // One start a window: outside of the context in the first, so only the second window has spans.
        let one = AnswerRules { n_best: 1, ..RULES };
        let high = [(0, 0, 1, 9.0), (0, 1, 4, 9.0), (1, 0, 3, 1.0), (1, 1, 3, 1.0)];
        assert_eq!(told(&high, &one), "東");
        assert_eq!(told(&[(0, 0, 1, 9.0), (1, 0, 1, 9.0)], &one), "", "no span at all");
    }

    #[test]
    fn no_answer_is_scored_by_the_surest_window() {
        let rules = AnswerRules { no_answer: true, ..RULES };
        // The first window sees nothing (0 + 0), the second is sure of an answer (−10); the span has 2.
        let high = [(0, 0, 0, 0.0), (0, 1, 0, 0.0), (1, 0, 3, 1.0), (1, 1, 4, 1.0)];
        assert_eq!(told(&high, &rules), "東京");
        // Both windows see nothing: 1.5 + 1.5 − 2 = 1.
        let unsure = [
            (0, 0, 0, 1.5),
            (0, 1, 0, 1.5),
            (1, 0, 0, 1.5),
            (1, 1, 0, 1.5),
            (1, 0, 3, 1.0),
            (1, 1, 4, 1.0),
        ];
        assert_eq!(told(&unsure, &rules), "");
        assert_eq!(told(&unsure, &AnswerRules { no_answer_threshold: 1.0, ..rules }), "東京");
        assert_eq!(told(&unsure, &RULES), "東京", "not where every question has an answer");
    }

    #[test]
    fn a_logit_that_is_not_finite_is_no_answer_at_all() {
        for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            assert_eq!(answer(&question(), &logits(&[(1, 1, 5, bad)]), &RULES), None);
        }
    }
}
