//! What each host thread was doing, moment by moment.

use std::ops::Range;

use crate::spans::Span;
use crate::trace::{HostSpan, Launch, ThreadId};

/// Host functions by thread and start.
pub struct HostTimeline {
    spans: Vec<HostSpan>,
    ranges: Vec<Range<usize>>,
    /// Threads, those that submit most first.
    order: Vec<ThreadId>,
}

impl HostTimeline {
    pub fn new(mut spans: Vec<HostSpan>, launches: &[Launch]) -> Self {
        // Of functions that start together the longer one is the caller.
        spans.sort_by_key(|s| (s.thread, s.span.start, std::cmp::Reverse(s.span.end), s.name));
        let threads = spans.last().map_or(0, |last| last.thread as usize + 1);
        let mut ranges = vec![0..0; threads];
        let mut start = 0;
        for run in spans.chunk_by(|a, b| a.thread == b.thread) {
            ranges[run[0].thread as usize] = start..start + run.len();
            start += run.len();
        }
        let mut submitted = vec![0_usize; threads];
        for launch in launches {
            submitted[launch.thread as usize] += 1;
        }
        let mut order: Vec<ThreadId> = (0..threads as ThreadId).collect();
        order.sort_by_key(|thread| (std::cmp::Reverse(submitted[*thread as usize]), *thread));
        Self { spans, ranges, order }
    }

    /// Threads, those that submit most first.
    pub fn threads(&self) -> &[ThreadId] {
        &self.order
    }

    /// A walk through all threads from their beginning.
    pub fn cursors(&self) -> Cursors<'_> {
        let next = self.ranges.iter().map(|range| range.start).collect();
        Cursors { timeline: self, next, active: vec![Vec::new(); self.ranges.len()] }
    }
}

/// Places in the timeline, which only move forward.
pub struct Cursors<'t> {
    timeline: &'t HostTimeline,
    next: Vec<usize>,
    active: Vec<Vec<HostSpan>>,
}

impl Cursors<'_> {
    /// Visits every part of `window` in which the same functions of `thread` are active, outermost first.
    ///
    /// Windows of one thread must come in ascending order and must not overlap.
    pub fn walk(
        &mut self,
        thread: ThreadId,
        window: Span,
        mut visit: impl FnMut(Span, &[HostSpan]),
    ) {
        let thread = thread as usize;
        let limit = self.timeline.ranges[thread].end;
        let (next, active) = (&mut self.next[thread], &mut self.active[thread]);
        let mut at = window.start;
        while at < window.end {
            while *next < limit && self.timeline.spans[*next].span.start <= at {
                let span = self.timeline.spans[*next];
                if span.span.end > at {
                    active.push(span);
                }
                *next += 1;
            }
            active.retain(|span| span.span.end > at);
            let ends = active.iter().map(|span| span.span.end).min();
            let starts = (*next < limit).then(|| self.timeline.spans[*next].span.start);
            let until = ends.into_iter().chain(starts).fold(window.end, i64::min);
            visit(Span { start: at, end: until }, active);
            at = until;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::HostCategory;
    use crate::names::Names;

    #[test]
    fn the_stack_is_known_at_every_moment() {
        let mut names = Names::default();
        let spans = [("inner", 12, 20), ("outer", 10, 40), ("second", 25, 30), ("later", 50, 60)]
            .map(|(name, start, end)| HostSpan {
                span: Span { start, end },
                name: names.intern(HostCategory::Operator, name),
                thread: 0,
            });
        let timeline = HostTimeline::new(spans.to_vec(), &[]);
        let mut cursors = timeline.cursors();
        let mut seen = Vec::new();
        for (start, end) in [(0, 14), (18, 27), (45, 55)] {
            cursors.walk(0, Span { start, end }, |part, frames| {
                let stack: Vec<_> = frames.iter().map(|f| names.text(f.name)).collect();
                seen.push((part.start, part.end, stack.join(">")));
            });
        }
        let expected = [
            (0, 10, ""),
            (10, 12, "outer"),
            (12, 14, "outer>inner"),
            (18, 20, "outer>inner"),
            (20, 25, "outer"),
            (25, 27, "outer>second"),
            (45, 50, ""),
            (50, 55, "later"),
        ];
        assert_eq!(seen, expected.map(|(start, end, stack)| (start, end, stack.to_owned())));
    }
}
