//! Gates of several rules, one rule at a time.

use trtforge_evaluate::{
    AnswerRow, EvaluateError, EvaluatedOn, Evidence, Gate, GateOutcome, Int8Share, LogitShift,
    MeasuredSpeedup, Metric, OnInconclusive, Outcome, Rule, RuleVerdict, Scope, Scored,
    SimilarityRow, Slice, Tolerance, Verdict, judge, judge_with,
};

/// `count` rows of label, answer before and after, each.
fn sides(groups: &[(usize, usize, usize, usize)]) -> [Scored; 2] {
    let mut sides = [Vec::new(), Vec::new()];
    for &(count, label, before, after) in groups {
        for _ in 0..count {
            sides[0].push(Outcome { label, class: Some(before) });
            sides[1].push(Outcome { label, class: Some(after) });
        }
    }
    sides.map(Scored::Classes)
}

/// Two good classes of 5,000 and a small one of 100 that collapses into the first.
fn collapsed() -> [Scored; 2] {
    sides(&[(4_900, 0, 0, 0), (100, 0, 1, 1), (5_000, 1, 1, 1), (90, 2, 2, 2), (10, 2, 2, 0)])
}

fn with(rule: Rule) -> Gate {
    let mut gate = Gate::drop(Metric::Accuracy, Tolerance::Absolute(0.01));
    gate.rules.push(rule);
    gate
}

fn part(scope: Scope, max_drop: f64) -> Rule {
    Rule::MaxDrop {
        metric: Metric::Accuracy,
        tolerance: Tolerance::Absolute(max_drop),
        scope,
        on_inconclusive: None,
    }
}

fn rule<'v>(verdict: &'v Verdict, name: &str, scope: Option<&str>) -> &'v RuleVerdict {
    let found =
        verdict.rules.iter().filter(|rule| rule.rule == name && rule.scope.as_deref() == scope);
    let found: Vec<_> = found.collect();
    assert_eq!(found.len(), 1, "{name} {scope:?} in {:#?}", verdict.rules);
    found[0]
}

fn names() -> Vec<String> {
    ["day", "night", "dusk"].map(str::to_owned).to_vec()
}

#[test]
fn a_small_class_cannot_collapse_unseen() {
    let [before, after] = collapsed();
    let plain = judge(&with(Rule::MaxFlipRate(1.0)), &before, &after).unwrap();
    assert_eq!(plain.outcome, GateOutcome::Accepted, "the whole hides it: {}", plain.reason);
    let classes = names();
    let evidence = Evidence { classes: &classes, ..Evidence::default() };
    let gate = with(part(Scope::EachClass, 0.03));
    let verdict = judge_with(&gate, &before, &after, &evidence).unwrap();
    assert_eq!((verdict.outcome, verdict.publish), (GateOutcome::Rejected, false));
    // F1 of dusk: 1 before; 2 · 90 / (100 + 90) after.
    let dusk = rule(&verdict, "max_drop", Some("class dusk"));
    assert_eq!(dusk.outcome, GateOutcome::Rejected);
    assert!((dusk.value.unwrap() - (1.0 - 180.0 / 190.0)).abs() < 1e-12);
    assert!(verdict.reason.starts_with("f1 of class dusk drops by 0.0526"), "{}", verdict.reason);
    assert!(verdict.reason.contains("Otherwise: accuracy drops by"), "{}", verdict.reason);
    assert_eq!(rule(&verdict, "max_drop", Some("class night")).outcome, GateOutcome::Accepted);
    let figures: Vec<(&str, usize)> =
        verdict.classes.iter().map(|part| (part.name.as_str(), part.count)).collect();
    assert_eq!(figures, [("day", 5_000), ("night", 5_000), ("dusk", 100)]);
}

#[test]
fn slices_are_judged_by_themselves() {
    let [before, after] = collapsed();
    let sources: Vec<String> =
        (0..10_100).map(|row| if row < 10_000 { "web" } else { "phone" }.to_owned()).collect();
    let slices = [Slice::new("source", &sources)];
    let evidence = Evidence { slices: &slices, ..Evidence::default() };
    let gate = with(part(Scope::EachSlice("source".into()), 0.02));
    let verdict = judge_with(&gate, &before, &after, &evidence).unwrap();
    assert_eq!(rule(&verdict, "max_drop", Some("source=web")).outcome, GateOutcome::Accepted);
    let phone = rule(&verdict, "max_drop", Some("source=phone"));
    assert_eq!((phone.outcome, phone.count), (GateOutcome::Rejected, 100));
    assert_eq!(verdict.slices.len(), 2);
    let missing = judge(&gate, &before, &after);
    assert_eq!(missing, Err(EvaluateError::UnknownSlice("source".into())));
    let short = [Slice::new("source", &sources[..5])];
    let evidence = Evidence { slices: &short, ..Evidence::default() };
    let error = judge_with(&gate, &before, &after, &evidence).unwrap_err();
    assert!(matches!(error, EvaluateError::RowCount { .. }), "{error}");
    let ids: Vec<String> = (0..10_100).map(|row| row.to_string()).collect();
    let many = [Slice::new("id", &ids)];
    let evidence = Evidence { slices: &many, ..Evidence::default() };
    let error = judge_with(&gate, &before, &after, &evidence).unwrap_err();
    assert!(error.to_string().contains("`id` has 10100 different values"), "{error}");
}

#[test]
fn a_part_may_tolerate_what_the_gate_does_not() {
    let [before, after] = sides(&[(5_000, 0, 0, 0), (5_000, 1, 1, 1), (4, 2, 2, 2)]);
    let strict = judge(&with(part(Scope::EachClass, 0.01)), &before, &after).unwrap();
    assert_eq!((strict.outcome, strict.publish), (GateOutcome::Inconclusive, false));
    let tolerant = Rule::MaxDrop {
        metric: Metric::Accuracy,
        tolerance: Tolerance::Absolute(0.01),
        scope: Scope::EachClass,
        on_inconclusive: Some(OnInconclusive::Accept),
    };
    let verdict = judge(&with(tolerant), &before, &after).unwrap();
    assert_eq!((verdict.outcome, verdict.publish), (GateOutcome::Inconclusive, true));
    let small = rule(&verdict, "max_drop", Some("class 2"));
    assert!(small.passes && small.rows_needed.is_some(), "{small:#?}");
}

#[test]
fn values_flips_and_divergence() {
    let [before, after] = collapsed();
    let shift = |mean_abs| LogitShift {
        mean_abs,
        max_abs: 1.0,
        worst_row: Some(0),
        compared: 10_100,
        not_finite: 0,
    };
    let cases = [
        (Rule::MinValue { metric: Metric::Accuracy, min: 0.98 }, "min_value", true),
        (Rule::MinValue { metric: Metric::MacroF1, min: 0.99 }, "min_value", false),
        (Rule::MaxFlipRate(0.001), "max_flip_rate", true),
        (Rule::MaxFlipRate(0.0009), "max_flip_rate", false),
        (Rule::MaxLogitDivergence(0.2), "max_logit_divergence", true),
        (Rule::MaxLogitDivergence(0.05), "max_logit_divergence", false),
    ];
    let evidence = Evidence { shift: Some(shift(0.1)), ..Evidence::default() };
    for (asked, name, holds) in cases {
        let verdict = judge_with(&with(asked.clone()), &before, &after, &evidence).unwrap();
        assert_eq!(rule(&verdict, name, None).passes, holds, "{asked:?}: {:#?}", verdict.rules);
        assert_eq!(verdict.publish, holds);
    }
}

#[test]
fn figures_of_a_device_that_are_not_there_are_named() {
    let [before, after] = sides(&[(5_000, 0, 0, 0), (5_000, 1, 1, 1)]);
    let lenient = |rule| Gate { on_inconclusive: OnInconclusive::Accept, ..with(rule) };
    for (asked, name) in [
        (Rule::RequireDevice, "require_device"),
        (Rule::RequireInt8Share(0.8), "require_int8_share"),
        (Rule::MinSpeedup(1.2), "min_speedup"),
        (Rule::MaxLogitDivergence(0.2), "max_logit_divergence"),
    ] {
        let verdict = judge(&lenient(asked), &before, &after).unwrap();
        assert_eq!(verdict.outcome, GateOutcome::Inconclusive);
        assert!(!verdict.publish, "more rows would not bring the figure");
        let reason = &rule(&verdict, name, None).reason;
        assert!(reason.contains("GPU") || reason.contains("logits"), "{reason}");
        assert!(
            verdict.reason.contains("Otherwise: accuracy stays at 1.0000"),
            "{}",
            verdict.reason
        );
    }
    let timed = [MeasuredSpeedup {
        ratio: 1.15,
        interval: Some([1.1, 1.3]),
        confidence: 0.95,
        rounds: 10,
        batch: 32,
        length: 128,
    }];
    let evidence = Evidence {
        evaluated_on: Some(EvaluatedOn::Device),
        int8_share: Some(Int8Share { proven: 0.9, unproven: 0.0 }),
        speedup: Some(&timed),
        ..Evidence::default()
    };
    let passes = |asked| judge_with(&with(asked), &before, &after, &evidence).unwrap().publish;
    assert!(passes(Rule::RequireDevice) && passes(Rule::RequireInt8Share(0.9)));
    assert!(!passes(Rule::MinSpeedup(1.2)) && passes(Rule::MinSpeedup(1.1)));
}

#[test]
fn int8_in_name_is_rejected_and_what_nobody_can_prove_is_inconclusive() {
    let [before, after] = sides(&[(5_000, 0, 0, 0), (5_000, 1, 1, 1)]);
    let cases = [
        (
            0.9,
            0.0,
            GateOutcome::Accepted,
            "90% of the arithmetic is proven to run in INT8, at least the 80% required",
        ),
        (0.8, 0.2, GateOutcome::Accepted, "at least"),
        (
            0.5,
            0.2,
            GateOutcome::Rejected,
            "even with the 20% that is not provable it is below the 80% required",
        ),
        (0.0, 0.0, GateOutcome::Rejected, "INT8 in name"),
        (0.5, 0.3, GateOutcome::Inconclusive, "of 30% it is not provable"),
    ];
    for (proven, unproven, outcome, words) in cases {
        let evidence =
            Evidence { int8_share: Some(Int8Share { proven, unproven }), ..Evidence::default() };
        let gate = with(Rule::RequireInt8Share(0.8));
        let verdict = judge_with(&gate, &before, &after, &evidence).unwrap();
        let rule = rule(&verdict, "require_int8_share", None);
        assert_eq!(rule.outcome, outcome, "{proven} {unproven}: {}", rule.reason);
        assert!(rule.reason.contains(words), "{}", rule.reason);
        assert_eq!(verdict.publish, outcome == GateOutcome::Accepted);
    }
    let evidence = Evidence { int8_missing: Some("no GPU here"), ..Evidence::default() };
    let verdict =
        judge_with(&with(Rule::RequireInt8Share(0.8)), &before, &after, &evidence).unwrap();
    assert!(rule(&verdict, "require_int8_share", None).reason.contains("no GPU here"));
}

#[test]
fn a_relative_tolerance_is_of_the_baseline() {
    // Accuracy 0.5: 1 % of it is 0.005, and 60 of 10,000 rows are more.
    let half = |lost: usize| {
        sides(&[(5_000 - lost, 0, 0, 0), (lost, 0, 0, 1), (2_500, 1, 0, 0), (2_500, 2, 0, 0)])
    };
    let gate = Gate {
        allow_chance_baseline: true,
        ..Gate::drop(Metric::Accuracy, Tolerance::Relative(0.01))
    };
    let [before, after] = half(60);
    let verdict = judge(&gate, &before, &after).unwrap();
    assert_eq!((verdict.outcome, verdict.max_drop), (GateOutcome::Rejected, 0.005));
    assert!(
        verdict.reason.ends_with("more than the 0.0050 (1% of the baseline) allowed"),
        "{}",
        verdict.reason
    );
    let [before, after] = half(20);
    assert_eq!(judge(&gate, &before, &after).unwrap().outcome, GateOutcome::Accepted);
}

#[test]
fn a_baseline_that_knows_nothing_is_refused() {
    let rule_of = |groups: &[(usize, usize, usize, usize)]| {
        let [before, after] = sides(groups);
        let classes = names();
        let evidence = Evidence { classes: &classes, ..Evidence::default() };
        let gate = Gate::drop(Metric::Accuracy, Tolerance::Absolute(0.5));
        let verdict = judge_with(&gate, &before, &after, &evidence).unwrap();
        rule(&verdict, "baseline_above_chance", None).clone()
    };
    // Always the same class: 800 of 1,000 are right, which is no knowledge.
    let constant = rule_of(&[(800, 0, 0, 0), (200, 1, 0, 0)]);
    assert_eq!(constant.outcome, GateOutcome::Rejected);
    assert!(
        constant.reason.starts_with("the baseline answers no better than always saying `day` (accuracy 0.8000 on 1000 rows, 0.8000 for"),
        "{}",
        constant.reason
    );
    // Labels swapped: the answers are right in the other order.
    let swapped = rule_of(&[(450, 0, 1, 1), (50, 0, 0, 0), (460, 1, 0, 0), (40, 1, 1, 1)]);
    assert_eq!(swapped.outcome, GateOutcome::Rejected);
    assert!(
        swapped.reason.contains("worse than chance")
            && swapped
                .reason
                .contains("in the order [night, day] the same logits have accuracy 0.9100"),
        "{}",
        swapped.reason
    );
    // Three labels turned round by one: what is answered for each is another one's.
    let turned = rule_of(&[(300, 0, 1, 1), (300, 1, 2, 2), (300, 2, 0, 0), (30, 0, 0, 0)]);
    assert!(turned.reason.contains("[dusk, day, night]"), "{}", turned.reason);
    // Below the commonest label's share and yet worth something: both classes are found.
    let useful = rule_of(&[(760, 0, 0, 0), (140, 0, 1, 1), (90, 1, 1, 1), (10, 1, 0, 0)]);
    assert_eq!(useful.outcome, GateOutcome::Accepted, "{}", useful.reason);
    // Few rows prove nothing either way.
    let few = rule_of(&[(4, 0, 0, 0), (4, 0, 1, 1), (4, 1, 1, 1), (4, 1, 0, 0)]);
    assert!(few.passes && few.reason.contains("not measurably better"), "{}", few.reason);
}

#[test]
fn other_tasks_are_judged_too() {
    let answer = |row: u32, found: bool| AnswerRow {
        exact: f64::from(u8::from(found)),
        f1: f64::from(u8::from(found)),
        answerable: row.is_multiple_of(2),
        answer: Some(if found { row + 1 } else { 0 }),
    };
    let answers =
        |lost: u32| Scored::Answers((0..4_000).map(|row| answer(row, row >= lost)).collect());
    let gate = Gate::drop(Metric::AnswerF1, Tolerance::Absolute(0.005));
    let verdict = judge(&gate, &answers(0), &answers(4)).unwrap();
    assert_eq!(verdict.outcome, GateOutcome::Accepted);
    assert!((verdict.drop - 0.001).abs() < 1e-12);
    assert_eq!(verdict.flips.unwrap().right_to_wrong, 4);
    let parts: Vec<&str> = verdict.classes.iter().map(|part| part.name.as_str()).collect();
    assert_eq!(parts, ["answerable", "no-answer"]);
    assert_eq!(judge(&gate, &answers(0), &answers(40)).unwrap().outcome, GateOutcome::Rejected);

    let cosines = |least: f64, rows: usize| {
        Scored::Cosines((0..rows).map(|row| if row % 2 == 0 { least } else { 1.0 }).collect())
    };
    let gate = Gate::drop(Metric::Cosine, Tolerance::Absolute(0.01));
    let outcome =
        |least, rows| judge(&gate, &cosines(1.0, rows), &cosines(least, rows)).unwrap().outcome;
    assert_eq!(outcome(0.999, 200), GateOutcome::Accepted);
    assert_eq!(outcome(0.999, 20), GateOutcome::Inconclusive, "20 rows prove nothing");
    assert_eq!(outcome(0.97, 200), GateOutcome::Rejected);
    let lost = Scored::Cosines(vec![f64::NAN; 200]);
    assert_eq!(judge(&gate, &cosines(1.0, 200), &lost).unwrap().outcome, GateOutcome::Rejected);

    let pairs = |constant: bool| {
        let pair = |row: usize| SimilarityRow {
            gold: row as f64,
            score: if constant { 0.5 } else { row as f64 * 0.1 },
        };
        Scored::Similarities((0..100).map(pair).collect())
    };
    let gate = Gate::drop(Metric::Spearman, Tolerance::Absolute(0.01));
    let verdict = judge(&gate, &pairs(false), &pairs(true)).unwrap();
    assert_eq!((verdict.outcome, verdict.candidate), (GateOutcome::Rejected, 0.0));
    assert!(verdict.notes[0].contains("the candidate gives every row the same score"));
    assert_eq!(
        judge(&gate, &pairs(false), &cosines(1.0, 100)),
        Err(EvaluateError::OtherKind { baseline: "similarities", candidate: "embeddings" })
    );
}

#[test]
fn rules_that_cannot_be_asked_are_errors() {
    let scores = Scored::Cosines(vec![1.0; 40]);
    let gate = |rule| {
        let mut gate = Gate::drop(Metric::Cosine, Tolerance::Absolute(0.01));
        gate.rules.push(rule);
        gate
    };
    let ask = |rule| {
        let gate = gate(rule);
        assert_eq!(gate.check_kind(&scores).is_err(), judge(&gate, &scores, &scores).is_err());
        judge(&gate, &scores, &scores).unwrap_err().to_string()
    };
    assert!(ask(Rule::MaxFlipRate(0.1)).contains("max_flip_rate"));
    assert!(ask(part(Scope::Whole, 0.1)).contains("`accuracy` cannot be measured on embeddings"));
    let each = Rule::MaxDrop {
        metric: Metric::Cosine,
        tolerance: Tolerance::Absolute(0.1),
        scope: Scope::EachClass,
        on_inconclusive: None,
    };
    assert!(ask(each).contains("per_class"));
    let none = Gate { rules: vec![Rule::RequireDevice], ..gate(Rule::RequireDevice) };
    assert_eq!(judge(&none, &scores, &scores), Err(EvaluateError::NoDropRule));
    for rule in [
        Rule::MaxFlipRate(1.5),
        Rule::MinSpeedup(0.0),
        Rule::MaxLogitDivergence(f64::NAN),
        Rule::MinValue { metric: Metric::Cosine, min: 7.0 },
    ] {
        let error = judge(&gate(rule.clone()), &scores, &scores).unwrap_err();
        assert!(matches!(error, EvaluateError::Gate { .. }), "{rule:?}: {error}");
    }
}
