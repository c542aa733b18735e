//! `trtforge init`: a commented profile from a model and its data.

use std::path::Path;

use serde_json::json;

use super::print;
use crate::cli::InitArgs;
use crate::error::PipelineError;
use crate::init::{Draft, InitError};
use crate::profile::Profile;
use crate::progress;
use crate::store::{refuse_overwriting, write_atomic};

/// Writes the profile and says what a person has to settle.
pub fn init(args: &InitArgs) -> Result<(), PipelineError> {
    let output = &args.output;
    if output.exists() && !args.force {
        return Err(InitError::Exists { path: output.display().to_string() }.into());
    }
    let inputs = args.data.iter().chain([&args.model]).chain(&args.tokenizer);
    refuse_overwriting(inputs.map(AsRef::as_ref), output)?;
    let draft = Draft::of(&args.model, args.tokenizer.as_deref(), &args.data)?;
    let folder = output.parent().unwrap_or(Path::new(""));
    super::writable(output)?;
    write_atomic(output, draft.profile(folder).as_bytes())?;
    // What was just written is what every other command reads; a FIFO cannot be read again.
    if output.is_file() {
        Profile::read(output, &[])?;
    }
    for todo in &draft.todo {
        progress::say(&format!("TODO: {todo}"));
    }
    let value = json!({
        "profile": output.display().to_string(),
        "task": draft.kind.name(),
        "labels": draft.labels,
        "max_length": draft.max_length,
        "todo": draft.todo,
    });
    let text = format!(
        "{}: {}, max_length {}, {} left to settle\n",
        output.display(),
        draft.kind.name(),
        draft.max_length,
        draft.todo.len()
    );
    Ok(print(args.json, &value, &text)?)
}
