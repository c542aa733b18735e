//! Recognising files that are something else, to say so instead of "cannot decode".

const EXPORT: &str = "export the model to ONNX first, for example with `optimum-cli export onnx` or `torch.onnx.export`";

/// Start of the file (at an offset), what it is, what to do.
const SIGNATURES: [(usize, &[u8], &str, &str); 17] = [
    (0, b"PK\x03\x04", "a zip archive (PyTorch checkpoints are such)", EXPORT),
    (0, b"\x80\x02", "a Python pickle (old PyTorch checkpoints are such)", EXPORT),
    (0, b"\x80\x04", "a Python pickle", EXPORT),
    (0, b"\x89HDF", "an HDF5 file (Keras models are such)", EXPORT),
    (8, b"{\"", "a safetensors file", EXPORT),
    (4, b"TFL3", "a TensorFlow Lite model", EXPORT),
    (4, b"ORTM", "an ONNX Runtime .ort model", "use the .onnx file it was made from"),
    (0, b"ftrt", "a TensorRT engine", "use the .onnx file it was built from"),
    (0, b"ptrt", "a TensorRT engine", "use the .onnx file it was built from"),
    (0, b"\x1f\x8b", "gzip-compressed", "unpack it with `gunzip`"),
    (0, b"\x28\xb5\x2f\xfd", "zstd-compressed", "unpack it with `unzstd`"),
    (0, b"version https://git-lfs", "a Git LFS pointer", "run `git lfs pull` in its repository"),
    (
        0,
        b"<!DOCTYPE",
        "a web page",
        "the download was answered by a page (log in?): fetch the file itself",
    ),
    (
        0,
        b"<html",
        "a web page",
        "the download was answered by a page (log in?): fetch the file itself",
    ),
    (0, b"<?xml", "an XML file", EXPORT),
    (
        0,
        b"ir_version:",
        "an ONNX model in text form",
        "save it in the binary form with `onnx.save`",
    ),
    (0, b"GGUF", "a GGUF model", EXPORT),
];

/// What else a file is, with advice; `None` when it may be ONNX.
pub(crate) fn other_format(bytes: &[u8]) -> Option<(&'static str, &'static str)> {
    if bytes.is_empty() {
        return Some(("empty", "the copy or the export did not finish: make the file again"));
    }
    let text = bytes.trim_ascii_start();
    if text.first().is_some_and(|b| b"{[".contains(b))
        && text.get(1).is_some_and(|b| b"\"{[ \r\n\t".contains(b))
    {
        return Some((
            "a JSON file",
            "name the .onnx file; a config.json or tokenizer.json lies beside it",
        ));
    }
    let matches =
        |row: &&(usize, &[u8], _, _)| bytes.get(row.0..).is_some_and(|at| at.starts_with(row.1));
    SIGNATURES.iter().find(matches).map(|row| (row.2, row.3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_formats_are_named() {
        let table: [(&[u8], &str); 9] = [
            (b"", "empty"),
            (b"PK\x03\x04\x14\0", "zip"),
            (b"\x80\x02}q\0", "pickle"),
            (b"{\n  \"model_type\": \"bert\"}", "JSON"),
            (b"[{\"a\":1}]", "JSON"),
            (b"\x10\0\0\0\0\0\0\0{\"w\":{}}", "safetensors"),
            (b"version https://git-lfs.github.com/spec/v1\n", "LFS"),
            (b"<!DOCTYPE html><html>", "web page"),
            (b"ir_version: 7", "text form"),
        ];
        for (bytes, part) in table {
            let (found, advice) = other_format(bytes).unwrap();
            assert!(found.contains(part) && !advice.is_empty(), "{found}");
        }
        // What real exporters begin with: ir_version 7, then the producer.
        assert_eq!(other_format(b"\x08\x07\x12\x07pytorch\x1a\x031.9:"), None);
    }
}
