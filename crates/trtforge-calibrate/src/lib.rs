//! Mergeable activation histograms, threshold methods and the calibration table.
