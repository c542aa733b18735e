#!/usr/bin/env python3
"""Asks the reference checker of the `onnx` package about each model: onnx_check.py MODEL…  Exit 1 if any is invalid.

Checked from the path, so external data and models above 2 GB work; shape inference must agree with what the model declares.
"""

from __future__ import annotations

import sys

import onnx


def main(models: list[str]) -> int:
    if not models or models[0] in ("-h", "--help"):
        print(__doc__)
        return 0 if models else 2
    invalid = 0
    for model in models:
        try:
            onnx.checker.check_model(model, full_check=True)
            print(f"valid    {model}")
        except Exception as error:  # Each kind of invalidity has its own class, and a broken file yet another.
            print(f"INVALID  {model}: {type(error).__name__}: {error}")
            invalid += 1
    return 1 if invalid else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
