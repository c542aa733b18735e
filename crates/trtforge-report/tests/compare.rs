//! Comparisons of made-up runs: every view, many runs, hostile names.

#[expect(dead_code, unused_imports, reason = "each test program uses its own part of them")]
mod sample;

use serde_json::json;
use trtforge_report::{
    AccuracyChange, Basis, CompareError, Comparison, Flips, Precision, RunRecord, Side, Standing,
    common_metric,
};

fn side(name: &str, record: RunRecord) -> Side {
    Side { name: name.into(), record, only: None }
}

fn change(
    precision: Precision,
    change: f64,
    interval: [f64; 2],
    standing: Standing,
) -> AccuracyChange {
    AccuracyChange {
        precision,
        against: precision,
        before: 0.8,
        after: 0.8 + change,
        change: Some(change),
        interval: Some(interval),
        confidence: 0.95,
        rows: [2_500, 2_500],
        basis: Basis::Paired,
        standing,
        flips: Some(Flips { to_wrong: 12, to_right: 2, ..Flips::default() }),
        p_value: Some(0.0129),
        note: None,
    }
}

/// The second run lost accuracy in INT8, made other decisions and was given another model.
fn worse(name: &str) -> Comparison {
    let before = sample::accepted(2);
    let mut after = sample::rejected(2);
    after.profile =
        json!({ "calibrate": { "method": name }, "task": { "kind": "text-classification" } });
    after.inputs.model.as_mut().unwrap().fingerprint = "f".repeat(64);
    after.decisions[0].reason = name.into();
    after.decisions[0].action = trtforge_report::Action::Skipped;
    let tensors = &mut after.calibration.as_mut().unwrap().tensors;
    let first = tensors.values_mut().next().unwrap();
    first.threshold *= 0.5;
    first.method = name.into();
    let accuracy = vec![
        change(Precision::Fp16, 0.0, [0.0, 0.0], Standing::SameAnswers),
        change(Precision::Int8, -0.02, [-0.0274, -0.0151], Standing::Worse),
    ];
    let sides = [side("before", before), side(name, after)];
    let metric = common_metric(&sides).unwrap();
    Comparison::of(&sides, metric, vec![accuracy])
}

#[test]
fn views_of_a_worse_run() {
    let comparison = worse("after");
    insta::assert_snapshot!("compare_terminal", comparison.terminal(100, false));
    insta::assert_snapshot!("compare_markdown", comparison.markdown());
    let regressions: Vec<_> = comparison.regressions().map(|(_, what)| what.to_owned()).collect();
    assert_eq!(
        regressions,
        [
            "INT8: 0.8000 became 0.7800, worse: -0.0200 (95 % interval -0.0274 to -0.0151, paired, 2,500 rows)",
            "INT8: the gate refuses it, and passed it before",
        ]
    );
}

#[test]
fn many_runs_are_a_table_and_a_chart_with_its_frontier() {
    let mut sides = vec![side("base", sample::accepted(1))];
    for (index, (bytes, value)) in [(9_000_000, 0.79), (20_000_000, 0.78)].into_iter().enumerate() {
        let mut record = sample::accepted(1);
        let int8 = record.precisions.get_mut(&Precision::Int8).unwrap();
        int8.plan_bytes = Some(bytes);
        int8.evaluation.as_mut().unwrap().value = value;
        int8.metrics[0].value = value;
        sides.push(side(&format!("run-{index}"), record));
    }
    let comparison = Comparison::of(&sides, Some("accuracy".into()), vec![]);
    let best = |run: &str, precision: Precision| {
        let found =
            comparison.engines.iter().find(|one| one.run == run && one.precision == precision);
        found.unwrap().best_for_size
    };
    // By hand: INT8 of the baseline has 18.7 MB at 0.7996; 9 MB at 0.79 is worth less accuracy, 20 MB at 0.78 is not.
    assert!(best("base", Precision::Int8) && best("run-0", Precision::Int8));
    assert!(!best("run-1", Precision::Int8));
    let page = comparison.html();
    assert_eq!(page.matches("<figure").count(), 1, "size alone: nothing was timed");
    assert!(page.contains("on the frontier:"), "{page}");
    let text = comparison.terminal(120, false);
    assert!(text.contains("2 runs against base: none is worse"), "{text}");
}

#[test]
fn hostile_names_stay_text() {
    for hostile in sample::hostile_names() {
        let comparison = worse(&hostile);
        let (html, markdown) = (comparison.html(), comparison.markdown());
        assert!(!html.contains("<script"), "{hostile}");
        assert!(!markdown.contains("<script") && !markdown.contains("<svg o"), "{hostile}");
        for text in [&html, &markdown, &comparison.terminal(80, false)] {
            let moves =
                |c: char| c.is_control() && c != '\n' || matches!(c, '\u{202a}'..='\u{202e}');
            assert!(!text.contains(moves), "{hostile}");
        }
        let rows = markdown.lines().filter(|line| line.starts_with('|'));
        assert!(rows.clone().count() > 5 && rows.into_iter().all(|line| line.ends_with('|')));
        let json = serde_json::to_string(&comparison).unwrap();
        assert!(serde_json::from_str::<serde_json::Value>(&json).is_ok());
    }
}

#[test]
fn the_page_fetches_nothing_and_stays_small() {
    let before = sample::accepted(340);
    let mut after = before.clone();
    for tensor in after.calibration.as_mut().unwrap().tensors.values_mut() {
        tensor.threshold *= 0.9;
    }
    for decision in &mut after.decisions {
        decision.action = trtforge_report::Action::Skipped;
    }
    let sides = [side("a", before), side("b", after)];
    let page = Comparison::of(&sides, Some("accuracy".into()), vec![]).html();
    assert!(page.len() < 2_000_000, "{} bytes", page.len());
    for reach in ["http:", "https:", "src=", "url(", "@import", "<link", "<img"] {
        assert!(!page.contains(reach), "{reach}");
    }
}

#[test]
fn values_that_are_no_number_are_no_change() {
    let sides = [side("a", sample::accepted(1)), side("b", sample::not_finite())];
    let unknown = AccuracyChange {
        after: f64::NAN,
        change: None,
        interval: None,
        flips: None,
        note: Some("a value is no number".into()),
        ..change(Precision::Int8, 0.0, [0.0; 2], Standing::Unknown)
    };
    let comparison = Comparison::of(&sides, Some("accuracy".into()), vec![vec![unknown]]);
    let json = serde_json::to_value(&comparison).unwrap();
    assert_eq!(json["differences"][0]["accuracy"][0]["after"], "NaN");
    assert!(comparison.terminal(80, false).contains("not comparable: a value is no number"));
    assert!(!comparison.html().contains("NaN\""));
}

#[test]
fn one_run_or_other_questions_are_refused() {
    let a = side("a", sample::accepted(1));
    let asked = |kind: &str| {
        let mut other = side("b", sample::accepted(1));
        other.record.profile = json!({ "task": { "kind": kind } });
        other
    };
    assert_eq!(common_metric(&[]), Err(CompareError::TooFew { found: 0 }));
    assert_eq!(common_metric(std::slice::from_ref(&a)), Err(CompareError::TooFew { found: 1 }));
    assert_eq!(
        common_metric(&[a, asked("embedding")]),
        Ok(Some("accuracy".into())),
        "a record that does not say"
    );
    let error = common_metric(&[asked("x"), asked("y")]).unwrap_err();
    assert_eq!(error.to_string(), "`b` is x, and `b` is y");
    let stopped = side("s", sample::checked_only());
    assert_eq!(common_metric(&[stopped.clone(), stopped]), Ok(None));
}

#[test]
fn terminal_lines_fit_and_colour_adds_nothing_but_colour() {
    let comparison = worse("after");
    for width in [60, 80, 120, 200] {
        let plain = comparison.terminal(width, false);
        for line in plain.lines() {
            assert!(line.chars().count() <= width, "{width}: {line}");
        }
        let mut colored = comparison.terminal(width, true);
        while let Some(start) = colored.find('\u{1b}') {
            let end = start + colored[start..].find('m').unwrap();
            colored.replace_range(start..=end, "");
        }
        assert_eq!(colored, plain);
    }
}
