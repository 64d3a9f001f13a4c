"""D15: what a checkpoint of a sharded model holds, and who can read it."""

import shlex
import subprocess
import sys

import pytest
import torch
from check_code import in_shell, shown, span
from launch import run_ranks

SAVE = """
    import os, torch, torch.distributed as dist, torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict, get_state_dict
    from torch.distributed.fsdp import fully_shard
    dist.init_process_group("gloo")
    rank, folder = dist.get_rank(), os.environ["FOLDER"]
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 8))
    fully_shard(model, mesh=dist.device_mesh.init_device_mesh("cpu", (2,)))
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.ones(2, 8)).sum().backward()
    optimizer.step()
    torch.save(model.state_dict(), f"{folder}/rank{rank}.pt")
    full = get_model_state_dict(model, options=StateDictOptions(full_state_dict=True, cpu_offload=True))
    print("names", len(full))
    if rank == 0:
        torch.save(full, f"{folder}/full.pt")
    weights, moments = get_state_dict(model, optimizer)
    dcp.save({"model": weights, "optimizer": moments}, checkpoint_id=f"{folder}/dcp")
    dist.barrier()
    dist.destroy_process_group()
"""
RESUME_ON_ONE_RANK = """
    import os, torch, torch.distributed as dist, torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint.state_dict import (
        StateDictOptions, get_state_dict, set_model_state_dict, set_state_dict)
    from torch.distributed.fsdp import fully_shard
    dist.init_process_group("gloo")
    folder = os.environ["FOLDER"]
    model = torch.nn.Sequential(torch.nn.Linear(8, 8))
    fully_shard(model, mesh=dist.device_mesh.init_device_mesh("cpu", (1,)))
    optimizer = torch.optim.AdamW(model.parameters())
    try:
        model.load_state_dict(torch.load(f"{folder}/rank0.pt"))
    except RuntimeError as error:
        print(error)
    weights, moments = get_state_dict(model, optimizer)
    dcp.load({"model": weights, "optimizer": moments}, checkpoint_id=f"{folder}/dcp")
    set_state_dict(model, optimizer, model_state_dict=weights, optim_state_dict=moments)
    whole = torch.load(f"{folder}/full.pt")["0.weight"]
    print("same weights", torch.equal(model[0].weight.full_tensor(), whole))
    print("optimizer step", optimizer.state[model[0].weight]["step"].item())
    fresh = fully_shard(torch.nn.Sequential(torch.nn.Linear(8, 8)), mesh=dist.device_mesh.init_device_mesh("cpu", (1,)))
    full = torch.load(f"{folder}/full.pt")
    try:
        fresh.load_state_dict(full)
    except RuntimeError as error:
        print("whole file by load_state_dict:", str(error).replace("\\n", " "))
    set_model_state_dict(fresh, full, options=StateDictOptions(full_state_dict=True, broadcast_from_rank0=True))
    print("whole file by set_model_state_dict", torch.equal(fresh[0].weight.full_tensor(), whole))
    tied = torch.nn.Sequential(torch.nn.Embedding(8, 8), torch.nn.Linear(8, 8, bias=False))
    tied[1].weight = tied[0].weight
    fully_shard(tied, mesh=dist.device_mesh.init_device_mesh("cpu", (1,)))
    for strict in (True, False):
        options = StateDictOptions(full_state_dict=True, broadcast_from_rank0=True, strict=strict)
        try:
            set_model_state_dict(tied, {"0.weight": whole}, options=options)
            print("tied file", strict, torch.equal(tied[1].weight.full_tensor(), whole))
        except RuntimeError as error:
            print("tied file", strict, "Missing key" in str(error))
    dist.destroy_process_group()
"""


@pytest.fixture(scope="module")
def resumed(saved):
    """What one rank said that resumed what two had saved."""
    return run_ranks(RESUME_ON_ONE_RANK, nproc=1, timeout=60, env={"FOLDER": saved[0]}).ranks[0]


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """(folder, output of each rank): one model, two ranks, saved in three ways."""
    folder = tmp_path_factory.mktemp("saved")
    return folder, run_ranks(SAVE, timeout=60, env={"FOLDER": folder}).ranks


def plain_model():
    return torch.nn.Sequential(torch.nn.Linear(8, 8))


def test_a_file_of_each_rank_holds_half_and_a_plain_model_refuses_it(saved, says):
    import torch.distributed.tensor

    folder, _ = saved
    state = torch.load(folder / "rank0.pt")
    assert state["0.weight"].shape == (8, 8) and state["0.weight"].to_local().shape == (4, 8)
    with pytest.raises(RuntimeError) as error:
        plain_model().load_state_dict(state)
    says("D15", str(error.value))


def test_reading_it_in_a_fresh_process_asks_for_the_tensor_module(saved, says):
    code = f"import torch; torch.load({str(saved[0] / 'rank0.pt')!r})"
    says("D15", subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stderr)


def test_a_full_state_dict_lies_on_rank_0_alone_and_fits_a_plain_model(saved):
    folder, (first, second) = saved
    assert "names 2" in first and "names 0" in second
    plain_model().load_state_dict(torch.load(folder / "full.pt"))


def test_another_world_size_refuses_the_old_shard_and_reads_the_distributed_checkpoint(
    resumed, says
):
    says("D15", resumed.split("same weights")[0])
    assert "same weights True" in resumed and "optimizer step 1.0" in resumed


def test_a_whole_file_goes_into_a_sharded_model_by_set_model_state_dict_not_by_load_state_dict(
    resumed, says
):
    says(
        "D15",
        next(
            line
            for line in resumed.splitlines()
            if line.startswith("whole file by load_state_dict:")
        ),
    )
    assert "whole file by set_model_state_dict True" in resumed


def test_a_file_without_the_head_of_tied_weights_goes_in_without_strict(resumed):
    assert "tied file True True" in resumed and "tied file False True" in resumed


def test_the_converter_makes_one_file_of_a_distributed_checkpoint(saved, tmp_path):
    from torch.distributed.checkpoint.format_utils import dcp_to_torch_save

    dcp_to_torch_save(saved[0] / "dcp", tmp_path / "one.pt")
    plain_model().load_state_dict(torch.load(tmp_path / "one.pt")["model"])


def test_the_command_of_the_check_tells_a_shard_from_a_whole_model(saved, monkeypatch):
    command = shlex.split(span("D15", "rank0.pt"))
    assert command[:2] == ["python", "-c"]
    monkeypatch.chdir(saved[0])
    assert shown(command[2]) == "{'DTensor'}"
    assert shown(command[2].replace("rank0.pt", "full.pt")) == "{'Tensor'}"


def test_the_check_names_the_files_of_a_distributed_checkpoint(saved):
    names = in_shell(span("D15", "FOLDER").replace("FOLDER", "dcp"), saved[0]).split()
    assert {span("D15", ".metadata"), span("D15", ".distcp")} <= set(names)
