"""`release`: results pulled over a real sshd, hashed on both sides and loaded; what is billed; a box is gone only when its id was looked for in a list."""

import argparse
import errno
import json
import os
import subprocess
import sys
import time
from datetime import date
from pathlib import Path

import pytest
from remote_gpu_trainer.boxes import box
from remote_gpu_trainer.platforms import profile, teardown
from remote_gpu_trainer.runs import (
    box_gone,
    known_jobs,
    ledger,
    named_results,
    release,
    run_script,
)
from remote_gpu_trainer.runs.transfer import pulling, wire
from remote_gpu_trainer.runs.transfer.pulling import Unreleased
from remote_gpu_trainer.text import BadRequest

from tests.conftest import ROOT
from tests.engines.fake_run import fake_run, put_job
from tests.engines.sshd import INSTALL, boxes, sshd  # noqa: F401
from tests.programs import rgt
from tests.runner.jobs import script_of
from tests.scripts.test_verify_local import without_torch

GPU = box.Box("gpu", "gpu")
HEAD = b'{"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}  '
WEIGHTS = len(HEAD).to_bytes(8, "little") + HEAD + bytes(8)


@pytest.fixture
def ended(sshd, tmp_path, monkeypatch):
    """A box with a run that has ended and left results; the test's folder is the present one."""
    monkeypatch.chdir(tmp_path)
    run = fake_run(sshd.home, phase="done", alive=False, exit=0)
    (run / "code/out").mkdir(parents=True)
    (run / "code/metrics.json").write_text('{"loss": 0.25}')
    (run / "code/model.safetensors").write_bytes(WEIGHTS)
    (run / "code/out/weights.bin").write_bytes(os.urandom(300_000))
    (run / "code/out/a 'b' $(touch x).txt").write_text("odd")
    (run / "lock").write_text("")
    (run / "rehearsal/checkpoints-7").mkdir(parents=True)
    (run / "rehearsal/checkpoints-7/step-1.pt").write_text("of a trial")
    return run


def bring(run, to="here", **options):
    return release.bring_home(GPU, str(run), run.parent.parent.parent / to, **options)


def test_results_come_home_verified_and_the_rest_is_told(ended, tmp_path):
    done = rgt("release", "gpu", "--profile", "runpod")
    assert done.returncode == 0, done.stdout + done.stderr
    here = tmp_path / "results/gpu-toy"
    assert (here / "code/out/weights.bin").read_bytes() == (
        ended / "code/out/weights.bin"
    ).read_bytes()
    assert (here / "PULL_VERIFIED.json").exists() and not (here / "lock").exists()
    lines = done.stdout.splitlines()
    assert lines[0].startswith("verified: 6 files, 0.3 MB from ")
    assert any(line.startswith(("end it (https://", "end it [")) for line in lines)
    assert "    run it yourself: curl" in done.stdout and "POD_ID" in done.stdout
    assert (
        "    costs: Per GB and month, container disk $0.10 (running), volume disk $0.10 running "
        in (done.stdout)
    ), "what storage costs after the release"
    assert "--confirm-gone --id ID --listing FILE" in lines[-1]
    assert [b.profile for b in ledger.still_open()] == ["runpod"]
    assert (
        rgt("release", "gpu", "--profile", "runpod").returncode == 0
    )  # once more, over what is here


def test_a_result_comes_by_the_name_that_the_job_gives_it(ended, tmp_path):
    job = {"rendered": {"work_dir": str(ended / "code")}, "results": ["out/w*.bin", "metrics.json"]}
    put_job(ended, script_of(job))
    for _ in range(2):
        done = rgt("release", "gpu", "--to", "here")
        assert done.returncode == 0, done.stdout + done.stderr
        assert "    result: " + str(tmp_path / "here/out/weights.bin") in done.stdout
        named, copied = tmp_path / "here/out/weights.bin", tmp_path / "here/code/out/weights.bin"
        assert named.samefile(copied) and (tmp_path / "here/metrics.json").is_file()
        assert not (tmp_path / "here/out/a 'b' $(touch x).txt").exists()
        (ended / "code/out/weights.bin").write_bytes(os.urandom(300_000))
    words = [sys.executable, str(ROOT / "scripts/verify_local.py"), "here"]
    words += ["--manifest", "here/PULL_MANIFEST.json"]
    assert subprocess.run([*words, "--expect", "1"]).returncode == 0
    (tmp_path / "here/out/weights.bin").unlink()
    (tmp_path / "here/out/weights.bin").write_text("of another run")
    assert subprocess.run(words).returncode == 1
    (tmp_path / "here/out/weights.bin").unlink()
    (tmp_path / "here/out/weights.bin").write_text("mine")
    assert rgt("release", "gpu", "--to", "here").returncode == 1, "nothing is written over it"
    assert (tmp_path / "here/out/weights.bin").read_text() == "mine"


def test_a_release_without_a_platform_takes_the_one_that_the_start_had(ended):
    known_jobs.remember(GPU, "~/runs/toy", "runpod", {"name": "toy"})
    done = rgt("release", "gpu", "--to", "here")
    assert done.returncode == 0, done.stdout + done.stderr
    assert [one.profile for one in ledger.still_open()] == ["runpod"]


def test_a_checkpoint_of_more_than_tensors_is_loaded_where_the_user_says_so(ended):
    torch = pytest.importorskip("torch")
    torch.save({"numpy": argparse.Namespace(seed=1)}, ended / "code/out/rng_state.pth")
    done = rgt("release", "gpu")
    assert done.returncode == 0 and "rng_state" not in done.stdout, done.stdout
    torch.save({"w": torch.ones(3), "a": argparse.Namespace(lr=1)}, ended / "code/out/step-1.pt")
    done = rgt("release", "gpu")
    assert done.returncode == 2 and "pass --allow-pickle only if" in done.stdout
    assert rgt("release", "gpu", "--allow-pickle").returncode == 0
    both = rgt("release", "gpu", "--allow-pickle", "--no-load")
    assert both.returncode == 2 and "can't be combined" in both.stderr


def test_without_torch_here_archives_are_verified_and_one_line_says_what_was_not_done(
    ended, tmp_path
):
    torch = pytest.importorskip("torch")
    for step in range(9):
        torch.save({"w": torch.ones(3)}, ended / f"code/out/step-{step}.pt")
    env = dict(os.environ, PYTHONPATH=without_torch(tmp_path))
    done = rgt("release", "gpu", "--profile", "runpod", env=env)
    assert done.returncode == 0 and done.stdout.startswith("verified: 15 files"), done.stdout
    told = [line.strip() for line in done.stdout.splitlines() if "torch here" in line]
    assert told == [
        "note: 9 checkpoints, first code/out/step-0.pt: not loaded, no torch here: whole archive; "
        "run this where torch is installed, if you want it loaded"
    ]


def test_a_run_that_lives_is_not_released(ended):
    fake_run(ended.parent.parent)
    done = rgt("release", "gpu", "--profile", "runpod")
    assert (done.returncode, done.stdout) == (2, "")
    assert (
        "is alive at step 120; wait for its end with rgt status --wait, or end it with rgt stop"
        in done.stderr
    )


def test_the_end_of_a_box_is_not_shown_while_another_run_lives_there(ended):
    fake_run(ended.parent.parent, "other", step=7)
    done = rgt("release", "gpu", "--run", "toy", "--profile", "runpod")
    assert done.returncode == 1 and done.stdout.startswith("verified: "), done.stdout
    assert (
        "another run lives on this box, and would be lost with it: other (alive at step 7); "
        in (done.stdout)
    )
    assert "rgt stop gpu --run other saves and ends it" in done.stdout
    assert "run it yourself" not in done.stdout and "--confirm-gone" not in done.stdout
    told = rgt("release", "gpu", "--run", "toy", "--profile", "runpod", "--json")
    report = json.loads(told.stdout)
    assert (told.returncode, report["ways"], report["next"]) == (1, [], "")
    assert report["storage"] is None
    assert report["others"]["living"] == [{"run": "other", "state": "alive", "step": 7, "why": ""}]
    own = rgt("release", "gpu", "--run", "toy", "--profile", "local")
    assert own.returncode == 0, "nobody ends a machine that nobody bills"


def test_a_run_elsewhere_on_the_box_is_found_by_its_processes(ended, tmp_path):
    folder = fake_run(tmp_path / "scratch", "apart").rename(tmp_path / "apart")
    env = {"HOME": str(ended.parent.parent), "RGT_RUN_DIR": f"{folder}/cells/a"}
    process = subprocess.Popen(["sleep", "60"], env={**os.environ, **env})
    try:
        done = rgt("release", "gpu", "--run", "toy", "--profile", "runpod")
    finally:
        process.kill()
        process.wait()
    assert done.returncode == 1 and f"lost with it: {folder} (alive at step 120)" in done.stdout


def test_a_run_that_cannot_be_judged_counts_as_one_that_lives(ended):
    fake_run(ended.parent.parent, "odd", raw=b"Traceback")
    done = rgt("release", "gpu", "--run", "toy", "--profile", "runpod")
    assert done.returncode == 1 and "lost with it: odd (unknown)" in done.stdout
    assert "run it yourself" not in done.stdout


def test_runs_whose_results_are_nowhere_else_are_named_before_the_box_may_go(ended):
    home = ended.parent.parent
    for name, end in (("sent", "done"), ("old", "preempted"), ("refused", "failed"), ("new", "")):
        folder = fake_run(home, name, phase=end or "new", alive=False)
        if end:
            (folder / f".{end}").write_text('{"class": "preempted", "reason": "asked"}')
        if name in ("sent", "old"):
            (folder / "attempt.json").write_text('{"attempt": 1}')
    (home / "runs/sent/own").mkdir()
    (home / "runs/sent/own/final-sync").write_text("{}")
    put_job(home / "runs/sent", script_of({"durable": {"to": "s3://a"}}))
    words = ["release", "gpu", "--profile", "runpod"]
    done = rgt(*words, "--run", "toy")
    assert done.returncode == 0 and "run it yourself: curl" in done.stdout
    named = [line for line in done.stdout.splitlines() if "another run has ended" in line]
    assert named == [
        "another run has ended, and no release from here has verified its results: old (stopped); "
        "rgt release gpu --run old --profile runpod brings them"
    ]
    brought = rgt(*words, "--run", "old", "--expect", "0")
    assert brought.returncode == 0, brought.stdout
    assert "another run" not in rgt(*words, "--run", "toy").stdout
    os.utime(home / "runs/old/.preempted")  # it went on, and ended once more
    assert "its results: old (stopped)" in rgt(*words, "--run", "toy").stdout
    put_job(home / "runs/sent", script_of({"durable": {"to": "/mnt", "on_this_box": True}}))
    assert "its results: sent (finished)" in rgt(*words, "--run", "toy").stdout


def test_results_of_another_run_are_not_overwritten(ended, tmp_path):
    other = fake_run(ended.parent.parent, "other", phase="done", alive=False)
    (other / "code").mkdir()
    (other / "code/metrics.json").write_text('{"loss": 9.0}')
    bring(ended)
    with pytest.raises(Unreleased) as refused:
        bring(other)
    assert str(refused.value) == (
        f"the results of {ended} on {box.address(GPU)} lie in {tmp_path}/box-gpu/here, and would be "
        "overwritten; give another folder with --to"
    )
    assert json.loads((tmp_path / "box-gpu/here/code/metrics.json").read_text()) == {"loss": 0.25}
    assert bring(ended).verdict == "verified", "its own folder takes it again"
    assert bring(other, "there", expect=0).verdict == "verified"


def test_a_copy_that_broke_off_claims_its_folder_and_is_not_taken_for_whole(
    ended, tmp_path, monkeypatch
):
    def broken(*_, **__):
        raise Unreleased("the connection broke")

    monkeypatch.setattr(wire.Receiver, "begin", broken)
    with pytest.raises(Unreleased, match="broke"):
        bring(ended)
    other = fake_run(ended.parent.parent, "other", phase="done", alive=False)
    with pytest.raises(Unreleased, match=f"the results of {ended} on "):
        bring(other)
    verifier = [
        sys.executable,
        str(ROOT / "scripts/verify_local.py"),
        str(tmp_path / "box-gpu/here"),
    ]
    manifest = ["--manifest", str(tmp_path / "box-gpu/here" / release.MANIFEST)]
    assert subprocess.run([*verifier, *manifest], capture_output=True).returncode == 2


@pytest.mark.parametrize(("text", "free"), [
    ('{"schema": 1, "run_id": "toy", "files": []}', True),  # of a release before this one
    ('{"schema": 1, "run_id": "else", "files": []}', False),
    ("corrupt", False),
])  # fmt: skip
def test_a_manifest_that_names_no_box_is_judged_by_the_runs_name(ended, tmp_path, text, free):
    (tmp_path / "box-gpu/here").mkdir()
    (tmp_path / "box-gpu/here" / release.MANIFEST).write_text(text)
    if free:
        assert bring(ended).verdict == "verified"
        return
    with pytest.raises(Unreleased, match="would be overwritten; give another folder with --to"):
        bring(ended)


def test_a_file_that_was_changed_on_the_way_does_not_come(ended, monkeypatch, tmp_path):
    sent = run_script.program("runs.transfer.box_end")
    lying = sent.replace("digest.hexdigest() if is_whole else", "str(0) * 64 if is_whole else")
    assert lying != sent
    monkeypatch.setattr(run_script, "program", lambda name: lying)
    with pytest.raises(Unreleased, match="isn't the same here as at the other end"):
        bring(ended)
    assert not (tmp_path / "box-gpu/here/run.sh").exists()


def test_a_file_that_changes_all_the_while_is_named_and_the_rest_comes(ended, monkeypatch):
    told = "return _stamp(os.fstat(file.fileno())) == _stamp(before)"
    sent = run_script.program("runs.transfer.box_end")
    busy = sent.replace(told, "return before.st_size != 300_000").replace("NAP = 0.3", "NAP = 0.0")
    busy = busy.replace("return not _add(again,", "return size != 300_000 and not _add(again,")
    assert told in sent
    monkeypatch.setattr(run_script, "program", lambda name: busy)
    found = bring(ended)
    assert (found.verdict, found.differing) == ("bad", ["code/out/weights.bin"])
    assert "don't end the box yet" in release.as_text(found)
    assert not (Path(found.to) / "code/out/weights.bin").exists()
    assert (Path(found.to) / "code/metrics.json").exists()


def test_links_and_places_outside_are_named_and_not_followed(ended, tmp_path):
    (ended / "code/out/latest").symlink_to("weights.bin")
    (ended / "code/secret").symlink_to("/etc/passwd")
    other = ended.parent.parent / "ckpt"
    other.mkdir()
    (other / "step.bin").write_text("x")
    (other / "lock").write_text("not the runner's")
    job = {"checkpoint": {"folder": str(other)}, "rendered": {"work_dir": f"{ended}/code"}}
    put_job(ended, script_of(job, {"results": ["out/a", "/mnt/b c"]}))
    found = bring(ended)
    assert sorted(found.links) == ["code/out/latest -> weights.bin", "code/secret -> /etc/passwd"]
    assert found.outside == [str(other), "/mnt/b c"]
    assert not list((tmp_path).glob("here/**/secret"))
    found = bring(ended, "again", also=(str(other),))
    assert found.outside == ["/mnt/b c"] and (found.verdict, found.files) == ("incomplete", 9)
    assert "don't end the box yet" in release.as_text(found)
    put_job(ended, script_of(job, {"results": ["out/weights.bin"]}))
    found = bring(ended, "third", also=(str(other),))
    assert found.outside == [] and (found.verdict, found.files) == ("verified", 9)


def test_a_link_in_the_checkpoint_folder_is_not_verified_until_its_target_came(ended, tmp_path):
    scratch = tmp_path / "scratch/big"
    scratch.mkdir(parents=True)
    (scratch / "step.json").write_text("{}")
    (ended / "code/out/step_9").symlink_to(scratch)
    (ended / "code/out/latest").symlink_to("weights.bin")
    (ended / "code/data").symlink_to("/etc")
    named_job(ended, checkpoint={"folder": "out", "pattern": ""}, results=["metrics.json"])
    found = bring(ended)
    assert (found.verdict, found.left) == ("incomplete", True)
    link = f"{ended}/code/out/step_9"
    assert found.unreached == [
        f"step_9 lies behind the link {link} -> {scratch}; add --also {scratch}"
    ]
    found = bring(ended, "again", also=(str(scratch),))
    assert (found.verdict, found.unreached) == ("verified", [])


@pytest.mark.parametrize(("expect", "apart"), [([], False), (["final.pt"], True)])
def test_a_relative_result_lies_in_the_work_folder(tmp_path, expect, apart):
    put_job(tmp_path, script_of({"rendered": {"work_dir": "~/sky_workdir"}, "results": expect}))
    named = named_results.read(tmp_path)
    found = named_results.reached(named, {"": "/home/a/runs/x"}, {}, {})
    assert (found.outside, found.apart) == (["~/sky_workdir"], apart)


def named_job(run, **fields) -> None:
    """Give the run a job, as it is rendered."""
    places = {"run_dir": "~/runs/toy", "work_dir": "~/runs/toy/code"}
    put_job(run, script_of({"name": "toy", "rendered": places}, fields))


def test_a_result_behind_a_link_is_not_verified_until_its_target_came(ended, tmp_path):
    data = tmp_path / "data" / "out"
    data.mkdir(parents=True)
    (data / "model.pt").write_bytes(b"x")
    (ended / "code/big").symlink_to(data)
    (ended / ".done").write_text("{}")
    named_job(ended, results=["big/model.pt"])
    found = bring(ended)
    assert (found.verdict, found.is_all) == ("incomplete", False)
    assert found.unreached == [
        f"big/model.pt lies behind the link {ended}/code/big -> {data}; add --also {data}"
    ]
    text = release.as_text(found)
    assert text.startswith("incomplete: ") and "don't end the box yet" in text
    (data / "model.pt").write_bytes(WEIGHTS)
    (data / "model.pt").rename(data / "model.safetensors")
    named_job(ended, results=["big/model.safetensors"])
    found = bring(ended, "again", also=(str(data),))
    assert (found.verdict, found.unreached) == ("verified", [])


def saved_elsewhere(run, tmp_path, *names, at=None):
    """Let the run's log tell of saves to files outside; return them."""
    (run / "log").mkdir(exist_ok=True)
    (run / "deadline").write_text(f"0 {int(time.time()) - 60}\thours:1\n")
    put_job(run, script_of({"rendered": {"work_dir": f"{run}/code"}}))
    paths = [tmp_path / "scratch" / name for name in names]
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(WEIGHTS)
        os.utime(path, (at, at) if at else None)
    lines = [f"epoch 1 new best, saved {path}" for path in paths]
    (run / "log/train.log.0000").write_text("step 1 loss 2\n" + "\n".join(lines) + "\n")
    return paths


def test_what_the_log_says_was_saved_elsewhere_is_not_left_on_the_box_unsaid(ended, tmp_path):
    (best,) = saved_elsewhere(ended, tmp_path, "best.safetensors")
    done = rgt("release", "gpu", "--profile", "runpod")
    assert done.returncode == 1 and done.stdout.startswith("incomplete: "), done.stdout
    told = f"    saved elsewhere, by the run's log: {best} ({len(WEIGHTS)} bytes); --also {best} "
    assert f"{told}brings it\n" in done.stdout and "don't end the box yet" in done.stdout
    assert "run it yourself" not in done.stdout and "--confirm-gone" not in done.stdout
    report = json.loads(rgt("release", "gpu", "--profile", "runpod", "--json").stdout)
    assert report["elsewhere"] == [{"path": str(best), "bytes": len(WEIGHTS)}]
    assert report["ways"] == [] and "--also" in report["next"] and "--leave" in report["next"]
    left = rgt("release", "gpu", "--profile", "runpod", "--leave")
    assert left.returncode == 0 and left.stdout.startswith("verified: "), left.stdout
    assert "left there, as --leave says" in left.stdout and "run it yourself" in left.stdout
    came = rgt("release", "gpu", "--profile", "runpod", "--also", str(best))
    assert came.returncode == 0 and "saved elsewhere" not in came.stdout, came.stdout
    assert (tmp_path / "results/gpu-toy/best.safetensors").read_bytes() == WEIGHTS


def test_two_files_of_one_name_come_by_as_much_of_their_paths_as_tells_them_apart(ended, tmp_path):
    paths = saved_elsewhere(
        ended, tmp_path, "a/epoch=3-step=9.safetensors", "b/epoch=3-step=9.safetensors"
    )
    found = bring(ended, also=tuple(map(str, paths)))
    assert (found.verdict, found.elsewhere) == ("verified", [])
    for folder in "ab":
        assert (Path(found.to) / folder / "epoch=3-step=9.safetensors").read_bytes() == WEIGHTS


def test_no_file_takes_the_place_of_another_one(ended, tmp_path):
    (ended / "best.safetensors").write_bytes(WEIGHTS)
    (best,) = saved_elsewhere(ended, tmp_path, "best.safetensors")
    with pytest.raises(Unreleased, match="would be the same file here"):
        bring(ended, also=(str(best),))


@pytest.mark.parametrize("done", [True, False])
def test_a_release_without_a_result_that_the_job_names_is_incomplete(ended, done, tmp_path):
    named_job(
        ended, results=["out/weights.bin", "out/final-{cell}.bin"], queue={"cells": [{"name": "a"}]}
    )
    if done:
        (ended / ".done").write_text("{}")
    found = bring(ended)
    assert (found.verdict, found.is_all) == ("incomplete", True)
    assert len(found.unreached) == 1 and found.unreached[0].startswith("out/final-a.bin: ")
    assert found.results == [f"{tmp_path}/box-gpu/here/out/weights.bin"]
    assert f"    result: {found.results[0]}" in release.as_text(found).splitlines()
    done = rgt("release", "gpu", "--profile", "local")
    assert done.returncode == 1 and "a result didn't come: out/final-a.bin: " in done.stdout


@pytest.mark.parametrize("weights", [False, True])
def test_results_without_a_checkpoint_need_none_whoever_verifies_them(ended, tmp_path, weights):
    if not weights:
        (ended / "code/model.safetensors").unlink()
    named_job(ended, results=["out/weights.bin", "metrics.json"], checkpoint=None)
    found = bring(ended)
    assert (found.verdict, found.checked) == ("verified", [])
    script, here = str(ROOT / "scripts/verify_local.py"), Path(found.to)
    words = [sys.executable, script, str(here), "--manifest", str(here / "PULL_MANIFEST.json")]
    assert subprocess.run(words).returncode == 0
    assert (here / "PULL_VERIFIED.json").is_file()
    named_job(ended, results=["out/weights.bin"], checkpoint={"folder": "out", "pattern": "*.pt"})
    assert bring(ended, "again").verdict == ("verified" if weights else "bad")


def test_a_glob_among_the_results_is_what_it_matches(ended):
    named_job(ended, results=["out/w*.bin", "out/*.pt", "*.json"])
    found = bring(ended)
    assert [text.partition(":")[0] for text in found.unreached] == ["out/*.pt"]
    assert [path.rpartition("/here/")[2] for path in found.results] == [
        "out/weights.bin",
        "metrics.json",
    ]


def test_a_file_that_no_release_brought_is_never_overwritten(ended, tmp_path):
    here = tmp_path / "box-gpu/here/code"
    here.mkdir(parents=True)
    (here / "metrics.json").write_text("mine")
    with pytest.raises(Unreleased, match="no release brought and that would be overwritten"):
        bring(ended)
    assert (here / "metrics.json").read_text() == "mine"
    assert not (here.parent / release.MANIFEST).exists() and not (here / "out").exists()
    (here / "metrics.json").rename(here / "notes.txt")
    assert "notes.txt" in release.as_text(bring(ended)), "what lies beside is named"
    (ended / "code/notes.txt").write_text("the run's")
    with pytest.raises(Unreleased, match=r"overwritten \(code/notes.txt\); move them away"):
        bring(ended)
    assert (here / "notes.txt").read_text() == "mine"


@pytest.mark.parametrize("link", ["code", "code/out", "code/metrics.json", release.MANIFEST])
def test_no_copy_follows_a_link_out_of_its_folder(ended, tmp_path, link):
    here, victim = tmp_path / "box-gpu/here", tmp_path / "victim"
    victim.mkdir()
    (victim / "metrics.json").write_text("mine")
    (here / link).parent.mkdir(parents=True)
    (here / link).symlink_to(victim / "metrics.json" if link.endswith("json") else victim)
    with pytest.raises(Unreleased, match="link"):
        bring(ended)
    assert [path.name for path in victim.iterdir()] == ["metrics.json"]
    assert (victim / "metrics.json").read_text() == "mine"


def test_the_folder_itself_may_be_the_users_own_link(ended, tmp_path):
    (tmp_path / "disk").mkdir()
    (tmp_path / "box-gpu/here").symlink_to(tmp_path / "disk")
    assert bring(ended).verdict == "verified"
    assert (tmp_path / "disk/code/metrics.json").exists()


def test_a_copy_that_broke_off_may_go_on_over_its_own_files(ended, tmp_path, monkeypatch):
    def broken(*_, **__):
        (tmp_path / "box-gpu/here/code").mkdir()
        (tmp_path / "box-gpu/here/code/metrics.json").write_text("half")
        raise Unreleased("the connection broke")

    with monkeypatch.context() as patch:
        patch.setattr(wire.Receiver, "begin", broken)
        with pytest.raises(Unreleased, match="broke"):
            bring(ended)
    assert bring(ended).verdict == "verified"


def test_the_runners_own_state_stays_on_the_box(ended, tmp_path):
    for name in release.LEFT_THERE:
        if not (ended / name).exists():
            (ended / name).write_text("x")
    bring(ended)
    came = {path.name for path in (tmp_path / "box-gpu/here").iterdir()}
    assert came == {"run.sh", "says", "code", release.MANIFEST, "PULL_VERIFIED.json"}


@pytest.mark.parametrize(
    ("result", "links", "also", "answer"),
    [
        ("out/m", {"code/out/m": "w"}, {}, ""),  # to a file beside it
        ("out/m", {"code/out": "/data/out"}, {}, "behind"),
        ("out/m", {"code/out": "/data/out"}, {"out": "/data/out"}, ""),
        ("out/m", {"code/out": "../../x"}, {}, "behind"),
        ("out/m", {"code/out": "../kept"}, {}, ""),
        ("out/m", {"code/out": "out"}, {}, "behind"),  # a circle
        ("out/m", {"code/out": "/data/a", "a/m": "/else/m"}, {"a": "/data/a"}, "behind"),
        ("/data/out/m", {}, {}, "outside"),
        ("/data/out/m", {}, {"out": "/data/out"}, ""),
        ("/home/u/runs/toy/code/out/m", {}, {}, ""),
        ("~/runs/toy/code/out/m", {}, {}, ""),
        ("../../toy2/m", {}, {}, "outside"),
        ("out/gone", {}, {}, "absent"),
        ("out", {}, {}, ""),  # a folder that holds files
    ],
)
def test_each_named_result_is_followed_to_where_it_came(result, links, also, answer):
    named = named_results.Named(run_dir="~/runs/toy", work_dir="~/runs/toy/code", results=(result,))
    files = dict.fromkeys(["code/out/m", "code/out/w", "out/m", "kept/m"])
    files = {name: 1 for name in files if not any(name.startswith(f"{link}/") for link in links)}
    found = named_results.reached(named, {"": "/home/u/runs/toy", **also}, files, links)
    told = {"behind": found.behind, "outside": found.outside, "absent": found.absent}
    assert [kind for kind, value in told.items() if value] == ([answer] if answer else [])
    assert found.apart == (answer == "outside")


def test_a_checkpoint_that_does_not_load_is_bad(ended):
    (ended / "code/model.safetensors").write_bytes(b"\xff" * 64)
    found = bring(ended)
    assert found.verdict == "bad" and any("model.safetensors" in line for line in found.checked)


def test_a_missing_script_is_named(ended, monkeypatch, tmp_path):
    monkeypatch.setattr(release.bundle, "bundle_root", lambda: tmp_path)
    with pytest.raises(Unreleased) as refused:
        bring(ended)
    assert (
        str(refused.value)
        == f"{tmp_path}/scripts/verify_local.py is missing; install the package again"
    )


def test_a_broken_connection_is_no_verdict(ended, sshd):
    sshd.stop()
    with pytest.raises(Unreleased) as refused:
        bring(ended)
    assert "nothing listens at gpu" in str(refused.value)


@pytest.mark.parametrize(
    "row",
    [
        {},
        {"list": [["../../x", 1]], "links": [], "elsewhere": []},
        {"list": [["/etc/x", 1]], "links": [], "elsewhere": []},
        {"list": [["", 1]], "links": [], "elsewhere": []},
        {"list": [["a", "b"]], "links": [], "elsewhere": []},
        {"list": [["a"]], "links": []},
        {"list": [["a", 1]]},
        {"list": 7, "links": 7, "elsewhere": []},
        {"list": [], "links": [], "elsewhere": [["a"]]},
    ],
)
def test_a_list_that_leads_elsewhere_is_refused(row):
    with pytest.raises(Unreleased) as refused:
        pulling.read_list(row)
    assert str(refused.value).isprintable()


def test_a_name_that_no_manifest_can_hold_is_told_and_the_rest_is_verified(ended):
    for name in ("code/a\\b.txt", "code/new\nline"):
        (ended / name).write_text("x")
    found = bring(ended)
    assert (found.verdict, found.files) == ("verified", 8)
    assert found.checked == [
        f"note: {name}: compared, but no manifest can hold such a name; rename it"
        for name in ("code/a\\b.txt", "code/new line")
    ]
    assert (Path(found.to) / "PULL_VERIFIED.json").exists()


def test_a_copy_here_that_differs_is_pulled_again_though_size_and_time_are_equal(ended):
    here, there = Path(bring(ended).to) / "code/out/weights.bin", ended / "code/out/weights.bin"
    here.write_bytes(bytes(300_000))
    os.utime(here, ns=(there.stat().st_atime_ns, there.stat().st_mtime_ns))
    assert bring(ended).verdict == "verified"
    assert here.read_bytes() == there.read_bytes()


@pytest.mark.parametrize(
    ("folder", "pattern"),
    [("out/ckpt", "step_*.json"), ("out/ckpt", "*"), ("out", "**/step_*.json"), (".", "step_*")],
)
def test_checkpoints_are_those_of_the_jobs_own_pattern(ended, folder, pattern):
    (ended / "code/model.safetensors").unlink()
    (ended / "code/out/ckpt").mkdir()
    (ended / "code/out/ckpt/step_5.json").write_text('{"w": [1, 2]}')
    assert bring(ended).verdict == "bad"
    put_job(ended, script_of({"checkpoint": {"folder": folder, "pattern": pattern}}))
    assert bring(ended).verdict == "verified"


@pytest.mark.parametrize("listing", ["[]", '[{"id": "zz9", "name": "of another account"}]'])
def test_an_id_that_no_list_has_shown_proves_nothing(listing, monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setattr(box, "address", lambda one, *_: f"{one.host}:22")
    runpod = profile.get("runpod")

    def gone(ids, text):
        return box_gone.confirm(GPU, runpod, ids=ids, listing=text).gone

    ledger.opened("gpu:22", "gpu")
    assert gone(["anything"], listing) is None
    assert gone(["abc123"], LIST) is False
    assert gone(["anything"], listing) is None
    assert [one.name for one in ledger.still_open()] == ["gpu"]
    if listing == "[]":
        assert gone(["abc123"], listing) is None
        later = time.time() + 700
        monkeypatch.setattr(box_gone.time, "time", lambda: later)
    assert gone(["abc123"], listing) is True
    assert not ledger.still_open()
    ledger.opened("gpu:22", "gpu")  # another box, with an id of its own
    assert gone(["abc123"], listing) is None


LIST = '[\n {"id": "abc123", "name": "old-pod", "desiredStatus": "EXITED"},\n {"id": "zz9", "publicIp": "203.0.113.7"}\n]\n'


@pytest.mark.parametrize(
    ("text", "ids", "address", "gone"),
    [
        (LIST, ["abc123"], "", False),
        (LIST, ["ABC123"], "", False),
        (LIST, ["abc12"], "", True),
        (LIST, ["old"], "", True),
        (LIST, ["abc124"], "203.0.113.7:40122", False),
        (LIST, [], "203.0.113.7:40122", False),
        (LIST, [], "198.51.100.1:22", None),
        (LIST, ["x; rm"], "", None),
        ("", ["abc123"], "", None),
        (" \n", ["abc123"], "", None),
        ("[]", ["abc123"], "", True),
        ("ID  NAME  STATUS\n", ["abc123"], "", True),
        ('{\n "error": "Unauthorized"\n}', ["abc123"], "", None),
        ("An error occurred (ExpiredToken) when calling", ["abc123"], "", None),
        ("bash: runpodctl: command not found", ["abc123"], "", None),
        ("<!DOCTYPE html><html>login", ["abc123"], "", None),
        ("HTTP 403", ["abc123"], "", None),
        ('\x1b[1m[{"id": "\x1b[32mabc123\x1b[0m"}]', ["abc123"], "", False),
        (
            "Unable to locate credentials. You can configure credentials by running aws configure.",
            ["abc123"],
            "",
            None,
        ),
        (
            "Please run:\n\n  $ gcloud auth login\n\nto obtain new credentials.",
            ["abc123"],
            "",
            None,
        ),
        (
            "usage: vastai [-h] [--url URL]\n\noptions:\n  -h, --help   show this help message\n  --url URL    server",
            ["abc123"],
            "",
            None,
        ),
        ("429 Too Many Requests", ["abc123"], "", None),
        ("curl: (7) Failed to connect: Connection refused", ["abc123"], "", None),
        ("bash: vastai: No such file or directory", ["abc123"], "", None),
        ("You must be logged in.", ["abc123"], "", None),
        ('{"message": "' + "Unauthorized " * 200 + '"}', ["abc123"], "", None),
        ('{"error": "x", "pods": []}', ["abc123"], "", None),
        ('{"pods": [], "nextToken": "e"}', ["abc123"], "", None),
        ('{"data": {"pods": []}}', ["abc123"], "", True),
        ("ID       NAME\nabc1…    old\n", ["abc123"], "", None),
        ("ID       NAME\nabd1…    old\n", ["abc123"], "", True),
        ("ID       NAME\nabc1...  old\n", ["abc123"], "", None),
        ("+------+--------+\n|  ID  | Status |\n+------+--------+\n", ["abc123"], "", True),
        ("No resources found in default namespace.", ["abc123"], "", True),
        ("Listed 0 items.", ["abc123"], "", True),
        ("a\0b", ["abc123"], "", None),
    ],
)
def test_gone_means_looked_for_by_its_id_in_a_list(text, ids, address, gone):
    found = teardown.listed(text, ids, address)
    assert found.gone is gone, found
    assert found.text.isprintable()


@pytest.mark.parametrize(
    ("platform", "text", "gone", "says"),
    [
        ("runpod", '[{"id": "abc123", "desiredStatus": "TERMINATED"}]', True, "as TERMINATED"),
        ("runpod", '[{"id": "abc123", "desiredStatus": "EXITED"}]', False, "disk may be billed"),
        ("runpod", '[{"id": "abc123", "desiredStatus": "RUNNING"}]', False, "is in the list"),
        ("runpod", '[{"id": "abc123", "name": "terminated"}]', False, "is in the list"),
        (
            "runpod",
            '[{"id": "z", "of": "abc123", "status": "deleted"}, {"id": "abc123"}]',
            False,
            "",
        ),
        (
            "aws",
            '[{"InstanceId": "abc123", "State": {"Name": "shutting-down"}}]',
            True,
            "a disk that outlives it is billed",
        ),
        ("aws", '{"a": [{"InstanceId": "abc123", "State": {"Name": "running"}}]}', False, ""),
        ("gcp", '[{"name": "abc123", "status": "TERMINATED"}]', False, "stopped, not gone"),
        ("gcp", "NAME    ZONE  STATUS\nabc123  a     TERMINATED\n", False, "stopped, not gone"),
        ("runpod", "ID      NAME  STATUS\nabc123  x     terminated\n", True, "as terminated"),
        ("runpod", "ID      NAME        STATUS\nabc123  terminated  RUNNING\n", False, ""),
        ("runpod", "ID      NAME        STATUS\nabc123  terminated\n", False, ""),
        (
            "vast.ai",
            '[{"id": "abc123", "actual_status": "exited", "intended_status": "x"}]',
            False,
            "",
        ),
        ("generic-ssh", '[{"id": "abc123", "status": "destroyed"}]', True, "as destroyed"),
    ],
)
def test_a_row_whose_state_can_only_mean_gone_is_as_good_as_none(platform, text, gone, says):
    found = teardown.listed(text, ["abc123"], "", profile.get(platform))
    assert (found.gone, found.by) == (gone, "abc123") and says in found.text, found.text


def test_an_address_in_a_row_of_a_box_that_is_gone_proves_nothing():
    text = '[{"id": "abc123", "ip": "203.0.113.7", "status": "TERMINATED"}]'
    assert teardown.listed(text, [], "203.0.113.7:22", profile.get("runpod")).gone is None
    assert teardown.listed(text, ["abc123"], "203.0.113.7:22", profile.get("runpod")).gone is True
    both = text[:-1] + ', {"id": "new999", "ip": "203.0.113.7", "status": "RUNNING"}]'
    assert teardown.listed(both, ["abc123"], "203.0.113.7:22", profile.get("runpod")).gone is False


@pytest.mark.parametrize(
    "listing",
    ["[]", '{"data": {"pods": [], "n": 0}}', "ID   STATUS\n---  ------\n", "no instances"],
)
def test_a_list_without_any_box_counts_once_another_is_as_empty_later(
    listing, monkeypatch, tmp_path
):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setattr(box, "address", lambda one, *_: f"{one.host}:22")
    clock = [1_790_000_000.0]
    monkeypatch.setattr(box_gone.time, "time", lambda: clock[0])
    runpod = profile.get("runpod")
    ledger.opened("gpu:22", "gpu")

    def look(minutes, text):
        clock[0] += 60 * minutes
        return box_gone.confirm(GPU, runpod, ids=["abc123"], listing=text)

    assert look(0, LIST).gone is False
    first, soon = look(0, listing), look(9, listing)
    assert (first.gone, soon.gone) == (None, None) and "once more in 10 min" in first.text
    assert "another account or an outage" in soon.text and "once more in 60 s" in soon.text
    assert look(9, LIST).gone is False, "it was an outage, and the ten minutes begin anew"
    assert look(1, listing).gone is None and ledger.still_open()
    assert look(10, listing).gone is True and not ledger.still_open()


@pytest.mark.parametrize(
    ("data", "gone"),
    [
        (LIST.encode("utf-16"), False),
        (b"\xef\xbb\xbf[]", True),
        (bytes(range(128, 228)), None),
        ("[]".encode("utf-16"), True),
    ],
)
def test_a_list_is_read_by_its_byte_order_mark(data, gone):
    assert teardown.listed(teardown.decoded(data), ["abc123"]).gone is gone


def test_a_confirmed_box_leaves_the_ledger_and_no_other(ended, tmp_path):
    ledger.opened("198.51.100.1:22", "other")
    assert rgt("status", "gpu").returncode == 0
    words = ("release", "gpu", "--profile", "runpod", "--confirm-gone", "--id", "abc123")
    assert rgt(*words, "--listing", "-", input=LIST).returncode == 1
    assert len(ledger.still_open()) == 2
    (tmp_path / "list").write_text('[{"id": "zz9"}]')
    done = rgt(*words, "--listing", "list")
    assert done.returncode == 2 and "but it answers by ssh" in done.stdout
    ended.parent.parent.rename(tmp_path / "ended")
    done = rgt(*words, "--listing", "list", "--json")
    assert done.returncode == 0 and json.loads(done.stdout)["gone"] is True
    assert [b.name for b in ledger.still_open()] == ["other"]
    assert rgt(*words, "--listing", "gone-file").returncode == 2


def test_a_listing_runs_only_when_typed_and_only_from_the_platforms_page(tmp_path, monkeypatch):
    (tmp_path / "vastai").write_text('#!/bin/sh\necho "[{\\"id\\": 777}] $*"\n')
    (tmp_path / "vastai").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    vast = profile.get("vastai")
    assert (
        teardown.run_listing("vastai show instances --raw", vast)
        == '[{"id": 777}] show instances --raw\n'
    )
    for typed, says in (
        ("vastai destroy instance 777", "the page of vastai has no such listing command"),
        ("vastai show instances --raw; touch x", "the page of vastai has no such listing command"),
        ("", "needs a shell"),
    ):
        with pytest.raises(BadRequest) as refused:
            teardown.run_listing(typed, vast)
        assert says in str(refused.value)
    with pytest.raises(BadRequest) as refused:
        teardown.run_listing(
            'curl -sS -H "Authorization: Bearer $RUNPOD_API_KEY"', profile.get("runpod")
        )
    assert "this command needs a shell" in str(refused.value)
    (tmp_path / "vastai").write_text("#!/bin/sh\necho no key >&2; exit 1\n")
    with pytest.raises(BadRequest) as refused:
        teardown.run_listing("vastai show instances --raw", vast)
    assert "ended with 1 (no key)" in str(refused.value)


@pytest.mark.parametrize("name", sorted(profile.load()))
def test_every_platform_tells_what_is_billed_after_each_way(name):
    found = teardown.ways(profile.get(name), date(2026, 11, 20))
    assert bool(found) == (profile.get(name).kind != "own")
    for way in found:
        assert way.keeps and way.billed and way.source.startswith("http")
        assert not profile.get(name).facts.stop_billing or way.name != "end it" or way.command


@pytest.mark.parametrize("name", sorted(profile.load()))
def test_what_storage_costs_is_told_where_somebody_bills_it(name):
    page = profile.get(name)
    stored = teardown.storage(page, date(2026, 11, 20))
    assert bool(stored) == (page.kind in ("rental", "serverless", "unnamed"))
    if stored:
        assert stored.source.startswith("http")
        priced = page.facts.quota and page.facts.quota.value.costs
        assert stored.costs == (priced or teardown.NO_PRICE)
        told = teardown.ways_as_text(teardown.ways(page, date(2026, 11, 20)), stored)
        assert told.splitlines()[-1] == f"    costs: {stored.costs}"


@pytest.mark.parametrize(
    "when", ["Infinity", "NaN", '"nan"', "1e18", "-1e18", "1790000000000", "true", "null"]
)
def test_a_line_of_the_ledger_with_an_impossible_time_breaks_nothing(when, monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    ledger.opened("198.51.100.1:22", "mine", price=2.5, now=1_790_000_000)
    with ledger.place().open("a") as file:
        file.write(
            f'{{"t": {when}, "event": "opened", "address": "203.0.113.9:22", "name": "odd"}}\n'
        )
        file.write(
            '{"t": 1790000100, "event": "opened", "address": "198.51.100.1:22", "name": "mine", "price": Infinity}\n'
        )
    told = ledger.reminder(now=1_790_003_600)
    assert (
        "mine since 20" in told and "odd" not in told and "2.5 an hour, about 2.50 so far" in told
    )


def test_a_file_that_vanished_meanwhile_is_no_failure(ended, monkeypatch):
    sent = run_script.program("runs.transfer.box_end")
    told = "sender = Sender(wire, files)"
    gone = sent.replace(
        told, f'{told}; [os.unlink(one) for one in files.values() if one.endswith(").txt")]'
    )
    assert gone != sent
    monkeypatch.setattr(run_script, "program", lambda name: gone)
    found = bring(ended)
    assert (found.verdict, found.differing, found.files) == ("verified", [], 5)


def test_a_full_disk_here_is_told(ended, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(wire.Receiver, "_take_bytes", full)
    with pytest.raises(Unreleased, match="^the disk under .* is full; make room there"):
        bring(ended)


def test_a_run_by_the_real_runner_is_told_and_brought_home(sshd, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "job.yaml").write_text(
        "name: real\ncommand: [bash, -c, 'echo step 1; cp seed model.safetensors']\ndeadline: 1h\ngpus: 0\nresults: [model.safetensors]\n"
    )
    rendered = rgt("render", "job.yaml", "--profile", "generic-ssh", "--json")
    assert rendered.returncode == 0, rendered.stderr
    place = sshd.home / "runs/real"
    place.mkdir(parents=True)
    (place / "run.sh").write_text(json.loads(rendered.stdout)["script"])
    (place / "seed").write_bytes(WEIGHTS)  # without code the command runs in the run's folder
    assert rgt("status", "gpu", "--run", "real").stdout.startswith("nothing: ")
    ran = sshd.run("bash runs/real/run.sh run", timeout=60)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    done = rgt("status", "gpu", "--wait", "--json")
    assert (done.returncode, json.loads(done.stdout)["state"]) == (0, "finished"), done.stdout
    done = rgt("release", "gpu", "--profile", "generic-ssh")
    assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "results/gpu-real/model.safetensors").read_bytes() == WEIGHTS
