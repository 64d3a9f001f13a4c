"""What was measured of runs: the published figures, the local table, and the estimate beside a rehearsal."""

import json
import subprocess
import sys
from dataclasses import asdict

import pytest
from remote_gpu_trainer.boxes import box as boxes
from remote_gpu_trainer.boxes.box import Box
from remote_gpu_trainer.boxes.ssh import parse
from remote_gpu_trainer.cli.main import main
from remote_gpu_trainer.fit.measured import (
    METHODS,
    Measured,
    like,
    published,
    rehearsed,
    rows_of,
)
from remote_gpu_trainer.fit.model_config import model_of
from remote_gpu_trainer.fit.training_memory import GIB, estimate
from remote_gpu_trainer.fit.training_run import SHARDINGS, Run
from remote_gpu_trainer.runs import measured_runs

from evals.fit import page
from tests.conftest import module

ROW = Measured("Mine", "llama", 8.03e9, "LoRA", 2, 2048, 17.0, date="2026-11-29")


@pytest.fixture(autouse=True)
def own_table(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def test_each_published_figure_has_an_address_and_a_date():
    rows = published()
    assert len(rows) == 36
    for row in rows:
        assert row.address.startswith("https://") and row.date, row
        assert row.method in {"full", "LoRA", *METHODS.values()} and row.sharding in SHARDINGS
        assert 1e8 < row.weights < 1e12 and 5 < row.gib < 140


def test_like_runs_are_of_one_kind_size_method_and_length():
    swaps = (
        {"kind": "qwen2"},
        {"weights": 3.2e9},
        {"method": "full"},
        {"sequence": 8192},
        {"batch": 32},
        {"sequence": 0},
    )
    others = [Measured(**{**asdict(ROW), **swap}) for swap in swaps]
    near = Measured(**{**asdict(ROW), "sequence": 1500, "weights": 7e9})
    told = Measured(**{**asdict(ROW), "address": "https://example.org"})
    found = like([near, told, *others, ROW], "llama", 8e9, "LoRA", 2, 2048)
    assert found == [ROW, told, near], "the nearest first, and one's own before another's"
    assert like([ROW, others[0]], "", 8e9, "LoRA", 2, 2048) == [ROW, others[0]]


def test_what_is_no_row_is_left_out():
    plain = asdict(ROW)
    assert rows_of([plain]) == [ROW]
    bad = [{}, {**plain, "batch": "2"}, {**plain, "gib": True}, {**plain, "gib": float("nan")}]
    assert rows_of([*bad, {**plain, "model": "a\x1b[31m"}, {**plain, "weights": -1}]) == []
    assert rows_of([{**plain, "unknown": 1}]) == [ROW], "a field of a later version"


def test_the_local_table_keeps_the_newest_and_skips_what_is_torn(monkeypatch):
    monkeypatch.setattr(measured_runs, "MOST", 3)
    for gib in (1.0, 2.0, 3.0, 4.0):
        assert measured_runs.add(Measured(**{**asdict(ROW), "gib": gib}))
    assert [row.gib for row in measured_runs.every()] == [2.0, 3.0, 4.0]
    place = measured_runs._place()
    place.write_text(place.read_text() + '{"model": "x\n[]\n3\n')
    assert len(measured_runs.every()) == 3
    place.unlink()
    place.mkdir()
    assert measured_runs.every() == [] and not measured_runs.add(ROW)


def record(**about) -> dict:
    """What the runner writes of a rehearsal on one card."""
    model = {
        "class": "PeftModelForCausalLM",
        "name": "meta-llama/Llama-3.1-8B",
        "weights": 8.07e9,
        "types": {"bfloat16": 8e9, "float32": 4e7},
        "optimizer": "AdamW",
        "settings": {"fused": True},
        "lora": 16,
        "targets": ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"],
        "checkpointing": True,
        "attention": "flash_attention_2",
        "accumulated": 4,
        "world": 1,
        "config": page.LLAMA3,
        **about,
    }
    card = {"index": 0, "allocated": 17 << 30, "reserved": 18 << 30}
    shown = {"index": 0, "name": "H100", "before_mib": 512, "peak_mib": 20992, "total_mib": 81559}
    process = {"rank": 0, "steps": 9, "largest": [2, 2048], "cards": [card], "model": model}
    return {"cards": [shown], "processes": [process], "not_reached": [], "why": ""}


def test_the_estimate_stands_beside_what_a_rehearsal_measured():
    found = rehearsed(record(), "2026-11-29")
    run = Run(2, 2048, "bf16", lora=16, checkpointing=True, attention="flash", accumulation=4)
    assert found.estimate_gib == pytest.approx(estimate(model_of(page.LLAMA3), run).peak / GIB + 1, abs=0.01)  # fmt: skip
    row = found.row
    assert (row.kind, row.method, row.gib, row.batch) == ("llama", "LoRA", 20.0, 2)
    assert row.estimate_gib == found.estimate_gib and row.checkpointing


@pytest.mark.parametrize(
    "about, expected",
    [
        ({"quantized": "4bit"}, {"precision": "4bit", "lora": 16}),
        ({"quantized": "4bit", "types": {"uint8": 4e9, "bfloat16": 1e9}}, {"precision": "4bit-bf16"}),
        ({"quantized": "8bit"}, {"precision": "8bit"}),
        ({"lora": 0, "types": {"float32": 8e9}, "autocast": True}, {"precision": "bf16-mixed", "lora": 0}),
        ({"lora": 0, "types": {"float32": 8e9}}, {"precision": "fp32"}),
        ({"settings": {"fused": None, "foreach": None}}, {"optimizer": "adamw-foreach"}),
        ({"optimizer": "PagedAdamW8bit"}, {"optimizer": "paged-adamw8bit"}),
        ({"optimizer": "PagedAdamW"}, {"optimizer": "paged-adamw"}),
        ({"optimizer": "AdamW8bit"}, {"optimizer": "adamw8bit"}),
        ({"optimizer": "SGD", "settings": {"momentum": 0.9}}, {"optimizer": "sgd-momentum"}),
        ({"world": 4, "stage": 3}, {"sharding": "zero3", "gpus": 4}),
        ({"world": 4, "sharded": True}, {"sharding": "fsdp"}),
        ({"world": 2}, {"sharding": "ddp"}),
        ({"targets": ["q_proj", "v_proj"]}, {"targets": "qv"}),
        ({"targets": ["model.layers.0.self_attn.q_proj", "k_proj"]}, {"targets": "attention"}),
    ],
)  # fmt: skip
def test_what_the_probe_saw_says_how_the_model_is_trained(about, expected):
    from remote_gpu_trainer.fit.measured import run_of

    seen = record(**about)["processes"][0]["model"]
    row = Measured(**{**asdict(ROW), "gpus": seen["world"]})
    run = run_of(seen, row)
    assert {name: getattr(run, name) for name in expected} == expected


def test_a_run_that_died_counts_with_what_the_card_has():
    died = rehearsed({**record(), "died": True, "has_failed": True}, "2026-11-29").row
    assert died.died and died.gib == pytest.approx(79.65, abs=0.01)
    assert died.describe().startswith("died of 79.65 GiB")


def test_the_record_is_read_on_a_box_as_here(tmp_path, monkeypatch):
    place = tmp_path / measured_runs.RECORD
    place.parent.mkdir(parents=True)
    long = record(config={**page.LLAMA3, "layer_types": ["full_attention"] * 900})
    place.write_text(json.dumps(long))

    def run(box, program, *, args, limit):
        words = ["bash", "-c", program, "rgt", *args]
        out = subprocess.run(words, capture_output=True, check=False).stdout
        return boxes.Reply("ok", 0, out)

    monkeypatch.setattr(boxes, "run", run)
    for box in (Box("local"), parse("gpu1")):
        assert measured_runs.record_of(box, str(tmp_path)) == long
        assert measured_runs.record_of(box, str(tmp_path / "nowhere")) == {}


def test_what_fit_does_not_know_is_said_and_not_reckoned():
    lion = rehearsed(record(optimizer="Lion"), "2026-11-29")
    assert not lion.estimate_gib and "Lion" in lion.why
    unet = rehearsed(record(config=None, **{"class": "UNet", "name": ""}, lora=0), "2026-11-29")
    assert not unet.estimate_gib and "FILE.py:NAME" in unet.why
    assert (unet.row.model, unet.row.kind, unet.row.sequence) == ("UNet", "UNet", 0)
    assert rehearsed({"cards": [], "processes": []}, "2026-11-29") is None


def test_fit_shows_like_runs_and_where_they_were_told(tmp_path, capsys):
    path = tmp_path / "config.json"
    path.write_text(json.dumps(page.LLAMA3))
    words = ["fit", str(path), "--lora", "16", "--precision", "bf16", "--batch", "2"]
    measured_runs.add(ROW)
    main([*words, "--json"])
    told = json.loads(capsys.readouterr().out)["measured"]
    assert told[0].startswith("17 GiB: Mine, LoRA; 2 × 2048 tokens") and "measured here" in told[0]
    assert "pytorch/torchtune" in told[1] and told[1].startswith("16.2 GiB")
    main([*words, "--sequence", "131072"])
    assert "measured of like runs" not in capsys.readouterr().out


def test_a_machine_without_a_card_says_that_it_cannot_measure(tmp_path, capfd, monkeypatch):
    module("torch", "pip install -e '.[proofs]'")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text(
        "import time, torch\n"
        "model = torch.nn.Linear(4, 3)\n"
        "optimizer = torch.optim.AdamW(model.parameters())\n"
        "for step in range(8):\n"
        "    model(torch.randn(6, 4)).pow(2).mean().backward()\n"
        "    optimizer.step()\n"
        "    print('step', step, flush=True)\n"
        "    time.sleep(0.3)\n"
    )
    assert main(["fit", "--measure", "--", sys.executable, "train.py"]) == 0
    told = capfd.readouterr().out
    assert "unsure memory: not measured: " in told and "--on BOX" in told
    assert "note memory: not reckoned: the model has no config of transformers" in told
    assert measured_runs.every() == [], "nothing was measured, so nothing is remembered"


def test_an_option_beside_measure_is_refused(capsys):
    assert main(["fit", "--measure", "--lora", "8", "--", "python", "train.py"]) == 2
    assert "--lora says nothing of a program that runs" in capsys.readouterr().err


def test_only_measure_runs_a_program(capsys):
    assert main(["fit", "config.json", "train.py"]) == 2
    assert "only --measure runs a program" in capsys.readouterr().err
