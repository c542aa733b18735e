use std::collections::BTreeMap;

use trtforge_calibrate::{Guards, Observer};

use super::*;

/// Rows whose shift is a function of the scales, one number per row.
struct Fake<F> {
    rows: usize,
    parts: usize,
    shift: F,
    measured: usize,
}

impl<F: Fn(&BTreeMap<&str, f32>, usize) -> f64> Measure for Fake<F> {
    type Error = std::convert::Infallible;

    fn parts(&self) -> usize {
        self.parts
    }

    fn measure(
        &mut self,
        scales: &BTreeMap<&str, f32>,
        part: usize,
    ) -> Result<Divergence, Self::Error> {
        let each = self.rows / self.parts;
        self.measured += each;
        let shifts = (part * each..(part + 1) * each).map(|row| (self.shift)(scales, row));
        Ok(Divergence::of(shifts.collect()))
    }
}

fn fake<F: Fn(&BTreeMap<&str, f32>, usize) -> f64>(shift: F) -> Fake<F> {
    Fake { rows: 24, parts: 6, shift, measured: 0 }
}

/// Values 1 … 1000 and, of some tensors, a larger one: min-max and percentiles differ.
fn observer(largest: &[(&'static str, f32)]) -> Observer {
    let mut observer = Observer::new(largest.iter().map(|(name, _)| *name), [""; 0]);
    for (name, largest) in largest {
        let mut values: Vec<f32> = (1..=1000).map(|i| i as f32).collect();
        values.push(*largest);
        observer.observe(name, &values);
    }
    observer
}

const TWO: [Method; 2] = [Method::MinMax, Method::Percentile(99.0)];

fn candidates(largest: &[(&'static str, f32)], methods: &[Method]) -> Candidates {
    Candidates::of(&observer(largest), methods, &Guards::default()).unwrap()
}

fn clipped(scales: &BTreeMap<&str, f32>, tensor: &str) -> bool {
    scales[tensor] < 10.0
}

fn chosen(found: &Found) -> Vec<(&str, Method)> {
    found.tensors.iter().map(|(name, entry)| (name.as_str(), entry.method)).collect()
}

#[test]
fn the_method_that_moves_the_logits_least_wins() {
    let candidates = candidates(&[("a", 5000.0)], &TWO);
    for (clipping_helps, winner) in [(true, TWO[1]), (false, TWO[0])] {
        let mut measure = fake(|scales, row| {
            0.1 + if clipped(scales, "a") == clipping_helps { 0.0 } else { 0.01 * row as f64 }
        });
        let found = choose(&candidates, &mut measure, Effort { most_passes: 0 }).unwrap();
        assert_eq!((found.winner, chosen(&found)), (winner, vec![("a", winner)]));
        assert!((found.divergence.mean() - 0.1).abs() < 1e-12);
        // By hand: the worse method's shift is 0.1 plus the mean of 0.01 · (0 … 23).
        let worse = found.tried.iter().find(|tried| tried.method != winner).unwrap();
        assert!((worse.divergence.mean() - 0.215).abs() < 1e-12);
        assert_eq!((found.rows_run, measure.measured), (48, 48));
    }
}

#[test]
fn ties_and_equal_thresholds_go_to_the_first_method() {
    let both = candidates(&[("a", 5000.0)], &TWO);
    let mut measure = fake(|_, _| 0.5);
    let found = choose(&both, &mut measure, Effort::default()).unwrap();
    assert_eq!((found.winner, found.changes.len()), (TWO[0], 0));
    // Where every method gives the same threshold, one measurement serves all and nothing is searched.
    let same = candidates(&[("a", 1000.0)], &[Method::MinMax, Method::Percentile(100.0)]);
    let mut measure = fake(|_, _| 0.5);
    let found = choose(&same, &mut measure, Effort::default()).unwrap();
    assert_eq!((found.winner, found.tried.len(), measure.measured), (Method::MinMax, 2, 24));
}

#[test]
fn a_family_and_then_a_single_tensor_take_another_method() {
    // `ffn` is better off clipped in both layers, `out` in one of them, the others not. Three of six: min-max, the first of
    // equally good methods, is where the search begins.
    let names = ["alone", "l0.ffn", "l0.out", "l1.ffn", "l1.out", "other"];
    let candidates = candidates(&names.map(|name| (name, 5000.0)), &TWO);
    let wanted = |tensor: &str| tensor.contains("ffn") || tensor == "l1.out";
    let mut measure = fake(|scales, row| {
        let wrong = names.iter().filter(|name| clipped(scales, name) != wanted(name)).count();
        0.02 + wrong as f64 * (0.1 + 0.001 * (row % 2) as f64)
    });
    let found = choose(&candidates, &mut measure, Effort { most_passes: 100 }).unwrap();
    let [keep, clip] = TWO;
    let expected = [keep, clip, keep, clip, clip, keep];
    assert_eq!(chosen(&found), names.into_iter().zip(expected).collect::<Vec<_>>());
    assert!((found.divergence.mean() - 0.02).abs() < 1e-9, "{found:?}");
    let changed: Vec<_> = found.changes.iter().map(|c| (c.tensors.len(), c.from, c.to)).collect();
    assert_eq!((found.winner, changed), (keep, vec![(2, keep, clip), (1, keep, clip)]));
    assert!(found.changes.iter().all(|change| change.after < change.before));
}

#[test]
fn what_only_fits_the_searched_rows_is_dropped() {
    // Six parts of four rows: the last two judge. Clipping helps on the first sixteen rows and harms on the others.
    let candidates = candidates(&[("a", 5000.0), ("b", 5000.0)], &TWO);
    let mut measure = fake(|scales, row| {
        let clipped = ["a", "b"].iter().filter(|name| clipped(scales, name)).count();
        match (clipped, row < 16) {
            (0, _) => 0.5,
            (1, true) => 0.4 + 0.001 * row as f64,
            (1, false) => 0.6,
            _ => 0.9,
        }
    });
    let found = choose(&candidates, &mut measure, Effort::default()).unwrap();
    assert_eq!((found.winner, found.changes.len()), (Method::MinMax, 0));
    assert_eq!(chosen(&found), [("a", Method::MinMax), ("b", Method::MinMax)]);
    let why = found.dropped.unwrap();
    assert!(why.contains("0.60000 instead of 0.50000 on 8 others"), "{why}");
    assert!((found.divergence.mean() - 0.5).abs() < 1e-12);
}

#[test]
fn a_gain_within_the_noise_is_no_reason() {
    let candidates = candidates(&[("a", 5000.0), ("b", 5000.0)], &TWO);
    // Clipping `a` gains 0.02 on average, with row-by-row differences of ±0.2.
    let mut measure = fake(|scales, row| {
        let noise = if row % 2 == 0 { 0.2 } else { -0.2 };
        match (clipped(scales, "a"), clipped(scales, "b")) {
            (false, false) => 1.0,
            (true, false) => 0.98 + noise,
            _ => 2.0,
        }
    });
    let found = choose(&candidates, &mut measure, Effort::default()).unwrap();
    assert_eq!((found.changes, found.dropped), (vec![], None));
}

#[test]
fn the_effort_bounds_what_is_run() {
    let names: Vec<String> = (0..40).map(|i| format!("t{}", "x".repeat(i))).collect();
    let mut observer = Observer::new(names.iter().cloned(), [""; 0]);
    for name in &names {
        observer.observe(name, &[1.0; 1000]);
        observer.observe(name, &[5000.0]);
    }
    let candidates = Candidates::of(&observer, &TWO, &Guards::default()).unwrap();
    let mut measure =
        fake(|scales, _| scales.values().map(|scale| f64::from(*scale).ln().abs()).sum());
    let found = choose(&candidates, &mut measure, Effort { most_passes: 3 }).unwrap();
    // Two methods, three passes, at most one trial begun before the limit, and the parts that judge.
    assert!(found.rows_run <= 24 * (2 + 3 + 1 + 1), "{}", found.rows_run);
    assert_eq!(found.rows_run, measure.measured);
}

#[test]
fn a_variant_that_breaks_the_logits_never_wins() {
    let candidates = candidates(&[("a", 5000.0)], &TWO);
    let mut measure =
        fake(|scales, row| if clipped(scales, "a") && row == 3 { f64::INFINITY } else { 0.5 });
    assert_eq!(choose(&candidates, &mut measure, Effort::default()).unwrap().winner, TWO[0]);
    // Even if all do, the first is taken and nothing panics.
    let mut measure = fake(|_, _| f64::INFINITY);
    assert_eq!(choose(&candidates, &mut measure, Effort::default()).unwrap().winner, TWO[0]);
}

#[test]
fn families_are_names_that_differ_in_numbers() {
    assert_eq!(family("/encoder/layer.11/Add_1_output_0"), "/encoder/layer.#/Add_#_output_#");
    assert_eq!(family(""), "");
}
