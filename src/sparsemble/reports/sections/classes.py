"""How far the classifiers' predictions can be trusted."""

from __future__ import annotations

from sparsemble.ensemble.metrics import BINS
from sparsemble.reports.charts import Bars, bar_chart, reliability_chart
from sparsemble.reports.images import data_uri, grey_png
from sparsemble.reports.markup import Html, element, joined
from sparsemble.reports.measures.classes import ClassFacts, Doubted
from sparsemble.reports.numbers import figure
from sparsemble.reports.sections.parts import Section, framed, said

_CLASSES = 30
"""More classes than this are shown by their commonest confusions only."""
_PAIRS = 12
_VOTES = 4


def calibration(classes: ClassFacts) -> Section:
    """Reliability and confidence."""
    series = (("ensemble", classes.ensemble_bins), ("a member", classes.member_bins))
    said_ = (
        f"Expected calibration error {classes.ensemble_ece:.4f}, of a member "
        f"{classes.member_ece:.4f} on average."
    )
    reliable = reliability_chart(
        "Reliability", f"Accuracy by confidence in {BINS} bins. {said_}", series
    )
    confident = bar_chart(
        "Confidence",
        f"Shares of the predictions in {BINS} bins of confidence.",
        [k / BINS for k in range(BINS + 1)],
        [
            Bars(name, tuple(100 * one.share for one in bins), tone)
            for tone, (name, bins) in enumerate(series)
        ],
        x_label="Confidence",
        y_label="% of the predictions, root scale",
        root=True,
    )
    parts = [
        said(
            "Confidence is the probability given to the class that is predicted. Where it equals "
            "how often that class is right, the dots lie on the diagonal; below it the predictions "
            "are too sure of themselves, above it too modest."
        ),
        element(
            "div",
            framed("Reliability", reliable, f"{said_} A larger dot holds more predictions."),
            framed("Confidence", confident, "Blue: the ensemble. Orange: a single member."),
            class_="grid",
        ),
    ]
    return Section("calibration", "Calibration", joined(parts))


def confusions(classes: ClassFacts) -> Section:
    """Which classes are taken for which."""
    names = classes.class_names
    wrong = sorted(
        (
            (count, names[true], names[predicted])
            for true, row in enumerate(classes.confusion)
            for predicted, count in enumerate(row)
            if true != predicted and count
        ),
        key=lambda pair: -pair[0],
    )
    total = sum(count for count, _, _ in wrong)
    lead = f"{total:,} of {classes.examples:,} examples are classified wrongly."
    if wrong:
        count, true, predicted = wrong[0]
        lead += f" Most often {true} is taken for {predicted}: {count:,} times."
    parts = [said(lead)]
    if len(names) <= _CLASSES:
        parts.append(_grid(classes))
    elif wrong:
        items = (element("li", f"{t} taken for {p}: {n:,}") for n, t, p in wrong[:_PAIRS])
        parts.append(element("ol", *items))
    return Section("confusions", "Confusions", joined(parts))


def _grid(classes: ClassFacts) -> Html:
    """The counts; shades go by the share of a class that is right or wrong."""
    names = classes.class_names
    head = element(
        "tr",
        element("th", "true\N{NO-BREAK SPACE}↓ predicted\N{NO-BREAK SPACE}→", scope="col"),
        *(element("th", name, scope="col") for name in names),
    )
    rows = []
    for true, counts in enumerate(classes.confusion):
        total = max(sum(counts), 1)
        worst = max((n for k, n in enumerate(counts) if k != true), default=0)
        cells = []
        for predicted, number in enumerate(counts):
            right = true == predicted
            share = number / total if right else number / max(worst, 1) * min(1, 10 * worst / total)
            cells.append(
                element(
                    "td",
                    str(number),
                    class_=f"{'t0' if right else 't1'}{'' if number else ' none'}",
                    style=f"--share:{share:.2f}",
                    data_tip=f"{number} of {total} {names[true]} taken for {names[predicted]}",
                )
            )
        rows.append(element("tr", element("th", names[true], scope="row"), *cells))
    whole = element("table", element("thead", head), element("tbody", *rows), class_="confusion")
    return element("div", whole, class_="scroll", tabindex=0)


def doubts(classes: ClassFacts) -> Section:
    """The examples the ensemble is least sure of."""
    parts = [
        said(
            "Two kinds of doubt. Where the members disagree (mutual information), more or "
            "different training could help. Where they agree that it is a close call (entropy), "
            "the example itself is unclear."
        ),
        element("h3", "Members disagree"),
        _examples(classes.by_information, "The members disagree about no example more than others"),
        element("h3", "Altogether unsure"),
        _examples(classes.by_entropy, "The ensemble is as sure of one example as of any other"),
    ]
    return Section("doubts", "The most uncertain examples", joined(parts))


def _examples(doubted: tuple[Doubted, ...], otherwise: str) -> Html:
    if not doubted:
        return said(f"{otherwise}, so none is shown.")
    return element("ul", *map(_example, doubted), class_="doubts")


def _example(one: Doubted) -> Html:
    parts: list[Html] = []
    if one.image is not None:
        source = data_uri(grey_png(one.image))
        parts.append(element("img", src=source, alt=f"example {one.index}, a {one.target}"))
    elif one.features:
        pairs = [
            cell
            for name, value in one.features
            for cell in (element("dt", name), element("dd", figure(value)))
        ]
        parts.append(element("dl", *pairs))
    right = one.prediction == one.target
    kind = None if right else "wrong"
    parts.append(element("b", f"{one.prediction}, {one.probability:.0%}", class_=kind))
    parts.append(element("div", "right" if right else f"truly {one.target}"))
    parts.append(_votes(one))
    parts.append(
        element(
            "dl",
            *(element("dt", "entropy"), element("dd", f"{one.entropy:.2f}")),
            *(element("dt", "disagreement"), element("dd", f"{one.mutual_information:.2f}")),
        )
    )
    return element("li", *parts)


def _votes(one: Doubted) -> Html:
    """A bar for every class that members voted for."""
    total = sum(number for _, number in one.votes)
    cells = []
    for name, number in one.votes[:_VOTES]:
        share = f"--share:{number / total:.3f}"
        tip = f"{number} of {total} members vote for {name}"
        bar = element("dd", element("i", style=share), str(number), data_tip=tip)
        cells += [element("dt", name), bar]
    return element("dl", *cells, class_="votes", aria_label="votes of the members")
