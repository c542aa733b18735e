//! Rows by length, with the buckets that the shape profiles of an engine make of them.

use maud::Markup;
use plotters::prelude::{ChartBuilder, Color, PathElement, Rectangle, Text};
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::super::plot::{ACCENT, BAD, Frame, LINE, SOFT, draw, label};
use super::{CHART_TEXT, CHART_WIDTH};
use crate::{LengthBin, words};

/// Units down.
const HEIGHT: u32 = 210;
/// A bucket narrower than this share of the chart has room for its number alone.
const ROOMY: f64 = 0.2;

/// One shape profile as the lengths see it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bucket {
    /// Longest row it takes, in tokens.
    pub end: u64,
    /// Share of its tokens that are padding.
    pub padding: Option<f64>,
}

/// Rows by length, with a line where each shape profile ends.
///
/// - `buckets`: by length; their numbers are those of the table of profiles.
pub fn lengths(bins: &[LengthBin], buckets: &[Bucket]) -> Markup {
    let longest = bins.iter().map(|bin| bin.to).chain(buckets.iter().map(|bucket| bucket.end));
    let last = longest.max().unwrap_or(0) as f64 + 1.0;
    let top = bins.iter().map(|bin| bin.count).max().unwrap_or(0).max(1) as f64;
    let frame = Frame {
        class: "chart",
        size: (CHART_WIDTH, HEIGHT),
        title: Some("Rows by their length in tokens"),
        description: Some(&description(bins, buckets)),
    };
    draw(frame, |area| {
        let mut chart = ChartBuilder::on(area)
            .margin_right(12)
            .x_label_area_size(24)
            .y_label_area_size(46)
            .build_cartesian_2d(0.0..last, 0.0..top * 1.18)?;
        chart
            .configure_mesh()
            .disable_x_mesh()
            .light_line_style(LINE.mix(0.0))
            .bold_line_style(LINE)
            .axis_style(SOFT)
            .label_style(label(CHART_TEXT))
            .x_labels(9)
            .y_labels(4)
            .x_label_formatter(&|tokens| format!("{tokens:.0}"))
            .y_label_formatter(&|rows| words::count(*rows as u64))
            .draw()?;
        // A bin of `from..=to` tokens is a column up to where the next one begins, less a gap.
        chart.draw_series(bins.iter().filter(|bin| bin.count > 0).map(|bin| {
            let (from, width) = (bin.from as f64, (bin.to + 1).saturating_sub(bin.from) as f64);
            Rectangle::new(
                [(from, bin.count as f64), (from + width * 0.92, 0.0)],
                ACCENT.mix(0.65).filled(),
            )
        }))?;
        let ends = buckets.iter().map(|bucket| bucket.end as f64 + 1.0);
        chart.draw_series(
            ends.clone().map(|x| PathElement::new(vec![(x, 0.0), (x, top * 1.18)], BAD)),
        )?;
        let starts = std::iter::once(0.0).chain(ends.clone());
        chart.draw_series(starts.zip(ends).zip(buckets).enumerate().map(
            |(index, ((start, end), bucket))| {
                let roomy = (end - start) / last > ROOMY;
                let text = match bucket.padding {
                    Some(share) if roomy => {
                        format!("{}: {} padding", index + 1, words::share(share))
                    }
                    _ => (index + 1).to_string(),
                };
                let style = label(CHART_TEXT).pos(Pos::new(HPos::Center, VPos::Top));
                Text::new(text, (f64::midpoint(start, end), top * 1.17), style)
            },
        ))?;
        Ok(())
    })
}

fn description(bins: &[LengthBin], buckets: &[Bucket]) -> String {
    let Some(fullest) = bins.iter().max_by_key(|bin| bin.count) else {
        return "No rows.".to_owned();
    };
    let mut text = format!(
        "Most rows, {}, have {} to {} tokens.",
        words::count(fullest.count),
        fullest.from,
        fullest.to
    );
    if !buckets.is_empty() {
        let ends: Vec<String> = buckets.iter().map(|bucket| bucket.end.to_string()).collect();
        text.push_str(&format!(" Shape profiles end at {} tokens.", words::list(&ends)));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_and_buckets_stand_where_their_lengths_are() {
        let bin = |from, to, count| LengthBin { from, to, count };
        let bucket = |end, padding| Bucket { end, padding: Some(padding) };
        let svg =
            lengths(&[bin(1, 50, 40), bin(51, 100, 10)], &[bucket(49, 0.125), bucket(99, 0.25)])
                .into_string();
        // By hand: 702 units (760 - 46 - 12) for 101 tokens from 46; the bucket ends at 50: 46 + 50/101 × 702 = 393.5,
        // in whole units 393.
        assert!(svg.contains("points=\"393,"), "{svg}");
        assert!(svg.contains("1: 12.5 % padding") && svg.contains("2: 25.0 % padding"), "{svg}");
        assert!(
            svg.contains(
                "Most rows, 40, have 1 to 50 tokens. Shape profiles end at 49 and 99 tokens."
            ),
            "{svg}"
        );
        assert!(svg.contains(r#"role="img""#), "{svg}");
    }

    #[test]
    fn nothing_to_draw_is_no_error() {
        assert!(lengths(&[], &[]).into_string().contains("No rows."));
    }
}
