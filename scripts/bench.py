"""The measurements of scripts/bench, which prepares what this needs: the binary, the model and its rows.

Each figure is the median of its runs, each ratio the median of the ratios of neighbouring runs, so that a slow spell of
the machine hits both sides. Everything runs on the same cores. Peak memory is what the kernel reports for the process.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import platform
import statistics
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Callable

ROOT = Path(__file__).resolve().parent.parent
BENCH = ROOT / ".trtforge" / "bench"
MODEL, ROWS = BENCH / "bert-base.onnx", BENCH / "rows.jsonl"
TOKENIZER = ROOT / ".trtforge" / "demo" / "tokenizer.json"
MAX_LENGTH, BATCH = 128, 8

PROFILE = f"""\
version: 1
model: {{ onnx: {MODEL.name}, tokenizer: ../demo/{TOKENIZER.name} }}
task: {{ kind: text-classification, labels: [negative, positive] }}
data:
  calibration: {{ path: {ROWS.name}, text: text, strategy: first }}
  evaluation: {{ path: {ROWS.name}, text: text, label: label }}
max_length: {MAX_LENGTH}
shapes: [ {{ min: [1, {MAX_LENGTH}], opt: [{BATCH}, {MAX_LENGTH}], max: [{BATCH}, {MAX_LENGTH}] }} ]
calibrate: {{ method: entropy, batch_size: {BATCH} }}
output: ../../out/bench
"""


@dataclass
class Sample:
    """One process: how long it took, the most memory it held, and the figures in the JSON it printed."""

    wall_s: float
    peak_mib: float
    figures: dict


def figures_of(text: str) -> dict:
    """The numbers at the top of a JSON object; `{}` for any other output."""
    values = json.loads(text) if text.lstrip().startswith("{") else {}
    return {key: value for key, value in values.items() if isinstance(value, (int, float))}


def measure(command: list[object], cpus: set[int]) -> Sample:
    """Runs a command on the given cores and stops the bench if it fails."""
    with tempfile.TemporaryFile() as out:
        start = time.monotonic()
        child = os.fork()
        if child == 0:
            try:
                os.sched_setaffinity(0, cpus)
                os.dup2(out.fileno(), 1)
                os.execv(str(command[0]), [str(word) for word in command])
            finally:
                # Only reached when the program could not be started; the copy of this bench must not go on.
                os._exit(127)
        _, status, usage = os.wait4(child, 0)
        wall = time.monotonic() - start
        out.seek(0)
        text = out.read().decode()
    if status != 0:
        words, code = " ".join(map(str, command)), os.waitstatus_to_exitcode(status)
        raise SystemExit(f"`{words}` failed (exit {code}):\n{text[-2000:]}")
    return Sample(wall, usage.ru_maxrss / 1024, figures_of(text))


class Bench:
    """The commands that are compared, each measured on the same cores."""

    def __init__(self, binary: Path, cpus: set[int], folder: Path):
        self.binary, self.cpus, self.folder = binary, cpus, folder
        self.profile = BENCH / "bert-base.yaml"
        self.profile.write_text(PROFILE, encoding="utf-8")
        self.table = folder / "calibration.json"
        self.samples: dict[str, list[Sample]] = {}

    def keep(self, name: str, command: list[object]) -> Sample:
        sample = measure(command, self.cpus)
        self.samples.setdefault(name, []).append(sample)
        print(f"bench: {name}: {sample.wall_s:.1f} s, {sample.peak_mib:.0f} MiB", file=sys.stderr, flush=True)
        return sample

    def trtforge(self, name: str, verb: str, *options: object, samples: int) -> Sample:
        common = ["--set", f"data.calibration.samples={samples}", "--json", "--quiet"]
        return self.keep(name, [self.binary, verb, self.profile, *common, *options])

    def calibrate(self, rows: int, plain: bool = False) -> Sample:
        """One calibration, or with `plain` only its forward passes."""
        options = ["-o", self.table, "--observe", "none" if plain else "all"]
        return self.trtforge(f"{'forward' if plain else 'calibrate'} {rows} rows", "calibrate", *options, samples=rows)

    def rewrite(self, precision: str, rows: int) -> Sample:
        options = ["--table", self.table, "-o", self.folder / precision, "--set", f"precisions=[{precision}]"]
        return self.trtforge(f"quantize {precision}", "quantize", *options, samples=rows)

    def peer(self, tool: str, python: object, rows: int, method: str) -> Sample:
        """Another tool in a process of its own."""
        command = [python, Path(__file__), "--worker", tool, self.folder / f"{tool}.onnx", "--rows", rows, "--method", method]
        return self.keep(f"{tool} {method} {rows} rows", command)

    def wall(self, name: str) -> float:
        return statistics.median(sample.wall_s for sample in self.samples[name])

    def peak(self, name: str) -> float:
        return max(sample.peak_mib for sample in self.samples[name])

    def ratio(self, over: str, under: str, seconds: Callable[[Sample], float]) -> float:
        pairs = zip(self.samples[over], self.samples[under])
        return statistics.median(seconds(a) / seconds(b) for a, b in pairs)


def wall(sample: Sample) -> float:
    return sample.wall_s


def working(sample: Sample) -> float:
    """Of `trtforge calibrate`: forward passes, observing and thresholds in seconds, without start-up and loading."""
    return sum(sample.figures[part] for part in ("forward_ms", "observe_ms", "threshold_ms")) / 1000


def token_rows(rows: int) -> list[list[int]]:
    from tokenizers import Tokenizer

    import demo_model

    texts = [json.loads(line) for line in ROWS.read_text(encoding="utf-8").splitlines()[:rows]]
    token_ids = demo_model.encode(Tokenizer.from_file(str(TOKENIZER)), texts, MAX_LENGTH)
    assert all(len(ids) == MAX_LENGTH for ids in token_ids), "every row is meant to fill its batch"
    return token_ids


def onnxruntime_worker(target: Path, rows: int, method: str) -> None:
    """What a user of onnxruntime runs: `quantize_static` with its default settings, on the same rows."""
    import numpy as np
    from onnxruntime.quantization import CalibrationDataReader, CalibrationMethod, quantize_static

    token_ids = token_rows(rows)

    class Reader(CalibrationDataReader):
        def __init__(self) -> None:
            self.batches = iter(np.array(token_ids, dtype=np.int64).reshape(-1, min(BATCH, rows), MAX_LENGTH))

        def get_next(self) -> dict | None:
            ids = next(self.batches, None)
            if ids is None:
                return None
            return {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)}

    quantize_static(str(MODEL), str(target), Reader(), calibrate_method=CalibrationMethod[method])


def modelopt_worker(target: Path, rows: int, method: str) -> None:
    """What a user of NVIDIA Model Optimizer runs on a machine without a GPU, on the same rows."""
    import shutil

    import numpy as np
    from modelopt.onnx.quantization import quantize

    ids = np.array(token_rows(rows), dtype=np.int64)
    feed = {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)}
    # A copy: it writes inferred shapes back into the file it is given.
    model = shutil.copy(MODEL, target.with_suffix(".input.onnx"))
    options = {"calibration_eps": ["cpu"], "log_level": "WARNING"}
    quantize(str(model), "int8", calibration_data=feed, calibration_method=method, output_path=str(target), **options)


WORKERS = {"onnxruntime": onnxruntime_worker, "modelopt": modelopt_worker}

# GiB that a tool needs for BERT-base, 128 tokens a row: `(base, per row)`. Measured with onnxruntime 1.32, which keeps every
# activation of every row for its histograms (4 GiB for 8 rows, 19 GiB for 64) and none for MinMax, and with Model Optimizer
# 0.47 (5.3 GiB for 32 and for 128 rows).
KEEPS = {"MinMax": (6.0, 0.0), "Entropy": (2.0, 0.3), "max": (6.0, 0.0), "entropy": (6.0, 0.0)}


def memory_suffices(tool: str, method: str, rows: int) -> bool:
    """Whether a tool that keeps every activation of every row can be run without pushing others out of memory."""
    base, each = KEEPS[method]
    wanted = base + each * rows
    fields = dict(line.split(":") for line in Path("/proc/meminfo").read_text(encoding="utf-8").splitlines())
    available = int(fields["MemAvailable"].split()[0]) / (1 << 20)
    if available < wanted:
        note = f"{tool} {method} is left out at {rows} rows: it needs about {wanted:.0f} GiB, {available:.0f} GiB are free"
        print(f"bench: {note}", file=sys.stderr)
    return available >= wanted


def end_to_end(bench: Bench, options: argparse.Namespace) -> list[str]:
    """From the FP32 model and rows of text to an INT8 ONNX graph, each tool with the rows it can hold."""
    table = ["| tool | method | rows | wall time | peak memory |", "| --- | --- | ---: | ---: | ---: |"]

    def line(tool: str, method: str, rows: int, *names: str) -> None:
        seconds, peak = sum(bench.wall(name) for name in names), max(bench.peak(name) for name in names)
        table.append(f"| {tool} | {method} | {rows} | {seconds:.1f} s | {peak:,.0f} MiB |")

    for method in ("entropy", "auto"):
        names = [f"trtforge {method} {step}" for step in ("calibrate", "quantize")]
        for _ in range(options.repeats):
            chosen = ["--set", f"calibrate.method={method}", "--set", "precisions=[int8]"]
            bench.trtforge(names[0], "calibrate", "-o", bench.table, *chosen, samples=options.rows)
            rest = ["--table", bench.table, "-o", bench.folder / method, *chosen]
            bench.trtforge(names[1], "quantize", *rest, samples=options.rows)
        line("trtforge (calibrate, then quantize)", method, options.rows, *names)
    tools = [("onnxruntime", sys.executable, "MinMax"), ("onnxruntime", sys.executable, "Entropy")]
    tools += [("modelopt", options.modelopt, method) for method in ("max", "entropy") if options.modelopt]
    for tool, python, method in tools:
        rows = options.rows
        while rows >= BATCH and not memory_suffices(tool, method, rows):
            rows //= 2
        for _ in range(options.repeats):
            bench.peer(tool, python, rows, method)
        line(tool, method, rows, f"{tool} {method} {rows} rows")
    return table


def run_all(bench: Bench, options: argparse.Namespace) -> None:
    # Once before any clock runs: the model comes into the page cache, and a table is there for the rewriting.
    bench.calibrate(BATCH)
    bench.samples.clear()
    for turn in range(options.repeats):
        # Whichever runs first has the cooler machine: take turns.
        for plain in (True, False) if turn % 2 == 0 else (False, True):
            bench.calibrate(options.rows, plain)
        for precision in ("fp16", "int8"):
            bench.rewrite(precision, options.rows)
        if not options.skip_onnxruntime and memory_suffices("onnxruntime", "Entropy", options.rows):
            bench.peer("onnxruntime", sys.executable, options.rows, "Entropy")
    bench.calibrate(options.long_rows)


def lines(bench: Bench, options: argparse.Namespace) -> list[tuple[str, str, str]]:
    """`(what, measured, wanted)`."""
    calibrate, forward = f"calibrate {options.rows} rows", f"forward {options.rows} rows"
    long = f"calibrate {options.long_rows} rows"
    peaks = bench.peak(calibrate), bench.peak(long)
    rows = [
        (f"`calibrate`, {options.rows} rows", f"{bench.wall(calibrate):.2f} s", ""),
        ("the same, forward passes only", f"{bench.wall(forward):.2f} s", ""),
        ("calibrate / forward passes, loading apart", f"{bench.ratio(calibrate, forward, working):.3f}", "≤ 1.25"),
        ("calibrate / forward passes, whole process", f"{bench.ratio(calibrate, forward, wall):.3f}", "≤ 1.25"),
        (f"peak memory, {options.rows} rows", f"{peaks[0]:.0f} MiB", "≤ 1331 MiB"),
        (f"peak memory, {options.long_rows} rows", f"{peaks[1]:.0f} MiB", "≤ 1331 MiB"),
        ("peak memory, long / short", f"{peaks[1] / peaks[0]:.3f}", "0.95 to 1.05"),
        ("`quantize`, FP16 only, whole process", f"{bench.wall('quantize fp16'):.2f} s", "< 3 s"),
        ("`quantize`, INT8 only, whole process", f"{bench.wall('quantize int8'):.2f} s", "< 3 s"),
    ]
    other = f"onnxruntime Entropy {options.rows} rows"
    if other in bench.samples:
        rewrite = bench.wall("quantize int8")
        ours = [a.wall_s + b.wall_s for a, b in zip(bench.samples[calibrate], bench.samples["quantize int8"])]
        faster = statistics.median(o.wall_s / mine for o, mine in zip(bench.samples[other], ours))
        rows += [
            (f"onnxruntime `quantize_static`, entropy, {options.rows} rows", f"{bench.wall(other):.2f} s", ""),
            ("ours for the same: calibrate + quantize", f"{bench.wall(calibrate) + rewrite:.2f} s", ""),
            ("onnxruntime / ours", f"{faster:.2f}", "≥ 3"),
            ("onnxruntime, peak memory", f"{bench.peak(other):.0f} MiB", ""),
        ]
    return rows


def processor() -> str:
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.processor() or "unknown"


def report(bench: Bench, options: argparse.Namespace) -> None:
    table = lines(bench, options)
    versions = {name: importlib.metadata.version(name) for name in ("onnx", "onnxruntime", "numpy")}
    print(f"{processor()}, {len(bench.cpus)} cores, {options.repeats} runs each (medians), {MAX_LENGTH} tokens a row\n")
    print("| | measured | wanted |\n| --- | ---: | ---: |")
    for row in table:
        print(f"| {' | '.join(row)} |")
    record = {
        "schema": 1,
        "machine": {"processor": processor(), "cores": len(bench.cpus), "python": platform.python_version(), **versions},
        "rows": options.rows,
        "long_rows": options.long_rows,
        "tokens": MAX_LENGTH,
        "batch": BATCH,
        "repeats": options.repeats,
        "table": [dict(zip(("what", "measured", "wanted"), row)) for row in table],
        "samples": {name: [asdict(sample) for sample in samples] for name, samples in bench.samples.items()},
    }
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    print(f"bench: every sample is in {options.output}", file=sys.stderr)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="scripts/bench", description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="8 and 32 rows, one run")
    parser.add_argument("--rows", type=int, default=64)
    parser.add_argument("--long-rows", type=int, default=512, help="rows of the second memory measurement")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--cores", type=int, default=2, help="cores everything is pinned to")
    parser.add_argument("--skip-onnxruntime", action="store_true")
    parser.add_argument("--output", type=Path, default=Path("out/bench.json"))
    parser.add_argument("--binary", type=Path, default=Path("target/release/trtforge"), help=argparse.SUPPRESS)
    parser.add_argument("--end-to-end", action="store_true", help="only: from FP32 to an INT8 graph, beside other tools")
    parser.add_argument("--modelopt", type=Path, help="for --end-to-end: a Python with nvidia-modelopt[onnx] and tokenizers")
    parser.add_argument("--worker", nargs=2, metavar=("TOOL", "TARGET"), help=argparse.SUPPRESS)
    parser.add_argument("--method", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.quick:
        options.rows, options.long_rows, options.repeats = 8, 32, 1
    return options


def main() -> None:
    options = parse()
    if options.worker:
        tool, target = options.worker
        return WORKERS[tool](Path(target), options.rows, options.method)
    cpus = set(sorted(os.sched_getaffinity(0))[: options.cores])
    with tempfile.TemporaryDirectory(dir=BENCH) as folder:
        bench = Bench(options.binary.resolve(), cpus, Path(folder))
        if options.end_to_end:
            print("\n".join(end_to_end(bench, options)))
            return
        run_all(bench, options)
        report(bench, options)


if __name__ == "__main__":
    main()
