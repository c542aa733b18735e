//! A value on its interval, and a bar.

use maud::Markup;
use plotters::prelude::{Circle, Color, PathElement, RGBColor, Rectangle};

use super::super::plot::{ACCENT, BAD, Drawn, Frame, GOOD, LINE, PAGE, SOFT, UNSURE, WASH, draw};
use crate::words;

/// Units of a strip across. It is shown at half that size, so that whole units are fine enough.
const STRIP: f64 = 400.0;
/// Units of a bar across; shown at a quarter.
const BAR: f64 = 640.0;

/// A range of values mapped to the width of a strip.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Scale {
    pub low: f64,
    pub high: f64,
}

impl Scale {
    /// A range that shows every finite value with some room; none when there is no finite value.
    pub fn around(values: impl Iterator<Item = f64>) -> Option<Self> {
        let (low, high) = values
            .filter(|value| value.is_finite())
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| {
                (low.min(value), high.max(value))
            });
        if low > high {
            return None;
        }
        // A run whose values all agree still needs a width to draw on.
        let room = ((high - low) * 0.08).max(0.000_5);
        Some(Self { low: low - room, high: high + room })
    }

    fn x(self, value: f64) -> i32 {
        ((value - self.low) / (self.high - self.low) * STRIP).clamp(0.0, STRIP).round() as i32
    }
}

/// A line across a strip.
#[derive(Debug, Clone, Copy)]
pub enum Mark {
    /// What the value is compared with.
    Baseline(f64),
    /// What the gate allows.
    Limit(f64),
}

/// A value as a dot on its interval; nothing is drawn for what is not finite.
pub fn strip(
    scale: Scale,
    value: f64,
    interval: [f64; 2],
    marks: &[Option<Mark>],
    kind: &str,
) -> Markup {
    let title = format!("{} in an interval of {}", words::figure(value), words::interval(interval));
    let color = match kind {
        "good" => GOOD,
        "bad" => BAD,
        "unsure" => UNSURE,
        "neutral" => SOFT,
        _ => ACCENT,
    };
    draw(Frame::titled("strip", (STRIP as u32, 48), &title), |area| {
        area.draw(&PathElement::new(vec![(0, 24), (STRIP as i32, 24)], LINE))?;
        for mark in marks.iter().flatten() {
            let (value, color) = match *mark {
                Mark::Baseline(value) => (value, SOFT),
                Mark::Limit(value) => (value, BAD),
            };
            if value.is_finite() {
                let x = scale.x(value);
                area.draw(&PathElement::new(vec![(x, 2), (x, 46)], color))?;
            }
        }
        if interval.iter().all(|end| end.is_finite()) {
            let (from, to) = (scale.x(interval[0]), scale.x(interval[1]));
            let corners = [(from, 16), (to.max(from + 2), 32)];
            area.draw(&Rectangle::new(corners, color.mix(0.28).filled()))?;
        }
        if value.is_finite() {
            let place = (scale.x(value), 24);
            area.draw(&Circle::new(place, 11, PAGE.filled()))?;
            area.draw(&Circle::new(place, 9, color.filled()))?;
        }
        Ok(())
    })
}

/// A bar as long as a share of the full width; what is not finite or beyond fills it.
pub fn bar(share: f64, kind: &str) -> Markup {
    let length = if share.is_nan() { 1.0 } else { share.clamp(0.0, 1.0) };
    let color = if kind == "share" { ACCENT } else { UNSURE };
    draw(Frame::beside("cost", (BAR as u32, 48)), |area| {
        let filled = |width: f64, color: RGBColor| -> Drawn {
            area.draw(&Rectangle::new([(0, 8), (width.round() as i32, 40)], color.filled()))
        };
        filled(BAR, WASH)?;
        if length > 0.0 { filled((length * BAR).max(4.0), color) } else { Ok(()) }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scale_ignores_what_is_not_finite() {
        let scale = Scale::around([f64::NAN, 0.0, f64::INFINITY, 1.0].into_iter()).unwrap();
        assert!((scale.low + 0.08).abs() < 1e-12 && (scale.high - 1.08).abs() < 1e-12, "{scale:?}");
        assert_eq!(Scale::around([f64::NAN].into_iter()), None);
    }

    #[test]
    fn equal_values_still_have_a_width() {
        // By hand: 0.5 ± 0.0005, so the value lies in the middle of the 400 units.
        let scale = Scale::around([0.5, 0.5].into_iter()).unwrap();
        assert_eq!(scale.x(0.5), 200);
    }

    #[test]
    fn a_strip_shows_value_interval_and_marks() {
        // By hand: from 0 to 1 on 400 units, 0.25 lies at 100, the interval from 40 to 160, the limit at 360.
        let scale = Scale { low: 0.0, high: 1.0 };
        let svg = strip(scale, 0.25, [0.1, 0.4], &[Some(Mark::Limit(0.9))], "good").into_string();
        assert!(svg.contains(r##"cx="100" cy="24" r="9" fill="#23704A""##), "{svg}");
        assert!(svg.contains(r#"x="40" y="16" width="120" height="16" opacity="0.28""#), "{svg}");
        assert!(svg.contains(r#"points="360,2 360,46""#), "{svg}");
        let nothing = strip(scale, f64::NAN, [f64::NEG_INFINITY, f64::INFINITY], &[], "good");
        assert!(!nothing.into_string().contains("circle"));
    }

    #[test]
    fn bars_are_as_long_as_their_share() {
        assert!(bar(0.25, "cost").into_string().contains(r#"width="160""#));
        assert_eq!(bar(0.0, "cost").into_string().matches("<rect").count(), 1);
        for full in [1.0, 7.0, f64::INFINITY, f64::NAN] {
            assert_eq!(bar(full, "cost").into_string().matches(r#"width="640""#).count(), 2);
        }
    }
}
