"""Whole logs: what runs over and over says little, what ends a log or is said before or behind it says most."""

import json
import random
import sys
from pathlib import Path

import pytest
from remote_gpu_trainer.logs import reading
from remote_gpu_trainer.logs.prose import is_sentence
from remote_gpu_trainer.lookup.answer import answer_for, sentence_of

from tests.engines.machine_speed import ratio
from tests.programs import rgt

EVALS = Path(__file__).resolve().parents[2] / "evals"
sys.path.insert(0, str(EVALS))

from grading import sentence, whole  # noqa: E402
from grading.cases import read_cases  # noqa: E402
from grading.grade import grade, rates  # noqa: E402
from grading.systems import lookup  # noqa: E402

STEPS = "\n".join(f"step {step}: loss {4 - step / 100:.3f}, 0.41 s" for step in range(120))
CAUGHT = """Traceback (most recent call last):
  File "/opt/app/upload.py", line 12, in send
    self.sock.connect(address)
ConnectionResetError: [Errno 104] Connection reset by peer
"""
FATAL = """Traceback (most recent call last):
  File "/opt/app/train.py", line 40, in <module>
    loss = criterion(logits, labels)
ValueError: Expected input batch_size (32) to match target batch_size (31).
"""
SAYS = "My model trains fine, but after I resume from the checkpoint the loss jumps back to where it began."


def shown(answer):
    """The ids that an answer shows, best first: matches, then further titles."""
    return [entry["id"] for entry in (*answer.matches, *answer.also)]


def first(text):
    return next(iter(shown(answer_for(text=text))), None)


def kinds(text):
    return {line.text: line.kind for line in reading.from_text(text).lines}


def test_steps_are_routine_and_the_end_is_heard():
    found = kinds(f"{STEPS}\n{SAYS}")
    assert found["step 7: loss 3.930, 0.41 s"] == "routine"
    assert found[SAYS] == "told"


def test_a_short_report_is_read_as_before():
    assert set(kinds("\n".join(STEPS.splitlines()[:20]) + f"\n{SAYS}").values()) == {"plain"}


@pytest.mark.parametrize("report", [f"{STEPS}\n{SAYS}", f"{SAYS}\n\n{STEPS}"])
def test_what_somebody_says_beside_a_healthy_log_gets_the_answer_that_it_gets_alone(report):
    assert first(report) == first(SAYS) is not None


def test_a_failure_that_the_run_survived_decides_nothing_once_another_ends_it():
    found = reading.from_text(f"{STEPS}\n{CAUGHT}{STEPS}\n{FATAL}")
    assert [failure.line.text for failure in found.failures] == [
        "ValueError: Expected input batch_size (32) to match target batch_size (31)."
    ]


def test_a_failure_that_the_run_survived_decides_nothing_beside_what_somebody_says():
    assert reading.from_text(f"{STEPS}\n{CAUGHT}{STEPS}\n{SAYS}").failures == []
    assert first(f"{STEPS}\n{CAUGHT}{STEPS}\n{SAYS}") == first(SAYS)


def test_steps_that_a_buffer_held_back_do_not_hide_the_failure():
    found = reading.from_text(f"{STEPS}\n{FATAL}{STEPS}")
    assert found.first.text.startswith("ValueError: Expected input batch_size")


def test_a_survived_time_out_is_all_there_is_where_nobody_says_anything():
    assert reading.from_text(f"{STEPS}\n{CAUGHT}{STEPS}").failures


def test_a_log_in_which_nothing_failed_and_nothing_is_said_gets_no_answer():
    found = reading.from_text(f"Loading data\nModel has 12 parameters\n{STEPS}\nTraining finished.")
    assert (found.seen, found.failures) == ("sound", [])
    assert not answer_for(text=STEPS + "\nTraining finished.").matches


def test_a_complaint_at_the_end_is_heard_without_the_word_error():
    found = kinds(f"{STEPS}\n./run.sh: /bin/bash^M: bad interpreter: No such file or directory")
    assert found["./run.sh: /bin/bash^M: bad interpreter: No such file or directory"] == "told"


def test_new_lines_at_the_end_are_news_even_where_they_repeat():
    found = kinds(
        STEPS
        + "\n"
        + "\n".join(f"Gradient overflow. Skipping step, loss scale {2**-n}" for n in range(9))
    )
    assert found["Gradient overflow. Skipping step, loss scale 0.5"] != "routine"


def test_a_warning_far_from_the_failure_is_an_aside_and_one_beside_it_is_not():
    found = kinds(f"UserWarning: an old option\n{STEPS}\nFutureWarning: about to fail\n{FATAL}")
    assert (found["UserWarning: an old option"], found["FutureWarning: about to fail"]) == (
        "aside",
        "warning",
    )


@pytest.mark.parametrize(
    "text, said",
    [
        ("After the update my loss is nan from the first step on", True),
        ("Why does the second GPU do nothing?", True),
        ("为什么我的模型训练到一半就卡住了", True),
        ("root@box:~# python train.py --lr 1e-4 and so on for the run", False),
        ("trainable params: 4,194,304 || all params: 6,742,609,920", False),
        ("第 3 轮 训练损失 0.123", False),
        ("from the torch import of this and that for all of you", False),
        ("The checkpoint of the run is saved to the folder on the disk", False),
        ("", False),
    ],
)
def test_a_sentence_is_told_from_what_a_program_prints(text, said):
    assert is_sentence(text) is said


def test_a_command_on_the_first_line_is_not_what_somebody_says():
    assert (
        sentence_of(f"+ torchrun --nproc_per_node 3 --master_port 29611 train.py\n\n{STEPS}") == ""
    )
    assert (
        sentence_of(f"torchrun hangs before the first step\n\n{STEPS}")
        == "torchrun hangs before the first step"
    )


def test_a_sentence_beside_a_healthy_log_gets_the_answer_that_it_gets_alone(tmp_path):
    (tmp_path / "train.log").write_text(STEPS)
    assert (
        shown(answer_for(log=str(tmp_path / "train.log"), text=SAYS))[:3]
        == shown(answer_for(text=SAYS))[:3]
        != []
    )
    assert not answer_for(log=str(tmp_path / "train.log")).matches


def test_on_the_command_line_a_sentence_stands_beside_a_log_or_a_stream(tmp_path):
    (tmp_path / "train.log").write_text(STEPS)
    alone, *beside = (
        rgt("lookup", "--json", SAYS, *more, input=STEPS)
        for more in ((), ("--log", str(tmp_path / "train.log")), ("--log", "-"))
    )
    told = [json.loads(done.stdout) for done in (alone, *beside)]
    first, *others = ([*answer["matches"], *answer["also"]][0]["id"] for answer in told)
    assert others == [first] * 2
    refused = rgt("lookup", "-", "--log", "x", input="")
    assert refused.returncode == 2 and "can't be combined" in refused.stderr


def test_a_failure_in_the_log_decides_whatever_is_said_beside_it(tmp_path):
    (tmp_path / "train.log").write_text(f"{STEPS}\n{FATAL}")
    answer = answer_for(log=str(tmp_path / "train.log"), text="It stops after two hours")
    assert "Expected input batch_size" in str(answer.evidence[0])


def test_what_a_log_file_complains_of_at_its_end_is_heard_though_its_numbers_are_sound(tmp_path):
    (tmp_path / "train.log").write_text(
        f"{STEPS}\n./run.sh: /bin/bash^M: bad interpreter: No such file or directory\n"
    )
    assert [m["id"] for m in answer_for(log=str(tmp_path / "train.log")).matches][0] == "GEN4"


def test_of_several_ranks_each_log_has_an_end_of_its_own(tmp_path):
    (tmp_path / "rank0.log").write_text(
        f"{STEPS}\n./run.sh: /bin/bash^M: bad interpreter: No such file or directory\n"
    )
    (tmp_path / "rank1.log").write_text(f"{STEPS}\n")
    assert {"told"} == {
        line.kind
        for line in reading.from_path(str(tmp_path)).lines
        if "bad interpreter" in line.text
    }


def test_a_log_is_not_asked_for_where_it_is_there(tmp_path):
    (tmp_path / "train.log").write_text(STEPS)
    assert (
        "the last 50 lines of the log"
        not in answer_for(log=str(tmp_path / "train.log"), text="Something is odd about it").ask
    )


@pytest.mark.parametrize("half", ["tuning", "reporting"])
def test_real_logs_of_healthy_runs_get_no_answer_but_for_what_they_warn_of(half):
    claimed = whole.healthy(half)
    assert len(whole.logs(half)) == 20
    assert len(claimed) <= 3
    assert all(ids[0] == whole.CALLS[name] for name, ids in claimed.items() if name in whole.CALLS)


@pytest.fixture(scope="module")
def reporting(shared_answers):
    """The reporting half, and what is found of it as it is."""
    cases = [case for case in read_cases(EVALS / "cases.jsonl") if case.half == "reporting"]
    return cases, rates(grade(cases, lookup(cases)))


@pytest.mark.parametrize("before", [False, True])
def test_reports_of_the_reporting_half_are_found_within_a_whole_log(before, reporting):
    """What is shown counts. The retriever's figures, 2026-11-25: .692, .820 and .055; .665, .791 and .062."""
    cases, alone = reporting
    asked = whole.within(cases, "reporting", before)
    found = rates(grade(asked, lookup(asked)))
    assert found.first[0] >= alone.first[0] - 0.1 and found.three[0] >= alone.three[0] - 0.1
    assert found.false[0] <= 0.065


def test_a_sentence_beside_a_log_file_with_the_report_in_it_finds_the_entry():
    """As an agent calls the tool. Two of the healthy logs get an answer of their own whatever is said: a resumed run's numbers, a warning."""
    cases = read_cases(EVALS / "cases.jsonl")
    said = {
        case.id: text
        for case, text in sentence.read(
            EVALS / "sets/said.jsonl", [*cases, *read_cases(EVALS / "sets/fresh.jsonl")]
        )
    }
    asked = whole.within(
        [case for case in cases if case.half == "reporting" and case.id in said], "reporting"
    )
    found = rates(grade(asked, whole.beside_a_file([(case, said[case.id]) for case in asked])))
    # What is shown counts. The retriever's figures, 2026-11-25: .723, .882 and .144.
    assert found.first[0] >= 0.72 and found.three[0] >= 0.88 and found.false[0] <= 0.145


def test_thousands_of_failures_of_as_many_ranks_take_no_longer_than_lines():
    lines = [
        f"[rank{n}]: ValueError: bad value {n}\n[rank{n}]: step {n} loss {random.Random(n).random()}"
        for n in range(2900)
    ]
    failed, fewer = ("\n".join(lines[:count]) for count in (2900, 725))
    assert ratio(lambda: reading.from_text(failed), lambda: reading.from_text(fewer)) < 12
