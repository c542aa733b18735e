//! One suite for every executor.
