//! Rewriting a graph to FP16 and to INT8 Q/DQ, with a reason for every tensor.
