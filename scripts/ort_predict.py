#!/usr/bin/env python3
"""Runs an ONNX model with onnxruntime, as the independent second opinion of the tests and the bench.

    ort_predict.py MODEL FEED.json OUT.json
        FEED is {input: nested list} or a list of those; OUT the same shape with {output: nested list}.
    ort_predict.py MODEL ROWS.jsonl OUT.jsonl --tokenizer tokenizer.json [--max-length 128]
        ROWS has one {"text": …} a line; OUT one {"logits": […]} a line, in the same order.

Integers are fed in the type each input declares. Rows are run in batches of one length, so nothing is padded. `--widen`
stores FP16 weights as FP32 and computes in FP32, as the embedded executor does: what remains is the graph's own arithmetic,
quantization included, without FP16 rounding between its nodes.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, numpy_helper
from tokenizers import Tokenizer

import demo_model

TYPES = {"tensor(int64)": np.int64, "tensor(int32)": np.int32, "tensor(float)": np.float32, "tensor(bool)": np.bool_}


def widened(path: Path) -> bytes:
    """The model with every FP16 weight, constant and cast made FP32. Weights must be in the file or beside it, below 2 GB."""
    model = onnx.load(path)

    def widen(tensor: onnx.TensorProto) -> None:
        if tensor.data_type == TensorProto.FLOAT16:
            tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor).astype(np.float32), tensor.name))

    for tensor in model.graph.initializer:
        widen(tensor)
    for attribute in (attribute for node in model.graph.node for attribute in node.attribute):
        widen(attribute.t)
        if attribute.name in ("to", "dtype", "output_dtype") and attribute.i == TensorProto.FLOAT16:
            attribute.i = TensorProto.FLOAT
    # What they say of the types between nodes no longer holds; the runtime infers them anew.
    del model.graph.value_info[:]
    return model.SerializeToString()


def run_feed(session: onnxruntime.InferenceSession, feed: dict) -> dict:
    """The outputs for one feed; names the session does not know (recorded logits, say) are left out."""
    wanted = {port.name: TYPES[port.type] for port in session.get_inputs()}
    if missing := wanted.keys() - feed.keys():
        raise SystemExit(f"the feed lacks the inputs {sorted(missing)}")
    arrays = {name: np.array(feed[name], dtype=kind) for name, kind in wanted.items()}
    names = [port.name for port in session.get_outputs()]
    return {name: value.tolist() for name, value in zip(names, session.run(names, arrays))}


def run_rows(session: onnxruntime.InferenceSession, rows: list[dict], tokenizer: Path, max_length: int) -> list[dict]:
    """`{"logits": …}` for each row; the first output is the logits."""
    token_ids = demo_model.encode(Tokenizer.from_file(str(tokenizer)), rows, max_length)
    logits: list[list[float]] = [[]] * len(rows)
    output = session.get_outputs()[0].name
    for batch in demo_model.equal_length_batches(token_ids):
        ids = [token_ids[row] for row in batch]
        ones, zeros = [[[value] * len(ids[0])] * len(ids) for value in (1, 0)]
        feed = {"input_ids": ids, "attention_mask": ones, "token_type_ids": zeros}
        for row, values in zip(batch, run_feed(session, feed)[output]):
            logits[row] = values
    return [{"logits": values} for values in logits]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("feed", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--tokenizer", type=Path)
    parser.add_argument("--max-length", type=int, default=demo_model.MAX_LENGTH)
    parser.add_argument("--widen", action="store_true", help="FP32 in place of FP16")
    options = parser.parse_args()
    model = widened(options.model) if options.widen else str(options.model)
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    text = options.feed.read_text(encoding="utf-8")
    if options.tokenizer:
        rows = [json.loads(line) for line in text.split("\n") if line.strip()]
        results = run_rows(session, rows, options.tokenizer, options.max_length)
        options.out.write_text("".join(json.dumps(result) + "\n" for result in results), encoding="utf-8")
        return
    feeds = json.loads(text)
    results = [run_feed(session, feed) for feed in feeds] if isinstance(feeds, list) else run_feed(session, feeds)
    options.out.write_text(json.dumps(results) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
