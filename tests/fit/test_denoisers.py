"""The denoisers of diffusion pipelines, by their names."""

import json

import pytest
from remote_gpu_trainer.cli.main import main
from remote_gpu_trainer.fit.denoisers import as_traced, denoiser_of
from remote_gpu_trainer.fit.training_run import Run

from tests.conftest import ROOT

SDXL, FLUX = "stabilityai/stable-diffusion-xl-base-1.0", "black-forest-labs/FLUX.1-dev"


def asked(capsys, *words):
    code = main(["fit", *words, "--json"])
    said = capsys.readouterr()
    return code, json.loads(said.out) if said.out else said.err


@pytest.mark.parametrize(
    ("name", "billions"),
    [
        ("runwayml/stable-diffusion-v1-5", 0.860),
        (SDXL, 2.567),
        ("stabilityai/stable-diffusion-3-medium", 2.028),
        (FLUX, 11.90),
    ],
)
def test_a_denoiser_has_the_weights_that_its_makers_tell(name, billions):
    model = as_traced(denoiser_of(name), Run(sequence=1))
    assert model.weights / 1e9 == pytest.approx(billions, rel=2e-3)


def test_lora_of_stable_diffusion_is_near_what_was_measured(capsys):
    """kohya-ss and others tell 6 GB for batch 2 of 512 × 512 with xformers."""
    words = ("runwayml/stable-diffusion-v1-5", "--lora", "4", "--batch", "2", "--precision", "fp16")
    code, report = asked(capsys, *words, "--gpu", "RTX-4090")
    assert code == 0 and 4.5 < report["need_gib"] < 6.5
    assert report["least_gib"] < 6 / 1.074 < report["most_gib"]


def test_what_may_lie_beside_a_denoiser_keeps_it_from_fitting(capsys):
    words = (FLUX, "--lora", "16", "--checkpointing")
    code, report = asked(capsys, *words, "--gpu", "30")
    assert (code, report["verdict"]) == (2, "tight") and report["need_gib"] < 30
    assert "text encoders and VAE" in report["why"]
    assert asked(capsys, *words, "--gpu", "H100-80GB")[0] == 0
    assert asked(capsys, *words, "--gpu", "16")[0] == 1
    code, report = asked(capsys, *words, "--precision", "4bit", "--gpu", "24")
    assert code == 0 and report["lines"][0]["gib"] < 8


def test_the_rank_decides_what_adapters_take(capsys):
    small, large = (
        asked(capsys, SDXL, "--lora", rank, "--checkpointing")[1] for rank in ("16", "64")
    )
    state = [
        next(line["gib"] for line in report["lines"] if line["what"] == "optimizer state")
        for report in (small, large)
    ]
    assert state[1] == pytest.approx(4 * state[0], rel=0.01)


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--precision", "bf16"), "counted in mixed precision"),
        (("--sequence", "77"), "--sequence is for words"),
        (("--layers", "3"), "leave out what names one"),
        (("--liger",), "--liger"),
        (("--precision", "4bit"), "add --lora"),
    ],
)
def test_what_says_nothing_of_a_denoiser_is_refused(words, why, capsys):
    code, said = asked(capsys, SDXL, *words)
    assert code == 2 and why in said["error"] and "\n" not in said["error"]


def test_a_batch_is_solved_for_with_room_for_what_lies_beside(capsys):
    words = ("--lora", "16", "--checkpointing", "--gpu", "H100-80GB", "--solve", "batch")
    _, report = asked(capsys, SDXL, *words)
    assert 0 < report["solved"]["safe"]["value"] < report["solved"]["largest"]["value"]


def test_each_way_to_train_a_denoiser_was_counted():
    table = json.loads((ROOT / "server/remote_gpu_trainer/fit/denoisers.json").read_text())
    ways = {way + more for way in ("full", "lora") for more in ("", ", checkpointing")}
    for row in table["denoisers"]:
        assert set(row["ways"]) == ways
        assert all(told["lines"] and told["kept"] for told in row["ways"].values())
