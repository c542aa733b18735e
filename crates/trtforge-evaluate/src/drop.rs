//! The drop of one metric between two models on the same rows, with its bound.

use crate::bootstrap;
use crate::empty::undefined;
use crate::error::EvaluateError;
use crate::gate::{GateOutcome, Tolerance};
use crate::metric::Metric;
use crate::paired::{Discordance, Paired, drop_interval};
use crate::scored::Scored;
use crate::statistic::{Part, Statistic, statistic};

/// Correlations and cosines move a little on every row, so a few rows look certain and are not: below this many nothing is accepted.
const FEWEST_ROWS: usize = 30;

/// What is known of a drop.
pub(crate) struct Drop {
    pub metric: Metric,
    pub baseline: f64,
    pub candidate: f64,
    pub count: usize,
    /// Each end one-sided at the confidence; the upper end decides.
    pub interval: [f64; 2],
    /// Rows by who is right, where the bound comes from them.
    pub paired: Option<Paired>,
    /// Why the metric has no value on the baseline's rows; then nothing is decided.
    pub undefined: Option<String>,
    statistic: Option<Box<dyn Statistic>>,
}

impl Drop {
    /// Measures `metric` on both.
    pub(crate) fn of(
        metric: Metric,
        part: Part<'_>,
        baseline: &Scored,
        candidate: &Scored,
        confidence: f64,
    ) -> Result<Self, EvaluateError> {
        metric.check(baseline)?;
        let count = baseline.len();
        let right = (metric.right_rows(baseline), metric.right_rows(candidate));
        if let (Part::Whole, (Some(before), Some(after))) = (part, right) {
            let paired = Paired::of(&before, &after);
            let share = |right: usize| right as f64 / paired.count() as f64;
            return Ok(Self {
                metric,
                baseline: share(paired.both_right + paired.baseline_only),
                candidate: share(paired.both_right + paired.candidate_only),
                count,
                interval: drop_interval(&paired, confidence),
                paired: Some(paired),
                undefined: None,
                statistic: None,
            });
        }
        let statistic = statistic(metric, part, baseline, candidate)?;
        let [before, after] = statistic.observed();
        let undefined = undefined(metric, baseline);
        let interval = match &undefined {
            // Nothing is known, so everything is possible.
            Some(_) => {
                let lowest = if metric.is_correlation() { -1.0 } else { 0.0 };
                [lowest - 1.0, 1.0 - lowest]
            }
            None => bootstrap::drop_interval(&*statistic, confidence),
        };
        Ok(Self {
            metric,
            baseline: before,
            candidate: after,
            count,
            interval,
            paired: None,
            undefined,
            statistic: Some(statistic),
        })
    }

    /// Baseline − candidate.
    pub(crate) fn drop(&self) -> f64 {
        self.paired.map_or(self.baseline - self.candidate, |paired| paired.drop())
    }

    /// Above the limit, below it for sure, or neither.
    pub(crate) fn decide(&self, tolerance: Tolerance, confidence: f64) -> GateOutcome {
        if self.undefined.is_some() {
            return GateOutcome::Inconclusive;
        }
        let limit = tolerance.limit(self.baseline);
        // A drop of exactly the limit is a whole number of rows; the sliver absorbs the rounding of the limit itself.
        let (above, within) = match &self.paired {
            Some(paired) => {
                let rows = Discordance::from(*paired);
                let above = rows.lost - rows.won > limit * rows.rows * (1.0 + 1e-12);
                (above, rows.rules_out(limit, confidence))
            }
            None => (self.drop() > limit + 1e-12, self.enough_rows() && self.interval[1] <= limit),
        };
        match (above, within) {
            (true, _) => GateOutcome::Rejected,
            (false, true) => GateOutcome::Accepted,
            (false, false) => GateOutcome::Inconclusive,
        }
    }

    /// About how many rows would decide, or `None` when more rows like these would not.
    pub(crate) fn rows_needed(&self, tolerance: Tolerance, confidence: f64) -> Option<u64> {
        if self.undefined.is_some() {
            return None;
        }
        let limit = tolerance.limit(self.baseline);
        let fewest = if self.enough_rows() { 0 } else { FEWEST_ROWS as u64 };
        let needed = match (&self.paired, &self.statistic) {
            (Some(paired), _) => rows_needed(paired, limit, confidence),
            (None, Some(statistic)) => bootstrap::rows_needed(&**statistic, limit, confidence),
            (None, None) => None,
        };
        needed.map(|rows| rows.max(fewest))
    }

    fn enough_rows(&self) -> bool {
        let continuous = matches!(self.metric, Metric::Pearson | Metric::Spearman | Metric::Cosine);
        !continuous || self.count >= FEWEST_ROWS
    }
}

/// The fewest rows that would be accepted if lost and won rows kept their shares, or `None` when more rows would not help.
fn rows_needed(paired: &Paired, limit: f64, confidence: f64) -> Option<u64> {
    let now = Discordance::from(*paired);
    let decides = |rows: u64| {
        let factor = rows as f64 / now.rows;
        Discordance { lost: now.lost * factor, won: now.won * factor, rows: rows as f64 }
            .rules_out(limit, confidence)
    };
    // Beyond 2^40 rows the drop is as good as equal to the limit.
    let enough = (0..40)
        .map(|power| (paired.count() as u64) << power)
        .find(|&n| n < 1 << 40 && decides(n))?;
    let (mut short, mut enough) = (enough / 2, enough);
    while enough - short > 1 {
        let middle = u64::midpoint(short, enough);
        if decides(middle) { enough = middle } else { short = middle }
    }
    Some(enough)
}
