"""`pull`: files of a run that lives come complete and compared, and nothing here is overwritten or followed."""

import os
import subprocess
import threading
import time
import zipfile
from pathlib import Path
from types import SimpleNamespace

import pytest
from remote_gpu_trainer.boxes import box
from remote_gpu_trainer.runs import code_files, run_script
from remote_gpu_trainer.runs.transfer import fetching, link, run_files, wire
from remote_gpu_trainer.runs.transfer.fetching import NotPulled

from tests.engines.fake_run import put_job
from tests.engines.fake_ssh import fake_ssh
from tests.engines.sshd import boxes, sshd  # noqa: F401
from tests.programs import rgt
from tests.runner.jobs import script_of


def run_of(home: Path) -> Path:
    """A run with code and a checkpoint folder outside of it; return its work folder."""
    folder = home / "runs" / "toy"
    work = folder / "code"
    (work / "out").mkdir(parents=True)
    job = {"rendered": {"work_dir": str(work)}, "checkpoint": {"folder": str(home / "disk/ckpt")}}
    put_job(folder, script_of(job))
    (work / "out" / "metrics.json").write_text('{"loss": 1}')
    (work / "out" / "b[1].json").write_text("{}")
    (home / "disk" / "ckpt").mkdir(parents=True)
    return work


def save(path: Path, whole: bool = True) -> bytes:
    """A checkpoint, as torch.save writes it, or its beginning."""
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("archive/data.pkl", b"x" * 300_000)
    data = path.read_bytes()
    if not whole:
        path.write_bytes(data[:200_000])
    return data


def pull(*names: str, to: Path, name: str = "gpu", force: bool = False):
    return fetching.fetch(box.parse(name), "", names, lambda _: to, force=force)


@pytest.fixture
def work(tmp_path, monkeypatch):
    home = fake_ssh(tmp_path, monkeypatch) / "gpu"
    return run_of(home)


def test_names_patterns_folders_and_whole_paths_come_under_their_own(work, tmp_path):
    (work.parent.parent.parent / "disk" / "ckpt" / "note.txt").write_text("n")
    to = tmp_path / "here"
    saves = work.parents[2] / "disk" / "ckpt"
    found = pull("out/*.json", "out/b[1].json", f"{saves}/*", str(work / "out"), to=to)
    assert {p.relative_to(to).as_posix() for p in to.rglob("*") if p.is_file()} == {
        "out/metrics.json", "out/b[1].json", "ckpt/note.txt", fetching.MANIFEST,
    }  # fmt: skip
    assert (to / "out" / "metrics.json").read_text() == '{"loss": 1}' and not found.failed


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("nope.json", "nothing is called nope.json in"),
        ("../../../../secret", "lies outside the run's work folder"),
        ("/etc/passwd", "lies outside the run's work folder"),
        ("~/secret", "lies outside the run's work folder"),
    ],
)
def test_what_is_not_of_the_run_is_refused(work, tmp_path, name, says):
    (tmp_path / "gpu" / "secret").write_text("s")
    with pytest.raises(NotPulled, match=says):
        pull(name, to=tmp_path / "here")
    assert not (tmp_path / "here").exists()
    found = pull(name, "out/metrics.json", to=tmp_path / "here")
    assert list(found.files) == ["out/metrics.json"]
    assert list(found.missing) == [name] and says in found.missing[name]
    assert not list(tmp_path.rglob("here/**/secret"))


def test_of_several_names_the_wrong_one_is_told_and_the_others_come(work, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (work / "out" / "checkpoint-9").mkdir()
    (work / "out" / "checkpoint-9" / "trainer_state.json").write_text("{}")
    done = rgt("pull", "gpu", "nope.json", "out/**/*.json")
    assert done.returncode == 1
    assert "error: nothing is called nope.json in " in done.stderr
    came = tmp_path / "pulled" / "gpu-toy" / "out"
    assert (came / "metrics.json").is_file()
    assert (came / "checkpoint-9" / "trainer_state.json").is_file()
    assert rgt("pull", "gpu", "nope.json").returncode == 2


def test_what_was_pulled_into_the_project_is_not_sent_as_its_code(work, tmp_path, monkeypatch):
    project = tmp_path / "project"
    project.mkdir()
    monkeypatch.chdir(project)
    (project / "train.py").touch()
    assert rgt("pull", "gpu", "out/metrics.json").returncode == 0
    assert set(code_files.choose(project).sizes) == {"train.py"}
    git = ["git", "-c", "init.defaultBranch=main"]
    subprocess.run([*git, "init", "-q"], check=True)
    subprocess.run([*git, "add", "-A"], check=True)
    assert set(code_files.choose(project).sizes) == {"train.py"}


def test_a_checkpoint_comes_once_it_is_complete(work, tmp_path):
    path = work / "out" / "step_7.pt"
    data = save(path, whole=False)

    def finish() -> None:
        time.sleep(1.5)
        path.write_bytes(data)

    threading.Thread(target=finish).start()
    found = pull("out/step_7.pt", to=tmp_path / "here")
    assert (tmp_path / "here" / "out" / "step_7.pt").read_bytes() == data
    assert found.states == {"out/step_7.pt": "complete"}


def test_a_corrupt_checkpoint_does_not_come(work, tmp_path, monkeypatch):
    save(work / "out" / "step_7.pt", whole=False)
    monkeypatch.setattr(fetching, "SETTLING", 1.0)
    found = pull("out/step_7.pt", "out/metrics.json", to=tmp_path / "here")
    assert "corrupt" in found.failed["out/step_7.pt"]
    assert list(found.files) == ["out/metrics.json"]
    assert not (tmp_path / "here" / "out" / "step_7.pt").exists()


@pytest.mark.parametrize(
    ("state", "least", "most"), [("complete", 1, 2), ("unknown", 5, 6), ("corrupt", 15, 16)]
)
def test_a_checkpoint_lies_still_first_and_longer_where_nothing_proves_it(
    tmp_path, monkeypatch, state, least, most
):
    path, slept = tmp_path / "step_7.pt", []
    save(path, whole=state == "complete")
    if state == "unknown":
        path.write_bytes(b"raw" * 1000)
    began = time.time()
    clock = SimpleNamespace(
        time=lambda: began + sum(slept), monotonic=lambda: sum(slept), sleep=slept.append
    )
    monkeypatch.setattr(run_files, "time", clock)
    found, why = run_files.wait(str(path), 60)
    assert found == state and why.startswith("corrupt: " if state == "corrupt" else "")
    assert bool(why) == (state == "corrupt")
    assert least <= sum(slept) + 0.1 < most


def test_nothing_here_is_overwritten_unless_a_pull_brought_it(work, tmp_path):
    to = tmp_path / "here"
    (to / "out").mkdir(parents=True)
    (to / "out" / "metrics.json").write_text("mine")
    with pytest.raises(NotPulled, match="replace them with --force"):
        pull("out/metrics.json", to=to)
    assert (to / "out" / "metrics.json").read_text() == "mine"
    pull("out/metrics.json", to=to, force=True)
    (work / "out" / "metrics.json").write_text("newer")
    pull("out/metrics.json", to=to)
    assert (to / "out" / "metrics.json").read_text() == "newer", "it is the pull's own"
    (to / "out" / "metrics.json").write_text("edited")
    with pytest.raises(NotPulled, match="were changed since"):
        pull("out/metrics.json", to=to)
    assert sorted(p.name for p in to.iterdir()) == [fetching.MANIFEST, "out"]


@pytest.mark.parametrize("force", [False, True])
def test_no_link_here_is_followed(work, tmp_path, force):
    to, away = tmp_path / "here", tmp_path / "away"
    to.mkdir()
    away.mkdir()
    (to / "out").symlink_to(away)
    with pytest.raises(NotPulled, match="holds links"):
        pull("out/metrics.json", to=to, force=force)
    assert not list(away.iterdir())


def test_a_connection_that_breaks_leaves_no_half_file(work, tmp_path, monkeypatch):
    (work / "big.bin.txt").write_bytes(os.urandom(3_000_000))
    (tmp_path / "gpu.cut").write_text("1500000")
    monkeypatch.setattr(link, "LATER", ())
    with pytest.raises(NotPulled, match="what is in place here is whole"):
        pull("big.bin.txt", to=tmp_path / "here")
    assert [p.name for p in (tmp_path / "here").iterdir()] == [wire.PARTS]
    found = pull("big.bin.txt", to=tmp_path / "here")
    assert found.files == {"big.bin.txt": 3_000_000}
    assert (tmp_path / "here/big.bin.txt").read_bytes() == (work / "big.bin.txt").read_bytes()
    assert {p.name for p in (tmp_path / "here").iterdir()} == {"big.bin.txt", fetching.MANIFEST}


def test_what_arrives_otherwise_than_it_was_sent_is_no_file(work, tmp_path, monkeypatch):
    sender = run_script.program("runs.transfer.run_files").replace(
        "digest.hexdigest() if is_whole else", "str(0) * 64 if is_whole else"
    )
    assert sender != run_script.program("runs.transfer.run_files")
    monkeypatch.setattr(run_script, "program", lambda name: sender)
    with pytest.raises(NotPulled, match="isn't the same here as at the other end"):
        pull("out/metrics.json", to=tmp_path / "here")
    assert not (tmp_path / "here/out").exists()


def test_a_box_that_lists_a_path_out_of_the_folder_is_refused(tmp_path, monkeypatch):
    sender = run_script.program("runs.transfer.run_files").replace(
        "os.path.relpath(one, top), one", '"../out.txt", one'
    )
    monkeypatch.setattr(run_script, "program", lambda name: sender)
    run_of(fake_ssh(tmp_path, monkeypatch) / "gpu")
    with pytest.raises(NotPulled, match="an unsafe path"):
        pull("out/metrics.json", to=tmp_path / "here")
    assert not (tmp_path / "out.txt").exists()


def test_over_a_real_connection(sshd, tmp_path):
    work = run_of(sshd.home)
    data = save(work / "out" / "step_7.pt")
    done = rgt("pull", "gpu", "out/*", "--to", tmp_path / "here")
    assert done.returncode == 0 and "out/step_7.pt: complete" in done.stderr
    assert (tmp_path / "here" / "out" / "step_7.pt").read_bytes() == data
    assert rgt("pull", "gpu", "out/nope", "--to", tmp_path / "here").returncode == 2
