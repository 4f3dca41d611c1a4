"""Language models from the command line: learned, sampled from, evaluated; texts of one's own."""

import json
import re

import pytest

from sparsemble.ensemble import Ensemble

TINY = {
    "data.name": "grammar",
    "data.portion": 0.05,
    "network.hidden": [10, 8],
    "network.embedding": 8,
    "chain.epochs": 4,
    "chain.burn_in": 0,
    "chain.interval": 2,
    "chain.batch_size": 5,
    "retrain.epochs": 1,
    "retrain.batch_size": 5,
}


@pytest.mark.slow
def test_a_language_model_is_learned_and_sampled_from_the_command_line(tmp_path, command):
    small = {key: value for key, value in TINY.items() if key != "data.name"}
    code, out, err = command(
        *("learn", "grammar", "--baseline=none", "--out", str(tmp_path)),
        *(f"--set={key}={value}" for key, value in small.items()),
    )
    assert code == 0, err
    assert re.search(r"Perplexity \(test\)\W+\d+\.\d\d", out)
    asked = ("sample", str(tmp_path), "--words", "30", "--start", "the", "--seed", "3")
    _, text, _ = command(*asked)
    known = Ensemble.load(tmp_path).task.words
    assert text.split()[0] == "the"
    assert set(text.split()) <= set(known)
    assert text == command(*asked)[1]
    # As cold as a number can be, with a seed of any size.
    cold = ("--temperature", "1e-310", "--seed", "99999999999999999999")
    code, text, err = command("sample", str(tmp_path), "--words", "5", *cold)
    assert code == 0, err
    code, out, _ = command("evaluate", str(tmp_path), "--on", "grammar", "--json")
    found = json.loads(out)
    together, alone = found["curve"]["perplexity"][-1], found["members"]["perplexity"]
    assert 9 < found["reference"]["perplexity"] < together < sum(alone) / len(alone)


def test_a_text_of_ones_own_is_learned_and_its_unknown_words_are_counted(tmp_path, command):
    lines = ["the cat sees the dog", "the dog sees the cat", "a cat sleeps"] * 40
    for part in ("train", "valid", "test"):
        (tmp_path / f"{part}.txt").write_text("\n".join(lines))
    (tmp_path / "test.txt").write_text("the zebra sees a cat\nthe quagga sleeps\n")
    small = {key: value for key, value in TINY.items() if key != "data.portion"}
    mine = {"data.name": "text", "data.path": f"'{tmp_path}'", "data.threshold": 45}
    code, out, err = command(
        *("learn", "grammar", "--baseline=none", "--out", str(tmp_path / "run")),
        *(f"--set={key}={value}" for key, value in (small | mine).items()),
    )
    assert code == 0, err
    # "a" and "sleeps" are seen 40 times only; "zebra" and "quagga" never.
    told = "{} words of the {} text of .* are not in the vocabulary: read as <unk>"
    for part, unknown in (("train", 80), ("validation", 80), ("test", 4)):
        assert re.search(told.format(unknown, part), out)
    _, _, err = command("sample", str(tmp_path / "run"), "--start", "the zebra", "--words", "3")
    assert "1 words of --start are unknown: read as <unk>" in err
    (tmp_path / "test.txt").rename(tmp_path / "my.test.tokens")  # a name that learn takes as well
    code, out, err = command("evaluate", str(tmp_path / "run"), "--on", str(tmp_path), "--json")
    assert code == 0, err
    [note] = json.loads(out)["notes"]
    assert note.startswith("4 words of ")
    named = ("--on", str(tmp_path), "--part", "some")
    code, _, err = command("evaluate", str(tmp_path / "run"), *named)
    assert code == 2
    assert "part 'some' is not one of train, validation, test" in err
    words = Ensemble.load(tmp_path / "run").task.words
    assert set(words) == {"<eos>", "<unk>", "the", "cat", "dog", "sees"}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"data.name": "text", "data.path": "'nowhere'"}, "nowhere does not exist"),
        ({"retrain.batch_size": 1_000_000}, "batch size of 1000000 is too large"),
        ({"network.shared": "true", "network.embedding": 5}, "shared"),
    ],
)
def test_what_does_not_fit_is_told_before_the_baseline_is_trained(
    changes, message, command, tmp_path
):
    arguments = (f"--set={key}={value}" for key, value in changes.items())
    code, _, err = command("learn", "grammar", "--out", str(tmp_path / "run"), *arguments)
    assert code == 2
    assert message in err
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["sample", "nowhere"], "nowhere is not a folder with a saved ensemble"),
        (["learn", "grammar", "--set", "data.size=100"], "the vocabulary of grammar is fixed"),
    ],
)
def test_bad_input_is_one_clear_message(arguments, message, command):
    code, _, err = command(*arguments)
    assert code == 2
    assert message in err
