"""`snapshot`: of real processes that hang, the page alone names rank and state; here, over ssh, and after the end."""

import json
import pickle
import re
import shutil
import sys
import time
from pathlib import Path

import pytest
from remote_gpu_trainer.boxes.box import parse
from remote_gpu_trainer.lookup.budget import tokens
from remote_gpu_trainer.runs import run_snapshot
from remote_gpu_trainer.text import BadRequest

from tests.engines.sshd import boxes, sshd  # noqa: F401
from tests.programs import rgt
from tests.snapshot.hangs import PROGRAM, SAYS, Begin, hang  # noqa: F401

pytest_plugins = ["tests.runner.box"]
LOCAL = [parse("local")]


def odd_lines(page: str) -> list[str]:
    """The lines below `odd:`, without those about the others."""
    part = page.partition("\nodd:\n")[2].partition("\n\n")[0].splitlines()
    return [line.strip() for line in part if not line.strip().startswith("the others")]


@pytest.mark.parametrize("kind", SAYS)
def test_the_page_alone_names_rank_and_state(kind, hang: Begin, tmp_path):
    stuck = hang(kind)
    taken = run_snapshot.take_snapshot(LOCAL, stuck.run.folder.path, tmp_path / "snap")
    lines = odd_lines(taken.page)
    assert re.match(rf"rank 1: {SAYS[kind]}", lines[0]), taken.page
    assert not any(re.search(r"\branks? [02]", line) for line in lines), taken.page
    assert "the others, ranks 0, 2: " in taken.page
    assert tokens(taken.page) <= 800
    assert taken.as_dict()["odd"][0]["ranks"] == (1,)


def test_ranks_that_train_are_told_so_and_train_on(hang, tmp_path):
    ran = hang("healthy")
    before = ran.pids()
    for at in range(3):
        page = run_snapshot.take_snapshot(LOCAL, ran.run.folder.path, tmp_path / str(at)).page
        assert "3 of 3 ranks there" in page
        assert "\nodd: no rank differs. Ranks 0-2: all move on, so the run trains\n" in page, page
    assert ran.pids() == before and "Error" not in ran.log()


def test_without_any_stack_the_page_names_the_rank_and_its_file(hang, tmp_path, monkeypatch):
    stuck = hang("fifo", marked=False)
    monkeypatch.setenv("PATH", "/usr/bin:/bin")  # where no py-spy is
    assert not shutil.which("py-spy")
    page = run_snapshot.take_snapshot(LOCAL, stuck.run.folder.path, tmp_path / "snap").page
    assert re.match(r"rank 1: waits in open of \S+feed\.fifo; no Python stack", odd_lines(page)[0])


def test_py_spy_reads_what_carries_no_mark(hang, tmp_path, monkeypatch):
    stuck = hang("deadlock", marked=False)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:/usr/bin:/bin")
    assert shutil.which("py-spy")
    page = run_snapshot.take_snapshot(LOCAL, stuck.run.folder.path, tmp_path / "snap").page
    assert "rank 1: in own code, deadlock_in_c" in odd_lines(page)[0]
    assert "stack by py-spy" in page


def test_the_folder_is_what_the_look_up_reads(hang, tmp_path):
    stuck = hang("collective")
    taken = rgt("snapshot", "local", "--run", stuck.run.folder.path, "--to", tmp_path / "snap")
    assert taken.returncode == 0 and f"lookup --log {tmp_path / 'snap'}" in taken.stderr
    answer = json.loads(rgt("lookup", "--log", tmp_path / "snap", "--json").stdout)
    assert answer["matches"][0]["id"] == "D19" and answer["first_failure"]["rank"] == 1


def test_it_changes_nothing_of_the_processes(hang, tmp_path):
    """Not even one that is stopped, nor one without a handler, which a signal would end."""
    for kind, marked in (("stopped", True), ("fifo", False)):
        stuck = hang(kind, marked=marked)
        before = stuck.pids()
        for at in range(2):
            run_snapshot.take_snapshot(LOCAL, stuck.run.folder.path, tmp_path / f"{kind}-{at}")
        assert stuck.pids() == before and len(before) >= 4
        names = {path.name for path in Path(stuck.run.folder.path).iterdir()}
        assert names <= {"log", "own"}  # the program's own mark lies in two of them


def test_a_folder_with_something_in_it_is_not_written_to(tmp_path):
    (tmp_path / "old").write_text("x")
    with pytest.raises(BadRequest, match=r"^--to: \S+ is there already; name a new folder$"):
        run_snapshot.take_snapshot(LOCAL, "", tmp_path)


def test_a_box_on_which_nothing_trains_says_so(sshd, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = rgt("snapshot", "gpu", "--run", "nothing")
    assert done.returncode == 1
    assert "no run in " in done.stderr and not (tmp_path / "snapshots").exists()


def test_a_box_that_is_gone_leaves_the_others(hang, sshd, tmp_path, monkeypatch):
    stuck = hang("stopped")
    sshd.stop()
    monkeypatch.chdir(tmp_path)
    done = rgt("snapshot", "local", "gpu", "--run", stuck.run.folder.path, "--json")
    told = json.loads(done.stdout)
    assert done.returncode == 2 and list(told["failed"]) == ["gpu"]
    assert told["odd"][0]["ranks"] == [1] and Path(told["folder"], "page.md").exists()


def test_over_ssh_the_run_that_lives_is_found_by_itself(hang, sshd, tmp_path, monkeypatch):
    stuck = hang("fifo")
    monkeypatch.chdir(tmp_path)
    done = rgt("snapshot", "gpu", "--run", stuck.run.folder.path)
    assert done.returncode == 0, done.stderr
    assert "read_fifo" in odd_lines(done.stdout)[0]
    folder = next((tmp_path / "snapshots").iterdir())
    assert {"page.md", "snapshot.json", "stacks.log", "train.log"} <= {
        p.name for p in folder.iterdir()
    }
    assert not list(Path(sshd.home).rglob("*snap*"))  # nothing was left there


def test_dumps_come_as_they_are_and_secrets_do_not(hang, tmp_path, monkeypatch):
    class Trap:
        def __reduce__(self):
            return Path.touch, (tmp_path / "trapped",)

    monkeypatch.setenv("TORCH_FR_DUMP_TEMP_FILE", str(tmp_path / "fr_rank_"))
    monkeypatch.setenv("HF_TOKEN", "hf_abcdefghijklmnopqrstuvwx")
    monkeypatch.setenv("NCCL_NOTE", "password=correct-horse-battery")
    stuck = hang("fifo")
    data = pickle.dumps(Trap())
    (tmp_path / "fr_rank_0").write_bytes(data)
    with open(stuck.run.folder.at("log", "train.log.0000"), "a") as log:
        log.write("wandb login --relogin 0123456789012345678901234567890123456789\n")
    run_snapshot.take_snapshot(LOCAL, stuck.run.folder.path, tmp_path / "snap")
    assert (tmp_path / "snap/fr_rank_0").read_bytes() == data
    assert not (tmp_path / "trapped").exists()
    texts = "".join(p.read_text() for p in (tmp_path / "snap").iterdir() if p.suffix != "")
    assert "NCCL_NOTE" in texts and "hf_abc" not in texts
    assert "correct-horse" not in texts and "0123456789012345" not in texts


def test_boxes_of_one_run_are_merged(hang, tmp_path):
    """Two boxes of four ranks each: the dead one of the second is named among all eight."""
    stuck = hang("collective", ranks=4)
    first = run_snapshot.ask_box(LOCAL[0], stuck.run.folder.path)
    second = json.loads(json.dumps(first))
    second["host"] = "other"
    for one_box, shift in ((first, 0), (second, 4)):
        one_box["expected"] = [shift + n for n in range(4)]
        for one in one_box["ranks"]:
            one["rank"] += shift
            one.update(world=8, name=f"rank {one['rank']}")
    second["ranks"] = [one for one in second["ranks"] if one["rank"] != 6]
    taken = run_snapshot.Taken([first, second], run_snapshot.format_page([first, second], tokens))
    assert "7 of 8 ranks there" in taken.page and tokens(taken.page) <= 800
    lines = odd_lines(taken.page)
    assert lines[0].startswith("rank 6: dead")
    assert lines[1].startswith("ranks 1, 5: in broadcast")
    assert "the others, ranks 0, 2-4, 7: in all_reduce" in taken.page
    run_snapshot.write_folder(taken, tmp_path / "snap")
    assert {p.name for p in (tmp_path / "snap").iterdir()} == {"page.md", "box-a", "box-b"}


def test_the_runner_takes_a_snapshot_of_a_stall_and_it_is_told_after_the_end(box, tmp_path):
    box.make("--hang-at", 12, retries={"stall": 0}, spec={"stall": {"log_minutes": 3 / 60}})
    box.start()
    assert box.wait(timeout=90)["phase"] == "failed"
    kept = sorted((box.run_dir / "log/snapshots").iterdir())
    assert [path.name.rpartition("-")[2] for path in kept] == ["stall"]
    assert "knobs (runner_program.py:" in (kept[0] / "page.md").read_text()
    assert "runner_program.py" in box.events("snapshot")[0]["says"]
    taken = run_snapshot.take_snapshot(LOCAL, str(box.run_dir), tmp_path / "snap")
    assert "taken by the runner at a stall" in taken.page and "knobs (" in taken.page
    assert taken.code == 0 and "step 12" in (tmp_path / "snap/train.log").read_text()


def test_the_script_of_a_run_shows_the_page_to_whoever_has_logged_in(box):
    box.make("--hang-at", 5)
    box.start()
    box.at_step(4)
    box.until(lambda: "knobs (runner_program.py:" in box.verb("snapshot").stdout, timeout=30)
    assert box.status()["alive"] and not (box.run_dir / "log/snapshots").exists()


def test_under_torchrun_a_stall_is_told_by_rank_and_place(box, tmp_path):
    place = tmp_path / "ranks"
    place.mkdir()
    box.make(
        command=[sys.executable, str(PROGRAM), "deadlock", str(place), "3"],
        launcher="torchrun",
        processes=3,
        results=[],
        retries={"stall": 0},
        spec={"stall": {"log_minutes": 8 / 60}},
    )
    box.start()
    assert box.wait(timeout=120)["phase"] == "failed"
    page = next((box.run_dir / "log/snapshots").glob("*-stall/page.md")).read_text()
    assert odd_lines(page)[0].startswith("rank 1: in own code, deadlock_in_c (hang_program.py:")
    assert "the others, ranks 0, 2: in all_reduce" in page and "3 of 3 ranks there" in page


def test_the_runner_keeps_what_is_there_at_a_failure_and_names_the_rank_that_is_gone(box, tmp_path):
    talk = (
        "for r in 0 1; do RANK=$r LOCAL_RANK=$r WORLD_SIZE=2 LOCAL_WORLD_SIZE=2 "
        f'{sys.executable} -c \'import os, time; time.sleep(4 if os.environ["RANK"] == "1" else 60)\' & done; '
        "wait -n; echo lost one; exit 3"
    )
    box.make(command=talk, results=[], retries={"unknown": 0})
    box.verb("run")
    kept = sorted((box.run_dir / "log/snapshots").iterdir())
    page = (kept[0] / "page.md").read_text()
    assert kept[0].name.endswith("-failure") and "rank 1: dead: its process is gone (pid " in page
    assert box.marker("failed")["exit"] == 3


LIES = [
    b"",
    b"[]",
    b"9" * 5000,
    b'{"ranks": 3}',
    b'{"ranks": [1], "run": {}}',
    json.dumps({**{k: v() for k, v in run_snapshot._KINDS.items()}, "ranks": [1]}).encode(),
    json.dumps({**{k: v() for k, v in run_snapshot._KINDS.items()}, "ranks": [{}]}).encode(),
    json.dumps({**{k: v() for k, v in run_snapshot._KINDS.items()}, "run": {"a": 1}, "kernel": {"xids": 3}}).encode(),
]  # fmt: skip


@pytest.mark.parametrize("out", LIES)
def test_a_box_that_lies_ends_in_an_error(out, monkeypatch, tmp_path):
    monkeypatch.setattr(
        run_snapshot.boxes, "run", lambda *_, **__: run_snapshot.boxes.Reply("ok", 0, out)
    )
    try:
        taken = run_snapshot.take_snapshot(LOCAL, "", tmp_path / "snap")
    except run_snapshot.NoSnapshot as error:
        assert str(error).endswith("take it anew")
    else:
        assert list(taken.failed.values()) == ["local gave no snapshot: what came is no snapshot"]


def test_it_takes_no_longer_than_it_says(hang, tmp_path):
    stuck = hang("stopped")
    began = time.monotonic()
    run_snapshot.take_snapshot(LOCAL, stuck.run.folder.path, tmp_path / "snap")
    assert time.monotonic() - began < 22
