"""C6: a checkpoint of two processes, resumed by one."""

import pytest
from check_code import in_shell, span
from launch import run_ranks

MODEL = """
    import sys
    import torch
    import torch.distributed as dist
    import torch.distributed.checkpoint as dcp
    from torch import nn
    from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()

    def build(seed):
        torch.manual_seed(seed)
        model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 2))
        fully_shard(model, mesh=init_device_mesh("cpu", (world,)))
        return model, torch.optim.AdamW(model.parameters(), lr=0.1)

    def total(model, optimizer):
        numbers = [p.full_tensor() for p in model.parameters()]
        numbers += [optimizer.state[p]["exp_avg"].full_tensor() for p in model.parameters()]
        return round(sum(n.double().sum().item() for n in numbers), 6)
"""
SAVE = (
    MODEL
    + """
    model, optimizer = build(0)
    for _ in range(3):
        optimizer.zero_grad()
        model(torch.ones(2, 4)).sum().backward()
        optimizer.step()
    torch.save(model.state_dict(), f"FOLDER/pieces/sharded_rank{rank}.pt")
    torch.save({n: p.to_local() for n, p in model.state_dict().items()}, f"FOLDER/pieces/local_rank{rank}.pt")
    parts = get_state_dict(model, optimizer)
    dcp.save({"model": parts[0], "optimizer": parts[1]}, checkpoint_id="FOLDER/dcp")
    dcp.save({"w": next(model.parameters()) * 0 + 1}, checkpoint_id="FOLDER/apart", use_collectives=False)
    print("total", total(model, optimizer))
    dist.barrier()
    dist.destroy_process_group()
"""
)
LOAD = (
    MODEL
    + """
    for kind in ("sharded", "local"):
        model, optimizer = build(1)
        try:
            model.load_state_dict(torch.load(f"FOLDER/pieces/{kind}_rank{rank}.pt"))
            print(kind, "loaded")
        except RuntimeError as error:
            print(kind, "failed", error)
    model, optimizer = build(1)
    parts = get_state_dict(model, optimizer)
    state = {"model": parts[0], "optimizer": parts[1]}
    dcp.load(state, checkpoint_id="FOLDER/dcp")
    set_state_dict(model, optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"])
    print("total", total(model, optimizer))
    half = {"w": torch.zeros(4, 4)}
    dcp.load(half, checkpoint_id="FOLDER/apart")
    print("half", int(half["w"].sum()), "of", half["w"].numel())
    dist.barrier()
    dist.destroy_process_group()
"""
)


@pytest.fixture(scope="module")
def outputs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("checkpoint")
    (folder / "pieces").mkdir()
    saved = run_ranks(SAVE.replace("FOLDER", str(folder)), timeout=90)
    loaded = run_ranks(LOAD.replace("FOLDER", str(folder)), nproc=1, timeout=90)
    return saved.ranks[0], loaded.ranks[0], folder


def totals(text: str) -> list[str]:
    return [line.split()[1] for line in text.splitlines() if line.startswith("total")]


def test_a_file_per_rank_does_not_load_on_another_number_of_ranks(outputs, says):
    _, loaded, _ = outputs
    assert "sharded failed" in loaded and "local failed" in loaded
    says("C6", loaded)


def test_a_distributed_checkpoint_does_and_brings_the_optimizer_along(outputs):
    saved, loaded, _ = outputs
    assert totals(saved) == totals(loaded) != []


def test_one_saved_without_collectives_loads_only_this_ranks_part_and_says_nothing(outputs):
    assert "half 8 of 16" in outputs[1]


def test_the_check_lists_a_piece_for_each_rank_or_metadata_alone(outputs):
    folder = outputs[2]
    for name in ("zero_pp_rank_1_mp_rank_00_optim_states.pt", "mp_rank_00_model_states.pt"):
        (folder / "zero").mkdir(exist_ok=True)
        (folder / "zero" / name).touch()
    command = span("C6", "ls -aR")
    told = {
        name: in_shell(command.replace("ckpt", name), folder).split()
        for name in ("pieces", "dcp", "zero", "apart")
    }
    assert told["dcp"] == [".metadata"]
    assert told["apart"] == ["__0.metadata", "__1.metadata"]
    assert told["zero"] == ["zero_pp_rank_1_mp_rank_00_optim_states.pt"]
    assert sorted(told["pieces"]) == [
        f"{k}_rank{r}.pt" for k in ("local", "sharded") for r in (0, 1)
    ]
