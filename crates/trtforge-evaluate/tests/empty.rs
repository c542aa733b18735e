//! Rows on which nothing can be proven are never accepted.

use trtforge_evaluate::{
    AnswerRow, Evidence, Gate, GateOutcome, Metric, OnInconclusive, Outcome, Rule, RuleVerdict,
    Scope, Scored, SimilarityRow, Slice, TagRow, TagScheme, TaggedRows, Tolerance, Verdict,
    empty_proofs, judge, judge_with, score_answer,
};

const ROWS: usize = 3_000;
/// Pairs are all different to a bootstrap, which therefore takes its time.
const PAIRS: usize = 200;

/// As lenient as a gate can be about missing evidence.
fn lenient(metric: Metric) -> Gate {
    Gate {
        on_inconclusive: OnInconclusive::Accept,
        ..Gate::drop(metric, Tolerance::Absolute(0.01))
    }
}

fn pairs(gold: impl Fn(usize) -> f64, score: impl Fn(usize) -> f64) -> Scored {
    many_pairs(PAIRS, gold, score)
}

fn many_pairs(rows: usize, gold: impl Fn(usize) -> f64, score: impl Fn(usize) -> f64) -> Scored {
    let row = |row| SimilarityRow { gold: gold(row), score: score(row) };
    Scored::Similarities((0..rows).map(row).collect())
}

fn classes(label: impl Fn(usize) -> usize, class: impl Fn(usize) -> usize) -> Scored {
    let row = |row| Outcome { label: label(row), class: Some(class(row)) };
    Scored::Classes((0..ROWS).map(row).collect())
}

fn tags(gold: impl Fn(usize) -> Vec<usize>, predicted: impl Fn(usize) -> Vec<usize>) -> Scored {
    let row = |row| TagRow { gold: gold(row), predicted: Some(predicted(row)) };
    Scored::Tags(TaggedRows {
        labels: ["O", "B-A", "I-A"].map(str::to_owned).to_vec(),
        scheme: TagScheme::Lenient,
        rows: (0..ROWS).map(row).collect(),
    })
}

fn answers(gold: impl Fn(usize) -> String, said: impl Fn(usize) -> String) -> Scored {
    let row = |row| -> AnswerRow { score_answer(&said(row), &[gold(row)]) };
    Scored::Answers((0..ROWS).map(row).collect())
}

/// The same model twice: nothing is lost, and yet nothing is proven.
fn against_itself(metric: Metric, rows: &Scored) -> Verdict {
    judge(&lenient(metric), rows, rows).unwrap()
}

#[track_caller]
fn assert_refused(metric: Metric, rows: &Scored, outcome: GateOutcome, why: &str) {
    let verdict = against_itself(metric, rows);
    assert_eq!((verdict.outcome, verdict.publish), (outcome, false), "{}", verdict.reason);
    assert!(verdict.reason.contains(why), "`{why}` is not in: {}", verdict.reason);
}

#[track_caller]
fn assert_accepted(metric: Metric, rows: &Scored) {
    let verdict = against_itself(metric, rows);
    assert_eq!((verdict.outcome, verdict.publish), (GateOutcome::Accepted, true), "{verdict:#?}");
}

fn rule<'v>(verdict: &'v Verdict, name: &str) -> &'v RuleVerdict {
    verdict.rules.iter().find(|rule| rule.rule == name).unwrap()
}

#[test]
fn correlations_without_a_value() {
    let (rising, still) = (|row: usize| row as f64, |_: usize| 2.5);
    for metric in [Metric::Spearman, Metric::Pearson] {
        assert_accepted(metric, &pairs(rising, rising));
        let unsure = GateOutcome::Inconclusive;
        assert_refused(metric, &pairs(still, rising), unsure, "every row has the same gold score");
        assert_refused(
            metric,
            &pairs(rising, still),
            unsure,
            "the baseline gives every row the same score",
        );
    }
    let verdict = against_itself(Metric::Spearman, &pairs(still, rising));
    let drop = rule(&verdict, "max_drop");
    assert_eq!((drop.interval, drop.rows_needed), (Some([-2.0, 2.0]), None));
    // Not even by the one who tolerates a baseline at chance.
    let gate = Gate { allow_chance_baseline: true, ..lenient(Metric::Spearman) };
    let rows = pairs(still, rising);
    assert!(!judge(&gate, &rows, &rows).unwrap().publish);
    // A least value is no value either.
    let mut gate = lenient(Metric::Spearman);
    gate.rules.push(Rule::MinValue { metric: Metric::Spearman, min: 0.0 });
    let verdict = judge(&gate, &rows, &rows).unwrap();
    assert!(!rule(&verdict, "min_value").passes, "{verdict:#?}");
}

#[test]
fn scores_that_have_nothing_to_do_with_the_gold() {
    let rejected = GateOutcome::Rejected;
    // Gold goes round in 7, scores in 11: over whole rounds of 77 all combinations are as frequent, so the correlation is 0.
    let round = |length: usize| move |row: usize| (row % length) as f64;
    let rows = many_pairs(77 * 20, round(7), round(11));
    assert_refused(Metric::Spearman, &rows, rejected, "next to nothing");
    let distance = |row: usize| -(row as f64);
    let rows = pairs(|row| row as f64, distance);
    assert_refused(Metric::Pearson, &rows, rejected, "run against the gold scores");
    let gate = Gate { allow_chance_baseline: true, ..lenient(Metric::Pearson) };
    assert!(judge(&gate, &rows, &rows).unwrap().publish, "allowed is allowed");
}

#[test]
fn classes_that_test_nothing() {
    let (one, both) = (|_: usize| 1, |row: usize| row % 2);
    let unsure = GateOutcome::Inconclusive;
    assert_refused(Metric::Accuracy, &classes(one, one), unsure, "every row has the label `1`");
    assert_refused(Metric::MacroF1, &classes(one, one), unsure, "every row has the label `1`");
    let rows = classes(one, both);
    assert_refused(Metric::Mcc, &rows, unsure, "`mcc` has no value");
    let gate = Gate { allow_chance_baseline: true, ..lenient(Metric::Accuracy) };
    assert!(judge(&gate, &classes(one, one), &classes(one, one)).unwrap().publish);
    let gate = Gate { allow_chance_baseline: true, ..lenient(Metric::Mcc) };
    assert!(!judge(&gate, &rows, &rows).unwrap().publish, "no value is no matter of chance");
    let always = classes(both, one);
    let reason = "the baseline answers the same on every row";
    assert!(judge(&gate, &always, &always).unwrap().reason.contains(reason));
    assert_accepted(Metric::Mcc, &classes(both, both));
}

#[test]
fn tags_and_answers_that_test_nothing() {
    let (unsure, rejected) = (GateOutcome::Inconclusive, GateOutcome::Rejected);
    let (empty, entity) = (|_: usize| vec![0, 0], |row: usize| vec![1 + row % 2, 0]);
    assert_accepted(Metric::EntityF1, &tags(entity, entity));
    for metric in [Metric::EntityF1, Metric::MacroF1, Metric::MicroF1] {
        assert_refused(metric, &tags(empty, entity), unsure, "the gold tags hold no entity");
        assert_refused(metric, &tags(entity, empty), rejected, "finds none of the 3000 entities");
    }
    assert_refused(Metric::Accuracy, &tags(empty, empty), unsure, "the gold tags hold no entity");
    let no_tokens = |_: usize| Vec::new();
    assert_refused(Metric::Accuracy, &tags(no_tokens, no_tokens), unsure, "is judged");

    let (none, all) = (|_: usize| String::new(), |row: usize| format!("answer{row}"));
    let half = |row: usize| if row.is_multiple_of(2) { all(row) } else { String::new() };
    for metric in [Metric::ExactMatch, Metric::AnswerF1] {
        assert_accepted(metric, &answers(half, half));
        assert_refused(metric, &answers(none, none), unsure, "no question has an answer");
        assert_refused(metric, &answers(none, all), unsure, "no question has an answer");
        assert_refused(metric, &answers(half, none), rejected, "any of the 1500 questions");
        let yes = |_: usize| "yes".to_owned();
        assert_refused(metric, &answers(yes, yes), unsure, "every question has the same answer");
        let mixed = |row: usize| (if row.is_multiple_of(2) { "yes" } else { "no" }).to_owned();
        assert_refused(metric, &answers(mixed, yes), rejected, "the same answer to all 3000");
        assert_accepted(metric, &answers(mixed, mixed));
    }
}

#[test]
fn vectors_that_are_all_the_same() {
    let rows = Scored::Cosines(vec![1.0; ROWS]);
    let evidence = Evidence { same_vectors: true, ..Evidence::default() };
    let verdict = judge_with(&lenient(Metric::Cosine), &rows, &rows, &evidence).unwrap();
    assert_eq!((verdict.outcome, verdict.publish), (GateOutcome::Rejected, false));
    assert!(verdict.reason.starts_with("the baseline gives every row the same vector"));
    assert_accepted(Metric::Cosine, &rows);
}

#[test]
fn a_slice_without_a_value_may_be_tolerated_but_is_not_accepted() {
    // Gold varies over all rows and not among those of `still`.
    let of_phone = |row: usize| row.is_multiple_of(10);
    let rows = pairs(|row| if of_phone(row) { 3.0 } else { row as f64 }, |row| row as f64);
    let fields: Vec<String> =
        (0..PAIRS).map(|row| (if of_phone(row) { "still" } else { "moving" }).to_owned()).collect();
    let slices = [Slice::new("source", &fields)];
    let evidence = Evidence { slices: &slices, ..Evidence::default() };
    for (on_inconclusive, publish) in
        [(OnInconclusive::Refuse, false), (OnInconclusive::Accept, true)]
    {
        let mut gate = Gate::drop(Metric::Pearson, Tolerance::Absolute(0.01));
        gate.rules.push(Rule::MaxDrop {
            metric: Metric::Pearson,
            tolerance: Tolerance::Absolute(0.01),
            scope: Scope::EachSlice("source".into()),
            on_inconclusive: Some(on_inconclusive),
        });
        let verdict = judge_with(&gate, &rows, &rows, &evidence).unwrap();
        assert_eq!((verdict.outcome, verdict.publish), (GateOutcome::Inconclusive, publish));
        assert!(verdict.reason.contains("where source=still"), "{}", verdict.reason);
    }
}

#[test]
fn what_can_prove_nothing_is_known_from_the_gold_alone() {
    let names = ["good".to_owned(), "bad".to_owned()];
    let said = |metric, right: &Scored| empty_proofs(&lenient(metric), right, &names);
    let still = pairs(|_| 1.0, |_| 1.0);
    assert!(said(Metric::Spearman, &still)[0].starts_with("every row has the same gold score"));
    assert!(said(Metric::Accuracy, &classes(|_| 1, |_| 1))[0].contains("the label `bad`"));
    assert!(said(Metric::Mcc, &classes(|_| 1, |_| 1))[0].contains("the same label"));
    let nothing = tags(|_| vec![0], |_| vec![0]);
    assert!(said(Metric::EntityF1, &nothing)[0].contains("no entity"));
    assert!(said(Metric::Accuracy, &nothing)[0].contains("no entity"));
    let allowed = Gate { allow_chance_baseline: true, ..lenient(Metric::Accuracy) };
    assert!(empty_proofs(&allowed, &classes(|_| 1, |_| 1), &names).is_empty());
    for (metric, right) in [
        (Metric::Spearman, pairs(|row| row as f64, |row| row as f64)),
        (Metric::Mcc, classes(|row| row % 2, |row| row % 2)),
        (Metric::EntityF1, tags(|_| vec![1], |_| vec![1])),
        (Metric::Cosine, Scored::Cosines(vec![1.0; 40])),
    ] {
        assert!(said(metric, &right).is_empty(), "{metric}");
    }
}
