"""A container around the program. No engine runs on the machines that test this: the command lines are compared with golden
ones, and a stand-in on PATH records its words, hands over only what the engine would, passes signals on and runs the words inside."""

import json
import os
import signal
import sys
from pathlib import Path

import pytest
from remote_gpu_trainer.runner import containers, killing, preflight, procs, program
from remote_gpu_trainer.runner.context import Run

from tests.runner.box import PROGRAM, Box, assert_nothing_repeated, undisturbed
from tests.runner.jobs import job_of, secrets_of

pytest_plugins = ["tests.runner.box"]

# Docker: the container isn't below its client, gets the variables that --env names and no others, and a signal by its client alone.
DOCKER = """\
#!PYTHON
import json, os, signal, subprocess, sys, time
place, words = os.path.dirname(os.path.abspath(__file__)), sys.argv[1:]
with open(place + "/calls", "a") as file:
    file.write(json.dumps(words) + "\\n")
if words[0] == "image":
    sys.exit(0)
if words[0] == "rm":
    for name in words[2:]:
        try:
            os.kill(int(open(f"{place}/{name}.pid").read()), signal.SIGKILL)
        except OSError:
            sys.exit(1)
    sys.exit(0)
at, env, folder, name = 1, {"PATH": os.environ["PATH"], "INSIDE": "yes"}, "/", ""
while words[at].startswith("-"):
    word, _, value = words[at].partition("=")
    if word == "--env" and not value:
        at += 1
        if words[at] in os.environ:
            env[words[at]] = os.environ[words[at]]
    elif word == "--env":
        env[value.partition("=")[0]] = value.partition("=")[2]
    folder = value if word == "--workdir" else folder
    name = value if word == "--name" else name
    at += 1
if words[at] == "broken":
    print("docker: Error response from daemon: no such thing", flush=True)
    sys.exit(125)
told, tell = os.pipe()
if os.fork() == 0:  # the daemon: another parent, another session
    os.setsid()
    child = subprocess.Popen(words[at + 1 :], env=env, cwd=folder)
    open(f"{place}/{name}.pid", "w").write(str(child.pid))
    os.write(tell, f"{child.pid}\\n".encode())
    os.write(tell, str(child.wait()).encode())
    os._exit(0)
os.close(tell)
with open(told) as file:
    pid = int(file.readline())
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1):
        signal.signal(number, lambda number, _: os.kill(pid, number))
    code = int(file.readline() or 137)
sys.exit(code if code >= 0 else 128 - code)
"""
# Apptainer and srun: the words run below the engine with its own variables.
BELOW = """\
#!PYTHON
import json, os, signal, subprocess, sys
place, words = os.path.dirname(os.path.abspath(__file__)), sys.argv[1:]
with open(place + "/calls", "a") as file:
    file.write(json.dumps(words) + "\\n")
if words == ["--help"]:
    sys.exit(print("      --container-image=[USER@][REGISTRY#]IMAGE[:TAG]|PATH"))
inside = words[words.index("IMAGE") + 1 :] if "IMAGE" in words else words[words.index("END") + 1 :]
child = subprocess.Popen(inside, env={**os.environ, "INSIDE": "yes"})
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1):
    signal.signal(number, lambda number, _: child.send_signal(number))
code = child.wait()
sys.exit(code if code >= 0 else 128 - code)
"""


@pytest.fixture
def make(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("RGT_UMASK", "022")
    for name in list(os.environ):
        if name.startswith(containers._WANTED) and name != "RGT_UMASK":
            monkeypatch.delenv(name)

    def make(engine, image="nvcr.io/nvidia/pytorch:24.01-py3", mounts=(), options=(), **fields):
        given = {"rendered": {"run_dir": "~/run", "work_dir": "~/run/code"}, "checkpoint": {"folder": "/scratch-of-test/ckpt"}, "name": "toy", "gpus": 1, "data": [{"from": "x", "to": "/data"}, {"from": "y", "to": "here"}], "container": {"engine": engine, "image": image, "mounts": list(mounts), "options": list(options)}}  # fmt: skip
        run = Run(job_of(given, fields))
        run.folder.make()
        monkeypatch.setattr(os, "makedirs", lambda *_, **__: None)
        return run

    return make


ENV = {"PATH": "/usr/bin", "RGT_RUN_DIR": "/r", "A": "1", "TOKEN": "s3cret-value-1", "EMPTY": ""}


def test_without_a_container_the_words_stay(tmp_path):
    run = Run(job_of({"rendered": {"run_dir": str(tmp_path)}}))
    assert containers.around(run, ["x"], {}) == ["x"] and containers.failure(run, 125) == ""


@pytest.mark.parametrize("engine", ["apptainer", "singularity"])
def test_apptainer_binds_the_folders_and_inherits_the_rest(make, tmp_path, engine):
    run = make(engine, "~/images/a.sif", ["/opt/x:/x:ro", "~/y"], ["--writable-tmpfs"])
    assert containers.around(run, ["torchrun", "a b"], ENV) == [
        engine, "exec", "--nv", "--bind", f"{tmp_path}/run:{tmp_path}/run", "--bind", "/scratch-of-test/ckpt:/scratch-of-test/ckpt", "--bind", "/data:/data", "--bind", "/opt/x:/x:ro",
        "--bind", f"{tmp_path}/y:{tmp_path}/y:rw", "--pwd", f"{tmp_path}/run/code", "--writable-tmpfs", f"{tmp_path}/images/a.sif", "torchrun", "a b",
    ]  # fmt: skip
    assert "--nv" not in containers.around(make(engine, gpus=0), ["x"], ENV)
    assert containers.around(make(engine, "docker://a/b:1"), ["x"], ENV)[-2:] == ["docker://a/b:1", "x"]  # fmt: skip
    assert not run.folder.has(killing.CONTAINER)


def test_docker_keeps_the_user_and_names_variables_without_their_values(
    make, tmp_path, monkeypatch
):
    monkeypatch.setattr(os, "getuid", lambda: 1000)
    monkeypatch.setattr(os, "getgid", lambda: 100)
    monkeypatch.setattr(os, "getgroups", lambda: [100, 44])
    monkeypatch.setenv("NCCL_DEBUG", "INFO")
    run = make("docker", options=["--shm-size=16g"], setup=["export OWN=1 PATH=/x; module load a"], variables={"A": "1"}, secrets=secrets_of({}, {"TOKEN": "T"}))  # fmt: skip
    words = containers.around(run, ["python", "t.py"], {**ENV, "NCCL_DEBUG": "INFO"})
    name = containers.container_name(run)
    assert words == [
        "docker", "run", "--rm", "--init", "--sig-proxy=true", f"--name={name}", "--network=host", "--ipc=host", f"--workdir={tmp_path}/run/code",
        f"--volume={tmp_path}/run:{tmp_path}/run", "--volume=/scratch-of-test/ckpt:/scratch-of-test/ckpt", "--volume=/data:/data", "--gpus=all",
        "--user=1000:100", "--group-add=44", f"--env=HOME={tmp_path}/run/home", *(word for name in ("A", "EMPTY", "NCCL_DEBUG", "OWN", "RGT_RUN_DIR", "TOKEN") for word in ("--env", name)),
        "--shm-size=16g", "nvcr.io/nvidia/pytorch:24.01-py3", "python", "t.py",
    ]  # fmt: skip
    assert "s3cret" not in " ".join(words)
    assert run.folder.read(killing.CONTAINER).count(name) == 1 and "module load a" in run.folder.read(killing.CONTAINER)  # fmt: skip


def test_root_stays_root_and_podman_keeps_the_id(make, monkeypatch):
    monkeypatch.setattr(os, "getuid", lambda: 0)
    assert not [word for word in containers.around(make("docker"), ["x"], ENV) if word.startswith(("--user", "--env=HOME"))]  # fmt: skip
    monkeypatch.setattr(os, "getuid", lambda: 1000)
    words = containers.around(make("podman"), ["x"], ENV)
    assert "--userns=keep-id" in words and "--device=nvidia.com/gpu=all" in words
    assert not [word for word in words if word.startswith(("--user=", "--gpus"))]


def test_pyxis_is_a_step_on_this_node(make, tmp_path, monkeypatch):
    monkeypatch.setenv("SLURMD_NODENAME", "n7")
    monkeypatch.setenv("SLURM_CPUS_PER_TASK", "8")
    run = make("pyxis", "/images/a.sqsh", ["/opt/x"], ["--no-container-mount-home"])
    assert containers.around(run, ["torchrun", "t.py"], {"A": "1", "RGT_RUN_DIR": "/r"}) == [
        "srun", "--overlap", "--nodes=1", "--ntasks=1", "--input=none", "--nodelist=n7", "--cpus-per-task=8", "--container-image=/images/a.sqsh",
        f"--container-mounts={tmp_path}/run:{tmp_path}/run,/scratch-of-test/ckpt:/scratch-of-test/ckpt,/data:/data,/opt/x:/opt/x:rw", f"--container-workdir={tmp_path}/run/code",
        "--container-env=A,RGT_RUN_DIR", "--no-container-mount-home", "torchrun", "t.py",
    ]  # fmt: skip


def test_only_a_daemon_says_that_it_did_not_start_a_container(make):
    assert "docker didn't start it, exit status 125" in containers.failure(make("docker"), 125)
    assert containers.failure(make("docker"), 1) == "" == containers.failure(make("apptainer"), 125)


# On a box with stand-ins.


def stand_in(box: Box, name: str, text: str) -> Path:
    box.tool(name, "")
    place = box.folder / "bin"
    (place / name).write_text(text.replace("#!PYTHON", f"#!{sys.executable}"))
    return place / "calls"


def calls(place: Path) -> list[list[str]]:
    return [json.loads(line) for line in place.read_text().splitlines()]


def contained(box: Box, *arguments, engine="docker", image="IMAGE", **fields):
    usual = {"launcher": "none", "variables": {"OWN": "it's $(x)"}}
    # The save signal waits up to three seconds for a gap between its saves.
    return box.make(
        "--sleep", 0.3, *arguments, container={"engine": engine, "image": image}, **{**usual, **fields}
    )  # fmt: skip


def test_a_signal_reaches_the_program_in_a_container_of_docker(box: Box):
    seen = stand_in(box, "docker", DOCKER)
    contained(box)
    box.start()
    box.at_step(5)
    [inside] = [pid for pid in box.processes() if b"INSIDE=yes" in Path(f"/proc/{pid}/environ").read_bytes()]  # fmt: skip
    assert b"OWN=it's $(x)" in Path(f"/proc/{inside}/environ").read_bytes()
    os.kill(box.pid("runner"), signal.SIGUSR1)
    assert box.wait("preempted")["reason"] == "signal USR1"
    assert box.output().count(b"leaving") == 1
    box.start()
    assert box.wait()["phase"] == "done", box.log()
    assert (box.run_dir / "final.bin").read_bytes() == undisturbed()
    assert_nothing_repeated(box)
    assert [words[0] for words in calls(seen)] == ["image", "run", "rm", "image", "run", "rm"]


def test_a_container_whose_client_was_killed_is_removed_before_the_next_attempt(box: Box):
    seen = stand_in(box, "docker", DOCKER)
    contained(box, retries={"killed": 3})
    box.start()
    box.at_step(5)
    os.kill(box.pid("train"), signal.SIGKILL)
    assert box.wait()["phase"] == "done", box.log()
    assert (box.run_dir / "final.bin").read_bytes() == undisturbed()
    assert_nothing_repeated(box)
    assert [words[0] for words in calls(seen)] == ["image", "run", "rm", "run", "rm"]


def test_what_cannot_be_seen_from_the_box_is_signalled_by_the_client_and_removed(
    box: Box, monkeypatch
):
    """As in a user namespace: the environment of what is inside can't be read."""
    text = DOCKER.replace("env=env, cwd=folder", 'env={**env, "RGT_SEEN_AS": env.pop("RGT_RUN_DIR")}, cwd=folder')  # fmt: skip
    seen = stand_in(box, "docker", text)
    line = 'import os, sys; os.environ["RGT_RUN_DIR"] = os.environ.pop("RGT_SEEN_AS"); sys.argv = sys.argv[1:]; exec(compile(open(sys.argv[0]).read(), sys.argv[0], "exec"))'  # fmt: skip
    contained(box, command=[sys.executable, "-c", line, str(PROGRAM), "--sleep", "0.1", "--steps", "400"])  # fmt: skip
    box.start()
    box.at_step(5)
    assert box.verb("stop").returncode == 0
    assert b"leaving" in box.output()
    contained(box, command=[sys.executable, "-c", line, str(PROGRAM), "--sleep", "0.1", "--steps", "4000", "--ignore-term"], checkpoint={"save_seconds": 1})  # fmt: skip
    box.start()
    box.until(lambda: len(box.events("attempt")) == 2)
    count = len(box.steps())
    box.until(lambda: len(box.steps()) > count)
    box.verb("stop")
    name = calls(seen)[-1][-1]
    assert calls(seen)[-1][:2] == ["rm", "--force"] and name.startswith("rgt-toy-")
    pid = int((box.folder / f"bin/{name}.pid").read_text())
    box.until(lambda: procs.stat(pid) is None, what="the container is gone")


def test_ranks_in_a_container_hear_the_save(box: Box):
    pytest.importorskip("torch")
    stand_in(box, "docker", DOCKER)
    contained(box, launcher="torchrun", processes=2, variables={"OMP_NUM_THREADS": "1"})
    box.start()
    box.at_step(7)
    os.kill(box.pid("runner"), signal.SIGUSR1)
    assert box.wait("preempted", timeout=60)["reason"] == "signal USR1"
    assert box.output().count(b"leaving") == 2
    box.start()
    assert box.wait(timeout=120)["phase"] == "done", box.log()
    assert (box.run_dir / "final.bin").read_bytes() == undisturbed(ranks=2)


def test_a_container_that_does_not_start_is_no_bug_of_the_training(box: Box):
    stand_in(box, "docker", DOCKER)
    contained(box, image="broken")
    box.start()
    assert box.wait()["phase"] == "failed"
    told = box.marker("failed")
    assert told["class"] == "setup"
    assert told["reason"].startswith("container: docker didn't start it, exit status 125")


def test_a_shell_line_in_apptainer_saves_and_its_engine_comes_from_a_module(box: Box):
    """A line of bash with a pipe: the engine passes a signal to the shell, which would die of it."""
    (box.folder / "IMAGE").write_text("")
    seen = stand_in(box, "apptainer", BELOW)
    tools = box.env["PATH"].split(":", 1)[0]
    box.env["PATH"] = box.env["PATH"].split(":", 1)[1]
    line = f"{sys.executable} {PROGRAM} --sleep 0.1 | cat"
    image = str(box.folder / "IMAGE.sif")
    Path(image).write_text("")
    stand = (box.folder / "bin/apptainer").read_text().replace('"IMAGE"', repr(image))
    (box.folder / "bin/apptainer").write_text(stand)
    contained(box, engine="apptainer", image=image, command=line, setup=[f"PATH={tools}:$PATH"])
    box.env["PATH"] = box.env["PATH"].replace(f"{tools}:", "")
    box.start()
    box.at_step(5)
    os.kill(box.pid("runner"), signal.SIGUSR1)
    assert box.wait("preempted")["reason"] == "signal USR1"
    assert b"leaving" in box.output(), box.output()
    assert calls(seen)[0][:1] == ["exec"] and calls(seen)[0][-3:-1] == ["bash", "-c"]


def refusals(run: Run) -> list[str]:
    return [reason for _, _, reason in preflight.check(run)]


def on_box(tmp_path, monkeypatch, engine, image, tool, **fields):
    (tmp_path / "bin").mkdir(exist_ok=True)
    if tool:
        name = containers.program_of(engine)
        (tmp_path / "bin" / name).write_text(f"#!/bin/sh\n{tool}\n")
        (tmp_path / "bin" / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:/usr/bin:/bin" if tool else str(tmp_path / "bin"))
    given = {"rendered": {"run_dir": str(tmp_path / "run"), "work_dir": str(tmp_path)}, "command": ["x"], "python": "/in/image/python", "launcher": "torchrun", "container": {"engine": engine, "image": image, "mounts": [], "options": []}}  # fmt: skip
    return Run(job_of(given, fields))


@pytest.mark.parametrize(
    ("engine", "image", "tool", "told"),
    [
        ("docker", "a", "exit 0", []),
        ("docker", "a", "echo 'Error: No such image: a'; exit 1", []),
        ("podman", "a", "echo 'Error: inspecting object: a: image not known'; exit 125", []),
        ("docker", "a", "echo 'Cannot connect to the Docker daemon'; exit 1", ["container: docker doesn't answer: Cannot connect to the Docker daemon"]),
        ("docker", "a", "", ["docker is missing on this box"]),
        ("apptainer", "docker://a", "exit 0", []),
        ("apptainer", "a.sif", "exit 0", ["container: there is no image {}/a.sif"]),
        ("singularity", "a", "", ["singularity is missing on this box"]),
        ("pyxis", "a", "echo --container-image", []),
        ("pyxis", "a", "echo --nodes", ["container: this Slurm has no pyxis, srun has no such option"]),
    ],
)  # fmt: skip
def test_an_engine_or_an_image_that_is_not_there_is_refused(
    tmp_path, monkeypatch, engine, image, tool, told
):
    run = on_box(tmp_path, monkeypatch, engine, image, tool)
    assert refusals(run) == [line.format(tmp_path) for line in told]


def test_a_path_that_no_engine_can_bind_is_refused(tmp_path, monkeypatch):
    run = on_box(tmp_path, monkeypatch, "docker", "a", "exit 0", checkpoint={"folder": "/tmp/a,b"})
    monkeypatch.setattr(preflight, "_folder", lambda *_: [])
    assert [told for told in refusals(run) if "no engine can bind" in told]


def test_the_kernel_check_runs_in_a_container_whose_image_is_there(tmp_path, monkeypatch):
    smi = 'case "$*" in *index*) echo "0, GPU-aa, 10, 80000" ;; esac'
    for has_image, told in (
        (0, ["no CUDA kernel runs in /in/image/python: no torch in it"]),
        (1, []),
    ):
        tool = f'[ "$1" != image ] || {{ echo No such image; exit {has_image}; }}\n[ "$1" != run ] || {{ echo no torch in it; exit 1; }}'
        run = on_box(tmp_path, monkeypatch, "docker", "a", tool, gpus=1)
        (tmp_path / "bin/nvidia-smi").write_text(f"#!/bin/sh\n{smi}\n")
        (tmp_path / "bin/nvidia-smi").chmod(0o755)
        assert refusals(run) == told
        assert not run.folder.has(killing.CONTAINER)


WRAPPERS = "bash sh dash zsh ksh mksh ash busybox timeout nice ionice env time stdbuf coreutils apptainer singularity"
FIRSTS = "starter starter-suid docker-init tini catatonit"  # of a container
READERS = "tee cat head tail grep sed gawk mawk tr ts logger"


@pytest.mark.parametrize("above", f"{WRAPPERS} {FIRSTS}".split())
def test_a_save_signal_passes_wrappers_by_and_leaves_readers_alone(above, monkeypatch):
    monkeypatch.setattr(program, "_executable", lambda pid: "")
    monkeypatch.setattr(containers, "roots", lambda *_: [])
    monkeypatch.setattr(program.launchers, "ranks", lambda *_: [])
    names = {10: "bash", 11: above, 12: "python", **dict(enumerate(READERS.split(), 20))}
    among = {pid: procs.Stat(name, "S", 10, 10, 1, 0, 0) for pid, name in names.items()}
    among[10] = procs.Stat("bash", "S", 1, 10, 1, 0, 0)
    among[12] = procs.Stat("python", "S", 11, 10, 1, 0, 0)
    monkeypatch.setattr(procs, "table", lambda: among)
    assert program.save_targets(None, 10) == {12}
    del among[12]  # a shell without a child, that runs what it was given itself
    assert program.save_targets(None, 10) == {11}
    del among[11]
    assert program.save_targets(None, 10) == set(range(20, 31))
