//! `trtforge calibrate merge`.

use serde_json::json;
use trtforge_calibrate::{Content, Part, merge_parts};

use super::super::{print, writable};
use crate::cli::MergeArgs;
use crate::error::PipelineError;
use crate::progress::Progress;
use crate::stages::calibrate::table_of;
use crate::store::refuse_overwriting;

/// Puts the parts of all shards together.
pub fn merge(args: &MergeArgs) -> Result<(), PipelineError> {
    refuse_overwriting(args.parts.iter().map(AsRef::as_ref), &args.output)?;
    writable(&args.output)?;
    let whole = merge_parts(&args.parts)?;
    warn_of_processors(&whole, Progress::new(args.quiet));
    let samples = whole.recipe.options.samples;
    let (holds, tensors) = match whole.content {
        Content::Channels(ref ranges) => {
            let tensors = ranges.absmax().len();
            whole.save(&args.output)?;
            ("channels", tensors)
        }
        Content::Activations { observer, channels } => {
            let table = table_of(whole.recipe, &observer, channels)?;
            table.save(&args.output)?;
            ("table", table.tensors.len())
        }
    };
    let value = json!({
        "holds": holds,
        "parts": args.parts.len(),
        "rows": samples,
        "tensors": tensors,
    });
    let next = if holds == "channels" {
        "\nnext: run every shard again with --channels on this file, and merge those parts"
    } else {
        ""
    };
    let what = if holds == "channels" { "channel ranges of" } else { "the table of" };
    let text = format!(
        "{what} {tensors} tensors, {samples} rows, {} parts: {}{next}\n",
        args.parts.len(),
        args.output.display()
    );
    if args.json || !args.quiet {
        print(args.json, &value, &text)?;
    }
    Ok(())
}

/// The merge is exact, and activations are those of the machine that computed them.
fn warn_of_processors(whole: &Part, progress: Progress) {
    if whole.processor.contains(';') {
        progress.say(&format!(
            "warning: the parts were computed with different instruction sets ({}), whose sums round differently: the result may differ from one machine's in the last bits",
            whole.processor
        ));
    }
}
