//! Placing Q/DQ: one pair per activation, one INT8 initializer per weight, whatever number of nodes reads them.

use std::collections::BTreeMap;

use bytes::Bytes;
use half::f16;
use trtforge_onnx::ElementType;
use trtforge_onnx::build::attr_int;

use crate::decision::ScaleSlot;
use crate::rewrite::{Float, Rewriter};
use crate::weight::Int8Weight;

/// The scale of an activation's pair, and the calibrated tensor that it follows from.
#[derive(Clone, Copy)]
pub(crate) struct PairScale<'a> {
    /// As the graph stores it.
    pub stored: f32,
    /// The name in the calibration, and what its scale was multiplied by; none for a fixed scale.
    pub from: Option<(&'a str, f32)>,
}

/// Adds quantized tensors to a rewriter and remembers them, so that readers share.
#[derive(Default)]
pub(crate) struct Placement {
    /// Where the scales of activations are stored.
    pub scales: Vec<ScaleSlot>,
    /// The INT8 form of an activation or a weight, by what it is made from.
    quantized: BTreeMap<String, String>,
    /// Its dequantized form in a precision.
    dequantized: BTreeMap<(String, Float), String>,
}

impl Placement {
    /// The activation after Q/DQ with one scale, in the reader's precision.
    ///
    /// - `quantize_in`: the precision of QuantizeLinear's input; FP32 when FP16 cannot hold the scale or the values.
    pub fn activation(
        &mut self,
        rewriter: &mut Rewriter,
        tensor: &str,
        scale: PairScale,
        quantize_in: Float,
        reader: Float,
    ) -> String {
        let value = |rewriter: &mut Rewriter| rewriter.value(tensor, quantize_in);
        self.activation_from(rewriter, tensor, scale, (quantize_in, reader), value)
    }

    /// The same for a tensor that the model as given does not have: `source` makes it, once.
    pub fn activation_from(
        &mut self,
        rewriter: &mut Rewriter,
        tensor: &str,
        scale: PairScale,
        (quantize_in, reader): (Float, Float),
        source: impl FnOnce(&mut Rewriter) -> String,
    ) -> String {
        let quantized = if let Some(name) = self.quantized.get(tensor) {
            name.clone()
        } else {
            let source = source(rewriter);
            let stored = [scale.stored];
            let parameters = Parameters::add(rewriter, tensor, &stored, vec![], quantize_in);
            self.note(scale, &parameters);
            let name = rewriter.patch.unique_name(&format!("{tensor}_quantized"));
            let inputs = [source.as_str(), &parameters.scale, &parameters.zero_point];
            rewriter.add_node("QuantizeLinear", tensor, &inputs, &name, vec![]);
            self.quantized.insert(tensor.to_owned(), name.clone());
            name
        };
        let scales = (&[scale.stored][..], None);
        self.dequantize(rewriter, tensor, tensor, &quantized, scales, Some(scale), reader)
    }

    fn note(&mut self, scale: PairScale, parameters: &Parameters) {
        if let Some((tensor, factor)) = scale.from {
            let (constant, tensor) = (parameters.scale.clone(), tensor.to_owned());
            self.scales.push(ScaleSlot { constant, tensor, factor });
        }
    }

    /// The weight as an INT8 initializer with a DequantizeLinear along its channels, in the reader's precision.
    ///
    /// - `key`: what tells apart the forms one weight may take (transposed or not, axis).
    pub fn weight(
        &mut self,
        rewriter: &mut Rewriter,
        name: &str,
        key: &str,
        weight: &Int8Weight,
        reader: Float,
    ) -> String {
        let quantized = if let Some(name) = self.quantized.get(key) {
            name.clone()
        } else {
            let place = rewriter.patch.unique_name(&format!("{name}_quantized"));
            let dims = vec![weight.rows as i64, weight.columns as i64];
            let values = weight.values.clone();
            rewriter.patch.add_initializer(&place, ElementType::I8, dims, values);
            self.quantized.insert(key.to_owned(), place.clone());
            place
        };
        let scales = (weight.scales.as_slice(), Some(weight.channel_axis));
        self.dequantize(rewriter, name, key, &quantized, scales, None, reader)
    }

    #[expect(clippy::too_many_arguments, reason = "one caller for weights, one for activations")]
    fn dequantize(
        &mut self,
        rewriter: &mut Rewriter,
        about: &str,
        key: &str,
        quantized: &str,
        (scales, axis): (&[f32], Option<usize>),
        activation: Option<PairScale>,
        reader: Float,
    ) -> String {
        let slot = (key.to_owned(), reader);
        if let Some(name) = self.dequantized.get(&slot) {
            return name.clone();
        }
        let dims = axis.map_or(vec![], |_| vec![scales.len() as i64]);
        let parameters = Parameters::add(rewriter, about, scales, dims, reader);
        if let Some(scale) = activation {
            self.note(scale, &parameters);
        }
        let name = rewriter.patch.unique_name(&format!("{about}_dequantized"));
        let inputs = [quantized, &parameters.scale, &parameters.zero_point];
        let attributes = axis.map(|axis| attr_int("axis", axis as i64)).into_iter().collect();
        rewriter.add_node("DequantizeLinear", about, &inputs, &name, attributes);
        self.dequantized.insert(slot, name.clone());
        name
    }
}

/// Initializers that a QuantizeLinear or DequantizeLinear reads besides its data.
struct Parameters {
    scale: String,
    zero_point: String,
}

impl Parameters {
    /// The zero point is always written: without one, ONNX takes the type for UINT8.
    fn add(
        rewriter: &mut Rewriter,
        about: &str,
        scales: &[f32],
        dims: Vec<i64>,
        float: Float,
    ) -> Self {
        let bytes: Vec<u8> = match float {
            Float::Half => scales.iter().flat_map(|&s| f16::from_f32(s).to_le_bytes()).collect(),
            Float::Single => scales.iter().flat_map(|s| s.to_le_bytes()).collect(),
        };
        let scale = rewriter.patch.unique_name(&format!("{about}_scale"));
        let zero_point = rewriter.patch.unique_name(&format!("{about}_zero_point"));
        let zeros = Bytes::from(vec![0u8; scales.len()]);
        rewriter.patch.add_initializer(&scale, float.element_type(), dims.clone(), bytes);
        rewriter.patch.add_initializer(&zero_point, ElementType::I8, dims, zeros);
        Self { scale, zero_point }
    }
}
