"""Code of the user's own in settings: subclasses, import paths, functions, permissions."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Literal

import pytest
import torch
from torch import Tensor

from scenarios import mlp
from sparsemble.errors import CorruptFileError, InputError
from sparsemble.extensions import import_path, imported, kinds_of, open_union, permitted
from sparsemble.layouts import layout_of
from sparsemble.priors import AnyPrior, Gaussian, NoPrior, Prior, SumPrior
from sparsemble.samplers import (
    SGLD,
    AnySampler,
    AnySchedule,
    Constant,
    Sampler,
    SamplerSettings,
    Schedule,
    SGHMCSettings,
    SGLDSettings,
)
from sparsemble.samplers.schedules import FunctionSchedule
from sparsemble.settings import Settings


class Stronger(Gaussian):
    """A subclass of one of the library's own, by the same name."""

    factor: float = 2.0

    def bind(self, layout: Any, parameters: Mapping[str, Tensor], **how: Any) -> Any:
        return Gaussian(penalty=self.penalty * self.factor).bind(layout, parameters)


class Named(Prior):
    """One with a kind of its own, which is not the library's to know."""

    kind: Literal["named"] = "named"

    def bind(self, layout: Any, parameters: Any, **how: Any) -> Any:
        return NoPrior().bind(layout, parameters)


class Optional(Named):
    """One with a number that may be absent."""

    number: float | None = None
    kind: str = "optional"


class Unfinished(Prior):
    """It does not say how it is bound."""


class Still(Sampler):
    """A sampler that never moves."""

    def __init__(self, params: Any, lr: float, *, patience: float = 1.0, **how: Any) -> None:
        super().__init__(params, lr, patience=patience, **how)

    def update(self, group: Any, params: Any, grads: Any, source: Any) -> None:
        return


class StillSettings(SamplerSettings):
    sampler: ClassVar[type[Sampler]] = Still
    patience: float = 3.0


class Chosen(Settings):
    """A section with one of everything."""

    prior: AnyPrior = NoPrior()
    schedule: AnySchedule = Constant(lr=1.0)
    sampler: AnySampler = SGLDSettings()


def falling(epoch: float) -> float:
    return 0.5 / (1 + epoch)


HERE = __name__
STRONGER = f"{HERE}:Stronger"


def round_trip(chosen: Chosen) -> Chosen:
    """Written as a recipe or a run folder would, and read again."""
    return Chosen.read(chosen.model_dump(mode="json"), source="the file")


# --- what the library offers -----------------------------------------------------------------


def test_the_librarys_own_are_told_apart_by_their_kind():
    chosen = Chosen(prior={"kind": "gaussian", "penalty": 2}, sampler={"kind": "sghmc"})
    assert chosen.prior == Gaussian(penalty=2)
    assert chosen.sampler == SGHMCSettings()
    assert round_trip(chosen) == chosen


def test_a_section_without_a_kind_has_the_default_one():
    assert Chosen(sampler={"temperature": 0.5}).sampler == SGLDSettings(temperature=0.5)


def test_the_kinds_of_a_union_can_be_listed():
    assert list(kinds_of(AnySampler)) == ["sgld", "psgld", "sghmc"]
    assert kinds_of(open_union(Prior, NoPrior, Gaussian)) == {"none": NoPrior, "gaussian": Gaussian}


# --- a subclass of the user's ----------------------------------------------------------------


def test_a_subclass_given_from_python_is_taken_as_it_is():
    own = Stronger(penalty=3)
    assert Chosen(prior=own).prior is own
    assert SumPrior(terms=(own, Gaussian(penalty=1))).terms[0] is own


def test_a_subclass_is_written_with_where_it_is_found():
    written = Chosen(prior=Stronger(penalty=3)).model_dump(mode="json")
    assert written["prior"] == {"kind": STRONGER, "penalty": 3.0, "factor": 2.0}
    assert Chosen(prior=Named()).model_dump(mode="json")["prior"] == {"kind": f"{HERE}:Named"}


def test_a_subclass_leaves_out_what_it_lacks_where_that_is_asked():
    written = Chosen(prior=Optional()).model_dump(mode="json", exclude_none=True)
    assert written["prior"] == {"kind": f"{HERE}:Optional"}


def test_what_was_written_is_read_as_the_same_subclass():
    chosen = Chosen(prior=Stronger(penalty=3, factor=5), sampler=StillSettings(temperature=0.5))
    again = round_trip(chosen)
    assert again == chosen
    assert (type(again.prior), type(again.sampler)) == (Stronger, StillSettings)


def test_a_kind_by_import_path_makes_the_subclass_with_its_fields():
    chosen = Chosen(prior={"kind": STRONGER, "penalty": 1.5, "factor": 4})
    assert chosen.prior == Stronger(penalty=1.5, factor=4)


def test_a_bare_import_path_stands_for_a_class_that_needs_no_fields():
    assert Chosen(sampler=f"{HERE}:StillSettings").sampler == StillSettings()


def test_a_users_prior_is_one_among_others_in_a_sum():
    net = mlp(3, 2)
    terms = [{"kind": STRONGER, "penalty": 0.5, "factor": 6}, {"kind": "gaussian", "penalty": 1}]
    bound = SumPrior(terms=terms).bind(layout_of(net), dict(net.named_parameters()))
    expected = (0.5 * 6 + 1) * net[0].weight.square().sum() / 2
    torch.testing.assert_close(bound.value().double(), expected)


def test_a_users_sampler_is_built_with_its_own_numbers():
    weight = torch.nn.Parameter(torch.ones(2))
    settings = Chosen(sampler={"kind": f"{HERE}:StillSettings", "patience": 7}).sampler
    sampler = settings.build([weight], lr=0.1, num_data=10, seed=0)
    assert type(sampler) is Still
    assert sampler.param_groups[0]["patience"] == 7
    weight.grad = torch.ones(2)
    sampler.step()
    assert torch.equal(weight.detach(), torch.ones(2))


# --- what is refused -------------------------------------------------------------------------

OR_YOUR_OWN = "or the import path of your own Prior, package.module:Class"


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (
            {"prior": {"kind": "ridge"}},
            r"prior\.kind = 'ridge': kind must be one of none, gaussian",
        ),
        ({"prior": {"kind": "ridge"}}, OR_YOUR_OWN),
        ({"prior": {"penalty": 1}}, r"prior\.kind = None: kind must be one of none"),
        ({"prior": {"kind": ["gaussian"]}}, r"prior\.kind = \['gaussian'\]: kind must be one of"),
        ({"prior": "gaussian"}, r"prior = 'gaussian': must be a section whose kind is one of none"),
        ({"prior": "gaussian"}, OR_YOUR_OWN),
        ({"prior": 3}, "prior = 3: 3 is no Prior"),
        ({"prior": None}, "prior = None: None is no Prior"),
        ({"prior": Constant(lr=1)}, r"prior: Constant\(.*\) is no Prior"),
        ({"prior": falling}, "is no Prior"),
        ({"prior": SGLD}, "is no Prior"),
        ({"prior": {"kind": "gaussian", "penalty": -1}}, r"prior\.penalty = -1"),
        ({"prior": {"kind": "gaussian"}}, r"missing setting 'prior\.penalty'"),
        ({"prior": {"kind": STRONGER, "penalty": -1}}, "prior: penalty = -1"),
        ({"prior": {"kind": STRONGER}}, "prior: missing setting 'penalty'"),
        (
            {"prior": {"kind": STRONGER, "penalty": 1, "facto": 2}},
            "prior: unknown setting 'facto'; did you mean 'factor'",
        ),
        (
            {"prior": {"kind": "no_such.module:A"}},
            "prior: no_such.module:A: cannot import 'no_such",
        ),
        (
            {"prior": {"kind": f"{HERE}:Nothing"}},
            f"prior: {HERE}:Nothing: module .* has no 'Nothing'",
        ),
        ({"prior": {"kind": "json:loads"}}, "prior: json:loads is no Prior"),
        ({"prior": {"kind": "os;system:x"}}, "'os;system:x' is not an import path"),
        ({"prior": {"kind": f"{HERE}:Unfinished"}}, "Unfinished does not define bind"),
        ({"sampler": {"kind": "sgd"}}, r"sampler\.kind = 'sgd': kind must be one of sgld, psgld"),
        ({"sampler": {"temperature": -1}}, r"sampler\.temperature = -1"),
        (
            {"sampler": {"kind": f"{HERE}:StillSettings", "temperature": -1}},
            "sampler: temperature = -1",
        ),
        ({"schedule": {"kind": "warm", "lr": 1}}, r"schedule\.kind = 'warm'"),
        ({"schedule": {"kind": f"{HERE}:falling", "lr": 1}}, "falling .* takes no lr"),
    ],
)
def test_what_cannot_be_used_is_refused_with_its_value_and_place(fields, message):
    with pytest.raises(InputError, match=message):
        Chosen(**fields)


def test_a_term_of_a_sum_is_named_by_its_number():
    with pytest.raises(InputError, match=r"terms\.1: penalty = -2"):
        SumPrior(terms=[{"kind": "gaussian", "penalty": 1}, {"kind": STRONGER, "penalty": -2}])


def test_the_source_of_bad_fields_is_named():
    with pytest.raises(InputError, match=r"my\.toml: prior\.kind = 'ridge'"):
        Chosen.read({"prior": {"kind": "ridge"}}, source="my.toml")
    with pytest.raises(CorruptFileError, match=r"run\.json: prior: no_such:A"):
        Chosen.read_back({"prior": {"kind": "no_such:A"}}, Path("run.json"))


# --- functions as schedules ------------------------------------------------------------------


def test_a_function_is_a_schedule():
    chosen = Chosen(schedule=falling)
    assert isinstance(chosen.schedule, Schedule)
    assert [chosen.schedule(epoch) for epoch in (0, 1, 4)] == [0.5, 0.25, 0.1]


@pytest.mark.parametrize("how", [f"{HERE}:falling", {"kind": f"{HERE}:falling"}])
def test_a_function_can_be_named_by_its_import_path(how):
    assert Chosen(schedule=how).schedule == FunctionSchedule(function=falling)


def test_a_function_is_written_as_its_import_path_and_found_again():
    chosen = Chosen(schedule=falling)
    assert chosen.model_dump(mode="json")["schedule"] == {"kind": f"{HERE}:falling"}
    assert round_trip(chosen) == chosen


class Callable:
    def __call__(self, epoch: float) -> float:
        return 2.0


@pytest.mark.parametrize(
    "function",
    [lambda epoch: 2.0, partial(pow, 2.0), Callable()],
    ids=["a lambda", "a partial function", "an object that is called"],
)
def test_what_cannot_be_found_again_can_be_used_but_not_written(function):
    chosen = Chosen(schedule=function)
    assert chosen.schedule(1) == 2.0
    assert Chosen(schedule=chosen.schedule) == chosen  # passed on as it is
    assert "schedule=FunctionSchedule" in repr(chosen)
    with pytest.raises(
        InputError, match=r"cannot be found again .* define it at the top of a module"
    ):
        chosen.model_dump(mode="json")


def test_a_class_within_a_function_can_be_used_but_not_written():
    class Local(Gaussian):
        pass

    chosen = Chosen(prior=Local(penalty=1))
    with pytest.raises(InputError, match=r"Local.* cannot be found again"):
        chosen.model_dump(mode="json")


# --- import paths ----------------------------------------------------------------------------


@pytest.mark.parametrize("thing", [Stronger, falling, Gaussian, Path.cwd, SGLD])
def test_an_import_path_leads_back(thing):
    assert imported(import_path(thing)) == thing


@pytest.mark.parametrize(
    "path",
    ["", "json", "json.loads", ":loads", "json:", "json:a-b", "1json:loads", "a:b:c", "../a:b"],
)
def test_what_is_no_import_path_is_refused(path):
    with pytest.raises(InputError, match=r"is not an import path: write package\.module:name"):
        imported(path)


@pytest.fixture
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A current folder that is not on the path yet."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    return tmp_path


def test_modules_are_found_in_the_current_folder(in_folder, monkeypatch):
    (in_folder / "my_rates.py").write_text("def warm(epoch):\n    return 0.25\n")
    monkeypatch.delitem(sys.modules, "my_rates", raising=False)
    assert Chosen(schedule="my_rates:warm").schedule(3) == 0.25


def test_a_module_that_fails_says_how(in_folder):
    (in_folder / "my_broken.py").write_text("1 / 0\n")
    with pytest.raises(InputError, match=r"my_broken:x: cannot import .*ZeroDivisionError"):
        imported("my_broken:x")


# --- who may name code -----------------------------------------------------------------------


def test_only_permitted_code_is_run_while_something_foreign_is_read(in_folder):
    (in_folder / "my_trap.py").write_text("open('sprung', 'w').close()\nclass A: pass\n")
    fields = {"prior": {"kind": "my_trap:A"}}
    with (
        permitted([STRONGER], "runs/one"),
        pytest.raises(
            InputError, match=r"runs/one runs code of your own: name it with --code my_trap:A"
        ),
    ):
        Chosen.read(fields, source="recipe")
    assert not (in_folder / "sprung").exists()
    assert "my_trap" not in sys.modules


def test_permitted_code_is_run():
    with permitted([STRONGER, f"{HERE}:falling"], "runs/one"):
        chosen = Chosen(prior={"kind": STRONGER, "penalty": 1}, schedule=f"{HERE}:falling")
    assert chosen == Chosen(prior=Stronger(penalty=1), schedule=falling)


def test_what_is_given_from_python_needs_no_permission():
    with permitted([], "runs/one"):
        chosen = Chosen(prior=Stronger(penalty=1), schedule=falling)
    assert type(chosen.prior) is Stronger


def test_a_permission_ends_with_its_block():
    with permitted([], "outer"):
        with permitted([STRONGER], "inner"):
            assert imported(STRONGER) is Stronger
        with pytest.raises(InputError, match="outer runs code of your own"):
            imported(STRONGER)
    with pytest.raises(ValueError, match="stopped"), permitted([], "failed"):
        raise ValueError("stopped")
    assert imported(STRONGER) is Stronger
