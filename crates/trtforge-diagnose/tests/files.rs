//! Files as they come: compressed, cut off, broken, empty, of another kind, and the real ones beside the repository.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;
use miette::Diagnostic;
use serde_json::Value;
use trtforge_diagnose::{
    DiagnoseError, DiagnoseOptions, Diagnosis, ReadOptions, diagnose, read_trace, read_trace_from,
    render_text,
};

const KERNELS: &str = r#"{"schemaVersion":1,"deviceProperties":[{"id":0,"name":"Test GPU"}],"distributedInfo":{"rank":3},
"traceEvents":[
{"ph":"X","cat":"kernel","name":"a","pid":0,"tid":7,"ts":100.5,"dur":10.25,"args":{"device":0,"stream":7,"correlation":1,"memory bandwidth (GB/s)":NaN}},
{"ph":"X","cat":"kernel","name":"b","pid":0,"tid":7,"ts":120,"dur":5,"args":{"device":0,"stream":7,"correlation":2}},
{"ph":"X","cat":"user_annotation","name":"serve","pid":1,"tid":1,"ts":0,"dur":200,"args":{}},
{"ph":"s","id":1,"pid":1,"tid":1,"ts":1,"cat":"ac2g","name":"ac2g"}
],"traceName":"t"}"#;

fn from_text(text: &[u8], partial: bool) -> Result<Diagnosis, DiagnoseError> {
    let trace = read_trace_from(text, Path::new("t.json"), ReadOptions { partial })?;
    diagnose(trace, DiagnoseOptions::default())
}

fn from_file(bytes: &[u8], partial: bool) -> Result<Diagnosis, DiagnoseError> {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(bytes).unwrap();
    diagnose(read_trace(file.path(), ReadOptions { partial })?, DiagnoseOptions::default())
}

fn gzip(text: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(text).unwrap();
    encoder.finish().unwrap()
}

fn code(error: &DiagnoseError) -> String {
    error.code().expect("every error has a code").to_string()
}

#[test]
fn plain_gzip_bare_array_and_byte_order_mark_read_alike() {
    let expected = from_text(KERNELS.as_bytes(), false).unwrap();
    let device = &expected.devices[0];
    assert_eq!((device.busy_us, device.idle_us, device.before_us), (15.25, 9.25, 100.5));
    assert_eq!((device.after_us, device.busy_share), (75.0, 15.25 / 200.0));
    assert_eq!((device.name.as_deref(), expected.rank), (Some("Test GPU"), Some(3)));
    assert_eq!(expected.events, 4);

    let marked = [b"\xef\xbb\xbf", KERNELS.as_bytes()].concat();
    assert_eq!(from_text(&marked, false).unwrap(), expected);
    let name = |mut found: Diagnosis| {
        found.trace.clone_from(&expected.trace);
        found
    };
    assert_eq!(name(from_file(KERNELS.as_bytes(), false).unwrap()), expected);
    assert_eq!(name(from_file(&gzip(KERNELS.as_bytes()), false).unwrap()), expected);
    // Two gzip members one after the other, as `cat a.gz b.gz` makes them.
    let (first, second) = KERNELS.as_bytes().split_at(300);
    assert_eq!(name(from_file(&[gzip(first), gzip(second)].concat(), false).unwrap()), expected);

    let start = KERNELS.find("[\n{").unwrap();
    let end = KERNELS.find("],\"traceName").unwrap() + 1;
    let bare = from_text(&KERNELS.as_bytes()[start..end], false).unwrap();
    assert_eq!(bare.devices[0].busy_us, 15.25);
}

#[test]
fn files_that_are_no_good_trace_say_what_they_are() {
    let event = r#"{"ph":"X","cat":"kernel","name":"a","ts":1,"dur":1,"args":{"device":0}}"#;
    let cases: [(&[u8], &str); 17] = [
        (b"", "diagnose::empty"),
        (b" \n ", "diagnose::empty"),
        (b"hello", "diagnose::not_a_trace"),
        (b"SQLite format 3\0rest", "diagnose::not_a_trace"),
        (b"\x89PNG\r\n", "diagnose::not_a_trace"),
        (b"{}", "diagnose::no_events"),
        (b"[]", "diagnose::no_events"),
        (br#"{"traceEvents":[]}"#, "diagnose::no_events"),
        (br#"{"other":[1,2]}"#, "diagnose::no_events"),
        (br#"{"traceEvents":7}"#, "diagnose::syntax"),
        (br#"{"traceEvents":[7]}"#, "diagnose::syntax"),
        (br#"{"traceEvents":[{"ph":"X" "cat":"kernel"}]}"#, "diagnose::syntax"),
        (br#"{"traceEvents":[{"ph":"X","name":"a "b" c"}]}"#, "diagnose::syntax"),
        (br#"{"traceEvents":[{"ph":"X"}],}"#, "diagnose::syntax"),
        (br#"{"traceEvents":[{"ph":"X"}]} {"#, "diagnose::syntax"),
        (br#"{"traceEvents":[{"ph":"X"}"#, "diagnose::truncated"),
        (br#"{"traceEvents":[{"ph":"X""#, "diagnose::truncated"),
    ];
    for (bytes, expected) in cases {
        let error = from_text(bytes, false).unwrap_err();
        assert_eq!(code(&error), expected, "{} gives {error}", bytes.escape_ascii());
        assert!(error.help().is_some());
    }
    let broken = format!("[{event},{event},\n{{\"ph\" 3}}]");
    let error = from_text(broken.as_bytes(), false).unwrap_err().to_string();
    let place = format!("byte {} of its JSON text, after 2 events", 1 + 2 * (event.len() + 1) + 1);
    assert!(error.contains(&place), "{error} lacks {place}");
}

#[test]
fn a_file_that_is_not_there_is_a_read_error() {
    let error = read_trace(Path::new("no/such/trace.json"), ReadOptions::default()).unwrap_err();
    assert_eq!(code(&error), "diagnose::read");
}

#[test]
fn every_cut_is_an_error_and_never_a_full_device() {
    let text = KERNELS.as_bytes();
    let full = from_text(text, false).unwrap().devices[0].busy_us;
    for length in 1..text.len() {
        let error = from_text(&text[..length], false).unwrap_err();
        assert_eq!(code(&error), "diagnose::truncated", "{length}: {error}");
        match from_text(&text[..length], true) {
            Ok(found) => {
                assert!(found.truncated);
                assert!(found.notes[0].contains("cut off"), "{:?}", found.notes);
                let busy = found.devices.iter().map(|device| device.busy_us).sum::<f64>();
                assert!(busy <= full, "{length}: {busy}");
            }
            Err(error) => assert_eq!(code(&error), "diagnose::truncated"),
        }
    }
}

#[test]
fn damaged_gzip_is_told_from_cut_gzip() {
    let long = KERNELS.replace("\"traceName\":\"t\"", &format!("\"x\":\"{}\"", noise(200_000)));
    let whole = gzip(long.as_bytes());
    assert!(from_file(&whole, false).is_ok());
    for length in [3, 40, whole.len() / 2, whole.len() - 9, whole.len() - 1] {
        let error = from_file(&whole[..length], false).unwrap_err();
        assert_eq!(code(&error), "diagnose::truncated", "{length}: {error}");
    }
    // A wrong checksum at the end, and garbage in the middle.
    let mut damaged = whole.clone();
    let checksum = damaged.len() - 6;
    damaged[checksum] ^= 0xff;
    assert_eq!(code(&from_file(&damaged, false).unwrap_err()), "diagnose::gzip");
    let mut damaged = whole.clone();
    let middle = damaged.len() / 2;
    damaged[middle..middle + 64].fill(0xff);
    let error = code(&from_file(&damaged, false).unwrap_err());
    assert!(["diagnose::gzip", "diagnose::syntax"].contains(&error.as_str()), "{error}");
}

/// Text that does not compress away.
fn noise(length: usize) -> String {
    let mut state = 1_u64;
    let mut next = || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        char::from(b'a' + (state >> 60) as u8)
    };
    (0..length).map(|_| next()).collect()
}

#[test]
fn device_work_without_time_is_left_out_and_said() {
    let text = r#"[{"ph":"X","cat":"kernel","name":"a","ts":1,"dur":1,"args":{"device":0,"stream":1}},
        {"ph":"X","cat":"kernel","name":"a","ts":3,"args":{"device":0,"stream":1}},
        {"ph":"X","cat":"kernel","name":"a","ts":"soon","dur":1,"args":{"device":0,"stream":1}},
        {"ph":"X","cat":"kernel","name":"a","ts":9,"dur":-4,"args":{"device":0,"stream":1}}]"#;
    let found = from_text(text.as_bytes(), false).unwrap();
    assert_eq!((found.devices[0].busy_us, found.devices[0].kernels), (1.0, 2));
    let notes = found.notes.join("\n");
    assert!(notes.contains("2 works on devices without") && notes.contains("1 events end before"));
}

fn shared(name: &str) -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/traces");
    let path = folder.join(name);
    if !path.exists() {
        eprintln!("skipped: no {name} in the shared traces");
        return None;
    }
    Some(path)
}

/// Busy microseconds a device by another way: count how many spans are open at every moment.
fn busy_by_counting(path: &Path) -> BTreeMap<i64, i64> {
    let file = std::fs::File::open(path).unwrap();
    let trace: Value =
        serde_json::from_reader(std::io::BufReader::new(flate2::read::GzDecoder::new(file)))
            .unwrap();
    let mut changes: BTreeMap<i64, BTreeMap<i64, i64>> = BTreeMap::new();
    for event in trace["traceEvents"].as_array().unwrap() {
        let category = event["cat"].as_str().unwrap_or_default();
        if event["ph"] == "X" && ["kernel", "gpu_memcpy", "gpu_memset"].contains(&category) {
            let start = event["ts"].as_f64().unwrap() as i64;
            let end = start + event["dur"].as_f64().unwrap() as i64;
            let device = changes.entry(event["args"]["device"].as_i64().unwrap()).or_default();
            *device.entry(start).or_default() += 1;
            *device.entry(end).or_default() -= 1;
        }
    }
    let busy = |changes: BTreeMap<i64, i64>| {
        let (mut open, mut since, mut total) = (0, 0, 0);
        for (at, change) in changes {
            if open > 0 {
                total += at - since;
            }
            open += change;
            since = at;
        }
        total
    };
    changes.into_iter().map(|(device, changes)| (device, busy(changes))).collect()
}

#[test]
fn busy_time_of_real_traces_is_the_exact_union() {
    // Besides the count: figures of an independent script over the same files.
    let cases = [
        ("alexnet_inference.json.gz", 0, 66_141.0, 10_630.0, 55_503.0),
        ("control.json.gz", 3, 388_587.0, 369_257.0, 53_454.0),
        ("event_sync.json.gz", 0, 51.0, 49.0, 2.0),
        ("sampled_training_rank.json.gz", 0, 547_656.0, 547_303.0, 1_297.0),
    ];
    for (name, number, busy, kernel, copy) in cases {
        let Some(path) = shared(name) else { return };
        let trace = read_trace(&path, ReadOptions::default()).unwrap();
        let found = diagnose(trace, DiagnoseOptions::default()).unwrap();
        let [device] = &found.devices[..] else { panic!("{name}: {:?}", found.devices) };
        assert_eq!(device.device.to_string(), number.to_string());
        assert_eq!(
            [device.busy_us, device.kernel_us, device.copy_us],
            [busy, kernel, copy],
            "{name}"
        );
        assert_eq!(busy_by_counting(&path), BTreeMap::from([(number, busy as i64)]), "{name}");
        let explained: f64 = found.causes.iter().map(|cause| cause.idle_us).sum();
        assert!((explained - device.idle_us).abs() < 1e-3, "{name}: {explained}");
        let whole = device.before_us + device.span_us + device.after_us;
        assert!((whole - found.window.length_us).abs() < 1e-3, "{name}");
        assert!(device.busy_share < 1.0);
    }
}

#[test]
fn a_trace_of_the_cpu_alone_is_an_answer() {
    let Some(path) = shared("cpu_only.json.gz") else { return };
    let trace = read_trace(&path, ReadOptions::default()).unwrap();
    let found = diagnose(trace, DiagnoseOptions::default()).unwrap();
    assert_eq!((found.devices.len(), found.causes.len(), found.events), (0, 0, 30));
    assert_eq!(found.window.length_us, 1_289_526.102);
    let text = render_text(&found);
    assert!(text.contains("No work on any device") && !text.contains("100 %"), "{text}");
}
