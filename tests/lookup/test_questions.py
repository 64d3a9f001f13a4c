"""Questions before anything failed: the command with the user's own numbers, nothing of their text."""

import json
import shlex

import pytest
from click.testing import CliRunner
from remote_gpu_trainer.cli.main import cli
from remote_gpu_trainer.lookup.answer import answer_for
from remote_gpu_trainer.lookup.questions import KINDS, read_numbers, sentences_on

from tests.conftest import ROOT

EXAMPLES = [(kind, example) for kind in KINDS for example in kind.examples]


@pytest.mark.parametrize(("kind", "example"), EXAMPLES, ids=lambda value: str(value)[:40])
def test_each_example_is_answered_by_its_own_kind_with_a_command(kind, example):
    sentences = sentences_on(example)
    assert sentences == kind.answer(example, read_numbers(example))
    assert any("`rgt " in sentence for sentence in sentences)
    answer = answer_for(text=example)
    assert answer.facts == sentences and answer.ask == "" and answer.decision is None


@pytest.mark.parametrize(
    ("question", "numbers"),
    [
        ("does 13B fit on 2 A100 80GB?", ("13B", 2, "A100-80GB", False)),
        ("13B 全参微调两张 A100 80G 够吗", ("13B", 2, "A100-80GB", False)),
        ("will a 350M model fit on 4xH100?", ("350M", 4, "H100-80GB", True)),
        ("7B LoRA 一张 3090 能跑吗", ("7B", 1, "RTX-3090", False)),
        ("2张4090能微调7B吗", ("7B", 2, "RTX-4090", False)),
        ("does Qwen2.5-7B in 8bit fit on a V100 16GB?", ("7B", 1, "V100-16GB", False)),
        ("我有4张3090，能全参微调7B吗？", ("7B", 4, "RTX-3090", False)),
        ("does it fit?", ("", 1, "", False)),
    ],
)
def test_numbers_are_read_in_both_languages(question, numbers):
    read = read_numbers(question)
    assert (read.parameters, read.gpus, read.gpu, read.gpu_is_assumed) == numbers


def test_an_interval_is_reckoned_from_the_numbers_of_the_question():
    sentences = sentences_on(
        "a save takes 2 minutes and the box dies every 4 hours, how often to save?"
    )
    assert "`rgt profile --save-seconds 120 --kill-hours 4`" in sentences[1]
    assert sentences[0].startswith("For a save of 120 s on a box that is lost every 4 h: ")


def test_the_command_of_the_answer_runs_and_says_the_same():
    first, *_, last = sentences_on("does full fine-tuning of a 13B model fit on 2 A100 80GB?")
    command = last.split("`")[1]
    done = CliRunner().invoke(cli, [*shlex.split(command)[1:], "--json"], standalone_mode=False)
    report = json.loads(done.stdout)
    assert command == "rgt fit --parameters 13B --gpus 2 --gpu A100-80GB"
    assert first.lower().startswith(report["verdict"])
    assert f"about {report['need_gib']:.0f} GiB" in first


def test_a_number_of_cards_is_reckoned_and_its_command_agrees():
    first, last = sentences_on("how many H100 do I need for 70B?")
    command = last.split("`")[1]
    done = CliRunner().invoke(cli, [*shlex.split(command)[1:], "--json"], standalone_mode=False)
    report = json.loads(done.stdout)
    assert report["need_gib"] <= report["gpu"]["gib"]
    assert first.startswith(f"{report['run']['gpus']} × H100-80GB for all weights")
    assert f"about {report['need_gib']:.0f} GiB on each" in first


@pytest.mark.parametrize(
    "hostile",
    [
        "does 13B; rm -rf / fit on 2 A100 80GB?",
        "does 13B `reboot` fit on $(reboot) 2 A100 80GB?",
        "will 99999999B fit on 99999 A100 80GB?",
        "does 13B fit on a card called A100'; reboot #?",
        "is 40 % `reboot` gpu utilisation bad?",
    ],
)
def test_no_text_of_a_question_stands_in_an_answer(hostile):
    told = " ".join(sentences_on(hostile))
    assert "reboot" not in told and "rm -rf" not in told and "9999" not in told


@pytest.mark.parametrize(
    "report",
    [
        "RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB, does it fit?",
        "why is training slow when gpu-util says 99 percent",
        "training dies when i close my laptop lid, ssh session",
        "Can't use spot GPU instances with AWS Batch, the provider panics.",
        "RL on Qwen2.5-VL: is the encoder trained too? If so, how do I keep the ViT frozen?",
        "MPI program deadlock when fields are written, hung with 512 processes",
    ],
)
def test_a_report_is_no_question(report):
    assert sentences_on(report) == []


def test_hardly_any_committed_report_is_taken_for_a_question():
    lines = (ROOT / "evals/cases.jsonl").read_text(encoding="utf-8").splitlines()
    texts = [case["text"] for case in map(json.loads, lines) if "text" in case]
    assert [text for text in texts if sentences_on(text)] == []


@pytest.mark.parametrize("question", ["is the loss normal after resume?", "css 怎么居中？"])
def test_a_question_is_never_asked_for_the_end_of_a_log(question):
    assert "last 50 lines" not in answer_for(text=question).ask
