//! Every view of every kind of record.

mod sample;

use trtforge_report::{
    Precision, RunOutcome, RunRecord, TerminalStyle, relative_name, render_html, render_junit,
    render_markdown, render_terminal,
};

fn records() -> Vec<(&'static str, RunRecord)> {
    vec![
        ("checked_only", sample::checked_only()),
        ("accepted", sample::accepted(2)),
        ("returned", sample::returned(2)),
        ("rejected", sample::rejected(1)),
        ("inconclusive", sample::inconclusive()),
        ("not_finite", sample::not_finite()),
        ("empty", RunRecord { schema: trtforge_report::SCHEMA, ..RunRecord::default() }),
    ]
}

fn views(record: &RunRecord) -> [String; 4] {
    [
        render_html(record),
        render_markdown(record),
        render_junit(record),
        render_terminal(record, &TerminalStyle::default()),
    ]
}

#[test]
fn terminal_views() {
    for (name, record) in records() {
        insta::assert_snapshot!(
            format!("terminal_{name}"),
            render_terminal(&record, &TerminalStyle::default())
        );
    }
    let narrow = TerminalStyle {
        width: 50,
        folder: Some("out/sentiment/".into()),
        ..TerminalStyle::default()
    };
    insta::assert_snapshot!("terminal_narrow", render_terminal(&sample::rejected(1), &narrow));
}

#[test]
fn markdown_views() {
    for (name, record) in [
        ("rejected", sample::rejected(1)),
        ("returned", sample::returned(2)),
        ("checked_only", sample::checked_only()),
    ] {
        insta::assert_snapshot!(format!("markdown_{name}"), render_markdown(&record));
    }
}

#[test]
fn junit_views() {
    for (name, record) in
        [("rejected", sample::rejected(1)), ("inconclusive", sample::inconclusive())]
    {
        insta::assert_snapshot!(format!("junit_{name}"), render_junit(&record));
    }
}

/// The page's body, one tag a line, without style and script.
#[test]
fn html_of_a_checked_model() {
    let page = render_html(&sample::checked_only());
    let body = page.split_once("<body>").unwrap().1.split_once("<script>").unwrap().0;
    insta::assert_snapshot!("html_checked_only", body.replace('<', "\n<").replace("\n</", "</"));
}

#[test]
fn json_round_trips_to_the_same_bytes() {
    for (name, record) in records() {
        let json = record.to_json();
        let read = RunRecord::from_json(&json).unwrap();
        assert_eq!(read.to_json(), json, "{name}");
        assert_eq!(views(&read), views(&record), "{name}");
    }
    for hostile in sample::hostile_names() {
        let json = sample::hostile(&hostile).to_json();
        assert_eq!(RunRecord::from_json(&json).unwrap().to_json(), json, "{hostile}");
    }
}

#[test]
fn json_has_the_layout_others_script_against() {
    let json: serde_json::Value = serde_json::from_str(&sample::rejected(1).to_json()).unwrap();
    assert_eq!(json["schema"], 2);
    let int8 = &json["precisions"]["int8"];
    assert_eq!(int8["plan"], "rejected/sentiment.int8.plan");
    assert_eq!(int8["evaluation"]["metric"], "accuracy");
    assert_eq!(int8["evaluation"]["value"], 0.78);
    assert_eq!(int8["evaluation"]["interval"][1], 0.7952);
    assert_eq!(int8["evaluation"]["count"], 2500);
    assert_eq!(int8["evaluation"]["evaluated_on"], "reference");
    assert_eq!(int8["verdict"]["outcome"], "rejected");
    assert_eq!(int8["verdict"]["max_drop"], 0.005);
    assert_eq!(json["decisions"][0]["action"], "int8_activation");
    assert_eq!(
        json["shapes"]["profiles"][0]["inputs"]["input_ids"]["opt"],
        serde_json::json!([32, 24])
    );
    assert_eq!(json["inputs"]["model"]["name"], "sentiment.onnx");
    assert!(json["benchmark"].is_null() && json["diagnosis"].is_null());
    assert!(
        json["timings_ms"].is_object() && json["tool"].is_object() && json["machine"].is_object()
    );
}

#[test]
fn values_that_are_no_number_are_kept_apart_from_missing_ones() {
    let json: serde_json::Value = serde_json::from_str(&sample::not_finite().to_json()).unwrap();
    assert_eq!(json["precisions"]["int8"]["evaluation"]["value"], "NaN");
    assert_eq!(
        json["precisions"]["int8"]["verdict"]["interval"],
        serde_json::json!(["-Infinity", "Infinity"])
    );
    let page = render_html(&sample::not_finite());
    assert!(page.contains("not a number") && page.contains("2,500 rows not finite"));
    assert!(
        !page.contains("NaN\"") && !page.contains("=\"inf"),
        "a drawing took a value that is no number"
    );
}

#[test]
fn unknown_fields_and_actions_of_a_newer_version_still_open() {
    let json = sample::accepted(1).to_json();
    let newer = json.replacen("{\n", "{\n  \"later\": [1],\n", 1).replacen(
        "\"int8_weight\"",
        "\"int4_weight\"",
        1,
    );
    let record = RunRecord::from_json(&newer).unwrap();
    assert!(render_html(&record).contains("int4_weight"));
    assert!(record.to_json().contains("\"int4_weight\""));
}

#[test]
fn outcomes_are_what_exit_codes_need() {
    assert_eq!(sample::accepted(1).outcome(), RunOutcome::Accepted);
    assert_eq!(sample::rejected(1).outcome(), RunOutcome::Refused);
    assert_eq!(sample::checked_only().outcome(), RunOutcome::NotJudged);
    let mut allowed = sample::inconclusive();
    assert_eq!(allowed.outcome(), RunOutcome::Refused);
    allowed
        .precisions
        .values_mut()
        .filter_map(|one| one.verdict.as_mut())
        .for_each(|v| v.passed = true);
    assert_eq!(allowed.outcome(), RunOutcome::Accepted);
}

#[test]
fn hostile_names_stay_text() {
    for hostile in sample::hostile_names() {
        let record = sample::hostile(&hostile);
        let [html, markdown, junit, terminal] = views(&record);
        assert_eq!(html.matches("<script").count(), 1, "{hostile}");
        assert_eq!(html.matches("</style>").count(), 1, "{hostile}");
        assert!(!html.contains("<svg onload") && !html.contains("\" onload"), "{hostile}");
        assert!(!markdown.contains("<script") && !markdown.contains("<svg"), "{hostile}");
        assert!(!junit.contains("<script") && !junit.contains("<svg"), "{hostile}");
        for text in [&html, &markdown, &junit, &terminal] {
            let moves =
                |c: char| c.is_control() && c != '\n' || matches!(c, '\u{202a}'..='\u{202e}');
            // The style sheet and the script are the crate's own; everything else came from the record.
            assert!(!text.contains(moves), "{hostile}");
        }
        assert!(
            markdown.lines().filter(|line| line.starts_with('|')).all(|line| line.ends_with(" |")),
            "{hostile}"
        );
    }
}

#[test]
fn xml_holds_only_characters_xml_allows() {
    for hostile in sample::hostile_names() {
        let xml = render_junit(&sample::hostile(&hostile));
        let allowed = |c: char| matches!(c, '\n' | ' '..='\u{d7ff}' | '\u{e000}'..='\u{fffd}' | '\u{10000}'..);
        assert!(xml.chars().all(allowed), "{hostile}");
    }
}

#[test]
fn texts_of_rows_are_in_no_view_and_no_record_unless_asked_for() {
    let mut record = sample::rejected(1);
    let page = render_html(&record);
    assert!(page.contains("Texts are left out") && page.contains("right to wrong"));
    let rows = &mut record.precisions.get_mut(&Precision::Int8).unwrap().flipped;
    rows[0].text = Some("a private <sentence>".into());
    assert!(render_html(&record).contains("a private &lt;sentence&gt;"));
    for text in [record.to_json(), render_markdown(&record), render_junit(&record)] {
        assert!(!text.contains("private"), "{text}");
    }
}

#[test]
fn no_view_shows_an_absolute_path() {
    let mut record = sample::rejected(1);
    for one in record.precisions.values_mut() {
        one.onnx = Some("/srv/secret/onnx/a.onnx".into());
        one.plan = Some("C:\\secret\\a.plan".into());
    }
    record.profile = serde_json::json!({
        "model": { "onnx": "/srv/secret/a.onnx" },
        "data": { "evaluation": { "path": "/srv/secret/b.jsonl" } },
        "quantize": { "skip": ["/encoder/layer.0/*"] },
    });
    for view in views(&record) {
        assert!(!view.contains("secret"), "{view}");
    }
    let json: serde_json::Value = serde_json::from_str(&record.to_json()).unwrap();
    assert_eq!(json["profile"]["model"]["onnx"], "a.onnx");
    assert_eq!(json["profile"]["data"]["evaluation"]["path"], "b.jsonl");
    assert_eq!(
        json["profile"]["quantize"]["skip"][0], "/encoder/layer.0/*",
        "a pattern of tensor names is no path"
    );
    assert_eq!(relative_name("engines/a.plan"), "engines/a.plan");
    assert_eq!(relative_name("/srv/engines/a.plan"), "a.plan");
}

#[test]
fn the_page_fetches_nothing() {
    let page = render_html(&sample::rejected(2));
    for reach in [
        "http:",
        "https:",
        "src=",
        "url(",
        "@import",
        "<link",
        "<img",
        "<iframe",
        "fetch(",
        "XMLHttpRequest",
    ] {
        assert!(!page.contains(reach), "{reach}");
    }
}

#[test]
fn every_accuracy_says_where_it_was_measured() {
    let record = sample::rejected(1);
    let note = "Evaluated on the reference executor, not on a GPU.";
    assert!(render_html(&record).contains(note));
    assert!(render_markdown(&record).contains(note));
    assert!(render_terminal(&record, &TerminalStyle::default()).contains(note));
}

#[test]
fn a_run_of_a_thousand_tensors_stays_under_two_megabytes() {
    let record = sample::rejected(340);
    assert!(record.calibration.as_ref().unwrap().tensors.len() > 1_000);
    assert!(record.decisions.len() > 6_000);
    let page = render_html(&record);
    assert!(page.len() < 2_000_000, "{} bytes", page.len());
}

#[test]
fn terminal_lines_fit_and_colour_adds_nothing_but_colour() {
    for (name, record) in records() {
        for width in [40, 60, 80, 120] {
            let plain =
                render_terminal(&record, &TerminalStyle { width, ..TerminalStyle::default() });
            let widest = plain
                .lines()
                .filter(|line| !line.contains('/'))
                .map(|line| line.chars().count())
                .max()
                .unwrap_or(0);
            assert!(widest <= width.max(60), "{name} at {width}: {widest}\n{plain}");
            let colored =
                render_terminal(&record, &TerminalStyle { width, color: true, folder: None });
            let mut stripped = colored;
            while let Some(start) = stripped.find('\u{1b}') {
                let end = start + stripped[start..].find('m').unwrap();
                stripped.replace_range(start..=end, "");
            }
            assert_eq!(stripped, plain, "{name} at {width}");
        }
    }
}
