//! The canvas under every drawing: static SVG by the plotting crate, in the page's own colours.
//!
//! A drawing names its colours by the light theme's values. `page.css` replaces each by its variable, so that one drawing serves light,
//! dark and paper; a colour that the style sheet does not know is caught by a test. Text in a drawing has the page's font.

use maud::{Markup, PreEscaped, html};
use plotters::coord::Shift;
use plotters::prelude::{
    DrawingArea, DrawingAreaErrorKind, IntoDrawingArea, IntoFont, RGBColor, SVGBackend, TextStyle,
};

/// What is drawn on.
pub type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
/// The plotting crate's own error; writing into a string gives none.
pub type Drawn = Result<(), DrawingAreaErrorKind<std::io::Error>>;

/// Figures, and the INT8 parts.
pub const ACCENT: RGBColor = RGBColor(0x2c, 0x5f, 0x94);
/// Text and axes.
pub const SOFT: RGBColor = RGBColor(0x5a, 0x60, 0x69);
/// Grid lines.
pub const LINE: RGBColor = RGBColor(0xe4, 0xe1, 0xda);
/// Behind a bar.
pub const WASH: RGBColor = RGBColor(0xf0, 0xee, 0xe9);
/// The page itself.
pub const PAGE: RGBColor = RGBColor(0xfa, 0xf9, 0xf6);
/// Accepted.
pub const GOOD: RGBColor = RGBColor(0x23, 0x70, 0x4a);
/// A limit, and what is beyond it. Lines of this colour are dashed.
pub const BAD: RGBColor = RGBColor(0xa8, 0x32, 0x2b);
/// Open.
pub const UNSURE: RGBColor = RGBColor(0x85, 0x58, 0x00);
/// Kept in full precision.
pub const FULL: RGBColor = RGBColor(0x6a, 0x4a, 0x9c);

/// How a drawing stands in the page.
#[derive(Debug, Clone, Copy)]
pub struct Frame<'a> {
    /// Class of its root, which `page.css` gives its size.
    pub class: &'a str,
    /// Units across and down.
    pub size: (u32, u32),
    /// Its name for who cannot see it; none where a table beside it says the same.
    pub title: Option<&'a str>,
    /// What it shows, in a sentence.
    pub description: Option<&'a str>,
}

impl<'a> Frame<'a> {
    /// A drawing whose figures stand beside it.
    pub fn beside(class: &'a str, size: (u32, u32)) -> Self {
        Self { class, size, title: None, description: None }
    }

    /// A drawing with a name.
    pub fn titled(class: &'a str, size: (u32, u32), title: &'a str) -> Self {
        Self { class, size, title: Some(title), description: None }
    }
}

/// Draws. A plotting error leaves the drawing as far as it came: every figure is also in a table.
pub fn draw(frame: Frame<'_>, paint: impl FnOnce(&Area<'_>) -> Drawn) -> Markup {
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, frame.size).into_drawing_area();
        let _ = paint(&area).and_then(|()| area.present());
    }
    let body = svg.split_once('>').map_or("", |(_, body)| body);
    let body = compact(body.rsplit_once("</svg>").map_or(body, |(body, _)| body));
    let view = format!("0 0 {} {}", frame.size.0, frame.size.1);
    html! {
        svg.plot.(frame.class) viewBox=(view) role=[frame.title.map(|_| "img")] aria-hidden=[frame.title.is_none().then_some("true")] {
            @if let Some(title) = frame.title { title { (title) } }
            @if let Some(text) = frame.description { desc { (text) } }
            (PreEscaped(body))
        }
    }
}

/// Leaves out what says nothing: a page may hold a thousand drawings.
fn compact(body: &str) -> String {
    const DEFAULTS: [&str; 4] = [
        " opacity=\"1\"",
        " stroke=\"none\"",
        " stroke-width=\"1\"",
        " font-family=\"sans-serif\"",
    ];
    let mut text: String = body.lines().collect();
    for nothing in DEFAULTS {
        text = text.replace(nothing, "");
    }
    text.replace(" \"", "\"")
}

/// The style of a drawing's text.
pub fn label<'a>(size: u32) -> TextStyle<'a> {
    // The crate writes 1 / 1.24 of what it is told.
    ("sans-serif", f64::from(size) * 1.24).into_font().color(&SOFT)
}

#[cfg(test)]
mod tests {
    use plotters::prelude::{PathElement, Text};

    use super::*;

    #[test]
    fn every_colour_is_known_to_the_style_sheet() {
        let style = include_str!("page.css");
        for RGBColor(red, green, blue) in [ACCENT, SOFT, LINE, WASH, PAGE, GOOD, BAD, UNSURE, FULL]
        {
            let written = format!("=\"#{red:02X}{green:02X}{blue:02X}\"");
            let light = format!("#{red:02x}{green:02x}{blue:02x};");
            assert!(style.contains(&written), "{written} has no variable");
            assert!(style.contains(&light), "{light} is not of the light theme");
        }
    }

    #[test]
    fn a_drawing_is_named_escaped_and_fetches_nothing() {
        let frame = Frame::titled("strip", (40, 20), "a < b");
        let svg = draw(frame, |area| {
            area.draw(&PathElement::new(vec![(0, 0), (40, 20)], BAD))?;
            area.draw(&Text::new("<script>", (3, 4), label(10)))
        })
        .into_string();
        assert!(
            svg.starts_with(
                r#"<svg class="plot strip" viewBox="0 0 40 20" role="img"><title>a &lt; b</title>"#
            ),
            "{svg}"
        );
        assert!(svg.contains(r##"stroke="#A8322B" points="0,0 40,20"/>"##), "{svg}");
        assert!(svg.contains("&lt;script&gt;") && !svg.contains("xmlns"), "{svg}");
        assert!(svg.ends_with("</svg>"), "{svg}");
    }
}
