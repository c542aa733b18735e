//! The stages: each takes values and its own options, returns a value, and calls no other stage.

pub mod auto;
pub mod benchmark;
pub mod calibrate;
pub mod device;
pub mod engine;
pub mod evaluate;
pub mod exchange;
pub mod fallback;
pub mod judge;
pub mod lengths;
pub mod manifest;
pub mod passes;
pub mod predictions;
pub mod proof;
pub mod publish;
pub mod recorded;
pub mod rewrite;
pub mod runner;
pub mod sample_notes;
pub mod sampling;
pub mod sensitivity;
pub mod service;
pub mod shapes;
pub mod shard;
