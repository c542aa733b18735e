//! Unions of half-open spans `[start, end)`, in nanoseconds.

/// A half-open span of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span {
    /// First nanosecond.
    pub start: i64,
    /// One past the last; never before `start`.
    pub end: i64,
}

impl Span {
    /// Nanoseconds.
    pub const fn length(self) -> i64 {
        self.end - self.start
    }

    /// Whether any of `other` lies in it; an empty one inside counts.
    pub const fn touches(self, other: Span) -> bool {
        let empty = other.start == other.end && other.start == self.end;
        (other.start < self.end || empty) && (other.end > self.start || other.start == self.start)
    }

    /// What of it lies in `window`; nothing when they only touch.
    pub fn clip(self, window: Span) -> Option<Span> {
        let clipped = Span { start: self.start.max(window.start), end: self.end.min(window.end) };
        (clipped.start < clipped.end).then_some(clipped)
    }
}

/// The union of `spans` as disjoint spans in ascending order; touching ones are one.
pub fn union(mut spans: Vec<Span>) -> Vec<Span> {
    // Traces are mostly in order already, where this sort is linear.
    spans.sort();
    let mut merged: Vec<Span> = Vec::new();
    for span in spans.into_iter().filter(|span| span.end > span.start) {
        match merged.last_mut() {
            Some(last) if span.start <= last.end => last.end = last.end.max(span.end),
            _ => merged.push(span),
        }
    }
    merged
}

/// Total length of disjoint spans.
pub fn length(spans: &[Span]) -> i64 {
    spans.iter().map(|span| span.length()).sum()
}

/// Length of the union of half-open spans `(start, end)`, whatever their order and overlap; spans that end before they start are empty.
///
/// Exact for integers; the unit is the caller's.
pub fn union_length(spans: impl IntoIterator<Item = (i64, i64)>) -> i64 {
    length(&union(spans.into_iter().map(|(start, end)| Span { start, end }).collect()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn unions_by_hand() {
        let cases: [(&[(i64, i64)], i64); 8] = [
            (&[], 0),
            (&[(3, 3)], 0),
            (&[(5, 2)], 0),
            (&[(0, 10)], 10),
            (&[(0, 10), (10, 20)], 20),
            (&[(0, 10), (2, 4), (3, 12)], 12),
            (&[(20, 30), (0, 10)], 20),
            (&[(-5, -1), (-2, 3), (7, 8)], 9),
        ];
        for (spans, expected) in cases {
            assert_eq!(union_length(spans.iter().copied()), expected, "{spans:?}");
        }
    }

    #[test]
    fn touching_spans_are_not_an_overlap() {
        let window = Span { start: 0, end: 10 };
        assert_eq!(Span { start: 10, end: 12 }.clip(window), None);
        assert_eq!(Span { start: 9, end: 12 }.clip(window), Some(Span { start: 9, end: 10 }));
    }

    proptest! {
        /// Against counting covered cells one by one, and free of the order of the spans.
        #[test]
        fn union_is_the_number_of_covered_cells(
            spans in prop::collection::vec((0_i64..200, 0_i64..40), 0..40),
            turn in 0_usize..40,
        ) {
            let spans: Vec<(i64, i64)> = spans.into_iter().map(|(s, n)| (s, s + n)).collect();
            let cells = (0..240).filter(|t| spans.iter().any(|(s, e)| s <= t && t < e)).count() as i64;
            let length = union_length(spans.iter().copied());
            prop_assert_eq!(length, cells);
            let mut turned = spans.clone();
            turned.reverse();
            if !turned.is_empty() {
                let by = turn % turned.len();
                turned.rotate_left(by);
            }
            prop_assert_eq!(union_length(turned), length);
            let lengths = spans.iter().map(|(s, e)| e - s);
            prop_assert!(length <= lengths.clone().sum());
            prop_assert!(length >= lengths.max().unwrap_or(0));
        }
    }
}
