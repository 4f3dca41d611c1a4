"""The service answers as the ensemble predicts, and says what is wrong with a request."""

from __future__ import annotations

import datetime
import functools
import json
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from fastapi import FastAPI
from fastapi.testclient import TestClient

from deployed_kinds import FEATURES, KINDS, classes, members, numbers, text
from sparsemble.ensemble import Ensemble
from sparsemble.nets import feedforward
from sparsemble.serving import service_of
from sparsemble.tables import CategoryColumn, NumberColumn, TableEncoding
from sparsemble.tasks import Classification, ExampleTask, Metric, generate, next_words

HOSTILE_NAME = "</script><script>alert(1)</script><img src=//x onerror=alert(1)>\"'&"
ROWS = np.random.default_rng(0).normal(3, 2, size=(5, 6)).astype(np.float32)


@functools.cache
def kind(name: str) -> Ensemble:
    """One of the `KINDS`, made once: tracing takes a while."""
    return KINDS[name]()


@pytest.fixture
def serving():
    """Starts services; gives what they are asked through."""
    opened = []

    def start(ensemble, **how):
        client = TestClient(service_of(ensemble, "small", **how))
        client.__enter__()
        opened.append(client)
        return client

    yield start
    for client in opened:
        client.__exit__(None, None, None)


def asked(client, rows, **fields):
    answer = client.post("/predict", json={"rows": rows, **fields})
    assert answer.status_code == 200, answer.text
    return answer.json()["predictions"]


def people() -> Ensemble:
    """Two classifiers of a table with a column of every kind, numbers that may be missing."""
    columns = TableEncoding(
        columns=[
            NumberColumn(name="age", fill=40.0, marked=True),
            NumberColumn(name="owner", holds="truth"),
            NumberColumn(name="since", holds="date"),
            NumberColumn(name="slept", holds="duration"),
            CategoryColumn(name="region", categories=["east", "west"], marked=True),
        ]
    )
    task = Classification(class_names=("low", "high"), feature_names=columns.names, columns=columns)
    return Ensemble(members(lambda: feedforward(8, [6], 2)), task)


# Predictions


def test_probabilities_are_those_of_the_ensemble_to_the_last_bit(serving):
    ensemble = classes()
    found = asked(serving(ensemble), ROWS.tolist())
    wanted = ensemble.predict_proba(ROWS)
    assert [[*own["probabilities"].values()] for own in found] == wanted.tolist()
    labels = [("low", "middle", "high")[label] for label in ensemble.predict(ROWS)]
    assert [own["prediction"] for own in found] == labels
    doubt = ensemble.uncertainty(ROWS)
    assert [own["mutual_information"] for own in found] == doubt.epistemic.tolist()


def test_every_members_vote_is_that_of_the_member_alone(serving):
    ensemble = classes()
    found = asked(serving(ensemble), ROWS.tolist(), members=True)
    for number in range(2):
        wanted = ensemble[number : number + 1].predict_proba(ROWS)
        alone = [[*own["members"][number]["probabilities"].values()] for own in found]
        assert np.asarray(alone) == pytest.approx(wanted, abs=1e-6)
    for own in found:
        votes = {member["prediction"] for member in own["members"]}
        assert own["agreement"].startswith("both members say" if len(votes) == 1 else "1 of 2")


def test_features_may_come_by_name_in_any_order(serving):
    client = serving(classes())
    named = [dict(reversed([*zip(FEATURES, row, strict=True)])) for row in ROWS.tolist()]
    assert asked(client, named) == asked(client, ROWS.tolist())


def test_numbers_come_with_their_spread(serving):
    ensemble = numbers("learned")
    found = asked(serving(ensemble), ROWS.tolist())
    law = ensemble.task.mixture(ensemble.predictive(ROWS))
    assert [own["price_mean"] for own in found] == law.mean[:, 0].tolist()
    assert [own["rent_standard_deviation"] for own in found] == law.variance[:, 1].sqrt().tolist()


def test_a_tables_rows_are_read_as_the_table_is(serving):
    ensemble = people()
    rows = [
        {"age": 31, "owner": True, "since": "2020-02-29", "slept": 0.25, "region": "west"},
        {"age": None, "owner": False, "since": "1970-01-01", "slept": 0, "region": None},
        {"owner": False, "since": "1969-12-31", "slept": 1.5, "region": "east"},
    ]
    table = {
        "age": [31.0, None, None],
        "owner": [True, False, False],
        "since": [datetime.date.fromisoformat(row["since"]) for row in rows],
        "slept": [datetime.timedelta(days=row["slept"]) for row in rows],
        "region": ["west", None, "east"],
    }
    found = asked(serving(ensemble), rows)
    assert [[*own["probabilities"].values()] for own in found] == ensemble.predict_proba(
        table
    ).tolist()


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"age": "old"}, "column 'age': row 1 holds the text 'old' where numbers are expected"),
        ({"age": 10**400}, "row 1 holds infinity"),
        ({"age": [3]}, "column 'age': holds values of type list where numbers are expected"),
        ({"owner": 7}, "row 1 holds 7, not 0 or 1"),
        ({"since": "yesterday"}, "where dates are expected"),
        ({"region": "north"}, "row 1 holds 'north', which was not in the table"),
        ({"slept": None}, "column 'slept': row 1 holds no value"),
        ({"height": 180}, "column 'height' was not in the table that was learned from"),
    ],
)
def test_what_does_not_fit_a_table_is_said_by_its_column(serving, change, sentence):
    row = {"age": 31, "owner": True, "since": "2020-02-29", "slept": 0.25, "region": "west"}
    answer = serving(people()).post("/predict", json={"rows": [row | change]})
    assert answer.status_code == 422
    assert sentence in answer.json()["detail"]


def test_what_was_never_seen_may_be_ignored(serving):
    row = {"age": 31, "owner": True, "since": "2020-02-29", "slept": 0.25, "region": "north"}
    (found,) = asked(serving(people(), unseen="ignore"), [row])
    assert set(found["probabilities"]) == {"low", "high"}


@pytest.mark.slow
def test_several_inputs_come_by_place_or_by_name(serving):
    left, right = torch.randn(2, 3, 4)
    rows = [[a, b] for a, b in zip(left.tolist(), right.tolist(), strict=True)]
    found = asked(serving(ensemble := kind("two inputs")), rows)
    wanted = ensemble.predict_proba((left, right))
    assert [[*own["probabilities"].values()] for own in found] == [
        pytest.approx(own, abs=1e-6) for own in wanted
    ]
    named = {"tokens": [3, 1, 4, 1, 5], "mask": [False, False, False, True, True]}
    (found,) = asked(serving(ensemble := kind("named inputs")), [named])
    wanted = ensemble.predict_proba({name: np.array([own]) for name, own in named.items()})
    assert [*found["probabilities"].values()] == pytest.approx(wanted[0], abs=1e-6)


def test_texts_are_gone_on_with(serving):
    ensemble = text()
    client = serving(ensemble)
    body = {"text": "a b zebra", "words": 9, "temperature": 0.8, "seed": 4}
    found = client.post("/continue", json=body).json()
    drawn = list(generate(ensemble, 9, start="a b zebra", temperature=0.8, seed=4))
    assert found["words"] == drawn
    assert found["unknown"] == 1
    assert found["text"].split() == ["a", "b", "zebra", *(w for w in drawn if w != "<eos>")]
    rows = asked(client, ["a b", "", "c d", "a\nb"])
    for row, start in zip(rows, ["a b", "", "c d", "a <eos> b"], strict=True):
        wanted = next_words(ensemble, start, 10)
        assert list(row["probabilities"]) == [word for word, _ in wanted]
        assert [*row["probabilities"].values()] == pytest.approx([p for _, p in wanted], abs=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("name", KINDS)
def test_ensembles_of_every_kind_have_a_page_that_can_be_answered(serving, name):
    client = serving(kind(name))
    assert client.get("/").status_code == 200
    form = client.get("/about").json()["form"]
    row = {
        "picture": lambda: [form["ink"]] * form["side"] ** 2,
        "fields": lambda: [3.0] * len(form["fields"]),
        "writing": lambda: "a b",
        "values": lambda: {
            "two inputs": [[0.5] * 4, [1.5] * 4],
            "named inputs": {"tokens": [1, 2], "mask": [True, False]},
        }.get(name, [1, 2, 3]),
    }[form["kind"]]()
    shown = client.post("/show", json={"row": row})
    assert shown.status_code == 200, shown.text
    assert len(shown.json()["members"]) == 2
    for bar in (bar for view in shown.json()["members"] for bar in view["bars"]):
        assert 0 <= bar["low"] <= bar["high"] <= 1


class Counts(ExampleTask):
    """A task of a user's own: the logarithm of a rate."""

    noun = "count models"
    metrics = (Metric("nll", "NLL"),)

    def loss(self, outputs, targets):
        return (outputs.exp() - targets * outputs).squeeze(-1).mean(-1)

    def evidence(self, outputs, targets=None):
        return outputs.squeeze(-1).exp()

    def mix(self, evidence):
        return evidence.mean(0)

    def statistics(self, prediction, targets):
        return {"nll": prediction - targets * prediction.log()}


def test_a_task_of_a_users_own_is_served(serving):
    ensemble = Ensemble(members(lambda: feedforward(6, [10, 8], 1)), Counts())
    client = serving(ensemble)
    found = asked(client, ROWS.tolist(), members=True)
    assert [own["prediction"] for own in found] == ensemble.predict(ROWS).tolist()
    assert [own["agreement"] for own in found] == [""] * 5
    shown = client.post("/show", json={"row": ROWS[0].tolist()}).json()
    assert shown["together"]["answer"] == str(found[0]["prediction"])


# What is wrong


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        ("{", "the body is no JSON"),
        ("[1]", "the body must be an object in JSON"),
        ('{"rows": []}', "rows: list should have at least 1 item"),
        (json.dumps({"rows": [[0] * 6] * 1001}), "rows: list should have at most 1000 items"),
        ('{"rows": [[1, 2]], "member": true}', "member: there is no such field"),
        ('{"rows": 3}', "rows: input should be a valid list"),
        ('{"rows": [[1, 2]]}', "the ensemble reads 6 features per row"),
        ('{"rows": [[1, 2], [3]]}', "the rows: rows of different lengths"),
        ('{"rows": [["a", 2, 3, 4, 5, 6]]}', "are not numbers"),
        ('{"rows": [[NaN, 2, 3, 4, 5, 6]]}', "hold NaN or infinity"),
        ('{"rows": [[1e39, 2, 3, 4, 5, 6]]}', "hold NaN or infinity"),
        ('{"rows": [{"age": 3}]}', "feature 'height' is missing"),
        ('{"rows": [null]}', "are not numbers"),
        ('{"rows": [1, "a", {}]}', "rows"),
        ('{"rows": ' + "[" * 100 + "]" * 100 + "}", "rows"),
        ('{"rows": ' + "[" * 200_000 + "]" * 200_000 + "}", "recursion limit exceeded"),
    ],
    ids=lambda body: body[:30],
)
def test_a_bad_request_is_answered_in_a_sentence_and_the_service_goes_on(serving, body, sentence):
    client = serving(classes())
    answer = client.post("/predict", content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code == 422
    assert sentence in answer.json()["detail"]
    assert len(asked(client, ROWS.tolist())) == 5


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"words": 0}, "words"),
        ({"words": 501}, "words"),
        ({"temperature": 0}, "temperature"),
        ({"text": "a" * 10_001}, "text"),
        ({"seed": -1}, "seed"),
    ],
)
def test_texts_have_limits(serving, body, field):
    answer = serving(text()).post("/continue", json=body)
    assert answer.status_code == 422
    assert answer.json()["detail"].startswith(f"{field}: ")


def test_predictions_that_are_not_finite_are_the_fault_of_the_row(serving):
    ensemble = classes()
    with torch.no_grad():
        for member in ensemble:
            next(member.network.parameters()).mul_(1e6)
    answer = serving(ensemble).post("/predict", json={"rows": [[1] * 6, [3e38, -3e38] * 3]})
    assert answer.status_code == 422
    assert "predict for row 2 is not finite" in answer.json()["detail"]


def test_words_that_a_network_does_not_know_are_no_failure_of_the_service(serving):
    client = serving(kind("a Transformer"))
    answer = client.post("/predict", json={"rows": [[1, 2, 99_999]]})
    assert answer.status_code == 422
    assert answer.json()["detail"].startswith("the network cannot take such inputs: ")


def test_an_answer_has_a_limit_too(serving, monkeypatch):
    monkeypatch.setattr("sparsemble.serving.answers.MOST_RECORDS", 8)
    client = serving(classes())
    answer = client.post("/predict", json={"rows": ROWS.tolist(), "members": True})
    assert answer.status_code == 422
    assert "ask for at most 4 rows with members" in answer.json()["detail"]
    assert len(asked(client, ROWS[:4].tolist(), members=True)) == 4


def test_what_a_task_cannot_do_is_said(serving):
    answer = serving(classes()).post("/continue", json={"text": "a"})
    assert (answer.status_code, answer.json()["detail"]) == (
        422,
        "classifiers do not go on with a text: ask them to predict rows",
    )


# What it says of itself


def test_it_says_what_it_is(serving):
    ensemble = classes()
    client = serving(ensemble)
    assert client.get("/health").json() == {"status": "ok", "waiting": 0}
    about = client.get("/about").json()
    assert about["task"]["class_names"] == ["low", "middle", "high"]
    assert [field["name"] for field in about["form"]["fields"]] == list(FEATURES)
    assert about["cost"]["parameters"] == ensemble.cost.parameters
    assert sum(own["flops"] for own in about["members"]) == ensemble.cost.flops
    paths = client.get("/openapi.json").json()["paths"]
    assert set(paths) == {"/health", "/about", "/predict"}
    assert "/continue" in serving(text()).get("/openapi.json").json()["paths"]
    assert client.get("/docs").status_code == client.get("/redoc").status_code == 404


def test_nothing_of_the_page_comes_from_elsewhere_or_from_names(serving):
    names = tuple(f"{name}{HOSTILE_NAME}" for name in FEATURES)
    task = Classification(class_names=("a", HOSTILE_NAME), feature_names=names)
    client = serving(Ensemble(members(lambda: feedforward(6, [4], 2)), task))
    page = client.get("/")
    policy = page.headers["content-security-policy"]
    assert "default-src 'none'; script-src 'self'; style-src 'self'" in policy
    assert "<script>alert" not in page.text
    assert "http:" not in page.text
    assert "https:" not in page.text
    for path in ("style.css", "theme.js", "page.js", "asking.js", "drawing.js", "showing.js"):
        part = client.get(f"/{path}")
        assert part.status_code == 200
        assert "innerHTML" not in part.text
        assert "http" not in part.text.replace("HTTP", "")


def test_a_service_may_be_mounted_in_another_application():
    whole = FastAPI()
    whole.mount("/model", service_of(kind("classes"), "small"))
    client = TestClient(whole)
    with ThreadPoolExecutor(1) as thread:
        rows = {"rows": ROWS[:2].tolist()}
        answer = thread.submit(client.post, "/model/predict", json=rows).result(timeout=30)
    assert answer.status_code == 200
