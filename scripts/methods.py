"""The measurements of scripts/methods: what INT8 costs under each tool, method and level, on the same rows.

Every variant is an ONNX file that goes through the same onnxruntime session, with graph optimization off (so that Q/DQ is
the arithmetic that the file says, not a kernel's) and FP16 tensors widened to FP32 (the other tools write none). All tools
calibrate on the same rows of train.jsonl and are judged on all rows of test.jsonl.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.metadata
import io
import json
import logging
import math
import shutil
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnxruntime.quantization import CalibrationDataReader, CalibrationMethod, QuantFormat, quantize_static
from tokenizers import Tokenizer

import demo_model
import ort_predict

ROOT = Path(__file__).resolve().parent.parent
DEMO = ROOT / ".trtforge" / "demo"
LABELS = ["negative", "positive"]
LEVELS = ("gemm", "attention", "residual")
OURS = ("minmax", "entropy", "percentile:99.9", "percentile:99.99", "percentile:99.999", "mse", "auto")
THEIRS = (
    ("MinMax", CalibrationMethod.MinMax, {}),
    ("Entropy", CalibrationMethod.Entropy, {}),
    ("Percentile 99.99", CalibrationMethod.Percentile, {"CalibPercentile": 99.99}),
    ("Percentile 99.999", CalibrationMethod.Percentile, {"CalibPercentile": 99.999}),
)


@dataclass
class Line:
    """One variant against FP32 on the same rows."""

    tool: str
    method: str
    level: str
    smooth: str
    accuracy: float
    drop: float
    interval: tuple[float, float]
    flips: int
    rows: int
    shift: float
    seconds: float


def paired_drop(truth: np.ndarray, before: np.ndarray, after: np.ndarray) -> tuple[float, tuple[float, float], int]:
    """The drop of accuracy with its 95 % interval (normal, paired: only rows that changed count), and the flipped answers."""
    lost = int(((before == truth) & (after != truth)).sum())
    won = int(((before != truth) & (after == truth)).sum())
    rows = len(truth)
    drop = (lost - won) / rows
    half = 1.959964 * math.sqrt(max(lost + won - (lost - won) ** 2 / rows, 0.0)) / rows
    return drop, (drop - half, drop + half), int((before != after).sum())


class Session:
    """One model with its rows; everything it is compared with."""

    def __init__(self, name: str, model: Path, folder: Path, options: argparse.Namespace):
        self.name, self.model, self.folder, self.options = name, model, folder, options
        self.tokenizer = Tokenizer.from_file(str(DEMO / "tokenizer.json"))
        read = lambda file: [json.loads(line) for line in (DEMO / file).read_text(encoding="utf-8").splitlines()]
        self.test, self.calibration = read("test.jsonl"), read("train.jsonl")[: options.rows]
        self.truth = np.array([LABELS.index(row["label"]) for row in self.test])
        self.fp32 = self.logits(model)
        self.lines: list[Line] = []
        self.failures: list[str] = []

    def logits(self, path: Path) -> np.ndarray:
        """`[rows, classes]` of the evaluation rows, no optimization, no padding."""
        settings = onnxruntime.SessionOptions()
        settings.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        session = onnxruntime.InferenceSession(ort_predict.widened(path), settings, providers=["CPUExecutionProvider"])
        token_ids = demo_model.encode(self.tokenizer, self.test)
        declared = {port.name for port in session.get_inputs()}
        parts, order = [], []
        for batch in demo_model.equal_length_batches(token_ids):
            ids = np.array([token_ids[row] for row in batch], dtype=np.int64)
            feed = {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)}
            parts.append(session.run(None, {name: feed[name] for name in declared})[0])
            order += batch
        return np.concatenate(parts)[np.argsort(order)]

    def judge(self, tool: str, method: str, level: str, smooth: str, path: Path, seconds: float) -> None:
        logits = self.logits(path)
        before, after = self.fp32.argmax(axis=1), logits.argmax(axis=1)
        drop, interval, flips = paired_drop(self.truth, before, after)
        accuracy, shift = float((after == self.truth).mean()), float(np.abs(logits - self.fp32).mean())
        line = Line(tool, method, level, smooth, accuracy, drop, interval, flips, len(self.truth), shift, seconds)
        self.lines.append(line)
        print(f"methods: {self.name}: {row_of(line)}", file=sys.stderr, flush=True)

    def unpadded(self) -> list[dict[str, np.ndarray]]:
        """The calibration rows in batches of one length each."""
        token_ids = demo_model.encode(self.tokenizer, self.calibration)
        declared = {port.name for port in onnx.load(self.model, load_external_data=False).graph.input}
        batches = []
        for batch in demo_model.equal_length_batches(token_ids, 8):
            ids = np.array([token_ids[row] for row in batch], dtype=np.int64)
            feed = {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)}
            batches.append({name: feed[name] for name in declared})
        return batches

    def padded(self) -> dict[str, np.ndarray]:
        """The calibration rows padded to the longest: histograms of the other tools stop on rows of different length."""
        token_ids = demo_model.encode(self.tokenizer, self.calibration)
        width = max(map(len, token_ids))
        ids = np.array([row + [0] * (width - len(row)) for row in token_ids], dtype=np.int64)
        mask = np.array([[1] * len(row) + [0] * (width - len(row)) for row in token_ids], dtype=np.int64)
        feed = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
        declared = {port.name for port in onnx.load(self.model).graph.input}
        return {name: value for name, value in feed.items() if name in declared}

    def trtforge(self, method: str, level: str, smooth: str) -> None:
        profile = self.folder / "profile.yaml"
        profile.write_text(
            json.dumps(
                {
                    "version": 1,
                    "model": {"onnx": str(self.model), "tokenizer": str(DEMO / "tokenizer.json")},
                    "task": {"kind": "text-classification", "labels": LABELS},
                    "data": {
                        "calibration": {
                            "path": str(DEMO / "train.jsonl"),
                            "text": "text",
                            "samples": self.options.rows,
                            "strategy": "first",
                        },
                        "evaluation": {"path": str(DEMO / "test.jsonl"), "text": "text", "label": "label"},
                    },
                    "max_length": demo_model.MAX_LENGTH,
                    "precisions": ["int8"],
                    "engine": {"backend": "none"},
                    "output": str(self.folder / "out"),
                }
            ),
            encoding="utf-8",
        )
        kind, _, percentile = method.partition(":")
        settings = [f"calibrate.method={kind}", f"quantize.level={level}", f"quantize.smooth={smooth}"]
        settings += [f"calibrate.percentile={percentile}"] if percentile else []
        common = [word for setting in settings for word in ("--set", setting)] + ["--quiet"]
        table, out = self.folder / "calibration.json", self.folder / "rewritten"
        start = time.monotonic()
        for command in (["calibrate", profile, "-o", table], ["quantize", profile, "--table", table, "-o", out]):
            words = [str(word) for word in [self.options.binary, *command, *common]]
            subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
        seconds = time.monotonic() - start
        (graph,) = out.glob("*int8.onnx")
        self.judge("trtforge", method, level, smooth, graph, seconds)

    def onnxruntime(self, name: str, method: CalibrationMethod, extra: dict, operators: list[str] | None) -> None:
        """`quantize_static`, per channel and symmetric, without the bias Q/DQ that TensorRT refuses."""
        if method == CalibrationMethod.MinMax:
            batches = self.unpadded()
        else:
            feed = self.padded()
            batches = [{key: value[at : at + 8] for key, value in feed.items()} for at in range(0, self.options.rows, 8)]

        class Reader(CalibrationDataReader):
            def __init__(self) -> None:
                self.batches = iter(batches)

            def get_next(self) -> dict | None:
                return next(self.batches, None)

        target = self.folder / "onnxruntime.onnx"
        placement = "+".join(operators or ["all operators"])
        start = time.monotonic()
        try:
            # It prints its progress.
            with contextlib.redirect_stdout(io.StringIO()):
                quantize_static(
                    str(self.model),
                    str(target),
                    Reader(),
                    quant_format=QuantFormat.QDQ,
                    op_types_to_quantize=operators,
                    per_channel=True,
                    calibrate_method=method,
                    extra_options={"ActivationSymmetric": True, "WeightSymmetric": True, "QuantizeBias": False, **extra},
                )
        except ValueError as error:
            self.failures.append(f"onnxruntime {name}, {placement}: stopped with `{error}`")
            return
        self.judge("onnxruntime", name, placement, "", target, time.monotonic() - start)

    def modelopt(self, method: str) -> None:
        """NVIDIA Model Optimizer, in the environment that `--modelopt` names: it needs torch, cupy and onnxruntime-gpu."""
        feed, target = self.folder / "feed.npz", self.folder / "modelopt.onnx"
        # A copy: it writes inferred shapes back into the file it is given.
        model = shutil.copy(self.model, self.folder / "modelopt-input.onnx")
        np.savez(feed, **self.padded())
        start = time.monotonic()
        words = [self.options.modelopt, __file__, "--modelopt-worker", model, feed, method, target]
        subprocess.run([str(word) for word in words], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.judge("modelopt", method, "its own", "", target, time.monotonic() - start)


def modelopt_worker(model: str, feed: str, method: str, target: str) -> None:
    from modelopt.onnx.quantization import quantize

    data = dict(np.load(feed))
    options = {"calibration_eps": ["cpu"], "high_precision_dtype": "fp32", "log_level": "WARNING"}
    quantize(model, "int8", calibration_data=data, calibration_method=method, output_path=target, **options)


HEADER = "| tool | method | level | smooth | accuracy | drop | 95 % interval | flips | logit shift |\n| --- | --- | --- | --- | ---: | ---: | ---: | ---: | ---: |"


def row_of(line: Line) -> str:
    low, high = line.interval
    cells = [line.tool, line.method, line.level, line.smooth, f"{line.accuracy:.4f}", f"{line.drop:+.4f}"]
    cells += [f"{low:+.4f} to {high:+.4f}", f"{100 * line.flips / line.rows:.2f} %", f"{line.shift:.4f}"]
    return f"| {' | '.join(cells)} |"


def run(session: Session, options: argparse.Namespace) -> None:
    for level in options.levels:
        for smooth in options.smooth:
            for method in options.methods:
                session.trtforge(method, level, smooth)
    if not options.only_ours:
        for operators in (None, ["MatMul", "Gemm"]):
            for name, method, extra in THEIRS:
                session.onnxruntime(name, method, extra, operators)
        for method in ("max", "entropy") if options.modelopt else ():
            session.modelopt(method)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="scripts/methods", description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=128, help="calibration rows, the first of train.jsonl")
    parser.add_argument("--models", nargs="+", default=["demo", "minilm6"], choices=["demo", "minilm6", "outliers"])
    parser.add_argument("--levels", nargs="+", default=list(LEVELS), choices=LEVELS)
    parser.add_argument("--methods", nargs="+", default=list(OURS))
    parser.add_argument("--smooth", nargs="+", default=["0", "auto"])
    parser.add_argument("--only-ours", action="store_true", help="leave the other tools out")
    parser.add_argument("--modelopt", type=Path, help="a Python with nvidia-modelopt[onnx]; left out when not given")
    parser.add_argument("--output", type=Path, default=Path("out/methods.json"))
    parser.add_argument("--binary", type=Path, default=Path("target/release/trtforge"), help=argparse.SUPPRESS)
    return parser.parse_args()


def main() -> None:
    # It warns about every LayerNorm weight, on each of its runs.
    logging.getLogger().setLevel(logging.ERROR)
    options = parse()
    options.binary = options.binary.resolve()
    bench = ROOT / ".trtforge" / "bench"
    models = {"demo": DEMO / "model.onnx"} | {name: bench / name / "model.onnx" for name in ("minilm6", "outliers")}
    results = {}
    for name in options.models:
        folder = options.output.parent.resolve() / "methods" / name
        folder.mkdir(parents=True, exist_ok=True)
        session = Session(name, models[name], folder, options)
        accuracy = float((session.fp32.argmax(axis=1) == session.truth).mean())
        run(session, options)
        print(f"\n{name}: FP32 {accuracy:.4f} on {len(session.truth)} rows, {options.rows} calibration rows\n\n{HEADER}")
        print("\n".join(map(row_of, session.lines)), flush=True)
        print("".join(f"\n{failure}" for failure in session.failures))
        lines = [asdict(line) for line in session.lines]
        results[name] = {"fp32": accuracy, "lines": lines, "failures": session.failures}
    versions = {name: importlib.metadata.version(name) for name in ("onnx", "onnxruntime", "numpy")}
    record = {"schema": 1, "rows": options.rows, "versions": versions, "models": results}
    options.output.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--modelopt-worker"]:
        modelopt_worker(*sys.argv[2:])
    else:
        main()
