//! Task metrics, paired statistics, the accuracy gate and its verdict.
