"""The harness that runs a script for a night under faults, on a night of some seconds."""

import json
import os
import runpy
import shutil
import subprocess
import sys

import pytest

from tests.conftest import ROOT

HARNESS = ROOT / "evals/benchmark/night"
TRAIN = """\
import pathlib, time
class Model:
    def step(self, number):
        time.sleep(0.2)
def save(path, number):
    pathlib.Path(path).write_text(f"{number} whole")
if __name__ == "__main__":
    from work import Model, save
    model = Model()
    last = int(pathlib.Path("saved").read_text().split()[0]) if pathlib.Path("saved").exists() else 0
    for number in range(last + 1, 11):
        model.step(number)
        save("saved", number)
    save("final", 10)
"""
JUDGE = """\
def look(files):
    found = []
    for name, data in files.items():
        words = data.split()
        if name in ("saved", "final") and words[1:] == [b"whole"]:
            found.append(("final" if name == "final" else "checkpoint", int(words[0])))
    return found
"""
ABOUT = {
    "id": "night-T", "faults": ["none", "kill"], "deadline_s": 30, "steps": 10, "results": ["final"],
    "hooks": {"step": {"file": "work.py", "call": "Model.step", "number": 1}},
    "own_faults": {"kill": {"do": "kill", "at": 5}},
}  # fmt: skip
CARELESS = (
    "setsid bash -c 'python work.py; cp final saved $BOX/mnt/volume; endbox' >/dev/null 2>&1 &\n"
)
CAREFUL = CARELESS.replace("python work.py;", "until python work.py; do sleep 0.2; done;")
here = pytest.mark.skipif(
    sys.platform != "linux" or os.geteuid() != 0 or not shutil.which("unshare"),
    reason="boxes need root and unshare",
)


@pytest.fixture
def task(tmp_path):
    """A task whose ten steps take two seconds."""
    folder = tmp_path / "task"
    (folder / "files").mkdir(parents=True)
    (folder / "files/work.py").write_text(TRAIN)
    (folder / "judge.py").write_text(JUDGE)
    (folder / "task.json").write_text(json.dumps(ABOUT))
    return folder


def night(*words) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, HARNESS / "night.py", *map(str, words)], capture_output=True, text=True
    )


@here
@pytest.mark.parametrize("script, lost", [(CARELESS, 6), (CAREFUL, 0)])
def test_a_killed_run_loses_what_its_script_does_not_go_on_with(tmp_path, task, script, lost):
    project = tmp_path / "project"
    shutil.copytree(task / "files", project)
    (project / "go.sh").write_text(script)
    out = tmp_path / "out.json"
    done = night("run", project, "--task", task, "--fault", "kill", "--out", out)
    assert done.returncode == 0, done.stderr + done.stdout
    told = json.loads(out.read_text())
    assert (told["lost_steps"], told["endbox"]) == (lost, True), told
    assert told["ok"] == (not lost)
    assert "kill" in night("table", out).stdout


def test_what_is_wrong_is_told(tmp_path):
    assert "no go.sh" in night(
        "run", tmp_path, "--fault", "none", "--out", tmp_path / "o"
    ).stderr or (os.name != "posix" or os.geteuid() != 0)


def test_every_task_has_its_request_its_judge_and_faults_that_exist():
    faults = json.loads((HARNESS / "faults.json").read_text())["faults"]
    tasks = sorted((HARNESS / "tasks").iterdir())
    assert len(tasks) == 20
    for folder in tasks:
        about = json.loads((folder / "task.json").read_text())
        assert "bash go.sh" in (folder / "PROMPT.txt").read_text(), folder.name
        assert (folder / "judge.py").is_file() and about["says"] and about["wants"]
        assert set(about["faults"]) <= set(faults) | set(about.get("own_faults", {})), folder.name


def test_the_table_of_the_public_programs_nights_is_that_of_their_rows():
    census = runpy.run_path(str(HARNESS / "census.py"))
    page = (HARNESS / "README.md").read_text()
    shown = page.split("<!-- generated: census -->\n")[1].split("\n<!-- end -->")[0]
    assert shown.strip() == census["text"]().strip(), "write what python census.py prints"
    tasks = {
        path.name: json.loads((path / "task.json").read_text())
        for path in (HARNESS / "tasks").iterdir()
    }
    for one in census["read_rows"]():
        assert one["fault"] in tasks[one["task"]]["faults"], one


def test_a_file_of_torch_save_is_read_without_torch_and_only_if_it_is_whole(tmp_path, monkeypatch):
    torch = pytest.importorskip("torch")
    monkeypatch.syspath_prepend(str(HARNESS))
    import torch_files

    path = tmp_path / "a.pt"
    torch.save({"step": 7, "weights": torch.arange(300.0)}, path)
    data = path.read_bytes()
    assert torch_files.load(data)["step"] == 7
    for broken in (
        data[:-40],
        data[: len(data) // 2],
        data.replace(data[600:640], bytes(40)),
        b"",
        b"text",
    ):
        assert torch_files.load_if_whole(broken) is None
