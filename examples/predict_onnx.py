"""Predict for a CSV file with an exported ensemble; needs neither torch nor sparsemble.

python examples/predict_onnx.py people.onnx examples/people.csv
"""

import csv
import datetime
import json
import sys

import numpy as np
import onnxruntime


def column(cells: list[str], about: dict) -> np.ndarray:
    """The cells of a column as the file takes them; what is missing is NaN, or of texts empty."""
    if about["kind"] == "category":
        return np.array([[cell.strip()] for cell in cells], dtype=object)
    return np.array([[number(cell.strip(), about["holds"])] for cell in cells], np.float32)


def number(cell: str, holds: str) -> float:
    """A cell that is counted: dates are days since 1970."""
    if not cell:
        return float("nan")
    if holds == "truth":
        return float(cell.lower() in ("true", "1"))
    if holds == "date":
        return (datetime.date.fromisoformat(cell[:10]) - datetime.date(1970, 1, 1)).days
    return float(cell)


def main(model: str, table: str) -> None:
    """Print a class for every row, its probability, and how uncertain it is."""
    session = onnxruntime.InferenceSession(model)
    said = session.get_modelmeta().custom_metadata_map
    task = json.loads(said["task"])
    with open(table, newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    given = {
        about["name"]: column([row[about["name"]] for row in rows], about)
        for about in task["columns"]["columns"]
    }
    probabilities, entropy = session.run(["probabilities", "entropy"], given)
    for each, doubt in zip(probabilities, entropy, strict=True):
        print(f"{task['class_names'][each.argmax()]},{each.max():.4f},{doubt:.4f}")


if __name__ == "__main__":
    main(*sys.argv[1:])
