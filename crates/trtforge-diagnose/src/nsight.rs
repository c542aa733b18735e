//! A trace out of the SQLite export of Nsight Systems (`nsys export --type sqlite`).
//!
//! Its tables say the same as a profiler's events: kernels, copies and memsets by device and stream, CUDA calls and NVTX ranges by thread,
//! tied together by correlation numbers that are one a process. Times are nanoseconds.

use std::collections::HashMap;
use std::path::Path;

use crate::database::{Cell, Database, Table};
use crate::error::DiagnoseError;
use crate::event::{DeviceKind, HostCategory};
use crate::names::{HostKind, Label};
use crate::spans::Span;
use crate::trace::{DeviceSpan, HostSpan, Launch, StreamKey, Trace};

/// First bytes of a database.
pub const MAGIC: &[u8] = b"SQLite format 3\0";

const KERNELS: &str = "CUPTI_ACTIVITY_KIND_KERNEL";
const COPIES: &str = "CUPTI_ACTIVITY_KIND_MEMCPY";
const MEMSETS: &str = "CUPTI_ACTIVITY_KIND_MEMSET";
const CALLS: &str = "CUPTI_ACTIVITY_KIND_RUNTIME";
const WAITS: &str = "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION";
const RANGES: &str = "NVTX_EVENTS";
const STRINGS: &str = "StringIds";
const GPUS: &str = "TARGET_INFO_GPU";

/// `NvtxPushPopRange`: ranges that lie in each other on one thread.
const PUSH_POP: i64 = 59;

/// Reads a whole export.
pub fn read(path: &Path) -> Result<Trace, DiagnoseError> {
    let broken = |source| broken(path, source);
    let database = Database::open(path).map_err(broken)?;
    let has = |name: &&str| database.table(name).map(|table| table.is_some());
    let activity = [KERNELS, COPIES, MEMSETS, CALLS, RANGES];
    let known: Vec<bool> = activity.iter().map(has).collect::<Result<_, _>>().map_err(broken)?;
    if !known.contains(&true) {
        return Err(if has(&STRINGS).map_err(broken)? {
            DiagnoseError::NoEvents { path: path.to_owned() }
        } else {
            let found = "an SQLite database without the tables of Nsight Systems".to_owned();
            DiagnoseError::NotATrace { path: path.to_owned(), found }
        });
    }
    let mut export = Export::default();
    export.all(&database, path)?;
    let mut trace = export.trace;
    if trace.events == 0 {
        return Err(DiagnoseError::NoEvents { path: path.to_owned() });
    }
    trace.file = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    Ok(trace)
}

fn broken(path: &Path, source: rusqlite::Error) -> DiagnoseError {
    DiagnoseError::Database { path: path.to_owned(), source }
}

#[derive(Default)]
struct Export {
    trace: Trace,
    strings: HashMap<i64, Box<str>>,
    streams: HashMap<(i64, i64), u32>,
    threads: HashMap<i64, u32>,
    copy_kinds: HashMap<(i64, i64, i64), u32>,
}

impl Export {
    fn all(&mut self, database: &Database, path: &Path) -> Result<(), DiagnoseError> {
        let mut strings = std::mem::take(&mut self.strings);
        scan(database, path, STRINGS, &["id", "value"], &[], |row| {
            if let [Cell::Integer(id), Cell::Text(Some(text))] = row {
                strings.insert(*id, (*text).into());
            }
        })?;
        self.strings = strings;
        let names = CopyNames::read(database, path)?;
        let times = ["start", "end"];
        let work = ["start", "end", "deviceId", "streamId", "correlationId", "globalPid", "bytes"];
        scan(database, path, KERNELS, &work, &work[..4], |row| {
            self.work(row, DeviceKind::Kernel, u32::MAX);
        })?;
        scan(database, path, MEMSETS, &work, &work[..4], |row| {
            self.work(row, DeviceKind::Memset, u32::MAX);
        })?;
        let kinds = ["copyKind", "srcKind", "dstKind"];
        let columns: Vec<&str> = work.iter().chain(&kinds).copied().collect();
        scan(database, path, COPIES, &columns, &work[..4], |row| {
            let kind = self.copy_kind(&row[work.len()..], &names);
            self.work(row, DeviceKind::Copy, kind);
        })?;
        let call = ["start", "end", "globalTid", "correlationId", "nameId"];
        scan(database, path, CALLS, &call, &call[..3], |row| self.call(row))?;
        let range = ["start", "end", "globalTid", "eventType", "text", "textId"];
        scan(database, path, RANGES, &range, &range[..1], |row| self.range(row))?;
        // What a device waits for is no work of it, and the calls that wait are among the calls.
        scan(database, path, WAITS, &times, &times, |_| self.trace.events += 1)?;
        let devices = &mut self.trace.device_names;
        scan(database, path, GPUS, &["id", "name"], &[], |row| {
            if let [Cell::Integer(id), Cell::Text(Some(name))] = row {
                devices.insert(Label::Number(*id), (*name).to_owned());
            }
        })
    }

    fn span(&mut self, row: &[Cell<'_>]) -> Option<Span> {
        self.trace.events += 1;
        // Some 70 years either way: more is damage, and sums of it would overflow.
        let time = |cell: &Cell<'_>| cell.integer().filter(|time| time.unsigned_abs() < 1 << 61);
        let (start, end) = (time(&row[0])?, time(&row[1])?);
        if end < start {
            self.trace.skipped.negative += 1;
        }
        let span = Span { start, end: end.max(start) };
        let range = self.trace.range.get_or_insert(span);
        range.start = range.start.min(span.start);
        range.end = range.end.max(span.end);
        Some(span)
    }

    fn work(&mut self, row: &[Cell<'_>], kind: DeviceKind, copy_kind: u32) {
        // Start and end are 0 where the profiler could not tell them.
        let known = row[1].integer() != Some(0);
        let Some(span) = known.then(|| self.span(row)).flatten() else {
            self.trace.events += u64::from(!known);
            self.trace.skipped.device += 1;
            return;
        };
        let key = (row[2].integer().unwrap_or(0), row[3].integer().unwrap_or(0));
        let streams = &mut self.trace.streams;
        let stream = *self.streams.entry(key).or_insert_with(|| {
            streams.push(StreamKey { device: Label::Number(key.0), stream: Label::Number(key.1) });
            streams.len() as u32 - 1
        });
        self.trace.work.push(DeviceSpan {
            span,
            stream,
            kind,
            copy_kind,
            bytes: row[6].integer().and_then(|bytes| u64::try_from(bytes).ok()).unwrap_or(0),
            correlation: correlation(row[4], row[5]),
        });
    }

    fn copy_kind(&mut self, kinds: &[Cell<'_>], names: &CopyNames) -> u32 {
        let of = |index: usize| kinds[index].integer().unwrap_or(-1);
        let key = (of(0), of(1), of(2));
        let known = &mut self.trace.copy_kinds;
        *self.copy_kinds.entry(key).or_insert_with(|| {
            known.push(names.name(key));
            known.len() as u32 - 1
        })
    }

    fn thread(&mut self, id: i64) -> u32 {
        let next = self.threads.len() as u32;
        *self.threads.entry(id).or_insert(next)
    }

    fn call(&mut self, row: &[Cell<'_>]) {
        let Some(span) = self.span(row) else {
            self.trace.skipped.host += 1;
            return;
        };
        let thread = self.thread(row[2].integer().unwrap_or(0));
        let text = row[4].integer().and_then(|id| self.strings.get(&id));
        let text = text.map_or("CUDA call without a name", |text| unversioned(text));
        let name = self.trace.names.intern(HostCategory::Runtime, text);
        let correlation = correlation(row[3], row[2]);
        if correlation != 0 && self.trace.names.kind(name) != HostKind::Allocation {
            self.trace.launches.push(Launch { correlation, span, thread });
        }
        self.trace.host.push(HostSpan { span, name, thread });
    }

    fn range(&mut self, row: &[Cell<'_>]) {
        // Marks, and ranges between threads, lie in no other function and hold none.
        if row[3].integer() != Some(PUSH_POP) || row[1].integer().is_none() {
            self.trace.events += 1;
            return;
        }
        let Some(span) = self.span(row) else { return };
        let known = row[5].integer().and_then(|id| self.strings.get(&id));
        let text = row[4].text().or(known.map(|text| &**text)).unwrap_or("range without a name");
        if text.starts_with("ProfilerStep#") {
            self.trace.steps.push(span);
            return;
        }
        // PyTorch's `emit_nvtx` marks its operators so.
        let operator = text.starts_with("aten::") || text.starts_with("c10::");
        let category = if operator { HostCategory::Operator } else { HostCategory::Annotation };
        let name = self.trace.names.intern(category, text);
        let thread = self.thread(row[2].integer().unwrap_or(0));
        self.trace.host.push(HostSpan { span, name, thread });
    }
}

/// Shows the rows of a table, if there is one; it must have the columns `needed`.
fn scan(
    database: &Database,
    path: &Path,
    name: &str,
    columns: &[&str],
    needed: &[&str],
    visit: impl FnMut(&[Cell<'_>]),
) -> Result<(), DiagnoseError> {
    let table = database.table(name).map_err(|source| broken(path, source))?;
    let Some(table) = table else { return Ok(()) };
    let lacks = |table: &Table| {
        needed.iter().find(|column| table.columns.iter().all(|known| known != *column)).copied()
    };
    if let Some(column) = lacks(&table) {
        let found = format!("an SQLite database whose table {name} has no column `{column}`");
        return Err(DiagnoseError::NotATrace { path: path.to_owned(), found });
    }
    database.scan(&table, columns, visit).map_err(|source| broken(path, source))
}

/// Numbers are one a process: its id, bits 24 to 47 of the global ids, makes them one a trace. 0 is none.
fn correlation(number: Cell<'_>, global: Cell<'_>) -> u64 {
    let number = number.integer().unwrap_or(0) as u64 & 0xffff_ffff;
    let process = (global.integer().unwrap_or(0) as u64 >> 24) & 0xff_ffff;
    if number == 0 { 0 } else { process << 32 | number }
}

/// `cudaLaunchKernel_v7000` is `cudaLaunchKernel` since CUDA 7.
fn unversioned(call: &str) -> &str {
    let is_version = |text: &str| text.len() >= 4 && text.bytes().all(|b| b.is_ascii_digit());
    call.rsplit_once("_v").filter(|(_, version)| is_version(version)).map_or(call, |(name, _)| name)
}

/// What numbers of directions and kinds of memory mean: as the export says, else as current ones do.
struct CopyNames {
    directions: HashMap<i64, String>,
    memories: HashMap<i64, String>,
}

impl CopyNames {
    fn read(database: &Database, path: &Path) -> Result<Self, DiagnoseError> {
        let read = |table: &str, known: &[(i64, &str)]| {
            let mut names: HashMap<i64, String> =
                known.iter().map(|(id, name)| (*id, (*name).to_owned())).collect();
            scan(database, path, table, &["id", "label", "name"], &[], |row| {
                let label = row[1].text().or(row[2].text());
                if let (Some(id), Some(label)) = (row[0].integer(), label) {
                    names.insert(id, label.to_owned());
                }
            })?;
            Ok::<_, DiagnoseError>(names)
        };
        let directions = [
            (1, "HtoD"),
            (2, "DtoH"),
            (3, "HtoA"),
            (4, "AtoH"),
            (5, "AtoA"),
            (6, "AtoD"),
            (7, "DtoA"),
            (8, "DtoD"),
            (9, "HtoH"),
            (10, "PtoP"),
        ];
        let memories = [
            (0, "Pageable"),
            (1, "Pinned"),
            (2, "Device"),
            (3, "Array"),
            (4, "Managed"),
            (5, "Device Static"),
            (6, "Managed Static"),
        ];
        Ok(Self {
            directions: read("ENUM_CUDA_MEMCPY_OPER", &directions)?,
            memories: read("ENUM_CUDA_MEM_KIND", &memories)?,
        })
    }

    /// As a profiler's trace has it: `Memcpy HtoD (Pageable -> Device)`.
    fn name(&self, (direction, from, to): (i64, i64, i64)) -> String {
        let of = |names: &HashMap<i64, String>, id| {
            names.get(&id).map_or_else(|| "Unknown".to_owned(), String::clone)
        };
        let (from, to) = (of(&self.memories, from), of(&self.memories, to));
        format!("Memcpy {} ({from} -> {to})", of(&self.directions, direction))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_of_calls_are_cut_off() {
        assert_eq!(unversioned("cudaLaunchKernel_v7000"), "cudaLaunchKernel");
        assert_eq!(unversioned("cuMemcpyDtoH_v2"), "cuMemcpyDtoH_v2");
        assert_eq!(unversioned("cuLaunchKernel"), "cuLaunchKernel");
    }

    #[test]
    fn correlations_of_two_processes_differ() {
        let of = |number, global: i64| correlation(Cell::Integer(number), Cell::Integer(global));
        // Process 5 with thread 7, and the process itself.
        assert_eq!(of(3, 5 << 24 | 7), of(3, 5 << 24));
        assert_ne!(of(3, 5 << 24), of(3, 6 << 24));
        assert_eq!(of(0, 5 << 24), 0);
    }
}
