//! Inputs and outputs as TensorRT sees them, in the terms of the model.

use trtforge_onnx::{Dim, ElementType, ValueInfo};
use trtforge_tensorrt_sys::TensorInfo;
use trtforge_tensorrt_sys::constants::rtx::nvinfer1_DataType as raw;

pub(crate) fn value_info(tensor: &TensorInfo) -> ValueInfo {
    let dims = tensor.dims.iter().enumerate().map(|(axis, &size)| {
        let name = tensor.dim_names.get(axis).filter(|name| !name.is_empty());
        match (size, name) {
            (size, _) if size >= 0 => Dim::Fixed(size),
            (_, Some(name)) => Dim::Named(name.clone()),
            _ => Dim::Unknown,
        }
    });
    ValueInfo {
        name: tensor.name.clone(),
        element_type: element_type(tensor.data_type),
        shape: Some(dims.collect()),
    }
}

fn element_type(number: i32) -> ElementType {
    match number {
        raw::kFLOAT => ElementType::F32,
        raw::kHALF => ElementType::F16,
        raw::kBF16 => ElementType::Bf16,
        raw::kINT8 => ElementType::I8,
        raw::kUINT8 => ElementType::U8,
        raw::kINT32 => ElementType::I32,
        raw::kINT64 => ElementType::I64,
        raw::kBOOL => ElementType::Bool,
        raw::kINT4 => ElementType::I4,
        raw::kFP8 => ElementType::F8E4M3Fn,
        // 0 is ONNX's "undefined".
        _ => ElementType::Other(0),
    }
}
