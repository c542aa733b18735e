#!/usr/bin/env python3
"""Writes and checks the reference values of crates/trtforge-evaluate/tests/reference.json.

The cases are made from a seed; the expected values come from scikit-learn, SciPy and seqeval, and from SQuAD's official
formulas written out below. `cargo nextest run -p trtforge-evaluate` compares the crate with the committed file and needs
no Python; this script proves that the file is what the libraries say.

    python3 -m venv venv && venv/bin/pip install -r scripts/check-statistics.requirements.txt
    venv/bin/python scripts/check-statistics.py            # compares the committed file with the libraries
    venv/bin/python scripts/check-statistics.py --write    # writes it anew
"""

import json
import random
import sys
import warnings
from pathlib import Path

import numpy as np
from scipy import stats
from seqeval.metrics import f1_score as seqeval_f1
from seqeval.scheme import IOB2
from sklearn import metrics as sk

FILE = Path(__file__).parent.parent / "crates/trtforge-evaluate/tests/reference.json"


def classes():
    dice = random.Random(1)
    shapes = [(2, 40, 0.2), (3, 90, 0.3), (5, 200, 0.5), (4, 30, 0.9), (7, 60, 0.6)]
    cases = []
    for count, rows, wrong in shapes:
        labels = [min(int(dice.expovariate(1.0)), count - 1) for _ in range(rows)]
        answers = [dice.randrange(count) if dice.random() < wrong else label for label in labels]
        cases.append((labels, answers))
    cases.append(([0, 0, 1, 1], [1, 1, 1, 1]))
    cases.append(([0, 1, 2], [0, 1, 2]))
    cases.append(([0, 1, 0, 1], [1, 0, 1, 0]))
    cases.append(([0, 0, 1], [2, 0, 1]))
    return [
        {
            "labels": labels,
            "answers": answers,
            "accuracy": sk.accuracy_score(labels, answers),
            "macro-f1": sk.f1_score(labels, answers, average="macro", zero_division=0),
            "micro-f1": sk.f1_score(labels, answers, average="micro", zero_division=0),
            "mcc": sk.matthews_corrcoef(labels, answers),
        }
        for labels, answers in cases
    ]


def tags():
    dice = random.Random(2)
    schemes = {
        "iob2": ["O", "B-PER", "I-PER", "B-LOC", "I-LOC"],
        "iobes": ["O", "B-PER", "I-PER", "E-PER", "S-PER", "B-LOC", "I-LOC", "E-LOC", "S-LOC"],
        "random": ["O", "O", "B-A", "I-A", "B-B", "I-B", "I-C"],
    }
    cases = []
    for labels in schemes.values():
        gold = [[dice.choice(labels) for _ in range(dice.randrange(1, 12))] for _ in range(25)]
        answers = [[tag if dice.random() < 0.8 else dice.choice(labels) for tag in row] for row in gold]
        case = {
            "gold": gold,
            "answers": answers,
            "entity-f1": seqeval_f1(gold, answers, zero_division=0),
            "macro-f1": seqeval_f1(gold, answers, average="macro", zero_division=0),
        }
        if not any(tag[0] in "ES" for tag in labels):
            case["strict"] = seqeval_f1(gold, answers, mode="strict", scheme=IOB2, zero_division=0)
        cases.append(case)
    return cases


def pairs():
    dice = np.random.default_rng(3)
    cases = []
    for rows, noise, step in [(40, 0.5, None), (100, 2.0, 0.5), (12, 1.0, 1.0), (500, 0.1, 0.25)]:
        gold = dice.normal(size=rows)
        score = gold + noise * dice.normal(size=rows)
        if step:
            gold, score = np.round(gold / step) * step, np.round(score / step) * step
        cases.append({
            "gold": gold.tolist(),
            "scores": score.tolist(),
            "pearson": float(stats.pearsonr(gold, score).statistic),
            "spearman": float(stats.spearmanr(gold, score).statistic),
        })
    return cases


def discordant():
    cases = []
    for lost, won in [(0, 0), (5, 1), (1, 5), (30, 10), (100, 120), (7, 0), (400, 300)]:
        both = lost + won
        two = stats.binomtest(lost, both, 0.5).pvalue if both else 1.0
        worse = stats.binomtest(lost, both, 0.5, alternative="greater").pvalue if both else 1.0
        cases.append({"lost": lost, "won": won, "p_two_sided": float(two), "p_worse": float(worse)})
    return cases


def clopper_pearson():
    """The bound of a share lost, rows only lost: what the bootstrap with its adverse row comes to."""
    cases = []
    for lost, rows in [(0, 20), (0, 300), (3, 200), (10, 1000), (40, 500)]:
        bound = float(stats.beta.ppf(0.95, lost + 1, rows - lost))
        cases.append({"lost": lost, "rows": rows, "bound": bound})
    return cases


def same(one, other):
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, float):
        return abs(one - other) <= 1e-12 * max(1.0, abs(one))
    return one == other


def main():
    warnings.simplefilter("ignore")
    made = {
        "classes": classes(),
        "tags": tags(),
        "pairs": pairs(),
        "discordant": discordant(),
        "clopper_pearson": clopper_pearson(),
    }
    made = json.loads(json.dumps(made))
    if "--write" in sys.argv:
        lines = [f'  "{name}": [\n    ' + ",\n    ".join(json.dumps(case) for case in cases) + "\n  ]" for name, cases in made.items()]
        FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n")
        print(f"wrote {FILE.name}")
        return 0
    wrong = [name for name in made if not same(made[name], json.loads(FILE.read_text())[name])]
    for name in wrong:
        print(f"{name}: the committed values are not what the libraries give", file=sys.stderr)
    if not wrong:
        print(f"{sum(map(len, made.values()))} cases agree")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
