//! A model in memory: opening, identity, and the way to everything else.

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use prost::Message;

use crate::attribute::is_default_domain;
use crate::error::OnnxError;
use crate::external;
use crate::graph::Graph;
use crate::mapping::map;
use crate::proto::{GraphProto, ModelProto, OperatorSetIdProto};
use crate::write::{self, SaveOptions, Written};
use crate::{check, sniff};

/// An ONNX model. Cheap to clone; its weights are slices of the mapped files.
#[derive(Clone, Debug)]
pub struct Model {
    proto: Arc<ModelProto>,
}

impl Model {
    /// Opens a model file and maps its weights, external data included. External data is looked for in the folder of
    /// `path`, never outside of it; the data file itself may be a symbolic link, as model hubs' caches have it.
    pub fn open(path: &Path) -> Result<Self, OnnxError> {
        if path.is_dir() {
            let advice = "name the .onnx file in that folder";
            return Err(OnnxError::NotOnnx { path: path.to_owned(), found: "a directory", advice });
        }
        let bytes = map(path).map_err(|e| OnnxError::io("open", path, e))?;
        if let Some((found, advice)) = sniff::other_format(&bytes) {
            return Err(OnnxError::NotOnnx { path: path.to_owned(), found, advice });
        }
        let mut proto = decode(bytes, path)?;
        let folder = path.parent().unwrap_or(Path::new(""));
        external::resolve(&mut proto, Some(folder))?;
        Ok(Self { proto: Arc::new(proto) })
    }

    /// A model from its message. All data must be inside: without a file there is no folder to find external data in.
    pub fn from_proto(mut proto: ModelProto) -> Result<Self, OnnxError> {
        if proto.graph.is_none() {
            return Err(OnnxError::Incomplete { what: "graph".to_owned() });
        }
        external::resolve(&mut proto, None)?;
        Ok(Self { proto: Arc::new(proto) })
    }

    /// The whole message. External data appears as `raw_data`.
    pub fn proto(&self) -> &ModelProto {
        &self.proto
    }

    /// The main graph's message.
    #[expect(
        clippy::missing_panics_doc,
        reason = "cannot panic: every constructor refuses a model without a graph"
    )]
    pub fn graph_proto(&self) -> &GraphProto {
        self.proto.graph.as_ref().expect("every constructor refuses a model without a graph")
    }

    /// The version of the default operator set; 0 when the model states none (which [`Model::check`] refuses).
    pub fn opset(&self) -> i64 {
        let default = |import: &&OperatorSetIdProto| is_default_domain(import.domain());
        self.proto.opset_import.iter().find(default).map_or(0, OperatorSetIdProto::version)
    }

    /// The identity of the content, external data included: the same for the same model, wherever its files lie and
    /// whether or not its weights are in a file of their own.
    #[expect(clippy::missing_panics_doc, reason = "cannot panic: a hasher takes every byte")]
    pub fn fingerprint(&self) -> blake3::Hash {
        let mut hasher = blake3::Hasher::new();
        write::encode(&self.proto, &mut hasher).expect("hashing cannot fail");
        hasher.finalize()
    }

    /// Whether the model is valid in structure: every tensor has exactly one source, nodes are in order, data fits shapes.
    pub fn check(&self) -> Result<(), OnnxError> {
        check::model(&self.proto)
    }

    /// Writes the model: one self-contained file, or, when that would pass protobuf's 2 GB, with the weights beside it in
    /// `<file name>.data`. Either appears whole or not at all.
    pub fn save(&self, path: &Path) -> Result<Written, OnnxError> {
        self.save_with(path, &SaveOptions::default())
    }

    /// [`Model::save`] with another size limit.
    pub fn save_with(&self, path: &Path, options: &SaveOptions) -> Result<Written, OnnxError> {
        write::save(&self.proto, path, options.external_above)
    }

    /// The main graph with its indices. Building them walks the graph once: keep the result.
    pub fn graph(&self) -> Graph<'_> {
        Graph::new(self.graph_proto())
    }
}

fn decode(bytes: Bytes, path: &Path) -> Result<ModelProto, OnnxError> {
    let size = bytes.len() as u64;
    let malformed =
        |reason: String| OnnxError::Malformed { path: path.to_owned(), bytes: size, reason };
    let proto = ModelProto::decode(bytes).map_err(|e| malformed(e.to_string()))?;
    match &proto.graph {
        None => Err(malformed("it holds no graph".to_owned())),
        Some(_) => Ok(proto),
    }
}
