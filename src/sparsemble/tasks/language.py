"""Language modelling: the next word at every position of a text.

The loss of a window is summed over its steps and averaged over the parallel streams, so the paper's
rates, clipping and λ apply as printed; the network's state is carried through an epoch, cut off
from the gradient (truncated back-propagation). Members' word probabilities are averaged at every
position. A text is scored a segment at a time, of which only the probabilities of the words that
came are kept, so memory does not grow with its length.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import torch
import torch.nn.functional as F
from pydantic import Field, SerializerFunctionWrapHandler, model_serializer
from pydantic.json_schema import SkipJsonSchema
from torch import Tensor, nn

from sparsemble.augmentations import Augmentation
from sparsemble.data import Batches, Corpus, Inputs, Text, TextBatches, Vocabulary
from sparsemble.data.named import EXAMPLES, TEXTS
from sparsemble.data.targets import IGNORED
from sparsemble.data.text import part_of
from sparsemble.data.vocabulary import END, UNKNOWN, text_of, words_of
from sparsemble.data.windows import MOST_JITTER
from sparsemble.errors import InputError
from sparsemble.pages.blocks import Section
from sparsemble.settings import Count, Names
from sparsemble.tasks.carrying import Carrying, Rereading
from sparsemble.tasks.cross_entropy import summed_cross_entropy
from sparsemble.tasks.forms import Form, Writing
from sparsemble.tasks.segments import segments
from sparsemble.tasks.task import Answer, Continued, Evaluation, Forward, Metric, Predictor, Task
from sparsemble.tasks.text_files import predicted_text, scored_text
from sparsemble.tasks.uncertainty import (
    Uncertainty,
    entropies,
    exported_probabilities,
    records_of_probabilities,
)
from sparsemble.tasks.views import View, share, view_of_probabilities, votes

_WATCHED = 20_000
"""Tokens that a growing ensemble is watched on at most."""
_STREAMS = 20
_NEXT = 10
"""Words that a prediction names."""


class LanguageModelling(Task):
    """Perplexity of a text; the vocabulary is part of the task."""

    kind: Literal["language-modelling"] = "language-modelling"
    window: Count = 35
    """Steps a network is unrolled for, and its unit of data: the loss of a window is summed."""
    jitter: Annotated[float, Field(ge=0, le=MOST_JITTER)] = 0.0
    """How far the cuts between windows are moved at random, anew in every epoch, as a share of a
    window: with 0.25 windows are between half and one and a half times as long."""
    context: Count | None = None
    """For networks that carry no state: how many of the words before are read with every window."""
    words: SkipJsonSchema[Names | None] = Field(default=None, repr=False)
    """The vocabulary; found in the data."""

    noun: ClassVar[str] = "language models"
    log_score: ClassVar[str] = "perplexity"
    block: ClassVar[int] = 100
    metrics: ClassVar[tuple[Metric, ...]] = (Metric("perplexity", "Perplexity", ".2f"),)
    report_part: ClassVar[str] = "validation"
    networks: ClassVar[str] = (
        "a text needs a network that takes tokens and a state and returns logits and a state, as "
        "LanguageModel does, or, with a task.context, one without a state"
    )
    batch_dim: ClassVar[int] = 1

    @model_serializer(mode="wrap")
    def _written(self, plain: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Without a jitter of 0 and a context of none, so that runs begun before there was any can
        go on."""
        fields: dict[str, Any] = plain(self)
        if fields.get("jitter") == 0:
            del fields["jitter"]
        if fields.get("context", 0) is None:
            del fields["context"]
        return fields

    @classmethod
    def accepts(cls, data: Any) -> bool:
        """A `Corpus`."""
        return isinstance(data, Corpus)

    @property
    def sizes(self) -> tuple[int, int]:
        """Words that are read, and words that may come."""
        return len(self.words or ()), len(self.words or ())

    @property
    def vocabulary(self) -> Vocabulary:
        """The words with their indices."""
        if self.words is None:
            raise InputError("the task knows no words yet: they come with a text to learn from")
        return Vocabulary(self.words)

    # Texts

    def training(
        self,
        data: Any,
        *,
        seed: int = 0,
        outputs: int | None = None,
        num_data: int | None = None,
        validation: Any = None,
        dtype: torch.dtype = torch.float32,
    ) -> TextTraining:
        """A `Corpus`: its training text to learn from, its validation text to watch."""
        if not isinstance(data, Corpus):
            raise InputError(
                f"a language model learns from a Corpus, not from {type(data).__name__}: "
                "read_corpus(folder) makes one"
            )
        if num_data is not None:
            raise InputError("num_data is only for data loaders: a text knows its windows")
        if validation is not None:
            raise InputError("validation is only for examples: a text has a validation part")
        if outputs is not None and outputs != len(data.vocabulary):
            raise InputError(f"the text has {len(data.vocabulary)} words, the network {outputs}")
        if END not in data.vocabulary.words:
            raise InputError(f"the vocabulary lacks {END}, after which every text begins")
        return TextTraining(self.model_copy(update={"words": data.vocabulary.words}), data, seed)

    def inputs(
        self, values: Any, feature_names: Sequence[str] | None = None, source: str = "the text"
    ) -> Tensor:
        """Tokens `(steps, streams)`."""
        tokens: Tensor = torch.as_tensor(values)
        self.vocabulary.check(tokens.flatten())
        return tokens

    def evaluation(self, data: Any, name: str = "the text") -> Evaluation:
        """A `Text` or tokens; every one is a target once, the first follows an `<eos>`."""
        if isinstance(data, Corpus):
            raise InputError("a corpus has parts: say which, corpus.part('test')")
        text = data if isinstance(data, Text) else Text(torch.as_tensor(data), name)
        vocabulary = self.vocabulary
        vocabulary.check(text.tokens)
        if not 1 <= text.streams <= len(text.tokens):
            raise InputError(
                f"a text of {len(text.tokens)} tokens cannot be read in {text.streams} streams"
            )
        first = vocabulary.index(END)
        reference = None if text.true_nll is None else {"perplexity": math.exp(text.true_nll)}
        return Evaluation(
            text.name,
            len(text.tokens),
            partial(segments, text, first),  # which other processes can be sent
            text,
            reference=reference,
            notes=text.notes,
            streams=text.streams,
        )

    def evaluation_from(
        self, source: str, part: str, folder: Path | None, **options: Any
    ) -> Evaluation:
        """A part of a named text, or a text file, or that part's file in a folder."""
        streams = int(options.pop("streams", None) or 1)
        if options:
            raise InputError(f"{', '.join(options)}: not for texts")
        if source in EXAMPLES:
            raise InputError(f"{source!r} holds examples, and the ensemble {self.noun}")
        if source not in TEXTS:
            path = Path(source)
            file = part_of(path, part) if path.is_dir() else path
            return scored_text(self, file, source, streams)
        corpus = TEXTS[source](folder)
        known = corpus.part(part)
        tokens, unknown = self.vocabulary.encode(corpus.vocabulary.decode(known.tokens), source)
        true_nll = None if unknown else known.true_nll  # which is of the words as they were
        return self.evaluation(Text(tokens, source, streams, true_nll, unknown))

    def augmentation(self, given: Augmentation) -> Augmentation:
        """For a text in these words: `<unk>` may stand for one that is dropped."""
        words = self.vocabulary.words
        return given.for_text(len(words), words.index(UNKNOWN) if UNKNOWN in words else None)

    def check(self, network: nn.Module, example: Tensor) -> None:
        """Does the network take tokens and a state, and return logits and a state?"""
        try:
            logits = self.forward(network)(example)
            fits = logits.shape == (*example.shape, self.outputs)
        except Exception as error:  # whatever a network says of tokens
            raise InputError(
                f"{self.networks}; {type(network).__name__} does not: {error}"
            ) from None
        if not fits:
            raise InputError(
                f"for tokens {tuple(example.shape)} the network must return logits "
                f"{(*example.shape, self.outputs)}, not {tuple(logits.shape)}"
            )

    # Predictions

    def forward(self, network: Callable[..., Any]) -> Forward:
        """Called with the state that the call before left, or with the words before its own."""
        return Carrying(network) if self.context is None else Rereading(network, self.context)

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Cross-entropy summed over the steps, averaged over the streams."""
        if outputs.ndim == 4:
            return torch.stack([self.loss(own, targets) for own in outputs])
        return summed_cross_entropy(outputs, targets) / targets.shape[1]

    def taught_loss(self, outputs: Tensor, prediction: Tensor) -> Tensor:
        """Cross-entropy with the predicted probabilities, of which the logarithms are given."""
        each = -(prediction.exp() * outputs.log_softmax(-1)).sum(-1)
        loss: Tensor = each.sum(-2).mean(-1)
        return loss

    def examples_in(self, targets: Tensor) -> int:
        """Every word."""
        return targets.numel()

    def weight(self, targets: Tensor) -> float:
        """The streams."""
        return float(targets.shape[1])

    def part(
        self, inputs: Inputs, targets: Tensor, bounds: Callable[[int], tuple[int, int]]
    ) -> tuple[Inputs, Tensor]:
        """Some of the streams."""
        assert isinstance(inputs, Tensor), "a text is one input"
        first, last = bounds(targets.shape[1])
        return inputs[:, first:last], targets[:, first:last]

    def guess(self, batches: Batches) -> float:
        """Every word equally probable."""
        return _mean_window(batches) * math.log(self.outputs)

    def loss_figure(self, loss: float, batches: Batches) -> tuple[str, float]:
        """The perplexity, `exp` of the loss per token."""
        return "perplexity", math.exp(min(loss / _mean_window(batches), 700.0))

    def evidence(self, outputs: Tensor, targets: Tensor | None = None) -> Tensor:
        """Log-probabilities: of every word, or of the words that came, one after the other."""
        if targets is None:
            return outputs.log_softmax(-1)
        flat = targets.flatten()
        losses = F.cross_entropy(outputs.flatten(0, 1), flat, reduction="none")
        return -losses[flat != IGNORED].double()

    def is_usable(self, evidence: Tensor) -> Tensor:
        """The logarithm of 0, too: a word that cannot come."""
        return evidence < math.inf

    def mix(self, evidence: Tensor) -> Tensor:
        """The logarithm of the mean probability."""
        return evidence.logsumexp(0) - math.log(len(evidence))

    def uncertainty(self, evidence: Tensor) -> Uncertainty:
        """Entropy of the next word, and the mutual information between word and member."""
        return entropies(evidence.exp())

    def exported(self, evidence: Tensor, *, members: bool = False) -> dict[str, Tensor]:
        """Mean probabilities of the next word, their entropy and the mutual information."""
        return exported_probabilities(self.mix(evidence).exp(), evidence.exp(), members=members)

    def made_up(self, count: int, length: int) -> Tensor:
        """Words that follow no rule, `(steps, streams)`."""
        chance = torch.Generator().manual_seed(0)
        return torch.randint(self.sizes[0], (length, count), generator=chance)

    # Metrics

    def statistics(self, prediction: Tensor, targets: Tensor) -> dict[str, Tensor]:
        """The loss at every position."""
        return {"perplexity": -prediction}

    def figures(self, means: Mapping[str, Tensor]) -> dict[str, float]:
        """`exp` of the mean loss."""
        return {"perplexity": math.exp(min(float(means["perplexity"]), 700.0))}

    def diversity(self, evidence: Tensor) -> Tensor:
        """Nats that averaging gains over a single member, position by position."""
        return self.mix(evidence) - evidence.mean(0)

    def diversity_text(self, diversity: float, where: str) -> str:
        """As what averaging gains."""
        return f"averaging gains {diversity:.3f} nats per token over one member on the {where}"

    def marginal(self, training: Any, targets: Tensor) -> Tensor | None:
        """Shares of the words in the training text, each counted once more than it occurs."""
        if not isinstance(training, Corpus):
            return None
        counts = torch.bincount(training.train, minlength=self.outputs).double() + 1
        kept = targets.flatten()
        return (counts / counts.sum()).log()[kept[kept != IGNORED]].unsqueeze(0)

    # Questions and answers, text by text

    def form(self) -> Form:
        """A text, of which the next word is asked for."""
        known = [word for word in self.words or () if word not in (END, UNKNOWN)]
        return Writing(tuple(known[:_NEXT]), END)

    def asked(self, rows: Sequence[Any], source: str = "the rows") -> list[Inputs]:
        """Texts, each as tokens `(steps, 1)` after the end of a sentence."""
        from sparsemble.tasks.generating import beginning

        for number, row in enumerate(rows, 1):
            if not isinstance(row, str):
                raise InputError(f"{source}: row {number} is no text")
        return [beginning(self, words_of(row)).view(-1, 1) for row in rows]

    def answered(self, ensemble: Predictor, inputs: Inputs) -> Tensor:
        """Every member's log-probabilities of the next word."""
        from sparsemble.tasks.generating import next_evidence

        assert isinstance(inputs, Tensor)
        return next_evidence(ensemble.runner(), self, inputs)

    def rows(self, evidence: Tensor) -> list[dict[str, Any]]:
        """The most probable next word, uncertainty, and the probabilities of a few words."""
        probabilities, doubt = self.mix(evidence).exp(), self.uncertainty(evidence)
        return records_of_probabilities(self.vocabulary.words, probabilities, doubt, _NEXT)

    def views(self, evidence: Tensor) -> list[View]:
        """The most probable next word, and bars of a few."""
        known = self.vocabulary.words
        return [view_of_probabilities(known, own.exp()) for own in self.mix(evidence)]

    def agreement(self, evidence: Tensor) -> list[str]:
        """Which words the members expect, and how much of the doubt is between them."""
        known, doubt = self.vocabulary.words, self.uncertainty(evidence)
        parts = (doubt.epistemic / doubt.total.clamp_min(1e-12)).tolist()
        return [
            votes([f"“{known[place]}”" for place in own], "expect")
            + (f"; of the doubt {share(part)} is between them" if len(own) > 1 else "")
            for own, part in zip(evidence.argmax(-1).t().tolist(), parts, strict=True)
        ]

    def continued(
        self, ensemble: Predictor, text: str, words: int, *, temperature: float, seed: int
    ) -> Continued:
        """Words drawn one by one; where a sentence ends a line does."""
        from sparsemble.tasks.generating import generate, unknown_words

        begun = words_of(text)
        unknown = unknown_words(ensemble, begun)
        drawn = tuple(generate(ensemble, words, start=begun, temperature=temperature, seed=seed))
        return Continued(drawn, text_of((*begun, *drawn)), unknown)

    # Files and reports

    def predict_file(self, ensemble: Predictor, path: Path, **options: Any) -> Iterator[Answer]:
        """Perplexity of a text, and the most probable words after its last line's last word."""
        if others := options.keys() - {"words"}:
            raise InputError(f"{', '.join(others)}: not for texts")
        yield predicted_text(self, ensemble, path, options.get("words") or _NEXT)

    def sections(self, ensemble: Predictor, evaluation: Evaluation, seed: int) -> Iterator[Section]:
        """A stretch of text as the members read it, and a text of their own."""
        from sparsemble.tasks.sections.language import sections

        return sections(self, ensemble, evaluation, seed)


class TextTraining:
    """The training text of a `Corpus`."""

    def __init__(self, task: LanguageModelling, corpus: Corpus, seed: int) -> None:
        self.task = task
        self._corpus = corpus
        self._seed = seed

    def batches(self, batch_size: int) -> Batches:
        """Windows of the text."""
        return TextBatches(
            self._corpus.train,
            batch_size,
            self.task.window,
            jitter=self.task.jitter,
            seed=self._seed,
        )

    def fingerprint(self) -> str:
        """A digest of words and text."""
        words = "\n".join(self._corpus.vocabulary.words)
        jitter = f" {self.task.jitter:g}" if self.task.jitter else ""
        digest = hashlib.sha256(f"{self.task.window}{jitter}\n{words}".encode())
        digest.update(self._corpus.train.contiguous().numpy().data)
        return digest.hexdigest()

    def usual_batch_size(self) -> int:
        """Twenty streams, as in the paper."""
        return 20

    def judged(self) -> Evaluation:
        """The same: the test text is not looked at."""
        return self.watched()

    def watched(self) -> Evaluation:
        """The validation text, or its beginning, which may be harder than the rest."""
        text = self._corpus.part("validation")
        long = len(text.tokens) > _WATCHED
        name = f"first {_WATCHED:,} tokens of the validation text" if long else "validation text"
        tokens = text.tokens[:_WATCHED]
        streams = min(_STREAMS, len(tokens))
        return self.task.evaluation(
            replace(text, tokens=tokens, name=name, streams=streams, true_nll=None, unknown=0)
        )


def _mean_window(batches: Batches) -> float:
    """The steps a network is unrolled for, on average."""
    if not isinstance(batches, TextBatches):
        raise InputError("a language model learns from a text: give TextBatches")
    return batches.mean_window
