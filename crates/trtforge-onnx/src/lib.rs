//! Reading, checking, rewriting and writing ONNX models with memory-mapped weights.
