"""Saved ensembles: what is stored comes back, and nothing else is believed."""

import copy
import itertools
import json
import math
import os
import pickle
from pathlib import Path

import pytest
import torch
from torch import nn

from sparsemble.data import Scaling
from sparsemble.ensemble import Ensemble
from sparsemble.errors import CorruptFileError, DiskFullError, InputError
from sparsemble.layouts import layout_of
from sparsemble.members import Member, compact
from sparsemble.stages import prune
from sparsemble.store import read_json, read_tensors, write_json, write_tensors
from sparsemble.tasks import Classification


def sparse_members(count: int, sparsity: float, sizes=(20, 16, 8, 3)) -> list[Member]:
    members = []
    for seed in range(count):
        torch.manual_seed(seed)
        layers: list[nn.Module] = [nn.Flatten()]
        for before, after in itertools.pairwise(sizes):
            layers += [nn.Linear(before, after), nn.Tanh(), nn.Dropout(0.1)]
        network = nn.Sequential(*layers[:-2]).eval()
        layout = layout_of(network)
        masks = prune(dict(network.named_parameters()), layout, sparsity=sparsity)
        members.append(compact(network, layout, masks))
    return members


@pytest.fixture
def ensemble() -> Ensemble:
    task = Classification(
        scaling=Scaling(torch.arange(20.0), torch.full((20,), 0.5)),
        class_names=["cat", "dog", "ünïcode"],
        feature_names=[f"f{k}" for k in range(20)],
    )
    return Ensemble(sparse_members(3, 0.8), task)


@pytest.fixture
def saved(ensemble, tmp_path) -> Path:
    ensemble.save(tmp_path / "ensemble")
    return tmp_path / "ensemble"


def tensor_file(folder: Path) -> Path:
    return next(folder.glob("members-*.safetensors"))


def test_everything_comes_back(ensemble, saved):
    loaded = Ensemble.load(saved)
    inputs = torch.randn(7, 20)
    assert torch.equal(loaded(inputs), ensemble(inputs))
    assert loaded.cost == ensemble.cost
    assert (loaded.cost.dense_parameters, loaded.cost.dense_flops) == (472, 944)
    assert loaded.task.class_names == ("cat", "dog", "ünïcode")
    assert loaded.task.feature_names == ensemble.task.feature_names
    assert loaded.task.scaling.shift.tolist() == list(range(20))
    for old, new in zip(ensemble, loaded, strict=True):
        assert new.cost == old.cost
        assert new.origin.group_sizes == old.origin.group_sizes
        assert all(torch.equal(new.masks[name], old.masks[name]) for name in old.masks)
        assert all(torch.equal(new.origin.units[s], old.origin.units[s]) for s in old.origin.units)
        assert str(new.network) == str(old.network)


def test_dense_members_come_back(tmp_path):
    network = nn.Sequential(nn.Linear(4, 5), nn.GELU(approximate="tanh"), nn.Linear(5, 2))
    ensemble = Ensemble([Member.dense(network, layout_of(network, "incoming"))], Classification())
    ensemble.save(tmp_path)
    loaded = Ensemble.load(tmp_path)
    inputs = torch.randn(3, 4)
    assert torch.equal(loaded(inputs), ensemble(inputs))
    assert (loaded[0].layout.name, loaded[0].layout.grouping) == ("feedforward", "incoming")


def test_eighteen_members_at_96_percent_take_less_disk_than_one_dense_network(tmp_path):
    members = sparse_members(18, 0.96, (784, 300, 100, 10))
    names = [f"pixel_{k // 28}_{k % 28}" for k in range(784)]
    Ensemble(members, Classification(feature_names=names)).save(tmp_path / "ensemble")
    dense = 4 * (784 * 300 + 300 * 100 + 100 * 10 + 410)
    assert sum(file.stat().st_size for file in (tmp_path / "ensemble").iterdir()) < dense


def test_saving_again_replaces_what_was_there(saved):
    Ensemble(sparse_members(2, 0.5), Classification()).save(saved)
    assert len(Ensemble.load(saved)) == 2
    assert sorted(path.name for path in saved.iterdir()) == [
        "manifest.json",
        tensor_file(saved).name,
    ]


def test_networks_of_ones_own_need_their_factory(tmp_path):
    class Own(nn.Module):
        def __init__(self):
            super().__init__()
            self.first = nn.Linear(6, 8)
            self.second = nn.Linear(8, 2)

        def forward(self, inputs):
            return self.second(torch.relu(self.first(inputs)))

    from dataclasses import replace

    plain = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 2))
    layout = layout_of(plain)
    renamed = {"0.": "first.", "2.": "second."}

    def own_name(name: str) -> str:
        return renamed[name[:2]] + name[2:]

    moved = {s: replace(s, parameter=own_name(s.parameter)) for s in layout.slots}
    layout = replace(
        layout,
        slots=tuple(moved.values()),
        families=tuple(replace(f, slots=tuple(moved[s] for s in f.slots)) for f in layout.families),
        matrices=tuple(
            replace(m, parameters=tuple(map(own_name, m.parameters))) for m in layout.matrices
        ),
        name="custom",
    )
    torch.manual_seed(0)
    network = Own()
    masks = prune(dict(network.named_parameters()), layout, sparsity=0.7)
    ensemble = Ensemble([compact(network, layout, masks)], Classification())
    ensemble.save(tmp_path)
    with pytest.raises(InputError, match="networks of your own"):
        Ensemble.load(tmp_path)
    loaded = Ensemble.load(tmp_path, factory=Own, layout=layout)
    inputs = torch.randn(5, 6)
    assert torch.equal(loaded(inputs), ensemble(inputs))


@pytest.mark.parametrize("position", [0, 3, 9, 200, 500, -200, -1])
def test_a_flipped_bit_in_the_tensor_file_is_noticed(saved, position):
    path = tensor_file(saved)
    content = bytearray(path.read_bytes())
    content[position] ^= 0x10
    path.write_bytes(content)
    with pytest.raises(CorruptFileError):
        Ensemble.load(saved)


@pytest.mark.parametrize("keep", [0, 4, 8, 100, 0.5, 0.99])
def test_a_truncated_tensor_file_is_noticed(saved, keep):
    path = tensor_file(saved)
    content = path.read_bytes()
    path.write_bytes(content[: int(keep * len(content)) if isinstance(keep, float) else keep])
    with pytest.raises(CorruptFileError, match=r"damaged, truncated or foreign"):
        Ensemble.load(saved)


def test_every_changed_byte_of_the_manifest_is_noticed(saved):
    path = saved / "manifest.json"
    content = path.read_bytes()
    for position in range(0, len(content), 37):
        changed = bytearray(content)
        changed[position] = ord("7") if changed[position] != ord("7") else ord("8")
        path.write_bytes(changed)
        with pytest.raises(CorruptFileError):
            Ensemble.load(saved)


@pytest.mark.parametrize(
    "name", ["../outside.safetensors", "/etc/passwd", "sub/members-0123456789abcdef.safetensors"]
)
def test_a_manifest_cannot_name_a_file_outside_its_folder(saved, name):
    manifest = read_json(saved / "manifest.json")
    manifest["tensors"] = name
    write_json(saved / "manifest.json", manifest)
    with pytest.raises(CorruptFileError, match="not a file of its folder"):
        Ensemble.load(saved)


def test_a_pickle_in_disguise_is_refused_and_not_run(saved, tmp_path):
    canary = tmp_path / "ran"

    class Payload:
        def __reduce__(self):
            return (Path.touch, (canary,))

    tensor_file(saved).write_bytes(pickle.dumps(Payload()))
    with pytest.raises(CorruptFileError):
        Ensemble.load(saved)
    torch.save({"values": Payload()}, tensor_file(saved))
    with pytest.raises(CorruptFileError):
        Ensemble.load(saved)
    assert not canary.exists()


def layer(manifest: dict, number: int) -> dict:
    """The description of a layer of the first member."""
    return manifest["members"][0]["network"]["layers"][number][1]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda m: m.update(version=4), "version"),
        (lambda m: m.update(surprise=1), "unknown setting 'surprise'"),
        (lambda m: m.pop("sizes"), "missing setting 'sizes'"),
        (lambda m: m["members"].pop(), "more than the manifest needs"),
        (lambda m: m["members"].append(m["members"][0]), "fewer than the manifest needs"),
        (lambda m: m["members"][0]["units"].update(inputs=3), "manifest"),
        (
            lambda m: layer(m, 1).update(kind="os.system"),
            "no known layer kind",
        ),
        (
            lambda m: layer(m, 1).update(in_features=10**12),
            "manifest",
        ),
        (lambda m: layer(m, 3).update(p="__import__"), "manifest"),
        (lambda m: m.update(layout="evil"), "not a known kind of network"),
        (lambda m: m.update(members=[]), "members"),
        (lambda m: m.update(pruned=[]), "manifest"),
    ],
)
def test_a_manifest_that_does_not_fit_is_refused(saved, change, message):
    manifest = read_json(saved / "manifest.json")
    change(manifest)
    write_json(saved / "manifest.json", manifest)
    with pytest.raises(InputError, match=message):
        Ensemble.load(saved)


def test_a_foreign_json_file_or_a_missing_one_is_refused(saved, tmp_path):
    with pytest.raises(InputError, match="is not a folder"):
        Ensemble.load(tmp_path / "nowhere")
    (saved / "manifest.json").write_text(json.dumps([1, 2]))
    with pytest.raises(CorruptFileError):
        Ensemble.load(saved)
    (saved / "manifest.json").unlink()
    with pytest.raises(InputError, match=r"manifest.json does not exist"):
        Ensemble.load(saved)


def test_not_a_number_in_a_saved_ensemble_is_refused(saved):
    tensors, _ = read_tensors(tensor_file(saved))
    tensors["values"][3] = float("nan")
    digest = write_tensors(tensor_file(saved), tensors)
    manifest = read_json(saved / "manifest.json")
    manifest["tensors_sha256"] = digest
    write_json(saved / "manifest.json", manifest)
    with pytest.raises(CorruptFileError, match="NaN or infinity"):
        Ensemble.load(saved)


def test_an_ensemble_that_could_not_be_loaded_is_not_saved(ensemble, tmp_path):
    broken = copy.deepcopy(ensemble)
    with torch.no_grad():
        next(broken[1].network.parameters())[0] = math.inf
    with pytest.raises(InputError, match=r"member 1 has NaN or infinity in 1\.weight"):
        broken.save(tmp_path / "broken")
    assert not (tmp_path / "broken").exists()


def test_files_are_as_private_as_the_user_wants_them(tmp_path):
    before = os.umask(0o077)
    try:
        write_json(tmp_path / "private.json", {})
    finally:
        os.umask(before)
    assert (tmp_path / "private.json").stat().st_mode & 0o777 == 0o600


def test_a_failed_write_leaves_the_old_file_and_no_rest(tmp_path, monkeypatch):
    path = tmp_path / "value.json"
    write_json(path, {"old": 1})

    def full_disk(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full_disk)
    with pytest.raises(DiskFullError, match=r"no space left to write .*value.json"):
        write_json(path, {"new": 2})
    assert read_json(path) == {"old": 1}
    assert [file.name for file in tmp_path.iterdir()] == ["value.json"]


def test_a_link_stays_a_link_and_a_device_a_device(tmp_path):
    target, link = tmp_path / "kept.json", tmp_path / "link.json"
    link.symlink_to(target)
    write_json(link, {"a": 1})
    assert link.is_symlink()
    assert read_json(target) == {"a": 1}
    write_json(Path(os.devnull), {"a": 1})
    assert Path(os.devnull).is_char_device()
    reading, writing = os.pipe()
    write_json(Path(f"/dev/fd/{writing}"), {"a": 1})
    assert b'"a": 1' in os.read(reading, 100)
    os.close(reading)
    os.close(writing)
