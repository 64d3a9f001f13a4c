"""Logs of ranks that mislead: another call than the others', a failure after a loss, a caught one, Ctrl-C, two prefixes.

A campaign: --record runs all of them anew, a plain run one of them and replays the others.
"""

import re

import pytest
from remote_gpu_trainer.logs.reading import from_path, from_text
from remote_gpu_trainer.lookup.answer import answer_for

from tests import conftest
from tests.logs.odd_ranks import CASES, LAUNCHER, made, written


@pytest.fixture
def recorded(campaign):
    return campaign("odd_ranks").recorded()


def verdict(texts, folder):
    """(what to do, the rank that is named first, what it did) by the logs in a folder."""
    answer = answer_for(log=str(written(texts, folder)))
    first = answer.first_failure or {}
    return (answer.decision or {}).get("do"), first.get("rank"), first.get("how")


@pytest.mark.timeout(1800)
def test_ranks_that_run_for_real_are_judged_like_the_recorded_ones(tmp_path, campaign):
    conftest.module("torch", "pip install '.[proofs]'")
    told = campaign("odd_ranks")
    live = {
        name: made(CASES[name], tmp_path / str(number))
        for number, name in enumerate(told.live(list(CASES)))
    }
    for name, texts in live.items():
        assert verdict(texts, tmp_path / name) == CASES[name][3:], name
    told.recorded(live)


@pytest.mark.parametrize("name", CASES)
def test_the_decision_and_the_rank_are_right(name, recorded, tmp_path):
    assert verdict(recorded[name], tmp_path) == CASES[name][3:]


WITHOUT = [name for name, case in CASES.items() if not case.tee and case.kind != "is killed"]


@pytest.mark.parametrize("name", WITHOUT)
def test_they_are_so_without_the_launcher_s_own_log(name, recorded, tmp_path):
    texts = {file: text for file, text in recorded[name].items() if file != LAUNCHER}
    assert verdict(texts, tmp_path) == CASES[name][3:]


def test_a_failure_after_a_loss_is_not_the_first_though_nobody_tells_of_the_signal(
    recorded, tmp_path
):
    texts = dict(recorded["killed rank, another fails after the loss"])
    del texts[LAUNCHER]
    assert verdict(texts, tmp_path) == (None, None, None)  # rank 3 is as quiet as rank 1


def test_only_the_rank_that_was_lost_counts_as_failed(recorded, tmp_path):
    for name in ("quiet rank, another fails after the loss", "killed rank, all in one log"):
        answer = answer_for(log=str(written(recorded[name], tmp_path / name)))
        assert not answer.first_failures


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.do == "stop"])
def test_a_run_in_which_nothing_failed_has_no_first_failure(name, recorded, tmp_path):
    answer = answer_for(log=str(written(recorded[name], tmp_path)))
    assert (answer.first_failure, answer.matches) == (None, [])


def test_a_download_that_timed_out_is_no_lost_rank(tmp_path):
    for rank in (1, 2):
        (tmp_path / f"rank_{rank}.log").write_text("step 1 loss 2.9\n")
    (tmp_path / "rank_0.log").write_text(
        "step 1 loss 2.9\nTraceback (most recent call last):\n"
        '  File "/root/code/train.py", line 10, in load\n    requests.get(url, timeout=10)\n'
        "requests.exceptions.ReadTimeout: HTTPSConnectionPool(host='example.org', port=443): Read timed out.\n\n"
        "During handling of the above exception, another exception occurred:\n\n"
        "Traceback (most recent call last):\n"
        '  File "/root/code/train.py", line 30, in <module>\n    main()\n'
        '  File "/root/code/train.py", line 12, in load\n    open("cache/config.json")\n'
        "FileNotFoundError: [Errno 2] No such file or directory: 'cache/config.json'\n"
    )
    assert verdict({}, tmp_path) == ("fix_first", 0, None)


def test_who_pressed_ctrl_c_is_told_and_no_time_out(recorded, tmp_path):
    answer = answer_for(log=str(written(recorded["Ctrl-C"], tmp_path)))
    assert answer.ask.startswith("The run was stopped: somebody pressed Ctrl-C (SIGINT)")
    assert "waited for one" not in answer.ask


@pytest.mark.parametrize(
    "tag", ["{}|", "{}| ", "trainer-{}  | ", "node{}: ", "[{}] ", "[default{}]:", "[1,{}]<stderr>:"]
)
def test_a_launcher_s_tag_before_the_rank_that_pytorch_prints_names_the_rank(tag, recorded):
    text = recorded["killed rank, all in one log"][LAUNCHER]
    tagged = re.sub(r"^\[default(\d)\]:", lambda hit: tag.format(hit[1]), text, flags=re.M)
    found = from_text(tagged)
    assert found.ranks == (0, 1, 2, 3) and found.first.rank == 1
    raised = {line.rank for line in found.lines if line.kind in ("exception", "consequence")}
    assert raised >= {2}
    # PyTorch's rank counts, where the launcher's is the number within the node.
    moved = re.sub(r"\[rank(\d)\]", lambda hit: f"[rank{int(hit[1]) + 8}]", tagged)
    traces = {line.rank for line in from_text(moved).lines if line.kind == "frame"}
    assert traces - {None} and not traces & {0, 1, 2, 3}


def test_a_tag_before_one_rank_alone_is_no_rank(tmp_path):
    text = "gpu2: [rank2]: Traceback (most recent call last):\ngpu2: [rank2]: ValueError: bad row\n"
    (tmp_path / "a.log").write_text(f"gpu2: step 1\n{text}")
    found = from_path(str(tmp_path / "a.log"))
    assert [line.rank for line in found.lines] == [None, 2, 2]
