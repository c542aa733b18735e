//! Running a model: the Executor trait and the embedded CPU executor.
