"""Questions before anything failed: the command with the user's own numbers, nothing of their text."""

import json
import re
import shlex

import pytest
from click.testing import CliRunner
from remote_gpu_trainer.cli.main import cli
from remote_gpu_trainer.gpu_health.box_check import cards as box_cards
from remote_gpu_trainer.lookup.answer import answer_for
from remote_gpu_trainer.lookup.asked_numbers import read_numbers
from remote_gpu_trainer.lookup.questions import CHECK_FIRST, CLOSEST, KINDS, sentences_on
from remote_gpu_trainer.platforms.cards import GPUS, PEAK_TFLOPS

from tests.conftest import ROOT

EXAMPLES = [(kind, example) for kind in KINDS for example in kind.examples]


@pytest.mark.parametrize(("kind", "example"), EXAMPLES, ids=lambda value: str(value)[:40])
def test_each_example_is_answered_by_its_own_kind_with_a_command(kind, example):
    sentences = sentences_on(example)
    assert sentences == kind.answer(example, read_numbers(example))
    assert any("`rgt " in sentence for sentence in sentences)
    answer = answer_for(text=example)
    assert answer.facts == sentences and answer.ask == "" and answer.decision is None


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_the_counter_example_of_each_row_is_not_answered_by_it(kind):
    counter = kind.counter
    assert sentences_on(counter) != kind.answer(counter, read_numbers(counter)) or not kind.answer(
        counter, read_numbers(counter)
    )
    assert not (kind.is_in(counter) and sentences_on(counter))


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
    assert command == (
        "rgt fit --parameters 13B --gpus 2 --sharding fsdp --checkpointing --gpu A100-80GB"
    )
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
    ("question", "share"),
    [
        ("is 98% gpu memory but 30% utilisation a problem?", 30),
        ("GPU memory usage is 95 %, gpu utilisation 40%, is it normal?", 40),
        ("显存占用 95%，利用率只有 20% 正常吗", 20),
        ("gpu util 35% with 90% of the VRAM used, is that bad?", 35),
        ("is 97 % gpu memory fine, whatever the utilisation?", -1),
    ],
)
def test_a_share_of_memory_is_none_of_utilisation(question, share):
    assert read_numbers(question).busy_percent == share
    told = " ".join(sentences_on(question))
    assert f"At {share} %" in told if share >= 0 else not told


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


# Whether it fits: each way, sharded and not.


def test_a_model_on_several_cards_is_reckoned_sharded_and_says_what_each_would_hold_alone():
    first, ways_out, last = sentences_on("dose 8 x A100 80G enough to finetune 70b?")
    assert first.startswith("LoRA: fits, about ") and "QLoRA: fits, about " in first
    assert "all weights: doesn't fit, about " in first and "(unsharded 1,044)" in first
    assert "unsharded (DDP) each holds a whole copy" in first
    assert "16 of these cards" in ways_out and "--sharding fsdp" in last


@pytest.mark.parametrize(
    ("question", "begins", "has"),
    [
        ("LoRA 7B on 80 GB, does it fit?", "Fits: about 16 GiB", "--gpu 80`"),
        ("will QLoRA of a 70B model fit on one A100 80GB?", "Fits: about", "for QLoRA"),
        ("does 70B fit on 8×80GB?", "LoRA: fits", "--gpus 8"),
        ("Does full fine-tuning of 7B fit on one A100 80GB?", "Doesn't fit", "2 of these cards"),
        ("LoRA 7B on 80 GB", "Fits: about 16 GiB", "--gpu 80`"),
        ("70B on 8×80GB", "LoRA: fits", "--gpus 8"),
        ("SDXL on a 3090", "Weights, gradients and AdamW of SDXL", "(doesn't fit)"),
        ("SDXL on a 3090, does it fit?", "Weights, gradients and AdamW of SDXL", "(doesn't fit)"),
        ("一张 3090 能 LoRA 微调 SDXL 吗？", "Weights, gradients and AdamW of SDXL", "left)"),
        ("how much VRAM does LoRA of 7B need?", "LoRA about 16 GiB", "--lora 16"),
        ("How much GPU memory do I need to train this network?", "By the number of", "config.json"),
        ("not LoRA but full fine-tuning: how much VRAM does a 7B need?", "All weights", "2 × H100"),
    ],
)
def test_whether_it_fits_is_answered_for_names_as_people_write_them(question, begins, has):
    told = sentences_on(question)
    assert told[0].startswith(begins) and has in " ".join(told)


# How long it takes.

FORMULA = (
    "Time is steps × seconds a step; steps = samples × epochs / (batch × GPUs × accumulation)."
)


@pytest.mark.parametrize(
    ("question", "begins"),
    [
        (
            "how long does training take for 10,000 steps at 2 s/it?",
            "About 5.6 hours: 10,000 steps",
        ),
        ("训练 3000 步，每步 1.5 秒，要多久？", "About 75 minutes: 3,000 steps"),
        (
            "how long to fine-tune 7B on 100k samples with batch 4 at 3 seconds per step on 8 gpus?",
            "About 2.6 hours: 3,125 steps",
        ),
        ("how long does 1 epoch of 1M samples take to train a 7B on an A100?", "About 2.2 days"),
        ("how long does it take to train 7B with 1B tokens on 8 H100?", "About 4.2 hours"),
        ("在 4 张 A100 上训练一个 epoch 要多久？", "Time is steps × seconds a step"),
    ],
)
def test_a_time_is_reckoned_from_what_the_question_says(question, begins):
    assert sentences_on(question)[0].startswith(begins)


@pytest.mark.parametrize(
    ("question", "begins"),
    [
        ("how long does an 8B LoRA take on one A100", FORMULA),
        ("how long will a QLoRA of a 70B take on 2 H100?", FORMULA.replace("GPUs", "2 GPUs")),
        ("how long would SFT on 50k samples take with an 8B on 4 A100?", "About 46 minutes"),
        ("how many GPU hours does a 7B LoRA on 100M tokens need?", "Time is steps"),
        ("what is the ETA for 1000 steps at 2.5 s/it?", "About 42 minutes: 1,000 steps"),
        ("when will my training finish? 5000 steps at 1.2 s per step", "About 100 minutes"),
        ("time to train a 1B model from scratch on 20B tokens with 8 H100", "About 12 hours"),
        ("is one night enough to finetune 8B on an A100?", FORMULA),
        (
            "can I finetune 8B LoRA in 2 hours on a 4090?",
            f"{FORMULA} In 2 h there is time for 7,200 / (seconds a step) of them.",
        ),
        ("will 3 epochs of 10k samples fit into 24 hours on an A100 for a 7B?", "About 96 minutes"),
        ("8B LoRA 一张 A100 要跑多久", FORMULA),
        ("训一个 7B 用 8 张 H100 要几天", FORMULA.replace("GPUs", "8 GPUs")),
        ("how much does an 8B LoRA cost on one A100", "Costs are hours × GPUs"),
        ("is 20 dollars enough to LoRA an 8B on an A100?", "Costs are hours × GPUs"),
        ("budget for training 7B on 1B tokens with 8 H100", "Costs are hours × GPUs"),
        ("A100 上 LoRA 8B 大概多少钱", "Costs are hours × GPUs"),
    ],
)
def test_a_question_of_time_or_price_is_not_answered_by_memory(question, begins):
    answer = answer_for(text=question)
    assert answer.facts[0].startswith(begins) and "`rgt rehearse job.yaml`" in str(answer.facts)
    assert "Fits" not in str(answer.facts) and "GiB" not in str(answer.facts)


@pytest.mark.parametrize(
    "question",
    [
        "does an 8B LoRA fit on one A100",
        "how long does it take to load a 70B checkpoint before training?",
        "how long can my context be on a 24GB card for 8B LoRA?",
        "what does LoRA cost in accuracy on one A100 with 8B?",
        "why is my training so slow, an epoch takes 3 hours?",
        "what are s, eta and min_iter, and is the resource the number of epochs?",
        "训练到一半显存不够，没多久就停了，怎么办？",
        "how much GPU memory does training take, and what is the training time?",
    ],
)
def test_a_question_near_one_of_time_or_price_is_answered_otherwise(question):
    assert not any("seconds a step" in sentence for sentence in sentences_on(question))


def test_of_lora_the_work_on_frozen_weights_is_left_out():
    question = "how long does {} of 7B on 1B tokens take on 8 H100?"
    whole, lora = (sentences_on(question.format(how))[0] for how in ("training", "LoRA training"))
    assert whole.startswith("About 4.2 hours") and lora.startswith("About 2.8 hours")
    assert "LoRA: 4 × weights × tokens" in lora


def test_the_peaks_of_cards_are_those_of_the_box_check():
    for card, peak in PEAK_TFLOPS.items():
        words = {"H100-80GB": "H100 80GB HBM3", "RTX-4090": "NVIDIA GeForce RTX 4090"}
        name = words.get(card, card.partition("-")[0] if "NVL" not in card else "H100 NVL")
        found = [flops for pattern, flops in box_cards.PEAK_TFLOPS if re.search(pattern, name)]
        assert card in GPUS and found[0] == peak


# A run that is silent, and what only entries are near to.


@pytest.mark.parametrize(
    "text",
    [
        "there is no new output since half a day ago though it runs, is it normal?",
        "it got stuck after the first batch, gpu util is 0 %, with no error",
        "程序卡住不动，也没报错",
    ],
)
def test_a_silent_run_is_told_how_to_look_also_where_nothing_is_asked(text):
    answer = answer_for(text=text)
    assert any("py-spy dump" in fact for fact in answer.facts) or answer.matches


@pytest.mark.parametrize(
    "question",
    ["Is it possible to mix a warmup with a frozen embedding?", "how do I shuffle across epochs?"],
)
def test_a_question_that_no_kind_answers_begins_with_a_fix_or_says_that_it_is_unsure(question):
    answer = answer_for(text=question)
    assert answer.facts == [] and answer.ask == "" and "lead" not in answer.as_dict()
    printed = CliRunner().invoke(cli, ["lookup", question]).output
    if answer.matches and answer.matches[0]["confidence"] != "high":
        assert printed.startswith(("Most likely “", CHECK_FIRST)) and answer.lead
    elif answer.also:
        assert printed.startswith(CLOSEST) and "fix: " in printed


@pytest.mark.parametrize(
    "question",
    [
        "LoRA of a 14B video model goes out of memory on 8 x H100, what now?",
        "does a 7B full fine-tune need more than 80 GB? it says CUDA out of memory on my A100",
        "Will LoRA of a 14B video model fit on one H100?",
        "7B 的多模态模型用 LoRA，24GB 够吗？",
    ],
)
def test_nothing_is_said_to_fit_that_ran_out_or_is_no_language_model(question):
    told = " ".join(sentences_on(question, is_unsure=True))
    assert not re.search(r"\bfits\b", told, re.I)


# What works in one place and fails in another, and what may be normal.


@pytest.mark.parametrize(
    ("text", "begins"),
    [
        (
            "Training ran as expected with transformers==4.46.3. Upgrading to transformers==4.47.0, "
            "nothing else changed, leads to an out of memory error.",
            "By your text these differ between the run that works and the one that fails: "
            "transformers 4.46.3 and 4.47.0.",
        ),
        (
            "My extension works fine on the RTX 3090, but the same environment fails on the A100.",
            "By your text these differ between the run that works and the one that fails: "
            "RTX 3090 and A100.",
        ),
        (
            "The same script runs fine on my own machine, but fails on our cluster.",
            "By your text these differ between the run that works and the one that fails: "
            "your own machine and a server.",
        ),
        (
            "before the upgrade the code had no problem, after git pull it raises an error",
            "Find out first what the upgrade moved",
        ),
        (
            "GPU memory increases, 2934M -- 4413M -- 4537M -- 4537M at the first steps. Why?",
            "Yes, that is normal: it rises from 2,934 to 4,537 MiB and stays there.",
        ),
        (
            "GPU memory grows gradually from 7000 MB to 10000 MB, is it normal?",
            "A rise from 7,000 to 10,000 MiB is normal if it levels off, and a leak",
        ),
        (
            "Pretraining an LLM from scratch, the loss starts at 82. Is this normal?",
            "82 is more than a model that knows nothing would have.",
        ),
        (
            "grad_norm is large in epoch 2, is it normal? grad_norm: 3.4 loss: 1.5 grad_norm: 31101 "
            "loss: 63.1",
            "No: with the loss going from 1.5 to 63.1",
        ),
        ("the loss is stuck at 2.303, is it normal?", "For the first few hundred steps"),
        ("GPU util jumps, only 1 GPU is working at a time, is it normal?", "No: cards that take"),
    ],
)
def test_a_comparison_and_a_worry_are_answered_with_what_the_text_says(text, begins):
    sentences = sentences_on(text, is_unproven=True)
    assert sentences and sentences[0].startswith(begins)
    assert answer_for(text=text).facts == sentences


@pytest.mark.parametrize(
    "text",
    [
        "8 A100 or 8 H100, torch.cuda.is_available() is False on both",
        "CUDA 10.2 with torch 1.10.1 and CUDA 11.6 with torch 1.12: is_available() is False in all",
        "the update is done only when there is a scaler, NaNs go unnoticed",
        "the memory of the host increases, is it normal?",
        "why does the GRPO loss start at 0 and then increase?",
    ],
)
def test_a_text_without_two_places_or_without_a_number_is_no_comparison(text):
    assert sentences_on(text, is_unproven=True) == []


def test_an_entry_that_a_signature_claims_stands_before_any_comparison():
    text = "works on Linux, fails on Windows: use_libuv was requested but PyTorch was built without libuv support"
    answer = answer_for(text=text)
    assert answer.matches[0]["id"] == "D46" and answer.facts == []
