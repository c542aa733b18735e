use proptest::prelude::*;

use super::*;

const METHODS: [Method; 5] = [
    Method::Entropy,
    Method::MinMax,
    Method::Mse,
    Method::Percentile(99.99),
    Method::Percentile(50.0),
];

fn of(values: &[f32]) -> Histogram {
    let mut histogram = Histogram::new();
    histogram.observe(values);
    histogram
}

/// Bulk of a bell below 5 and a few values near 590, as a feed-forward unit that answers to one rare word.
fn rare_outliers() -> Histogram {
    let mut histogram = Histogram::new();
    for i in 0..400_000_u32 {
        let x = f64::from(i.wrapping_mul(2_654_435_761)) / f64::from(u32::MAX);
        histogram.observe(&[(4.9 * x.powi(4)) as f32]);
    }
    histogram.observe(&[591.3, 570.0, 585.0, 560.0]);
    histogram
}

#[test]
fn minmax_is_the_largest_magnitude() {
    let chosen = threshold(&of(&[0.5, -1.27]), Method::MinMax).unwrap();
    // By hand: 1.27 / 127 = 0.01.
    assert_eq!((chosen.threshold, chosen.guard), (1.27, None));
    assert!((chosen.scale - 0.01).abs() < 1e-8);
}

#[test]
fn percentile_clips_the_share_it_says() {
    let values: Vec<f32> = (1..=1000).map(|i| i as f32).collect();
    let histogram = of(&values);
    // 1000 lies in [512, 1024): bins are 1/4 wide, and a threshold is the upper edge of a bin.
    for (percentile, expected) in
        [(100.0, 1000.0), (99.9, 999.25), (99.0, 990.25), (50.0, 500.25), (0.1, 1.25)]
    {
        let chosen = threshold(&histogram, Method::Percentile(percentile)).unwrap();
        assert_eq!(chosen.threshold, expected, "percentile {percentile}");
    }
    for percentile in [0.0, -1.0, 100.1, f64::NAN] {
        let error = threshold(&histogram, Method::Percentile(percentile)).unwrap_err();
        assert!(matches!(error, ThresholdError::PercentileRange { .. }), "{error}");
    }
}

#[test]
fn zeros_get_a_harmless_scale_and_a_note() {
    for method in METHODS {
        let chosen = threshold(&of(&[0.0; 40]), method).unwrap();
        assert_eq!((chosen.threshold, chosen.scale), (1.0, 1.0 / 127.0), "{method}");
        assert!(chosen.guard.unwrap().contains("zero"));
    }
}

#[test]
fn a_constant_keeps_its_value_in_range() {
    for method in METHODS {
        for constant in [1.0_f32, -0.3, 65504.0, 1e-20] {
            let chosen = threshold(&of(&[constant; 300]), method).unwrap();
            let kept = chosen.threshold / constant.abs();
            assert!((0.999..=1.0).contains(&kept), "{method} {constant}: {kept}");
        }
    }
}

#[test]
fn a_scale_is_never_subnormal() {
    for method in METHODS {
        let chosen = threshold(&of(&[1e-40, f32::from_bits(1)]), method).unwrap();
        assert_eq!(chosen.scale, f32::MIN_POSITIVE, "{method}");
        assert!(chosen.guard.is_some());
    }
}

#[test]
fn nonfinite_and_empty_are_refused() {
    for method in METHODS {
        let error = threshold(&of(&[1.0, f32::NAN, f32::INFINITY]), method).unwrap_err();
        assert_eq!(error, ThresholdError::NotFinite { nonfinite: 2, count: 3 });
        assert_eq!(threshold(&Histogram::new(), method), Err(ThresholdError::NoValues));
    }
    let error = calibrate("gelu", &of(&[f32::NAN]), Method::Mse, &Guards::OFF).unwrap_err();
    assert_eq!(
        error.to_string(),
        "tensor `gelu` cannot be calibrated: 1 of 1 values are NaN or infinite"
    );
}

#[test]
fn entropy_clips_rare_outliers_with_and_without_guard() {
    let histogram = rare_outliers();
    for guards in [Guards::default(), Guards::OFF] {
        let chosen = threshold_with(&histogram, Method::Entropy, &guards).unwrap();
        assert!(chosen.threshold <= 0.5 * histogram.absmax(), "{chosen:?}");
        assert!(chosen.threshold >= 4.5, "{chosen:?}");
    }
}

#[test]
fn the_guard_bounds_what_entropy_clips_and_says_so() {
    // A steep bell with a heavy tail, which plain KL cuts off.
    let values: Vec<f32> =
        (1..200_000).map(|i| (1.0 / (i as f32 / 200_000.0)).powf(0.7) - 1.0).collect();
    let histogram = of(&values);
    let plain = threshold_with(&histogram, Method::Entropy, &Guards::OFF).unwrap();
    let guarded = threshold(&histogram, Method::Entropy).unwrap();
    let clipped = |t: f32| values.iter().filter(|&&x| x > t).count();
    assert!(clipped(plain.threshold) > 20, "{}", clipped(plain.threshold));
    assert!(clipped(guarded.threshold) <= 19, "{}", clipped(guarded.threshold));
    assert_eq!(plain.guard, None);
    assert!(guarded.guard.unwrap().starts_with("raised: plain entropy would take "));
}

#[test]
fn thresholds_do_not_depend_on_the_unit() {
    let values: Vec<f32> =
        (0..30_000).map(|i| ((i * 7919 % 30_011) as f32 / 3e3).powi(3)).collect();
    let eight: Vec<f32> = values.iter().map(|x| 8.0 * x).collect();
    for method in METHODS {
        let (one, other) =
            (threshold(&of(&values), method).unwrap(), threshold(&of(&eight), method).unwrap());
        assert_eq!(8.0 * one.threshold, other.threshold, "{method}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn a_threshold_is_positive_and_at_most_the_largest(
        values in prop::collection::vec(prop_oneof![Just(0.0_f32), -5.0_f32..5.0, -1e30_f32..1e30], 1..200),
    ) {
        let histogram = of(&values);
        for method in METHODS {
            let chosen = threshold(&histogram, method).unwrap();
            prop_assert!(chosen.scale > 0.0 && chosen.scale.is_finite());
            prop_assert_eq!(chosen.scale, chosen.threshold / 127.0);
            prop_assert!(chosen.threshold <= histogram.absmax() || histogram.absmax() == 0.0);
        }
    }
}
