//! The C++ shim over TensorRT and its cxx bridge.
