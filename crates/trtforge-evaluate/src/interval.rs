//! The Wilson score interval of a share.

use crate::normal::normal_quantile;

/// The two-sided Wilson score interval of a share.
///
/// - `right` of `count` rows; `confidence` such as 0.95.
/// - returns: lower and upper end, within 0 to 1; everything is possible for no rows.
///
/// Source: Wilson 1927, without continuity correction.
pub fn wilson_interval(right: usize, count: usize, confidence: f64) -> [f64; 2] {
    if count == 0 {
        return [0.0, 1.0];
    }
    let (n, share) = (count as f64, right as f64 / count as f64);
    let z2 = normal_quantile(f64::midpoint(1.0, confidence)).powi(2);
    let centre = (share + z2 / (2.0 * n)) / (1.0 + z2 / n);
    let half = (z2 * (share * (1.0 - share) / n + z2 / (4.0 * n * n))).sqrt() / (1.0 + z2 / n);
    // Exactly 0 and 1 at the ends, where rounding would leave 1e-17.
    let low = if right == 0 { 0.0 } else { (centre - half).max(0.0) };
    let high = if right == count { 1.0 } else { (centre + half).min(1.0) };
    [low, high]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wilson_matches_statsmodels() {
        // `statsmodels.stats.proportion.proportion_confint(right, count, 1 - confidence, "wilson")`.
        let cases = [
            (32, 37, 0.95, [0.720_225_882_159_902_1, 0.940_867_055_742_679_9]),
            (12, 30, 0.95, [0.245_906_281_168_018_52, 0.576_796_397_466_775_2]),
            (0, 10, 0.95, [0.0, 0.277_532_799_862_889_2]),
            (10, 10, 0.9, [0.787_058_029_916_592_8, 1.0]),
            (2_645, 2_872, 0.99, [0.907_001_607_300_609_9, 0.932_979_872_412_249_7]),
        ];
        for (right, count, confidence, expected) in cases {
            let interval = wilson_interval(right, count, confidence);
            for (end, expected) in interval.iter().zip(expected) {
                assert!((end - expected).abs() < 1e-12, "{right}/{count}: {interval:?}");
            }
        }
        assert_eq!(wilson_interval(0, 0, 0.95), [0.0, 1.0]);
    }
}
