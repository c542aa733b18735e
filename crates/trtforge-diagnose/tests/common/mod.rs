//! Small traces made event by event.

use std::path::Path;

use trtforge_diagnose::{
    DiagnoseError, DiagnoseOptions, Diagnosis, ReadOptions, diagnose, read_trace_from,
};

/// Trace events, as JSON; host events go to the thread set last.
#[derive(Clone)]
pub struct Events {
    events: Vec<String>,
    thread: u32,
}

impl Events {
    pub fn new() -> Self {
        Self { events: Vec::new(), thread: 1 }
    }

    pub fn raw(mut self, event: &str) -> Self {
        self.events.push(event.to_owned());
        self
    }

    pub fn thread(mut self, thread: u32) -> Self {
        self.thread = thread;
        self
    }

    pub fn kernel(self, device: u32, stream: u32, start: u64, length: u64, call: u64) -> Self {
        self.raw(&format!(
            r#"{{"ph":"X","cat":"kernel","name":"gemm","pid":{device},"tid":{stream},"ts":{start},"dur":{length},"args":{{"device":{device},"stream":{stream},"correlation":{call},"grid":[1,1,1]}}}}"#
        ))
    }

    pub fn copy(
        self,
        name: &str,
        stream: u32,
        start: u64,
        length: u64,
        call: u64,
        bytes: u64,
    ) -> Self {
        self.raw(&format!(
            r#"{{"ph":"X","cat":"gpu_memcpy","name":"{name}","pid":0,"tid":{stream},"ts":{start},"dur":{length},"args":{{"device":0,"stream":{stream},"correlation":{call},"bytes":{bytes}}}}}"#
        ))
    }

    pub fn call(self, name: &str, start: u64, length: u64, correlation: u64) -> Self {
        let arguments = format!(r#"{{"cbid":211,"correlation":{correlation}}}"#);
        self.host("cuda_runtime", name, start, length, &arguments)
    }

    pub fn operator(self, name: &str, start: u64, length: u64) -> Self {
        self.host("cpu_op", name, start, length, r#"{"External id":4}"#)
    }

    pub fn python(self, name: &str, start: u64, length: u64) -> Self {
        self.host("python_function", name, start, length, "{}")
    }

    pub fn annotation(self, name: &str, start: u64, length: u64) -> Self {
        self.host("user_annotation", name, start, length, "{}")
    }

    fn host(self, category: &str, name: &str, start: u64, length: u64, arguments: &str) -> Self {
        let thread = self.thread;
        self.raw(&format!(
            r#"{{"ph":"X","cat":"{category}","name":"{name}","pid":9,"tid":{thread},"ts":{start},"dur":{length},"args":{arguments}}}"#
        ))
    }

    pub fn reversed(&self) -> Self {
        let mut reversed = self.clone();
        reversed.events.reverse();
        reversed
    }

    pub fn json(&self) -> String {
        format!(r#"{{"schemaVersion":1,"traceEvents":[{}]}}"#, self.events.join(",\n"))
    }
}

fn diagnosed(trace: &Events, steps: bool) -> Result<Diagnosis, DiagnoseError> {
    let json = trace.json();
    let trace = read_trace_from(json.as_bytes(), Path::new("t.json"), ReadOptions::default())?;
    let found = diagnose(trace, DiagnoseOptions { steps })?;
    // Whatever the trace: the causes explain the idle time, no more and no less.
    let explained: f64 = found.causes.iter().map(|cause| cause.idle_us).sum();
    assert!((explained - idle_of(&found)).abs() < 1e-6, "{explained} of {}", idle_of(&found));
    Ok(found)
}

pub fn diagnosis(trace: &Events) -> Diagnosis {
    diagnosed(trace, false).expect("a good trace")
}

pub fn steps_only(trace: &Events) -> Result<Diagnosis, DiagnoseError> {
    diagnosed(trace, true)
}

/// Idle time of all devices.
pub fn idle_of(diagnosis: &Diagnosis) -> f64 {
    diagnosis.devices.iter().map(|device| device.idle_us).sum()
}
