"""D23: every rank prints, evaluates and saves. Two ranks; `alone` puts the side effect behind the rank."""

import subprocess

import pytest
from check_code import span
from launch import run_ranks

CASES = """
    import os, torch, torch.distributed as dist
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    for alone in (False, True):
        folder = os.path.join(os.environ["FOLDER"], str(alone))
        if rank == 0:
            os.makedirs(folder)
        dist.barrier()
        mine = not alone or rank == 0
        tell = lambda *text: print(alone, *text, sep="|", flush=True)
        if mine:
            tell("log", "epoch 0, loss 0.5")

        staged, final = f"{folder}/tmp-checkpoint-10", f"{folder}/checkpoint-10"
        os.makedirs(staged, exist_ok=True)
        dist.barrier()
        try:
            if mine:
                os.rename(staged, final)
        except OSError as error:
            tell("rename", error)
        dist.barrier()
        tell("folder", sorted(os.listdir(folder)))
        dist.barrier()

        path = f"{folder}/last.pt"
        if rank == 0:
            torch.save(torch.ones(1000), path)
        dist.barrier()
        if mine and rank == 1:
            half_written = open(path, "wb")              # the first thing that torch.save does
        dist.barrier()
        if rank == 0:
            try:
                tell("load", torch.load(path).sum().item())
            except Exception as error:
                tell("load", type(error).__name__)

        hits = torch.tensor([[1.0, 2.0], [0.0, 2.0]][rank])   # correct and seen in each half of the data
        if alone:
            dist.all_reduce(hits)
        tell("accuracy", (hits[0] / hits[1]).item())
    dist.barrier()
    dist.destroy_process_group()
"""


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    """(alone, topic) -> what the ranks told, in the order of their numbers."""
    finished = run_ranks(CASES, timeout=60, env={"FOLDER": tmp_path_factory.mktemp("shared")})
    found = {}
    for output in finished.ranks:
        for line in output.splitlines():
            if line.startswith(("True|", "False|")):
                alone, topic, text = line.split("|", 2)
                found.setdefault((alone == "True", topic), []).append(text)
    assert found, finished.output
    return found


def test_a_line_appears_once_a_rank_and_once_with_the_check(told):
    assert told[False, "log"] == ["epoch 0, loss 0.5"] * 2
    assert told[True, "log"] == ["epoch 0, loss 0.5"]


def test_two_ranks_that_rename_one_folder_collide(told, says):
    [loser] = told[False, "rename"]
    says("D23", loser)


def test_one_rank_that_renames_while_the_other_waits_does_not(told):
    assert (True, "rename") not in told and told[True, "folder"] == ["['checkpoint-10']"] * 2


def test_a_checkpoint_that_another_rank_is_writing_cannot_be_read(told):
    [failure] = told[False, "load"]
    assert failure.endswith("Error")


def test_a_checkpoint_with_one_writer_and_a_barrier_can(told):
    assert told[True, "load"] == ["1000.0"]


def test_each_rank_alone_scores_its_share_and_the_sum_scores_all(told):
    assert told[False, "accuracy"] == ["0.5", "0.0"]
    assert told[True, "accuracy"] == ["0.25", "0.25"]


@pytest.mark.parametrize("alone, times", [(False, "2"), (True, "1")])
def test_the_line_of_the_check_counts_each_line_as_often_as_it_was_printed(
    told, tmp_path, alone, times
):
    first, *again = told[alone, "log"]
    log = [first, told[alone, "folder"][0], *again, told[alone, "accuracy"][0]]
    (tmp_path / "run.log").write_text("\n".join(log) + "\n")
    shown = subprocess.run(
        ["bash", "-c", span("D23", "uniq -c")], cwd=tmp_path, capture_output=True, text=True
    ).stdout.splitlines()
    assert [times, "epoch 0, loss 0.5"] in [line.split(maxsplit=1) for line in shown]
    assert shown[0].split()[0] == times
