"""One chain: the loop both stages run.

A step is, in this order: augment, backward, masks, clip, prior, sampler; a prior that acts by its
proximal map comes last. Stage 1 runs it on a network at a temperature; an SGD baseline is the same
at temperature 0; retraining is the same on a stack of members, where masks keep the gradients of
pruned weights out, also of the norm that is clipped: without noise such weights stay 0, where no
prior moves them. A chain can be stopped after any step and resumed from `state()` to the same bits.
If it diverges it returns to a good state, with a new noise, another order of the data and a lower
rate; if that does not help, to an earlier one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from time import perf_counter

import torch
from torch import Tensor

from sparsemble.allocation import keeping_freed_memory
from sparsemble.data import Batches, Inputs
from sparsemble.devices import Autocast, flushing
from sparsemble.errors import CorruptFileError, DivergedError
from sparsemble.priors.prior import share_at_zero
from sparsemble.samplers import Schedule
from sparsemble.seeds import derive
from sparsemble.stages.averaging import WindowMean
from sparsemble.stages.callback import Callback
from sparsemble.stages.chain_state import ChainIdentity, ChainState
from sparsemble.stages.descent import Descent
from sparsemble.stages.divergence import DivergenceSettings, DivergenceWatch
from sparsemble.stages.epoch_totals import EpochTotals
from sparsemble.stages.history import EpochRecord, Rollback
from sparsemble.stages.random_streams import RandomStream
from sparsemble.stages.shedding import Shedding
from sparsemble.stages.subject import Subject
from sparsemble.stages.teaching import Teacher
from sparsemble.tasks import Task
from sparsemble.team import Team


class Chain:
    """A network's parameters on their way through the posterior.

    Args:
        identity: Which chain of which stage this is.
        subject: What moves.
        task: Whose loss is descended.
        batches: The training data.
        schedule: The learning rate over time, in epochs.
        augment: Perturbs the inputs of every batch.
        teacher: Whose predictions are learned as well.
        clip: Limit of the gradient's norm, before prior and noise.
        autocast: Compute the network in bfloat16 where that is safe; `auto`: if the device has it.
        team: The processes that compute the chain together, each on its part of every batch.
        average_every: Keep the mean of the parameters, taken in every so many steps.
        shedding: Makes the subject smaller as units go to zero.
        divergence: When the chain is thrown back.
        callback: Told what happens.
    """

    def __init__(
        self,
        identity: ChainIdentity,
        subject: Subject,
        *,
        task: Task,
        batches: Batches,
        schedule: Schedule,
        augment: Callable[[Tensor], Tensor] | None = None,
        teacher: Teacher | None = None,
        clip: float | None = None,
        autocast: Autocast = False,
        team: Team | None = None,
        average_every: int | None = None,
        shedding: Shedding | None = None,
        divergence: DivergenceSettings | None = None,
        callback: Callback | None = None,
    ) -> None:
        self.identity = identity
        self.step = 0
        self._task = task
        self._batches = batches
        self._schedule = schedule
        self._clip = clip
        self._team = team
        self._average_every = average_every
        self._shedding = shedding
        self._callback = callback or Callback()
        self._descent = Descent(
            task, augment=augment, teacher=teacher, autocast=autocast, team=team
        )
        self._take(subject)
        self._divergence = divergence or DivergenceSettings()
        self._watch = DivergenceWatch(self._divergence, task.guess(batches))
        self._rollbacks = 0
        self._lr_factor = 1.0
        self._totals = EpochTotals()
        self._rest: Iterator[tuple[Inputs, Tensor]] | None = None
        self._random = RandomStream(derive(identity.seed, "dropout", 0), subject.device)
        self._good = self._earlier = self._snapshot()

    def _take(self, subject: Subject) -> None:
        """Move this from now on."""
        self.parameters = dict(subject.parameters)
        self.others = dict(subject.others)
        self._descent.take(subject)
        self._update = subject.update
        self._batch_dims = subject.batch_dims
        self._members = subject.members.numel()
        self._tensors = list(self.parameters.values())
        self._masks = {
            name: mask.to(self.parameters[name].device, self.parameters[name].dtype)
            for name, mask in subject.masks.items()
        }
        every = self._average_every
        self.mean = None if every is None else WindowMean(self._tensors, every)
        """Of the parameters since its own beginning, if asked for."""

    def run(self, until: int) -> bool:
        """Go on until `until` steps are done; `False` if a divergence threw the chain back."""
        # A sparse prior makes plenty of denormals, which slow a CPU many times.
        with flushing(), keeping_freed_memory():
            diverged = None
            while self.step < until and diverged is None:
                diverged = self._run_epoch(until)
            if diverged is None:  # of the last step no loss has been seen yet
                diverged = self._not_finite()
            if diverged is not None:
                self._roll_back(diverged)
        return diverged is None

    def _not_finite(self) -> str | None:
        """What is no finite number, if anything."""
        if not all(bool(tensor.isfinite().all()) for tensor in self._tensors):
            return "a weight is not a finite number"
        for name, own in self.others.items():  # a mask may well be infinite
            if own.is_floating_point() and bool(own.isnan().any()):
                return f"{name} is not a number: has a batch one example, which has no variance?"
        return None

    def _run_epoch(self, until: int) -> str | None:
        """Run to the end of the epoch or to `until`; why the chain diverged, if it did."""
        epoch, position = divmod(self.step, self._batches.steps)
        began = perf_counter() - self._totals.seconds
        if position == 0:
            self._descent.reset()
        rest = self._rest or self._batches.epoch(epoch, position, self._rollbacks)
        self._rest = None
        while (stepped := self._next_step(rest)) is not None:
            targets, loss, worst = stepped
            self._totals.count(self._task.examples_in(targets), self._descent.flops)
            # A batch of which nothing counts says nothing: its loss is 0.
            if worst or self._task.weight(targets):
                diverged = self._watch.reason(worst)
                if diverged is not None:
                    return diverged
            self.step += 1
            if self.mean is not None:
                self.mean.stepped(self.step)
            self._totals.loss += loss
            self._totals.seconds = perf_counter() - began
            if self.step % self._batches.steps == 0:
                self._end_epoch(epoch)
            self._callback.stepped(self.identity.number, self.step, loss, self.state)
            if self.step >= until:
                if self.step % self._batches.steps:
                    self._rest = rest  # a loader would have to be read again up to here
                break
        return None

    def _next_step(
        self, rest: Iterator[tuple[Inputs, Tensor]]
    ) -> tuple[Tensor, float, float] | None:
        """One step on the next batch, if there is one: its targets, and what `_advance` gives."""
        with self._random.held():
            batch = next(rest, None)
            return None if batch is None else (batch[1], *self._advance(*batch))

    def _advance(self, inputs: Inputs, targets: Tensor) -> tuple[float, float]:
        """One step; the loss summed over members, and that of the worst of them."""
        self._update.set_lr(self._schedule(self.step / self._batches.steps) * self._lr_factor)
        if self._team is not None:  # whose random numbers depend on the step alone
            own = ("dropout", self._rollbacks, self.step, self._team.rank)
            self._random.draw_from(derive(self.identity.seed, *own))
        losses, gradients = self._descent(inputs, targets)
        if self._masks:
            masked = [gradients[name] for name in self._masks]
            torch._foreach_mul_(masked, list(self._masks.values()))
        if self._clip is not None:
            clip_gradients(list(gradients.values()), self._clip, self._batch_dims)
        self._update(self.step + 1, gradients)
        total = float(losses.sum())
        return total, float(losses.max()) if losses.ndim else total

    def _end_epoch(self, epoch: int) -> None:
        totals, self._totals = self._totals, EpochTotals()
        loss = totals.loss / self._batches.steps / self._members
        metric, figure = self._task.loss_figure(loss, self._batches)
        with torch.no_grad():
            penalty = float(self._update.prior.value()) / self._members
        self._callback.epoch_ended(
            EpochRecord(
                stage=self.identity.stage,
                chain=self.identity.number,
                epoch=epoch + 1,
                loss=loss,
                potential=loss + penalty,
                metric=metric,
                figure=figure,
                **self._update.figures(),
                near_zero_groups=self._near_zero_groups(),
                **totals.spent,
                networks=self._members,
            )
        )
        if self._shedding is not None:
            self._shed(self._shedding)
        if self._watch.calm and self._not_finite() is None:
            self._earlier, self._good = self._good, self._snapshot()

    def _near_zero_groups(self) -> float:
        """What the prior holds near zero; of members that are retrained nothing is asked."""
        if self._batch_dims or self.identity.stage != "chain":
            return math.nan
        share = share_at_zero(self._update.at_zero())
        return share if self._shedding is None else self._shedding.share_of_all(share)

    def _shed(self, shedding: Shedding) -> None:
        """Go on with a smaller network, if units have been at zero for long enough."""
        shedding.count(self._update.idle())
        smaller = shedding.smaller(self._snapshot(), self._moved()) if shedding.is_due else None
        if smaller is not None:
            before = shedding.member
            self._load(smaller)
            epoch = self.step // self._batches.steps
            self._callback.shed(shedding.record(before, self.identity, self.step, epoch))

    def _moved(self) -> list[str]:
        """The parameters in the sampler's own order."""
        names = {id(tensor): name for name, tensor in self.parameters.items()}
        groups = self._update.sampler.param_groups
        return [names[id(tensor)] for group in groups for tensor in group["params"]]

    def _roll_back(self, reason: str) -> None:
        """Return to a good state with another noise, order of the data and lower rate.

        The last good state may already have been on its way: it gets one chance.
        """
        self._rollbacks += 1
        where = f"{self.identity} at step {self.step + 1}"
        if self._rollbacks > self._divergence.max_rollbacks:
            raise DivergedError(
                f"{where}: {reason}, after {self._rollbacks - 1} rollbacks; lower the "
                "learning rate or the temperature, or clip the gradients"
            )
        self._lr_factor /= self._divergence.slow_down
        diverged_at = self.step + 1
        spent = self._totals.spent
        self._load(self._good)
        self._good = self._earlier
        self._update.sampler.reseed(derive(self.identity.seed, "noise", self._rollbacks))
        self._random.reseed(derive(self.identity.seed, "dropout", self._rollbacks))
        self._callback.rolled_back(
            Rollback(
                stage=self.identity.stage,
                chain=self.identity.number,
                step=diverged_at,
                reason=reason,
                back_to=self.step,
                back_to_epoch=self.step // self._batches.steps,
                lr_factor=self._lr_factor,
                **spent,
            ),
            self.state,
        )

    def state(self) -> ChainState:
        """What `resume` needs; valid between steps, also inside a callback."""
        now = self._snapshot()
        tensors = dict(now.tensors)
        kept = {"good": self._good}
        if self._earlier is not self._good:
            kept["earlier"] = self._earlier
        for place, good in kept.items():
            tensors |= {f"{place}/{name}": tensor for name, tensor in good.tensors.items()}
        tensors |= self._random.state()
        numbers = {
            **now.numbers,
            "chain": self.identity.number,
            **{place: good.numbers for place, good in kept.items()},
            "rollbacks": self._rollbacks,
            "lr_factor": self._lr_factor,
        }
        return ChainState(tensors, numbers)

    def resume(self, state: ChainState) -> None:
        """Go back to a saved state; one of another chain is a `CorruptFileError`."""
        try:
            self._random.restore(state.tensors)
            self._load(state)
        except (LookupError, RuntimeError, TypeError, ValueError) as error:
            raise CorruptFileError(
                f"the checkpoint of {self.identity} is not one of this network and sampler "
                f"({error}); remove it to begin anew"
            ) from None
        self._good = state.inner("good")
        self._earlier = state.inner("earlier") if "earlier" in state.numbers else self._good
        self._rollbacks = state.numbers["rollbacks"]
        self._lr_factor = state.numbers["lr_factor"]

    def copied(self) -> dict[str, Tensor]:
        """A copy of all that the network holds, in main memory."""
        return {name: own.detach().cpu().clone() for name, own in self._tensors_by_name().items()}

    def move_to(self, tensors: Mapping[str, Tensor]) -> None:
        """Set all that the network holds, as after a finished run; everything else stays."""
        with torch.no_grad():
            for name, own in self._tensors_by_name().items():
                if name not in tensors or tensors[name].shape != own.shape:
                    raise CorruptFileError(
                        f"what was kept of {self.identity} has no {name!r} of shape "
                        f"{tuple(own.shape)}; remove its folder to begin anew"
                    )
                own.copy_(tensors[name])

    def _tensors_by_name(self) -> dict[str, Tensor]:
        return {**self.parameters, **self.others}

    def _snapshot(self) -> ChainState:
        """What the network holds, sampler, carried state and position, but not what a rollback
        must not undo."""
        tensors = {
            f"parameter/{n}": own.detach().clone() for n, own in self._tensors_by_name().items()
        }
        tensors |= {name: tensor.clone() for name, tensor in self._descent.state().items()}
        sampler = self._update.sampler.state_dict()
        for index, buffers in sampler["state"].items():
            tensors |= {f"sampler/{index}/{name}": b.clone() for name, b in buffers.items()}
        tensors |= {f"noise/{k}": state for k, state in enumerate(sampler["noise"])}
        numbers = {
            "step": self.step,
            **self._totals.numbers(),
            "watch": self._watch.numbers(),
        }
        if self._shedding is not None:
            tensors |= {f"shedding/{n}": t.clone() for n, t in self._shedding.state().items()}
        if self.mean is not None:
            means, numbers["mean"] = self.mean.state()
            tensors |= {f"mean/{number}": mean for number, mean in means.items()}
        return ChainState(tensors, numbers)

    def _load(self, state: ChainState) -> None:
        if self._shedding is not None:
            subject = self._shedding.restore(state.part("shedding"))
            if subject is not None:
                self._take(subject)
        self.move_to(state.part("parameter"))
        sampler = self._update.sampler.state_dict()
        sampler["state"] = {}
        for key, tensor in state.part("sampler").items():
            index, _, name = key.partition("/")
            sampler["state"].setdefault(int(index), {})[name] = tensor.clone()
        for number, tensor in state.part("noise").items():
            sampler["noise"][int(number)] = tensor
        self._update.sampler.load_state_dict(sampler)
        self._descent.restore(state)
        if self.mean is not None:
            self.mean.restore(state.part("mean"), state.numbers["mean"])
        self.step = state.numbers["step"]
        self._rest = None
        self._totals = EpochTotals.restored(state.numbers)
        self._watch.restore(state.numbers["watch"])


def clip_gradients(gradients: Sequence[Tensor], limit: float, batch_dims: int = 0) -> None:
    """Scale gradients down to a joint norm of at most `limit`, every member's by itself."""
    flat = [g.reshape(*g.shape[:batch_dims], -1) for g in gradients]
    each = [torch.linalg.vector_norm(own, dim=-1) for own in flat]
    norms = torch.linalg.vector_norm(torch.stack(each), dim=0)
    factors = (limit / norms.clamp_min(limit)).to(gradients[0].dtype)
    for gradient in gradients:
        gradient.mul_(factors.view(*factors.shape, *[1] * (gradient.ndim - factors.ndim)))
