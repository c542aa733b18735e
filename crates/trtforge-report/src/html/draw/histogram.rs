//! A tensor's magnitudes with the threshold that cuts them.

use maud::Markup;
use plotters::prelude::{Color, PathElement, Polygon};

use super::super::plot::{ACCENT, BAD, Frame, draw};
use crate::HistogramSketch;

/// Columns of a drawn histogram.
const COLUMNS: usize = 40;
/// Units across and down: as it is shown, four units a column.
const SIZE: (u32, u32) = (160, 32);
/// Height of the fullest column.
const FULLEST: f64 = 30.0;

/// A tensor's magnitudes on a logarithmic count axis, the threshold as a line; what saturates lies right of it.
pub fn histogram(sketch: &HistogramSketch, threshold: f32) -> Markup {
    let merged = HistogramSketch::from_fine(sketch.width, &sketch.counts, COLUMNS);
    let span = merged.width * merged.counts.len() as f64;
    let (width, floor) = (f64::from(SIZE.0), SIZE.1 as i32);
    let column = width / merged.counts.len().max(1) as f64;
    let top =
        merged.counts.iter().max().map_or(0.0, |&count| log_count(count)).max(f64::MIN_POSITIVE);
    // One outline, not a shape per column: a page may hold a thousand of these.
    let mut outline = vec![(0, floor)];
    for (index, &count) in merged.counts.iter().enumerate() {
        let height = if count == 0 { 0.0 } else { (log_count(count) / top * FULLEST).max(1.0) };
        let y = floor - height.round() as i32;
        let x = |index: usize| (index as f64 * column).round() as i32;
        // Equal neighbours are one step.
        if outline.last().is_some_and(|&(_, before)| before == y) && index > 0 {
            outline.pop();
        } else {
            outline.push((x(index), y));
        }
        outline.push((x(index + 1), y));
    }
    outline.push((SIZE.0 as i32, floor));
    let threshold = f64::from(threshold);
    let cut = (span.is_finite() && span > 0.0 && threshold.is_finite())
        .then(|| (threshold / span * width).clamp(0.0, width).round() as i32);
    // Its figures stand in the same row; a screen reader need not hear them twice.
    draw(Frame::beside("histogram", SIZE), |area| {
        area.draw(&Polygon::new(outline, ACCENT.mix(0.65)))?;
        match cut {
            Some(x) => area.draw(&PathElement::new(vec![(x, 0), (x, floor)], BAD)),
            None => Ok(()),
        }
    })
}

fn log_count(count: u64) -> f64 {
    (count as f64 + 1.0).ln()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_histogram_draws_a_column_per_used_bin_and_the_threshold() {
        // By hand: four columns of 160 / 4 = 40 units, the full ones 30 high; threshold 2 of a span of 4 lies at 80.
        let sketch = HistogramSketch { width: 1.0, counts: vec![7, 0, 0, 7] };
        let svg = histogram(&sketch, 2.0).into_string();
        let outline = "0,32 0,2 40,2 40,32 120,32 120,2 160,2 160,32";
        assert!(svg.contains(&format!("points=\"{outline}\"")), "{svg}");
        assert!(svg.contains(r#"points="80,0 80,32""#), "{svg}");
    }

    #[test]
    fn nothing_to_draw_is_no_error() {
        let svg = histogram(&HistogramSketch::default(), f32::NAN).into_string();
        assert!(svg.contains("<svg") && !svg.contains("polyline"), "{svg}");
    }
}
