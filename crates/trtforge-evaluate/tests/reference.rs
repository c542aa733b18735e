//! The crate against scikit-learn, SciPy and seqeval: `reference.json` was written by `scripts/check-statistics.py`, which also proves that
//! it still is what these libraries give.

use serde_json::Value;
use trtforge_evaluate::{
    EvaluatedOn, Evaluation, Gate, McNemar, Metric, Outcome, Paired, Scored, SimilarityRow, TagRow,
    TagScheme, TaggedRows, Tolerance, judge,
};

fn reference(name: &str) -> Vec<Value> {
    let all: Value = serde_json::from_str(include_str!("reference.json")).unwrap();
    let cases = all[name].as_array().unwrap().clone();
    assert!(!cases.is_empty());
    cases
}

fn indices(value: &Value) -> Vec<usize> {
    value.as_array().unwrap().iter().map(|one| one.as_u64().unwrap() as usize).collect()
}

fn numbers(value: &Value) -> Vec<f64> {
    value.as_array().unwrap().iter().map(|one| one.as_f64().unwrap()).collect()
}

fn assert_value(metric: Metric, scored: &Scored, expected: &Value, what: &str) {
    let found = Evaluation::of(metric, scored, 0.95, EvaluatedOn::Reference).unwrap();
    let expected = expected.as_f64().unwrap();
    assert!((found.value - expected).abs() < 1e-12, "{what}: {} not {expected}", found.value);
    let [low, high] = found.interval;
    assert!(low <= found.value && found.value <= high, "{what}: {:?}", found.interval);
}

#[test]
fn classes_match_scikit_learn() {
    for (index, case) in reference("classes").iter().enumerate() {
        let rows = indices(&case["labels"]).into_iter().zip(indices(&case["answers"]));
        let outcome = |(label, answer)| Outcome { label, class: Some(answer) };
        let scored = Scored::Classes(rows.map(outcome).collect());
        for metric in [Metric::Accuracy, Metric::MacroF1, Metric::MicroF1, Metric::Mcc] {
            assert_value(
                metric,
                &scored,
                &case[metric.name()],
                &format!("{metric} of case {index}"),
            );
        }
    }
}

fn tag_rows(case: &Value, scheme: TagScheme) -> Scored {
    let names = |row: &Value| -> Vec<String> {
        row.as_array().unwrap().iter().map(|tag| tag.as_str().unwrap().to_owned()).collect()
    };
    let rows: Vec<[Vec<String>; 2]> = case["gold"]
        .as_array()
        .unwrap()
        .iter()
        .zip(case["answers"].as_array().unwrap())
        .map(|(gold, answers)| [names(gold), names(answers)])
        .collect();
    let mut labels: Vec<String> = rows.iter().flatten().flatten().cloned().collect();
    labels.sort();
    labels.dedup();
    let index = |row: &[String]| -> Vec<usize> {
        row.iter().map(|tag| labels.binary_search(tag).unwrap()).collect()
    };
    let row = |[gold, answers]: &[Vec<String>; 2]| TagRow {
        gold: index(gold),
        predicted: Some(index(answers)),
    };
    let rows = rows.iter().map(row).collect();
    Scored::Tags(TaggedRows { labels, scheme, rows })
}

#[test]
fn entities_match_seqeval() {
    for (index, case) in reference("tags").iter().enumerate() {
        let lenient = tag_rows(case, TagScheme::Lenient);
        assert_value(Metric::EntityF1, &lenient, &case["entity-f1"], &format!("case {index}"));
        assert_value(Metric::MicroF1, &lenient, &case["entity-f1"], &format!("case {index}"));
        assert_value(Metric::MacroF1, &lenient, &case["macro-f1"], &format!("macro {index}"));
        if case.get("strict").is_some() {
            let strict = tag_rows(case, TagScheme::StrictIob2);
            assert_value(Metric::EntityF1, &strict, &case["strict"], &format!("strict {index}"));
        }
    }
}

#[test]
fn correlations_match_scipy() {
    for (index, case) in reference("pairs").iter().enumerate() {
        let rows = numbers(&case["gold"]).into_iter().zip(numbers(&case["scores"]));
        let scored =
            Scored::Similarities(rows.map(|(gold, score)| SimilarityRow { gold, score }).collect());
        for metric in [Metric::Pearson, Metric::Spearman] {
            assert_value(
                metric,
                &scored,
                &case[metric.name()],
                &format!("{metric} of case {index}"),
            );
        }
    }
}

#[test]
fn mcnemar_matches_scipys_binomial_test() {
    for case in reference("discordant") {
        let count = |name: &str| case[name].as_u64().unwrap() as usize;
        let paired = Paired {
            both_right: 50,
            baseline_only: count("lost"),
            candidate_only: count("won"),
            both_wrong: 3,
        };
        let test = McNemar::of(&paired);
        for (found, name) in [(test.p_two_sided, "p_two_sided"), (test.p_worse, "p_worse")] {
            let expected = case[name].as_f64().unwrap();
            assert!((found - expected).abs() < 1e-10, "{case}: {name} {found}");
        }
    }
}

#[test]
fn the_bootstrap_of_lost_rows_is_the_bound_of_clopper_and_pearson() {
    // F1 of answers that are right or wrong altogether is a share, and its bound is by bootstrap.
    for case in reference("clopper_pearson") {
        let (lost, rows) = (case["lost"].as_u64().unwrap(), case["rows"].as_u64().unwrap());
        let side = |lost: u64| {
            let row = |row: u64| {
                let gold = ["yes".to_owned()];
                trtforge_evaluate::score_answer(if row < lost { "no" } else { "yes" }, &gold)
            };
            Scored::Answers((0..rows).map(row).collect())
        };
        let gate = Gate::drop(Metric::AnswerF1, Tolerance::Absolute(0.9));
        let bound = judge(&gate, &side(0), &side(lost)).unwrap().interval[1];
        let expected = case["bound"].as_f64().unwrap();
        // 2,000 draws place the quantile within about 3 % of its size.
        assert!((bound - expected).abs() < 0.04 * expected, "{case}: {bound}");
    }
}
