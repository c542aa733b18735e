"""The measurements of `scripts/bench --service`: what overlapping the host and bucketing by length bring on the demo.

Each ratio comes from one run or from two neighbouring ones, and the median of the repeats is printed, so that a slow spell of
the machine hits both sides. Predictions of both paddings are compared row by row.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PROFILE = ROOT / "profiles" / "demo.yaml"


def evaluate(binary: Path, padding: str, predictions: Path) -> float:
    """Seconds of one evaluation, the whole process."""
    command = [binary, "evaluate", PROFILE, "--quiet", "--set", f"evaluate.padding={padding}", "--predictions", predictions]
    start = time.monotonic()
    subprocess.run([str(word) for word in command], check=True, stdout=subprocess.DEVNULL)
    return time.monotonic() - start


def diagnose(binary: Path, rows: int, batch: int) -> dict:
    command = [binary, "diagnose", PROFILE, "--rows", rows, "--batch", batch, "--json", "--quiet"]
    done = subprocess.run([str(word) for word in command], check=True, capture_output=True, text=True)
    return json.loads(done.stdout)


def differences(first: Path, second: Path) -> tuple[int, int, float]:
    """Rows, rows whose class differs, and the largest difference of a logit."""
    rows = [[json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] for path in (first, second)]
    assert len(rows[0]) == len(rows[1]), "both evaluations have all rows"
    flipped = sum(a["class"] != b["class"] for a, b in zip(*rows))
    largest = max(abs(x - y) for a, b in zip(*rows) for x, y in zip(a["logits"], b["logits"]))
    return len(rows[0]), flipped, largest


def main() -> None:
    parser = argparse.ArgumentParser(prog="scripts/bench --service", description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=512, help="requests of each loop")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--binary", type=Path, default=Path("target/release/trtforge"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    binary = options.binary.resolve()
    loops = [diagnose(binary, options.rows, options.batch)["ladder"] for _ in range(options.repeats)]
    gain = [statistics.median(ladder[step]["measured"]["gain"] for ladder in loops) for step in (1, 2)]
    ratios = []
    with tempfile.TemporaryDirectory() as folder:
        paths = Path(folder) / "padded.jsonl", Path(folder) / "bucketed.jsonl"
        for _ in range(options.repeats):
            padded = evaluate(binary, "max_length", paths[0])
            ratios.append(padded / evaluate(binary, "longest", paths[1]))
        rows, flipped, largest = differences(*paths)
    print(f"{options.repeats} runs each (medians), {options.rows} requests in batches of {options.batch}\n")
    print("| | measured | wanted |\n| --- | ---: | ---: |")
    print(f"| overlapped loop / blocking loop, rows a second | {gain[0]:.3f} | ≥ 1 |")
    print(f"| length buckets / padded to the maximum, rows a second | {gain[1]:.2f} | ≥ 2 |")
    print(f"| evaluation of {rows} rows, padded / bucketed, whole process | {statistics.median(ratios):.2f} | ≥ 2 |")
    print(f"| predictions that differ between the two | {flipped} of {rows} | 0 |")
    print(f"| largest difference of a logit | {largest:.1e} | |")


if __name__ == "__main__":
    main()
