"""`rgt fit FILE.py:NAME`: a model of the user's own."""

import json
import random
import re
import sys
import time

import pytest
from remote_gpu_trainer.cli import fit_module
from remote_gpu_trainer.cli.main import main
from remote_gpu_trainer.fit import trace_module
from remote_gpu_trainer.fit.traced_model import estimate_traced
from remote_gpu_trainer.fit.training_run import Run
from remote_gpu_trainer.numbers.memory import CONTEXT

from tests.conftest import ROOT, module

GIB = 2.0**30
WAITS = re.compile(r"building \w+ of \S+, and counting … \d+ s")
SIMPLE = """
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

print("a user's own words")

class Net(nn.Module):
    def __init__(self, width=512):
        super().__init__()
        self.a, self.b = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        return self.b(torch.relu(self.a(x)))

class Asks(Net):
    def forward(self, x):
        return super().forward(x) * x.sum().item()

class Checks(Net):
    def forward(self, x):
        if torch.isnan(x).any() or not torch.isfinite(x).all():
            raise ValueError("no numbers")
        return super().forward(x)

class Grows(Net):
    def forward(self, x):
        return (x @ x.T).sum() + super().forward(x).sum()

class Deep(nn.Module):
    def __init__(self, saving=False):
        super().__init__()
        self.layers, self.saving = nn.ModuleList(Net() for _ in range(24)), saving

    def forward(self, x):
        for layer in self.layers:
            x = checkpoint(layer, x, use_reentrant=False) if self.saving else layer(x)
        return x

class Looks(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Conv2d(3, 8, 3)

    def forward(self, x):
        return self.a(x)

def adapted():
    class Pair(nn.Module):
        def __init__(self, base):
            super().__init__()
            self.base = base.to(torch.bfloat16).requires_grad_(False)
            self.down = nn.Linear(base.in_features, 8, bias=False)
            self.up = nn.Linear(8, base.out_features, bias=False)

        def forward(self, x):
            return self.base(x) + self.up(self.down(x.float()))

    net = Net()
    net.a, net.b = Pair(net.a), Pair(net.b)
    return net

def no_model():
    return 7

def tells():
    raise ValueError("token hf_abcdefghijklmnopqrstuvwxyzabcdefgh is wrong\\nsecond line")

def sleeps():
    import time
    time.sleep(60)

def leaves():
    import os
    os._exit(3)

constant = 3
"""


@pytest.fixture(scope="module")
def torch():
    return module("torch", "pip install '.[proofs]'")


@pytest.fixture
def file(tmp_path, torch):
    path = tmp_path / "mine.py"
    path.write_text(SIMPLE)
    return str(path)


def asked(capsys, *words: str) -> tuple[int, dict]:
    code = main(["fit", *words, "--python", sys.executable, "--json"])
    return code, json.loads(capsys.readouterr().out)


def refused(capsys, *words: str) -> str:
    try:
        code = main(["fit", *words])
    except SystemExit as end:
        code = end.code
    told = capsys.readouterr()
    assert code == 2 and not told.out
    # While it waits, a line every few seconds says so: on a busy machine any of these may wait.
    lines = [line for line in told.err.splitlines() if line and not WAITS.fullmatch(line)]
    [line] = lines
    return line


# What a GPU took.


def plain_runs() -> list[dict]:
    record = json.loads((ROOT / "tests/records/fit_limits.json").read_text(encoding="utf-8"))
    return [row for row in record["runs"] if "in plain torch" in row["run"]]


@pytest.mark.parametrize("row", plain_runs(), ids=lambda row: row["run"])
def test_the_peak_is_within_2_percent_of_what_an_h100_took(row, torch):
    own = ("activation_function", "architectures", "model_type", "tie_word_embeddings")
    config = {key: value for key, value in row["config"].items() if key not in own}
    told = row["asked"]
    asked = Run(**told)
    model = fit_module.counted(
        str(ROOT / "tools/gpu_campaign/fit_models.py"),
        "Plain",
        json.dumps({"config": config}),
        (f"int:{told['sequence']}",) * 2,
        asked,
        sys.executable,
    )
    assert model.returns_loss
    assert estimate_traced(model, asked).peak == pytest.approx(row["peak"], rel=0.02)


# The answer.


def test_weights_are_exact_and_the_last_line_has_verdict_unit_and_uncertainty(file, capsys):
    words = [f"{file}:Net", "--model-args", '{"width": 1024}', "--input", "1024"]
    code, told = asked(capsys, *words, "--gpu", "24", "--batch", "64", "--precision", "fp32")
    assert code == 0 and told["verdict"] == "fits"
    assert told["weights"] == 2 * 4 * 1024**2 + 4 * 1024 + 1024
    assert main(["fit", *words, "--gpu", "24", "--python", sys.executable]) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.startswith("fits: 1.1 GiB of 24.0 GiB on each GPU, give or take 15%")


def test_what_a_layer_keeps_is_counted_to_the_byte(file, capsys):
    words = [f"{file}:Net", "--input", "512", "--batch", "4096", "--precision", "fp32"]
    _, told = asked(capsys, *words, "--optimizer", "sgd")
    kept = next(line for line in told["lines"] if line["what"] == "kept for the backward pass")
    inputs, hidden, output = 512, 2048, 512  # ReLU's result is what the next matrix reads
    assert kept["gib"] == pytest.approx(4096 * 4 * (inputs + hidden + output) / GIB, abs=2e-3)


def test_lora_takes_what_adapters_written_by_hand_take(file, capsys):
    words = ("--input", "512", "--batch", "4096")
    _, told = asked(capsys, f"{file}:Net", *words, "--lora", "8")
    _, own = asked(capsys, f"{file}:adapted", *words)
    assert told["weights"] == own["weights"]
    assert told["peak_gib"] == pytest.approx(own["peak_gib"], rel=0.01)
    states = next(line for line in told["lines"] if line["what"] == "optimizer state")
    assert states["gib"] == pytest.approx(8 * 2 * 8 * (512 + 2048) / GIB, abs=1e-3)


def test_checkpointing_takes_what_the_users_own_takes(file, capsys):
    words = ("--input", "512", "--batch", "4096")
    _, plain = asked(capsys, f"{file}:Deep", *words)
    _, told = asked(capsys, f"{file}:Deep", *words, "--checkpointing")
    own_words = ("--model-args", '{"saving": true}')
    _, own = asked(capsys, f"{file}:Deep", *words, *own_words)
    assert told["peak_gib"] == pytest.approx(own["peak_gib"], rel=0.01)
    assert told["peak_gib"] < plain["peak_gib"]


def test_adafactor_keeps_rows_and_columns(file, capsys):
    words = (f"{file}:Net", "--input", "512", "--optimizer", "adafactor", "--model-args")
    _, told = asked(capsys, *words, '{"width": 4096}')
    assert told["verdict"] is None and told["moment"] == "in the optimizer's step"
    update = next(line for line in told["lines"] if line["what"].startswith("update of the"))
    assert update["gib"] == pytest.approx(12 * 4 * 4096**2 / GIB, abs=1e-3)


@pytest.mark.parametrize(
    ("name", "option", "why"),
    [("Looks", "--lora", "the model has none"), ("Net", "--checkpointing", "a list of blocks")],
)
def test_what_a_model_has_no_part_for_is_refused(name, option, why, file, capsys):
    words = [option, *(["8"] if option == "--lora" else []), "--python", sys.executable]
    assert why in refused(capsys, f"{file}:{name}", *words)


def test_without_an_input_it_is_a_lower_bound(file, capsys):
    code, told = asked(capsys, f"{file}:Net", "--gpu", "24")
    assert code == 2 and told["verdict"] == "not known" and told["uncertain"] is None
    assert told["not_counted"] == ["activations: no --input was given"]
    assert main(["fit", f"{file}:Net", "--gpu", "24", "--python", sys.executable]) == 2
    assert "at least" in capsys.readouterr().out.splitlines()[-1]


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("Asks", "item() cannot be called on meta tensors"),
        ("Grows", "isn't in proportion to the batch"),
    ],
)
def test_a_model_that_cannot_be_run_so_gets_a_lower_bound_and_the_reason(name, why, file, capsys):
    words = (f"{file}:{name}", "--input", "512", "--gpu", "24", "--batch", "4096")
    code, told = asked(capsys, *words)
    assert code == 2 and told["verdict"] == "not known"
    assert why in told["not_counted"][0]


def test_a_check_of_the_numbers_passes_as_it_would_with_good_ones(file, capsys):
    code, told = asked(capsys, f"{file}:Checks", "--input", "512", "--gpu", "24")
    assert code == 0 and told["uncertain"] is not None


def test_convolutions_are_named_and_widen_the_uncertainty(torch, capsys):
    net = f"{ROOT}/evals/fit/modules.py:UNet"
    args = ("--model-args", '{"width": 8, "depth": 3, "classes": 2}')
    _, told = asked(capsys, net, *args, "--input", "3x64x64")
    assert told["uncertain"] == 0.5
    assert "the workspace of cuDNN" in told["not_counted"][-1]


def test_the_batch_that_is_solved_for_fits_and_the_next_does_not(file, capsys):
    words = [f"{file}:Net", "--input", "512", "--precision", "fp32", "--gpu", "4"]
    code, told = asked(capsys, *words, "--solve", "batch")
    best = told["solved"]["largest"]["value"]
    assert code == 0 and told["solved"]["safe"]["value"] < best
    assert asked(capsys, *words, "--batch", str(best))[1]["need_gib"] <= 4
    assert asked(capsys, *words, "--batch", str(best + best // 50))[1]["need_gib"] > 4
    _, told = asked(capsys, *words[:-2], "--batch", str(best), "--solve", "gpu")
    assert told["solved"]["least"]["gib"] >= told["need_gib"]


def test_autocast_keeps_less_and_torchs_adamw_takes_more(file, capsys):
    words = [f"{file}:Net", "--input", "512", "--batch", "65536"]
    wide = asked(capsys, *words, "--precision", "fp32")[1]["need_gib"]
    assert asked(capsys, *words, "--precision", "bf16-mixed")[1]["need_gib"] < wide
    words = [f"{file}:Net", "--model-args", '{"width": 8192}', "--input", "8192"]
    fused = asked(capsys, *words, "--precision", "fp32")[1]["need_gib"]
    lists = asked(capsys, *words, "--precision", "fp32", "--optimizer", "adamw-foreach")[1]
    assert lists["need_gib"] - CONTEXT == pytest.approx((fused - CONTEXT) * 5 / 4, rel=0.02)


@pytest.mark.parametrize("precision", ["fp32", "bf16-mixed"])
def test_checkpointing_in_the_users_code_is_counted(precision, file, capsys):
    words = [f"{file}:Deep", "--input", "512", "--batch", "65536", "--precision", precision]
    kept = []
    for way in ("false", "true"):
        told = asked(capsys, *words, "--model-args", f'{{"saving": {way}}}')[1]
        lines = {line["what"]: line["gib"] for line in told["lines"]}
        kept.append(lines["kept for the backward pass"])
    # Of each layer only its inputs are kept. In 24 layers those at both ends, in fp32, weigh little.
    inputs, hidden = 512, 2048
    assert kept[1] / kept[0] == pytest.approx(inputs / (inputs + hidden), abs=0.05)


# What can go wrong.


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (
            ["{}:Nope"],
            "has no Nope; it has Net, Asks, Checks, Grows, Deep, Looks, adapted, no_model; "
            "correct the file or --model-args",
        ),
        (["{}:constant"], "has no constant; it has Net"),
        (["{}:no_model"], "error: no_model gives int, not a torch.nn.Module; correct the file"),
        (["{}:Net", "--model-args", '{"depth": 2}'], "unexpected keyword argument 'depth'"),
        (["{}:Net", "--model-args", "[1]"], "--model-args is no object of JSON"),
        (["{}:Net", "--input", "3xx4"], "can't read --input '3xx4'; give the sides"),
        (["{}:Net", "--lora", "8", "--targets", "qv"], "--targets qv is for a config.json"),
        (["{}:Net", "--liger"], "--liger is for a config.json"),
        (["{}:Net", "--precision", "4bit", "--lora", "8"], "is for a config.json"),
        (["{}:Net", "--optimizer", "muon"], "--optimizer muon is for a config.json"),
        (["{}:Net", "--sharding", "fsdp", "--gpus", "2"], "--sharding fsdp is for a config.json"),
        (["{}:Net", "--layers", "8"], "--layers is for a config.json; give --model-args"),
        (["{}:Net", "--sequence", "8"], "--sequence is for a config.json"),
        (["{}:Net", "--solve", "batch", "--gpu", "8"], "--solve batch needs activations"),
        (["{}:Net", "--solve", "lora", "--gpu", "8"], "--solve lora is for a config.json"),
        (["{}:leaves"], "the model's process ended without an answer"),
        (["{}x.py:Net"], "no such file; give FILE.py:NAME"),
        (["--layers", "2", "--input", "8"], "--input and --python are for FILE.py:NAME"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(words, line, file, capsys):
    here = [word.replace("{}", file) for word in words]
    python = [] if here[0].startswith("--") else ["--python", sys.executable]
    assert line in refused(capsys, *here, *python)


def test_a_python_that_lacks_torch_or_is_missing_is_named(file, capsys, tmp_path):
    assert "No such file" in refused(capsys, f"{file}:Net", "--python", str(tmp_path / "none"))
    (tmp_path / "torch.py").write_text("raise ModuleNotFoundError(\"No module named 'torch'\")")
    bare = tmp_path / "python"
    bare.write_text(f'#!/bin/sh\nPYTHONPATH="{tmp_path}" exec "{sys.executable}" "$@"\n')
    bare.chmod(0o755)
    line = refused(capsys, f"{file}:Net", "--python", str(bare))
    assert line.endswith(
        "No module named 'torch'; pass the Python of your environment with --python PATH"
    )


def test_no_secret_of_the_users_code_is_told(file, capsys):
    line = refused(capsys, f"{file}:tells", "--python", sys.executable)
    assert "hf_abcdefgh" not in line and "second line" not in line


def test_a_model_that_never_ends_is_ended(file, capsys, monkeypatch):
    monkeypatch.setattr(fit_module, "SECONDS", 8.0)
    began = time.monotonic()
    line = refused(capsys, f"{file}:sleeps", "--python", sys.executable)
    assert "took more than 8 s" in line and time.monotonic() - began < 30


def test_the_lines_of_two_batches_give_the_peak_of_every_batch():
    dice = random.Random(3)
    events = [(dice.randrange(0, 9000), dice.randrange(0, 70)) for _ in range(400)]
    low, high = ([fixed + each * n for fixed, each in events] for n in trace_module.PAIR)
    lines = trace_module.lines_of(low, high)
    assert len(lines) < 40
    for batch in (1, 2, 3, 5, 17, 100, 4096):
        assert trace_module.at(lines, batch) == max(f + e * batch for f, e in events)
    with pytest.raises(trace_module.NotCounted):
        trace_module.lines_of(low, high[1:])
