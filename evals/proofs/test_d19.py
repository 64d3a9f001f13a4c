"""D19: which rank got out of step, and in which call. Each case has a group of its own, which it may break."""

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
from check_code import block, shown
from launch import run_ranks
from remote_gpu_trainer.catalogue import bundle

CASES = """
    import datetime, os, pickle, time, torch, torch.distributed as dist
    from torch._C._distributed_c10d import _dump_fr_trace
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    four = lambda: torch.ones(4)
    def reduce(group, size=4):
        dist.all_reduce(torch.ones(size), group=group)
    def gather(group):
        dist.all_gather_single(torch.ones(8), torch.ones(4), group=group)
    for label, fourth in {cases}.items():
        group = dist.new_group(timeout=datetime.timedelta(seconds=3))
        for _ in range(3):
            reduce(group)
        try:
            fourth(group)
            result = "passed"
        except RuntimeError as error:
            result = str(error)
        record = _dump_fr_trace()
        if {homes!r}:
            folder = f"{homes}/{label}/.cache/torch"
            os.makedirs(folder, exist_ok=True)
            with open(f"{folder}/comm_lib_trace_rank_{rank}", "wb") as file:
                file.write(record)
        last = pickle.loads(record)["entries"][-1]
        source = next((frame["name"] for frame in last["frames"] if frame["name"] in ("reduce", "gather")), "")
        print(label, last["collective_seq_id"], last["profiling_name"], source, result.replace("\\n", " "), sep="|", flush=True)
        time.sleep(4 * ("absent" in label and rank == 1))
"""
PLAIN = """{"alike": reduce, "another call": (reduce, gather)[rank], "absent": (reduce, lambda group: None)[rank],
            "another size": lambda group: reduce(group, 4 + 2 * rank)}"""
DETAIL = """{"alike": reduce, "another call": (reduce, gather)[rank],
             "another size": lambda group: reduce(group, 4 + 2 * rank), "absent": (reduce, lambda group: None)[rank]}"""


def outputs(cases, env=None, homes=""):
    """For each rank: case -> [number, name, source] of its last record, and what the call said."""
    script = CASES.replace("{cases}", cases).replace("{homes!r}", repr(homes))
    finished = run_ranks(script.replace("{homes}", homes), timeout=90, env=env)
    found = [
        {
            (parts := line.split("|", 4))[0]: parts[1:]
            for line in output.splitlines()
            if line.count("|") >= 4
        }
        for output in finished.ranks
    ]
    assert all("absent" in rank for rank in found), finished.output
    return finished, found


@pytest.fixture(scope="module")
def homes(tmp_path_factory):
    """A home for each case, with what the flight recorders of both ranks held after it."""
    return tmp_path_factory.mktemp("homes")


@pytest.fixture(scope="module")
def plain(homes):
    return outputs(PLAIN, homes=str(homes))


@pytest.fixture(scope="module")
def detail():
    return outputs(DETAIL, {"TORCH_DISTRIBUTED_DEBUG": "DETAIL"})[1]


def test_without_the_debug_level_a_mismatch_is_only_a_timeout_that_names_nobody(plain):
    """The rank whose clock runs out first closes the connection: on a busy machine that is what the other one sees."""
    said = [rank["another call"][-1] for rank in plain[1]]
    assert any("Timed out waiting" in text for text in said)
    assert all("Timed out waiting" in text or "Connection closed by peer" in text for text in said)
    assert not any("mismatch" in text for text in said)


def test_the_flight_recorder_has_the_last_call_of_each_rank_without_any_setting(plain):
    first, second = plain[1]
    assert first["another call"][:3] == ["4", "gloo:all_reduce", "reduce"]
    assert second["another call"][2] == "gather"


def test_the_rank_that_never_came_has_the_lower_number(plain):
    waiting, absent = plain[1]
    assert (waiting["absent"][0], absent["absent"][0]) == ("4", "3")


def test_gloo_itself_notices_a_different_size(plain, says):
    says("D19", plain[0].output)


def test_detail_names_both_calls_on_every_rank(detail, says):
    for rank in detail:
        *_, text = rank["another call"]
        says("D19", text)
        assert "OpType=ALLREDUCE" in text and "OpType=_ALLGATHER_BASE" in text


def test_detail_names_the_shapes_where_only_the_size_differs(detail, says):
    for rank in detail:
        *_, text = rank["another size"]
        says("D19", text)
        assert "TensorShape=[4]" in text and "TensorShape=[6]" in text


def test_detail_names_the_rank_that_never_came(detail, says):
    *_, text = detail[0]["absent"]
    says("D19", text)
    assert "Ranks 1 failed to pass monitoredBarrier" in text


def test_the_same_call_on_both_ranks_prints_none_of_it(plain, detail):
    assert all(rank["alike"][3] == "passed" for rank in (*plain[1], *detail))


@pytest.mark.usefixtures("plain")
@pytest.mark.parametrize(
    "case, agree", [("alike", True), ("another call", False), ("absent", False)]
)
def test_the_lines_of_the_check_show_which_ranks_stand_in_another_call(
    homes, monkeypatch, case, agree
):
    monkeypatch.setenv("HOME", str(homes / case))
    lines = [line.split(" ", 3) for line in shown(block("D19")).splitlines()]
    first, second = ([line[1:3] for line in lines if line[0] == rank] for rank in "01")
    assert first and second and len(first) + len(second) == len(lines)
    assert (first == second) is agree


PROGRAM = """
import subprocess, sys, time
if len(sys.argv) == 2:  # a loader's worker
    subprocess.Popen([sys.executable, __file__, "of", sys.argv[1]])
time.sleep(60)
"""


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="needs /proc")
def test_the_loop_of_the_fix_looks_at_the_ranks_and_not_at_their_workers(tmp_path):
    (tmp_path / "train.py").write_text(PROGRAM)
    command = [sys.executable, str(tmp_path / "train.py")]
    outside = {name: value for name, value in os.environ.items() if name != "RANK"}
    ranks = [
        subprocess.Popen(
            [*command, f"rank{rank}"], env={**outside, "RANK": str(rank)}, start_new_session=True
        )
        for rank in range(2)
    ]
    loop = re.search(r"```bash\n(.*?)```", bundle.load().get("D19").fix, re.S)[1]
    loop = loop.replace("py-spy dump --pid $p", "true")
    told_children = []
    try:
        for rank in ranks:
            children = Path(f"/proc/{rank.pid}/task/{rank.pid}/children")
            while not children.read_text():
                time.sleep(0.1)
            told_children.append(children.read_text().split())
        told = subprocess.run(["bash", "-c", loop], env=outside, capture_output=True, text=True)
    finally:
        for rank in ranks:
            os.killpg(rank.pid, 9)
            rank.wait()
    found = re.findall(r"^== rank (\d+), pid (\d+)$", told.stdout, re.M)
    expected = {(str(number), str(rank.pid)) for number, rank in enumerate(ranks)}
    assert expected <= set(found)
    workers = {child for children in told_children for child in children}
    assert workers and not workers & {pid for _, pid in found}
