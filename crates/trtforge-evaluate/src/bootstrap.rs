//! One-sided bounds by the Bayesian bootstrap with one adverse row.
//!
//! Rows get random weights (exponential, which is Rubin's bootstrap), and the bound is a quantile of the metric over many draws. A plain
//! bootstrap knows nothing but the rows it has: with no flip among 20 rows it is certain that there is none anywhere. So one row is added
//! that did not occur, the worst for the candidate, with a random weight like the others. For the mean of a bounded score this is Gaffke's
//! bound (2005); where rows are only lost, it is exactly the bound of Clopper and Pearson, whatever the number of rows.

use crate::random::Random;
use crate::statistic::Statistic;

/// Draws of weights. The quantile at 95 % then stands for a probability of 0.95 ± 0.005.
pub(crate) const DRAWS: usize = 2_000;
/// Weights drawn for one bound at most: fewer draws where a hundred thousand rows are all different. Their bound hardly
/// moves from draw to draw anyway.
const MOST_WEIGHTS: usize = 100_000_000;
/// And never fewer draws than this.
const FEWEST_DRAWS: usize = 400;
/// Where every bootstrap begins, so that the same rows always give the same bound.
const SEED: u64 = 0x7274_666f_7267_6531;

/// Both values over the draws, each draw with the adverse row `unit`, as if there were `factor` times the rows.
fn draws(
    statistic: &dyn Statistic,
    unit: usize,
    factor: f64,
    count: usize,
) -> impl Iterator<Item = [f64; 2]> + '_ {
    let mut random = Random::new(SEED);
    let mut shapes: Vec<f64> = statistic.counts().iter().map(|count| count * factor).collect();
    shapes[unit] += 1.0;
    let mut weights = vec![0.0; shapes.len()];
    let affordable = (MOST_WEIGHTS / shapes.len()).max(FEWEST_DRAWS);
    (0..count.min(affordable)).map(move |_| {
        for (weight, shape) in weights.iter_mut().zip(&shapes) {
            *weight = random.gamma(*shape);
        }
        statistic.values(&weights)
    })
}

/// The value that at least `confidence` of the draws stay at or below.
fn quantile(mut values: Vec<f64>, confidence: f64) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    let rank = (confidence * (values.len() + 1) as f64).ceil() as usize;
    values[rank.clamp(1, values.len()) - 1]
}

/// The interval of the drop (baseline − candidate), each end one-sided at `confidence`.
pub(crate) fn drop_interval(statistic: &dyn Statistic, confidence: f64) -> [f64; 2] {
    let [hurts_candidate, hurts_baseline] = statistic.adverse();
    let drops = |unit, sign: f64| {
        let draws = draws(statistic, unit, 1.0, DRAWS);
        quantile(draws.map(|[before, after]| sign * (before - after)).collect(), confidence)
    };
    let [before, after] = statistic.observed();
    let drop = before - after;
    [f64::min(drop, -drops(hurts_baseline, -1.0)), f64::max(drop, drops(hurts_candidate, 1.0))]
}

/// The two-sided interval of one model's value; `statistic` has that model on both sides.
///
/// - `count`: draws; [`DRAWS`] unless the interval only has to be rough.
pub(crate) fn value_interval(statistic: &dyn Statistic, confidence: f64, count: usize) -> [f64; 2] {
    let side = f64::midpoint(1.0, confidence);
    // In the draws with the row that hurts the candidate, the same row is right for the baseline.
    let draws: Vec<[f64; 2]> = draws(statistic, statistic.adverse()[0], 1.0, count).collect();
    let high = quantile(draws.iter().map(|draw| draw[0]).collect(), side);
    let low = -quantile(draws.iter().map(|draw| -draw[1]).collect(), side);
    let value = statistic.observed()[0];
    [f64::min(low, value), f64::max(high, value)]
}

/// About how many rows would rule out a drop above `limit` if the models kept differing as they do; `None` when no number would.
pub(crate) fn rows_needed(statistic: &dyn Statistic, limit: f64, confidence: f64) -> Option<u64> {
    /// Fewer draws than decide: the answer is "about".
    const ROUGH: usize = 400;
    let [before, after] = statistic.observed();
    if before - after >= limit {
        return None;
    }
    let unit = statistic.adverse()[0];
    let decides = |factor: f64| {
        let draws = draws(statistic, unit, factor, ROUGH);
        quantile(draws.map(|[before, after]| before - after).collect(), confidence) <= limit
    };
    let mut enough = (1..=20).map(|power| f64::from(1_u32 << power)).find(|&f| decides(f))?;
    let mut short = enough / 2.0;
    while enough / short > 1.05 {
        let middle = f64::midpoint(short, enough);
        if decides(middle) { enough = middle } else { short = middle }
    }
    Some((statistic.rows() * enough).ceil() as u64)
}
