use proptest::prelude::*;

use super::*;

fn of(values: &[f32]) -> Histogram {
    let mut histogram = Histogram::new();
    histogram.observe(values);
    histogram
}

/// Bins found one value at a time by division in f64, which is exact here.
fn naive_bins(values: &[f32]) -> Vec<u64> {
    let finite: Vec<f64> =
        values.iter().filter(|x| x.is_finite()).map(|x| f64::from(x.abs())).collect();
    let absmax = finite.iter().copied().fold(0.0, f64::max);
    if finite.is_empty() {
        return Vec::new();
    }
    let mut width = 2_f64.powi(-149);
    while absmax >= width * BINS as f64 {
        width *= 2.0;
    }
    let mut bins = vec![0; (absmax / width) as usize + 1];
    for x in finite {
        bins[(x / width) as usize] += 1;
    }
    bins
}

/// Floats of every kind, special ones often.
fn any_value() -> impl Strategy<Value = f32> {
    prop_oneof![
        4 => -10.0_f32..10.0,
        2 => any::<f32>(),
        1 => any::<u32>().prop_map(f32::from_bits),
        1 => prop::sample::select(vec![
            0.0, -0.0, 1.0, -2.0, f32::MAX, f32::MIN_POSITIVE, f32::from_bits(1), f32::NAN,
            f32::INFINITY, f32::NEG_INFINITY, 65504.0, 1e-30,
        ]),
    ]
}

#[test]
fn empty_has_no_bins() {
    let histogram = Histogram::new();
    assert_eq!(histogram.bins(), [0_u64; 0]);
    assert_eq!((histogram.count(), histogram.absmax(), histogram.bin_width()), (0, 0.0, None));
}

#[test]
fn values_land_in_their_bins() {
    // 1.5 lies in [1, 2): width 2^0 / 2^11, so that 4,096 bins reach 2.
    let histogram = of(&[0.0, 1.5, -0.5, 0.5, 1.0]);
    assert_eq!(histogram.bin_width(), Some(1.0 / 2048.0));
    let filled: Vec<(usize, u64)> =
        histogram.bins().iter().copied().enumerate().filter(|&(_, count)| count > 0).collect();
    assert_eq!(filled, [(0, 1), (1024, 2), (2048, 1), (3072, 1)]);
    assert_eq!((histogram.count(), histogram.zeros(), histogram.absmax()), (5, 1, 1.5));
}

#[test]
fn growth_adds_neighbours_up() {
    let mut histogram = of(&[1.0, 1.0 + 1.0 / 2048.0]);
    assert_eq!(&histogram.bins()[2048..], [1, 1]);
    histogram.observe(&[2.0]);
    // The width doubled, so bins 2048 and 2049 became bin 1024.
    assert_eq!((histogram.bins()[1024], histogram.bins()[2048]), (2, 1));
    histogram.observe(&[1e30]);
    assert_eq!(histogram.bins()[0], 3);
}

#[test]
fn zeros_alone_need_no_width() {
    let mut histogram = of(&[0.0, -0.0, 0.0]);
    assert_eq!(
        (histogram.bins(), histogram.zeros(), histogram.bin_width()),
        (&[3_u64][..], 3, None)
    );
    histogram.observe(&[4.0]);
    assert_eq!((histogram.bins()[0], histogram.count()), (3, 4));
}

#[test]
fn nonfinite_values_are_counted_apart() {
    let histogram = of(&[f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 2.0, 0.0]);
    assert_eq!((histogram.nonfinite(), histogram.count(), histogram.finite()), (3, 5, 2));
    assert_eq!(histogram.absmax(), 2.0);
}

#[test]
fn extremes_fit() {
    for (values, in_use) in [
        (vec![f32::MAX, 1.0], 4096),
        (vec![f32::MIN_POSITIVE], 2049),
        (vec![f32::from_bits(1)], 2),
        (vec![f32::from_bits(4095), f32::from_bits(7)], 4096),
    ] {
        let histogram = of(&values);
        assert_eq!(histogram.bins().len(), in_use, "{values:?}");
        assert_eq!(histogram.bins(), naive_bins(&values), "{values:?}");
    }
}

#[test]
fn large_slices_take_the_path_of_sub_histograms() {
    let values: Vec<f32> =
        (0..200_000).map(|i| ((i % 977) as f32 - 400.0) * (i as f32).sqrt()).collect();
    assert_eq!(of(&values).bins(), naive_bins(&values));
}

#[test]
fn counts_beyond_32_bits_are_kept() {
    let mut histogram = of(&[1.0]);
    for _ in 0..40 {
        let same = histogram.clone();
        histogram.merge(&same);
    }
    assert_eq!(histogram.count(), 1 << 40);
}

#[test]
fn damaged_records_are_refused() {
    let good = serde_json::to_value(of(&[1.5, 0.0])).unwrap();
    assert!(serde_json::from_value::<Histogram>(good.clone()).is_ok());
    for (field, value) in [
        ("absmax", serde_json::json!(-1.0)),
        ("absmax", serde_json::json!(3.1)),
        ("zeros", serde_json::json!(2)),
        ("bins", serde_json::json!([1, 1])),
        ("other", serde_json::json!(1)),
    ] {
        let mut bad = good.clone();
        bad[field] = value.clone();
        assert!(serde_json::from_value::<Histogram>(bad).is_err(), "{field} {value}");
    }
}

proptest! {
    #[test]
    fn bins_equal_the_naive_count(values in prop::collection::vec(any_value(), 0..400)) {
        let histogram = of(&values);
        prop_assert_eq!(histogram.bins(), naive_bins(&values));
    }

    #[test]
    fn enough_bins_lie_below_the_largest(values in prop::collection::vec(-1e30_f32..1e30, 1..20)) {
        prop_assume!(values.iter().any(|x| x.abs() > 1e-30));
        prop_assert!(of(&values).bins().len() > LEAST_BINS_IN_USE);
    }

    #[test]
    fn any_order_and_cut_give_the_same(
        values in prop::collection::vec(any_value(), 1..300),
        cut in 1_usize..50,
        turn in 0_usize..300,
    ) {
        let whole = of(&values);
        let mut turned = values.clone();
        turned.rotate_left(turn % values.len());
        turned.reverse();
        let mut in_cuts = Histogram::new();
        turned.chunks(cut).for_each(|part| in_cuts.observe(part));
        prop_assert_eq!(&in_cuts, &whole);
        let mut merged = Histogram::new();
        turned.chunks(cut).for_each(|part| merged.merge(&of(part)));
        prop_assert_eq!(serde_json::to_vec(&merged).unwrap(), serde_json::to_vec(&whole).unwrap());
    }

    #[test]
    fn merging_is_commutative_and_associative(
        a in prop::collection::vec(any_value(), 0..50),
        b in prop::collection::vec(any_value(), 0..50),
        c in prop::collection::vec(any_value(), 0..50),
    ) {
        let merge = |x: &Histogram, y: &Histogram| {
            let mut sum = x.clone();
            sum.merge(y);
            sum
        };
        let (a, b, c) = (of(&a), of(&b), of(&c));
        prop_assert_eq!(merge(&a, &b), merge(&b, &a));
        prop_assert_eq!(merge(&merge(&a, &b), &c), merge(&a, &merge(&b, &c)));
    }

    #[test]
    fn a_file_holds_it_exactly(values in prop::collection::vec(any_value(), 0..100)) {
        let histogram = of(&values);
        let text = serde_json::to_string(&histogram).unwrap();
        prop_assert_eq!(serde_json::from_str::<Histogram>(&text).unwrap(), histogram);
    }
}
