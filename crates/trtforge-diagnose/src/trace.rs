//! What is kept of a trace.

use std::collections::{BTreeMap, HashMap};

use crate::event::{Category, DeviceKind, Event, HostCategory};
use crate::names::{HostKind, Label, NameId, Names};
use crate::spans::Span;

/// Index into [`Trace::streams`].
pub type StreamId = u32;

/// Index of a host thread.
pub type ThreadId = u32;

/// Work on a device.
#[derive(Debug, Clone, Copy)]
pub struct DeviceSpan {
    pub span: Span,
    pub stream: StreamId,
    pub kind: DeviceKind,
    /// Of a copy: which way and how, index into [`Trace::copy_kinds`].
    pub copy_kind: u32,
    /// Of a copy.
    pub bytes: u64,
    /// Ties it to the call that submitted it; 0 is none.
    pub correlation: u64,
}

/// A function on a host thread.
#[derive(Debug, Clone, Copy)]
pub struct HostSpan {
    pub span: Span,
    pub name: NameId,
    pub thread: ThreadId,
}

/// A call that submitted work.
#[derive(Debug, Clone, Copy)]
pub struct Launch {
    pub correlation: u64,
    pub span: Span,
    pub thread: ThreadId,
}

/// Device and stream.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamKey {
    pub device: Label,
    pub stream: Label,
}

/// Events that say too little to be used.
#[derive(Debug, Default, Clone, Copy)]
pub struct Skipped {
    /// Device work without a readable time or duration.
    pub device: u64,
    /// Host spans without.
    pub host: u64,
    /// Spans that end before they start, taken as empty.
    pub negative: u64,
}

/// A trace, with only what a diagnosis needs: some 50 bytes for device work, 24 for a host function.
#[derive(Debug, Default)]
pub struct Trace {
    pub(crate) file: String,
    pub(crate) names: Names,
    pub(crate) work: Vec<DeviceSpan>,
    pub(crate) host: Vec<HostSpan>,
    pub(crate) launches: Vec<Launch>,
    pub(crate) streams: Vec<StreamKey>,
    pub(crate) copy_kinds: Vec<String>,
    pub(crate) steps: Vec<Span>,
    pub(crate) range: Option<Span>,
    pub(crate) device_names: BTreeMap<Label, String>,
    pub(crate) rank: Option<i64>,
    pub(crate) events: u64,
    pub(crate) skipped: Skipped,
    pub(crate) truncated: bool,
}

impl Trace {
    /// Events read, of every kind.
    pub fn events(&self) -> u64 {
        self.events
    }

    /// Whether the file ended before its JSON did.
    pub fn is_truncated(&self) -> bool {
        self.truncated
    }
}

/// Sorts events into a [`Trace`].
#[derive(Default)]
pub struct Collector {
    pub trace: Trace,
    threads: Interner,
    streams: Interner,
    copy_kinds: HashMap<Box<str>, u32>,
}

/// Numbers pairs of texts, remembering the last: neighbours in a trace mostly share theirs.
#[derive(Default)]
struct Interner {
    ids: HashMap<(Box<str>, Box<str>), u32>,
    last: Option<(Box<str>, Box<str>, u32)>,
}

impl Interner {
    fn id(&mut self, first: &str, second: &str) -> u32 {
        if let Some((known, other, id)) = &self.last
            && **known == *first
            && **other == *second
        {
            return *id;
        }
        let next = self.ids.len() as u32;
        let key: (Box<str>, Box<str>) = (first.into(), second.into());
        let id = *self.ids.entry(key.clone()).or_insert(next);
        self.last = Some((key.0, key.1, id));
        id
    }
}

impl Collector {
    /// Keeps what a diagnosis needs of `event`.
    pub fn add(&mut self, event: &Event<'_>) {
        self.trace.events += 1;
        if !event.complete {
            return;
        }
        let span = self.span(event);
        match (event.category, span) {
            (Category::Device(kind), Some(span)) => self.add_work(event, kind, span),
            (Category::Device(_), None) => self.trace.skipped.device += 1,
            (Category::Host(category), Some(span)) => self.add_host(event, category, span),
            (Category::Host(_), None) => self.trace.skipped.host += 1,
            (Category::Other, _) => {}
        }
    }

    fn span(&mut self, event: &Event<'_>) -> Option<Span> {
        let start = event.start?.nanoseconds()?;
        let duration = event.duration?.nanoseconds()?;
        if duration < 0 && event.category != Category::Other {
            self.trace.skipped.negative += 1;
        }
        let span = Span { start, end: start + duration.max(0) };
        let range = self.trace.range.get_or_insert(span);
        range.start = range.start.min(span.start);
        range.end = range.end.max(span.end);
        Some(span)
    }

    fn add_work(&mut self, event: &Event<'_>, kind: DeviceKind, span: Span) {
        let arguments = &event.arguments;
        let device = arguments.device.unwrap_or(event.process).0;
        let stream = arguments.stream.unwrap_or(event.thread).0;
        let id = self.streams.id(device, stream);
        if id as usize == self.trace.streams.len() {
            let key = StreamKey { device: Label::parse(device), stream: Label::parse(stream) };
            self.trace.streams.push(key);
        }
        let copy_kind =
            if kind == DeviceKind::Copy { self.copy_kind(&event.name.0) } else { u32::MAX };
        let number = |raw: Option<crate::event::Raw<'_>>| raw.and_then(|raw| raw.0.parse().ok());
        self.trace.work.push(DeviceSpan {
            span,
            stream: id,
            kind,
            copy_kind,
            bytes: number(arguments.bytes).unwrap_or(0),
            correlation: number(arguments.correlation).unwrap_or(0),
        });
    }

    fn copy_kind(&mut self, name: &str) -> u32 {
        if let Some(id) = self.copy_kinds.get(name) {
            return *id;
        }
        let id = self.trace.copy_kinds.len() as u32;
        self.copy_kinds.insert(name.into(), id);
        self.trace.copy_kinds.push(name.to_owned());
        id
    }

    fn add_host(&mut self, event: &Event<'_>, category: HostCategory, span: Span) {
        let text = &*event.name.0;
        if matches!(category, HostCategory::Annotation | HostCategory::Operator)
            && text.starts_with("ProfilerStep#")
        {
            self.trace.steps.push(span);
            return;
        }
        let name = self.trace.names.intern(category, text);
        let thread = self.threads.id(event.process.0, event.thread.0);
        let correlation = event.arguments.correlation.and_then(|raw| raw.0.parse().ok());
        if let Some(correlation) = correlation
            && self.trace.names.kind(name) != HostKind::Allocation
        {
            self.trace.launches.push(Launch { correlation, span, thread });
        }
        self.trace.host.push(HostSpan { span, name, thread });
    }
}
