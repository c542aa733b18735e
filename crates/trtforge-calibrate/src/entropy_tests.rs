use proptest::prelude::*;

use super::*;

/// The definition at the head of the module, word for word: quadratic, with both distributions written out.
fn naive_divergence(bins: &[u64], kept: usize) -> f64 {
    let all: u64 = bins.iter().sum();
    let clipped: u64 = bins[kept..].iter().sum();
    let mut original: Vec<f64> = bins[..kept].iter().map(|&n| n as f64).collect();
    original[kept - 1] += clipped as f64;
    let mut quantized = vec![0.0; kept];
    for level in 0..LEVELS {
        let range = level * kept / LEVELS..(level + 1) * kept / LEVELS;
        let mass: u64 = bins[range.clone()].iter().sum();
        let filled = bins[range.clone()].iter().filter(|&&n| n > 0).count();
        for bin in range.filter(|&bin| bins[bin] > 0) {
            quantized[bin] = mass as f64 / filled as f64;
        }
    }
    let mut mass: f64 = bins[..kept].iter().sum::<u64>() as f64;
    if mass == 0.0 {
        return f64::INFINITY;
    }
    if bins[kept - 1] == 0 {
        quantized[kept - 1] = 1.0;
        mass += 1.0;
    }
    let all = all as f64;
    let term = |(p, q): (&f64, &f64)| {
        if *p == 0.0 { 0.0 } else { p / all * ((p / all) / (q / mass)).ln() }
    };
    original.iter().zip(&quantized).map(term).sum()
}

fn assert_same(bins: &[u64]) {
    let fast = divergences(bins);
    assert_eq!(fast.len(), bins.len() - LEVELS + 1);
    for (index, fast) in fast.into_iter().enumerate() {
        let naive = naive_divergence(bins, LEVELS + index);
        let close = (fast - naive).abs() <= 1e-9 || (fast.is_infinite() && naive.is_infinite());
        assert!(close, "{} bins kept: {fast} instead of {naive}", LEVELS + index);
    }
}

#[test]
fn two_bins_per_level_by_hand() {
    // 128 levels of counts (1, 3): each spreads 4 over 2 bins, so q = 2 and
    // KL = 128 * (1/512 * ln(1/2) + 3/512 * ln(3/2)) = (3 ln 1.5 - ln 2) / 4 = 0.130812.
    let bins: Vec<u64> = [1, 3].repeat(128);
    let divergences = divergences(&bins);
    assert!((divergences[128] - 0.130_812).abs() < 1e-6, "{}", divergences[128]);
    // Half of it clipped: 127 bins keep their counts, at half their share, and the last holds 3 + 256 of 512 where
    // Q has 3 of 256. KL = 253/512 * ln(1/2) + 259/512 * ln(259/6) = 1.562083.
    assert!((divergences[0] - 1.562_083).abs() < 1e-6, "{}", divergences[0]);
}

#[test]
fn an_empty_last_bin_counts_as_one_value() {
    // Counts 2 in bins 0..127, none in bin 127, 2 in bin 128: keeping 128 bins clips 2 of 256 into an empty bin.
    // Q holds 254 + 1: KL = 127 * 2/256 * ln((2/256) / (2/255)) + 2/256 * ln((2/256) / (1/255))
    //   = 254/256 * ln(255/256) + 2/256 * ln(510/256) = 0.001500.
    let mut bins = vec![2; 129];
    bins[127] = 0;
    let divergence = divergences(&bins)[0];
    assert!((divergence - 0.001_500).abs() < 1e-5, "{divergence}");
}

#[test]
fn few_bins_leave_no_choice() {
    assert_eq!(best(&[3]), 1);
    assert_eq!(best(&[1; 127]), 127);
}

#[test]
fn one_value_keeps_everything() {
    for length in [128, 129, 2049, 4096] {
        let mut bins = vec![0; length];
        bins[length - 1] = 1000;
        assert_eq!(best(&bins), length);
    }
}

#[test]
fn equal_divergences_go_to_the_larger_threshold() {
    // A flat histogram loses nothing at any whole number of bins per level.
    assert_eq!(best(&[5; 512]), 512);
}

#[test]
fn the_histogram_is_not_changed_and_the_far_tail_is_clipped() {
    let mut bins: Vec<u64> =
        (0..4096).map(|i| (1e7 * (-f64::from(i) / 20.0).exp()) as u64).collect();
    bins[4095] = 2;
    let before = bins.clone();
    let kept = best(&bins);
    // The bell reaches bin 322; at 4,096 bins it would share 11 of the 128 levels.
    assert!((128..=400).contains(&kept), "{kept}");
    assert_eq!(bins, before);
}

#[test]
fn prefix_sums_agree_with_the_definition_at_full_size() {
    let bell: Vec<u64> = (0..4096).map(|i| (1e6 * (-f64::from(i) / 300.0).exp()) as u64).collect();
    let sparse: Vec<u64> = (0..3001_u64).map(|i| if i % 97 == 0 { i * i } else { 0 }).collect();
    for mut bins in [bell, sparse] {
        *bins.last_mut().unwrap() += 1;
        assert_same(&bins);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn prefix_sums_agree_with_the_definition(
        mut bins in prop::collection::vec(prop_oneof![3 => Just(0_u64), 2 => 1_u64..10, 1 => 0_u64..1_000_000], 128..700),
    ) {
        *bins.last_mut().unwrap() += 1;
        assert_same(&bins);
    }
}
