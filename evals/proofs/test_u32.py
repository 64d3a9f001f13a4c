"""U32: an argument for all cells overrules what each config says, and the Check lists lengths that differ."""

import json
import subprocess

import pytest
from check_code import span

CONFIGS = {
    "resnet.yaml": "model: resnet\nepochs: 30\nwarmup_steps: 500\n",
    "diffusion.yaml": "model: unet\ntrainer:\n  max_epochs: 400\n",
    "pretrain.json": json.dumps({"num_train_epochs": 100, "logging_steps": 10}),
    "toy.py": "total_steps = 2000\n",
    "segmenter.yaml": "schedule:\n  max_iters: 80000\n",
    "detector.yaml": "SOLVER:\n  MAX_ITER: 90000\n",
}


def lengths(folder) -> list[str]:
    code = span("U32", "epochs?|steps")
    said = subprocess.run(["bash", "-c", code], cwd=folder, capture_output=True, text=True).stdout
    return [" ".join(line.split()) for line in said.splitlines()]


@pytest.fixture
def configs(tmp_path):
    def write(names):
        (tmp_path / "configs").mkdir()
        for name in names:
            (tmp_path / "configs" / name).write_text(CONFIGS[name])
        return tmp_path

    return write


def test_several_lengths_show_that_one_argument_cuts_some(configs):
    found = lengths(configs(CONFIGS))
    assert found == [
        '1 "num_train_epochs": 100', "1 MAX_ITER: 90000", "1 epochs: 30", "1 max_epochs: 400",
        "1 max_iters: 80000", "1 total_steps = 2000",
    ]  # fmt: skip


def test_one_length_for_all_is_no_cut_and_a_warm_up_is_no_length(configs):
    folder = configs(["resnet.yaml"])
    (folder / "configs/vgg.yaml").write_text("model: vgg\nepochs: 30\nwarmup_steps: 100\n")
    assert lengths(folder) == ["2 epochs: 30"]


def test_a_run_cut_to_the_argument_ends_within_its_warm_up():
    torch = pytest.importorskip("torch")
    own, argument = 400, 30  # epochs, with a step each; a tenth of the own length is warm-up
    weight = torch.zeros(1, requires_grad=True)
    rates = {}
    for length in (own, argument):
        optimizer = torch.optim.SGD([weight], lr=1.0)
        warm = torch.optim.lr_scheduler.LinearLR(optimizer, 0.01, total_iters=own // 10)
        for _ in range(length):
            optimizer.step()
            warm.step()
        rates[length] = optimizer.param_groups[0]["lr"]
    assert rates[own] == pytest.approx(1.0)
    assert rates[argument] < 0.8
