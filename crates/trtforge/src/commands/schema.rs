//! `trtforge schema`: what editors and pipelines check files against.

use super::print;
use crate::cli::{SchemaArgs, SchemaOf};
use crate::error::PipelineError;
use crate::profile::profile_schema;

/// Prints a JSON Schema.
pub fn schema(args: &SchemaArgs) -> Result<(), PipelineError> {
    let schema = match args.of {
        SchemaOf::Profile => profile_schema(),
        SchemaOf::Run => trtforge_report::run_schema(),
    };
    Ok(print(true, &schema, "")?)
}
