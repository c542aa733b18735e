//! `trtforge`: from an ONNX BERT to judged FP16 and INT8 TensorRT engines.

mod answers;
mod backend;
mod canonical;
mod checked;
mod cli;
mod commands;
mod doctor;
mod error;
mod gpu_check;
mod init;
mod inputs;
mod interrupt;
mod label_order;
mod pipeline;
mod profile;
mod progress;
mod readout;
mod record;
mod requests;
mod row_texts;
mod rows;
mod run_folder;
mod scheduler;
mod score;
mod stages;
mod store;

use std::process::ExitCode;

use crate::error::BAD_INPUT;

/// Activations of a forward pass are large, short-lived and the same every time.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let cli = match cli::parse() {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version are answers, anything else is bad input.
            let code = if error.use_stderr() { BAD_INPUT } else { 0 };
            return if error.print().is_ok() {
                ExitCode::from(code)
            } else {
                ExitCode::from(BAD_INPUT)
            };
        }
    };
    let run = || {
        progress::begin(&cli.messages)?;
        commands::run(cli.command)
    };
    match run() {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            let code = error.exit_code();
            progress::say(&format!("{:?}", miette::Report::new(error)));
            ExitCode::from(code)
        }
    }
}
