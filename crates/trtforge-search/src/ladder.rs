//! Which candidates a fall-back looks at, in what order, and at what confidence.
//!
//! Candidates are nested: each returns the worst `n` units of one ranking to FP16. They are chosen and put in order on rows
//! that judge nothing, the one with the least INT8 first, and then looked at in that order until the first is
//! refused. Such a fixed sequence needs no correction for the number of looks: as long as all before it passed,
//! each candidate may be tested at the full level, since the chance that the first bad one of the sequence passes
//! is that level, and nothing behind it is looked at otherwise (Maurer, Hothorn and Lehmacher 1995). The look at
//! INT8 as a whole, which comes before and decides whether there is a sequence at all, is a hypothesis of its own; the
//! two share the level by halves (Bonferroni; as in the fallback procedure of Wiens 2003).

/// The share of the units that the first candidate returns. With less INT8 left than that, FP16 is as good.
const MOST_RETURNED: f64 = 0.9;
/// From one candidate to the next, this share of the returned units stays returned.
const STEP: f64 = 0.7;
/// A candidate whose logits lie at most this much nearer to FP32's than the next one's, which has more INT8, is
/// not worth a look.
const WORTH: f64 = 1.1;

/// Confidence of each look, so that `confidence` holds for all together.
pub fn look_confidence(confidence: f64) -> f64 {
    1.0 - (1.0 - confidence) / 2.0
}

/// How many of `units` each candidate returns, the most first.
///
/// Returning all is FP16, and none is what was refused, so a model of one unit has no candidates.
pub fn ladder(units: usize) -> Vec<usize> {
    let most = units.saturating_sub(1);
    let mut returned = ((units as f64 * MOST_RETURNED).round() as usize).min(most);
    let mut ladder = Vec::new();
    while returned > 0 {
        ladder.push(returned);
        returned = ((returned as f64 * STEP) as usize).min(returned - 1);
    }
    ladder
}

/// Positions of the candidates to look at, in the same order, `most` at most.
///
/// The first is always among them, for something to fall back on, unless nothing may be looked at. Another one is left
/// out where the one behind it, with more INT8, moves the logits hardly further. If there are still too many,
/// those are left out that are nearest to their neighbour.
///
/// - `shifts`: how far the logits of each candidate lie from FP32's, on rows that judge nothing.
pub fn worth_a_look(shifts: &[f64], most: usize) -> Vec<usize> {
    let dominated =
        |index: usize| shifts.get(index + 1).is_some_and(|next| *next <= shifts[index] * WORTH);
    let mut kept: Vec<usize> =
        (0..shifts.len()).filter(|&index| index == 0 || !dominated(index)).collect();
    while kept.len() > most {
        // The first is kept for safety and the last for its INT8.
        let gap = |at: usize| shifts[kept[at + 1]] / shifts[kept[at]].max(f64::MIN_POSITIVE);
        let between = (1..kept.len().saturating_sub(1)).min_by(|&a, &b| gap(a).total_cmp(&gap(b)));
        kept.remove(between.unwrap_or(kept.len() - 1));
    }
    kept
}

/// Why a sequence of looks ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// The time was over before the look at this place of the order.
    TimeOver(usize),
    /// The candidate was refused.
    Refused,
    /// All were looked at.
    Exhausted,
}

/// Looks at candidates in their order until one is refused; the last that passed, which has the most INT8.
///
/// - `look`: whether a candidate passes; none when there is no time for it.
pub fn walk<E>(
    order: &[usize],
    mut look: impl FnMut(usize) -> Result<Option<bool>, E>,
) -> Result<(Option<usize>, Ended), E> {
    let mut chosen = None;
    for (place, &candidate) in order.iter().enumerate() {
        match look(candidate)? {
            Some(true) => chosen = Some(candidate),
            Some(false) => return Ok((chosen, Ended::Refused)),
            None => return Ok((chosen, Ended::TimeOver(place))),
        }
    }
    Ok((chosen, Ended::Exhausted))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ladders_end_with_a_single_unit() {
        assert_eq!(ladder(0), [0usize; 0]);
        assert_eq!(ladder(1), [0usize; 0]);
        assert_eq!(ladder(2), [1]);
        assert_eq!(ladder(8), [7, 4, 2, 1]);
        assert_eq!(ladder(72), [65, 45, 31, 21, 14, 9, 6, 4, 2, 1]);
        for units in 2..200 {
            let ladder = ladder(units);
            assert!(ladder[0] < units && ladder.windows(2).all(|pair| pair[0] > pair[1]));
            assert_eq!(ladder.last(), Some(&1));
        }
    }

    #[test]
    fn only_candidates_that_differ_are_worth_a_look() {
        // One unit does all the damage: whoever returns it is as good as the one that returns many.
        assert_eq!(worth_a_look(&[0.10, 0.10, 0.10, 0.101], 8), [0, 3]);
        // Each returns something that matters.
        assert_eq!(worth_a_look(&[0.1, 0.2, 0.4, 0.8], 8), [0, 1, 2, 3]);
        // More INT8 and nearer to FP32, by chance.
        assert_eq!(worth_a_look(&[0.1, 0.3, 0.2, 0.8], 8), [0, 2, 3]);
        assert_eq!(worth_a_look(&[0.1, 0.2, 0.9, 1.8], 3), [0, 1, 3]);
        assert_eq!(worth_a_look(&[0.1, 0.2, 0.4], 1), [0]);
        assert_eq!(worth_a_look(&[0.1, 0.2, 0.4], 0), [0usize; 0]);
        assert_eq!(worth_a_look(&[], 8), [0usize; 0]);
        assert_eq!(worth_a_look(&[0.0, 0.0], 8), [0, 1]);
    }

    #[test]
    fn the_last_before_a_refusal_is_chosen() {
        let walk = |answers: &[Option<bool>]| {
            let order: Vec<usize> = (10..10 + answers.len()).collect();
            walk::<()>(&order, |candidate| Ok(answers[candidate - 10])).unwrap()
        };
        let (yes, no) = (Some(true), Some(false));
        assert_eq!(walk(&[yes, yes, no, yes]), (Some(11), Ended::Refused));
        assert_eq!(walk(&[no, yes]), (None, Ended::Refused));
        assert_eq!(walk(&[yes, None]), (Some(10), Ended::TimeOver(1)));
        assert_eq!(walk(&[yes, yes]), (Some(11), Ended::Exhausted));
        assert_eq!(walk(&[]), (None, Ended::Exhausted));
    }

    #[test]
    fn two_looks_share_what_one_may_err() {
        assert!((look_confidence(0.95) - 0.975).abs() < 1e-12);
    }
}
