//! Writing a model as a stream: weights go from the mapped file to the new one without being gathered in memory.

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use prost::Message;
use prost::encoding::{WireType, encode_key, encode_varint};

use crate::error::OnnxError;
use crate::proto::tensor_proto::DataLocation;
use crate::proto::{
    AttributeProto, GraphProto, ModelProto, NodeProto, StringStringEntryProto, TensorProto,
};
use crate::tensor::Tensor;
use crate::walk::for_each_initializer;

/// Messages below this size are encoded in one go; above, their large children are streamed one by one.
const STREAM_ABOVE: usize = 64 * 1024;
/// Smaller tensors (shapes, scales) stay in the model file even when the weights leave it.
const EXTERNAL_FROM: usize = 1024;
/// Page-aligned weights can be mapped by every runtime.
const EXTERNAL_ALIGN: u64 = 4096;
/// What a protobuf message may hold.
const PROTOBUF_LIMIT: u64 = i32::MAX as u64;

/// How to write a model.
#[derive(Clone, Copy, Debug)]
pub struct SaveOptions {
    /// Size in bytes of the single file above which the weights move to a data file beside it.
    pub external_above: u64,
}

impl Default for SaveOptions {
    /// Above protobuf's limit of 2 GiB.
    fn default() -> Self {
        Self { external_above: PROTOBUF_LIMIT }
    }
}

/// What was written where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    /// The model file.
    pub path: PathBuf,
    /// Its size in bytes.
    pub bytes: u64,
    /// The data file and its size in bytes, when the weights did not fit.
    pub data: Option<(PathBuf, u64)>,
}

pub(crate) fn save(
    model: &ModelProto,
    path: &Path,
    external_above: u64,
) -> Result<Written, OnnxError> {
    let Some(file_name) = path.file_name() else {
        let fault = io::Error::other("it names no file");
        return Err(OnnxError::io("write", path, fault));
    };
    if model.encoded_len() as u64 <= external_above.min(PROTOBUF_LIMIT) {
        let bytes = replace_file(path, &mut |out| encode(model, out))?;
        return Ok(Written { path: path.to_owned(), bytes, data: None });
    }
    let mut data_name = OsString::from(file_name);
    data_name.push(".data");
    let data_path = path.with_file_name(&data_name);
    let mut shell = model.clone();
    let weights = move_out(&mut shell, &data_name.to_string_lossy())?;
    let size = shell.encoded_len() as u64;
    if size > PROTOBUF_LIMIT {
        return Err(OnnxError::TooLarge { bytes: size, limit: PROTOBUF_LIMIT });
    }
    // The data first: whoever sees the new model file finds its weights.
    let data_bytes = replace_file(&data_path, &mut |out| write_weights(&weights, out))?;
    let bytes = replace_file(path, &mut |out| encode(&shell, out))?;
    Ok(Written { path: path.to_owned(), bytes, data: Some((data_path, data_bytes)) })
}

/// Takes the large initializers out of a model, leaving references to `location`; gives them with their offsets.
fn move_out(model: &mut ModelProto, location: &str) -> Result<Vec<(u64, TensorProto)>, OnnxError> {
    let mut weights = Vec::new();
    let mut end = 0_u64;
    let Some(graph) = &mut model.graph else { return Ok(weights) };
    for_each_initializer(graph, &mut |tensor| {
        let length = tensor.encoded_len();
        if length < EXTERNAL_FROM || !tensor.string_data.is_empty() {
            return Ok(());
        }
        let size = Tensor::from_proto(tensor).bytes().len() as u64;
        let offset = end.next_multiple_of(EXTERNAL_ALIGN);
        end = offset + size;
        let entry = |key: &str, value: String| StringStringEntryProto {
            key: Some(key.to_owned()),
            value: Some(value),
        };
        let reference = TensorProto {
            name: tensor.name.clone(),
            dims: tensor.dims.clone(),
            data_type: tensor.data_type,
            doc_string: tensor.doc_string.clone(),
            metadata_props: tensor.metadata_props.clone(),
            segment: tensor.segment,
            external_data: vec![
                entry("location", location.to_owned()),
                entry("offset", offset.to_string()),
                entry("length", size.to_string()),
            ],
            data_location: Some(DataLocation::External as i32),
            ..TensorProto::default()
        };
        weights.push((offset, std::mem::replace(tensor, reference)));
        Ok(())
    })?;
    Ok(weights)
}

fn write_weights(weights: &[(u64, TensorProto)], out: &mut dyn Write) -> io::Result<()> {
    let mut position = 0_u64;
    for (offset, tensor) in weights {
        let padding = [0_u8; EXTERNAL_ALIGN as usize];
        out.write_all(&padding[..(offset - position) as usize])?;
        let bytes = Tensor::from_proto(tensor).bytes();
        out.write_all(&bytes)?;
        position = offset + bytes.len() as u64;
    }
    Ok(())
}

/// Writes a file so that it appears whole or not at all; gives its size.
fn replace_file(
    path: &Path,
    fill: &mut dyn FnMut(&mut (dyn Write + Send)) -> io::Result<()>,
) -> Result<u64, OnnxError> {
    trtforge_files::write_with(path, fill).map_err(|source| OnnxError::io("write", path, source))
}

/// Writes the encoded model. The bytes are a function of the message alone.
pub(crate) fn encode(model: &ModelProto, out: &mut dyn Write) -> io::Result<()> {
    let light = ModelProto {
        graph: None,
        ir_version: model.ir_version,
        opset_import: model.opset_import.clone(),
        producer_name: model.producer_name.clone(),
        producer_version: model.producer_version.clone(),
        domain: model.domain.clone(),
        model_version: model.model_version,
        doc_string: model.doc_string.clone(),
        metadata_props: model.metadata_props.clone(),
        training_info: model.training_info.clone(),
        functions: model.functions.clone(),
        configuration: model.configuration.clone(),
    };
    out.write_all(&light.encode_to_vec())?;
    model.graph.iter().try_for_each(|graph| child(7, graph, out))
}

/// A message that can be written without holding its encoding.
trait Stream: Message {
    fn stream(&self, out: &mut dyn Write) -> io::Result<()>;
}

/// Writes one message field: key, length, content.
fn child<M: Stream>(tag: u32, message: &M, out: &mut dyn Write) -> io::Result<()> {
    let length = message.encoded_len();
    header(tag, length, out)?;
    if length < STREAM_ABOVE {
        out.write_all(&message.encode_to_vec())
    } else {
        message.stream(out)
    }
}

fn header(tag: u32, length: usize, out: &mut dyn Write) -> io::Result<()> {
    let mut bytes = Vec::with_capacity(16);
    encode_key(tag, WireType::LengthDelimited, &mut bytes);
    encode_varint(length as u64, &mut bytes);
    out.write_all(&bytes)
}

impl Stream for GraphProto {
    fn stream(&self, out: &mut dyn Write) -> io::Result<()> {
        let light = Self {
            node: Vec::new(),
            initializer: Vec::new(),
            name: self.name.clone(),
            sparse_initializer: self.sparse_initializer.clone(),
            doc_string: self.doc_string.clone(),
            input: self.input.clone(),
            output: self.output.clone(),
            value_info: self.value_info.clone(),
            quantization_annotation: self.quantization_annotation.clone(),
            metadata_props: self.metadata_props.clone(),
        };
        self.node.iter().try_for_each(|node| child(1, node, out))?;
        out.write_all(&light.encode_to_vec())?;
        self.initializer.iter().try_for_each(|tensor| child(5, tensor, out))
    }
}

impl Stream for NodeProto {
    fn stream(&self, out: &mut dyn Write) -> io::Result<()> {
        let light = Self {
            attribute: Vec::new(),
            input: self.input.clone(),
            output: self.output.clone(),
            name: self.name.clone(),
            op_type: self.op_type.clone(),
            domain: self.domain.clone(),
            overload: self.overload.clone(),
            doc_string: self.doc_string.clone(),
            metadata_props: self.metadata_props.clone(),
            device_configurations: self.device_configurations.clone(),
        };
        out.write_all(&light.encode_to_vec())?;
        self.attribute.iter().try_for_each(|attribute| child(5, attribute, out))
    }
}

impl Stream for AttributeProto {
    fn stream(&self, out: &mut dyn Write) -> io::Result<()> {
        let light = Self {
            t: None,
            g: None,
            tensors: Vec::new(),
            graphs: Vec::new(),
            name: self.name.clone(),
            ref_attr_name: self.ref_attr_name.clone(),
            doc_string: self.doc_string.clone(),
            r#type: self.r#type,
            f: self.f,
            i: self.i,
            s: self.s.clone(),
            sparse_tensor: self.sparse_tensor.clone(),
            tp: self.tp.clone(),
            floats: self.floats.clone(),
            ints: self.ints.clone(),
            strings: self.strings.clone(),
            sparse_tensors: self.sparse_tensors.clone(),
            type_protos: self.type_protos.clone(),
        };
        out.write_all(&light.encode_to_vec())?;
        self.t.iter().try_for_each(|tensor| child(5, tensor, out))?;
        self.g.iter().try_for_each(|graph| child(6, graph, out))?;
        self.tensors.iter().try_for_each(|tensor| child(10, tensor, out))?;
        self.graphs.iter().try_for_each(|graph| child(11, graph, out))
    }
}

impl Stream for TensorProto {
    fn stream(&self, out: &mut dyn Write) -> io::Result<()> {
        let Some(raw) = &self.raw_data else { return out.write_all(&self.encode_to_vec()) };
        let light = Self {
            raw_data: None,
            dims: self.dims.clone(),
            data_type: self.data_type,
            segment: self.segment,
            float_data: self.float_data.clone(),
            int32_data: self.int32_data.clone(),
            string_data: self.string_data.clone(),
            int64_data: self.int64_data.clone(),
            name: self.name.clone(),
            doc_string: self.doc_string.clone(),
            external_data: self.external_data.clone(),
            data_location: self.data_location,
            double_data: self.double_data.clone(),
            uint64_data: self.uint64_data.clone(),
            metadata_props: self.metadata_props.clone(),
        };
        out.write_all(&light.encode_to_vec())?;
        header(9, raw.len(), out)?;
        out.write_all(raw)
    }
}
