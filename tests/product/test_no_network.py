"""Look-up, rendering, staleness and the server do their whole work without a network: in a namespace that has none, and with sockets forbidden."""

import json
import os
import re
import shutil
import subprocess
import sys

import pytest

from tests.conftest import ROOT
from tests.mcp_server.stdio_server import Child, failed

# Every way out ends the process: 97 is no code of ours.
FORBID = """
import os, sys
def refuse(event, arguments):
    if event in ("socket.connect", "socket.bind", "socket.getaddrinfo", "socket.gethostbyname", "socket.gethostbyaddr", "socket.sendto", "urllib.Request", "http.client.connect", "ftplib.connect"):
        print("network:", event, arguments, file=sys.stderr, flush=True)
        os._exit(97)
    if event == "subprocess.Popen" and os.path.basename(str(arguments[0])) not in ("git", "nvidia-smi", "python3", "sh", os.path.basename(sys.executable)):
        print("program:", arguments[0], file=sys.stderr, flush=True)
        os._exit(97)
sys.addaudithook(refuse)
from remote_gpu_trainer.cli.main import main
sys.exit(main(sys.argv[1:]))
"""
FORBIDDEN = [sys.executable, "-c", FORBID]
PLAIN = [sys.executable, "-m", "remote_gpu_trainer"]
LOGS = ROOT / "examples" / "logs"
# What a look-up counted in the pages, for the next one.
CACHED = re.compile(r"\.cache/remote-gpu-trainer/(words|signatures)-[0-9a-f]{32}")
COMMANDS = [
    (["lookup", "element 0 of tensors does not require grad"], 0),
    (
        [
            "lookup",
            "--log",
            str(LOGS / "bad-label-3-ranks"),
            "--installed",
            str(ROOT / "pyproject.toml"),
        ],
        None,
    ),
    (["lookup", "--log", str(LOGS / "bad-label-3-ranks"), "--json"], 0),
    (["lookup", "--id", "D9"], 0),
    (["render", str(ROOT / "examples" / "jobs" / "finetune.yaml"), "--profile", "runpod"], 0),
    (["profile", "runpod"], 0),
    (["profile", "--need", "spot", "--need", "resume"], 0),
    (["staleness", "--on", "2026-11-20", "--scope", "runpod", "--released", "torch 2.14"], None),
    (["dev", "lint"], None),
    (["dev", "docs"], None),
    (["--version"], 0),
]
CALLS = [
    (
        "lookup_symptom",
        {"symptom": "loss is nan after warmup", "limit": 10, "installed": "torch==2.13.0"},
    ),
    ("lookup_symptom", {"log_path": str(LOGS / "bad-label-3-ranks")}),
    (
        "render_run_script",
        {
            "job": {"name": "sft", "command": ["python", "train.py"], "deadline": "20h"},
            "profile": "vastai",
        },
    ),
    ("check_staleness", {"on": "2027-06-01", "released": "torch 2.14"}),
    ("gpu_health", {}),
]


def without_network() -> list[str]:
    """The command that starts another one without any network."""
    command = ["unshare", "--net", "--map-root-user"] if os.getuid() else ["unshare", "--net"]
    if (
        not shutil.which("unshare")
        or subprocess.run([*command, "true"], capture_output=True).returncode
    ):
        pytest.skip(
            "a namespace without network can't be made here: it takes util-linux, and root or user namespaces; the tests with sockets forbidden ran"
        )
    return command


def test_the_guard_ends_a_process_that_looks_outside():
    code = FORBID.replace("from remote_gpu_trainer.cli.main import main", "import socket").replace(
        "sys.exit(main(sys.argv[1:]))", "socket.create_connection(('192.0.2.1', 80), 1)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 97 and "network: socket." in done.stderr


@pytest.mark.parametrize("args, code", COMMANDS, ids=[" ".join(args)[:40] for args, _ in COMMANDS])
def test_a_command_does_its_work_with_sockets_forbidden(args, code, tmp_path):
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    work = tmp_path / "work"  # a job whose code is the home folder is refused
    work.mkdir()
    done = subprocess.run(
        [*FORBIDDEN, *args], capture_output=True, text=True, timeout=120, env=env, cwd=work
    )
    assert done.returncode in ((code,) if code is not None else (0, 1, 2)), done.stderr
    assert "Traceback" not in done.stderr
    left = [
        path.relative_to(tmp_path).as_posix()
        for path in tmp_path.rglob("*")
        if path.is_file() and path.parent != work
    ]
    assert len(left) <= 2 and all(map(CACHED.fullmatch, left)), "it left something in the home"


def test_the_server_answers_every_tool_with_sockets_forbidden():
    with Child([*FORBIDDEN, "serve"]) as child:
        child.initialize()
        for tool, arguments in CALLS:
            reply = child.call(tool, arguments)
            assert not failed(reply), reply
        for uri in (
            "entry://O7",
            "profile://runpod",
            "schema://job",
            "skill://remote-gpu-trainer/SKILL.md",
        ):
            assert "result" in child.ask("resources/read", {"uri": uri})
        assert "result" in child.ask("prompts/get", {"name": "diagnose_run"})
    assert child.process.returncode == 0, child.errors.decode()


def test_the_same_answers_come_without_any_network():
    cut = without_network()
    for args in (
        ["lookup", "--json", "Target 10 is out of bounds."],
        ["staleness", "--json", "--on", "2026-11-20"],
    ):
        inside = subprocess.run([*cut, *PLAIN, *args], capture_output=True, text=True, timeout=120)
        outside = subprocess.run([*PLAIN, *args], capture_output=True, text=True, timeout=120)
        assert (
            json.loads(inside.stdout) == json.loads(outside.stdout)
            and inside.returncode == outside.returncode
        )


def test_the_server_answers_every_tool_without_any_network():
    with Child([*without_network(), *PLAIN, "serve"]) as child:
        child.initialize()
        for tool, arguments in CALLS:
            assert not failed(child.call(tool, arguments))


def test_a_box_is_only_asked_when_it_is_named():
    """With ssh asked for, the guard stops the process: that is the one way out, and the caller named the box."""
    done = subprocess.run(
        [*FORBIDDEN, "health", "gpubox"], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 97 and "program: ssh" in done.stderr
