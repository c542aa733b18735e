//! How busy a device can be, from two times: what the host and what the device needs for a batch.
//!
//! Both times are of the same batch and in the same unit; nothing here depends on which.

/// The share of time in which a device works when the host prepares a batch, runs it and only then prepares the next.
///
/// `T_device / (T_host + T_device)`; 0 when both are 0.
pub fn blocking_utilization(host: f64, device: f64) -> f64 {
    share(device, host + device)
}

/// The same when `workers` prepare batches ahead of the device.
///
/// `min(1, T_device / max(T_device, T_host / N))`: the slower of the two sets the pace. Without workers it is the blocking loop.
pub fn overlapped_utilization(host: f64, device: f64, workers: usize) -> f64 {
    if workers == 0 {
        return blocking_utilization(host, device);
    }
    share(device, device.max(host / workers as f64)).min(1.0)
}

/// How many workers hide the host: `ceil(T_host / T_device)`, at least 1. More of them do not help.
///
/// None when the device takes no time, since then no number of workers keeps up.
pub fn hiding_workers(host: f64, device: f64) -> Option<usize> {
    // A nanosecond of noise in a ratio that is whole by design is no reason for a worker more.
    let ratio = host / device - 1e-9;
    (device > 0.0 && ratio.is_finite()).then(|| (ratio.ceil() as usize).max(1))
}

/// What part of the work is padding.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize)]
pub struct PaddingWaste {
    /// Of the tokens: `1 - mean length / padded length` when all are padded alike.
    pub tokens: f64,
    /// Of the floating-point operations. Projections grow with the length and attention with its square, so that it is more.
    pub flops: f64,
}

/// The waste of padding rows.
///
/// - `rows`: the tokens of each row, and what it was padded to;
/// - `cost`: the floating-point operations of one row by its length.
///
/// A row that attends to its padding pays for it in every layer; what a fused kernel may skip is not counted as saved. No rows waste nothing.
pub fn padding_waste(
    rows: impl IntoIterator<Item = (usize, usize)>,
    cost: &dyn Fn(usize) -> f64,
) -> PaddingWaste {
    let (mut real, mut padded, mut needed, mut computed) = (0.0, 0.0, 0.0, 0.0);
    for (length, to) in rows {
        real += length as f64;
        padded += to as f64;
        needed += cost(length);
        computed += cost(to);
    }
    PaddingWaste {
        tokens: share(padded - real, padded).max(0.0),
        flops: share(computed - needed, computed).max(0.0),
    }
}

fn share(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn eighteen_of_host_and_six_of_device() {
        assert_eq!(blocking_utilization(18.0, 6.0), 0.25);
        assert_eq!(hiding_workers(18.0, 6.0), Some(3));
        let by_workers: Vec<f64> = (0..6).map(|n| overlapped_utilization(18.0, 6.0, n)).collect();
        // 6 / 18, 6 / 9, 6 / 6, and no more after that.
        assert_eq!(by_workers, [0.25, 6.0 / 18.0, 6.0 / 9.0, 1.0, 1.0, 1.0]);
    }

    #[test]
    fn workers_by_hand() {
        let cases = [
            (18.1, 6.0, Some(4)),
            (6.0, 6.0, Some(1)),
            (1.0, 6.0, Some(1)),
            (0.0, 6.0, Some(1)),
            (0.3, 0.1, Some(3)),
            (5.0, 0.0, None),
            (0.0, 0.0, None),
        ];
        for (host, device, workers) in cases {
            assert_eq!(hiding_workers(host, device), workers, "{host} {device}");
        }
        assert_eq!(blocking_utilization(0.0, 0.0), 0.0);
        assert_eq!(overlapped_utilization(0.0, 6.0, 1), 1.0);
    }

    #[test]
    fn a_mean_of_27_of_128_tokens_is_79_percent_padding() {
        let rows = || [20, 34, 27].map(|length| (length, 128));
        let linear = padding_waste(rows(), &|length| length as f64);
        assert!((linear.tokens - (1.0 - 27.0 / 128.0)).abs() < 1e-12);
        assert_eq!(format!("{:.0} %", 100.0 * linear.tokens), "79 %");
        assert!((linear.tokens - linear.flops).abs() < 1e-12, "linear work wastes as tokens do");
    }

    #[test]
    fn attention_makes_the_waste_larger_than_tokens_say() {
        // One row of 2 tokens padded to 4, hidden 1, one layer: 12·H² a token and 4·L²·H, that is 24 + 16 = 40 of 48 + 64 = 112... by hand:
        // f(2) = 12·2 + 4·4 = 40, f(4) = 12·4 + 4·16 = 112; wasted 72 of 112.
        let cost = |length: usize| (12 * length + 4 * length * length) as f64;
        let waste = padding_waste([(2, 4)], &cost);
        assert_eq!(waste, PaddingWaste { tokens: 0.5, flops: 72.0 / 112.0 });
        assert_eq!(padding_waste([], &cost), PaddingWaste { tokens: 0.0, flops: 0.0 });
        assert_eq!(padding_waste([(4, 4)], &cost), PaddingWaste { tokens: 0.0, flops: 0.0 });
    }
}
