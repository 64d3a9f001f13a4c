"""A log of a run that went well takes away what it also printed."""

import pytest
from remote_gpu_trainer.logs.files import ReadOptions, Unreadable, shapes_of
from remote_gpu_trainer.logs.reading import from_path
from remote_gpu_trainer.lookup.answer import answer_for
from remote_gpu_trainer.text import BadRequest

NOTICE = """\
Traceback (most recent call last):
  File "notify.py", line 3, in send
ConnectionError: could not reach the notifier
"""
GOOD = f"""\
2026-11-24 10:00:01 INFO start
{NOTICE}step 1 loss 2.31
step 2 loss 2.21
done
"""
BUS = """\
Traceback (most recent call last):
  File "notify.py", line 3, in send
RuntimeError: DataLoader worker (pid 1234) is killed by signal: Bus error.
"""
BAD = f"""\
2026-11-25 12:00:01 INFO start
step 1 loss 2.35
{BUS}{NOTICE}"""


@pytest.fixture
def logs(tmp_path):
    """Give the paths of a failing log and of a good one."""
    bad, good = tmp_path / "bad.log", tmp_path / "good.log"
    bad.write_text(BAD, encoding="utf-8")
    good.write_text(GOOD, encoding="utf-8")
    return str(bad), str(good)


def test_an_error_that_the_good_run_survived_is_no_evidence(logs):
    bad, good = logs
    alone = answer_for(log=bad)
    assert alone.first_failure["line"] == 8
    answer = answer_for(log=bad, good=good)
    assert answer.first_failure["line"] == 5
    assert answer.matches[0]["id"] == "DP15"
    assert not any("notifier" in line["text"] for line in answer.evidence)


def test_a_run_that_prints_only_what_the_good_one_printed_gets_no_entry(logs, tmp_path):
    again = tmp_path / "again.log"
    again.write_text(GOOD.replace("2.21", "2.25"), encoding="utf-8")
    answer = answer_for(log=str(again), good=logs[1])
    assert not answer.matches
    assert not answer.also
    assert answer.ask.startswith("Every line of this log also stands in the good log.")


def test_a_pasted_report_a_stream_and_a_folder_are_compared_too(logs, tmp_path):
    bad, good = logs
    assert answer_for(text=BAD, good=good).matches[0]["id"] == "DP15"
    with open(bad, "rb") as stream:
        assert answer_for(stream=stream, good=good).first_failure["line"] == 5
    run, before = tmp_path / "run", tmp_path / "before"
    for folder, text in ((run, BAD), (before, GOOD)):
        folder.mkdir()
        for rank in (0, 1):
            (folder / f"rank_{rank}.log").write_text(text, encoding="utf-8")
    assert answer_for(log=str(run), good=str(before)).first_failure["line"] == 5


def test_a_traceback_is_kept_whole_if_its_exception_is_new(logs):
    found = answer_for(log=logs[0], good=logs[1])
    assert found.evidence[0]["text"].startswith("RuntimeError: DataLoader worker")


def test_a_good_log_that_is_missing_or_elsewhere_is_refused(logs, tmp_path):
    with pytest.raises(Unreadable, match="no log at"):
        answer_for(log=logs[0], good=str(tmp_path / "none.log"))
    with pytest.raises(BadRequest, match="copy both logs here"):
        answer_for(log=logs[0], good="box:/logs/good.log")
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(Unreadable, match="no log in the folder"):
        answer_for(log=logs[0], good=str(empty))


OLD = """\
node-a1:310:310 [0] INFO Bootstrap : Using eth0
Steps:  17%|█▋        | 2/12 [00:26<02:06, 12.70s/it, loss=1.11]
run 7ic8q9z2 of host ip10c4 is tracked
"""
NEW = """\
node-c6:512:512 [0] INFO Bootstrap : Using eth0
Steps: 100%|██████████| 12/12 [00:02<00:00,  4.19it/s, loss=0.93]
run pv7gmq8g of host ip22d9 is tracked
"""


def test_another_host_another_run_and_a_faster_progress_bar_are_no_news(tmp_path):
    log, good = tmp_path / "log", tmp_path / "good"
    log.write_text(f"{OLD}RuntimeError: DataLoader worker is killed by signal: Bus error.\n")
    good.write_text(NEW)
    found = from_path(str(log), ReadOptions(good=shapes_of(str(good))))
    assert [line.text[:12] for line in found.lines] == ["RuntimeError"]


def test_a_word_that_the_good_run_never_printed_is_news(tmp_path):
    log, good = tmp_path / "log", tmp_path / "good"
    log.write_text("epoch 3 loss nan lr 0.1\nepoch 4 loss 2.5 lr 0.1\n")
    good.write_text("epoch 3 loss 2.61 lr 0.1\n")
    assert len(from_path(str(log), ReadOptions(good=shapes_of(str(good)))).lines) == 1
