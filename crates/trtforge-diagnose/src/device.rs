//! One device's work: unions, gaps, streams.

use std::collections::BTreeMap;

use crate::attribute::{Attribution, Attributor, Gap};
use crate::diagnosis::{DeviceReport, IdleShare, StreamReport};
use crate::event::DeviceKind;
use crate::host::HostTimeline;
use crate::launches::Launches;
use crate::names::{Label, Names};
use crate::spans::{Span, length, union};
use crate::trace::{DeviceSpan, StreamId, StreamKey};

/// What is needed to look at any device.
pub struct Context<'t> {
    pub names: &'t Names,
    pub streams: &'t [StreamKey],
    pub pageable: &'t [bool],
    pub timeline: &'t HostTimeline,
    pub launches: &'t Launches,
    pub latency: i64,
    pub window: Span,
}

/// A device's report, why it was idle, and how long pageable copies ran with no kernel beside them.
pub struct DeviceFindings {
    pub report: DeviceReport,
    pub attribution: Attribution,
    pub span: i64,
    pub exposed_pageable: i64,
}

/// Nanoseconds as microseconds.
pub fn us(nanoseconds: i64) -> f64 {
    nanoseconds as f64 / 1000.0
}

impl Context<'_> {
    /// Looks at the work of one device, sorted by start.
    pub fn device(
        &self,
        label: &Label,
        name: Option<&String>,
        work: &[DeviceSpan],
    ) -> DeviceFindings {
        let all = self.union_of(work, |_| true);
        let span = match (all.first(), all.last()) {
            (Some(first), Some(last)) => Span { start: first.start, end: last.end },
            _ => Span { start: self.window.start, end: self.window.start },
        };
        let busy = length(&all);
        let of = |kind| length(&self.union_of(work, |item| item.kind == kind));
        let count = |kind| {
            work.iter().filter(|w| w.kind == kind && self.window.touches(w.span)).count() as u64
        };
        let attribution = self.attribute(work);
        let window = self.window.length();
        let report = DeviceReport {
            device: label.clone(),
            name: name.cloned(),
            span_us: us(span.length()),
            busy_us: us(busy),
            busy_share: if window == 0 { 0.0 } else { busy as f64 / window as f64 },
            kernel_us: us(of(DeviceKind::Kernel)),
            copy_us: us(of(DeviceKind::Copy)),
            memset_us: us(of(DeviceKind::Memset)),
            idle_us: us(span.length() - busy),
            before_us: us(span.start - self.window.start),
            after_us: us(self.window.end - span.end),
            kernels: count(DeviceKind::Kernel),
            copies: count(DeviceKind::Copy),
            idle: shares(&attribution),
            streams: self.stream_reports(work),
        };
        let exposed_pageable = self.exposed_pageable(work);
        DeviceFindings { report, attribution, span: span.length(), exposed_pageable }
    }

    fn union_of(&self, work: &[DeviceSpan], wanted: impl Fn(&DeviceSpan) -> bool) -> Vec<Span> {
        union(work.iter().filter(|w| wanted(w)).filter_map(|w| w.span.clip(self.window)).collect())
    }

    fn is_pageable(&self, work: &DeviceSpan) -> bool {
        self.pageable.get(work.copy_kind as usize).copied().unwrap_or(false)
    }

    fn exposed_pageable(&self, work: &[DeviceSpan]) -> i64 {
        let kernel = |item: &DeviceSpan| item.kind == DeviceKind::Kernel;
        let either = self.union_of(work, |item| kernel(item) || self.is_pageable(item));
        length(&either) - length(&self.union_of(work, kernel))
    }

    fn attribute(&self, work: &[DeviceSpan]) -> Attribution {
        let mut attributor = Attributor::new(self.names, self.timeline, self.latency);
        for (span, next) in self.gaps(work) {
            let (launch, pageable) = (self.launches.of(next), self.is_pageable(next));
            attributor.add(&Gap { span, launch, pageable });
        }
        attributor.finish()
    }

    /// Idle stretches between works, each with the work that ends it.
    fn gaps<'w>(&self, work: &'w [DeviceSpan]) -> Vec<(Span, &'w DeviceSpan)> {
        let mut gaps = Vec::new();
        let mut ended: Option<i64> = None;
        for item in work {
            let Some(span) = item.span.clip(self.window) else { continue };
            if let Some(ended) = ended
                && span.start > ended
            {
                gaps.push((Span { start: ended, end: span.start }, item));
            }
            ended = Some(ended.map_or(span.end, |ended| ended.max(span.end)));
        }
        gaps
    }

    fn stream_reports(&self, work: &[DeviceSpan]) -> Vec<StreamReport> {
        let mut streams: BTreeMap<(&Label, StreamId), Vec<DeviceSpan>> = BTreeMap::new();
        for item in work.iter().filter(|item| self.window.touches(item.span)) {
            let stream = &self.streams[item.stream as usize].stream;
            streams.entry((stream, item.stream)).or_default().push(*item);
        }
        streams.into_iter().map(|((label, _), work)| self.stream(label, &work)).collect()
    }

    fn stream(&self, label: &Label, work: &[DeviceSpan]) -> StreamReport {
        let of = |kind| us(length(&self.union_of(work, |item| item.kind == kind)));
        let (mut host, mut kernel, mut other) = (0, 0, 0);
        for (span, next) in self.gaps(work) {
            let late = self.launches.of(next).is_some_and(|call| call.span.start > span.start);
            let share = if late {
                &mut host
            } else if span.length() <= self.latency {
                &mut kernel
            } else {
                &mut other
            };
            *share += span.length();
        }
        StreamReport {
            stream: label.clone(),
            events: work.len() as u64,
            busy_us: us(length(&self.union_of(work, |_| true))),
            kernel_us: of(DeviceKind::Kernel),
            copy_us: of(DeviceKind::Copy),
            memset_us: of(DeviceKind::Memset),
            idle_us: us(host + kernel + other),
            host_wait_us: us(host),
            kernel_wait_us: us(kernel),
            other_us: us(other),
        }
    }
}

fn shares(attribution: &Attribution) -> Vec<IdleShare> {
    let mut shares: Vec<_> = attribution.causes.iter().collect();
    shares.sort_by_key(|(cause, share)| (-share.nanoseconds, **cause));
    let share = |(cause, share): (&_, &crate::attribute::Share)| IdleShare {
        cause: *cause,
        idle_us: us(share.nanoseconds),
        gaps: share.gaps,
    };
    shares.into_iter().map(share).collect()
}
