//! The promise of the confidence, for the metrics whose bound is by bootstrap: where the true drop is exactly the limit, a gate accepts at
//! most one time in twenty. The population's drop is computed, and the gate asked about that very number.

mod common;

use common::Dice;
use trtforge_evaluate::{
    AnswerRow, Gate, GateOutcome, Metric, Outcome, Scored, SimilarityRow, TagRow, TagScheme,
    TaggedRows, Tolerance, judge,
};

impl Dice {
    /// Which of the weights, which sum to 1.
    fn choose(&mut self, weights: &[f64]) -> usize {
        let mut left = self.roll();
        for (index, weight) in weights.iter().enumerate() {
            left -= weight;
            if left < 0.0 {
                return index;
            }
        }
        weights.len() - 1
    }

    fn normal(&mut self) -> f64 {
        (-2.0 * (1.0 - self.roll()).ln()).sqrt() * (std::f64::consts::TAU * self.roll()).cos()
    }
}

/// Judges `runs` simulated pairs against the true drop, and counts the accepted.
fn accepted(
    metric: Metric,
    limit: f64,
    runs: u64,
    mut simulate: impl FnMut(&mut Dice) -> [Scored; 2],
) -> u64 {
    let gate =
        Gate { allow_chance_baseline: true, ..Gate::drop(metric, Tolerance::Absolute(limit)) };
    let one = |seed: u64| {
        let [before, after] = simulate(&mut Dice(seed));
        u64::from(judge(&gate, &before, &after).unwrap().outcome == GateOutcome::Accepted)
    };
    (0..runs).map(one).sum()
}

/// 5 % of `runs` and two standard deviations of the simulation.
fn assert_keeps_its_promise(accepted: u64, runs: u64, what: &str) {
    let expected = 0.05 * runs as f64;
    let most = expected + 2.0 * (0.95 * expected).sqrt();
    assert!(accepted as f64 <= most, "{what}: {accepted} of {runs} accepted, {most:.0} allowed");
}

/// Label, answer before, answer after; how often.
type Cells = [(usize, usize, usize, f64)];

fn sides(rows: &[(usize, usize, usize)]) -> [Scored; 2] {
    let side = |answer: fn(&(usize, usize, usize)) -> usize| {
        let outcome =
            |row: &(usize, usize, usize)| Outcome { label: row.0, class: Some(answer(row)) };
        Scored::Classes(rows.iter().map(outcome).collect())
    };
    [side(|row| row.1), side(|row| row.2)]
}

fn classes(metric: Metric, cells: &Cells, rows: usize, runs: u64) -> u64 {
    let expand = |&(label, before, after, share): &(usize, usize, usize, f64)| {
        vec![(label, before, after); (share * 10_000.0).round() as usize]
    };
    let population: Vec<_> = cells.iter().flat_map(expand).collect();
    assert_eq!(population.len(), 10_000, "shares sum to 1");
    let [before, after] = sides(&population);
    let gate = Gate::drop(metric, Tolerance::Absolute(0.9));
    let limit = judge(&gate, &before, &after).unwrap().drop;
    assert!(limit > 0.0);
    let shares: Vec<f64> = cells.iter().map(|cell| cell.3).collect();
    accepted(metric, limit, runs, |dice| {
        let row = |_| {
            let (label, before, after, _) = cells[dice.choose(&shares)];
            (label, before, after)
        };
        sides(&(0..rows).map(row).collect::<Vec<_>>())
    })
}

/// Three classes, the last one rare, and losses in every one.
const COMMON: [(usize, usize, usize, f64); 10] = [
    (0, 0, 0, 0.60),
    (0, 0, 1, 0.01),
    (0, 1, 0, 0.01),
    (0, 1, 1, 0.08),
    (1, 1, 1, 0.19),
    (1, 1, 0, 0.01),
    (1, 0, 0, 0.02),
    (2, 2, 2, 0.06),
    (2, 2, 0, 0.01),
    (2, 1, 1, 0.01),
];

/// Nothing but rare losses, all in the rare class: what a plain bootstrap cannot see.
const RARE: [(usize, usize, usize, f64); 3] = [(0, 0, 0, 0.90), (1, 1, 1, 0.095), (1, 1, 0, 0.005)];

#[test]
fn f1_and_matthews_at_the_limit() {
    for (metric, cells, rows) in [
        (Metric::MacroF1, COMMON.as_slice(), 400),
        (Metric::MacroF1, RARE.as_slice(), 300),
        (Metric::MacroF1, RARE.as_slice(), 600),
        (Metric::Mcc, COMMON.as_slice(), 400),
    ] {
        let what = format!("{metric}, {} cells, {rows} rows", cells.len());
        assert_keeps_its_promise(classes(metric, cells, rows, 140), 140, &what);
    }
}

#[test]
fn f1_of_answers_at_the_limit() {
    // Lost whole, lost by half, won by 0.3, the same.
    for (rows, shares) in [(300, [0.01, 0.02, 0.02, 0.95]), (500, [0.004, 0.002, 0.0, 0.994])] {
        let drops = [1.0, 0.5, -0.3, 0.0];
        let limit: f64 = drops.iter().zip(shares).map(|(drop, share)| drop * share).sum();
        let row = |f1: f64| AnswerRow { exact: 0.0, f1, answerable: true, answer: Some(0) };
        let count = accepted(Metric::AnswerF1, limit, 300, |dice| {
            let chosen: Vec<usize> = (0..rows).map(|_| dice.choose(&shares)).collect();
            let (before, after) = ([1.0, 0.9, 0.5, 0.7], [0.0, 0.4, 0.8, 0.7]);
            [before, after].map(|f1: [f64; 4]| {
                Scored::Answers(chosen.iter().map(|&kind| row(f1[kind])).collect())
            })
        });
        assert_keeps_its_promise(count, 300, &format!("{rows} rows"));
    }
}

#[test]
fn f1_of_entities_at_the_limit() {
    // Each entity is lost with probability p by itself: 2(1 − p) / (2 − p) of 1 remains.
    for (rows, lost) in [(200, 0.01), (100, 0.03)] {
        let limit = 1.0 - 2.0 * (1.0 - lost) / (2.0 - lost);
        let count = accepted(Metric::EntityF1, limit, 250, |dice| {
            let mut sides = [Vec::new(), Vec::new()];
            for _ in 0..rows {
                let entities = 1 + dice.choose(&[0.5, 0.3, 0.2]);
                let gold: Vec<usize> = [1, 0].repeat(entities);
                let keep = |&tag: &usize| if tag == 1 && dice.roll() < lost { 0 } else { tag };
                let after: Vec<usize> = gold.iter().map(keep).collect();
                sides[0].push(TagRow { gold: gold.clone(), predicted: Some(gold.clone()) });
                sides[1].push(TagRow { gold, predicted: Some(after) });
            }
            sides.map(|rows| {
                let labels = vec!["O".into(), "B-X".into()];
                Scored::Tags(TaggedRows { labels, scheme: TagScheme::Lenient, rows })
            })
        });
        assert_keeps_its_promise(count, 250, &format!("{rows} rows"));
    }
}

#[test]
fn correlation_at_the_limit() {
    // Gold of variance 1 and noise of variance v: r = 1 / √(1 + v).
    let (noise, more) = (0.3_f64, 0.15_f64);
    let r = |variance: f64| 1.0 / (1.0 + variance).sqrt();
    let limit = r(noise * noise) - r(noise * noise + more * more);
    let count = accepted(Metric::Pearson, limit, 120, |dice| {
        let mut sides = [Vec::new(), Vec::new()];
        for _ in 0..80 {
            let gold = dice.normal();
            let before = gold + noise * dice.normal();
            sides[0].push(SimilarityRow { gold, score: before });
            sides[1].push(SimilarityRow { gold, score: before + more * dice.normal() });
        }
        sides.map(Scored::Similarities)
    });
    assert_keeps_its_promise(count, 120, "pearson");
}

#[test]
fn clear_cases_are_accepted() {
    // No true difference: few flips either way on many rows.
    let cells = [
        (0, 0, 0, 0.49),
        (0, 1, 1, 0.01),
        (1, 1, 1, 0.49),
        (1, 0, 0, 0.008),
        (1, 1, 0, 0.001),
        (1, 0, 1, 0.001),
    ];
    let shares: Vec<f64> = cells.iter().map(|cell| cell.3).collect();
    let count = accepted(Metric::MacroF1, 0.005, 40, |dice| {
        let row = |_| {
            let (label, before, after, _) = cells[dice.choose(&shares)];
            (label, before, after)
        };
        sides(&(0..4_000).map(row).collect::<Vec<_>>())
    });
    assert!(count >= 38, "{count} of 40");
}
