"""An ensemble: members that predict one thing together, from inputs as they come."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import numpy as np
import torch
from torch import Tensor, nn

from sparsemble.caller_modes import OwnModes, in_own_modes
from sparsemble.devices import usable_device
from sparsemble.ensemble.cost import EnsembleCost, ensemble_cost
from sparsemble.ensemble.few import Few
from sparsemble.ensemble.runner import Runner
from sparsemble.errors import InputError
from sparsemble.members import Member, Stack, Versions, with_sparse_layers
from sparsemble.modes import is_captured
from sparsemble.nets.layers import without_addresses
from sparsemble.programs import Program
from sparsemble.structure import Layout
from sparsemble.tasks import Evaluation, Score, Scorer, Task, Uncertainty, takes_examples
from sparsemble.tasks.finite import finite
from sparsemble.tasks.refusals import refusals

if TYPE_CHECKING:
    from sparsemble.ensemble.budget import Budget


class Ensemble(nn.Module):
    """Members and their task: mixing, scaling, names and metrics are the task's.

    Calling it gives the members' mixed prediction without gradients. `predict` and
    `predict_proba` also check what they are given and answer with NumPy arrays; what members say
    and how uncertain they are (`evidence`, `predictive`, `uncertainty`) comes as tensors.

    Args:
        members: Networks of one kind, which only pruning may have made different.
        task: What they predict, as `learn` completed it from the data.
    """

    def __init__(self, members: Sequence[Member], task: Task) -> None:
        super().__init__()
        _check_alike(members)
        outputs = members[0].layout.outputs.size
        task = task if task.sizes[1] else task.for_outputs(outputs)
        if task.sizes[1] != outputs:
            raise InputError(
                f"the members have {outputs} outputs, {type(task).__name__} needs {task.sizes[1]}"
            )
        space = members[0].layout.inputs
        if space is not None:
            task = task.for_inputs(members[0].origin.sizes[space.name])
        self.members = nn.ModuleList(members)
        self.task = task.model_copy(deep=True)
        self.scalings = nn.ModuleDict(self.task.scalings)
        self._versions: Versions | None = None
        self._stack: Stack | None = None
        self._networks: list[nn.Module] = []
        self._few: Few | None = None

    # Members

    def __len__(self) -> int:
        return len(self.members)

    def __iter__(self) -> Iterator[Member]:
        return iter(self._list())

    @overload
    def __getitem__(self, index: int) -> Member: ...

    @overload
    def __getitem__(self, index: slice) -> Ensemble: ...

    def __getitem__(self, index: int | slice) -> Member | Ensemble:
        """A member; of a slice, an ensemble of the same members."""
        if isinstance(index, slice):
            return Ensemble(self._list()[index], self.task)
        return self._list()[index]

    def _list(self) -> list[Member]:
        return list(self.members)  # type: ignore[arg-type]

    def select(self, validation: Any, budget: Budget) -> Ensemble:
        """The members that predict validation data best together, within a budget.

        They are taken one by one, each the one that helps most, as long as one helps.

        Args:
            validation: Data that no member was trained on, as `evaluate` takes them.
            budget: What they may cost together.
        """
        from sparsemble.ensemble.selection import selected

        return Ensemble([self[index] for index in selected(self, validation, budget)], self.task)

    @staticmethod
    def merge(*ensembles: Ensemble) -> Ensemble:
        """The members of several ensembles as one; what they may cost is up to `select`.

        Args:
            ensembles: Such that predict the same thing, of members of one kind.
        """
        from sparsemble.ensemble.merging import merged

        return merged(ensembles)

    @property
    def cost(self) -> EnsembleCost:
        """Parameters, FLOPs and bytes by the paper's rules."""
        return ensemble_cost(self)

    def refresh(self) -> None:
        """Make anew what is made of the members, whose weights changed unseen (through `.data`)."""
        self._versions = None
        self._few = None

    def _keep_up(self) -> None:
        """Make what predicts of the members, if that is not done or if they have changed since."""
        if self._versions is not None and self._versions.hold():
            return
        members = self._list()
        plain = takes_examples(self.task)
        stacks = plain and Stack.fits(members)
        self._stack = Stack(members) if stacks else None
        self._networks = [] if stacks else [_on_sparse_layers(member) for member in members]
        few = plain and Few.fits(members)
        self._few = Few(members, self._few) if few else None
        self._versions = Versions(self.members)

    # Predictions

    def runner(self) -> Runner:
        """All members on the same inputs; recurrent ones begin from the zero state."""
        self._keep_up()
        return Runner(self.task, self._stack or self._networks)

    def _quick(self) -> Runner:
        """A runner that computes few examples in whichever way is quicker here."""
        self._keep_up()
        return Runner(self.task, self._stack or self._networks, self._few)

    def forward(self, inputs: Any) -> Tensor:
        """The members' prediction together: of classifiers their mean probabilities.

        One that is not finite is a `NotFiniteError`, here as in all that predicts.
        """
        if is_captured():  # which must not hold what is derived of members, or chosen by a clock
            in_turn = Runner(self.task, self._list())
            mixed = self.task.mix(in_turn(self.task.arranged(inputs), self.task.evidence))
            return mixed.detach()  # a trace does not know that there were no gradients
        if isinstance(inputs, np.ndarray):
            raise InputError(
                "an ensemble is called with tensors (torch.from_numpy); predict, predict_proba and "
                "evidence take arrays"
            )
        with OwnModes():
            evidence = self._quick()(self.task.arranged(inputs), self.task.evidence)
            return self.task.mix(finite(evidence, self.task))

    @in_own_modes
    def evidence(self, inputs: Any, feature_names: Sequence[str] | None = None) -> Tensor:
        """What each member predicts, `(members, examples, …)`: of classifiers probabilities.

        Args:
            inputs: Raw inputs: an array, a tensor, or a table whose columns have names; of
                networks with several inputs a tuple or a dict of arrays, as was learned from. If a
                table was learned from, one with the same columns, or a dict of them.
            feature_names: What the columns of an array are called, to be matched by name.
        """
        checked = self.task.inputs(inputs, feature_names)
        with refusals():
            evidence = self._quick()(checked, self.task.evidence)
        return finite(evidence, self.task)

    @in_own_modes
    def predictive(self, inputs: Any, feature_names: Sequence[str] | None = None) -> Tensor:
        """The members' prediction together, for inputs that are checked first.

        Args:
            inputs: As for `evidence`.
            feature_names: As for `evidence`.
        """
        return self.task.mix(self.evidence(inputs, feature_names))

    @in_own_modes
    def predict(self, inputs: Any, feature_names: Sequence[str] | None = None) -> np.ndarray:
        """The one answer for each row: the most probable class's index, the mean of a number.

        Args:
            inputs: As for `evidence`.
            feature_names: As for `evidence`.
        """
        return _array(self.task.decide(self.predictive(inputs, feature_names)))

    @in_own_modes
    def predict_proba(self, inputs: Any, feature_names: Sequence[str] | None = None) -> np.ndarray:
        """Mean probabilities of the classes, one row per example.

        Args:
            inputs: As for `evidence`.
            feature_names: As for `evidence`.
        """
        return _array(self.task.probabilities(self.predictive(inputs, feature_names)))

    @in_own_modes
    def uncertainty(self, inputs: Any, feature_names: Sequence[str] | None = None) -> Uncertainty:
        """How uncertain each prediction is, and how much of it the members disagree about.

        Args:
            inputs: As for `evidence`.
            feature_names: As for `evidence`.
        """
        return self.task.uncertainty(self.evidence(inputs, feature_names))

    @in_own_modes
    def evaluate(self, data: Any) -> Score:
        """Every metric of the task, of one, two, … members together and of each alone.

        Args:
            data: A pair of arrays, a `Dataset`, a torch `Dataset` or a `DataLoader`; for language
                models tokens or a `Text`. If a table was learned from, one with its targets.
        """
        held = self.task.held(data)
        scorer = Scorer(self.task)
        for evidence, targets in self.scored(held):
            scorer.update(evidence, targets)
        return scorer.compute(reference=held.reference, notes=list(held.notes))

    def scored(self, held: Evaluation) -> Iterator[tuple[Tensor, Tensor]]:
        """The members' evidence for data with known answers, batch by batch, and the answers."""
        runner = self.runner()
        for inputs, targets in held.batches():
            with refusals():
                evidence = runner.evidence(inputs, targets)
            yield evidence, targets

    # Files

    def save(self, folder: str | Path) -> None:
        """Write the ensemble into `folder`: non-zeros only, checksummed, no pickle."""
        from sparsemble.ensemble.saving import save_ensemble

        save_ensemble(self, Path(folder))

    def export(self, path: str | Path, *, members: bool = False, example: Any = None) -> float:
        """Write an ONNX file that takes raw inputs and predicts what the ensemble does.

        It is checked in ONNX Runtime, for one example and for several, of two lengths where inputs
        may have any; if predictions differ by more than rounding, there is an error and no file.
        Needs `pip install 'sparsemble[export]'`.

        Args:
            path: The file, as `model.onnx`.
            members: Shall it also say what every member predicts?
            example: Raw inputs to check with; by default they are made up.

        Returns:
            The largest difference that was found, relative to the largest output.
        """
        from sparsemble.export import export_onnx

        return export_onnx(self, Path(path), members=members, example=example)

    @staticmethod
    @in_own_modes
    def load(
        folder: str | Path,
        *,
        factory: Callable[[], nn.Module] | None = None,
        layout: Layout | None = None,
        task: type[Task] | None = None,
        device: str | torch.device = "cpu",
    ) -> Ensemble:
        """Read a saved ensemble.

        Args:
            folder: Where it was saved, or the folder of the run that learned it.
            factory: For networks of your own: makes the full one.
            layout: For networks of your own: their layout.
            task: For a task of your own: its class.
            device: Where the members are to be.
        """
        from sparsemble.ensemble.loading import load_ensemble

        place = usable_device(device)
        loaded = load_ensemble(Path(folder), factory=factory, layout=layout, task=task)
        return loaded.to(place)


def _array(values: Tensor) -> np.ndarray:
    """As NumPy has it, which knows no bfloat16."""
    if values.dtype in (torch.bfloat16, torch.float16):
        values = values.float()
    array: np.ndarray = values.cpu().numpy()
    return array


def _on_sparse_layers(member: Member) -> Member:
    """The same member, computed by its reduced matrices where that pays."""
    if isinstance(member.network, Program):
        return member
    return Member(with_sparse_layers(member), member.layout, member.masks, member.origin)


def _check_alike(members: Sequence[Member]) -> None:
    if not members:
        raise InputError("an ensemble needs at least one member")
    if not all(isinstance(member, Member) for member in members):
        raise InputError("an ensemble is made of Members: Member.dense(network, layout), say")
    for member in members:
        names = [name for name, _ in member.network.named_buffers()]
        if names and not isinstance(member.network, Program):
            raise InputError(
                f"a member has buffers ({', '.join(names)}), of which a layout written by hand "
                "says nothing: networks that are traced may have some"
            )
    first = kind_of(members[0])
    for number, member in enumerate(members):
        for what, value in kind_of(member).items():
            if value != first[what]:
                raise InputError(
                    f"member {number} differs from member 0 in its {what}: an ensemble is made of "
                    "networks of one kind, which only pruning may have made different"
                )


def kind_of(member: Member) -> dict[str, object]:
    """What members of one ensemble have in common."""
    return {
        "layout": (member.layout.name, member.layout.grouping),
        "sizes": dict(member.origin.sizes),
        "precision": next(member.network.parameters()).dtype,
        "parameters": [name for name, _ in member.network.named_parameters()],
        "layers": [
            (name, _sizeless(module))
            for name, module in member.network.named_modules()
            if not isinstance(module, nn.Dropout)
        ],
    }


def _sizeless(module: nn.Module) -> str:
    """What a module is; one with parameters would say their sizes, too."""
    sized = any(True for _ in module.parameters())
    return type(module).__qualname__ if sized else without_addresses(str(module))
