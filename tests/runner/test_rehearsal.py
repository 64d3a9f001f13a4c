"""A rehearsal takes the user's program through train, save, kill and resume beside the run."""

import json
import os
import re
import signal
import sys
import zipfile

import pytest

from tests.conftest import module
from tests.runner.box import PROGRAM, TIMINGS, Box
from tests.runner.jobs import text_of

pytest_plugins = ["tests.runner.box"]


def make(box: Box, *arguments: object, **fields) -> Box:
    """The script of a run with the small trainer; `fields` of the runner's job over the usual ones."""
    usual = {
        "name": "toy", "rendered": {"run_dir": str(box.run_dir)}, "command": [sys.executable, str(PROGRAM), *map(str, arguments)],
        "python": sys.executable, "deadline": "hours:1", "step_pattern": "step [0-9]+", "timings": TIMINGS,
        "checkpoint": {"folder": str(box.checkpoints), "pattern": "step-*.pt", "save_seconds": 10.0},
        "results": [str(box.run_dir / "final.bin")], "rehearsal": {"minutes": 15.0},
    }  # fmt: skip
    box.script.write_text(text_of(usual, fields), encoding="utf-8")
    return box


def test_a_rehearsal_goes_through_all_phases_and_touches_no_checkpoint_of_the_run(box: Box):
    make(box, "--sleep", 0.05, rehearsal={"arguments": ["--steps", "200"]})
    done = box.verb("rehearse")
    assert done.returncode == 0, done.stdout + done.stderr
    lines = [
        line for line in done.stdout.splitlines() if not line.startswith("waiting for the save")
    ]
    *phases, stop = [line.split(":")[0] for line in lines]
    assert phases == ["ok train", "ok save", "ok kill", "ok resume"]
    assert stop in ("ok stop", "unsure stop"), "what a stop costs is told"
    assert "a save takes" in done.stdout
    assert not list(box.checkpoints.glob("*")) and not (box.run_dir / "steps.log").exists()
    assert not box.processes()
    assert not list((box.run_dir / "rehearsal").glob("checkpoints-*"))
    assert json.loads((box.run_dir / "own/rehearsed.json").read_text())["bytes"] > 0
    box.start()
    assert box.wait()["phase"] == "done" and box.steps()[0][1] == 1


def test_a_rehearsal_that_ends_looks_for_the_results(box: Box):
    make(
        box,
        "--sleep",
        0.03,
        rehearsal={"arguments": ["--steps", "9", "--every", "5"]},
        results=["nowhere.bin"],
    )
    done = box.verb("rehearse")
    assert done.returncode == 1 and "failed evaluate: missing nowhere.bin" in done.stdout


def test_a_program_that_saves_elsewhere_or_fails_is_told(box: Box):
    make(box, command=["python3", "-c", "import sys; print('x'); sys.exit(4)"], results=[])
    done = box.verb("rehearse")
    assert (
        done.returncode == 1
        and "failed train: ended with 4 before the first checkpoint" in done.stdout
    )


def test_a_program_that_cannot_resume_is_told(box: Box):
    never = "import os, sys, time, zipfile, glob\nd=os.environ['RGT_CHECKPOINT_DIR']\n"
    never += "if glob.glob(d+'/*.pt'): sys.exit('cannot load')\n"
    never += "z=zipfile.ZipFile(d+'/step-1.pt','w'); z.writestr('a','b'); z.close(); time.sleep(60)"
    make(box, command=["python3", "-c", never], results=[])
    done = box.verb("rehearse")
    assert done.returncode == 1
    assert "\nfailed resume: ended with 1" in done.stdout
    assert done.stdout.splitlines()[-1] == "cannot load", "what the program said last"
    kept = list((box.run_dir / "rehearsal").glob("checkpoints-*"))
    assert len(kept) == 1 and list(kept[0].iterdir())
    box.verb("rehearse")
    assert not kept[0].exists()


def test_a_file_that_the_program_only_reads_is_no_save_and_stays_where_it_is(box: Box):
    site = box.folder / "site-packages-of-another"
    site.mkdir()
    for name in ("precedence.pth", "pretrained.pth"):
        (site / name).write_bytes(b"x" * 900)
        os.utime(site / name, (1e9, 1e9))
    reads = f"""
import os, sys, time, zipfile
held = open({str(site / "precedence.pth")!r})
time.sleep(6)
path = os.environ['RGT_CHECKPOINT_DIR'] + '/step-%d.pt'
begin = max([0, *(int(one[5:-3]) for one in os.listdir(os.path.dirname(path)))])
if begin: open(path % begin, 'rb').read()
for step in range(begin + 1, begin + 99):
    with zipfile.ZipFile(path % step, 'w') as archive: archive.writestr('a', 'b')
    print('step', step, flush=True)
    time.sleep(0.5)
"""
    (box.folder / "reads.py").write_text(reads)
    make(box, command=[sys.executable, str(box.folder / "reads.py")], results=[])
    done = box.verb("rehearse")
    assert "ok save: first whole checkpoint" in done.stdout and ".pth" not in done.stdout, (
        done.stdout
    )
    assert sorted(one.name for one in site.iterdir()) == ["precedence.pth", "pretrained.pth"]


STRAYS = """
import os, pathlib, sys, time, zipfile
folder = pathlib.Path(__file__).parent / 'ckpt'
folder.mkdir(exist_ok=True)
steps = sorted(int(path.stem[5:]) for path in folder.glob('step-*.pt'))
print('from', steps, flush=True)
for step in steps[-1:]: (folder / f'step-{step}.pt').read_bytes()
for step in range(1 + max(steps, default=0), 5 + max(steps, default=0)):
    with zipfile.ZipFile(folder / f'step-{step}.pt', 'w') as archive: archive.writestr('a', 'b')
    for old in sorted(folder.glob('step-*.pt'), key=lambda path: int(path.stem[5:]))[:-3]: old.unlink()
    time.sleep(float(sys.argv[1]))
"""


def strays(box: Box, sleep: float = 0, **values) -> Box:
    """A program that saves to a folder of its own, the run's, whatever it is told."""
    (box.folder / "strays.py").write_text(STRAYS)
    command = [sys.executable, str(box.folder / "strays.py"), str(sleep)]
    return make(box, command=command, results=[], **values)


def test_saves_in_the_folder_that_the_job_names_are_found_there_and_moved_away(box: Box):
    strays(box, sleep=0.5)
    done = box.verb("rehearse")
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert [line.split(":")[0] for line in lines if line.startswith("ok")] == [
        "ok train",
        "ok save",
        "ok kill",
        "ok resume",
    ]
    assert f"note save: the program saves to {box.checkpoints} as the job names it" in done.stdout
    assert not box.checkpoints.exists() or not list(box.checkpoints.iterdir())
    aside = next((box.run_dir / "rehearsal").glob("strays-*"))
    assert all(f"  moved to {aside}: {path.name}" in lines for path in aside.iterdir())
    assert list(aside.iterdir())
    box.start()
    box.wait()
    assert box.output().startswith(b"from []\n") and box.events("attempt")[0]["resume"] == ""


@pytest.mark.parametrize("named", [True, False])
def test_saves_in_another_folder_are_found_and_the_line_for_the_job_is_printed(box: Box, named):
    (box.folder / "code").mkdir()
    text = STRAYS.replace("'ckpt'", "'runs/exp'").replace("mkdir(", "mkdir(parents=True, ")
    (box.folder / "code/strays.py").write_text(text)
    fields = {} if named else {"checkpoint": {"folder": "", "pattern": ""}}
    make(
        box,
        command=[sys.executable, "strays.py", "1.5"],
        results=[],
        rendered={"work_dir": str(box.folder / "code")},
        **fields,
    )
    done = box.verb("rehearse")
    assert done.returncode == int(named), done.stdout + done.stderr
    assert 'Write in the job: checkpoint: {folder: runs/exp, pattern: "step-*.pt"}' in done.stdout
    assert "ok resume: " in done.stdout
    assert not list((box.folder / "code/runs/exp").glob("*.pt"))
    aside = next((box.run_dir / "rehearsal").glob("strays-*"))
    assert list(aside.glob("step-*.pt"))


def test_files_of_that_form_that_lay_there_before_are_left_alone(box: Box):
    (box.folder / "code/runs").mkdir(parents=True)
    with zipfile.ZipFile(box.folder / "code/runs/step-0.pt", "w") as archive:
        archive.writestr("a", "b")
    text = STRAYS.replace("'ckpt'", "'runs'").replace("old.unlink()", "pass")
    (box.folder / "code/strays.py").write_text(text)
    make(
        box,
        command=[sys.executable, "strays.py", "1.5"],
        results=[],
        rendered={"work_dir": str(box.folder / "code")},
    )
    done = box.verb("rehearse")
    assert done.returncode == 1 and "folder: runs, pattern" in done.stdout
    assert [path.name for path in (box.folder / "code/runs").iterdir()] == ["step-0.pt"]


def test_a_job_without_checkpoints_trains_is_killed_and_begins_again(box: Box):
    program = "import time\nfor n in range(900): print('step', n, flush=True); time.sleep(0.1)"
    fields = {"results": [], "checkpoint": {"folder": "", "pattern": ""}}
    make(box, command=["python3", "-c", program], **fields)
    done = box.verb("rehearse")
    assert done.returncode == 0, done.stdout + done.stderr
    assert [line.split(":")[0] for line in done.stdout.splitlines()] == [
        "ok train",
        "ok kill",
        "ok again",
    ]
    assert not box.processes()
    make(box, command=["python3", "-c", "print('step 1')"], **fields)
    done = box.verb("rehearse")
    assert done.returncode == 0 and done.stdout.startswith("ok train: ran to its end in ")
    make(box, command=["python3", "-c", "print('step 1')"], **{**fields, "results": ["x.bin"]})
    assert "failed evaluate: missing x.bin" in box.verb("rehearse").stdout
    make(box, command=["python3", "-c", "raise SystemExit(3)"], **fields)
    done = box.verb("rehearse")
    assert done.returncode == 1 and "failed train: ended with 3; see" in done.stdout


def test_a_command_that_names_the_folder_of_the_runs_checkpoints_is_not_rehearsed_over_them(
    box: Box,
):
    box.checkpoints.mkdir()
    with zipfile.ZipFile(box.checkpoints / "step-10.pt", "w") as archive:
        archive.writestr("a", "b")
    make(box, f"--out={box.checkpoints}/x")
    done = box.verb("rehearse")
    assert done.returncode == 1 and "rehearse under another name (--set name=NAME)" in done.stdout
    assert not (box.run_dir / "rehearsal/log/train.log.0000").exists()


def test_a_rehearsal_ends_before_such_a_program_has_deleted_the_runs_checkpoints(box: Box):
    box.checkpoints.mkdir()
    for step in (10, 20, 30):
        with zipfile.ZipFile(box.checkpoints / f"step-{step}.pt", "w") as archive:
            archive.writestr("a", "b")
    strays(box, sleep=20)
    done = box.verb("rehearse")
    assert done.returncode == 1 and f"  the rehearsal deleted {box.checkpoints}/step-10.pt\n" in (
        done.stdout
    )
    assert f"  put back as it was: {box.checkpoints}/step-10.pt\n" in done.stdout
    left = sorted(path.name for path in box.checkpoints.iterdir())
    assert left == ["step-10.pt", "step-20.pt", "step-30.pt"]


def test_a_rehearsal_that_is_refused_before_it_begins_moves_nothing(box: Box):
    box.checkpoints.mkdir()
    with zipfile.ZipFile(box.checkpoints / "step-10.pt", "w") as archive:
        archive.writestr("a", "b")
    strays(box, floors={"free_gb": 10**6})
    assert box.verb("rehearse").returncode == 1
    assert [path.name for path in box.checkpoints.iterdir()] == ["step-10.pt"]


def trains(box: Box) -> bool:
    log = box.run_dir / "rehearsal/log/train.log.0000"
    return log.exists() and b"step 3" in log.read_bytes()


@pytest.mark.parametrize("also", [False, True], ids=["the shell", "and its guard"])
def test_a_rehearsal_that_is_killed_leaves_no_program_for_the_run_to_meet(box: Box, also: bool):
    make(box, "--steps", 4000, "--every", 4000, "--sleep", 0.02)
    child = box.popen("rehearse")
    box.until(lambda: trains(box))
    program = json.loads((box.run_dir / "rehearsal/attempt.json").read_text())["pid"]
    if also:
        others = set(box.processes()) - {program}
        for number in (signal.SIGSTOP, signal.SIGKILL):  # so that none sees another one end
            for pid in others:
                os.kill(pid, number)
        assert program in box.processes()
        make(box, command=["true"], results=[])
        assert box.verb("rehearse").returncode == 1
    else:
        os.kill(child.pid, signal.SIGKILL)
    box.until(lambda: not box.processes(), what="the rehearsed program lives on")


def test_a_rehearsal_and_a_run_exclude_each_other(box: Box):
    make(box, "--steps", 4000, "--every", 4000, "--sleep", 0.02)
    child = box.popen("rehearse")
    box.until(lambda: trains(box))
    assert box.verb("start").returncode == 75
    child.send_signal(signal.SIGTERM)
    assert child.wait(30) == 1 and "failed train: interrupted\n" in child.stdout.read()
    make(box, "--steps", 4000, "--sleep", 0.02)
    box.start()
    box.at_step(6)
    assert box.verb("rehearse").returncode == 75
    other = make(box, rendered={"run_dir": str(box.folder / "other")})
    done = other.verb("rehearse")
    assert done.returncode == 75 and "trains into" in done.stderr, "the same folder of checkpoints"


GOES = """
import os, pathlib, sys, time, zipfile
names, says, way = sys.argv[1:]
folder, held = pathlib.Path(os.environ["RGT_CHECKPOINT_DIR"]), os.environ["RGT_RESUME_FROM"]
step = int(zipfile.ZipFile(held).read("step")) if held and way != "anew" else 0
if way == "epoch":
    step -= step % 20
while step < 400:
    if not (way == "saves" and held):
        step += 1
    held = ""
    if says:
        print(says.format(step=step, epoch=step // 20, part=step % 20), flush=True)
    for name in names.split() if step % 10 == 0 and (way != "epoch" or step > 20) else ():
        path = folder / name.format(step=step, epoch=step // 10)
        first = folder / path.name.replace("-v1", "")
        path = path if first.exists() else first
        with zipfile.ZipFile(folder / "new", "w") as archive: archive.writestr("step", str(step))
        os.replace(folder / "new", path)
    time.sleep(0.08)
"""


OK = r"ok resume: opened a checkpoint, saved "
ANEW = r"failed resume: the program seems to begin anew: it saved "


@pytest.mark.parametrize(
    ("names", "says", "way", "told"),
    [
        ("step-{step}.pt", "step {step}", "on", OK + r"step-\d0.pt after \d+ s$"),
        ("step-{step}.pt", "step {step}", "anew", ANEW + r"step-\d0.pt after \d+ s, and opened neither step-\d0.pt nor"),
        ("step-{step}.pt", "", "anew", ANEW),
        ("step-{step}.pt", "step_save=100", "anew", ANEW),
        ("step={step}-v1.pt", "", "anew", ANEW),
        ("step-{step}.pt last.pt", "", "anew", ANEW),
        ("last.pt", "step {step}", "anew", ANEW),
        ("last.pt", "step {step}", "on", OK + "last.pt"),
        ("last.pt", "", "on", OK + "last.pt"),
        ("step-{step}.pt", "step {step}", "saves", OK),
        ("step-{step}.pt", "step {part}", "epoch", OK),
        ("epoch-{epoch}.pt", "step {part}", "on", OK),
        ("epoch-{epoch}.pt", "step {part}", "anew", ANEW),
        ("last.pt", "epoch {epoch} step {part}", "epoch", OK),
        ("step-0.pt last.pt", "step {step}", "on", OK),
        ("step-0.pt last.pt", "step {step}", "anew", ANEW),
    ],
)  # fmt: skip
def test_a_resume_is_one_only_where_the_program_opened_what_it_had_saved(
    box: Box, names, says, way, told
):
    command = [sys.executable, "-c", GOES, names, says, way]
    make(
        box, command=command, results=[], checkpoint={"pattern": "*.pt"}, rehearsal={"minutes": 1.0}
    )
    done = box.verb("rehearse")
    line = next(line for line in done.stdout.splitlines() if " resume: " in line)
    assert re.match(told, line), done.stdout
    assert done.returncode == int(told.startswith("failed"))


def test_the_end_of_a_log_steers_no_terminal(box: Box):
    say = "print('one\\x1b[31mtwo\\x9bthree\\u202e')\nraise SystemExit(3)"
    make(box, command=[sys.executable, "-c", say], results=[])
    assert box.verb("rehearse").stdout.splitlines()[-1] == "onetwothree"


# The probe

SILENT = """
import os, pathlib, torch
from torch import nn
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 3), nn.Softmax(dim=1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
folder, step = pathlib.Path(os.environ["RGT_CHECKPOINT_DIR"]), 0
if os.environ["RGT_RESUME_FROM"]:
    held = torch.load(os.environ["RGT_RESUME_FROM"])
    model.load_state_dict(held["model"]), optimizer.load_state_dict(held["optimizer"])
    step = held["step"]
while step < 44:
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(torch.randn(8, 4)), torch.randint(3, (8,)))
    loss.backward()
    optimizer.step()
    step += 1
    print("step", step, flush=True)
    if step % 4 == 0:
        held = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}
        torch.save(held, folder / "new"), os.replace(folder / "new", folder / f"step-{step}.pt")
    import time; time.sleep(0.02)
"""
WAYS = {"ok train", "ok save", "ok kill", "ok resume"}


def outcomes(text: str) -> list[str]:
    """The lines of a rehearsal before their numbers, without the probe's."""
    told = text.partition("\nprobe: ")[0]
    return [line.split(":")[0] for line in told.splitlines() if not line.startswith("probe: ")]


def test_a_rehearsal_names_a_silent_failure_after_thirty_steps_and_leaves_a_page(box: Box):
    module("torch", "pip install -e '.[proofs]'")
    (box.folder / "train.py").write_text(SILENT)
    command = [sys.executable, str(box.folder / "train.py")]
    (box.folder / "own").mkdir()
    env = {"PYTHONPATH": f"{box.folder}/own"}
    (box.folder / "own/sitecustomize.py").write_text("print('the own sitecustomize', flush=True)")
    make(box, command=command, results=[], rendered={"probe": True}, variables=env, rehearsal={"minutes": 2.0})  # fmt: skip
    done = box.verb("rehearse", timeout=200)
    assert done.returncode == 0, done.stdout + done.stderr + box.log()
    assert set(outcomes(done.stdout)) == WAYS | {"unsure stop", "unsure memory"}
    told = done.stdout.partition("\nprobe: ")[2].splitlines()
    assert told[0] == "wrong (30 steps of 2 processes looked at)"
    assert told[1].endswith("the loss gets probabilities where it wants raw scores [O12]")
    log = box.run_dir / "rehearsal/log"
    report = json.loads((log / "probe.json").read_text())
    assert [one["id"] for one in report["findings"]] == ["O12"]
    assert '<span class="bad">wrong</span>' in (log / "probe.html").read_text()
    assert b"the own sitecustomize" in b"".join(p.read_bytes() for p in log.glob("train.log.*"))
    assert not (box.run_dir / "rehearsal/probe").exists()


def test_the_probe_says_one_line_of_a_program_without_torch_and_changes_no_outcome(box: Box):
    values = {
        "rehearsal": {"arguments": ["--steps", "9", "--every", "5"]},
        "results": ["nowhere.bin"],
    }
    plain = make(box, "--sleep", 0.03, **values).verb("rehearse")
    looked = make(box, "--sleep", 0.03, rendered={"probe": True}, **values).verb("rehearse")
    assert plain.returncode == looked.returncode == 1, plain.stdout + looked.stdout
    assert outcomes(plain.stdout) == outcomes(looked.stdout)
    lines = [line for line in looked.stdout.splitlines() if "probe" in line]
    assert lines == ["probe: not looked at (0 steps of 0 processes looked at): no Python process of the program took a step of a torch optimizer"]  # fmt: skip
    assert "probe" not in plain.stdout


def test_where_the_probe_is_broken_the_rehearsal_says_so_and_goes_on(box: Box):
    values = {"rehearsal": {"arguments": ["--steps", "200"]}, "rendered": {"probe": True}}
    make(box, "--sleep", 0.05, **values)
    box.change("probe.py", "raise SystemExit(3)")
    broken = box.verb("rehearse")
    assert broken.returncode == 0 and set(outcomes(broken.stdout)) == WAYS | {"ok stop"}
    assert "probe.py ended with 3; see " in broken.stdout


TRAINER = """
import json, pathlib, sys, time, zipfile
out = pathlib.Path(__file__).parent / 'ckpt'
found = sorted(out.glob('step-*.pt'), key=lambda path: int(path.stem[5:]))
if out.is_dir() and any(path.name != 'notes.json' for path in out.iterdir()) and not found:
    sys.exit('Output directory already exists and is not empty')
out.mkdir(exist_ok=True)
first = int(found[-1].stem[5:]) if found else 0
if found: found[-1].read_bytes()
for step in range(first + 1, first + 4):
    print('step', step, flush=True)
    with zipfile.ZipFile(out / f'step-{step}.pt', 'w') as archive: archive.writestr('a', 'b')
    for name in ('training_args.bin', 'config.json', 'runs/events', 'notes.json'):
        (out / name).parent.mkdir(exist_ok=True)
        (out / name).write_text('of step %d' % step)
    time.sleep(1)
"""


@pytest.mark.parametrize("is_new", [True, False])
def test_a_rehearsal_leaves_the_folder_of_checkpoints_as_it_was(box: Box, is_new):
    (box.folder / "trainer.py").write_text(TRAINER)
    to = {"to": str(box.folder / "durable"), "what": [str(box.checkpoints)], "on_this_box": True}
    make(
        box,
        command=[sys.executable, str(box.folder / "trainer.py")],
        results=[],
        durable=to,
    )
    if is_new:
        assert not box.checkpoints.exists() or not box.checkpoints.rmdir()
    else:
        box.checkpoints.mkdir(exist_ok=True)
        (box.checkpoints / "notes.json").write_text("mine")
    done = box.verb("rehearse")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "training_args.bin" in done.stdout, "it says what it moved, and where to"
    if is_new:
        assert not box.checkpoints.exists()
    else:
        assert [path.name for path in box.checkpoints.iterdir()] == ["notes.json"]
        assert (box.checkpoints / "notes.json").read_text() == "mine"
    assert not list((box.folder / "durable").rglob("training_args.bin"))
    box.start()
    assert box.wait()["phase"] == "done", box.log()


def test_a_rehearsal_says_what_it_does_now(box: Box):
    arguments = ["--steps", "200"]
    make(
        box,
        "--sleep",
        0.05,
        rehearsal={"arguments": arguments},
        save_signal="USR2",
        checkpoint={"save_seconds": 2.0},
    )
    done = box.verb("rehearse")
    assert done.returncode == 0, done.stdout + done.stderr
    told = [line for line in done.stderr.splitlines() if line.startswith("rehearsing: ")]
    assert [line.split()[1] for line in told] == ["first", "second", "asking"]
    assert told[0].endswith("until it has saved") and "asking it to save" in told[-1]


def test_a_rehearsal_brings_the_data_that_the_run_gets(box: Box):
    source = box.folder / "data"
    source.mkdir()
    (source / "train.bin").write_text("numbers")
    command = [
        "bash",
        "-c",
        f"cat synth/train.bin && exec {sys.executable} {PROGRAM} --sleep 0.05 --steps 200",
    ]
    make(
        box,
        command=command,
        data=[{"from": str(source), "to": "synth"}],
        rehearsal={"arguments": []},
    )
    done = box.verb("rehearse")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "rehearsing: data" in done.stderr
    make(box, command=command, data=[{"from": str(box.folder / "gone"), "to": "synth"}])
    done = box.verb("rehearse")
    assert done.returncode == 1 and "failed data: staging" in done.stdout
