#!/usr/bin/env python3
"""Makes a model of BERT-base's size with random weights, for the bench, and rows that fill it.

    make_bert_base.py FOLDER --tokenizer tokenizer.json    writes bert-base.onnx and rows.jsonl there

The graph is what `torch.onnx.export` writes for BertForSequenceClassification at opset 13, node for node and name for
name. The weights are random but of a trained model's scale, from a fixed seed, so activations have plausible ranges. Each
row is long enough to be cut at 128 tokens, so that batches of one length are full and padding plays no part in timings.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

OPSET, IR_VERSION = 13, 7


@dataclass(frozen=True)
class Size:
    """The defaults are BERT-base's, with a classifier of two classes."""

    layers: int = 12
    hidden: int = 768
    heads: int = 12
    inner: int = 3072
    vocabulary: int = 30522
    positions: int = 512
    classes: int = 2


class Exporter:
    """Collects nodes and weights the way the exporter names them: `/scope/Op`, `/scope/Op_1`, … and `NAME_output_0`."""

    def __init__(self, seed: int):
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []
        self.counts: dict[str, int] = {}
        self.random = np.random.default_rng(seed)

    def node(self, scope: str, op: str, *inputs: str, output: str | None = None, **attributes) -> str:
        base = f"{scope}/{op}"
        number = self.counts.get(base, 0)
        self.counts[base] = number + 1
        name = f"{base}_{number}" if number else base
        output = output or f"{name}_output_0"
        self.nodes.append(helper.make_node(op, list(inputs), [output], name=name, **attributes))
        return output

    def constant(self, scope: str, value, kind=np.int64) -> str:
        return self.node(scope, "Constant", value=numpy_helper.from_array(np.array(value, dtype=kind)))

    def weight(self, name: str, *shape: int, mean: float = 0.0, spread: float = 0.04) -> str:
        values = self.random.standard_normal(shape, dtype=np.float32) * np.float32(spread) + np.float32(mean)
        self.weights.append(numpy_helper.from_array(values, name))
        return name

    def size_of(self, scope: str, tensor: str, axis: int) -> str:
        """The length of an axis, as a tensor of one element."""
        shape = self.node(scope, "Shape", tensor)
        length = self.node(scope, "Gather", shape, self.constant(scope, axis), axis=0)
        return self.node(scope, "Unsqueeze", length, self.constant(scope, [0]))

    def reshape(self, scope: str, tensor: str, *tail: int) -> str:
        """To `[batch, length, *tail]`, the first two read at run time."""
        sizes = [self.size_of(scope, tensor, axis) for axis in (0, 1)]
        sizes += [self.constant(scope, [length]) for length in tail]
        return self.node(scope, "Reshape", tensor, self.node(scope, "Concat", *sizes, axis=0))

    def linear(self, scope: str, tensor: str, width_in: int, width_out: int) -> str:
        bias = self.weight(f"{scope.strip('/').replace('/', '.')}.bias", width_out)
        # The exporter numbers the transposed weights by the position of the node.
        weight = self.weight(f"onnx::MatMul_{1000 + len(self.nodes)}", width_in, width_out)
        return self.node(scope, "Add", bias, self.node(scope, "MatMul", tensor, weight))

    def layer_norm(self, scope: str, tensor: str, width: int) -> str:
        path = scope.strip("/").replace("/", ".")
        gain = self.weight(f"{path}.weight", width, mean=1.0, spread=0.1)
        offset = self.weight(f"{path}.bias", width, spread=0.1)
        mean = self.node(scope, "ReduceMean", tensor, axes=[-1], keepdims=1)
        centred = self.node(scope, "Sub", tensor, mean)
        square = self.node(scope, "Pow", centred, self.constant(scope, 2.0, np.float32))
        variance = self.node(scope, "ReduceMean", square, axes=[-1], keepdims=1)
        safe = self.node(scope, "Add", variance, self.constant(scope, 1e-12, np.float32))
        normal = self.node(scope, "Div", centred, self.node(scope, "Sqrt", safe))
        return self.node(scope, "Add", self.node(scope, "Mul", normal, gain), offset)

    def gelu(self, scope: str, tensor: str) -> str:
        scaled = self.node(scope, "Div", tensor, self.constant(scope, 2.0**0.5, np.float32))
        erf = self.node(scope, "Erf", scaled)
        shifted = self.node(scope, "Add", erf, self.constant(scope, 1.0, np.float32))
        product = self.node(scope, "Mul", tensor, shifted)
        return self.node(scope, "Mul", product, self.constant(scope, 0.5, np.float32))


def embeddings(graph: Exporter, size: Size) -> str:
    scope, path = "/bert/embeddings", "bert.embeddings"
    table = graph.weight(f"{path}.word_embeddings.weight", size.vocabulary, size.hidden)
    words = graph.node(f"{scope}/word_embeddings", "Gather", table, "input_ids", axis=0)
    table = graph.weight(f"{path}.token_type_embeddings.weight", 2, size.hidden)
    kinds = graph.node(f"{scope}/token_type_embeddings", "Gather", table, "token_type_ids", axis=0)
    table = graph.weight(f"{path}.position_embeddings.weight", size.positions, size.hidden)
    numbers = np.arange(size.positions, dtype=np.int64).reshape(1, -1)
    graph.weights.append(numpy_helper.from_array(numbers, f"{path}.position_ids"))
    length = graph.size_of(scope, "input_ids", 1)
    bounds = [graph.constant(scope, [0]), length, graph.constant(scope, [1]), graph.constant(scope, [1])]
    numbers = graph.node(scope, "Slice", f"{path}.position_ids", *bounds)
    positions = graph.node(f"{scope}/position_embeddings", "Gather", table, numbers, axis=0)
    total = graph.node(scope, "Add", graph.node(scope, "Add", words, kinds), positions)
    return graph.layer_norm(f"{scope}/LayerNorm", total, size.hidden)


def attention_mask(graph: Exporter) -> str:
    """`[batch, 1, 1, length]`: 0 where attended, −10000 where not."""
    scope = "/bert"
    mask = graph.node(scope, "Unsqueeze", "attention_mask", graph.constant(scope, [1]))
    mask = graph.node(scope, "Unsqueeze", mask, graph.constant(scope, [2]))
    mask = graph.node(scope, "Cast", mask, to=TensorProto.FLOAT)
    hidden = graph.node(scope, "Sub", graph.constant(scope, 1.0, np.float32), mask)
    return graph.node(scope, "Mul", hidden, graph.constant(scope, -10000.0, np.float32))


def attention(graph: Exporter, scope: str, tensor: str, mask: str, size: Size) -> str:
    head = size.hidden // size.heads
    query, key, value = [
        graph.linear(f"{scope}/{role}", tensor, size.hidden, size.hidden) for role in ("query", "key", "value")
    ]
    query = graph.node(scope, "Transpose", graph.reshape(scope, query, size.heads, head), perm=[0, 2, 1, 3])
    value = graph.node(scope, "Transpose", graph.reshape(scope, value, size.heads, head), perm=[0, 2, 1, 3])
    key = graph.node(scope, "Transpose", graph.reshape(scope, key, size.heads, head), perm=[0, 2, 3, 1])
    scores = graph.node(scope, "MatMul", query, key)
    scores = graph.node(scope, "Div", scores, graph.constant(scope, head**0.5, np.float32))
    weights = graph.node(scope, "Softmax", graph.node(scope, "Add", scores, mask), axis=-1)
    context = graph.node(scope, "Transpose", graph.node(scope, "MatMul", weights, value), perm=[0, 2, 1, 3])
    return graph.reshape(scope, context, size.hidden)


def encoder_layer(graph: Exporter, number: int, tensor: str, mask: str, size: Size) -> str:
    scope = f"/bert/encoder/layer.{number}"
    context = attention(graph, f"{scope}/attention/self", tensor, mask, size)
    dense = graph.linear(f"{scope}/attention/output/dense", context, size.hidden, size.hidden)
    total = graph.node(f"{scope}/attention/output", "Add", dense, tensor)
    attended = graph.layer_norm(f"{scope}/attention/output/LayerNorm", total, size.hidden)
    inner = graph.linear(f"{scope}/intermediate/dense", attended, size.hidden, size.inner)
    inner = graph.gelu(f"{scope}/intermediate/intermediate_act_fn", inner)
    dense = graph.linear(f"{scope}/output/dense", inner, size.inner, size.hidden)
    total = graph.node(f"{scope}/output", "Add", dense, attended)
    return graph.layer_norm(f"{scope}/output/LayerNorm", total, size.hidden)


def make_model(size: Size = Size(), seed: int = 17) -> onnx.ModelProto:
    """A BERT classifier of that size: three int64 inputs `[batch, sequence]`, float32 `logits` `[batch, classes]`."""
    graph = Exporter(seed)
    tensor = embeddings(graph, size)
    mask = attention_mask(graph)
    for number in range(size.layers):
        tensor = encoder_layer(graph, number, tensor, mask, size)
    first = graph.node("/bert/pooler", "Gather", tensor, graph.constant("/bert/pooler", 0), axis=1)
    bias = graph.weight("bert.pooler.dense.bias", size.hidden)
    weight = graph.weight("bert.pooler.dense.weight", size.hidden, size.hidden)
    gemm = {"alpha": 1.0, "beta": 1.0, "transB": 1}
    pooled = graph.node("/bert/pooler/dense", "Gemm", first, weight, bias, **gemm)
    pooled = graph.node("/bert/pooler/activation", "Tanh", pooled)
    bias = graph.weight("classifier.bias", size.classes)
    weight = graph.weight("classifier.weight", size.classes, size.hidden)
    graph.node("/classifier", "Gemm", pooled, weight, bias, output="logits", **gemm)
    ids = [
        helper.make_tensor_value_info(name, TensorProto.INT64, ["batch", "sequence"])
        for name in ("input_ids", "attention_mask", "token_type_ids")
    ]
    logits = helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", size.classes])
    whole = helper.make_graph(graph.nodes, "main_graph", ids, [logits], graph.weights)
    opset = [helper.make_opsetid("", OPSET)]
    return helper.make_model(whole, opset_imports=opset, ir_version=IR_VERSION, producer_name="make_bert_base")


def make_rows(vocabulary: list[str], count: int, words: int = 160, seed: int = 17) -> list[dict]:
    """Rows of `words` whole words each, so at least as many tokens; labels alternate."""
    whole = [word for word in vocabulary if word.isascii() and word.isalpha() and len(word) > 2]
    random = np.random.default_rng(seed)
    draws = random.integers(len(whole), size=(count, words))
    return [{"text": " ".join(whole[i] for i in draw), "label": number % 2} for number, draw in enumerate(draws)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--tokenizer", type=Path, required=True, help="a tokenizer.json with BERT's vocabulary")
    parser.add_argument("--rows", type=int, default=512)
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    vocabulary = json.loads(options.tokenizer.read_text(encoding="utf-8"))["model"]["vocab"]
    rows = make_rows(sorted(vocabulary, key=vocabulary.get), options.rows)
    text = "".join(json.dumps(row) + "\n" for row in rows)
    (options.folder / "rows.jsonl").write_text(text, encoding="utf-8")
    # Written last and renamed: its presence means that the folder is complete.
    draft = options.folder / "bert-base.onnx.new"
    onnx.save(make_model(), draft)
    draft.replace(options.folder / "bert-base.onnx")


if __name__ == "__main__":
    main()
