//! Which TensorRT builds the engines of a profile.

use std::path::Path;

use trtforge_tensorrt::{Choice, choose as choose_library};

use crate::error::PipelineError;
use crate::profile::EngineSection;
use crate::stages::engine::build_options;

/// Finds the library a profile asks for, or says what is missing. Nothing is looked for when no engine is wanted.
pub fn choose(section: &EngineSection, needs_engine: bool) -> Result<Choice, PipelineError> {
    if !needs_engine {
        return Ok(Choice::None);
    }
    let choice = choose_library(section.backend, None)?;
    if let Choice::Sdk { library, .. } = &choice {
        // An option this SDK cannot apply is refused here, not after an hour of calibration.
        build_options(section, library.sdk(), Path::new("")).check(library.sdk())?;
    }
    Ok(choice)
}
