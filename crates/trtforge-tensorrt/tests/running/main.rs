//! Engines run through the test double: the right profile, exact conversions, no allocation once staged, and a clear error for
//! every call that can fail. What it plays back stands in each test; no figure here comes from a GPU.

mod failures;
mod staging;
mod support;
mod values;
