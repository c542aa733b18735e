//! Names kept once, and what a host function's name says about it.

use std::collections::HashMap;
use std::fmt;

use serde::Serialize;

use crate::event::HostCategory;

/// A device or stream: a number where the trace has one, else its text.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(untagged)]
pub enum Label {
    /// `0`
    Number(i64),
    /// `"stream 7"`
    Text(String),
}

impl Label {
    /// From the text between the separators of the JSON, quotes taken off.
    pub fn parse(raw: &str) -> Self {
        raw.parse().map_or_else(|_| Self::Text(raw.to_owned()), Self::Number)
    }
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => number.fmt(f),
            Self::Text(text) => f.pad(text),
        }
    }
}

/// What a host function does, as far as its name tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HostKind {
    /// Blocks until the device is done: `cudaStreamSynchronize`, `cudaMemcpy`.
    Synchronization,
    /// Asks the driver for memory or gives it back, which stops the device.
    Allocation,
    /// Tokenizer, data loader, collation.
    Pipeline,
    /// Operators, their dispatch, calls of the CUDA runtime.
    Framework,
    /// Python and the user's own regions.
    Code,
    /// Sleeps until something arrives.
    Waiting,
}

/// Index into [`Names`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct NameId(u32);

/// Every distinct host name, once.
#[derive(Debug, Default)]
pub struct Names {
    /// One map a category: the same text can be an operator and a Python function.
    ids: [HashMap<Box<str>, NameId>; HostCategory::COUNT],
    entries: Vec<(Box<str>, HostKind)>,
}

impl Names {
    /// The id of `text`, new or known.
    pub fn intern(&mut self, category: HostCategory, text: &str) -> NameId {
        let ids = &mut self.ids[category as usize];
        if let Some(id) = ids.get(text) {
            return *id;
        }
        let id = NameId(self.entries.len() as u32);
        ids.insert(text.into(), id);
        self.entries.push((text.into(), kind_of(category, text)));
        id
    }

    /// The name itself.
    pub fn text(&self, id: NameId) -> &str {
        &self.entries[id.0 as usize].0
    }

    /// What it does.
    pub fn kind(&self, id: NameId) -> HostKind {
        self.entries[id.0 as usize].1
    }
}

/// Parts of names, in lower case, of what prepares inputs.
const PIPELINE: [&str; 8] = [
    "tokeniz",
    "dataloader",
    "data_loader",
    "dataset",
    "collate",
    "encode_batch",
    "batch_encode",
    "preprocess",
];

/// Parts of names of Python functions that sleep.
const WAITING: [&str; 8] = [
    "'acquire' of",
    "method acquire",
    "threading.py",
    "queue.py",
    "selectors.py",
    "epoll",
    "asyncio",
    "time.sleep",
];

fn kind_of(category: HostCategory, text: &str) -> HostKind {
    if category == HostCategory::Runtime {
        return runtime_kind(text);
    }
    let lower = text.to_ascii_lowercase();
    let has = |parts: &[&str]| parts.iter().any(|part| lower.contains(part));
    if has(&PIPELINE) {
        HostKind::Pipeline
    } else if category == HostCategory::Operator {
        HostKind::Framework
    } else if has(&WAITING) || lower.ends_with("sleep>") {
        HostKind::Waiting
    } else if lower.starts_with("nn.module") || lower.contains("torch") {
        HostKind::Framework
    } else {
        HostKind::Code
    }
}

fn runtime_kind(text: &str) -> HostKind {
    let call = ["cuda", "hip", "cu"].iter().find_map(|p| text.strip_prefix(p)).unwrap_or(text);
    let is = |starts: &[&str]| starts.iter().any(|start| call.starts_with(start));
    // `cudaMemcpyAsync` and `cuMemcpyHtoDAsync_v2` return at once, their namesakes without Async do not.
    let blocking_copy = call.starts_with("Memcpy") && !call.contains("Async");
    if call.contains("Synchronize") || blocking_copy {
        HostKind::Synchronization
    } else if is(&["Malloc", "Free", "HostAlloc", "HostMalloc", "HostFree", "MemAlloc", "MemFree"])
        && !call.contains("Async")
    {
        HostKind::Allocation
    } else {
        HostKind::Framework
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_what_a_function_does() {
        use HostCategory::{Annotation, Operator, Python, Runtime};
        use HostKind::{Allocation, Code, Framework, Pipeline, Synchronization, Waiting};
        let cases = [
            (Runtime, "cudaStreamSynchronize", Synchronization),
            (Runtime, "cuCtxSynchronize", Synchronization),
            (Runtime, "hipDeviceSynchronize", Synchronization),
            (Runtime, "cudaMemcpy", Synchronization),
            (Runtime, "cuMemcpyDtoH_v2", Synchronization),
            (Runtime, "cudaMemcpyAsync", Framework),
            (Runtime, "cudaMalloc", Allocation),
            (Runtime, "cudaFree", Allocation),
            (Runtime, "cudaMallocAsync", Framework),
            (Runtime, "cudaStreamWaitEvent", Framework),
            (Runtime, "cudaLaunchKernel", Framework),
            (Operator, "aten::item", Framework),
            (Operator, "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", Pipeline),
            (Python, "transformers/tokenization_utils_fast.py(500): _encode_plus", Pipeline),
            (Python, "serve.py(12): collate_batch", Pipeline),
            (Python, "serve.py(30): rank", Code),
            (Python, "nn.Module: Linear_3", Framework),
            (Python, "<built-in method sleep>", Waiting),
            (Python, "threading.py(300): wait", Waiting),
            (Annotation, "## forward ##", Code),
        ];
        for (category, text, expected) in cases {
            assert_eq!(kind_of(category, text), expected, "{text}");
        }
    }

    #[test]
    fn the_same_text_in_two_categories_stays_two_names() {
        let mut names = Names::default();
        let operator = names.intern(HostCategory::Operator, "forward");
        let python = names.intern(HostCategory::Python, "forward");
        assert_ne!(operator, python);
        assert_eq!(names.intern(HostCategory::Operator, "forward"), operator);
        assert_eq!((names.text(python), names.kind(python)), ("forward", HostKind::Code));
    }
}
