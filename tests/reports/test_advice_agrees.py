"""Advice of one run never contradicts or repeats itself, and can be followed."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from sparsemble.learning.diagnostics import Diversity, diagnose
from sparsemble.learning.findings import Change, Finding, Findings, Remedy
from sparsemble.recipes import load_recipe
from sparsemble.reports.measures.advice import advise
from sparsemble.reports.measures.curves import Curves, StageCurve
from sparsemble.reports.measures.spreads import FamilySpread, Histogram, Spreads
from sparsemble.stages import EpochRecord, History, Jump, Rollback
from sparsemble.tasks import Classification

RECIPES = [
    ("digits", {}),
    ("digits", {"chain.chains": 1, "chain.interval": 10, "chain.collection": "means"}),
    ("mnist-sgld-gsp-96", {}),
    ("mnist-budget", {}),
    ("mnist-budget", {"chain.patience": 4}),
]
WORDS = {"lower": False, "raise": True}


def measured(chance: random.Random, recipe) -> tuple[Finding, ...]:
    """Advice on figures drawn at random."""
    slope, noise = chance.choice([-0.05, 0.0, 0.05]), 10 ** chance.uniform(-3, 3)
    level, near = chance.choice([0.5, 2.3]), chance.choice([0.01, 0.5, 0.99])
    epochs = [
        EpochRecord("chain", 0, e, level, 5 + slope * e, "loss", 1, 0.1, noise, near, 1.0)
        for e in range(1, recipe.chain.epochs + 1)
    ]
    stages = chance.sample(["chain", "retrain"], chance.randrange(3))
    history = History(
        epochs,
        rollbacks=[Rollback(stage, 0, 5, "loss", 0, 0, 0.8) for stage in stages],
        jumps=[Jump("chain", 0, 5, 2.0, 1.0)] * chance.randrange(2),
    )
    diversity = Diversity(chance.choice([0.0, 0.1]), "they differ", seen=chance.random() < 0.3)
    found = diagnose(history, recipe, diversity=diversity, guess=2.3)
    sampled, final = (10 ** chance.uniform(0, 1.96) for _ in range(2))
    curves = Curves(
        Classification.metrics[0],
        "Error %",
        "a set",
        True,
        90.0,
        tuple(
            StageCurve(stage, (error, error), (error, error))
            for stage, error in (("sampled", sampled), ("retrained", final))
        ),
    )
    bins = Histogram((0.1, 1.0), (100,))
    width = 10 ** chance.uniform(-4, -1)
    spreads = Spreads(
        1,
        (FamilySpread("units", 100, 10, round(100 * near), bins),),
        width,
        width * chance.choice([0.1, 1 / 3]),
        chance.random(),
        bins,
        {"the whole network": 10 ** chance.uniform(-5, 0)},
    )
    return advise(
        found,
        curves,
        spreads,
        recipe,
        diversity="they differ",
        too_alike=chance.random() < 0.5,
    )


@pytest.mark.slow
@pytest.mark.parametrize(("name", "changes"), RECIPES)
def test_no_setting_is_moved_twice_and_all_changes_together_can_be_followed(name, changes):
    recipe = load_recipe(name, changes)
    chance, advised = random.Random(0), 0
    for _ in range(400):
        answers = measured(chance, recipe)
        every = [change for answer in answers for change in answer.changes]
        assert max(Counter(change.setting for change in every).values(), default=1) == 1
        load_recipe(name, changes | {change.setting: change.after for change in every})
        moves: dict[str, set[str]] = {}
        for answer in answers:
            for verb in WORDS:
                for what in ("temperature", "penalty", "learning rate"):
                    if answer.text.split(" (see")[0].endswith(f"{verb} the {what}"):
                        moves.setdefault(what, set()).add(verb)
        assert all(len(verbs) == 1 for verbs in moves.values())
        advised += len(every)
    assert (advised == 0) is ("chain.patience" in changes)


def test_the_second_of_two_that_disagree_is_told_to_wait():
    found = Findings()
    cooler = Remedy("lower the temperature", (Change("t", 1.0, 0.1),))
    hotter = Remedy("raise the temperature", (Change("t", 1.0, 10.0),))
    for question, remedy in (("one", cooler), ("two", hotter), ("three", cooler)):
        found.add(Finding(question, None, "attention", question), remedy)
    assert [(f.verdict, f.text, f.options) for f in found] == [
        ("attention", "one; lower the temperature", "--set t=0.1"),
        ("neutral", "two; see one first", ""),
        ("attention", "three; lower the temperature (see one)", ""),
    ]
