//! The drawings of the page. Small ones stand in a table and have no text; charts have axes, a name and a description.

mod frontiers;
mod histogram;
mod lengths;
mod strip;
mod timeline;
mod units;

pub use frontiers::frontiers;
pub use histogram::histogram;
pub use lengths::{Bucket, lengths};
pub use strip::{Mark, Scale, bar, strip};
pub use timeline::{STAGES, timeline};
pub use units::units;

/// Units of a chart across; `page.css` sizes its text for wide and narrow pages.
const CHART_WIDTH: u32 = 760;
/// Size of a chart's text, in its units.
const CHART_TEXT: u32 = 13;
