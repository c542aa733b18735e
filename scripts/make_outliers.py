#!/usr/bin/env python3
"""Makes a model with outlier channels from one without: the same answers in FP32, hard to quantize by the largest value.

    make_outliers.py MODEL OUT [--channels 10] [--factor 50]

In each encoder layer some channels of the value projection are multiplied by the factor and the matching rows of the
attention's output projection divided by it. Attention mixes tokens, not channels, so the products cancel; what lies between
(V and the context) has channels that are `factor` times larger than their neighbours, as trained models of larger size do.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper


def scale_channels(model: onnx.ModelProto, channels: int, factor: float, seed: int = 17) -> int:
    """Changes the weights in place; returns the number of layers found."""
    weights = {tensor.name: tensor for tensor in model.graph.initializer}
    random = np.random.default_rng(seed)

    def dense(suffix: str) -> list[tuple[str, str]]:
        """`(weight, bias)` of every `MatMul` whose sum takes a bias of that name, in graph order."""
        producers = {output: node for node in model.graph.node for output in node.output}
        found = []
        for node in model.graph.node:
            bias = next((name for name in node.input if name in weights and name.endswith(suffix)), None)
            if node.op_type == "Add" and bias:
                product = next(producers[name] for name in node.input if name != bias)
                found.append((next(name for name in product.input if name in weights), bias))
        return found

    values, outputs = dense("attention.self.value.bias"), dense("attention.output.dense.bias")
    for (value, bias), (output, _) in zip(values, outputs, strict=True):
        chosen = random.choice(weights[bias].dims[0], channels, replace=False)
        for name, pick, by in ((value, np.s_[:, chosen], factor), (bias, chosen, factor), (output, chosen, 1 / factor)):
            array = numpy_helper.to_array(weights[name]).copy()
            array[pick] *= np.float32(by)
            weights[name].CopyFrom(numpy_helper.from_array(array, name))
    return len(values)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--channels", type=int, default=10)
    parser.add_argument("--factor", type=float, default=50.0)
    options = parser.parse_args()
    model = onnx.load(options.model)
    if not scale_channels(model, options.channels, options.factor):
        raise SystemExit(f"{options.model}: no value projection was found")
    options.out.parent.mkdir(parents=True, exist_ok=True)
    draft = options.out.with_suffix(".new")
    onnx.save(model, draft)
    draft.replace(options.out)


if __name__ == "__main__":
    main()
