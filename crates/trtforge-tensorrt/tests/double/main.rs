//! The builder and the runtime through the test double: right results, every error path, drop order, nothing leaked.
//!
//! scripts/sanitize runs this program under AddressSanitizer and Valgrind.

mod building;
#[path = "../common/mod.rs"]
mod common;
mod conformance;
mod ending;
mod engines;
mod failing;
mod proof;
mod support;
