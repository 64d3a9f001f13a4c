"""C20: a file names the device of each tensor, and this machine doesn't have it."""

import pickle

import pytest
import torch
from check_code import block, span, typed
from torch import serialization


@pytest.fixture(autouse=True)
def no_gpu(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)


@pytest.fixture
def saved(tmp_path, monkeypatch):
    """A checkpoint that says `cuda:2`, as a run on the third card writes it; and the same state as a pickle."""
    model = torch.nn.Linear(2, 1)
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.ones(1, 2)).sum().backward()
    optimizer.step()
    with monkeypatch.context() as patch:
        patch.setattr(serialization, "_package_registry", list(serialization._package_registry))
        serialization.register_package(0, lambda storage: "cuda:2", lambda storage, location: None)
        torch.save(
            {"model": model.state_dict(), "optimizer": optimizer.state_dict()}, tmp_path / "last.pt"
        )
        torch.save(model.state_dict(), tmp_path / "old.pt", _use_new_zipfile_serialization=False)
        (tmp_path / "last.pkl").write_bytes(pickle.dumps(model.state_dict()))
    return tmp_path


def one_card(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)


@pytest.mark.parametrize("name", ["last.pt", "old.pt"])
def test_without_a_gpu_it_stops_with_the_signature_and_loads_on_the_cpu(saved, says, name):
    with pytest.raises(RuntimeError) as error:
        torch.load(saved / name)
    says("C20", str(error.value))
    assert typed(span("C20", "t.cuda.device_count()")).startswith("False ")
    torch.load(saved / name, map_location="cpu")


def test_with_fewer_cards_it_stops_with_the_other_signature_and_loads_on_the_cpu(
    saved, says, monkeypatch
):
    one_card(monkeypatch)
    with pytest.raises(RuntimeError) as error:
        torch.load(saved / "last.pt")
    assert "on CUDA device 2 but torch.cuda.device_count() is 1" in str(error.value)
    says("C20", str(error.value))
    torch.load(saved / "last.pt", map_location="cpu")


@pytest.mark.parametrize("map_location", ["cuda:1", {"cuda:1": "cpu"}])
def test_a_map_location_that_names_a_missing_card_or_misses_the_stored_one_stops_too(
    saved, says, monkeypatch, map_location
):
    one_card(monkeypatch)
    with pytest.raises(RuntimeError) as error:
        torch.load(saved / "last.pt", map_location=map_location)
    says("C20", str(error.value))
    torch.load(saved / "last.pt", map_location={"cuda:2": "cpu"})


@pytest.mark.skipif(torch.backends.mps.is_available(), reason="this machine has mps")
def test_a_file_from_mps_stops_with_its_own_text_and_loads_on_the_cpu(tmp_path, says, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(serialization, "_package_registry", list(serialization._package_registry))
        serialization.register_package(0, lambda storage: "mps", lambda storage, location: None)
        torch.save({"a": torch.ones(2)}, tmp_path / "mac.pt")
    assert devices(tmp_path / "mac.pt") == "{'mps'}"
    with pytest.raises(RuntimeError) as error:
        torch.load(tmp_path / "mac.pt")
    says("C20", str(error.value))
    assert torch.equal(torch.load(tmp_path / "mac.pt", map_location="cpu")["a"], torch.ones(2))


def test_mmap_goes_with_the_cpu(saved):
    assert (
        torch.load(saved / "last.pt", map_location="cpu", mmap=True)["model"]["weight"].device.type
        == "cpu"
    )


def test_what_was_loaded_on_the_cpu_goes_where_the_model_is(saved):
    state = torch.load(saved / "last.pt", map_location="cpu")
    model = torch.nn.Linear(2, 1, device="meta").to_empty(device="cpu").double()
    optimizer = torch.optim.Adam(model.parameters())
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    moments = optimizer.state[model.weight]["exp_avg"]
    assert (model.weight.dtype, moments.dtype, moments.device) == (
        torch.float64,
        torch.float64,
        model.weight.device,
    )


def test_a_pickle_and_an_array_of_objects_stop_with_the_signature_and_load_after_the_lines_of_the_entry(
    saved, says, monkeypatch
):
    numpy = pytest.importorskip("numpy")

    def read():
        yield pickle.loads((saved / "last.pkl").read_bytes())
        yield numpy.load(saved / "last.npy", allow_pickle=True).item()

    with monkeypatch.context() as patch:
        patch.setattr(serialization, "_package_registry", list(serialization._package_registry))
        serialization.register_package(0, lambda storage: "cuda:2", lambda storage, location: None)
        numpy.save(saved / "last.npy", numpy.array({"weight": torch.ones(2)}, dtype=object))
    with pytest.raises(RuntimeError) as error:
        next(read())
    says("C20", str(error.value))
    monkeypatch.setattr(torch.storage, "_load_from_bytes", torch.storage._load_from_bytes)
    exec(block("C20", "fix"), {})
    assert [state["weight"].device.type for state in read()] == ["cpu", "cpu"]


def devices(path) -> str:
    """What the line of the check prints."""
    return typed(span("C20", "import re, sys, zipfile"), path)


def test_the_file_tells_its_devices_and_a_rewritten_one_names_none(saved):
    assert devices(saved / "last.pt") == "{'cuda:2'}"
    torch.save(torch.load(saved / "last.pt", map_location="cpu"), saved / "last_cpu.pt")
    assert devices(saved / "last_cpu.pt") == "set()"
    torch.load(saved / "last_cpu.pt")


def test_a_device_in_the_settings_that_were_saved_too_is_none_that_the_file_wants(saved):
    state = torch.load(saved / "last.pt", map_location="cpu")
    torch.save({"args": {"device": "cuda:7", "seed": 1}, **state}, saved / "args.pt")
    assert devices(saved / "args.pt") == "set()"
    torch.load(saved / "args.pt")


def test_the_check_names_each_card_also_in_a_file_of_many_tensors(tmp_path, monkeypatch):
    state = {f"layer{n}": torch.ones(n + 1) for n in range(300)}
    cards = iter(range(10**6))
    monkeypatch.setattr(serialization, "_package_registry", list(serialization._package_registry))
    serialization.register_package(
        0, lambda storage: f"cuda:{next(cards) // 30}", lambda storage, location: None
    )
    torch.save(state, tmp_path / "many.pt")
    assert devices(tmp_path / "many.pt").count("cuda:") == 10
