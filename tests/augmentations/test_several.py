"""Augmentations in recipes: by kind, by import path, as functions, several at once."""

from __future__ import annotations

import json
import tomllib

import pytest
import torch
from torch import Tensor

from sparsemble.augmentations import (
    AnyAugmentation,
    Augmentation,
    FunctionAugmentation,
    InputDropout,
    InputNoise,
    Several,
    Warp,
    WordDropout,
)
from sparsemble.errors import InputError
from sparsemble.extensions import kinds_of, permitted
from sparsemble.recipes.recipe import named_code
from sparsemble.settings import Settings


class Section(Settings):
    """Settings of which an augmentation is one."""

    augment: AnyAugmentation | None = None


class Brighter(Augmentation):
    """One of the user's own."""

    by: float = 1.0

    def __call__(self, inputs: Tensor) -> Tensor:
        return inputs + self.by


def negative(inputs: Tensor) -> Tensor:
    return -inputs


HERE = __name__


def round_trip(section: Section) -> Section:
    """Written as a recipe or a run folder would, and read again."""
    return Section.read(json.loads(json.dumps(section.model_dump(mode="json"))), source="the file")


def test_the_kinds_a_recipe_can_name():
    assert kinds_of(AnyAugmentation) == {
        "warp": Warp,
        "noise": InputNoise,
        "dropout": InputDropout,
        "words": WordDropout,
        "several": Several,
    }


@pytest.mark.parametrize(
    ("fields", "meant"),
    [
        ({"kind": "warp", "rotation": 5, "shape": [8, 9]}, Warp(rotation=5, shape=(8, 9))),
        ({"kind": "noise", "std": 0.3}, InputNoise(std=0.3)),
        ({"kind": "dropout", "share": 0.4}, InputDropout(share=0.4)),
        ({"kind": "words", "whole": True}, WordDropout(whole=True)),
        (
            {"kind": "several", "parts": [{"kind": "warp"}, {"kind": "dropout", "share": 0.1}]},
            Several(parts=(Warp(), InputDropout(share=0.1))),
        ),
        ({"kind": f"{HERE}:Brighter", "by": 2.5}, Brighter(by=2.5)),
        (f"{HERE}:negative", FunctionAugmentation(function=negative)),
        ({"kind": f"{HERE}:negative"}, FunctionAugmentation(function=negative)),
        (
            {"kind": "several", "parts": [f"{HERE}:negative", {"kind": f"{HERE}:Brighter"}]},
            Several(parts=(negative, Brighter())),
        ),
    ],
)
def test_a_section_is_read_and_written_back(fields, meant):
    section = Section(augment=fields)
    assert section.augment == meant
    assert round_trip(section) == section
    assert round_trip(Section(augment=meant)) == section


def test_a_recipe_writes_several_as_a_list_of_sections():
    text = """
        [augment]
        kind = "several"
        parts = [{ kind = "warp", shift = 2 }, { kind = "dropout" }]
    """
    assert Section(**tomllib.loads(text)).augment == Several(
        parts=(Warp(shift=2), InputDropout(share=0.2))
    )


def test_there_need_be_none():
    assert round_trip(Section()).augment is None


def test_several_act_one_after_the_other():
    inputs = torch.tensor([[1.0, -3.0]])
    both = Several(parts=(negative, Brighter(by=10)))
    assert both(inputs).tolist() == [[9.0, 13.0]]
    assert Several(parts=(Brighter(by=10), negative))(inputs).tolist() == [[-11.0, -7.0]]


def test_a_function_given_from_python_is_called():
    section = Section(augment=negative)
    assert section.augment(torch.ones(2)).tolist() == [-1.0, -1.0]


def test_a_function_that_cannot_be_found_again_is_refused_when_it_is_written_down():
    section = Section(augment=lambda inputs: inputs * 2)
    assert section.augment(torch.ones(1)).tolist() == [2.0]
    with pytest.raises(InputError, match="define it at the top of a module"):
        section.model_dump(mode="json")


def test_the_code_of_a_recipe_includes_that_of_every_part():
    section = Section(augment=Several(parts=(Warp(), negative, Brighter())))
    found = list(named_code(section.model_dump(mode="json")))
    assert found == [f"{HERE}:negative", f"{HERE}:Brighter"]


def test_a_foreign_file_may_not_name_code_that_the_user_did_not():
    fields = Section(augment=Several(parts=(negative,))).model_dump(mode="json")
    with (
        permitted([], "runs/strange"),
        pytest.raises(InputError, match=f"runs/strange runs code .* --code {HERE}:negative"),
    ):
        Section.read(fields, source="the file")


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        (
            {"kind": "blur"},
            "augment.kind = 'blur': kind must be one of warp, noise, dropout, words, several, or "
            "the import path of your own Augmentation, package.module:Class",
        ),
        ({"kind": "dropout", "share": 2}, "augment.share = 2: input should be less than 1"),
        (
            {"kind": "several", "parts": [{"kind": "warp"}, {"kind": "noise", "std": -1}]},
            "augment.parts.1.std = -1: input should be greater than or equal to 0",
        ),
        ({"kind": "several"}, "missing setting 'augment.parts'"),
        ({"kind": f"{HERE}:Section"}, f"augment: {HERE}:Section is no Augmentation"),
    ],
)
def test_a_section_that_cannot_be_used_is_refused(fields, said):
    with pytest.raises(InputError) as told:
        Section(augment=fields)
    assert str(told.value) == said


def test_an_augmentation_cannot_be_changed():
    with pytest.raises(ValueError, match="frozen"):
        InputNoise().std = 2.0
