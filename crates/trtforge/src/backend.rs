//! Which TensorRT builds the engines of a profile.

use std::path::Path;

use trtforge_tensorrt::{Choice, Sdk, choose as choose_library};

use crate::error::PipelineError;
use crate::profile::EngineSection;
use crate::progress::say;
use crate::stages::engine::{build_options, unused_wish};

/// Finds the library a profile asks for, or says what is missing. Nothing is looked for when no engine is wanted.
pub fn choose(section: &EngineSection, needs_engine: bool) -> Result<Choice, PipelineError> {
    if !needs_engine {
        return Ok(Choice::None);
    }
    build_options(section, Sdk::TensorRt, Path::new("")).check_values()?;
    let choice = choose_library(section.backend, None)?;
    if let Choice::Sdk { library, .. } = &choice {
        // An option this SDK cannot apply is refused here, not after an hour of calibration.
        build_options(section, library.sdk(), Path::new("")).check_here(library.sdk())?;
        if let Some(wish) = unused_wish(section, library.sdk()) {
            say(&format!("note: {wish}"));
        }
    }
    Ok(choice)
}
