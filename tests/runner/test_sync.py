"""Copies to the durable place: compared by content there, none able to hold up the run or to lie."""

import json
import os
import subprocess
import time
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from remote_gpu_trainer.runner import content, durable, procs, resuming, safe, sync
from remote_gpu_trainer.runner.child import Failed
from remote_gpu_trainer.runner.completeness import COMPLETE, UNKNOWN
from remote_gpu_trainer.runner.context import Run
from remote_gpu_trainer.runner.copies import plan, records, rounds
from remote_gpu_trainer.runner.copies.generations import Generations
from remote_gpu_trainer.runner.copies.place import Local
from remote_gpu_trainer.runner.copies.tool import Tools
from remote_gpu_trainer.runner.core import copying

from tests.runner.copying import (
    Copier,
    events,
    far,
    fill,
    kept,
    kept_steps,
    make,
    rows,
    same_size,
    tool,
)
from tests.runner.jobs import secrets_of

FOREVER = 4_000_000_000.0
pytest_plugins = ["tests.engines.sshd"]


def last(run: Run, whole: bool = True, until: float = FOREVER, beat=lambda: False) -> bool:
    return Copier(run).last(whole, until, beat)


def once(run: Run, mode: str = "whole") -> bool:
    """Copy once, in this process."""
    return sync.worker(run, mode) == 0


def last_sync(run: Run) -> dict:
    return run.folder.json("own/last-sync") | {"t": 0}


def beats(one: Copier, times: int) -> None:
    """Let a heartbeat pass so often."""
    for _ in range(times):
        one.step()
        if one.copies._look is not None:
            one.copies._look.poll(5)
        one.run.clock.nap(1.0)


def until(copies: Copier, true: Callable[[], object]) -> None:
    """Beat until something is true and no worker is left."""
    for _ in range(400):
        beats(copies, 1)
        if true() and copies.copies._child is None:
            return
    raise AssertionError((rows(copies.run), copies.run.folder.read("log/runner.log")))


def test_the_last_copy_is_compared_and_whole(tmp_path):
    run = make(tmp_path)
    fill(tmp_path, 10, 20)
    begun = run.up
    assert last(run)
    assert run.up - begun < 5, "it waited for something"
    assert {row["result"] for row in rows(run)} == {"ok"}
    assert kept(tmp_path, "step-20.pt").read_bytes() == (tmp_path / "ckpt/step-20.pt").read_bytes()
    assert (tmp_path / "durable/final.bin").exists()
    assert last_sync(run) == {"t": 0, "ok": True, "verified": True, "to": str(tmp_path / "durable")}
    assert sync.Sync(run).is_whole()


def test_another_content_of_the_same_size_and_time_is_found_and_mended(tmp_path, capfd):
    run = make(tmp_path)
    fill(tmp_path, 40)
    assert once(run)
    for copy in (kept(tmp_path, "step-40.pt"), tmp_path / "durable/final.bin"):
        right = same_size(copy)
        assert sync.by_hand(run) == 0 and copy.read_bytes() == right
        assert capfd.readouterr().out == f"verified at {tmp_path}/durable\n"
    same_size(copy)
    assert last(run) and copy.read_bytes() == right, "the last copy mends what it finds"


def test_new_files_are_copied_once_they_lie_still_and_nothing_starts_without_them(tmp_path):
    run = make(tmp_path)
    fill(tmp_path, 10)
    copies = Copier(run)
    until(copies, lambda: rows(run))
    assert rows(run)[0]["mode"] == "quick" and last_sync(run)["verified"] is True
    before = len(rows(run))
    beats(copies, 200)
    assert len(rows(run)) == before, "nothing was new"
    fill(tmp_path, 20)
    begun = run.up
    until(copies, lambda: len(rows(run)) > before)
    assert kept(tmp_path, "step-20.pt").exists()
    assert run.up - begun < 60
    growing = tmp_path / "ckpt/step-30.pt"
    before = len(rows(run))
    for size in range(40):
        growing.write_bytes(b"x" * size)
        beats(copies, 1)
    assert len(rows(run)) == before, "it was copied while it was written"


def test_an_attempt_that_begins_anew_has_a_line_of_its_own_there(tmp_path):
    run = make(tmp_path)
    for attempt, is_anew, steps in ((1, True, (50, 60)), (2, False, (70,)), (3, True, (80, 90))):
        run.folder.write("attempt.json", json.dumps({"attempt": attempt, "anew": is_anew}))
        fill(tmp_path, *steps)
        assert last(run)
    there = tmp_path / "durable/ckpt.generations"
    lines = {name.split("-")[2]: name.split("-")[1] for name in os.listdir(there) if "gen-" in name}
    assert lines == {"50": "1", "60": "1", "70": "1", "80": "2", "90": "2"}


def test_what_one_save_writes_in_two_files_is_one_generation(tmp_path):
    run = make(tmp_path, checkpoint={"pattern": "model*.pt"}, results=[])
    folder = tmp_path / "ckpt"
    folder.mkdir()

    def save(name: str, step: int, cut: int | None = None):
        with zipfile.ZipFile(folder / name, "w") as archive:
            archive.writestr("data", bytes([step]) * 2000)
        os.truncate(folder / name, cut or (folder / name).stat().st_size)

    for step in (1, 2):
        save("model.pt", step)
        save("optimizer.pt", step)
        assert once(run, "full")
    both = kept(tmp_path, "model.pt")
    assert (both.parent / "optimizer.pt").exists() and len(events(run, "copied")) == 2
    save("model.pt", 3)
    save("optimizer.pt", 3, cut=900)
    procs.note_program(run.folder, os.getpid())
    assert once(run, "full") and len(events(run, "copied")) == 2
    procs.note_program(run.folder, 0)
    # Nothing completes it any more: the complete file is kept, and nobody goes on from it.
    assert once(run, "full") and len(events(run, "copied")) == 3
    assert safe.look_safe(run).is_newest_safe
    there = Generations("toy", Local(Tools({}, lambda: None)), f"{run.durable}/ckpt", {})
    assert [one.source for one in plan.newest(there.read()).values()] == ["model.pt"]
    save("optimizer.pt", 3)
    save("model_7.pt", 7)
    save("optimizer_7.pt", 7)
    save("model_8.pt", 8)
    assert once(run, "full") and len(events(run, "copied")) == 6
    assert (kept(tmp_path, "model_7.pt").parent / "optimizer_7.pt").exists()


def test_what_a_program_leaves_that_dies_between_two_files_is_no_newest(tmp_path):
    run = make(tmp_path, checkpoint={"pattern": "*.pt"}, results=[])
    folder = tmp_path / "ckpt"
    folder.mkdir()
    now = time.time()

    def save(name: str, step: int, at: float):
        with zipfile.ZipFile(folder / name, "w") as archive:
            archive.writestr("data", bytes([step]) * 2000)
        os.utime(folder / name, (at, at))

    def source_and_state() -> list[tuple[str, str]]:
        there = Generations("toy", Local(Tools({}, lambda: None)), f"{run.durable}/ckpt", {})
        best = plan.newest(there.read()).values()
        return [
            (zipfile.ZipFile(kept_of(one, "model.pt")).read("data")[:1], one.state) for one in best
        ]

    def kept_of(one: plan.There, name: str) -> Path:
        return tmp_path / "durable/ckpt.generations" / one.name / "files" / name

    for name in ("model.pt", "optimizer.pt"):
        save(name, 1, now - 100)
    assert once(run, "full")
    save("model.pt", 2, now - 10)
    assert once(run, "full") and len(events(run, "copied")) == 2
    assert source_and_state() == [(b"\1", COMPLETE)]
    found = safe.look_safe(run)
    assert found.newest == "" and found.is_newest_safe and not found.unseen
    assert found.left == (), "it was copied"
    written = records.Records(run)
    known = dict(written.known)
    written.known = {name: told for name, told in known.items() if told["state"] == COMPLETE}
    written.write()
    found = safe.look_safe(run)
    assert found.left == ("model.pt",) and not found.is_all_safe, "it is here alone"
    written.known = known
    written.write()
    assert safe.name_if_usable(run, str(folder / "model.pt")) == ""
    assert any("copied, not judged" in note for note in last_sync(run)["notes"])
    (tmp_path / "durable").rename(tmp_path / "away")
    assert not once(run, "full")
    (tmp_path / "away").rename(tmp_path / "durable")
    assert safe.name_if_usable(run, str(folder / "model.pt")) == "", "though a round saw nothing"
    # The next attempt goes on from the whole pair at the durable place; the mixed one stays aside.
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    began = resuming.choose_checkpoint(run)
    assert began is not None and os.path.dirname(began.path) == str(folder)
    for name in ("model.pt", "optimizer.pt"):
        assert zipfile.ZipFile(folder / name).read("data")[:1] == b"\1", name
        assert (folder / ".corrupt" / name).read_bytes() == before[name]
    # The one that came to its end left what it meant to leave.
    save("model.pt", 3, now - 5)
    run.folder.write("attempt.json", '{"attempt": 1}')
    run.folder.write("own/rc", json.dumps({"number": 1, "code": 0}))
    assert once(run, "full") and source_and_state() == [(b"\3", COMPLETE)]


def test_what_an_attempt_left_of_two_saves_stays_so_though_the_next_one_ends_well(tmp_path):
    run = make(tmp_path, checkpoint={"pattern": "*.pt"}, results=[])
    (tmp_path / "ckpt").mkdir()

    def save(name: str, step: int, ago: float):
        with zipfile.ZipFile(tmp_path / "ckpt" / name, "w") as archive:
            archive.writestr("data", bytes([step]) * 2000)
        os.utime(tmp_path / "ckpt" / name, (time.time() - ago,) * 2)

    for name in ("model.pt", "optimizer.pt"):
        save(name, 1, 1000)
    assert once(run, "full")
    save("model.pt", 2, 500)  # and its program died
    run.folder.write("attempt.json", json.dumps({"attempt": 2, "begun": time.time() - 100}))
    run.folder.write("own/rc", json.dumps({"number": 2, "code": 0}))
    assert once(run, "full")
    states = [told["state"] for told in records.Records(run).known.values()]
    assert sorted(states) == [COMPLETE, UNKNOWN]


@pytest.mark.parametrize("left", [None, b"{"])
def test_a_manifest_that_was_lost_at_the_place_is_written_again(tmp_path, left):
    run = make(tmp_path)
    fill(tmp_path, 1)
    assert once(run, "full")
    [manifest] = (tmp_path / "durable/ckpt.generations").glob("gen-*/manifest.json")
    before = json.loads(manifest.read_bytes())
    manifest.unlink() if left is None else manifest.write_bytes(left)
    assert once(run, "full") and json.loads(manifest.read_bytes()) == before


@pytest.mark.parametrize("failure, state", [("killed", UNKNOWN), ("", COMPLETE)])
def test_a_code_of_0_is_no_proof_that_a_save_came_to_its_end(tmp_path, failure, state):
    """A pipe or a wrapper says 0 of a program that was killed in it."""
    run = make(tmp_path, checkpoint={"pattern": "*.pt"}, results=[])
    (tmp_path / "ckpt").mkdir()

    def save(name: str, age: float) -> None:
        at = time.time() - age
        with zipfile.ZipFile(tmp_path / "ckpt" / name, "w") as archive:
            archive.writestr("data", f"{age}" * 2000)
        os.utime(tmp_path / "ckpt" / name, (at, at))

    save("model.pt", 100)
    save("optimizer.pt", 100)
    run.folder.write("attempt.json", '{"attempt": 1}')
    run.folder.write("own/rc", json.dumps({"number": 1, "code": 0}))
    assert once(run, "full")
    save("model.pt", 10)
    run.event("ended", attempt=1, exit=0, **{"class": failure})
    assert once(run, "full") and events(run, "copied")[-1]["state"] == state


def test_files_in_rhythms_of_their_own_are_copied_and_verified_while_the_program_lives(tmp_path):
    run = make(tmp_path, checkpoint={"pattern": "*.pt"}, results=[])
    folder = tmp_path / "ckpt"
    folder.mkdir()
    procs.note_program(run.folder, os.getpid())
    now = time.time()
    for name in ("best.pt", "last.pt"):
        with zipfile.ZipFile(folder / name, "w") as archive:
            archive.writestr("data", name)
        os.utime(folder / name, (now - 100, now - 100))
    assert once(run, "quick")
    for at in (60, 30, 2):
        os.utime(folder / "last.pt", (now - at, now - at))
        rounds.Round(run, False, False).go()
    procs.note_program(run.folder, 0)
    assert once(run, "full")
    told = [json.loads(path.read_text()) for path in (tmp_path / "durable").glob("*/gen*/m*.json")]
    assert {one["state"] for one in told} == {COMPLETE}
    assert safe.look_safe(run).is_newest_safe and safe.look_safe(run).newest


@pytest.mark.parametrize(("name", "copied"), [("2026-11-29", 2), ("checkpoint-54", 1)])
def test_of_a_corrupt_folder_only_one_of_a_run_gives_its_complete_files(tmp_path, name, copied):
    run = make(tmp_path, checkpoint={"pattern": "*"}, results=[])
    folder = tmp_path / "ckpt" / name
    folder.mkdir(parents=True)
    for file in ("last.pt", "best.pt"):
        with zipfile.ZipFile(folder / file, "w") as archive:
            archive.writestr("data", file)
    assert once(run, "full")
    os.truncate(folder / "best.pt", 50)
    assert once(run, "full") and len(events(run, "copied")) == copied


def test_what_an_earlier_attempt_left_half_gives_its_complete_files_while_the_next_one_trains(
    tmp_path,
):
    run = make(tmp_path, checkpoint={"pattern": "*"}, results=[])
    folder = tmp_path / "ckpt/2026-11-29"
    folder.mkdir(parents=True)
    for file in ("last.pt", "best.pt"):
        with zipfile.ZipFile(folder / file, "w") as archive:
            archive.writestr("data", file)
    os.truncate(folder / "best.pt", 50)
    procs.note_program(run.folder, os.getpid(), attempt=1, begun=1e9)
    assert once(run, "quick") and not events(run, "copied"), "it may be completed still"
    procs.note_program(run.folder, os.getpid(), attempt=2, begun=time.time() + 1)
    assert once(run, "quick")
    assert [row["source"] for row in events(run, "copied")] == ["2026-11-29/last.pt alone"]


def test_an_attempt_has_copied_once_a_checkpoint_of_its_own_lies_there(tmp_path):
    run = make(tmp_path)
    run.folder.write("attempt.json", '{"attempt": 1}')
    assert once(run, "full") and not records.has_copied(run, 1)
    fill(tmp_path, 10)
    assert once(run, "full") and records.has_copied(run, 1)
    run.folder.write("attempt.json", '{"attempt": 2}')
    assert not records.has_copied(run, 2)
    # The same bytes, touched: nothing of the second attempt.
    os.utime(next((tmp_path / "ckpt").glob("*10*")))
    assert once(run, "full") and not records.has_copied(run, 2)


def test_a_kind_that_was_overtaken_is_staged_until_one_of_it_is_copied(tmp_path):
    """Also after rounds that found nothing at rest: they would copy from under each save anew."""
    fill(tmp_path, 1)
    run = make(tmp_path)
    assert once(run, "quick")
    written = records.Records(run)
    written.overtaken = frozenset(["step-0.pt"])
    written.write()
    assert once(run, "quick")
    assert records.Records(run).overtaken == {"step-0.pt"}
    fill(tmp_path, 2)
    assert once(run, "quick")
    assert kept_steps(tmp_path) == [1, 2] and records.Records(run).overtaken == frozenset()


def test_a_kind_that_only_a_stage_saved_from_being_overtaken_is_staged_again(tmp_path):
    fill(tmp_path, 1)
    run = make(tmp_path)
    assert once(run, "quick")
    written = records.Records(run)
    written.overtaken = frozenset(["step-0.pt"])
    written.write()
    procs.note_pid(run.folder, "train", os.getpid())
    fill(tmp_path, 2)
    minute_ago = time.time() - 60
    os.utime(tmp_path / "ckpt/step-2.pt", (minute_ago, minute_ago))
    assert once(run, "quick")
    assert 2 in kept_steps(tmp_path) and records.Records(run).overtaken == {"step-0.pt"}


def test_a_save_that_begins_after_the_checkpoints_were_copied_is_no_other_file(
    tmp_path, monkeypatch
):
    run = make(tmp_path, checkpoint={"pattern": "checkpoint-*"}, results=[])
    folder = tmp_path / "ckpt"
    (folder / "checkpoint-8").mkdir(parents=True)
    (folder / "metrics.csv").write_text("step,loss\n1,2\n")
    copy_checkpoints = rounds.Round._copy_checkpoints

    def copy_and_save(self):
        result = copy_checkpoints(self)
        (folder / "checkpoint-8/trainer_state.json").write_text('{"step": 8, "log')
        return result

    monkeypatch.setattr(rounds.Round, "_copy_checkpoints", copy_and_save)
    rounds.Round(run, True, False).go()
    there = {path.name for path in (tmp_path / "durable/ckpt").rglob("*") if path.is_file()}
    assert there == {"metrics.csv"}


def test_a_result_that_is_a_corrupt_checkpoint_is_proven_nowhere(tmp_path):
    result = str(tmp_path / "ckpt/step-10.pt")
    run = make(tmp_path, results=[result], checkpoint={"pattern": "*.pt"})
    (tmp_path / "ckpt").mkdir()
    (tmp_path / "ckpt/step-10.pt").write_bytes(b"PK\3\4 and no end")
    assert once(run, "full")
    told = safe.look_safe(run)
    assert told.results_missing == [result] and not told.is_all_safe
    with zipfile.ZipFile(tmp_path / "ckpt/step-10.pt", "w") as archive:
        archive.writestr("data", b"whole")
    assert once(run, "full") and safe.look_safe(run).is_all_safe


def test_a_round_tells_what_was_there_when_it_looked_however_long_it_takes(tmp_path, monkeypatch):
    run = make(tmp_path)
    fill(tmp_path, 10)
    began, copy = run.now, rounds.Round._copy_checkpoints

    def slowly(self):
        result = copy(self)
        fill(tmp_path, 20)
        self.run.clock.nap(29)
        return result

    monkeypatch.setattr(rounds.Round, "_copy_checkpoints", slowly)
    rounds.Round(run, False, False).go()
    told = run.folder.json("own/last-sync")
    assert kept_steps(tmp_path) == [10] and told["verified"]
    assert told["t"] == began <= run.now - 29


def test_a_folder_among_the_results_is_copied_as_it_lies_and_proven(tmp_path):
    final = tmp_path / "ckpt/final"
    run = make(tmp_path, results=[str(final)], checkpoint={"pattern": "checkpoint-*"})
    (tmp_path / "ckpt/checkpoint-8").mkdir(parents=True)
    final.mkdir()
    for folder in (tmp_path / "ckpt/checkpoint-8", final):
        with zipfile.ZipFile(folder / "training_args.bin", "w") as archive:
            archive.writestr("data", b"whole")
        (folder / "config.json").write_text("{}")
    assert once(run, "full") and safe.look_safe(run).is_all_safe
    there = {path.name for path in (tmp_path / "durable/ckpt/final").iterdir()}
    assert there == {"training_args.bin", "config.json"}
    (final / "config.json").write_text('{"later": 1}')
    assert safe.look_safe(run).results_missing == [str(final)]


def test_the_checkpoint_folder_among_the_results_is_proven_by_what_each_file_is(tmp_path):
    run = make(tmp_path, results=[str(tmp_path / "ckpt")])
    fill(tmp_path, 10)
    (tmp_path / "ckpt/metrics.csv").write_text("step,loss")
    assert once(run, "full") and safe.look_safe(run).is_all_safe
    assert kept_steps(tmp_path) == [10]


def test_a_result_that_is_cut_replaces_no_complete_one_there(tmp_path):
    result = tmp_path / "ckpt/best.pt"
    run = make(tmp_path, results=[str(result)])
    fill(tmp_path, 10)
    with zipfile.ZipFile(result, "w") as archive:
        archive.writestr("data", b"whole")
    before = result.read_bytes()
    assert once(run, "full") and safe.look_safe(run).is_all_safe
    result.write_bytes(before[:-30])
    assert once(run, "full") and not safe.look_safe(run).is_all_safe
    assert (tmp_path / "durable/ckpt/best.pt").read_bytes() == before


def test_a_copy_without_progress_is_ended_told_and_made_again(tmp_path, monkeypatch):
    monkeypatch.setenv("IS_OF", str(tmp_path))  # this process began without it
    hangs = f"test -e {tmp_path}/once || {{ touch {tmp_path}/once; sleep 100; }}"
    to = far(tmp_path, monkeypatch, hangs)
    run = make(tmp_path, durable={"to": to}, timings={"copy_quiet": 30.0})
    fill(tmp_path, 10)
    assert last(run)
    assert (
        events(run, "sync-hung")
        and "made no progress for 30 s" in events(run, "notify")[0]["message"]
    )
    assert kept(tmp_path, "step-10.pt").exists() and last_sync(run)["verified"]
    left = [pid for pid in procs.table() if procs.environ(pid).get("IS_OF") == str(tmp_path)]
    assert left == []


def test_a_full_place_is_told_at_the_first_copy_that_has_no_room(tmp_path, monkeypatch):
    table = "echo Filesystem blocks used available; echo /dev/sdb1 4096 4096 1 100% /mnt"
    tool(tmp_path, "df", f"#!/bin/sh\n{table}\n", monkeypatch)
    run = make(tmp_path, durable={"to": far(tmp_path, monkeypatch)}, timings={"copy_quiet": 1e6})
    fill(tmp_path, 10)
    copies = Copier(run)
    until(copies, lambda: rows(run))
    [told] = events(run, "notify")
    assert "which has 0.0 MB free: nothing is copied" in told["message"]
    until(copies, lambda: len(events(run, "sync-failed")) > 1)
    assert len(events(run, "notify")) == 1, "once, until a copy succeeds"


def test_a_place_that_only_a_person_can_mend_is_not_waited_for(tmp_path):
    run = make(tmp_path, timings={"sync_wait": 100.0})
    fill(tmp_path, 10)
    (tmp_path / "durable").mkdir()
    (tmp_path / "durable/ckpt.generations").write_text("in the way")
    begun = run.up
    assert not last(run)
    assert run.up - begun < 20 and not sync.Sync(run).is_whole()
    assert last_sync(run)["ok"] is False and "can't write" in last_sync(run)["why"]
    assert len(events(run, "sync-failed")) == 1


def test_a_network_that_is_cut_is_waited_for_until_the_end(tmp_path, monkeypatch):
    cut = tmp_path / "cut"
    cut.touch()
    fails = f'[ -e {cut} ] && echo "connection unexpectedly closed" >&2 && exit 12'
    run = make(tmp_path, durable={"to": far(tmp_path, monkeypatch, fails)})
    fill(tmp_path, 10)
    assert not last(run, until=run.now + 40)
    tries = len(events(run, "sync-failed"))
    assert tries > 1 and "connection unexpectedly closed" in rows(run)[-1]["detail"]

    def mend() -> bool:
        if len(events(run, "sync-failed")) > tries:
            cut.unlink(missing_ok=True)
        return False

    assert last(run, beat=mend)


def test_who_is_asked_to_end_gets_one_short_try(tmp_path, monkeypatch):
    run = make(tmp_path, durable={"to": far(tmp_path, monkeypatch, "sleep 100")})
    fill(tmp_path, 10)
    begun, asked = run.up, [False]

    def beat() -> bool:
        asked[0] = run.up > begun + 3
        return asked[0]

    assert not last(run, beat=beat)
    assert run.up - begun < 3 + copying.SHORT + 3


def test_what_was_never_there_is_not_verified_after_a_good_end(tmp_path, capfd):
    run = make(tmp_path, durable={"what": [str(tmp_path / "ckpt"), "resluts"]})
    fill(tmp_path, 10)
    assert not last(run)
    assert last_sync(run)["ok"] is False and len(events(run, "sync-failed")) == 1
    assert [row["result"] for row in rows(run)] == ["ok", "ok", "failed"]
    run.folder.mark(
        "unsaved", {"exit": 0, "class": "unsaved", "reason": "not verified", "step": 40}
    )
    assert sync.by_hand(run) == 1
    assert "resluts after the run's end, although durable.what names it" in capfd.readouterr().err
    (tmp_path / "run/resluts").write_text("x")
    assert sync.by_hand(run) == 0
    marker = run.folder.json(".done")
    assert (marker["exit"], marker["class"], marker["step"]) == (0, "", 40)
    assert sync.Sync(run).is_whole() and not run.folder.has(".unsaved")


def test_what_a_failed_run_never_wrote_is_absent_and_no_fault(tmp_path):
    run = make(tmp_path, durable={"what": [str(tmp_path / "ckpt"), "later.bin"]})
    fill(tmp_path, 10)
    assert once(run, "full")
    assert last_sync(run) == {
        "t": 0, "ok": True, "verified": True, "copied": 1, "absent": ["later.bin"], "to": run.durable,
    }  # fmt: skip


def test_a_mistyped_name_is_not_verified_where_something_was_saved(tmp_path):
    run = make(tmp_path, durable={"what": ["resluts", "fianl.bin"]})
    fill(tmp_path, 10)
    assert not once(run, "full")
    told = last_sync(run)
    assert told["ok"] is False and (told["copied"], told["absent"]) == (0, ["resluts", "fianl.bin"])


def test_no_item_leaves_the_durable_place_or_covers_another(tmp_path):
    for name in ("common", "one/out", "two/out", "work"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "a file").write_text(name)
    items = ["../common", str(tmp_path / "one/out"), str(tmp_path / "two/out/")]
    to = tmp_path / "durable/run"
    run = make(
        tmp_path,
        rendered={"work_dir": str(tmp_path / "work")},
        durable={"to": str(to), "what": items},
    )
    assert once(run)
    assert sorted(path.read_text() for path in to.rglob("a file")) == [
        "common",
        "one/out",
        "two/out",
    ]
    assert [path.name for path in (tmp_path / "durable").iterdir()] == ["run"]


@pytest.mark.parametrize("items", [["events.jsonl", "log"], ["."], ["log/tb"]], ids=" ".join)
def test_the_runner_s_own_files_do_not_cover_the_user_s(tmp_path, items):
    work = tmp_path / "work"
    (work / "log/tb").mkdir(parents=True)
    for name in ("events.jsonl", "log/runner.log", "log/tb/events"):
        (work / name).write_text("the user's")
    run = make(tmp_path, rendered={"work_dir": str(work)}, durable={"what": items})
    run.log("a line")
    run.event("something")
    assert once(run)
    copy = tmp_path / "durable"
    assert (copy / "log/tb/events").read_text() == "the user's"
    assert (copy / "runner/log/runner.log").exists()
    if items != ["log/tb"]:
        assert (
            (copy / "events.jsonl").read_text()
            == (copy / "log/runner.log").read_text()
            == "the user's"
        )


def test_links_to_folders_never_hold_up_the_checkpoints_and_are_told(tmp_path):
    folder = tmp_path / "ckpt"
    run = make(tmp_path, checkpoint={"pattern": "*"}, results=[str(folder / "away/r")])
    fill(tmp_path, 10, 20)
    away = tmp_path / "away"
    away.mkdir()
    for number in range(3):
        (away / f"{number}.pt").write_bytes(b"no checkpoint of this run")
    (away / "r").write_text("a result")
    for name, target in (("loop", "."), ("up", ".."), ("away", away), ("dangling", "nowhere")):
        (folder / name).symlink_to(target)
    assert once(run, "quick") and kept_steps(tmp_path) == [10, 20]
    [told] = [note for note in last_sync(run)["notes"] if "away" in note]
    assert f"is a link to {away}, which isn't copied; name it in durable.what" in told
    there = tmp_path / "durable/ckpt"
    assert sorted(str(path.relative_to(there)) for path in there.rglob("*")) == ["away", "away/r"]
    assert safe.look_safe(run).results_missing == []
    assert content.newest_first(str(folder), "**/*.pt")[0].path == str(folder / "step-20.pt")
    assert len(content.newest_first(str(folder), "**/step-*.pt")) == 2


def test_what_a_link_leads_to_is_copied(tmp_path):
    scratch, out = tmp_path / "scratch", tmp_path / "out"
    for folder in (scratch / "deep", out / "sub"):
        folder.mkdir(parents=True)
    (scratch / "best.txt").write_text("the weights")
    (scratch / "deep/shard.txt").write_text("a shard")
    (out / "sub/far.txt").symlink_to("../../scratch/best.txt")
    (out / "folder").symlink_to(scratch / "deep")
    (out / "sub/back").symlink_to(out)
    (tmp_path / "final.txt").symlink_to(scratch / "best.txt")
    run = make(
        tmp_path,
        rendered={"work_dir": str(tmp_path)},
        durable={"what": ["out", "out/folder", "final.txt"]},
    )
    (tmp_path / "ckpt").mkdir()
    assert once(run), rows(run)
    assert "notes" not in last_sync(run), "what is named is followed"
    found = {
        "out/sub/far.txt": "the weights",
        "out/folder/shard.txt": "a shard",
        "final.txt": "the weights",
    }
    for name, text in found.items():
        path = tmp_path / "durable" / name
        assert not path.is_symlink() and path.read_text() == text, name
    (tmp_path / "final.txt").unlink()
    (tmp_path / "final.txt").symlink_to(tmp_path / "gone")
    assert not once(run) and "a link to nothing: " in last_sync(run)["why"]


def test_a_link_to_a_checkpoint_is_kept_with_it_and_no_second_copy(tmp_path):
    fill(tmp_path, 10, 20)
    (tmp_path / "ckpt/latest.pt").symlink_to("step-20.pt")
    run = make(tmp_path)
    assert once(run) and kept_steps(tmp_path) == [10, 20]
    [found] = (tmp_path / "durable/ckpt.generations").glob("gen-1-20-*/manifest.json")
    assert json.loads(found.read_text())["links"] == {"latest.pt": "step-20.pt"}


def test_what_only_the_newest_has_beside_it_makes_no_second_copy_of_the_older(tmp_path):
    run = make(tmp_path, checkpoint={"pattern": "global_step*", "files": ["args.json"]})
    folder = tmp_path / "ckpt"
    for step in (10, 20, 30):
        (folder / f"global_step{step}").mkdir(parents=True)
        (folder / f"global_step{step}/weights.bin").write_bytes(bytes([step]) * 2000)
        (folder / "latest").write_text(f"global_step{step}")
        (folder / "args.json").write_text("{}")
        assert once(run, "full")
        assert len(events(run, "copied")) == step // 10
        assert kept(tmp_path, "latest").read_text() == f"global_step{step}"
        assert kept(tmp_path, "args.json").read_text() == "{}"


def test_core_dumps_and_leases_stay_here(tmp_path):
    fill(tmp_path, 10)
    (tmp_path / "ckpt/core.123").write_bytes(b"\x7fELF" + b"\2" * 12 + b"\4\0" + b"memory")
    (tmp_path / "ckpt/core.py").write_bytes(b"import os")
    (tmp_path / "ckpt/.rgt-lease").write_bytes(b"{}")
    run = make(tmp_path)
    assert once(run)
    names = sorted(path.name for path in (tmp_path / "durable/ckpt").iterdir())
    assert names == ["core.py"]


def test_a_mount_that_goes_in_the_middle_is_never_verified(tmp_path):
    run = make(tmp_path)
    fill(tmp_path, 10)
    copies = Copier(run)
    until(copies, lambda: rows(run))
    (tmp_path / "durable").rename(tmp_path / "was mounted")
    fill(tmp_path, 20)
    until(copies, lambda: last_sync(run)["verified"] is False)
    assert last_sync(run)["verified"] is False and ".rgt-place" in last_sync(run)["why"]
    assert not (tmp_path / "durable").exists(), "nothing was written where the mount was"
    begun = run.up
    assert not last(run) and run.up - begun < 20
    (tmp_path / "was mounted").rename(tmp_path / "durable")
    assert once(run)


def test_nothing_is_written_into_the_folder_of_a_mount_that_is_gone(tmp_path):
    local = Local(Tools({}, lambda: None))
    local.marker = str(tmp_path / "durable/.rgt-place")
    (tmp_path / "durable").mkdir()
    (tmp_path / "weights").write_bytes(b"w")
    for write in (
        lambda: local.write(str(tmp_path / "durable/a/NEWEST"), b"x"),
        lambda: local.put({"weights": str(tmp_path / "weights")}, str(tmp_path / "durable/a")),
    ):
        with pytest.raises(Failed, match="is gone"):
            write()
    assert not list((tmp_path / "durable").iterdir())
    (tmp_path / "durable/.rgt-place").touch()
    local.put({"weights": str(tmp_path / "weights")}, str(tmp_path / "durable/a"))
    assert (tmp_path / "durable/a/weights").read_bytes() == b"w"


def test_secrets_that_a_tool_says_are_masked(tmp_path, monkeypatch):
    (tmp_path / "token").write_text("hunter2hunter2\n")
    tool(tmp_path, "rclone", '#!/bin/sh\necho "bad key $KEY" >&2\nexit 1\n', monkeypatch)
    run = make(
        tmp_path,
        durable={"to": "rclone:keep:x"},
        secrets=secrets_of({"KEY": str(tmp_path / "token")}),
    )
    fill(tmp_path, 10)
    assert not once(run)
    run.log(run.folder.json("own/last-sync")["why"])
    told = "".join(path.read_text() for path in (tmp_path / "run").rglob("*") if path.is_file())
    assert "bad key ***" in told and "hunter2" not in told.replace("bad key ***", "")


def test_a_copy_by_hand_in_a_terminal_is_not_ended_by_the_run(tmp_path):
    run = make(tmp_path)
    login = subprocess.Popen(
        ["bash", "-c", "sleep 100 & echo $!; wait"],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert login.stdout
    child = int(login.stdout.readline())
    procs.note_pid(run.folder, "sync", child)
    sync.Sync(run).stop()
    assert procs.stat(child) and login.poll() is None
    os.killpg(login.pid, 9)
    login.wait()
    login.stdout.close()


def test_without_a_durable_place_all_is_whole(tmp_path):
    run = make(tmp_path, durable={"to": "", "what": []})
    copies = Copier(run)
    copies.step()
    assert copies.last(True, 0.0, lambda: True) and copies.copies.is_whole()
    assert sync.worker(run, "whole") == 0 and sync.by_hand(run) == 1


def test_copies_go_over_ssh_and_are_compared_there(tmp_path, monkeypatch, sshd):
    real = subprocess.run(
        ["which", "ssh"], capture_output=True, text=True, check=True
    ).stdout.strip()
    tool(tmp_path, "ssh", f'#!/bin/sh\nexec {real} -F {sshd.ssh_config} "$@"\n', monkeypatch)
    run = make(tmp_path, durable={"to": "gpu:~/kept/it's here"})
    fill(tmp_path, 10, 20)
    (tmp_path / "ckpt/a\nb\\ 'c.pt").write_bytes(b"c" * 500)
    assert durable.check(run) == []
    assert once(run), rows(run)
    there = Path(sshd.home) / "kept/it's here"
    home = "kept/it's here/ckpt.generations"
    assert (there / "final.bin").read_bytes() == (tmp_path / "run/final.bin").read_bytes()
    assert kept(Path(sshd.home), "a\nb\\ 'c.pt", home).read_bytes() == b"c" * 500
    copy = kept(Path(sshd.home), "step-20.pt", home)
    right = same_size(copy)
    assert once(run) and copy.read_bytes() == right
    right = same_size(there / "final.bin")
    assert once(run) and (there / "final.bin").read_bytes() == right
    assert (there / "ckpt.generations/NEWEST").read_text().startswith("gen-1-20-")


def test_an_end_that_called_a_copy_unverified_no_longer_says_so_once_it_is(tmp_path):
    run = make(tmp_path)
    fill(tmp_path, 5)
    reason = f"deadline; {sync.unverified(run)}"
    run.folder.mark("preempted", {"class": "deadline", "reason": reason, "exit": 85})
    assert once(run, "full")
    assert run.folder.json(".preempted") == {"class": "deadline", "reason": "deadline", "exit": 85}
