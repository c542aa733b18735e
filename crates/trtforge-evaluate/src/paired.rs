//! Two models on the same rows: who is right where, and how sure the difference is.

use serde::{Deserialize, Serialize};

use crate::normal::normal_quantile;
use crate::scored::Scored;

/// Rows by who is right. Only the rows where one is right and the other is not tell the models apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Paired {
    /// Both are right.
    pub both_right: usize,
    /// Only the baseline is right: rows lost.
    pub baseline_only: usize,
    /// Only the candidate is right: rows won.
    pub candidate_only: usize,
    /// Both are wrong.
    pub both_wrong: usize,
}

impl Paired {
    /// Counts rows by whether either model is right; both must hold the same rows in the same order.
    pub fn of(baseline: &[bool], candidate: &[bool]) -> Self {
        let mut paired = Self::default();
        for (before, after) in baseline.iter().zip(candidate) {
            *match (before, after) {
                (true, true) => &mut paired.both_right,
                (true, false) => &mut paired.baseline_only,
                (false, true) => &mut paired.candidate_only,
                (false, false) => &mut paired.both_wrong,
            } += 1;
        }
        paired
    }

    /// Rows in all.
    pub fn count(&self) -> usize {
        self.both_right + self.baseline_only + self.candidate_only + self.both_wrong
    }

    /// Accuracy of the baseline minus accuracy of the candidate; 0 for no rows.
    pub fn drop(&self) -> f64 {
        match self.count() {
            0 => 0.0,
            n => (self.baseline_only as f64 - self.candidate_only as f64) / n as f64,
        }
    }
}

/// Rows whose predicted class changed, right or wrong.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Flips {
    /// All changed rows.
    pub changed: usize,
    /// `changed` as a share of all rows.
    pub share: f64,
    /// Right before, wrong now.
    pub right_to_wrong: usize,
    /// Wrong before, right now.
    pub wrong_to_right: usize,
    /// Wrong before and in another way wrong now.
    pub wrong_to_wrong: usize,
}

impl Flips {
    /// Counts changes; a row that loses its prediction changes too. `None` where answers are numbers, which always change.
    pub fn of(baseline: &Scored, candidate: &Scored) -> Option<Self> {
        let (before, after) = (baseline.right_rows()?, candidate.right_rows()?);
        let changed = baseline.changed_rows(candidate)?;
        let mut flips = Self::default();
        for row in (0..changed.len()).filter(|&row| changed[row]) {
            flips.changed += 1;
            *match (before[row], after[row]) {
                (true, _) => &mut flips.right_to_wrong,
                (false, true) => &mut flips.wrong_to_right,
                (false, false) => &mut flips.wrong_to_wrong,
            } += 1;
        }
        flips.share = flips.changed as f64 / changed.len().max(1) as f64;
        Some(flips)
    }
}

/// McNemar's exact test: under no difference, a row that only one model gets right is lost or won with equal chances.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct McNemar {
    /// Probability of at least so uneven a split, in either direction.
    pub p_two_sided: f64,
    /// Probability of at least so many rows lost: small when the candidate is worse.
    pub p_worse: f64,
}

impl McNemar {
    /// The exact binomial test of the discordant rows; no row at all gives 1.
    pub fn of(paired: &Paired) -> Self {
        let (lost, won) = (paired.baseline_only, paired.candidate_only);
        let all = lost + won;
        let at_least = |from: usize| (from..=all).map(|k| half_binomial(all, k)).sum::<f64>();
        Self {
            p_two_sided: (2.0 * at_least(lost.max(won))).min(1.0),
            p_worse: at_least(lost).min(1.0),
        }
    }
}

/// Probability of `k` heads in `n` throws of a fair coin.
fn half_binomial(n: usize, k: usize) -> f64 {
    let k = k.min(n - k);
    let logarithm: f64 = (1..=k).map(|i| ((n - k + i) as f64 / i as f64).ln()).sum();
    (logarithm - n as f64 * std::f64::consts::LN_2).exp()
}

/// Discordant rows of a paired table; real numbers, so that a larger table of the same kind can be imagined.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Discordance {
    pub lost: f64,
    pub won: f64,
    pub rows: f64,
}

impl From<Paired> for Discordance {
    fn from(paired: Paired) -> Self {
        Self {
            lost: paired.baseline_only as f64,
            won: paired.candidate_only as f64,
            rows: paired.count() as f64,
        }
    }
}

impl Discordance {
    fn drop(self) -> f64 {
        (self.lost - self.won) / self.rows
    }

    /// Tango's score: how many standard errors the rows lost are above what a true drop of `drop` gives.
    ///
    /// The standard error is the one under that drop, with the most likely share of rows won: the root of
    /// 2n·q² + (−lost − won + (2n − lost + won)·d)·q − won·d·(1 − d) = 0.
    fn score(self, drop: f64, correction: f64) -> f64 {
        let Self { lost, won, rows } = self;
        let a = 2.0 * rows;
        let b = -lost - won + (2.0 * rows - lost + won) * drop;
        let c = -won * drop * (1.0 - drop);
        let share_won = ((b * b - 4.0 * a * c).max(0.0).sqrt() - b) / (2.0 * a);
        let variance = rows * (2.0 * share_won + drop * (1.0 - drop));
        let excess = lost - won - rows * drop + correction;
        if variance > 0.0 { excess / variance.sqrt() } else { excess * f64::INFINITY }
    }

    /// The largest true drop that the rows do not contradict at one-sided `confidence`.
    pub(crate) fn upper(self, confidence: f64, correction: f64) -> f64 {
        let z = normal_quantile(confidence);
        // The score falls as the assumed drop grows.
        let (mut inside, mut outside) = (self.drop(), 1.0);
        for _ in 0..80 {
            let middle = f64::midpoint(inside, outside);
            if self.score(middle, correction) >= -z { inside = middle } else { outside = middle }
        }
        inside
    }

    /// The smallest one: the largest with the models exchanged, negated.
    fn lower(self, confidence: f64, correction: f64) -> f64 {
        -Self { lost: self.won, won: self.lost, rows: self.rows }.upper(confidence, correction)
    }

    /// Whether the rows rule out a drop above `max_drop`: `upper(…) <= max_drop` in one step.
    pub(crate) fn rules_out(self, max_drop: f64, confidence: f64) -> bool {
        self.drop() < max_drop
            && self.score(max_drop, correction(confidence)) <= -normal_quantile(confidence)
    }
}

/// Rows that are added to the rows lost before a drop is ruled out.
///
/// Tango's score as published accepts too often where drops are rare and the candidate wins no row: 6.7 % instead of 5 % at a true drop of
/// 0.005 with 539 rows (exact enumeration of the multinomial). The count of rows is whole and its distribution skewed; for a Poisson count
/// both together are worth ½ − (z² − 1)/6 rows (Cornish and Fisher 1938), 0.22 at 95 %. A quarter keeps every size below its nominal value
/// for 20 to 4,000 rows, drops of 0.001 to 0.05 and 0 to 10 % of rows won, at confidences of 0.8 to 0.99.
fn correction(confidence: f64) -> f64 {
    let z = normal_quantile(confidence);
    (0.5 - (z * z - 1.0) / 6.0).max(0.25)
}

/// Tango's score interval of the drop as published, each end one-sided at `confidence` (0.975 gives the usual two-sided 95 % interval).
///
/// - returns: lower and upper end of baseline accuracy − candidate accuracy; everything is possible for no rows.
///
/// Source: Tango 1998, Statistics in Medicine 17:891–908.
pub fn tango_interval(paired: &Paired, confidence: f64) -> [f64; 2] {
    interval(paired, confidence, 0.0)
}

/// The interval that the gate decides on: Tango's with a correction of about a quarter row, which keeps its promise for rare flips too.
///
/// Each end is one-sided at `confidence`.
pub fn drop_interval(paired: &Paired, confidence: f64) -> [f64; 2] {
    interval(paired, confidence, correction(confidence))
}

fn interval(paired: &Paired, confidence: f64, correction: f64) -> [f64; 2] {
    if paired.count() == 0 {
        return [-1.0, 1.0];
    }
    let rows = Discordance::from(*paired);
    [rows.lower(confidence, correction), rows.upper(confidence, correction)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::Outcome;
    use proptest::prelude::*;

    fn paired(baseline_only: usize, candidate_only: usize, count: usize) -> Paired {
        let both_right = count - baseline_only - candidate_only;
        Paired { both_right, baseline_only, candidate_only, both_wrong: 0 }
    }

    #[test]
    fn tables_by_hand() {
        let outcome = |class| Outcome { label: 0, class };
        let baseline = Scored::Classes(
            [Some(0), Some(0), Some(1), Some(1), Some(1), None].map(outcome).to_vec(),
        );
        let candidate = Scored::Classes(
            [Some(0), Some(2), Some(0), Some(1), Some(2), None].map(outcome).to_vec(),
        );
        let table = Paired::of(&baseline.right_rows().unwrap(), &candidate.right_rows().unwrap());
        let expected = Paired { both_right: 1, baseline_only: 1, candidate_only: 1, both_wrong: 3 };
        assert_eq!((table, table.count(), table.drop()), (expected, 6, 0.0));
        let flips = Flips::of(&baseline, &candidate);
        let expected = Flips {
            changed: 3,
            share: 0.5,
            right_to_wrong: 1,
            wrong_to_right: 1,
            wrong_to_wrong: 1,
        };
        assert_eq!(flips, Some(expected));
        assert_eq!(Paired::default().drop(), 0.0);
    }

    #[test]
    fn mcnemar_by_hand() {
        let p = |lost, won| McNemar::of(&paired(lost, won, 100));
        assert_eq!((p(0, 0).p_two_sided, p(0, 0).p_worse), (1.0, 1.0));
        // 2 · (1 + 6) / 2⁶ and 7 / 2⁶: five or six heads of six.
        assert!((p(5, 1).p_two_sided - 14.0 / 64.0).abs() < 1e-12);
        assert!((p(5, 1).p_worse - 7.0 / 64.0).abs() < 1e-12);
        assert!((p(1, 5).p_worse - 63.0 / 64.0).abs() < 1e-12);
        assert_eq!(p(3, 3).p_two_sided, 1.0);
    }

    #[test]
    fn no_flips_by_hand() {
        // Without flips the score is −√(n·d / (1 − d)), so the bound is z² / (n + z²) = 2.70554 / 22.70554.
        let [low, high] = tango_interval(&paired(0, 0, 20), 0.95);
        assert!((high - 0.119_157_837).abs() < 1e-8, "{high}");
        assert_eq!(low, -high);
    }

    #[test]
    fn the_published_interval_matches_a_numeric_likelihood() {
        // Each bound solved in SciPy from the definition: the multinomial likelihood under the assumed drop maximised numerically
        // (`minimize_scalar`), the score of it inverted with `brentq`. Not the quadratic that this module solves.
        let cases = [
            (9, 4, 69, 0.975, [-0.033_399_435_4, 0.183_862_210_9]),
            (24, 14, 2_500, 0.95, [-0.000_057_849_6, 0.008_312_032_8]),
            (5, 0, 44, 0.975, [0.024_216_260_5, 0.239_791_524_2]),
            (3, 7, 100, 0.95, [-0.099_128_882_9, 0.013_535_200_0]),
            (9, 16, 50, 0.975, [-0.326_491_838_2, 0.057_486_737_9]),
            (1, 0, 30, 0.95, [-0.052_148_451_3, 0.136_404_142_2]),
        ];
        for (lost, won, count, confidence, expected) in cases {
            let interval = tango_interval(&paired(lost, won, count), confidence);
            for (end, expected) in interval.iter().zip(expected) {
                assert!((end - expected).abs() < 1e-7, "{lost}, {won} of {count}: {interval:?}");
            }
        }
    }

    #[test]
    fn the_gates_interval_is_a_little_wider() {
        let rows = paired(24, 14, 2_500);
        let [published, gate] = [tango_interval(&rows, 0.95), drop_interval(&rows, 0.95)];
        let quarter_row = 0.25 / 2_500.0;
        assert!((gate[1] - published[1] - quarter_row).abs() < 0.15 * quarter_row, "{gate:?}");
        assert!((published[0] - gate[0] - quarter_row).abs() < 0.15 * quarter_row, "{gate:?}");
    }

    #[test]
    fn extremes_stay_in_range() {
        for (lost, won, count) in [(1, 0, 1), (0, 1, 1), (0, 0, 1), (50, 0, 50), (0, 50, 50)] {
            let table = paired(lost, won, count);
            let [low, high] = drop_interval(&table, 0.95);
            let drop = table.drop();
            assert!(
                (-1.0..=drop).contains(&low) && (drop..=1.0).contains(&high),
                "{low} {drop} {high}"
            );
        }
        assert_eq!(drop_interval(&Paired::default(), 0.95), [-1.0, 1.0]);
    }

    proptest! {
        #[test]
        fn the_bound_and_the_decision_agree(lost in 0usize..40, won in 0usize..40, rest in 1usize..3000, max_drop in 0.0005f64..0.3) {
            let table = paired(lost, won, lost + won + rest);
            let [low, high] = drop_interval(&table, 0.95);
            prop_assert!(low <= table.drop() && table.drop() <= high);
            if (high - max_drop).abs() > 1e-9 {
                prop_assert_eq!(Discordance::from(table).rules_out(max_drop, 0.95), high < max_drop);
            }
            let [mirrored_low, mirrored_high] = drop_interval(&paired(won, lost, lost + won + rest), 0.95);
            prop_assert!((low + mirrored_high).abs() < 1e-9 && (high + mirrored_low).abs() < 1e-9);
        }

        #[test]
        fn more_confidence_is_a_wider_interval(lost in 0usize..20, won in 0usize..20, rest in 1usize..500) {
            let table = paired(lost, won, lost + won + rest);
            let [low, high] = drop_interval(&table, 0.95);
            let [lower, higher] = drop_interval(&table, 0.99);
            prop_assert!(lower <= low && high <= higher);
        }
    }
}
