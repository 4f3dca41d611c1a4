"""Tables 3, 4 and 5 from result files, beside the paper's figures, and what training costs."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise

from paper.ptb import CITED, ROWS, STRUCTURES, TABLE_SIZE, Figures, Row, SizeName
from sparsemble.recipes.networks import LSTMSettings
from sparsemble.results import Result
from sparsemble.results.tables import Table, mean_and_deviation

Results = Mapping[str, Sequence[Result]]


def tables(results: Results, size: SizeName) -> list[Table]:
    """Every table that has something to show."""
    found = [perplexities(results, size, table) for table in TABLE_SIZE]
    found += [structures(results, size), costs(results, size)]
    return [table for table in found if table.rows]


def perplexities(results: Results, size: SizeName, table: int) -> Table:
    """Table 3 or 5; `single` is the best member on the validation text, with its own test value."""
    printed = TABLE_SIZE[table]
    header = (
        "Method",
        "Models",
        "Parameters",
        "FLOPs",
        "Single dev",
        "Single test",
        "Ensemble dev",
        "Ensemble test",
        "Dropout",
        "T",
        "Seeds",
        f"Paper ({printed}): parameters",
        "Paper: FLOPs",
        "Paper: single dev / test",
        "Paper: ensemble dev / test",
    )
    rows = [
        _perplexity_row(row, results[row.recipe])
        for row in ROWS
        if row.table == table and results.get(row.recipe)
    ]
    if table == 5 and rows:
        rows += [_cited(entry) for entry in CITED]
    return Table(f"Table {table}: PTB, size {size}", header, tuple(rows))


def _perplexity_row(row: Row, results: Sequence[Result]) -> tuple[str, ...]:
    models = len(results[0].structures)
    several = models > 1
    return (
        row.method,
        str(models),
        f"{statistics.mean(r.parameters / _unshared(r) for r in results):.2f}×",
        f"{statistics.mean(r.flops_ratio for r in results):.2f}×",
        *(_perplexity(results, part, _of_the_best) for part in ("validation", "test")),
        *(
            _perplexity(results, part, _of_all) if several else "–"
            for part in ("validation", "test")
        ),
        f"{_network(results[0]).dropout:g}",
        f"{results[0].recipe.chain.sampler.temperature:g}",
        str(len(results)),
        *_paper(row.paper, several=several),
    )


def _paper(figures: Figures | None, *, several: bool) -> tuple[str, ...]:
    if figures is None:
        return ("–", "–", "–", "–")
    single, together = (figures.single_dev, figures.single_test), (figures.dev, figures.test)
    if not several and single == (None, None):
        # Table 5 has one column for single models and ensembles.
        single, together = together, single
    pairs = (" / ".join("–" if p is None else f"{p:.1f}" for p in ps) for ps in (single, together))
    return (figures.parameters, figures.flops, *pairs)


def _cited(entry: tuple[str, str, str, str, str]) -> tuple[str, ...]:
    name, parameters, flops, dev, test = entry
    return (f"{name}: cited", *["–"] * 10, parameters, flops, "–", f"{dev} / {test}")


def structures(results: Results, size: SizeName) -> Table:
    """Table 4: sparsity, units and FLOPs of one member, the first of the first seed."""
    rows = []
    for row in {row.recipe: row for row in ROWS}.values():
        if results.get(row.recipe):
            result = results[row.recipe][0]
            if result.recipe.prune is not None or row.recipe == "sgd":
                rows.append(_structure_row(row, result))
    header = (
        "Method",
        "Sparsity",
        "Parameters",
        "Units",
        "FLOPs: LSTM layers + softmax",
        "Total",
        "Paper (large): FLOPs",
    )
    return Table(f"Table 4: structure of one member, size {size}", header, tuple(rows))


def _structure_row(row: Row, result: Result) -> tuple[str, ...]:
    dense = result.flops / result.flops_ratio
    flops: dict[str, int] = {}
    for name, (rows, columns) in result.member_shapes[0].items():
        owner = name.split()[0]  # an untied layer has a matrix a gate
        flops[owner] = flops.get(owner, 0) + 2 * rows * columns
    softmax, total = flops.pop("softmax"), result.member_flops[0]
    return (
        row.method,
        result.recipe.prune.target.replace(" ", "") if result.recipe.prune else "–",
        _millions(result.member_parameters[0]),
        "-".join(map(str, result.structures[0])),
        " + ".join(map(_millions, [*flops.values(), softmax])),
        f"{_millions(total)} ({total / dense:.0%})",
        STRUCTURES.get(row.recipe, "–"),
    )


def costs(results: Results, size: SizeName) -> Table:
    """What training took, in epochs, seconds and FLOPs.

    FLOPs are held against those of dense networks trained with the same regularisation, if there
    are any, or without. Where the ensemble of independent networks was run, epochs and seconds are
    held against its own, epochs as in the paper's footnote, where one of retraining counts half:
    (80 + 15·4·½)/(30·4 + 15·4·½) = 0.73.
    """
    dense = _first(results, "sgd-dropout", "sgd")
    independent = _first(results, "sgd-gsp-pr-4")
    rows = []
    for row in {row.recipe: row for row in ROWS}.values():
        if results.get(row.recipe):
            result = results[row.recipe][0]
            taken = (
                row.method,
                str(len(result.structures)),
                _epochs(result),
                f"{result.seconds['chain']:.0f}",
                f"{result.seconds['retrain']:.0f}",
            )
            rows.append(taken + _shares(result, dense) + _beside(result, independent))
    header: tuple[str, ...] = (
        "Method",
        "Models",
        "Epochs",
        "Chain s",
        "Retraining s",
        "FLOPs ÷ one dense network's",
        "FLOPs ÷ as many dense networks'",
    )
    if independent is not None:
        header += ("Epochs ÷ those of SGD+GSP+PR, 4 models", "Seconds ÷ those")
    return Table(f"Training cost, size {size}", header, tuple(rows))


def _first(results: Results, *rows: str) -> Result | None:
    """The first result of the first of these rows that was run."""
    return next((found[0] for row in rows if (found := results.get(row))), None)


def _beside(result: Result, independent: Result | None) -> tuple[str, ...]:
    """Epochs and seconds of training beside those of independent networks, if there are any."""
    if independent is None:
        return ()
    epochs = _counted_epochs(result) / _counted_epochs(independent)
    seconds = sum(result.seconds.values()) / sum(independent.seconds.values())
    return f"{epochs:.2f}", f"{seconds:.2f}"


def _shares(result: Result, dense: Result | None) -> tuple[str, str]:
    """The FLOPs of training beside those of one dense network, and of as many as there are."""
    if dense is None:
        return "–", "–"
    own, one = _dense_epochs(result), _dense_epochs(dense)
    if own is None or one is None:
        return "–", "–"
    return f"{own / one:.2f}", f"{own / one / len(result.structures):.2f}"


def _dense_epochs(result: Result) -> float | None:
    """The FLOPs of training in epochs of one dense network; of older results by their recipe."""
    known = result.training
    if known is not None and (share := known.share(known.total)) is not None:
        return share * known.dense.epochs
    chain, retrain = result.recipe.chain, result.recipe.retrain
    if result.recipe.choose or (retrain is not None and retrain.taught):
        return None
    again = 0.0 if retrain is None else retrain.epochs * result.flops_ratio
    return chain.epochs * chain.chains + again


def _epochs(result: Result) -> str:
    chain, retrain = result.recipe.chain, result.recipe.retrain
    text = f"{chain.epochs}" + (f"·{chain.chains}" if chain.chains > 1 else "")
    if retrain is None:
        return text
    members, again = len(result.structures), _retraining(result)
    plain = again == retrain.epochs * members
    return f"{text} + {f'{retrain.epochs}·{members}' if plain else f'{again:g}'}"


def _counted_epochs(result: Result) -> float:
    """Epochs of training, those of retraining counted half."""
    chain = result.recipe.chain
    return chain.epochs * chain.chains + _retraining(result) / 2


def _retraining(result: Result) -> float:
    """Epochs of all members that were retrained; where there were candidates that were not chosen,
    or rounds of pruning, as they were counted."""
    recipe, retrain = result.recipe, result.recipe.retrain
    if retrain is None:
        return 0
    plain = not recipe.choose and (recipe.prune is None or recipe.prune.steps == 1)
    if plain or result.training is None:
        return retrain.epochs * len(result.structures)
    others = ("chain", "trial")
    return sum(stage.epochs for stage in result.training.stages if stage.stage not in others)


def _network(result: Result) -> LSTMSettings:
    network = result.recipe.network
    assert isinstance(network, LSTMSettings)
    return network


def _unshared(result: Result) -> int:
    """Parameters of the dense network with an embedding and a softmax of their own, the unit."""
    own = round(result.parameters / result.parameters_ratio)
    network = _network(result)
    if not network.shared:
        return own
    sizes = (network.hidden[-1], *network.hidden)
    recurrent = sum(4 * size * (below + size) for below, size in pairwise(sizes))
    return 2 * own - recurrent


def _of_all(result: Result, part: str) -> float:
    return result.scores[part]["perplexity"]


def _of_the_best(result: Result, part: str) -> float:
    best = result.scores["validation"].best_member("perplexity")
    return result.scores[part].members["perplexity"][best]


def _perplexity(
    results: Sequence[Result], part: str, of_whom: Callable[[Result, str], float]
) -> str:
    return mean_and_deviation([of_whom(result, part) for result in results])


def _millions(count: int) -> str:
    return f"{count / 1e6:.2f}M"
