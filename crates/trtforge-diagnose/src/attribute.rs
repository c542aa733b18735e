//! Who is to blame for an idle gap of a device.
//!
//! A gap ends when the next work starts. Until the call that submitted this work, the host was late, and what its thread did meanwhile is
//! the cause; from that call on, up to one launch latency is the price of launching, and what is beyond waited in the queue.

use std::collections::BTreeMap;

use crate::diagnosis::CauseKind;
use crate::host::{Cursors, HostTimeline};
use crate::names::{HostKind, NameId, Names};
use crate::spans::Span;
use crate::trace::{HostSpan, Launch, ThreadId};

/// After a synchronization the queue is empty and the host fills it again; so many launch latencies of that are the synchronization's fault.
const REFILL_LATENCIES: i64 = 10;

/// Time and gaps that fall to something.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Share {
    pub nanoseconds: i64,
    pub gaps: u64,
    last_gap: Option<usize>,
}

impl Share {
    fn add(&mut self, gap: usize, nanoseconds: i64) {
        self.nanoseconds += nanoseconds;
        if self.last_gap != Some(gap) {
            self.last_gap = Some(gap);
            self.gaps += 1;
        }
    }
}

/// A host function, and for runtime calls the operator that made it.
pub type Function = (NameId, Option<NameId>);

/// Idle time by cause and by host function.
#[derive(Debug, Default)]
pub struct Attribution {
    pub causes: BTreeMap<CauseKind, Share>,
    pub functions: BTreeMap<(CauseKind, Function), Share>,
}

impl Attribution {
    /// Adds what another device lost.
    pub fn merge(&mut self, other: &Self) {
        let join = |mine: &mut Share, theirs: &Share| {
            mine.nanoseconds += theirs.nanoseconds;
            mine.gaps += theirs.gaps;
        };
        for (cause, share) in &other.causes {
            join(self.causes.entry(*cause).or_default(), share);
        }
        for (function, share) in &other.functions {
            join(self.functions.entry(*function).or_default(), share);
        }
    }
}

/// What the host was doing in a part of a gap.
#[derive(Debug, Clone, Copy)]
struct Blame {
    cause: CauseKind,
    function: Function,
}

/// An idle gap and the work that ended it.
pub struct Gap<'a> {
    pub span: Span,
    pub launch: Option<&'a Launch>,
    /// The work is a copy from or to pageable memory, which the host stages.
    pub pageable: bool,
}

/// Splits the gaps of one device, in ascending order.
pub struct Attributor<'t> {
    names: &'t Names,
    threads: &'t [ThreadId],
    cursors: Cursors<'t>,
    latency: i64,
    gap: usize,
    result: Attribution,
}

impl<'t> Attributor<'t> {
    pub fn new(names: &'t Names, timeline: &'t HostTimeline, latency: i64) -> Self {
        Self {
            names,
            threads: timeline.threads(),
            cursors: timeline.cursors(),
            latency,
            gap: 0,
            result: Attribution::default(),
        }
    }

    pub fn finish(self) -> Attribution {
        self.result
    }

    /// Splits one gap; its parts add up to it.
    pub fn add(&mut self, gap: &Gap<'_>) {
        self.gap += 1;
        let Span { start, end } = gap.span;
        if gap.span.length() <= self.latency {
            self.charge(CauseKind::LaunchBound, gap.span, None);
            return;
        }
        let Some(launch) = gap.launch else {
            let thread = self.threads.first().copied();
            self.host(thread, gap.span, CauseKind::Unknown);
            return;
        };
        let submitted = launch.span.start.clamp(start, end);
        self.host(Some(launch.thread), Span { start, end: submitted }, CauseKind::NothingSubmitted);
        let due = (launch.span.start + self.latency).clamp(submitted, end);
        self.charge(CauseKind::LaunchBound, Span { start: submitted, end: due }, None);
        if gap.pageable {
            self.charge(CauseKind::PageableCopy, Span { start: due, end }, None);
            return;
        }
        // The call itself may take long: the first of a kernel loads its code.
        let returned = launch.span.end.clamp(due, end);
        self.host(Some(launch.thread), Span { start: due, end: returned }, CauseKind::Queued);
        self.charge(CauseKind::Queued, Span { start: returned, end }, None);
    }

    fn charge(&mut self, cause: CauseKind, span: Span, function: Option<Function>) {
        if span.end <= span.start {
            return;
        }
        self.result.causes.entry(cause).or_default().add(self.gap, span.length());
        if let Some(function) = function {
            let share = self.result.functions.entry((cause, function)).or_default();
            share.add(self.gap, span.length());
        }
    }

    /// Charges `window` to what `thread` did in it, else to what other threads did, else to `otherwise`.
    fn host(&mut self, thread: Option<ThreadId>, window: Span, otherwise: CauseKind) {
        if window.end <= window.start {
            return;
        }
        let mut open = vec![window];
        let others = self.threads.iter().copied().filter(|other| Some(*other) != thread);
        for thread in thread.into_iter().chain(others) {
            if open.is_empty() {
                return;
            }
            let parts = self.thread_parts(thread, &open, window.end);
            open.clear();
            for (span, blame) in parts {
                match blame {
                    Some(blame) => self.charge(blame.cause, span, Some(blame.function)),
                    None => open.push(span),
                }
            }
        }
        for span in open {
            self.charge(otherwise, span, None);
        }
    }

    /// What `thread` did in each of `windows`, ascending; nothing where it recorded nothing or slept.
    fn thread_parts(
        &mut self,
        thread: ThreadId,
        windows: &[Span],
        submitted: i64,
    ) -> Vec<(Span, Option<Blame>)> {
        let names = self.names;
        let mut parts: Vec<(Span, Option<Blame>)> = Vec::new();
        for window in windows {
            self.cursors.walk(thread, *window, |span, frames| {
                parts.push((span, blame(names, frames, submitted)));
            });
        }
        let synchronized = parts.iter().rposition(
            |(_, blame)| matches!(blame, Some(blame) if blame.cause == CauseKind::Synchronization),
        );
        if let Some(last) = synchronized
            && submitted - parts[last].0.end <= REFILL_LATENCIES * self.latency
        {
            let blame = parts[last].1;
            for part in &mut parts[last + 1..] {
                part.1 = blame;
            }
        }
        parts
    }
}

/// Whom to blame, given the functions active on a thread, outermost first, and when the next work was submitted.
///
/// A function that returned before then is what held the work up, and the outermost such one says most; one that is still running when the
/// work is submitted is on the way there, and the innermost such one says most.
fn blame(names: &Names, frames: &[HostSpan], submitted: i64) -> Option<Blame> {
    let kind = |frame: &HostSpan| names.kind(frame.name);
    let find = |wanted: HostKind| frames.iter().position(|frame| kind(frame) == wanted);
    for (wanted, cause) in [
        (HostKind::Synchronization, CauseKind::Synchronization),
        (HostKind::Allocation, CauseKind::Allocation),
    ] {
        if let Some(at) = find(wanted) {
            return Some(Blame {
                cause,
                function: (frames[at].name, caller(names, &frames[..at])),
            });
        }
    }
    if let Some(at) = find(HostKind::Pipeline) {
        let cause = CauseKind::HostInputPipeline;
        return Some(Blame { cause, function: (frames[at].name, None) });
    }
    let innermost = frames.last()?;
    let frame = frames.iter().find(|frame| frame.span.end <= submitted).unwrap_or(innermost);
    let cause = match kind(frame) {
        _ if kind(innermost) == HostKind::Waiting => return None,
        HostKind::Waiting => return None,
        HostKind::Framework => CauseKind::HostFramework,
        _ => CauseKind::HostPython,
    };
    Some(Blame { cause, function: (frame.name, None) })
}

/// The operator that made a runtime call, else the function it was made in.
fn caller(names: &Names, outer: &[HostSpan]) -> Option<NameId> {
    let operator = outer.iter().find(|frame| names.kind(frame.name) == HostKind::Framework);
    operator.or(outer.last()).map(|frame| frame.name)
}
