"""Every command in a block of README.md and of docs/index.md, which goes on where README ends, as it stands there, in a clone of this
checkout, and what they show of its answers.

`BOX` is a loopback box, MY_PROJECT a small training. Two sections are run elsewhere (ELSEWHERE): by CI itself, and in the real clients.
"""

import asyncio
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import sysconfig
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest
from mcp import Client, StdioServerParameters

from tests.conftest import ROOT, module
from tests.engines.sshd import boxes, sshd  # noqa: F401

README = (ROOT / "README.md").read_text(encoding="utf-8")
HOME = (ROOT / "docs/index.md").read_text(encoding="utf-8")
AGENTS = (ROOT / "docs/guides/coding-agents.md").read_text(encoding="utf-8")
# Who runs the blocks of a section that isn't run here.
ELSEWHERE = {
    "In a coding agent": "tests/product/test_clients_installed.py",
    "Test it": ".ci/run",
}
SHOWN_LINE = "ssh -p 40122 root@203.0.113.7 -i KEY"
# What a command ends with here, where that isn't 0: its answer is bad, or there is no GPU to see.
EXITS = {
    "rgt logs BOX -f": 130,
    "rgt fit": 1,
    "rgt init": 1,  # a deadline and a place that outlives the box are the user's to say
    "rgt health BOX": 1,  # no GPU here, and eight expected
    "rgt lookup --log BOX": 1,
    "rgt lookup --log snap": 1,
}


class Block:
    """Commands of a page, and below them what it shows of their answers."""

    def __init__(self, heading: str, text: str):
        self.heading, self.text, self.shown = heading, text, ""
        self.lines = [
            line.split("  #")[0].rstrip() for line in text.splitlines() if line[:1] not in ("", "#")
        ]

    @property
    def needs_box(self) -> bool:
        return "BOX" in self.text


def blocks_of(text: str) -> list[Block]:
    found: list[Block] = []
    for part in re.split(r"^## ", text, flags=re.M):
        heading = part.split("\n", 1)[0]
        for kind, body in re.findall(r"^```(\w*)\n(.*?)^```$", part, re.M | re.S):
            assert kind in ("sh", "text", "json", "yaml"), kind
            if kind == "sh":
                found.append(Block(heading, body))
            elif kind == "text":
                assert not found[-1].shown
                found[-1].shown = body
    return found


BLOCKS = blocks_of(README) + blocks_of(HOME)
FIRST, *REST = [block for block in BLOCKS if block.heading not in ELSEWHERE]
HERE = [block for block in REST if not block.needs_box]
TRAIN = [block for block in HERE if re.search("rgt (probe|rehearse|start)", block.text)]
ANSWER = [block for block in HERE if block not in TRAIN]
OWN = [block for block in REST if "MY_PROJECT" in block.text]
ON_A_BOX = [block for block in REST if block.needs_box and block not in OWN]


def pattern(shown: str) -> str:
    """What is shown as a pattern: `…` stands for whole lines, at the end of a line for its rest."""
    lines = [
        r"(?:.*\n)*?" if line == "…" else re.escape(line).replace("…", ".*") + r"\n"
        for line in shown.splitlines()
    ]
    return "^" + "".join(lines)


def answered(block: Block, cwd: Path, env: dict[str, str]) -> str:
    """Run the lines of a block, one shell each, and look at their exit codes and at what README shows of them."""
    said = ""
    for line in block.lines:
        follows = line.startswith("rgt logs BOX -f")  # until Ctrl-C, or the end of the run
        until = "timeout --foreground --preserve-status --signal=INT 4 " if follows else ""
        done = subprocess.run(
            ["bash", "-c", until + line],
            cwd=cwd,
            env=env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=300,
        )
        wanted = next((code for start, code in EXITS.items() if line.startswith(start)), 0)
        assert done.returncode == wanted, f"{line}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
        said += done.stdout + done.stderr
    if block.shown:
        assert re.search(pattern(block.shown), said, re.M), f"README shows another answer: {said}"
    return said


def programs(folder: Path, **commands: str) -> Path:
    """A folder with these programs, each of which runs a shell command with its arguments."""
    folder.mkdir()
    for name, command in commands.items():
        path = folder / name.replace("_", "-")
        path.write_text(f'#!/bin/sh\nexec {command} "$@"\n', encoding="utf-8")
        path.chmod(0o755)
    return folder


def git(cwd: Path, *words: str) -> None:
    who = ["-c", "safe.directory=*", "-c", "user.name=a", "-c", "user.email=a@example.org"]
    subprocess.run(["git", *who, *words], cwd=cwd, check=True, capture_output=True)


def committed(folder: Path, *under: str) -> Path:
    """A repository with the files of this checkout, as they are now."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "-co", "--exclude-standard", "--", *under],
        cwd=ROOT,
        check=True,
        capture_output=True,
    ).stdout.split(b"\0")
    for name in map(os.fsdecode, filter(None, listed)):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes((ROOT / name).read_bytes())
            (folder / name).chmod((ROOT / name).stat().st_mode)
    git(folder, "init", "-q")
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "as it is")
    return folder


@pytest.fixture
def clone(tmp_path):
    """A clone in which the program is installed, and its environment, with a home of its own."""
    python = shlex.quote(sys.executable)
    found = programs(
        tmp_path / "bin",
        rgt=f"{python} -m remote_gpu_trainer",
        remote_gpu_trainer=f"{python} -m remote_gpu_trainer",
        python=python,
    )
    (tmp_path / "here").mkdir()
    env = {
        **os.environ,
        "PATH": f"{found}{os.pathsep}{os.environ['PATH']}",
        "HOME": str(tmp_path / "here"),
        "XDG_STATE_HOME": str(tmp_path / "state"),
        "GIT_CONFIG_GLOBAL": str(tmp_path / "none"),
    }
    folder = tmp_path / "clone"
    folder.mkdir()
    return committed(folder, "examples", "tests/gpu_health/gpu_captures"), env


def test_each_section_with_commands_is_run_here_or_says_where():
    assert {block.heading for block in BLOCKS} >= ELSEWHERE.keys()
    for path in ELSEWHERE.values():
        assert "README" in (ROOT / path).read_text(encoding="utf-8")
    assert (
        (README + HOME).count("```sh\n") == len(BLOCKS)
        and len(ANSWER) >= 3
        and len(TRAIN) == 1
        and len(ON_A_BOX) >= 4
    )
    lines = [line for block in REST for line in block.lines]
    assert all(line.startswith("rgt ") for line in lines)
    named = {line.split()[1] for line in lines}
    assert named >= {"init", "rehearse", "start", "status", "release"}
    assert named >= {"fit", "probe", "profile", "health", "lookup", "snapshot"}
    assert {start for start in EXITS if not any(line.startswith(start) for line in lines)} == set()


def test_the_first_commands_go_from_the_clone_to_the_answer(tmp_path):
    """As a stranger types them. The address leads to this checkout, and the dependencies are those that are here."""
    origin = tmp_path / "origin"
    origin.mkdir()
    committed(origin)
    venv = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(venv)], check=True)
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    borrowed = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    (venv / "lib" / version / "site-packages" / "borrowed.pth").write_text("\n".join(borrowed))
    pip = programs(tmp_path / "pip", pip=f"{shlex.quote(str(venv / 'bin/python'))} -m pip")
    address = re.search(r"https://\S+", FIRST.lines[0])[0]
    env = {
        **os.environ,
        "PATH": os.pathsep.join([str(venv / "bin"), str(pip), os.environ["PATH"]]),
        "HOME": str(tmp_path),
        "PIP_NO_DEPS": "1",
        "PIP_NO_BUILD_ISOLATION": "0",  # pip reads this the other way round: none
        "PIP_NO_INDEX": "1",
        "GIT_CONFIG_COUNT": "2",
        "GIT_CONFIG_KEY_0": f"url.file://{origin}.insteadOf",
        "GIT_CONFIG_VALUE_0": address,
        "GIT_CONFIG_KEY_1": "safe.directory",
        "GIT_CONFIG_VALUE_1": "*",
    }
    env.pop("PYTHONPATH", None)
    done = subprocess.run(
        ["bash", "-ec", FIRST.text + "command -v rgt\n"],
        cwd=tmp_path,
        env=env,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    assert re.search(pattern(FIRST.shown), done.stdout, re.M), done.stdout
    assert done.stdout.rstrip().endswith(str(venv / "bin/rgt"))
    log = subprocess.run(
        ["git", "-C", str(tmp_path / "remote-gpu-trainer"), "rev-list", "--count", "HEAD"],
        env=env,
        capture_output=True,
        text=True,
    )
    assert log.stdout.strip() == "1"


def first_words(block: Block) -> str:
    return " ".join(block.lines[0].split()[1:3])


@pytest.mark.parametrize("block", ANSWER, ids=first_words)
def test_the_commands_that_answer_at_once_run_in_the_clone(block, clone):
    answered(block, *clone)


@pytest.mark.parametrize("block", TRAIN, ids=first_words)
def test_the_commands_that_train_here_run_in_the_clone(block, clone):
    module("torch", "pip install -e '.[proofs]'")
    answered(block, *clone)


# What MY_PROJECT holds: a training as most people write one.
PROGRAM = """\
import glob, os, time
import torch

model = torch.nn.Linear(1, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
os.makedirs("out", exist_ok=True)
saved, first = sorted(glob.glob("out/step_*.pt")), 0
if saved:
    state = torch.load(saved[-1])
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    first = state["step"]
for step in range(first + 1, 181):
    x = torch.rand(64, 1)
    loss = torch.nn.functional.mse_loss(model(x), 3 * x + 1)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"step {step} loss {loss.item():.4f}", flush=True)
    time.sleep(0.5)
    if step % 10 == 0:
        state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}
        torch.save(state, f"out/step_{step:03d}.pt")
torch.save(model.state_dict(), "out/final.pt")
"""


def kill_the_program(code: Path) -> None:
    """As a stranger's `kill -9` does, once the run's program has saved."""
    end = time.monotonic() + 100
    while time.monotonic() < end:
        for process in Path("/proc").glob("[0-9]*") if list(code.glob("out/*.pt")) else ():
            with suppress(OSError):
                words = (process / "cmdline").read_bytes().split(b"\0")
                if b"train.py" in words and (process / "cwd").samefile(code):
                    os.kill(int(process.name), signal.SIGKILL)
                    return
        time.sleep(0.2)


def test_a_session_on_ones_own_code_outlives_a_kill(clone, boxes):
    module("torch", "pip install -e '.[proofs]'")
    folder, env = clone
    [box] = boxes("BOX")
    env["REMOTE_GPU_TRAINER_SSH_CONFIG"] = os.environ["REMOTE_GPU_TRAINER_SSH_CONFIG"]
    # The box finds the Python that has torch.
    env["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{env['PATH']}"
    project = folder / "MY_PROJECT"
    project.mkdir()
    (project / "train.py").write_text(PROGRAM, encoding="utf-8")
    git(folder, "add", "-A")
    [block] = OWN
    drafted, rest = block.lines[:1], block.lines[1:]
    answered(Block("", "\n".join(drafted)), folder, env)
    job = project / "job.yaml"
    text = job.read_text(encoding="utf-8")
    assert "gpus: 1" in text and "checkpoint: {folder: out" in text
    text = re.sub("(?m)^gpus: 1 ", "gpus: 0 ", text)  # there is none here
    python = re.search(r"command: \[(\w+), train.py\]", text)[1]
    job.write_text(text.replace(f"[{python},", f"[{sys.executable},"), encoding="utf-8")
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "mine")
    started = [line for line in rest if line.startswith(("rgt rehearse", "rgt start"))]
    answered(Block("", "\n".join(started)), folder, env)
    killer = threading.Thread(target=kill_the_program, args=(box.home / "runs/my-project/code",))
    killer.start()
    session = Block("", "\n".join(line for line in rest if line not in started))
    session.shown = block.shown
    answered(session, folder, env)
    killer.join()
    assert list((folder / "results").rglob("final.pt"))


def test_the_commands_for_a_box_run_one_after_the_other(clone, boxes):
    """Health, a start, a stop, a resume, a log there, a snapshot, and the results home: README's order."""
    folder, env = clone
    [box] = boxes("BOX")
    env["REMOTE_GPU_TRAINER_SSH_CONFIG"] = os.environ["REMOTE_GPU_TRAINER_SSH_CONFIG"]
    for block in ON_A_BOX:
        answered(block, folder, env)
    final = json.loads((folder / "results/code/out/final.json").read_text(encoding="utf-8"))
    assert final["step"] == 60 and (box.home / "runs/try-me").is_dir()


def test_the_line_of_a_provider_is_a_box_whose_key_is_shown_at_first_contact(clone, sshd):
    assert f"`'{SHOWN_LINE}'`" in README
    folder, env = clone
    line = f"rgt health '{sshd.line}'"
    done = subprocess.run(
        ["bash", "-c", line], cwd=folder, env={**env, **sshd.env()}, capture_output=True, text=True
    )
    assert done.returncode == 2 and "repeat with --accept-new-host-key" in done.stdout


def pasted() -> dict:
    return json.loads(re.search(r"```json\n(.*?)```", AGENTS, re.S)[1])


def test_the_block_for_other_clients_starts_the_server(clone):
    folder, env = clone
    [(name, server)] = pasted()["mcpServers"].items()
    assert name == "remote-gpu-trainer"

    async def listed():
        # The transport finds the program on the PATH that it is given.
        line = ["-c", 'exec "$0" "$@"', server["command"], *server["args"]]
        params = StdioServerParameters(command="sh", args=line, env=env, cwd=folder)
        async with Client(params) as client:
            return (await client.list_tools()).tools

    assert "lookup_symptom" in [tool.name for tool in asyncio.run(listed())]


def test_the_line_for_vs_code_names_the_same_server():
    line = json.loads(re.search(r"`code --add-mcp '(.*?)'`", AGENTS)[1])
    assert {line.pop("name"): line} == pasted()["mcpServers"]


def test_the_two_pieces_of_a_job_are_one_that_renders(tmp_path):
    """The six lines, and those that act while nobody watches."""
    whole, more = re.findall(r"```yaml\n(.*?)```", README, re.S)
    assert whole.count("\n") == 6
    (tmp_path / "train.py").write_text("", encoding="utf-8")
    job = tmp_path / "job.yaml"
    job.write_text(whole + more, encoding="utf-8")
    command = [sys.executable, "-m", "remote_gpu_trainer"]
    command += ["render", str(job), "--profile", "runpod"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "runpodctl" in done.stdout and "ntfy.sh/your-topic" in done.stdout


@pytest.mark.parametrize(
    ("shown", "fits"),
    [
        ("a\nb\n", True),
        ("a\n…\nd\n", True),
        ("a\nc …\n", False),
        ("b\nc: …\n", True),
        ("a\nd\n", False),
        ("b\na\n", False),
    ],
)
def test_what_is_shown_is_compared_line_by_line(shown, fits):
    assert bool(re.search(pattern(shown), "a\nb\nc: 12\nd\n", re.M)) is fits
