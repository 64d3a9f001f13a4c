"""C7: torch.distributed.checkpoint in one process, which is enough to see what it restores."""

import ast
import warnings

import pytest
import torch
import torch.distributed.checkpoint as dcp
from check_code import shown, span
from torch import nn
from torch.distributed.checkpoint.format_utils import dcp_to_torch_save
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict


@pytest.fixture(autouse=True)
def quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def build(seed: int, width: int = 2):
    torch.manual_seed(seed)
    model = nn.Linear(3, width)
    return model, torch.optim.AdamW(model.parameters(), lr=0.1)


@pytest.fixture
def saved(tmp_path):
    model, optimizer = build(0)
    for _ in range(3):
        optimizer.zero_grad()
        model(torch.ones(1, 3)).sum().backward()
        optimizer.step()
    weights, moments = get_state_dict(model, optimizer)
    folder = str(tmp_path / "dcp")
    dcp.save({"model": weights, "optimizer": moments, "step": 3}, checkpoint_id=folder)
    return folder, model, optimizer


def test_loading_into_a_new_optimizers_own_state_dict_restores_nothing_and_says_nothing(saved):
    folder, _, _ = saved
    model, optimizer = build(1)
    state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
    dcp.load(state, checkpoint_id=folder)
    optimizer.load_state_dict(state["optimizer"])
    assert len(optimizer.state) == 0


def test_get_state_dict_makes_the_places_so_that_everything_returns(saved):
    folder, old_model, old_optimizer = saved
    model, optimizer = build(1)
    weights, moments = get_state_dict(model, optimizer)
    state = {"model": weights, "optimizer": moments, "step": 0}
    dcp.load(state, checkpoint_id=folder)
    set_state_dict(model, optimizer, model_state_dict=weights, optim_state_dict=moments)
    assert state["step"] == 3
    assert torch.equal(model.weight, old_model.weight)
    assert torch.equal(
        optimizer.state[model.weight]["exp_avg"], old_optimizer.state[old_model.weight]["exp_avg"]
    )
    assert optimizer.state[model.weight]["step"] == 3


def test_a_key_that_the_checkpoint_lacks_stops_with_the_signature(saved, says):
    folder, _, _ = saved
    model, _ = build(1)
    with pytest.raises(BaseException) as error:
        dcp.load(
            model.state_dict(), checkpoint_id=folder
        )  # saved under "model.", asked for without
    says("C7", str(error.value))


def test_allow_partial_load_passes_over_a_missing_key(saved):
    folder, old_model, _ = saved
    model, _ = build(1)
    state = {"model": model.state_dict(), "new": torch.zeros(2)}
    dcp.load(state, checkpoint_id=folder, planner=dcp.DefaultLoadPlanner(allow_partial_load=True))
    assert torch.equal(model.weight, old_model.weight)


def test_another_shape_stops_with_the_signature(saved, says):
    folder, _, _ = saved
    with pytest.raises(BaseException) as error:
        dcp.load({"model": build(1, width=5)[0].state_dict()}, checkpoint_id=folder)
    says("C7", str(error.value))


def test_a_folder_without_metadata_stops_with_the_signature(saved, says, tmp_path):
    folder, _, _ = saved
    (tmp_path / "dcp" / ".metadata").unlink()
    with pytest.raises(BaseException) as error:
        dcp.load({"model": build(1)[0].state_dict()}, checkpoint_id=folder)
    says("C7", str(error.value))


def test_torch_load_takes_neither_the_folder_nor_a_shard_for_a_checkpoint(saved, tmp_path):
    folder, _, _ = saved
    with pytest.raises(IsADirectoryError):
        torch.load(folder)
    shard = next((tmp_path / "dcp").glob("*.distcp"))
    try:  # a shard is many small files in a row; what comes depends on which one is first
        assert not isinstance(torch.load(shard), dict)
    except RuntimeError as error:
        assert "PytorchStreamReader" in str(error)


def test_the_converter_makes_one_ordinary_file(saved, tmp_path):
    folder, model, _ = saved
    dcp_to_torch_save(folder, tmp_path / "one.pt")
    assert torch.equal(torch.load(tmp_path / "one.pt")["model"]["weight"], model.weight)


def test_the_check_tells_a_cold_optimizer_from_a_restored_one(saved):
    folder, _, _ = saved
    model, cold = build(1)
    state = {"optimizer": cold.state_dict()}
    dcp.load(state, checkpoint_id=folder)
    cold.load_state_dict(state["optimizer"])
    unread = torch.optim.AdamW(model.parameters())
    get_state_dict(model, unread)  # the places are there, dcp.load never filled them
    warm = torch.optim.AdamW(model.parameters())
    weights, moments = get_state_dict(model, warm)
    dcp.load({"model": weights, "optimizer": moments}, checkpoint_id=folder)
    set_state_dict(model, warm, model_state_dict=weights, optim_state_dict=moments)
    code = span("C7", "optimizer.state")
    told = [shown(code, optimizer=optimizer) for optimizer in (cold, unread, warm)]
    assert told == ["[]", "[1.0]", "[3.0]"]


def test_the_names_that_the_check_prints_are_those_that_load(saved):
    folder, _, _ = saved
    names = ast.literal_eval(shown(span("C7", "read_metadata"), dcp=dcp, folder=folder))
    model, _ = build(1)
    assert set(names) >= {f"model.{name}" for name in model.state_dict()}
    assert not set(names) & set(model.state_dict())  # bare names: the failure
