//! A trace file, event by event.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;

use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::error::DiagnoseError;
use crate::event::Event;
use crate::json_stream::{Elements, JsonStream, StreamError};
use crate::names::Label;
use crate::nsight;
use crate::source;
use crate::trace::{Collector, Trace};

/// How a trace is read.
#[derive(Debug, Clone, Copy, Default)]
pub struct ReadOptions {
    /// Read the complete events of a file that is cut off, instead of refusing it.
    pub partial: bool,
}

/// Byte order mark of UTF-8.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Reads the trace at `path`: Chrome trace event JSON as the PyTorch profiler writes it, plain or gzip, or the SQLite export of Nsight
/// Systems. A file is known by its first bytes, whatever it is called.
pub fn read_trace(path: &Path, options: ReadOptions) -> Result<Trace, DiagnoseError> {
    let read = |source| DiagnoseError::Read { path: path.to_owned(), source };
    if source::begins_with(path, nsight::MAGIC).map_err(read)? {
        return nsight::read(path);
    }
    read_trace_from(source::open(path).map_err(read)?, path, options)
}

/// Reads a trace from a reader of its (decompressed) text; `path` is what errors call it.
pub fn read_trace_from(
    reader: impl Read,
    path: &Path,
    options: ReadOptions,
) -> Result<Trace, DiagnoseError> {
    let mut reading = Reading { stream: JsonStream::new(reader), collector: Collector::default() };
    match reading.document() {
        Ok(()) => {}
        Err(Stop::Stream(StreamError::Truncated))
            if options.partial && reading.collector.trace.events > 0 =>
        {
            reading.collector.trace.truncated = true;
        }
        Err(stop) => return Err(reading.error(stop, path)),
    }
    let mut trace = reading.collector.trace;
    if trace.events == 0 {
        return Err(DiagnoseError::NoEvents { path: path.to_owned() });
    }
    trace.file = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    Ok(trace)
}

/// Why reading stopped.
enum Stop {
    Empty,
    Other(String),
    Stream(StreamError),
}

impl From<StreamError> for Stop {
    fn from(error: StreamError) -> Self {
        Self::Stream(error)
    }
}

struct Reading<R> {
    stream: JsonStream<R>,
    collector: Collector,
}

impl Elements for Collector {
    type Element<'de> = Event<'de>;

    fn take(&mut self, event: Event<'_>) {
        self.add(&event);
    }
}

#[derive(Deserialize)]
struct DeviceProperties {
    id: serde_json::Value,
    #[serde(default)]
    name: String,
}

impl<R: Read> Reading<R> {
    fn document(&mut self) -> Result<(), Stop> {
        // Only a compressed one comes here: rows are read where they lie in the file.
        if self.stream.preview(nsight::MAGIC.len())? == nsight::MAGIC {
            return Err(Stop::Other(
                "a compressed SQLite database; decompress it first".to_owned(),
            ));
        }
        if self.stream.preview(BYTE_ORDER_MARK.len())? == BYTE_ORDER_MARK {
            self.stream.advance(BYTE_ORDER_MARK.len());
        }
        match self.stream.peek()? {
            Some(b'{') => self.object()?,
            Some(b'[') => self.events()?,
            Some(_) => {
                let start = self.stream.preview(16)?.escape_ascii().to_string();
                return Err(Stop::Other(format!("text that begins with `{start}`")));
            }
            None => return Err(Stop::Empty),
        }
        match self.stream.peek()? {
            None => Ok(()),
            Some(_) => Err(Stop::Stream(StreamError::Syntax {
                offset: self.stream.offset(),
                message: "more text after the end of the trace".to_owned(),
            })),
        }
    }

    fn object(&mut self) -> Result<(), StreamError> {
        self.stream.expect(b'{')?;
        if self.stream.peek()? == Some(b'}') {
            self.stream.advance(1);
            return Ok(());
        }
        loop {
            let key: String = self.stream.value()?;
            self.stream.expect(b':')?;
            match key.as_str() {
                "traceEvents" => self.events()?,
                "deviceProperties" => {
                    let devices: serde_json::Value = self.stream.value()?;
                    self.collector.trace.device_names = device_names(&devices);
                }
                "distributedInfo" => {
                    let info: serde_json::Value = self.stream.value()?;
                    self.collector.trace.rank = info["rank"].as_i64();
                }
                _ => drop(self.stream.value::<IgnoredAny>()?),
            }
            if !self.stream.another(b'}')? {
                return Ok(());
            }
        }
    }

    fn events(&mut self) -> Result<(), StreamError> {
        self.stream.expect(b'[')?;
        if self.stream.peek()? == Some(b']') {
            self.stream.advance(1);
            return Ok(());
        }
        loop {
            self.stream.visit(&mut self.collector)?;
            if !self.stream.another(b']')? {
                return Ok(());
            }
        }
    }

    fn error(&self, stop: Stop, path: &Path) -> DiagnoseError {
        let path = path.to_owned();
        let events = self.collector.trace.events;
        match stop {
            Stop::Empty => DiagnoseError::Empty { path },
            Stop::Other(found) => DiagnoseError::NotATrace { path, found },
            Stop::Stream(StreamError::Truncated) => {
                DiagnoseError::Truncated { path, offset: self.stream.seen(), events }
            }
            Stop::Stream(StreamError::Syntax { offset, message }) => {
                DiagnoseError::Syntax { path, offset, events, message }
            }
            // The gzip decoder says "invalid" of bytes, never of the file system.
            Stop::Stream(StreamError::Io(error))
                if error.kind() == std::io::ErrorKind::InvalidInput
                    || error.kind() == std::io::ErrorKind::InvalidData =>
            {
                let message = error.to_string();
                DiagnoseError::Gzip { path, offset: self.stream.seen(), message }
            }
            Stop::Stream(StreamError::Io(source)) => DiagnoseError::Read { path, source },
        }
    }
}

/// Names by device number; what does not look like a list of devices names nothing.
fn device_names(devices: &serde_json::Value) -> BTreeMap<Label, String> {
    let named = |value: &serde_json::Value| {
        let device = DeviceProperties::deserialize(value).ok()?;
        Some((Label::Number(device.id.as_i64()?), device.name))
    };
    devices.as_array().into_iter().flatten().filter_map(named).collect()
}
