//! Weights kept outside of the model file: found, checked and mapped, so that they look like any other tensor.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use bytes::Bytes;

use crate::element::ElementType;
use crate::error::OnnxError;
use crate::mapping::map;
use crate::proto::tensor_proto::DataLocation;
use crate::proto::{ModelProto, TensorProto};
use crate::tensor::element_count;
use crate::walk::for_each_tensor;

/// Maps all external data of a model that lies in `folder`. `None`: the model came without a folder, so there must be none.
pub(crate) fn resolve(model: &mut ModelProto, folder: Option<&Path>) -> Result<(), OnnxError> {
    let mut files = BTreeMap::new();
    for_each_tensor(model, &mut |tensor| {
        if tensor.data_location() != DataLocation::External {
            return Ok(());
        }
        let entries = Entries::of(tensor)?;
        let Some(folder) = folder else {
            return Err(entries.refused("but the model was not read from a file"));
        };
        let path = entries.path_in(folder)?;
        if !files.contains_key(&path) {
            let bytes = map(&path).map_err(|source| OnnxError::ExternalMissing {
                tensor: entries.tensor.clone(),
                path: path.clone(),
                source,
            })?;
            files.insert(path.clone(), bytes);
        }
        let data = entries.slice(&files[&path], &path, tensor)?;
        tensor.raw_data = Some(data);
        tensor.external_data.clear();
        tensor.data_location = None;
        Ok(())
    })
}

/// The `external_data` entries of one tensor.
struct Entries {
    tensor: String,
    location: String,
    offset: u64,
    length: Option<u64>,
}

impl Entries {
    fn of(tensor: &TensorProto) -> Result<Self, OnnxError> {
        let name = tensor.name();
        let value = |key: &str| {
            tensor.external_data.iter().find(|e| e.key() == key).map(|e| e.value().to_owned())
        };
        let number = |key: &str| match value(key) {
            None => Ok(None),
            Some(text) => text.trim().parse().map(Some).map_err(|_| OnnxError::ExternalEntry {
                tensor: name.to_owned(),
                key: key.to_owned(),
                value: text,
                expected: "a number of bytes",
            }),
        };
        let location = value("location").ok_or_else(|| OnnxError::ExternalEntry {
            tensor: name.to_owned(),
            key: "location".to_owned(),
            value: "absent".to_owned(),
            expected: "a file name",
        })?;
        Ok(Self {
            tensor: name.to_owned(),
            location,
            offset: number("offset")?.unwrap_or(0),
            length: number("length")?,
        })
    }

    fn refused(&self, fault: &'static str) -> OnnxError {
        OnnxError::ExternalLocation {
            tensor: self.tensor.clone(),
            location: self.location.clone(),
            fault,
        }
    }

    /// The data file. Both separators count whatever the system: a model must not mean different files on different machines.
    fn path_in(&self, folder: &Path) -> Result<PathBuf, OnnxError> {
        let location = self.location.as_str();
        if location.is_empty() {
            return Err(self.refused("which names no file"));
        }
        let drive = location.as_bytes().get(1) == Some(&b':');
        if location.starts_with(['/', '\\']) || drive {
            return Err(self.refused("an absolute path"));
        }
        if location.split(['/', '\\']).any(|part| part == "..") {
            return Err(self.refused("outside of the model's folder"));
        }
        if location.contains('\0') {
            return Err(self.refused("which is no file name"));
        }
        Ok(folder.join(location))
    }

    fn slice(&self, file: &Bytes, path: &Path, tensor: &TensorProto) -> Result<Bytes, OnnxError> {
        let size = file.len() as u64;
        let element_type = ElementType::from_onnx(tensor.data_type());
        let needed = element_count(&tensor.dims).and_then(|n| element_type.byte_len(n));
        let length = self.length.or(needed).unwrap_or_else(|| size.saturating_sub(self.offset));
        match self.offset.checked_add(length).filter(|&end| end <= size) {
            Some(end) => Ok(file.slice(self.offset as usize..end as usize)),
            None => Err(OnnxError::ExternalRange {
                tensor: self.tensor.clone(),
                path: path.to_owned(),
                offset: self.offset,
                length,
                size,
                note: stand_in(file),
            }),
        }
    }
}

/// What a small file in the place of the weights often is.
fn stand_in(file: &[u8]) -> &'static str {
    match std::str::from_utf8(file.get(..file.len().min(512)).unwrap_or_default()) {
        Ok(text) if text.starts_with("version https://git-lfs") => {
            " (it is a Git LFS pointer: run `git lfs pull`)"
        }
        Ok(text)
            if file.len() < 512 && text.contains('/') && text.trim_end().lines().count() == 1 =>
        {
            " (it holds only a path, as a symbolic link does that was copied as text)"
        }
        _ => "",
    }
}
