"""What a run shows of itself while it goes on, on a terminal and elsewhere."""

from __future__ import annotations

import functools
import io

from rich.console import Console

from sparsemble.data import digits
from sparsemble.learning import learn
from sparsemble.nets import feedforward
from sparsemble.progress.showing import shown_if
from sparsemble.progress.terminal import TerminalProgress
from sparsemble.recipes import load_recipe
from sparsemble.stages import Callback, Rollback, Shed

QUICK = {
    "chain.chains": 2,
    "chain.epochs": 6,
    "chain.burn_in": 2,
    "chain.interval": 2,
    "retrain.epochs": 2,
}


def shown(terminal: bool) -> str:
    out = io.StringIO()
    console = Console(
        file=out, force_terminal=terminal, width=220, highlight=False, color_system=None
    )
    progress = TerminalProgress(console, "digits", lines_every=0)
    recipe = load_recipe("digits", QUICK)
    network = functools.partial(recipe.network.build, 64, 10)
    learn(network, digits()[0], recipe, callback=progress, progress=False)
    progress.rolled_back(Rollback("chain", 0, 25, "loss 9", 15, 1, 0.5), lambda: None)
    progress.close()
    return out.getvalue()


def test_plain_lines_tell_stage_loss_sparsity_ensemble_rate_and_time_left():
    lines = shown(terminal=False).splitlines()
    sampling = next(line for line in lines if "ensemble of 2" in line)
    assert sampling.startswith("digits: sampling ")
    for part in ("epoch ", "loss ", "near-zero groups ", "error ", " steps/s", "about ", " left"):
        assert part in sampling
    assert any("retraining" in line for line in lines)
    assert "diverged at step 25 (loss 9); went back to step 15" in lines[-1]


def test_a_terminal_gets_a_live_bar():
    output = shown(terminal=True)
    assert "sampling" in output
    assert "retraining" in output
    assert "steps/s" in output
    assert "ensemble of 2: error" in output


def test_how_much_of_a_network_is_left_is_that_of_the_chain_under_way():
    out = io.StringIO()
    console = Console(file=out, width=220, highlight=False, color_system=None)
    progress = TerminalProgress(console, "digits", lines_every=0)
    shed = Shed("chain", 0, 5, 1, {"hidden1": 3}, {"hidden1": 7}, {"hidden1": 10}, 0.7)
    progress.started("chain", 0, 2, 0, 10)
    progress.shed(shed)
    progress.stepped(0, 6, 1.0, lambda: None)
    progress.started("chain", 1, 2, 0, 10)
    progress.stepped(1, 1, 1.0, lambda: None)
    progress.shed(shed)
    progress.rolled_back(Rollback("chain", 1, 25, "loss 9", 15, 1, 0.5), lambda: None)
    progress.stepped(1, 2, 1.0, lambda: None)
    lines = [line for line in out.getvalue().splitlines() if "sampling" in line]
    assert sum("70 % of the FLOPs left" in line for line in lines) == 1


def test_python_shows_progress_where_somebody_may_look():
    callback = Callback()
    for wanted, terminal, is_shown in [
        (None, True, True),
        (None, False, False),
        (True, False, True),
        (False, True, False),
    ]:
        console = Console(file=io.StringIO(), force_terminal=terminal)
        with shown_if(wanted, callback, "learning", console) as told:
            assert (told is callback) == (not is_shown)


def test_the_caller_is_told_besides_what_is_shown(capsys):
    seen = []

    class Count(Callback):
        def epoch_ended(self, record):
            seen.append(record.epoch)

    train, _ = digits()
    network = feedforward(64, [8], 10)
    learn(network, train, load_recipe("digits", QUICK), callback=Count(), progress=True)
    assert seen
    assert capsys.readouterr().out == ""


def test_a_notebook_without_widgets_gets_lines(monkeypatch):
    monkeypatch.setattr("sparsemble.progress.terminal.find_spec", lambda name: None)
    notebook = Console(file=io.StringIO(), force_jupyter=True)
    assert TerminalProgress(notebook, "digits", lines_every=7)._pause == 7
