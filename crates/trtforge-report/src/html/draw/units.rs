//! What quantizing each unit alone costs, from the first layer to the last.

use maud::Markup;
use plotters::prelude::{ChartBuilder, Color, Rectangle, Text};
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::super::natural::natural;
use super::super::plot::{FULL, Frame, LINE, SOFT, UNSURE, draw, label};
use super::{CHART_TEXT, CHART_WIDTH};
use crate::{UnitCost, words};

/// Units down.
const HEIGHT: u32 = 220;
/// Layers that still have room for a name; more are numbered.
const NAMED: usize = 8;
/// Labels below the chart at most.
const LABELS: usize = 16;

/// One column a unit, as high as its logit shift, in the order of the model.
///
/// - `returned`: nodes that a search gave back to FP16; they have another colour.
pub fn units(costs: &[UnitCost], returned: &[String]) -> Markup {
    let ordered = in_model_order(costs);
    let finite = |unit: &&UnitCost| unit.shift.is_finite();
    let most = costs.iter().filter(finite).map(|unit| unit.shift).fold(0.0, f64::max);
    let top = if most > 0.0 { most * 1.08 } else { 1.0 };
    let frame = Frame {
        class: "chart",
        size: (CHART_WIDTH, HEIGHT),
        title: Some("Logit shift of each part quantized alone, in the order of the model"),
        description: Some(&description(costs)),
    };
    draw(frame, |area| {
        let mut chart = ChartBuilder::on(area)
            .margin_right(12)
            .margin_top(8)
            .x_label_area_size(24)
            .y_label_area_size(54)
            .build_cartesian_2d(0.0..ordered.len().max(1) as f64, 0.0..top)?;
        chart
            .configure_mesh()
            .disable_x_mesh()
            .light_line_style(LINE.mix(0.0))
            .bold_line_style(LINE)
            .axis_style(SOFT)
            .label_style(label(CHART_TEXT))
            .x_labels(0)
            .y_labels(5)
            .y_label_formatter(&|shift| short(*shift))
            .draw()?;
        chart.draw_series(ordered.iter().enumerate().map(|(index, unit)| {
            let x = index as f64;
            // What is not finite reaches the top.
            let height = if unit.shift.is_finite() { unit.shift } else { top };
            let color = if returned.contains(&unit.node) { FULL } else { UNSURE };
            Rectangle::new([(x + 0.08, height), (x + 0.92, 0.0)], color.filled())
        }))?;
        let groups = layers(&ordered);
        let every = groups.len().div_ceil(LABELS).max(1);
        for (name, from, to) in groups.iter().step_by(every) {
            let text = match name {
                Some(layer) if groups.len() <= NAMED => format!("layer {layer}"),
                Some(layer) => layer.to_string(),
                None => "other".to_owned(),
            };
            let middle = chart.backend_coord(&(f64::midpoint(*from, *to), 0.0));
            let style = label(CHART_TEXT).pos(Pos::new(HPos::Center, VPos::Top));
            area.draw(&Text::new(text, (middle.0, HEIGHT as i32 - 20), style))?;
        }
        Ok(())
    })
}

/// At most three digits that say something, so that it fits beside the axis.
fn short(value: f64) -> String {
    if value != 0.0 && !(1e-3..1e4).contains(&value.abs()) {
        return format!("{value:.0e}");
    }
    let digits = if value.abs() < 0.1 { 4 } else { 2 };
    let text = format!("{value:.digits$}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Encoder layers first, each in the order a person counts; what is in no layer last.
fn in_model_order(costs: &[UnitCost]) -> Vec<&UnitCost> {
    let mut ordered: Vec<&UnitCost> = costs.iter().collect();
    ordered.sort_by_cached_key(|unit| {
        (unit.encoder_layer.is_none(), unit.encoder_layer, natural(&unit.node))
    });
    ordered
}

/// Each layer with the columns it takes, from and to.
fn layers(ordered: &[&UnitCost]) -> Vec<(Option<u64>, f64, f64)> {
    let mut groups: Vec<(Option<u64>, f64, f64)> = Vec::new();
    for (index, unit) in ordered.iter().enumerate() {
        let end = index as f64 + 1.0;
        match groups.last_mut() {
            Some(group) if group.0 == unit.encoder_layer => group.2 = end,
            _ => groups.push((unit.encoder_layer, end - 1.0, end)),
        }
    }
    groups
}

fn description(costs: &[UnitCost]) -> String {
    let worst = costs.iter().max_by(|a, b| a.shift.total_cmp(&b.shift));
    worst.map_or_else(
        || "Nothing was measured.".to_owned(),
        |unit| {
            format!(
                "The highest of {} is {} at {}.",
                words::counted(costs.len() as u64, "part"),
                words::figure(unit.shift),
                words::name(&unit.node)
            )
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unit(node: &str, encoder_layer: Option<u64>, shift: f64) -> UnitCost {
        UnitCost { node: node.into(), encoder_layer, shift, ..UnitCost::default() }
    }

    #[test]
    fn columns_come_in_the_order_of_the_model() {
        let costs = [
            unit("head", None, 0.5),
            unit("l10", Some(10), 0.1),
            unit("l2_b10", Some(2), 0.2),
            unit("l2_b9", Some(2), 0.0),
        ];
        let ordered = in_model_order(&costs);
        let names: Vec<&str> = ordered.iter().map(|unit| unit.node.as_str()).collect();
        assert_eq!(names, ["l2_b9", "l2_b10", "l10", "head"]);
        assert_eq!(layers(&ordered), [(Some(2), 0.0, 2.0), (Some(10), 2.0, 3.0), (None, 3.0, 4.0)]);
        let svg = units(&costs, &["l10".to_owned()]).into_string();
        // By hand: 694 units (760 - 54 - 12) for four columns, 0.84 of 173.5 each is 145.7.
        assert_eq!(svg.matches("fill=\"#6A4A9C\"").count(), 1, "{svg}");
        assert!(svg.contains("width=\"146\"") || svg.contains("width=\"145\""), "{svg}");
        assert!(svg.contains("layer 2") && svg.contains("other"), "{svg}");
        assert!(svg.contains("The highest of 4 parts is 0.5000 at head."), "{svg}");
    }

    #[test]
    fn ticks_are_short() {
        let ticks = [0.0, 0.05, 0.2, 0.0125, 1.5, 20.0, 0.0002, 50_000.0].map(short);
        assert_eq!(ticks, ["0", "0.05", "0.2", "0.0125", "1.5", "20", "2e-4", "5e4"]);
    }

    #[test]
    fn nothing_and_no_number_are_no_error() {
        assert!(units(&[], &[]).into_string().contains("Nothing was measured."));
        let svg = units(&[unit("a", None, f64::INFINITY), unit("b", None, f64::NAN)], &[]);
        assert!(svg.into_string().contains("</svg>"));
    }
}
