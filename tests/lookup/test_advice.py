"""The answer as a person reads it: what to do first, one id, and no word of a program's."""

import json
import re

import pytest
from remote_gpu_trainer.catalogue import bundle
from remote_gpu_trainer.cli.lookup import as_text
from remote_gpu_trainer.lookup.advice import COMPARE, MOST_TITLES, advise
from remote_gpu_trainer.lookup.answer import answer_for
from remote_gpu_trainer.lookup.state import Answer

from tests.conftest import ROOT

NO_GRAD = "RuntimeError: element 0 of tensors does not require grad"
KILLED = "Killed"
WORDS = (
    "With accelerate, if I want to go on from epoch 2, step 200, what do I have to do besides "
    "loading the state? Right now the loader begins at its first batch again."
)
FOR_PROGRAMS = re.compile(
    r"confidence|Not sure|fix_first|restart_elsewhere|^ *(?:domain|retry|decision):|pointless", re.M
)


def advice_on(text):
    return advise(answer_for(text=text), bundle.load_cache())


def said(text):
    return as_text(advice_on(text), "rgt lookup --id {id}")


def reports():
    """Forty reports of the committed cases, of all kinds."""
    lines = (ROOT / "evals/cases.jsonl").read_text(encoding="utf-8").splitlines()
    cases = [case for case in map(json.loads, lines) if "text" in case]
    return [case["text"] for case in cases[:: len(cases) // 40]][:40]


@pytest.mark.parametrize("text", reports(), ids=lambda text: text[:30])
def test_a_person_reads_no_words_of_programs_and_each_id_once_as_a_handle(text):
    answer = answer_for(text=text)
    told = as_text(advise(answer, bundle.load_cache()), "rgt lookup --id {id}")
    assert not FOR_PROGRAMS.search(told.replace(text, ""))
    named = re.findall(r"--id (\w+)", told)
    assert len(named) == len(set(named))
    assert len(named) <= max(MOST_TITLES, len(answer.matches))
    if answer.matches:
        assert named[0] == answer.matches[0]["id"]


def test_the_action_comes_first_with_its_reason_then_the_entry_and_its_check_last():
    advice = advice_on(NO_GRAD)
    action, _, reason = advice.lead.rpartition("; ")
    assert bundle.load_cache()["O3"].fix.replace("\n", " ").startswith(action)
    assert reason == "starting again as it is changes nothing."
    assert advice.entry.id == "O3" and advice.entry.texts[-1][0] == "check"
    assert dict(advice.entry.texts)["further"], "the action isn't said twice"


def test_of_words_alone_the_check_is_what_to_do():
    advice = advice_on(WORDS)
    assert advice.lead.startswith(
        "Run the check of this entry before you change anything: only the words "
    )


def test_an_exact_message_never_gets_not_sure():
    answer = answer_for(text=KILLED)
    assert answer.matches[0]["confidence"] == "low" and answer.matches[0]["why"].startswith("`")
    told = said(KILLED)
    assert "only the words" not in told and "possible, by" not in told


def test_where_nothing_is_claimed_three_titles_stand_each_with_what_to_do():
    advice = advice_on("hang at the end of the epoch on all gpus\nno message")
    assert advice.entry is None and advice.lead == COMPARE
    assert len(advice.further) == MOST_TITLES
    for shown in advice.further:
        ((label, fix),) = shown.texts
        whole = " ".join(bundle.load_cache()[shown.id].fix.split())
        assert label == "fix" and fix and whole.startswith(fix)


def test_an_unclaimed_entry_whose_fix_deletes_or_pays_stands_with_its_check():
    entries = bundle.load_cache()
    titles = [{"id": name, "title": entries[name].title} for name in ("LAM3", "C1")]
    answer = Answer([], evidence=[], first_failure=None, ask="", also=titles)
    destroys, loads = advise(answer, entries).further
    assert [label for label, _ in (*destroys.texts, *loads.texts)] == ["check", "fix"]
    assert "terminate`" not in destroys.texts[0][1]


def test_a_line_of_several_causes_sends_to_the_check():
    advice = advice_on(KILLED)
    ids = [advice.entry.id, *(shown.id for shown in advice.further)]
    assert "M3" in ids
    assert "Several causes print this line" not in " ".join(advice.remarks)


def test_who_asks_for_an_entry_gets_its_action_and_no_reason():
    advice = advice_on("O3")
    assert advice.lead.endswith(".") and "changes nothing" not in advice.lead
    assert advice.entry.notes == ["stops the run"]


TIMED_OUT = (
    "[rank1]:[E ProcessGroupNCCL.cpp:616] [Rank 1] Watchdog caught collective operation timeout: "
    "WorkNCCL(SeqNum=9, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for "
    "600012 milliseconds before timing out."
)


def test_what_may_pass_with_another_start_is_mended_before_it_where_an_entry_says_how():
    answer = answer_for(text=TIMED_OUT)
    assert answer.decision["do"] == "restart"
    lead = advise(answer, bundle.load_cache()).lead
    fix = " ".join(bundle.load_cache()[answer.matches[0]["id"]].fix.split())
    action, _, again = lead.partition("; then ")
    assert fix.startswith(action)
    assert again.startswith("start it again: ")


@pytest.mark.parametrize(
    "end",
    [
        "slurmstepd: error: *** JOB 7 ON n4 CANCELLED AT 2025-12-21T01:31:22 DUE TO TIME LIMIT ***",
        "=>> PBS: job killed: walltime 3624 exceeded limit 3600",
        "TERM_RUNLIMIT: job killed after reaching LSF run time limit.",
    ],
)
def test_a_run_that_its_time_limit_ended_is_not_started_again_as_it_is(tmp_path, end):
    steps = "".join(f"step {n} loss {3 - n / 10:.2f}\n" for n in range(9))
    (tmp_path / "job.out").write_text(f"{steps}{end}\n")
    answer = answer_for(log=str(tmp_path / "job.out"))
    assert answer.decision["do"] == "restart"
    lead = advise(answer, bundle.load_cache()).lead
    assert "time limit" in lead and "as it is" not in lead and "resume" in lead
