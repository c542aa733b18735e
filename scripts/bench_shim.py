"""What trtforge's layer over TensorRT-RTX adds to a build: `scripts/bench --shim`.

The same ONNX file with the same optimization profiles is built in pairs of processes: by the example `build_plan` and by
scripts/shim_direct.cpp, which calls the library with nothing between. Which of a pair goes first alternates, and a ratio is the
median of the ratios of pairs, so that a slow spell of the machine hits both sides.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

from bench import ROOT, Sample, measure, processor

# As `shapes.profiles: 3` would plan for short, middling and long texts: min, opt, max.
PROFILES = ["1,1:8,32:8,32", "1,33:8,64:8,64", "1,65:8,128:8,128"]
SIDES = ("ours", "direct")
KEYS = ("total_ms", "parse_ms", "build_ms", "peak_kib")


def input_names(model: Path) -> list[str]:
    """The inputs of the graph, which all take `[batch, length]`."""
    import onnx

    graph = onnx.load(str(model), load_external_data=False).graph
    weights = {tensor.name for tensor in graph.initializer}
    inputs = [value for value in graph.input if value.name not in weights]
    for value in inputs:
        if len(value.type.tensor_type.shape.dim) != 2:
            raise SystemExit(f"input `{value.name}` of {model} does not take [batch, length], as the profiles here do")
    return [value.name for value in inputs]


def dims(profile: str) -> list[list[int]]:
    try:
        shapes = [[int(size) for size in shape.split(",")] for shape in profile.split(":")]
    except ValueError:
        shapes = []
    if [len(shape) for shape in shapes] != [2, 2, 2]:
        raise SystemExit(f"`{profile}` is no profile: write min:opt:max, each `batch,length`, for example 1,1:8,64:8,128")
    return shapes


def commands(options: argparse.Namespace, folder: Path) -> dict[str, list[object]]:
    names = input_names(options.model)
    json_profiles = [json.dumps({name: dims(profile) for name in names}) for profile in options.profile]
    common = [options.library, options.model]
    return {
        "ours": [options.ours, *common, folder / "ours.plan", *json_profiles],
        "direct": [options.direct, *common, folder / "direct.plan", ",".join(names), *options.profile],
    }


def run(options: argparse.Namespace, cpus: set[int]) -> dict[str, list[Sample]]:
    samples: dict[str, list[Sample]] = {side: [] for side in SIDES}
    with tempfile.TemporaryDirectory() as folder:
        command = commands(options, Path(folder))
        if options.warm_up:
            # Libraries and model come into the page cache.
            measure(command["direct"], cpus)
        for pair in range(options.pairs):
            for side in SIDES if pair % 2 == 0 else reversed(SIDES):
                sample = measure(command[side], cpus)
                samples[side].append(sample)
                line = f"bench: pair {pair + 1} of {options.pairs}, {side}: {sample.figures['total_ms']:.0f} ms"
                print(line, file=sys.stderr, flush=True)
    return samples


def summary(samples: dict[str, list[Sample]]) -> dict[str, dict[str, float]]:
    """By figure: medians of both sides, and of the pairs' ratios the median, lowest and highest."""
    figures = {}
    for key in KEYS:
        ours, direct = ([sample.figures[key] for sample in samples[side]] for side in SIDES)
        ratios = [a / b for a, b in zip(ours, direct)]
        figures[key] = {
            "ours": statistics.median(ours),
            "direct": statistics.median(direct),
            "ratio": statistics.median(ratios),
            "lowest": min(ratios),
            "highest": max(ratios),
        }
    return figures


def report(options: argparse.Namespace, cpus: set[int], samples: dict[str, list[Sample]]) -> None:
    figures = summary(samples)
    what = {"total_ms": "build, ms", "parse_ms": "of it parsing, ms", "build_ms": "of it building, ms", "peak_kib": "peak memory, KiB"}
    wanted = {"total_ms": "≤ 1.02"}
    pairs = len(samples["ours"])
    print(f"{processor()}, {len(cpus)} cores, {pairs} pairs (medians), {options.model.name}, {len(options.profile)} profiles\n")
    print("| | ours | direct | ours / direct | lowest to highest | wanted |\n| --- | ---: | ---: | ---: | ---: | ---: |")
    for key, row in figures.items():
        spread = f"{row['lowest']:.3f} to {row['highest']:.3f}"
        print(f"| {what[key]} | {row['ours']:,.0f} | {row['direct']:,.0f} | {row['ratio']:.3f} | {spread} | {wanted.get(key, '')} |")
    sizes = {side: sorted({int(sample.figures["bytes"]) for sample in samples[side]}) for side in SIDES}
    if sizes["ours"] != sizes["direct"]:
        print(f"bench: the plans are not of one size ({sizes}): the two may not have built the same", file=sys.stderr)
    record = {
        "schema": 1,
        "machine": {"processor": processor(), "cores": len(cpus)},
        "model": options.model.name,
        "model_bytes": options.model.stat().st_size,
        "profiles": options.profile,
        "pairs": pairs,
        "plan_bytes": sizes,
        "figures": figures,
        "samples": {side: [asdict(sample) for sample in runs] for side, runs in samples.items()},
    }
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    print(f"bench: every sample is in {options.output}", file=sys.stderr)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="scripts/bench --shim", description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=20)
    parser.add_argument("--model", type=Path, default=ROOT / ".trtforge/demo/model.onnx", help="an ONNX file; the demo's by default")
    parser.add_argument("--profile", action="append", help="min:opt:max, each `batch,length`; repeat it (default: three up to 8,128)")
    parser.add_argument("--library", type=Path, default=ROOT / ".trtforge/lib/rtx", help="the folder of TensorRT-RTX")
    parser.add_argument("--cores", type=int, default=2, help="cores everything is pinned to")
    parser.add_argument("--no-warm-up", dest="warm_up", action="store_false", help="leave out the uncounted first build")
    parser.add_argument("--output", type=Path, default=Path("out/bench-shim.json"))
    parser.add_argument("--ours", type=Path, required=True, help=argparse.SUPPRESS)
    parser.add_argument("--direct", type=Path, required=True, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.pairs < 1:
        parser.error("--pairs must be at least 1")
    if not options.model.is_file():
        parser.error(f"there is no {options.model}; scripts/demo makes the default")
    options.profile = options.profile or PROFILES
    options.ours, options.direct = options.ours.resolve(), options.direct.resolve()
    return options


def main() -> None:
    options = parse()
    cpus = set(sorted(os.sched_getaffinity(0))[: options.cores])
    report(options, cpus, run(options, cpus))


if __name__ == "__main__":
    main()
