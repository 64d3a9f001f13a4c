"""`release --durable`: the newest complete checkpoint and the results, from a real durable place and without the box."""

import json
import os
import shutil
from pathlib import Path

import pytest
from remote_gpu_trainer.boxes import box
from remote_gpu_trainer.runner import sync
from remote_gpu_trainer.runs import known_jobs, release_durable
from remote_gpu_trainer.runs.transfer.pulling import Unreleased

from tests.engines.sshd import boxes  # noqa: F401
from tests.programs import rgt
from tests.runner.copying import kept, make

GONE = box.Box("gone.invalid", "gone.invalid")
HEAD = b'{"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}  '


def weights(step: int) -> bytes:
    return len(HEAD).to_bytes(8, "little") + HEAD + bytes([step]) * 8


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    """A home of the test's own, where no job is known yet."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


@pytest.fixture
def place(tmp_path, monkeypatch):
    """The durable place of a run whose box is gone: two complete checkpoints and a result."""
    monkeypatch.chdir(tmp_path)
    run = make(tmp_path, checkpoint={"pattern": "step-*.safetensors"})
    (tmp_path / "ckpt").mkdir()
    for step in (10, 20):
        (tmp_path / f"ckpt/step-{step}.safetensors").write_bytes(weights(step))
    (tmp_path / "run/final.bin").write_bytes(b"the end")
    assert sync.worker(run, "whole") == 0
    shutil.rmtree(tmp_path / "ckpt")
    shutil.rmtree(tmp_path / "run")
    return tmp_path / "durable"


@pytest.fixture
def known(place, tmp_path):
    """The same, of a run that was started from here."""
    given = {
        "name": "toy",
        "command": ["true"],
        "deadline": "1h",
        "checkpoint": {"folder": str(tmp_path / "ckpt"), "pattern": "step-*.safetensors"},
        "durable": {"to": str(place), "what": [str(tmp_path / "ckpt"), "final.bin"]},
        "results": ["final.bin"],
    }
    known_jobs.remember(GONE, "~/runs/toy", "runpod", given)
    return place


def test_the_newest_complete_checkpoint_comes_home_though_no_job_is_known(place, tmp_path):
    done = rgt("release", "gone.invalid", "--durable", str(place), "--to", "here")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith(f"verified: 1 files, 0.0 MB from {place}/ckpt.generations in ")
    assert (tmp_path / "here/ckpt/step-20.safetensors").read_bytes() == weights(20)
    again = rgt("release", "gone.invalid", "--durable", f"{place}/ckpt.generations", "--to", "here")
    assert again.returncode == 0, again.stdout + again.stderr


def test_results_that_the_job_names_come_along_and_a_missing_one_is_told(known, tmp_path):
    found = release_durable.bring(GONE, "toy", str(known), tmp_path / "here", load="tensors")
    assert (found.verdict, found.files) == ("verified", 2)
    assert (tmp_path / "here/final.bin").read_bytes() == b"the end"
    (known / "final.bin").unlink()
    found = release_durable.bring(GONE, "toy", str(known), tmp_path / "there", load="tensors")
    assert found.verdict == "incomplete"
    assert found.unreached == ["final.bin: it isn't at the durable place"]


def test_a_checkpoint_that_was_damaged_there_does_not_come_home(place, tmp_path):
    for step in (10, 20):
        kept(tmp_path, f"step-{step}.safetensors").write_bytes(weights(99))
    with pytest.raises(Unreleased, match="step-10.safetensors isn't as its manifest says"):
        release_durable.bring(GONE, "", str(place), tmp_path / "here", load="tensors")
    assert not (tmp_path / "here/ckpt/step-20.safetensors").exists()


def test_in_place_of_a_damaged_checkpoint_the_one_before_it_comes_home(place, tmp_path):
    damaged = kept(tmp_path, "step-20.safetensors")
    damaged.write_bytes(weights(21))
    done = rgt("release", "gone.invalid", "--durable", str(place), "--to", "here")
    assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "here/ckpt/step-10.safetensors").read_bytes() == weights(10)
    assert not (tmp_path / "here/ckpt/step-20.safetensors").exists()
    told = "step-10.safetensors of step 10 in place of step-20.safetensors of step 20"
    assert "damaged there" in done.stdout and told in done.stdout


def test_a_newest_checkpoint_without_its_manifest_is_told(place, tmp_path):
    [manifest] = place.glob("ckpt.generations/gen-1-20-*/manifest.json")
    manifest.unlink()
    done = rgt("release", "gone.invalid", "--durable", str(place), "--to", "here")
    assert done.returncode == 1, done.stdout + done.stderr
    assert (tmp_path / "here/ckpt/step-10.safetensors").read_bytes() == weights(10)
    lost = manifest.parent.name
    assert f"{lost}: NEWEST calls it the newest, and its manifest is lost" in done.stdout
    for older in place.glob("ckpt.generations/gen-1-10-*/manifest.json"):
        older.unlink()
    with pytest.raises(Unreleased, match="no checkpoint lies at .* NEWEST calls it the newest"):
        release_durable.bring(GONE, "", str(place), tmp_path / "there", load="tensors")


def test_nothing_that_is_somebody_elses_is_overwritten(place, tmp_path):
    (tmp_path / "here/ckpt").mkdir(parents=True)
    mine = tmp_path / "here/ckpt/step-20.safetensors"
    mine.write_text("mine")
    with pytest.raises(Unreleased, match="that no release brought"):
        release_durable.bring(GONE, "", str(place), tmp_path / "here", load="tensors")
    assert mine.read_text() == "mine"


def test_a_manifest_that_leads_out_is_none(place, tmp_path):
    [newest] = place.glob("ckpt.generations/gen-1-20-*/manifest.json")
    told = json.loads(newest.read_text())
    newest.write_text(json.dumps({**told, "files": {"../../x": [1, "0"]}}))
    found = release_durable.bring(GONE, "", str(place), tmp_path / "here", load="tensors")
    assert (tmp_path / "here/ckpt/step-10.safetensors").exists() and found.files == 1


def test_a_box_that_does_not_answer_names_the_place_of_its_copies(known):
    done = rgt("release", "gone.invalid", "--run", "toy", "--profile", "runpod")
    assert done.returncode == 2
    assert f"its newest copies: add --durable {known} --to FOLDER" in done.stderr


def test_a_place_without_checkpoints_says_where_it_looked(tmp_path):
    with pytest.raises(Unreleased, match="no folder whose name ends in .generations"):
        release_durable.bring(GONE, "", str(tmp_path), None, load="tensors")


def path_without(folder: Path, name: str) -> str:
    """Return a PATH with all programs of this one but those whose names begin so."""
    folder.mkdir()
    for above in reversed(os.environ["PATH"].split(":")):
        for one in Path(above).iterdir() if Path(above).is_dir() else ():
            if not one.name.startswith(name):
                (folder / one.name).unlink(missing_ok=True)
                (folder / one.name).symlink_to(one)
    return str(folder)


@pytest.mark.parametrize("base", ["", "~/", "/"])
def test_a_place_behind_ssh_is_read_without_rsync(base, known, tmp_path, monkeypatch, boxes):
    path = path_without(tmp_path / "bin", "rsync")
    far = boxes("far", path=path)[0]
    monkeypatch.setenv("PATH", path)
    assert not shutil.which("rsync") and far.run("command -v rsync").returncode
    shutil.move(known, far.home / "a place")
    above = f"{far.home}/" if base == "/" else base
    address = f"far:{above}a place"
    found = release_durable.bring(GONE, "toy", address, tmp_path / "here", load="tensors")
    assert (found.verdict, found.files, found.unreached) == ("verified", 2, [])
    assert (tmp_path / "here/ckpt/step-20.safetensors").read_bytes() == weights(20)
    assert (tmp_path / "here/final.bin").read_bytes() == b"the end"
    [kept_there] = (far.home / "a place").glob("**/files/step-20.safetensors")
    kept_there.write_bytes(weights(21))
    found = release_durable.bring(GONE, "toy", address, tmp_path / "there", load="tensors")
    assert (tmp_path / "there/ckpt/step-10.safetensors").read_bytes() == weights(10)
    assert "damaged there" in found.checked[0]
    far.stop()
    with pytest.raises(Unreleased, match="S3:// is no kind of place; write s3://b"):
        release_durable.bring(GONE, "toy", "S3://b", tmp_path / "later", load="tensors")
    with pytest.raises(Unreleased, match="doesn't answer: nothing listens at far"):
        release_durable.bring(GONE, "toy", address, tmp_path / "later", load="tensors")
