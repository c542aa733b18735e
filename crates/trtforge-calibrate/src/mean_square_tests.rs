use super::*;

/// Every bin cut into slices, each slice's middle quantized and dequantized.
fn naive(bins: &[u64], zeros: u64, t: f64) -> f64 {
    const SLICES: usize = 400;
    let step = t / LEVELS as f64;
    let mut sum = 0.0;
    for (bin, &count) in bins.iter().enumerate() {
        let count = (if bin == 0 { count - zeros } else { count }) as f64;
        for slice in 0..SLICES {
            let x = bin as f64 + (slice as f64 + 0.5) / SLICES as f64;
            let level = (x / step).round().min(LEVELS as f64);
            sum += count / SLICES as f64 * (x - level * step).powi(2);
        }
    }
    sum
}

#[test]
fn a_flat_histogram_costs_a_twelfth_of_a_step_squared() {
    // Values evenly spread over 127 steps of one bin: the variance of rounding is 1/12 each.
    let moments = Moments::new(&[1; 127], 0);
    assert!((moments.squared_error(127.0) - 127.0 / 12.0).abs() < 1e-6);
    // Steps of two bins: 4/12 each.
    let moments = Moments::new(&[1; 254], 0);
    assert!((moments.squared_error(254.0) - 254.0 / 3.0).abs() < 1e-6);
}

#[test]
fn clipping_costs_the_distance() {
    // One value in [10, 11), threshold 1: E[(x - 1)^2] = (10^3 - 9^3) / 3 = 90.333.
    let mut bins = vec![0; 11];
    bins[10] = 1;
    assert!((Moments::new(&bins, 0).squared_error(1.0) - 271.0 / 3.0).abs() < 1e-9);
}

#[test]
fn moments_agree_with_slicing() {
    let bins: Vec<u64> = (0..900_u64).map(|i| 1 + (1000 / (1 + i)) * (i % 3)).collect();
    for t in [100.0, 127.0, 333.0, 900.0] {
        let (fast, slow) = (Moments::new(&bins, 0).squared_error(t), naive(&bins, 0, t));
        assert!((fast / slow - 1.0).abs() < 1e-3, "{t}: {fast} {slow}");
    }
}

#[test]
fn zeros_cost_nothing() {
    let mut bins = vec![1; 254];
    bins[0] += 1_000_000;
    let error = Moments::new(&bins, 1_000_000).squared_error(254.0);
    assert!((error - 254.0 / 3.0).abs() < 1e-6, "{error}");
}

#[test]
fn a_few_far_values_are_clipped_and_many_are_not() {
    let bulk = |far: u64| {
        let mut bins: Vec<u64> =
            (0..2100_u64).map(|i| if i < 600 { 1_000_000 } else { 0 }).collect();
        bins[2099] = far;
        best(&bins, 0)
    };
    assert!(bulk(1) < 620, "{}", bulk(1));
    assert_eq!(bulk(10_000_000), 2100);
}

#[test]
fn the_noise_of_a_threshold_by_hand() {
    // 1 and 3 in bins of width 1/1024, so that a bin's own spread hardly counts: a threshold of 1 clips 3 to 1, which
    // costs (3 - 1)² = 4 of 1 + 9 squares.
    let mut histogram = Histogram::new();
    histogram.observe(&[1.0, 3.0, 0.0]);
    let noise = noise_to_signal(&histogram, 1.0);
    assert!((noise - 0.4).abs() < 1e-3, "{noise}");
    // Both lie on levels of 127/127: next to nothing is lost.
    assert!(noise_to_signal(&histogram, 127.0 / 42.0) < 2e-5);
    let mut zeros = Histogram::new();
    zeros.observe(&[0.0; 4]);
    assert_eq!(noise_to_signal(&zeros, 1.0), 0.0);
}
