//! Counters through the double of NVML, whose numbers are made up: what is asked, how it is read, and what is missing.

use std::ffi::OsString;
use std::thread::sleep;
use std::time::Duration;

use trtforge_diagnose::counters::{ClockState, Counters, CountersError, Source, Wanted};

const GPU: Wanted<'static> = Wanted { name: "TEST DOUBLE (no GPU)", ordinal: 0, visible: None };

fn library() -> OsString {
    trtforge_double::libraries().nvml.join("libnvidia-ml.so.1").into_os_string()
}

fn open() -> Counters {
    Counters::open(&library(), &GPU).unwrap()
}

#[test]
fn clocks_and_heat_are_read() {
    let _double = trtforge_double::exclusive();
    let counters = open();
    assert_eq!(counters.driver_version(), Some("0.0 (test double)"));
    let expected = ClockState {
        sm_clock_mhz: Some(1111),
        memory_clock_mhz: Some(1111),
        max_sm_clock_mhz: Some(2222),
        temperature_c: Some(33),
        power_w: Some(44.0),
        throttle_reasons: Vec::new(),
        other_processes: Some(0),
    };
    assert_eq!(counters.state(), expected);
}

#[test]
fn what_a_chip_does_not_tell_is_absent() {
    let _double = trtforge_double::exclusive();
    let counters = open();
    trtforge_double::fail_at("nvmlDeviceGetPowerUsage", 1);
    trtforge_double::fail_at("nvmlDeviceGetTemperature", 1);
    let state = counters.state();
    assert_eq!((state.power_w, state.temperature_c), (None, None));
    assert_eq!(state.sm_clock_mhz, Some(1111));
}

#[test]
fn hardware_counters_need_two_samples_and_give_both_back() {
    let _double = trtforge_double::exclusive();
    let counters = open();
    let (answer, activity) = counters.watch("work", || {
        sleep(Duration::from_millis(250));
        7
    });
    assert_eq!(answer, 7);
    assert_eq!(activity.source, Source::Gpm, "{activity:?}");
    assert_eq!(activity.sm_active, Some(12.5));
    assert_eq!(activity.utilization, Some(55.0));
    let ((), short) = counters.watch("too short", || ());
    assert_eq!(short.source, Source::Polled);
    assert!(short.problem.unwrap().contains("need 100 ms"));
    drop(counters);
    trtforge_double::account().assert_clean();
}

#[test]
fn failing_counters_are_told_and_leave_nothing() {
    let _double = trtforge_double::exclusive();
    for call in
        ["nvmlGpmQueryDeviceSupport", "nvmlGpmSampleAlloc", "nvmlGpmSampleGet", "nvmlGpmMetricsGet"]
    {
        trtforge_double::reset();
        let counters = open();
        trtforge_double::fail_at(call, 1);
        let ((), activity) = counters.watch("work", || sleep(Duration::from_millis(120)));
        assert_eq!(activity.source, Source::Polled, "{call}");
        assert!(activity.problem.is_some(), "{call}");
        drop(counters);
        trtforge_double::account().assert_clean();
    }
    trtforge_double::reset();
    trtforge_double::fail_at("nvmlInit", 1);
    let error = Counters::open(&library(), &GPU).err().unwrap();
    assert!(matches!(error, CountersError::Library { .. }), "{error}");
    let other = Wanted { name: "another GPU", ..GPU };
    let error = Counters::open(&library(), &other).err().unwrap();
    assert!(error.to_string().contains("TEST DOUBLE"), "{error}");
}
