"""What docs/serving.md shows runs against a real server, and its limits are the service's."""

import re
from pathlib import Path

from fastapi import FastAPI

from served import running
from sparsemble.ensemble import Ensemble
from sparsemble.serving import Limits
from sparsemble.serving.answers import MOST_RECORDS
from sparsemble.serving.requests import MOST_ROWS, MOST_WORDS

PAGE = (Path(__file__).parents[2] / "docs" / "serving.md").read_text()
ASKING, MAKING = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)


def test_the_pages_examples_run(class_run, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    ensemble = Ensemble.load(class_run)
    ensemble.save("digits-ensemble")
    with running(ensemble) as address:
        asking = ASKING.replace("http://127.0.0.1:8000", address)
        names: dict = {}
        exec(compile(asking, "serving.md", "exec"), names)
    wanted = ensemble.predict_proba([[0.0] * 64])[0]
    assert [*names["found"]["probabilities"].values()] == wanted.tolist()
    exec(compile(MAKING, "serving.md", "exec"), names)
    assert isinstance(names["app"], FastAPI)
    assert capsys.readouterr().out.startswith(names["found"]["prediction"])


def test_the_pages_limits_are_those_of_the_service():
    limits = Limits()
    for said in (
        f"| a body | {limits.body // 10**6} MB,",
        f"| all bodies that are at hand | {limits.bodies // 10**6} MB |",
        f"| time to send a request | {limits.seconds:g} s |",
        f"| requests that wait to be predicted | {limits.waiting} |",
        f"| connections | {limits.connections} |",
        f"1 to {MOST_ROWS:,} of them",
        f"({MOST_RECORDS:,} of them at most)",
        f"`words` (to {MOST_WORDS})",
    ):
        assert said in PAGE
