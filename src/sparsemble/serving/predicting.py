"""Questions answered by an ensemble, several at once: rows of one shape are computed together.

One question that cannot be answered leaves the others alone: what is wrong with its rows is found
before they are joined, and if joined ones fail, each question is computed by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from sparsemble.data import Inputs
from sparsemble.errors import InputError, NotFiniteError
from sparsemble.tasks import Predictor, Task
from sparsemble.tasks.refusals import cannot_take


@dataclass(frozen=True)
class Question:
    """Rows to predict for, and what is made of the members' evidence."""

    rows: Sequence[Any]
    answer: Callable[[Tensor], Any]


@dataclass(frozen=True)
class Errand:
    """Anything else to be done by the predicting thread."""

    answer: Callable[[], Any]


class Predicting:
    """Answers questions by an ensemble.

    Args:
        ensemble: Whose members predict.
        task: Theirs, as the service reads what is asked.
    """

    def __init__(self, ensemble: Predictor, task: Task) -> None:
        self._ensemble, self._task = ensemble, task

    def __call__(self, asked: Sequence[Question | Errand]) -> list[Any]:
        """An answer for each, or the error that it gets."""
        read = [_tried(self._read, own) for own in asked]
        parts = [part for own in read if isinstance(own, list) for part in own]
        evidence = iter(self._evidence(parts))
        answers = []
        for own, found in zip(asked, read, strict=True):
            if isinstance(own, Errand):
                answers.append(_tried(own.answer))
            elif isinstance(found, Exception):
                answers.append(found)
            else:
                answers.append(_tried(self._answer, own, [next(evidence) for _ in found]))
        return answers

    def _read(self, asked: Question | Errand) -> list[Inputs]:
        if isinstance(asked, Errand):
            return []
        return self._task.asked(asked.rows, "the rows")

    def _answer(self, asked: Question, found: Sequence[Tensor | Exception]) -> Any:
        for place, own in enumerate(found):
            if isinstance(own, NotFiniteError):
                raise NotFiniteError(place + own.row, "the rows")  # parts are all rows, or one each
            if isinstance(own, Exception):
                raise own
        evidence = torch.cat([own for own in found if isinstance(own, Tensor)], dim=1)
        return asked.answer(evidence)

    def _evidence(self, parts: Sequence[Inputs]) -> list[Tensor | Exception]:
        """The members' evidence for each part; those of one shape are computed together."""
        found: dict[int, Tensor | Exception] = {}
        for places in self._alike(parts):
            own = [parts[place] for place in places]
            found |= dict(zip(places, self._together(own), strict=True))
        return [found[place] for place in range(len(parts))]

    def _alike(self, parts: Sequence[Inputs]) -> Iterator[list[int]]:
        """Places of parts that can be joined; several inputs stay by themselves."""
        groups: dict[Any, list[int]] = {}
        for place, part in enumerate(parts):
            if isinstance(part, Tensor):
                shape = list(part.shape)
                del shape[self._task.batch_dim]
                groups.setdefault((part.dtype, *shape), []).append(place)
            else:
                yield [place]
        yield from groups.values()

    def _together(self, parts: Sequence[Inputs]) -> list[Tensor | Exception]:
        if len(parts) == 1:
            return [_tried(self._predicted, parts[0])]
        dim = self._task.batch_dim
        tensors = [part for part in parts if isinstance(part, Tensor)]
        joined = _tried(self._predicted, torch.cat(tensors, dim))
        if isinstance(joined, Exception):
            return [_tried(self._predicted, part) for part in parts]
        return list(joined.split([part.shape[dim] for part in tensors], dim=1))

    def _predicted(self, inputs: Inputs) -> Tensor:
        try:
            return self._task.answered(self._ensemble, inputs)
        except InputError:
            raise
        except Exception as error:  # whatever a network says of inputs that it cannot take
            raise cannot_take(error) from error


def _tried(call: Callable[..., Any], *given: Any) -> Any:
    """What a call gives, or the error that it raises."""
    try:
        return call(*given)
    except Exception as error:
        return error
