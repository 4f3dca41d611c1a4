"""Dropout of words: how many go, which go together, and what is read in their place."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from scenarios import WORDS, text
from sparsemble.augmentations import InputNoise, Several, Warp, WordDropout
from sparsemble.data import Corpus, Vocabulary
from sparsemble.errors import InputError
from sparsemble.tasks import Classification, LanguageModelling


def assert_share(dropped: Tensor, share: float) -> None:
    """Independently, each with this probability: within five standard errors."""
    error = 5 * math.sqrt(share * (1 - share) / dropped.numel())
    assert abs(float(dropped.double().mean()) - share) < error


def test_a_share_of_the_words_is_read_as_the_unknown_one():
    tokens = torch.randint(2, 50, (200, 100))
    found = WordDropout(share=0.3, unknown=1)(tokens)
    dropped = found != tokens
    assert set(found[dropped].tolist()) == {1}
    assert_share(dropped, 0.3)


def test_occurrences_of_a_word_go_independently():
    tokens = torch.full((200, 100), 7)
    dropped = WordDropout(share=0.4, unknown=1)(tokens) == 1
    assert_share(dropped, 0.4)
    by_stream = dropped.double().mean(0)  # were they to go together, streams would differ more
    assert (by_stream - 0.4).abs().max() < 6 * math.sqrt(0.24 / 200)


def test_whole_words_go_everywhere_in_a_batch_or_nowhere():
    tokens = torch.randint(2, 5000, (400, 100))
    found = WordDropout(share=0.3, unknown=1, whole=True)(tokens)
    gone, left = set(tokens[found == 1].tolist()), set(tokens[found != 1].tolist())
    assert not gone & left
    assert torch.equal(found[found != 1], tokens[found != 1])
    words = torch.tensor(sorted(gone | left))
    assert_share(torch.tensor([int(word) in gone for word in words]), 0.3)


def test_the_next_batch_loses_other_words():
    tokens = torch.arange(2, 500).view(-1, 1)
    drop = WordDropout(share=0.5, unknown=1, whole=True)
    assert not torch.equal(drop(tokens), drop(tokens))


@pytest.mark.parametrize("whole", [False, True])
def test_a_seed_fixes_the_draw_and_the_text_is_left_alone(whole):
    tokens = torch.randint(7, (35, 20))
    before, drop = tokens.clone(), WordDropout(share=0.5, unknown=1, whole=whole)
    draws = [drop(tokens) for seed in (1, 1, 2) if torch.manual_seed(seed)]
    assert torch.equal(draws[0], draws[1])
    assert not torch.equal(draws[0], draws[2])
    assert (draws[0].shape, draws[0].dtype) == ((35, 20), torch.int64)
    assert torch.equal(tokens, before)


@pytest.mark.parametrize("whole", [False, True])
def test_without_a_share_the_words_stay(whole):
    tokens = text(12).view(4, 3)
    assert torch.equal(WordDropout(share=0.0, unknown=1, whole=whole)(tokens), tokens)


# --- which index <unk> has -------------------------------------------------------------------


def test_the_task_of_a_text_says_which_index_the_unknown_word_has():
    task = LanguageModelling(words=("<eos>", "a", "b", "<unk>"))
    assert task.augmentation(WordDropout(share=0.2)) == WordDropout(share=0.2, unknown=3)


def test_a_word_that_settings_name_is_kept():
    assert LanguageModelling(words=WORDS).augmentation(WordDropout(unknown=4)).unknown == 4


def test_the_parts_of_several_are_told_too():
    several = Several(parts=(WordDropout(), WordDropout(whole=True, unknown=2)))
    told = LanguageModelling(words=WORDS).augmentation(several)
    assert [part.unknown for part in told.parts] == [1, 2]
    assert several.parts[0].unknown is None


def test_what_needs_no_words_is_the_same_for_every_task():
    for task in (LanguageModelling(words=WORDS), Classification(num_classes=2)):
        for given in (Warp(), InputNoise()):
            assert task.augmentation(given) is given
    assert Classification(num_classes=2).augmentation(WordDropout()).unknown is None


def test_the_task_of_a_corpus_finds_it_among_the_words_of_the_corpus():
    vocabulary = Vocabulary.build("abacab", threshold=2)
    corpus = Corpus(vocabulary, *[torch.arange(4)] * 3, unknown={}, name="letters")
    task = LanguageModelling().training(corpus).task
    assert task.augmentation(WordDropout()).unknown == vocabulary.words.index("<unk>") == 1


# --- what is refused -------------------------------------------------------------------------


def test_a_vocabulary_without_the_unknown_word_is_refused_with_the_remedy():
    with pytest.raises(InputError) as told:
        LanguageModelling(words=("<eos>", "a", "b")).augmentation(WordDropout())
    assert str(told.value) == (
        "WordDropout: the text has no <unk> to read in place of a dropped word; make a vocabulary "
        "with <unk> (by a threshold of 2, a smaller size or by writing <unk> in the training "
        "text), or set unknown to the index of another word"
    )


def test_an_index_beyond_the_vocabulary_is_refused():
    with pytest.raises(InputError) as told:
        LanguageModelling(words=WORDS).augmentation(WordDropout(unknown=7))
    assert str(told.value) == (
        "WordDropout: unknown = 7, but the text has 7 different words, 0 to 6"
    )


def test_an_index_that_nobody_told_is_asked_for():
    with pytest.raises(InputError) as told:
        WordDropout()(torch.tensor([[1, 2]]))
    assert str(told.value) == (
        "WordDropout does not know the index of <unk>: set unknown, or call "
        "task.augmentation(...) with the task of the text"
    )


def test_numbers_are_refused():
    with pytest.raises(InputError) as told:
        WordDropout(unknown=1)(torch.rand(3, 4))
    assert str(told.value) == (
        "WordDropout is for words of a text, int64 indices, not for inputs of torch.float32: "
        "numbers take InputDropout"
    )


@pytest.mark.parametrize(
    ("fields", "named"),
    [({"share": 1.0}, "share = 1.0"), ({"unknown": -1}, "unknown = -1"), ({"whole": 3}, "whole")],
)
def test_an_impossible_setting_is_refused_with_the_value_named(fields, named):
    with pytest.raises(InputError, match=named):
        WordDropout(**fields)
