"""Predict for a CSV file with an exported ensemble; needs neither torch nor sparsemble.

python examples/predict_onnx.py people.onnx examples/people.csv
"""

import csv
import datetime
import json
import sys

import numpy as np
import onnxruntime

MISSING = {"", "NA", "N/A", "n/a", "#N/A", "NaN", "nan", "NULL", "null"}
EPOCH = datetime.datetime(1970, 1, 1)


def column(cells: list[str], about: dict) -> np.ndarray:
    """The cells of a column as the file takes them; what is missing is NaN, or of texts empty."""
    known = ["" if cell.strip() in MISSING else cell.strip() for cell in cells]
    if about["kind"] == "category":
        return np.array(known, dtype=object)[:, None]
    return np.array([[number(cell, about["holds"])] for cell in known], np.float32)


def number(cell: str, holds: str) -> float:
    """A cell that is counted: dates are days since 1970, times of day parts of a day."""
    if not cell:
        return float("nan")
    if holds == "truth":
        return float(cell.lower() in ("true", "1"))
    if holds == "date":
        return (datetime.datetime.fromisoformat(cell) - EPOCH) / datetime.timedelta(days=1)
    if holds == "time":
        time = datetime.time.fromisoformat(cell)
        return (time.hour * 3600 + time.minute * 60 + time.second) / 86400
    return float(cell)


def main(model: str, table: str) -> None:
    """Print what is predicted for every row, and how uncertain it is."""
    session = onnxruntime.InferenceSession(model)
    said = {k: json.loads(v) for k, v in session.get_modelmeta().custom_metadata_map.items()}
    task, called = said["task"], said["inputs"]
    with open(table, newline="", encoding="utf-8-sig") as file:
        rows = list(csv.DictReader(file, skipinitialspace=True))
    given = {
        called[about["name"]]: column([row[about["name"]] for row in rows], about)
        for about in task["columns"]["columns"]
    }
    if "class_names" in task:
        probabilities, doubts = session.run(["probabilities", "entropy"], given)
        answers = [task["class_names"][each.argmax()] for each in probabilities]
    else:
        means, doubts = session.run(["mean", "standard_deviation"], given)
        answers, doubts = means[:, 0].tolist(), doubts[:, 0]
    for answer, doubt in zip(answers, doubts, strict=True):
        print(f"{answer},{doubt:.4f}")


if __name__ == "__main__":
    main(*sys.argv[1:])
