//! Building TensorRT engines, and finding what is installed.
