//! Hand-made traces with hand-computed answers.

mod common;

use common::{Events, diagnosis, idle_of, steps_only};
use trtforge_diagnose::{CauseKind, Diagnosis};

fn idle(diagnosis: &Diagnosis) -> Vec<(CauseKind, f64)> {
    diagnosis.causes.iter().map(|cause| (cause.cause, cause.idle_us)).collect()
}

fn function(diagnosis: &Diagnosis, cause: CauseKind) -> (String, f64, u64) {
    let report = diagnosis.causes.iter().find(|report| report.cause == cause).expect("the cause");
    let first = &report.functions[0];
    (first.name.clone(), first.idle_us, first.gaps)
}

#[test]
fn a_slow_tokenizer_in_a_blocking_loop_is_named() {
    // Launches take 10 µs to start. The device is idle from 6010 to 18120: the synchronization returns at 6015, the tokenizer works
    // until 18100, the operator needs until 18110 to submit, and the kernel starts 10 later.
    let trace = Events::new()
        .call("cudaLaunchKernel", 0, 4, 1)
        .kernel(0, 7, 10, 6000, 1)
        .call("cudaStreamSynchronize", 20, 5995, 2)
        .python("serve.py(7): handle", 0, 24_000)
        .python("transformers/tokenization_utils_fast.py(9): encode", 6015, 12_085)
        .python("<built-in method encode_batch>", 6020, 12_000)
        .operator("aten::addmm", 18_100, 15)
        .call("cudaLaunchKernel", 18_110, 4, 3)
        .kernel(0, 7, 18_120, 6000, 3);
    let found = diagnosis(&trace);
    let device = &found.devices[0];
    assert_eq!((device.busy_us, device.idle_us), (12_000.0, 12_110.0));
    let expected = [
        (CauseKind::HostInputPipeline, 12_085.0),
        (CauseKind::LaunchBound, 10.0),
        (CauseKind::HostFramework, 10.0),
        (CauseKind::Synchronization, 5.0),
    ];
    assert_eq!(idle(&found), expected);
    let (name, time, gaps) = function(&found, CauseKind::HostInputPipeline);
    let expected = ("transformers/tokenization_utils_fast.py(9): encode", 12_085.0, 1);
    assert_eq!((name.as_str(), time, gaps), expected);
    // Busy 12000 of 24110 µs; without the 12085 the same work takes 12025.
    let gain = found.causes[0].gain;
    assert_eq!((gain.saves_us, gain.times), (12_085.0, 24_110.0 / 12_025.0));
}

#[test]
fn a_synchronization_is_charged_with_refilling_the_queue() {
    // Idle from 20 to 40. `.item()` blocks until 22; ten latencies after it the host is still refilling, so all until the launch at 30
    // is its fault.
    let trace = Events::new()
        .call("cudaLaunchKernel", 0, 4, 1)
        .kernel(0, 7, 10, 10, 1)
        .operator("aten::item", 5, 17)
        .operator("aten::_local_scalar_dense", 5, 17)
        .call("cudaStreamSynchronize", 6, 16, 2)
        .operator("aten::mul", 25, 15)
        .call("cudaLaunchKernel", 30, 4, 3)
        .kernel(0, 7, 40, 10, 3);
    let found = diagnosis(&trace);
    assert_eq!(idle(&found), [(CauseKind::Synchronization, 10.0), (CauseKind::LaunchBound, 10.0)]);
    let (name, time, gaps) = function(&found, CauseKind::Synchronization);
    assert_eq!((name.as_str(), time, gaps), ("cudaStreamSynchronize in aten::item", 10.0, 1));
    assert_eq!((found.launch.latency_us, found.launch.measured_on), (10.0, 2));
}

#[test]
fn gaps_of_queued_work_are_launch_bound_up_to_the_latency() {
    // Three launches at once; the latency of 10 is measured on the first. The second starts 3 after the first ends, the third 43 after.
    let trace = Events::new()
        .call("cudaLaunchKernel", 0, 1, 1)
        .call("cudaLaunchKernel", 1, 1, 2)
        .call("cudaLaunchKernel", 2, 1, 3)
        .kernel(0, 7, 10, 2, 1)
        .kernel(0, 7, 15, 2, 2)
        .kernel(0, 7, 60, 2, 3);
    let found = diagnosis(&trace);
    assert_eq!(idle(&found), [(CauseKind::Queued, 43.0), (CauseKind::LaunchBound, 3.0)]);
    let stream = &found.devices[0].streams[0];
    let split = [stream.host_wait_us, stream.kernel_wait_us, stream.other_us, stream.idle_us];
    assert_eq!(split, [0.0, 3.0, 43.0, 46.0]);
    assert_eq!((found.launch.kernels, found.launch.kernel_mean_us), (3, 2.0));
}

#[test]
fn sleeping_and_silence_are_nothing_submitted() {
    let trace = Events::new()
        .call("cudaLaunchKernel", 0, 1, 1)
        .kernel(0, 7, 10, 10, 1)
        .python("<built-in method sleep>", 30, 40)
        .call("cudaLaunchKernel", 110, 1, 2)
        .kernel(0, 7, 120, 10, 2);
    let found = diagnosis(&trace);
    assert_eq!(idle(&found), [(CauseKind::NothingSubmitted, 90.0), (CauseKind::LaunchBound, 10.0)]);
}

#[test]
fn another_thread_is_asked_when_the_submitting_one_is_silent() {
    let trace = Events::new()
        .call("cudaLaunchKernel", 0, 1, 1)
        .kernel(0, 7, 10, 10, 1)
        .thread(2)
        .python("serve.py(3): rank_candidates", 25, 70)
        .thread(1)
        .call("cudaLaunchKernel", 110, 1, 2)
        .kernel(0, 7, 120, 10, 2);
    let found = diagnosis(&trace);
    let expected = [
        (CauseKind::HostPython, 70.0),
        (CauseKind::NothingSubmitted, 20.0),
        (CauseKind::LaunchBound, 10.0),
    ];
    assert_eq!(idle(&found), expected);
    assert_eq!(function(&found, CauseKind::HostPython).0, "serve.py(3): rank_candidates");
}

#[test]
fn pageable_copies_cost_what_runs_alone_and_what_they_delay() {
    // The copy is due at 30 (launch at 20, latency 10) and starts at 80; it runs 100, of which 40 beside a kernel.
    let trace = Events::new()
        .call("cudaLaunchKernel", 0, 1, 1)
        .kernel(0, 7, 10, 10, 1)
        .call("cudaMemcpyAsync", 20, 160, 2)
        .copy("Memcpy HtoD (Pageable -> Device)", 7, 80, 100, 2, 1_000_000)
        .call("cudaLaunchKernel", 130, 1, 3)
        .kernel(0, 9, 140, 60, 3);
    let found = diagnosis(&trace);
    let first = &found.causes[0];
    assert_eq!((first.cause, first.idle_us, first.lost_us), (CauseKind::PageableCopy, 50.0, 110.0));
    assert_eq!(idle(&found)[1], (CauseKind::LaunchBound, 10.0));
    let copy = &found.copies[0];
    assert!(copy.pageable);
    assert_eq!((copy.count, copy.bytes, copy.time_us, copy.gb_per_s), (1, 1_000_000, 100.0, 10.0));
    let device = &found.devices[0];
    assert_eq!((device.busy_us, device.kernel_us, device.copy_us), (130.0, 70.0, 100.0));
}

#[test]
fn allocation_in_the_loop_is_told_from_other_calls() {
    let trace = Events::new()
        .call("cudaLaunchKernel", 0, 1, 1)
        .kernel(0, 7, 10, 10, 1)
        .operator("aten::empty", 20, 400)
        .call("cudaMalloc", 25, 390, 2)
        .call("cudaLaunchKernel", 430, 1, 3)
        .kernel(0, 7, 440, 10, 3);
    let found = diagnosis(&trace);
    assert_eq!(idle(&found)[0], (CauseKind::Allocation, 390.0));
    assert_eq!(function(&found, CauseKind::Allocation).0, "cudaMalloc in aten::empty");
}

#[test]
fn a_submitting_call_that_takes_long_is_the_hosts() {
    // The first launch of the second kernel loads its code for 500 µs; the median latency is 10.
    let trace = Events::new()
        .call("cudaLaunchKernel", 0, 1, 1)
        .kernel(0, 7, 10, 10, 1)
        .call("cudaLaunchKernel", 20, 500, 2)
        .kernel(0, 7, 525, 10, 2)
        .call("cudaLaunchKernel", 535, 1, 3)
        .kernel(0, 7, 545, 10, 3);
    let found = diagnosis(&trace);
    let expected = [
        (CauseKind::HostFramework, 490.0),
        (CauseKind::LaunchBound, 20.0),
        (CauseKind::Queued, 5.0),
    ];
    assert_eq!(idle(&found), expected);
}

#[test]
fn work_without_a_call_is_not_blamed_on_silence() {
    let trace = Events::new().kernel(0, 7, 10, 10, 0).kernel(0, 7, 120, 10, 0);
    let found = diagnosis(&trace);
    assert_eq!(idle(&found), [(CauseKind::Unknown, 100.0)]);
    assert_eq!(found.launch.measured_on, 0);
    let notes = found.notes.join("\n");
    assert!(notes.contains("no host function") && notes.contains("assumed"), "{notes}");
}

#[test]
fn devices_and_streams_are_kept_apart() {
    // Device 0: [0, 10) and [5, 20.5) on two streams, a memset [30, 31.25). Device 1: [100, 101).
    let trace = Events::new()
        .kernel(1, 7, 100, 1, 0)
        .raw(r#"{"ph":"X","cat":"gpu_memset","name":"Memset (Device)","pid":0,"tid":8,"ts":30,"dur":1.25,"args":{"device":0,"stream":8}}"#)
        .raw(r#"{"ph":"X","cat":"kernel","name":"b","pid":0,"tid":8,"ts":5,"dur":15.5,"args":{"device":0,"stream":8}}"#)
        .kernel(0, 7, 0, 10, 0);
    let found = diagnosis(&trace);
    let [first, second] = &found.devices[..] else { panic!("two devices: {:?}", found.devices) };
    assert_eq!([first.busy_us, first.kernel_us, first.memset_us], [21.75, 20.5, 1.25]);
    assert_eq!(
        [first.before_us, first.span_us, first.idle_us, first.after_us],
        [0.0, 31.25, 9.5, 69.75]
    );
    assert_eq!(first.busy_share, 21.75 / 101.0);
    let streams: Vec<_> =
        first.streams.iter().map(|s| (s.stream.to_string(), s.busy_us, s.idle_us)).collect();
    assert_eq!(streams, [("7".to_owned(), 10.0, 0.0), ("8".to_owned(), 16.75, 9.5)]);
    assert_eq!((second.busy_us, second.span_us, second.idle_us), (1.0, 1.0, 0.0));
    assert_eq!(second.busy_share, 1.0 / 101.0);
    assert_eq!(idle_of(&found), 9.5);
}

#[test]
fn steps_cut_the_window() {
    let trace = Events::new()
        .annotation("ProfilerStep#3", 100, 50)
        .annotation("ProfilerStep#4", 150, 50)
        .call("cudaLaunchKernel", 0, 1, 1)
        .kernel(0, 7, 10, 5, 1)
        .call("cudaLaunchKernel", 120, 1, 2)
        .kernel(0, 7, 130, 10, 2)
        .call("cudaLaunchKernel", 180, 1, 3)
        .kernel(0, 7, 190, 30, 3);
    let whole = diagnosis(&trace);
    assert_eq!((whole.window.length_us, whole.devices[0].busy_us), (220.0, 45.0));
    let steps = steps_only(&trace).unwrap();
    let device = &steps.devices[0];
    assert_eq!((steps.window.length_us, device.busy_us, device.idle_us), (100.0, 20.0, 50.0));
    assert_eq!((device.before_us, device.after_us, device.kernels), (30.0, 0.0, 2));
    let report = steps.steps.unwrap();
    assert_eq!((report.count, report.mean_us, report.kernels_per_step), (2, 50.0, 1.0));
    let none = Events::new().kernel(0, 7, 10, 5, 1);
    assert!(steps_only(&none).unwrap_err().to_string().contains("no profiler steps"));
}

#[test]
fn a_graph_launch_is_one_call_for_many_kernels() {
    let trace = Events::new()
        .call("cudaGraphLaunch", 0, 8, 1)
        .kernel(0, 7, 10, 5, 1)
        .kernel(0, 7, 16, 5, 1)
        .kernel(0, 7, 22, 5, 1);
    let found = diagnosis(&trace);
    assert_eq!(idle(&found), [(CauseKind::LaunchBound, 2.0)]);
    let launch = found.launch;
    assert_eq!((launch.matched, launch.call_median_us, launch.measured_on), (3, 8.0, 1));
}

#[test]
fn the_order_of_events_does_not_matter() {
    let trace = Events::new()
        .call("cudaLaunchKernel", 0, 4, 1)
        .kernel(0, 7, 10, 6, 1)
        .operator("aten::item", 5, 17)
        .call("cudaStreamSynchronize", 6, 16, 2)
        .python("serve.py(1): a", 30, 300)
        .call("cudaLaunchKernel", 400, 4, 3)
        .kernel(0, 9, 410, 10, 3)
        .kernel(1, 7, 411, 10, 4);
    let (forward, backward) = (diagnosis(&trace), diagnosis(&trace.reversed()));
    assert_eq!(forward, backward);
    assert_eq!(forward.causes[0].cause, CauseKind::HostPython);
}
