"""Claims of a queue, by the functions of a queue alone: two owners never hold a cell, and only its owner publishes a result."""

import os
import subprocess

import pytest
from remote_gpu_trainer.runs import shell_text


@pytest.fixture
def shell(tmp_path):
    """Runs bash lines after the functions of queue and runner: shell('lines', box='a')."""
    values = {
        "RGT_RUN_DIR": str(tmp_path / "run"),
        "RGT_CLAIMS": str(tmp_path / "claims"),
        "RGT_LEASE": 2,
        "RGT_COMMAND": ["true"],
    }
    cells = ["a\x1f--x", "b", "c"]
    (tmp_path / "claims").mkdir()

    def run(lines: str, box: str = "a", cells: list[str] = cells, **more: object) -> str:
        text = shell_text.script({**values, "RGT_CELLS": cells, **more})
        text = (
            text.removesuffix('rgt_main "$@"\n')
            + "RGT_SLOTS=${RGT_SLOTS-1}; rgt_resolve; rgt_queue_apply_part; rgt_queue_open\n"
            + lines
        )
        (tmp_path / "lines.sh").write_text(text)
        done = subprocess.run(
            ["bash", str(tmp_path / "lines.sh")],
            env={**os.environ, "HOSTNAME": box},
            capture_output=True,
            text=True,
            timeout=30,
        )
        assert not done.stderr, done.stderr
        return done.stdout

    return run


OTHER = (
    "sleep 30 & other=$!; trap 'kill $other' EXIT; rgt_queue_owner=\"$rgt_queue_machine $other 1\";"
)
LOOK = "rgt_queue_read_clock; rgt_queue_look a; echo $rgt_queue_is;"


def test_a_cell_is_claimed_once_by_twenty_that_want_it(shell):
    wants = "for n in {1..20}; do (rgt_queue_box=x@$n; rgt_queue_claim a && echo mine) & done; wait"
    assert shell(wants) == "mine\n"


def test_a_claim_whose_process_is_gone_is_lost_at_once_on_the_same_machine(shell):
    assert shell("rgt_queue_claim a;" + LOOK) == "running\n"
    assert shell(LOOK) == "lost\n"
    assert shell(LOOK, box="b") == "running\n"


def test_a_claim_of_another_machine_is_lost_after_the_lease_by_the_clock_of_the_folder(shell):
    shell("rgt_queue_claim a")
    assert shell("touch -d '-1 sec' $rgt_queue_claims/a/by.*/beat;" + LOOK, box="b") == "running\n"
    assert shell("touch -d '-9 sec' $rgt_queue_claims/a/by.*/beat;" + LOOK, box="b") == "lost\n"


def test_a_claim_that_was_never_finished_is_lost_after_the_lease(shell, tmp_path):
    (tmp_path / "claims" / "a").mkdir()
    assert shell(LOOK) == "running\n"
    os.utime(tmp_path / "claims" / "a", (1, 1))
    assert shell(LOOK + "rgt_queue_take a && rgt_queue_claim a && echo ours") == "lost\nours\n"


def test_the_second_of_two_that_saw_the_same_dead_owner_can_not_take_the_new_claim(shell, tmp_path):
    shell("rgt_queue_claim a")
    both = "rgt_queue_read_clock; rgt_queue_look a; seen=$rgt_queue_by; rgt_queue_take a && rgt_queue_claim a && echo first;"
    both += (
        "rgt_queue_by=$seen; rgt_queue_take a || echo refused; rgt_queue_look a; echo $rgt_queue_is"
    )
    assert shell(both) == "first\nrefused\nrunning\n"
    assert len(list((tmp_path / "claims").glob("a.lost.*"))) == 1


def test_of_twenty_that_see_a_dead_owner_one_takes_over(shell):
    shell("rgt_queue_claim a")
    wants = "for n in {1..20}; do (rgt_queue_box=x@$n; rgt_queue_read_clock; rgt_queue_look a; [[ $rgt_queue_is == lost ]] &&"
    assert (
        shell(wants + " rgt_queue_take a && rgt_queue_claim a && echo mine) & done; wait")
        == "mine\n"
    )


def test_only_the_owner_publishes(shell, tmp_path):
    lines = "rgt_queue_claim a; old=$rgt_queue_token; rgt_queue_look a; rgt_queue_take a; rgt_queue_claim a; new=$rgt_queue_token;"
    lines += 'rgt_queue_read_clock; rgt_queue_publish a $old done \'{"by":"old"}\'; echo $?; rgt_queue_publish a $new done \'{"by":"new"}\'; echo $?;'
    lines += "rgt_queue_publish a $new failed '{}'; echo $?"
    assert shell(lines) == "2\n0\n1\n"
    assert (tmp_path / "claims" / "a" / "done").read_text() == '{"by":"new"}\n'
    assert not (tmp_path / "claims" / "a" / "failed").exists()


def test_a_result_published_at_the_last_moment_survives_the_take_over(shell):
    lines = "rgt_queue_claim a; rgt_queue_look a; seen=$rgt_queue_by; rgt_queue_publish a $rgt_queue_token done '{}'; rgt_queue_by=$seen;"
    assert (
        shell(lines + "rgt_queue_take a || echo kept; rgt_queue_look a; echo $rgt_queue_is")
        == "kept\ndone\n"
    )


def test_claims_that_can_not_be_reached_are_not_taken_for_stolen(shell):
    lines = "rgt_queue_claim a; rgt_queue_read_clock; mv $rgt_queue_claims $rgt_queue_claims.away; rgt_queue_robbed a $rgt_queue_token || echo ours;"
    lines += "rgt_queue_publish a $rgt_queue_token done '{}'; echo $?; mkdir $rgt_queue_claims; rgt_queue_robbed a $rgt_queue_token || echo ours"
    assert shell(lines) == "ours\n1\nours\n"


def test_a_released_cell_can_be_claimed_again(shell):
    drop = "rgt_queue_claim a; rgt_queue_drop $rgt_queue_claims/a $rgt_queue_claims/a/by.$rgt_queue_token;"
    assert shell(drop + LOOK + "rgt_queue_claim a && echo again") == "left\nagain\n"


@pytest.mark.parametrize(
    "part, mine", [("1/1", "0 1 2"), ("1/2", "0 2"), ("2/2", "1"), ("3/3", "2"), ("4/4", "")]
)
def test_a_part_is_each_nth_cell(shell, part, mine):
    assert shell('echo "${rgt_queue_mine[*]}"', RGT_PART=part) == mine + "\n"


def test_the_shares_of_the_cards_are_disjoint(shell):
    show = 'unset CUDA_VISIBLE_DEVICES; for s in 0 1 2; do rgt_queue_share $s; echo "${rgt_queue_env[@]:1}"; done;'
    assert shell(show, RGT_GPUS=6, RGT_PROCS=6, RGT_SLOTS=3).splitlines() == [
        "CUDA_VISIBLE_DEVICES=0,1 RGT_CELL_GPUS=2 RGT_CELL_PROCS=2",
        "CUDA_VISIBLE_DEVICES=2,3 RGT_CELL_GPUS=2 RGT_CELL_PROCS=2",
        "CUDA_VISIBLE_DEVICES=4,5 RGT_CELL_GPUS=2 RGT_CELL_PROCS=2",
    ]
    given = show.replace("unset CUDA_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES=7,5,GPU-abc")
    assert [line.split()[0] for line in shell(given, RGT_GPUS=3, RGT_SLOTS=3).splitlines()] == [
        f"CUDA_VISIBLE_DEVICES={n}" for n in ("7", "5", "GPU-abc")
    ]
    assert shell(show, RGT_GPUS=0, RGT_SLOTS=3) == "\n\n\n"


def test_one_card_is_shared_where_there_are_more_slots(shell):
    show = 'unset CUDA_VISIBLE_DEVICES; for s in 0 1 2; do rgt_queue_share $s; echo "${rgt_queue_env[1]}"; done'
    assert shell(show, RGT_GPUS=2, RGT_SLOTS=3).split() == [
        "CUDA_VISIBLE_DEVICES=0",
        "CUDA_VISIBLE_DEVICES=1",
        "CUDA_VISIBLE_DEVICES=0",
    ]
