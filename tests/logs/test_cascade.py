"""In the log of several ranks the one that failed by itself is explained, and not what the others say because it is gone."""

import sys

import pytest
from remote_gpu_trainer.logs import reading
from remote_gpu_trainer.logs.ranks import drop_secondary
from remote_gpu_trainer.lookup.answer import answer_for

from tests.conftest import ROOT

EVALS = ROOT / "evals"
sys.path.insert(0, str(EVALS))

from grading import ranks  # noqa: E402
from grading.cases import read_cases  # noqa: E402
from grading.grade import grade, rates  # noqa: E402
from grading.ranks import others  # noqa: E402
from grading.systems import lookup  # noqa: E402

TRACE = '[rank2]: Traceback (most recent call last):\n[rank2]:   File "train.py", line 180, in main\n[rank2]:     for batch in loader:\n'
KILLED_WORKER = (
    f"{TRACE}[rank2]: RuntimeError: DataLoader worker (pid 3311) is killed by signal: Killed.\n"
)
UNKNOWN = f"{TRACE}[rank2]: ledger.BalanceError: account 7 was closed by the keeper\n"
STEPS = "".join(
    f"[rank{rank}]: step {step} loss {2.3 - step * 0.01:.3f}\n"
    for step in range(100, 106)
    for rank in range(3)
)


def ended(code, by="To enable traceback see"):
    """What torchrun says at the end, rank 2 having ended so."""
    return (
        ranks.torchrun()
        .replace("exitcode  : 1 ", f"exitcode  : {code} ")
        .replace("To enable traceback see", by)
    )


def found(text):
    return [match["id"] for match in answer_for(text=text).matches]


@pytest.mark.parametrize("name", ranks.WORDS)
@pytest.mark.parametrize("summary", ["", ended(1)])
def test_a_rank_s_own_exception_is_explained_whatever_the_others_say(name, summary):
    assert found(KILLED_WORKER + others(name) + summary)[0] == "DP9"


def test_a_time_out_that_came_before_the_exception_is_not_its_consequence():
    text = others("nccl_watchdog") + KILLED_WORKER
    read = reading.from_text(text)
    assert drop_secondary(read) is read
    assert found(text)[:2] == [
        "DP9",
        "D20",
    ]  # a text that names its cause goes before one that lost ranks print


def test_without_a_rank_s_own_failure_the_time_out_is_what_is_explained():
    assert found(STEPS + others("nccl_watchdog"))[0] == "D20"


def test_what_nothing_explains_leaves_the_time_out():
    assert found(UNKNOWN) == []
    assert (
        found(UNKNOWN + others("nccl_watchdog"))[:1]
        == found(others("nccl_watchdog"))[:1]
        == ["D20"]
    )


@pytest.mark.parametrize("name", ranks.WORDS)
def test_of_what_explains_the_others_words_a_crashed_rank_goes_first(name):
    assert found(UNKNOWN + others(name) + ended(1))[:1] in ([], ["D20"])


def test_an_exception_of_another_rank_is_its_own():
    second = "[rank1]: ValueError: bad label 12\n"
    kept = drop_secondary(reading.from_text(KILLED_WORKER + others("nccl_watchdog") + second))
    assert any("bad label" in line.text for line in kept.lines) and any(
        line.rank == 1 and "Watchdog" in line.text for line in kept.lines
    )
    assert not any(line.rank == 0 for line in kept.lines)


@pytest.mark.parametrize("name", ranks.WORDS)
def test_a_rank_that_was_killed_without_a_word_is_explained_by_its_end(name):
    assert (
        found(STEPS + others(name) + ended(-9, "Signal 9 (SIGKILL) received by PID 12388: "))[0]
        == "U3"
    )


@pytest.mark.parametrize("code", [3, -15, -6])
def test_an_exit_of_which_nothing_is_known_leaves_the_others_words(code):
    read = reading.from_text(STEPS + others("gloo_closed") + ended(code))
    assert drop_secondary(read) is read


def test_a_traceback_before_what_the_rank_printed_earlier_is_not_survived():
    """As `torchrun --tee 3` shows it: what a rank printed comes to the terminal later than its traceback."""
    text = KILLED_WORKER + STEPS + others("gloo_closed") + ended(1)
    assert "killed by signal: Killed" in reading.from_text(text).first.text
    assert found(text)[0] == "DP9"


@pytest.mark.parametrize("name", ranks.WORDS)
def test_an_exception_without_its_rank_is_that_of_none_of_those_who_wait_after_it(name):
    bare = KILLED_WORKER.replace("[rank2]: ", "")
    assert found(bare + others(name))[0] == "DP9"
    first = reading.from_text(bare + others(name) + ended(1)).first
    assert (first.rank, first.text.partition(":")[0]) == (
        2,
        "RuntimeError",
    )  # the launcher tells whose it was


def test_an_old_watchdog_names_its_rank_in_its_own_words():
    old = others("nccl_watchdog").replace("[rank0]:", "").replace("[rank1]:", "")
    assert found(KILLED_WORKER.replace("[rank2]: ", "") + old)[0] == "DP9"


@pytest.mark.parametrize("bare", [False, True])
def test_reports_of_the_reporting_half_are_found_as_one_rank_of_three(bare, shared_answers):
    chosen = ranks.told(
        [case for case in read_cases(EVALS / "cases.jsonl") if case.half == "reporting"]
    )
    alone, among = (
        rates(grade(asked, lookup(asked))) for asked in (chosen, ranks.among(chosen, bare))
    )
    assert len(chosen) > 100
    assert among.first[0] >= alone.first[0] - 0.02 and among.three[0] >= alone.three[0] - 0.02
    assert among.hit1[0] >= alone.hit1[0] - 0.02


def test_a_failure_that_a_rank_logged_by_itself_is_explained_too():
    caught = "[rank2]: actual error: RuntimeError: element 0 of tensors does not require grad\n"
    text = caught + others("gloo_timeout")
    assert found(text)[0] == "O3"
    kept = drop_secondary(reading.from_text(text)).lines
    assert {line.rank for line in kept} == {2}


def test_a_system_error_of_nccl_that_names_shared_memory_is_the_rank_s_own():
    own = (
        "[rank2]: RuntimeError: NCCL error in: ProcessGroupNCCL.cpp:290, unhandled system error\n"
        "[rank2]: Last error:\n"
        "[rank2]: Error while creating shared memory segment /dev/shm/nccl-1YsMbG (size 7340384)\n"
    )
    text = own + others("gloo_timeout")
    read = reading.from_text(text)
    assert not read.failures[0].secondary and read.first.rank == 2
    assert found(text)[0] == "D34"
    elsewhere = own.replace("creating shared memory segment", "reading from a socket").replace(
        "/dev/shm/nccl-1YsMbG", "of node-2"
    )
    assert reading.from_text(elsewhere + others("gloo_timeout")).failures[0].secondary
