"""Text: words become indices and come back, what is missing or odd is named, windows follow on."""

import gzip
import hashlib
import math
from collections import Counter

import pytest
import torch

from sparsemble.data import Corpus, TextBatches, Vocabulary, grammar, ptb, read_corpus
from sparsemble.data.downloads import data_folder
from sparsemble.data.vocabulary import END, UNKNOWN
from sparsemble.errors import CorruptFileError, InputError

WORDS = ["b", "a", "b", "c", "a", "b", "d"]


@pytest.mark.parametrize(
    ("words", "limits", "expected"),
    [
        (WORDS, {}, [END, "b", "a", "c", "d"]),
        (WORDS, {"size": 5}, [END, "b", "a", "c", "d"]),
        (WORDS, {"size": 4}, [END, UNKNOWN, "b", "a"]),
        (WORDS, {"size": 3}, [END, UNKNOWN, "b"]),
        (WORDS, {"threshold": 2}, [END, UNKNOWN, "b", "a"]),
        (WORDS, {"threshold": 2, "size": 3}, [END, UNKNOWN, "b"]),
        ([*WORDS, UNKNOWN, END], {}, [END, UNKNOWN, "b", "a", "c", "d"]),
        ([*WORDS, UNKNOWN, END], {"size": 5}, [END, UNKNOWN, "b", "a", "c"]),
        (["z", "y", "x", "y", "x"], {"size": 4}, [END, "y", "x", "z"]),
    ],
)
def test_a_vocabulary_keeps_the_most_frequent_words_the_first_to_appear_first(
    words, limits, expected
):
    assert list(Vocabulary.build(words, **limits).words) == expected


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        ({"size": 2}, "vocabulary of 2 has no room .* size of 3 or more"),
        ({"threshold": 0}, "count of 1 or more: 0"),
        ({"threshold": 4}, "no word occurs 4 times, the most frequent, 'b', 3: lower"),
    ],
)
def test_limits_that_leave_no_word_are_refused(limits, message):
    with pytest.raises(InputError, match=message):
        Vocabulary.build(WORDS, **limits)


@pytest.mark.parametrize(
    ("words", "message"),
    [(("a", "b", "a"), "holds 'a' 2 times"), (("a", 3), "holds 3, which is not a text")],
)
def test_a_vocabulary_is_made_of_different_texts(words, message):
    with pytest.raises(InputError, match=message):
        Vocabulary(words)


def test_words_become_indices_and_come_back_except_the_unknown_which_are_counted():
    vocabulary = Vocabulary((END, UNKNOWN, "a", "b"))
    indices, unknown = vocabulary.encode(["b", "x", UNKNOWN, "a", "y", END], "the example")
    assert indices.tolist() == [3, 1, 1, 2, 1, 0]
    assert indices.dtype == torch.int64
    assert unknown == 2
    assert vocabulary.decode(indices) == ["b", UNKNOWN, UNKNOWN, "a", UNKNOWN, END]
    assert vocabulary.encode([], "nothing")[0].dtype == torch.int64


def test_unknown_words_without_a_word_for_them_are_named_and_counted():
    with pytest.raises(InputError, match=r"the example: 'x' is not .* \(2 of 3 words .* threshold"):
        Vocabulary((END, "a")).encode(["a", "x", "y"], "the example")


@pytest.mark.parametrize("index", [-1, 2])
def test_an_index_outside_the_vocabulary_is_refused(index):
    with pytest.raises(InputError, match=f"index {index} is outside the vocabulary of 2 words"):
        Vocabulary((END, "a")).decode([0, index])


def write(folder, **texts):
    folder.mkdir(exist_ok=True)
    for name, text in texts.items():
        content = text if isinstance(text, bytes) else text.encode()
        (folder / name.replace("_", ".")).write_bytes(content)
    return folder


PARTS = ("train", "validation", "test")
TRAIN, VALID, TEST = "the dog sees\nthe cat\n", "the cat sees\n", "\n dog \r\n\n\tthe  cat"


@pytest.mark.parametrize(
    "names",
    [
        ("train_txt", "valid_txt", "test_txt"),
        ("train_txt", "dev_txt", "test_txt"),
        ("TRAIN_txt", "validation_txt", "Test_txt"),
        ("ptb_train_txt", "ptb_valid_txt", "ptb_test_txt"),
        ("wiki_train_tokens", "wiki_valid_tokens", "wiki_test_tokens"),
        ("train", "dev", "test"),
    ],
)
def test_a_folder_becomes_three_streams_with_an_end_after_every_line_that_has_words(
    tmp_path, names
):
    texts = dict(zip(names, (TRAIN, VALID, TEST), strict=True))
    folder = write(tmp_path / "pets", README_md="train on this", _train_txt="hidden", **texts)
    corpus = read_corpus(folder)
    assert corpus.name == "pets"
    assert corpus.vocabulary.words == (END, "the", "dog", "sees", "cat")
    assert corpus.train.tolist() == [1, 2, 3, 0, 1, 4, 0]
    assert corpus.validation.tolist() == [1, 4, 3, 0]
    assert corpus.test.tolist() == [2, 0, 1, 4, 0]
    assert corpus.unknown == {"train": 0, "validation": 0, "test": 0}
    assert corpus.entropy is None
    assert corpus.true_nll is None


def test_the_three_files_can_be_named_one_by_one_and_a_byte_order_mark_is_no_word(tmp_path):
    folder = write(tmp_path, a_txt="\ufeff" + TRAIN, b_txt=VALID, c_txt=TEST)
    files = {part: folder / f"{name}.txt" for part, name in zip(PARTS, "abc", strict=True)}
    assert read_corpus(files).vocabulary.words == (END, "the", "dog", "sees", "cat")
    with pytest.raises(InputError, match="files for train, validation, test: got train, dev"):
        read_corpus({"train": folder / "a.txt", "dev": folder / "b.txt"})
    with pytest.raises(InputError, match=r"missing\.txt does not exist"):
        read_corpus({**files, "test": folder / "missing.txt"})


def test_the_vocabulary_is_that_of_the_training_text_and_what_it_lacks_is_counted(tmp_path):
    folder = write(tmp_path, train_txt=TRAIN, valid_txt="the owl sees\n", test_txt="an owl\n")
    with pytest.raises(InputError, match=r"valid\.txt: 'owl' is not in the vocabulary"):
        read_corpus(folder)
    corpus = read_corpus(folder, size=4)
    assert corpus.vocabulary.words == (END, UNKNOWN, "the", "dog")
    assert corpus.unknown == {"train": 2, "validation": 2, "test": 2}
    assert corpus.validation.tolist() == [2, 1, 1, 0]
    assert read_corpus(folder, threshold=2).vocabulary.words == (END, UNKNOWN, "the")
    with pytest.raises(InputError, match=r"train\.txt: .* no room"):
        read_corpus(folder, size=1)


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ({}, r"holds no train text: looked for train\.txt, .* among 0 files"),
        (
            {"train_txt": TRAIN, "test_txt": TEST},
            r"holds no validation text: looked for valid\.txt or dev\.txt or validation\.txt",
        ),
        ({"train_txt": TRAIN, "valid_txt": VALID}, "holds no test text"),
        (
            {"train_txt": TRAIN, "ptb_train_txt": TRAIN},
            r"2 files for the train text, ptb\.train\.txt, train\.txt: leave one",
        ),
        (
            {"train_txt": TRAIN, "valid_txt": VALID, "dev_txt": VALID, "test_txt": TEST},
            r"2 files for the validation text, dev\.txt, valid\.txt",
        ),
        ({"train_txt": "", "valid_txt": VALID, "test_txt": TEST}, r"train\.txt is empty"),
        ({"train_txt": TRAIN, "valid_txt": " \n", "test_txt": TEST}, r"valid\.txt is empty"),
        (
            {"train_txt": b"abc\xffdef", "valid_txt": VALID, "test_txt": TEST},
            r"train\.txt is not UTF-8 text: byte 3 is 0xff",
        ),
        (
            {"train_txt": TRAIN, "valid_txt": VALID, "test_txt": b"caf\xc3"},
            r"test\.txt is not UTF-8 text: byte 3 is 0xc3",
        ),
        (
            {"train_txt": gzip.compress(b"the", mtime=0), "valid_txt": VALID, "test_txt": TEST},
            r"train\.txt is compressed, not plain text",
        ),
        (
            {"train_txt": "the dog\nthe cat <eos>\n", "valid_txt": VALID, "test_txt": TEST},
            r"train\.txt holds <eos> in line 2",
        ),
    ],
)
def test_a_folder_that_cannot_be_read_as_text_is_refused_with_the_reason(tmp_path, texts, message):
    with pytest.raises(InputError, match=message):
        read_corpus(write(tmp_path / "text", **texts))


def test_a_missing_folder_and_a_file_in_its_place_are_told_apart(tmp_path):
    with pytest.raises(InputError, match=r"nowhere does not exist: name a folder"):
        read_corpus(tmp_path / "nowhere")
    (tmp_path / "file").write_text(TRAIN)
    with pytest.raises(InputError, match="file is a file, not a folder"):
        read_corpus(str(tmp_path / "file"))


def windows(batches, **position):
    pairs = batches.epoch(0, **position)
    return [(inputs.tolist(), targets.tolist()) for inputs, targets in pairs]


def test_windows_follow_each_other_along_the_rows_of_the_text():
    # Rows 0-5 and 6-11; 12 fills no column.
    batches = TextBatches(torch.arange(13), batch_size=2, window=2)
    assert windows(batches) == [
        ([[0, 6], [1, 7]], [[1, 7], [2, 8]]),
        ([[2, 8], [3, 9]], [[3, 9], [4, 10]]),
        ([[4, 10]], [[5, 11]]),
    ]
    assert batches.steps == 3
    assert batches.num_data == 2 * 3  # windows that the loss of an epoch averages


def test_the_order_of_a_text_is_the_same_in_every_epoch_and_can_be_taken_up_anywhere():
    batches = TextBatches(torch.arange(40), batch_size=3, window=4)
    first = windows(batches)
    again = [(i.tolist(), t.tolist()) for i, t in batches.epoch(7, variant=2)]
    assert again == first
    assert len(first) == batches.steps == 3
    assert windows(batches, start=2) == first[2:]
    assert windows(batches, start=3) == []


def test_windows_are_views_of_one_tensor():
    batches = TextBatches(torch.arange(100), batch_size=4, window=5)
    storages = {t.untyped_storage().data_ptr() for pair in batches.epoch(0) for t in pair}
    assert len(storages) == 1
    assert all(t.is_contiguous() for pair in batches.epoch(1) for t in pair)


def test_a_window_longer_than_the_text_is_one_window():
    batches = TextBatches(torch.arange(6), batch_size=1, window=100)
    assert windows(batches) == [([[0], [1], [2], [3], [4]], [[1], [2], [3], [4], [5]])]
    assert (batches.steps, batches.num_data) == (1, 1)


def cut_lengths(batches, epoch, **position):
    return [len(inputs) for inputs, _ in batches.epoch(epoch, **position)]


@pytest.mark.parametrize(
    ("length", "batch_size", "window", "jitter"),
    [
        (2000, 4, 35, 0.25),
        (2000, 4, 20, 0.1),
        (997, 3, 8, 0.25),
        (41, 1, 4, 0.25),
    ],
)
def test_jittered_windows_have_every_token_as_a_target_once(length, batch_size, window, jitter):
    batches = TextBatches(torch.arange(length), batch_size, window, jitter=jitter)
    plain = TextBatches(torch.arange(length), batch_size, window)
    assert (batches.steps, batches.num_data) == (plain.steps, plain.num_data)
    wanted = [torch.cat(parts) for parts in zip(*plain.epoch(0), strict=True)]
    farthest = int(jitter * batches.mean_window)
    for epoch in range(30):
        found = [torch.cat(parts) for parts in zip(*batches.epoch(epoch), strict=True)]
        assert all(map(torch.equal, found, wanted))
        lengths = cut_lengths(batches, epoch)
        assert len(lengths) == batches.steps
        assert min(lengths) >= int(batches.mean_window) - 2 * farthest >= 1
        assert max(lengths) <= math.ceil(batches.mean_window) + 2 * farthest
        assert lengths[0] >= int(batches.mean_window)  # the loss that a rise is measured from


def test_jittered_cuts_follow_seed_epoch_and_variant_and_can_be_taken_up_anywhere():
    def windows_of(seed):
        return TextBatches(torch.arange(2000), batch_size=4, window=20, jitter=0.25, seed=seed)

    batches = windows_of(seed=1)
    first = cut_lengths(batches, 3)
    assert cut_lengths(windows_of(seed=1), 3) == first
    for other in (
        cut_lengths(windows_of(seed=2), 3),
        cut_lengths(batches, 4),
        cut_lengths(batches, 3, variant=1),
    ):
        assert other != first
    whole = list(batches.epoch(3))
    for start in range(batches.steps + 1):
        rest = list(batches.epoch(3, start=start))
        assert len(rest) == batches.steps - start
        for pair, known in zip(rest, whole[start:], strict=True):
            assert all(map(torch.equal, pair, known))


def test_a_jitter_of_less_than_a_step_moves_nothing():
    batches = TextBatches(torch.arange(40), batch_size=2, window=3, jitter=0.25)
    assert cut_lengths(batches, 5) == [3, 3, 3, 3, 3, 3, 1]


def test_with_a_jitter_of_a_quarter_any_token_can_begin_a_window():
    batches = TextBatches(torch.arange(401), batch_size=1, window=20, jitter=0.25)
    beginnings = {int(inputs[0, 0]) for epoch in range(300) for inputs, _ in batches.epoch(epoch)}
    assert beginnings == {0, *range(20, 391)}


@pytest.mark.parametrize("jitter", [-0.1, 0.26, float("nan")])
def test_a_jitter_that_leaves_no_windows_is_refused(jitter):
    with pytest.raises(InputError, match=r"jitter = .*: must be at least 0 and at most 0\.25"):
        TextBatches(torch.arange(40), 2, 4, jitter=jitter)


@pytest.mark.parametrize(
    ("tokens", "batch_size", "window", "message"),
    [
        (torch.arange(9), 5, 2, "size of 5 is too large for a text of 9 tokens: .* use 4 at most"),
        (torch.arange(1), 1, 2, "text of 1 tokens: .* give a longer text"),
        (torch.arange(9), 0, 2, "batch size 0 and window 2 must be 1 or more"),
        (torch.arange(9), 2, 0, "batch size 2 and window 0 must be 1 or more"),
        (
            torch.arange(8).view(2, 4),
            2,
            2,
            r"one row of int64 indices, not torch.int64 of \(2, 4\)",
        ),
        (torch.ones(9), 2, 2, r"not torch.float32 of \(9,\)"),
    ],
)
def test_a_text_that_cannot_be_cut_into_windows_is_refused(tokens, batch_size, window, message):
    with pytest.raises(InputError, match=message):
        TextBatches(tokens, batch_size, window)


def test_another_text_in_the_place_of_penn_treebank_is_refused(tmp_path):
    write(tmp_path / "ptb", ptb_train_txt=TRAIN)
    with pytest.raises(CorruptFileError, match=r"ptb\.train\.txt it should be"):
        ptb(tmp_path)


@pytest.mark.skipif(
    not (data_folder() / "ptb").is_dir(), reason="Penn Treebank is not in the data directory"
)
def test_penn_treebank_is_what_it_should_be():
    corpus = ptb()
    assert [len(corpus.train), len(corpus.validation), len(corpus.test)] == [
        929_589,
        73_760,
        82_430,
    ]
    assert len(corpus.vocabulary) == 10_000
    assert corpus.unknown == {"train": 0, "validation": 0, "test": 0}
    assert corpus.vocabulary.words[:4] == (END, UNKNOWN, "the", "N")
    lines = Counter(corpus.train.tolist())[corpus.vocabulary.words.index(END)]
    assert lines == 42_068
    text = " ".join(corpus.vocabulary.decode(corpus.test)).replace(f" {END}", " \n")
    # The original has a space before every line and before its break.
    rebuilt = " " + text.removesuffix("\n") + "\n"
    assert hashlib.sha256(rebuilt.encode()).hexdigest() == (
        "dd65dff31e70846b2a6030a87482edcd5d199130cdcfa1f3dccbb033728deee0"
    )
    batches = TextBatches(corpus.train, batch_size=20, window=35)
    # Rows of 46,479: 20·46,478 predictions in windows of 35.
    assert (batches.steps, batches.num_data) == (1328, 26_560)


@pytest.mark.parametrize(
    ("part", "tokens", "message"),
    [
        ("validation", torch.tensor([]).long(), "the validation part of mine: a text of 0 tokens"),
        ("test", torch.tensor([0, 1], dtype=torch.int32), "the test part of mine: a text is one"),
        ("train", torch.tensor([0, 999]), "the train part of mine: the text holds the index 999"),
    ],
)
def test_a_corpus_of_ones_own_is_checked_when_it_is_made(part, tokens, message):
    parts = dict.fromkeys(("train", "validation", "test"), torch.tensor([0, 1, 0])) | {part: tokens}
    with pytest.raises(InputError, match=message):
        Corpus(Vocabulary(("<eos>", "a")), **parts, unknown={}, name="mine")


@pytest.mark.parametrize("portion", [0, -0.5, 1.5])
def test_a_portion_of_a_text_lies_between_nothing_and_all_of_it(portion):
    with pytest.raises(InputError, match=f"portion = {portion}"):
        grammar().beginning(portion)


def test_the_beginning_of_a_text_forgets_what_was_counted_on_all_of_it():
    whole = grammar()
    part = whole.beginning(0.25)
    assert torch.equal(part.train, whole.train[: round(len(whole.train) / 4)])
    assert set(part.unknown) == set(part.true_nll) == {"validation", "test"}
    assert whole.beginning(1) is whole
