//! Smooths a model by recorded channel ranges: `smooth MODEL CHANNELS.json STRENGTH OUT`.
//!
//! `CHANNELS.json` maps tensor names to the largest magnitude of each channel, as `ChannelRanges` serializes.

use std::collections::BTreeMap;
use std::error::Error;
use std::path::Path;

use trtforge_onnx::Model;
use trtforge_quantize::{Policy, smooth, smoothable};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [model, channels, strength, out] = arguments.as_slice() else {
        return Err("usage: smooth MODEL CHANNELS.json STRENGTH OUT".into());
    };
    let model = Model::open(Path::new(model))?;
    for target in smoothable(&model, &Policy::default())? {
        println!("{} of {} channels", target.tensor, target.channels);
    }
    let channels: BTreeMap<String, Vec<f32>> = serde_json::from_slice(&std::fs::read(channels)?)?;
    let smoothed = smooth(&model, &channels, strength.parse()?, &Policy::default())?;
    for decision in &smoothed.decisions {
        println!("{}: {:?}: {}", decision.tensor, decision.action, decision.reason);
    }
    smoothed.model.save(Path::new(out))?;
    Ok(())
}
