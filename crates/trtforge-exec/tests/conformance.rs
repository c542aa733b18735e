//! The embedded executor passes the common suite, without exceptions, however it is loaded.

use trtforge_exec::{EmbeddedExecutor, EmbeddedOptions, conformance};

fn run_suite(options: &EmbeddedOptions) {
    for check in conformance::checks() {
        let keep = check.keep.iter().map(ToString::to_string).collect();
        let options = EmbeddedOptions { keep, ..options.clone() };
        let executor = EmbeddedExecutor::from_model(&check.model().unwrap(), options).unwrap();
        check.run(&executor).unwrap();
    }
}

#[test]
fn with_default_options() {
    run_suite(&EmbeddedOptions::default());
}

#[test]
fn with_prepacked_weights_on_one_thread() {
    run_suite(&EmbeddedOptions { threads: Some(1), prepack: true, ..EmbeddedOptions::default() });
}
