//! The run record, and the pages and texts made from it.
