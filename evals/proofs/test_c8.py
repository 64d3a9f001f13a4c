"""C8: what a DeepSpeed ZeRO-3 checkpoint holds. One process on the CPU is enough; needs deepspeed."""

import ast
import json
import sys

import pytest
import torch
from check_code import block, shown, span
from launch import run_commands, run_ranks
from torch import nn

pytest.importorskip("deepspeed")

TRAIN = """
    import json
    import deepspeed
    import torch
    from torch import nn

    deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False  # else it is compiled, and a build that is killed
    deepspeed.init_distributed("gloo")                              # leaves a lock on which the next run waits for ever
    model = nn.Linear(4, 2)
    config = {"train_micro_batch_size_per_gpu": 1, "zero_force_ds_cpu_optimizer": False, "zero_allow_untested_optimizer": True,
              "zero_optimization": {"stage": 3, "stage3_param_persistence_threshold": 0}}
    engine = deepspeed.initialize(model=model, optimizer=torch.optim.Adam(model.parameters(), lr=0.1), config=config)[0]
    engine.backward(engine(torch.ones(1, 4)).sum())
    engine.step()
    engine.save_checkpoint("FOLDER/ckpt")
    torch.save(engine.module.state_dict(), "FOLDER/naive.pt")
    wrong = engine.load_checkpoint("FOLDER/ckpt/global_step1")
    with deepspeed.zero.GatheredParameters(list(engine.module.parameters())):
        real = [p.detach().sum().item() for p in engine.module.parameters()]
    with deepspeed.zero.GatheredParameters(list(engine.module.parameters()), modifier_rank=0):
        engine.module.load_state_dict({name: torch.full_like(p, 9) for name, p in engine.module.named_parameters()})
    engine.backward(engine(torch.ones(1, 4)).sum())
    engine.step()
    with deepspeed.zero.GatheredParameters(list(engine.module.parameters())):
        late = [p.detach().abs().max().item() for p in engine.module.parameters()]
    json.dump({"wrong": wrong, "real": real, "late": late}, open("FOLDER/seen.json", "w"))
"""


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("zero")
    done = run_ranks(
        TRAIN.replace("FOLDER", str(folder)), nproc=1, env={"DS_ACCELERATOR": "cpu"}, timeout=90
    )
    assert (folder / "seen.json").exists(), done.output
    return folder, json.loads((folder / "seen.json").read_text()), done.output


@pytest.mark.parametrize("there, matches", [("[768, 768]", True), ("[10]", False)])
def test_slices_of_one_number_in_place_of_a_matrix_are_recognised_and_a_head_of_one_class_is_not(
    says, there, matches
):
    line = (
        "size mismatch for fc1.weight: copying a param with shape torch.Size([1]) from checkpoint, "
    )
    line += f"the shape in current model is torch.Size({there})."
    if matches:
        says("C8", line)
    else:
        with pytest.raises(AssertionError, match="none of the signatures"):
            says("C8", line)


def test_the_state_dict_of_the_module_holds_empty_tensors(trained, says):
    folder, _, _ = trained
    naive = torch.load(folder / "naive.pt")
    assert [tuple(v.shape) for v in naive.values()] == [(0,), (0,)]
    with pytest.raises(RuntimeError) as error:
        nn.Linear(4, 2).load_state_dict(naive)
    says("C8", str(error.value))


def test_given_the_inner_folder_load_checkpoint_only_warns_and_restores_nothing(trained, says):
    _, seen, log = trained
    assert seen["wrong"] == [None, None]
    says("C8", log)


def test_zero_to_fp32_writes_a_folder_with_the_real_weights(trained):
    folder, seen, _ = trained
    command = [
        sys.executable,
        str(folder / "ckpt" / "zero_to_fp32.py"),
        str(folder / "ckpt"),
        str(folder / "out.bin"),
    ]
    [done] = run_commands([command], env={"DS_ACCELERATOR": "cpu"})
    assert done.returncode == 0, done.output
    assert (folder / "out.bin").is_dir()
    state = torch.load(folder / "out.bin" / "pytorch_model.bin")
    nn.Linear(4, 2).load_state_dict(state)
    assert [v.sum().item() for v in state.values()] == pytest.approx(seen["real"], abs=1e-5)


def test_weights_loaded_after_initialize_are_overwritten_by_the_next_step(trained):
    _, seen, _ = trained
    assert max(seen["late"]) < 2  # 9 was loaded


def test_the_check_shows_empty_tensors_in_the_naive_file_and_shapes_in_the_merged_one(
    trained, tmp_path, monkeypatch
):
    folder, _, _ = trained
    merged = {"weight": torch.ones(2, 4), "bias": torch.ones(2)}
    seen = []
    monkeypatch.chdir(tmp_path)
    for state in (torch.load(folder / "naive.pt"), merged):
        torch.save(state, "pytorch_model.bin")
        seen.append(ast.literal_eval(shown(span("C8", "tuple(v.shape)"), torch=torch)))
    assert seen[0] == {"weight": (0,), "bias": (0,)}
    assert seen[1] == {"weight": (2, 4), "bias": (2,)}
    assert (folder / "ckpt" / "latest").exists()
    assert not (folder / "ckpt" / "global_step1" / "latest").exists()


INTO_SLICES = """
    import deepspeed
    import torch
    from torch import nn

    deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False
    deepspeed.init_distributed("gloo")
    config = {"train_micro_batch_size_per_gpu": 1,
              "zero_optimization": {"stage": 3, "stage3_param_persistence_threshold": 0}}
    made = lambda: nn.Sequential(nn.Linear(4, 4), nn.Sequential(nn.LayerNorm(4), nn.Linear(4, 4)))
    torch.manual_seed(0)
    sd = made().state_dict()
    torch.manual_seed(1)
    with deepspeed.zero.Init(config_dict_or_path=config):
        model = made()
    CODE
    load(model)
    with deepspeed.zero.GatheredParameters(list(model.parameters())):
        print("same weights", all(torch.equal(value, sd[name]) for name, value in model.state_dict().items()))
"""


def test_the_code_of_the_fix_loads_an_ordinary_file_into_a_sliced_model():
    code = block("C8", "fix").replace("\n", "\n    ")
    done = run_ranks(
        INTO_SLICES.replace("CODE", code.strip()),
        nproc=2,
        env={"DS_ACCELERATOR": "cpu"},
        timeout=90,
    )
    assert done.output.count("same weights True") == 2, done.output
