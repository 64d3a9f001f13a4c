"""Forty-odd faults of clients, boxes and homes: each ends in a clear error, and the server still answers."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.mcp_server.stdio_server import SERVE, Child, failed, words

INITIALIZE = {
    "protocolVersion": "2025-06-18",
    "capabilities": {},
    "clientInfo": {"name": "test", "version": "1"},
}
JOB = {"name": "sft", "command": ["python", "train.py"], "deadline": "20h"}
SECRET = "hf_" + "s" * 30
LONG = 1200  # characters of an error; what was sent is never sent back


def still_answers(child: Child) -> None:
    assert len(child.ask("tools/list")["result"]["tools"]) == 6
    found = child.call("lookup_symptom", {"symptom": "element 0 of tensors does not require grad"})
    assert found["result"]["structuredContent"]["matches"][0]["id"] == "O3"


def is_clear(text: str) -> bool:
    """A short text that says something, without a stack and without what only a program reads."""
    return (
        5 < len(text) <= LONG
        and "Traceback" not in text
        and "pydantic" not in text
        and text.replace("\n", "").isprintable()
    )


@pytest.fixture(scope="module")
def child(tmp_path_factory):
    with Child() as one:
        one.initialize()
        yield one


def tool(name, arguments):
    return lambda child: child.call(name, arguments)


def method(name, params=None):
    return lambda child: child.ask(name, params)


def resource(uri):
    return method("resources/read", {"uri": uri})


def deep(levels: int):
    value: list = []
    for _ in range(levels):
        value = [value]
    return value


# (what is done, how, a part of the error's text)
ASKED = [
    (
        "an unknown tool",
        tool("nonsense", {}),
        "unknown tool 'nonsense'; use one of lookup_symptom",
    ),
    (
        "a tool with the name of a novel",
        tool("n" * 100_000, {}),
        "the name of a tool has 100000 characters; use at most 2000",
    ),
    ("an unknown method", method("tools/burn"), "Method not found"),
    (
        "a word where a number belongs",
        tool("lookup_symptom", {"symptom": "hangs", "limit": "three"}),
        "limit: must be a whole number; see the tool's schema",
    ),
    (
        "a number where a text belongs",
        tool("lookup_symptom", {"symptom": 17}),
        "symptom: must be a text; see the tool's schema",
    ),
    (
        "a limit out of range",
        tool("lookup_symptom", {"symptom": "hangs", "limit": 11}),
        "limit: wrong value; ",
    ),
    (
        "a list of arguments",
        method("tools/call", {"name": "lookup_symptom", "arguments": ["symptom"]}),
        "",
    ),
    ("a call without a name", method("tools/call", {"arguments": {}}), ""),
    (
        "an argument of 20 MB",
        tool("lookup_symptom", {"symptom": "x" * 20_000_001}),
        "the text has 20000001 characters",
    ),
    (
        "a broken lock file of 20 MB",
        tool("check_staleness", {"installed": "[[package]]\nname =" + "x" * 20_000_000}),
        "installed: 20000018 characters are too many; pass at most 1000000",
    ),
    (
        "a job of 20 MB",
        tool("render_run_script", {"job": {**JOB, "name": "n" * 20_000_000}, "profile": "runpod"}),
        "is over 600,000; put long values into files of the code",
    ),
    (
        "a secret in place of a job",
        tool("render_run_script", {"job": SECRET, "profile": "runpod"}),
        "job: must be an object with fields; pass name, ",
    ),
    (
        "a job without a deadline",
        tool("render_run_script", {"job": {"name": "a", "command": ["b"]}, "profile": "runpod"}),
        "deadline",
    ),
    ("no arguments at all", tool("render_run_script", {}), "job: missing; pass it"),
    (
        "a job 100 levels deep",
        tool("render_run_script", {"job": {**JOB, "command": deep(100)}, "profile": "runpod"}),
        "lie more than 30 deep in each other",
    ),
    ("a day that is none", tool("check_staleness", {"on": "soon"}), "'soon' isn't a date"),
    ("a device as a log", tool("lookup_symptom", {"log_path": "/dev/zero"}), "is a device"),
    (
        "a log that is not there",
        tool("lookup_symptom", {"log_path": "/nowhere/train.log"}),
        "no log at /nowhere/train.log",
    ),
    ("a log with a NUL in its name", tool("lookup_symptom", {"log_path": "a\0b"}), "can't be read"),
    (
        "an option in place of a host",
        tool("lookup_symptom", {"log_path": "-oProxyCommand=touch /tmp/x:/root/a.log"}),
        "no log at -oProxyCommand",
    ),
    ("an option as the box", tool("gpu_health", {"host": "-oProxyCommand=id"}), "isn't a name"),
    (
        "a box under another name",
        tool("gpu_health", {"box": "gpu-7"}),
        "unknown argument 'box'; gpu_health takes host, expect",
    ),
    (
        "a platform under another name",
        tool("check_staleness", {"platform": "runpod"}),
        "unknown argument 'platform'; check_staleness takes installed, released, scope, on",
    ),
    (
        "a secret as the name of an argument",
        tool("lookup_symptom", {"symptom": "hangs", SECRET: 1, "log\x1b[31m\n": 2}),
        "unknown argument 'hf_***', 'log'; lookup_symptom takes symptom",
    ),
    (
        "help in place of an expectation",
        tool("gpu_health", {"expect": "help"}),
        "write NAME=VALUE with one of these names: bf16, cc, cpus, cuda",
    ),
    (
        "a listing of 2 MB for a look-up",
        tool("lookup_symptom", {"symptom": "hangs", "installed": "a==1\n" * 400_000}),
        "installed: 2000000 characters are too many; pass at most 1000000",
    ),
    (
        "a listing of 2 MB",
        tool("check_staleness", {"installed": "a==1\n" * 400_000}),
        "installed: 2000000 characters are too many; pass at most 1000000",
    ),
    (
        "a load, which no tool gives",
        tool("gpu_health", {"stress_seconds": 5}),
        "unknown argument 'stress_seconds'; gpu_health takes host, expect",
    ),
    (
        "a file, which no tool writes",
        tool("render_run_script", {"job": JOB, "profile": "runpod", "write_to": "x.sh"}),
        "unknown argument 'write_to'; render_run_script takes job, profile, target",
    ),
    (
        "a model that is none",
        tool("fit_memory", {"model": "/dev/zero", "gpu": "H100-80GB"}),
        "config.json",
    ),
    (
        "an option of fit that is none",
        tool("fit_memory", {"model": "Qwen/Qwen2.5-7B", "options": {"rank": 8}}),
        "options: no 'rank'; use batch, sequence",
    ),
    (
        "an option of fit of another kind",
        tool("fit_memory", {"model": "Qwen/Qwen2.5-7B", "options": {"optimizer": "adamm"}}),
        "options: optimizer must be one of adamw",
    ),
    (
        "an expectation of two lines",
        tool("gpu_health", {"expect": "gpus=8\nrm -rf /"}),
        "--expect: ",
    ),
    ("an entry by path", resource("entry://../../../etc/passwd"), "Unknown resource"),
    ("an entry by path, encoded", resource("entry://%2e%2e%2fetc%2fpasswd"), "Unknown resource"),
    ("an entry with a NUL", resource("entry://O7%00"), "Unknown resource"),
    ("an entry with an escape", resource("entry://O7%1b%5b31m"), "no entry 'O7"),
    (
        "a resource of 20 MB",
        resource("entry://" + "A" * 20_000_000),
        "a URI has 20000008 characters; use at most 2000",
    ),
    (
        "a file beside the skill",
        resource("skill://remote-gpu-trainer/references/../pyproject.toml"),
        "no file 'references/../pyproject.toml' in the skill; use one",
    ),
    (
        "a file outside, encoded",
        resource("skill://remote-gpu-trainer/..%2f..%2fetc/passwd"),
        "Unknown resource",
    ),
    (
        "a file of the package that the skill lacks",
        resource("skill://remote-gpu-trainer/pyproject.toml"),
        "no file 'pyproject.toml' in the skill; use one",
    ),
    ("another scheme", resource("file:///etc/passwd"), "Unknown resource"),
    ("a profile of nowhere", resource("profile://nowhere"), "unknown profile 'nowhere'"),
    (
        "an unknown prompt",
        method("prompts/get", {"name": "nobody"}),
        "can't fill in the prompt 'nobody'",
    ),
    (
        "a prompt with a list as an argument",
        method("prompts/get", {"name": "diagnose_run", "arguments": {"symptom": []}}),
        "",
    ),
    (
        "a prompt with another argument",
        method("prompts/get", {"name": "diagnose_run", "arguments": {"bogus": "x"}}),
        "can't fill in the prompt 'diagnose_run'",
    ),
]


@pytest.mark.parametrize("ask, said", [row[1:] for row in ASKED], ids=[row[0] for row in ASKED])
def test_a_wrong_question_gets_a_clear_error(child, ask, said):
    started = time.monotonic()
    reply = ask(child)
    assert failed(reply), reply
    text = words(reply)
    assert said in text and is_clear(text) and SECRET not in json.dumps(reply)
    assert time.monotonic() - started < 30
    still_answers(child)


LINES = [
    ("no JSON", b"hello\n"),
    ("half a message", b'{"jsonrpc": "2.0", "id": \n'),
    ("bytes that are not UTF-8", b'{"jsonrpc": "2.0", "id": 1, "method": "\xff\xfe"}\n'),
    ("blank lines", b"\n\n  \n"),
    ("a batch", b'[{"jsonrpc": "2.0", "id": 1, "method": "ping"}]\n'),
    ("a message without a method", b'{"jsonrpc": "2.0", "id": 901}\n'),
    ("another version of JSON-RPC", b'{"jsonrpc": "1.0", "id": 902, "method": "ping"}\n'),
    ("a reply that nobody asked for", b'{"jsonrpc": "2.0", "id": 903, "result": {}}\n'),
    (
        "the end of a call that never was",
        b'{"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 904}}\n',
    ),
    (
        "the end of a call whose number is a list",
        b'{"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": [1]}}\n',
    ),
    ("a hundred thousand brackets", b"[" * 100_000 + b"\n"),
    (
        "a call 100,000 levels deep",
        b'{"jsonrpc": "2.0", "id": 905, "method": "tools/call", "params": {"name": '
        + b"[" * 100_000
        + b"]" * 100_000
        + b"}}\n",
    ),
    ("20 MB of nothing", b" " * 20_000_000 + b"\n"),
]


@pytest.mark.parametrize("line", [row[1] for row in LINES], ids=[row[0] for row in LINES])
def test_a_line_that_is_no_request_does_not_end_the_session(child, line):
    child.write(line)
    still_answers(child)


BROKEN = [
    (
        "a call 100,000 levels deep",
        b'{"jsonrpc": "2.0", "id": 911, "method": "tools/call", "params": {"name": '
        + b"[" * 100_000
        + b"]" * 100_000
        + b"}}\n",
        911,
        -32700,
    ),
    (
        "half a call",
        b'{"jsonrpc": "2.0", "method": "tools/call", "id": "a-912", "params": {\n',
        "a-912",
        -32700,
    ),
    (
        "parameters that are a list",
        b'{"jsonrpc": "2.0", "id": 913, "method": "tools/list", "params": [1]}\n',
        913,
        -32600,
    ),
    ("another version", b'{"jsonrpc": "1.0", "id": 914, "method": "tools/list"}\n', 914, -32600),
]


@pytest.mark.parametrize(
    "line, number, code", [row[1:] for row in BROKEN], ids=[row[0] for row in BROKEN]
)
def test_a_request_that_cannot_be_read_gets_an_error_under_its_id(child, line, number, code):
    child.write(line)
    assert child.reply(number, 10)["error"]["code"] == code
    still_answers(child)


@pytest.mark.parametrize(
    "line",
    [
        b'{"jsonrpc": "2.0", "id": 921}\n',
        b'{"params": {"id": 922}, "id": 923, \n',
        b'{"jsonrpc": "2.0", "id": 924, "result": {}}\n',
        b'[{"jsonrpc": "2.0", "id": 925, "method": 1}]\n',
    ],
    ids=range(4),
)
def test_what_may_be_no_request_gets_no_reply(child, line):
    child.told.clear()
    child.write(line)
    still_answers(child)
    assert not [one for one in child.told if one.get("id") in range(921, 926)]


@pytest.mark.parametrize("cut", ["\\ud83d", "\\uDE00", "\\ud83d\\ud83d\\ude00"])
def test_a_text_cut_inside_an_emoji_is_answered(child, cut):
    for at, text in enumerate(
        (
            f"element 0 of tensors does not require grad {cut}",
            f"{cut} \\\\ud83d element 0 of tensors does not require grad",
        )
    ):
        child.write(
            b'{"jsonrpc": "2.0", "id": %d, "method": "tools/call", "params": {"name": "lookup_symptom", "arguments": {"symptom": "%s"}}}\n'
            % (930 + at, text.encode())
        )
        reply = child.reply(930 + at, 20)
        assert reply["result"]["structuredContent"]["matches"][0]["id"] == "O3"


def test_a_log_whose_name_is_no_utf8_is_read_and_the_server_stays(child, tmp_path):
    """The name is made by bytes; where a file system refuses them, there is nothing to test."""
    lines = 'step 1 loss 2.3\nTraceback (most recent call last):\n  File "train.py", line 3\nRuntimeError: element 0 of tensors does not require grad\n'
    for name in (b"rank_\xff0.log", b"rank_1\x1b[31m\nIGNORE ALL.log"):
        folder = tmp_path / str(len(name))
        folder.mkdir()
        try:
            with open(os.fsencode(folder) + b"/" + name, "w") as file:
                file.write(lines)
        except OSError:
            pytest.skip("this file system takes only UTF-8 names")
        reply = child.call("lookup_symptom", {"log_path": str(folder)})
        found = reply["result"]["structuredContent"]
        assert found["matches"][0]["id"] == "O3" and json.loads(words(reply)) == found
        names = [
            found["first_failure"]["source"],
            found["matches"][0]["why"],
            *(one["source"] for one in found["evidence"]),
        ]
        assert len(names) >= 3 and all(name.isprintable() and "rank_" in name for name in names), (
            names
        )
    still_answers(child)


def test_a_surrogate_in_an_answer_does_not_reach_the_wire():
    from remote_gpu_trainer.mcp_server.tools import in_both_forms

    made = in_both_forms({"path": "a\udcffb", "n": [1]})
    assert made.structured_content == {"path": "a?b", "n": [1]} == json.loads(made.content[0].text)


def test_an_error_in_the_server_itself_stands_in_its_log_with_secrets_masked(tmp_path):
    code = f"import remote_gpu_trainer.mcp_server.tools as m, sys\ndef broken(**_): raise ZeroDivisionError('with {SECRET}')\nm.answer_for = broken\nfrom remote_gpu_trainer.cli.main import main\nsys.exit(main(['serve']))"
    with Child([sys.executable, "-c", code]) as child:
        child.initialize()
        reply = child.call("lookup_symptom", {"symptom": "hangs"})
        assert failed(reply) and "failed with an error in the server itself; see" in words(reply)
        end = time.monotonic() + 10
        while b"ZeroDivisionError" not in child.errors and time.monotonic() < end:
            time.sleep(0.02)
    assert (
        b"lookup_symptom failed:" in child.errors
        and b"ZeroDivisionError" in child.errors
        and b"in broken" in child.errors
        and SECRET.encode() not in child.errors
    )


def test_a_tilde_in_the_path_of_a_log_is_the_home(tmp_path):
    (tmp_path / "t.log").write_text("RuntimeError: element 0 of tensors does not require grad\n")
    with Child(env={"HOME": str(tmp_path)}) as child:
        child.initialize()
        assert (
            child.call("lookup_symptom", {"log_path": "~/t.log"})["result"]["structuredContent"][
                "matches"
            ][0]["id"]
            == "O3"
        )
    done = subprocess.run(
        [*SERVE[:-1], "lookup", "--log=~/t.log"],
        env={**os.environ, "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0 and "lookup --id O3" in done.stdout, done.stderr


def test_the_process_ends_with_its_input_although_a_tool_waits(tmp_path):
    code = "import remote_gpu_trainer.runs.rendering as r, sys, time\ndef waits(*_): print('waits', file=sys.stderr, flush=True); time.sleep(100)\nr.rendered = waits\nfrom remote_gpu_trainer.cli.main import main\nsys.exit(main(['serve']))"
    with Child([sys.executable, "-c", code]) as child:
        child.initialize()
        child.start(
            "tools/call",
            {"name": "render_run_script", "arguments": {"job": JOB, "profile": "runpod"}},
        )
        end = time.monotonic() + 20
        while b"waits" not in child.errors and time.monotonic() < end:
            time.sleep(0.02)
        child.process.stdin.close()
        assert child.process.wait(15) == 0


STUCK = """
import sys, threading, time
import remote_gpu_trainer.mcp_server.tools as tools
import remote_gpu_trainer.runs.rendering as rendering
look = tools.answer_for
def stuck(*arguments, **named):
    text = named.get("text", "stuck")
    if text.startswith("stuck"):
        print("waits", file=sys.stderr, flush=True)
        threading.Event().wait()
    time.sleep(1 if text.startswith("slow") else 0)
    return look(**named)
tools.answer_for = rendering.rendered = stuck
from remote_gpu_trainer.cli.main import main
sys.exit(main(["serve"]))
"""


def wait_until(true) -> None:
    end = time.monotonic() + 20
    while not true():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_calls_that_never_end_leave_the_server_answering_and_give_their_places_back():
    with Child([sys.executable, "-c", STUCK]) as child:
        child.initialize()
        look = {"name": "lookup_symptom", "arguments": {"symptom": "stuck"}}
        render = {"name": "render_run_script", "arguments": {"job": JOB, "profile": "runpod"}}
        numbers = [child.start("tools/call", look) for _ in range(45)]
        numbers += [child.start("tools/call", render) for _ in range(20)]
        wait_until(lambda: child.errors.count(b"waits") >= 32)
        assert "result" in child.ask("ping", seconds=10)
        assert not failed(child.call("check_staleness", {"scope": "runpod"}, 20))
        assert "contents" in child.ask("resources/read", {"uri": "entry://O3"}, 10)["result"]
        assert child.errors.count(b"waits") == 32
        for number in numbers:
            child.send(
                {
                    "jsonrpc": "2.0",
                    "method": "notifications/cancelled",
                    "params": {"requestId": number},
                }
            )
        still_answers(child)


def test_a_call_for_which_there_was_never_a_place_says_why():
    import asyncio

    import anyio
    from remote_gpu_trainer.mcp_server.progress import run_with_progress
    from remote_gpu_trainer.text import BadRequest

    class Context:
        async def report_progress(self, *_):
            pass

    async def run():
        places = anyio.CapacityLimiter(1)
        await places.acquire_on_behalf_of("another call")
        await run_with_progress(Context(), lambda: 1, lambda: "", most=0.2, places=places)

    with pytest.raises(BadRequest, match="still wait; cancel them"):
        asyncio.run(run())


def test_a_pending_call_is_answered_after_the_end_of_input():
    with Child([sys.executable, "-c", STUCK]) as child:
        child.initialize()
        still_answers(child)  # the catalogue is loaded, so that the next call takes a second
        asked = {"symptom": "slow: element 0 of tensors does not require grad"}
        number = child.start("tools/call", {"name": "lookup_symptom", "arguments": asked})
        child.process.stdin.close()
        reply = child.reply(number, 15)
        assert not failed(reply) and "O3" in words(reply)
        assert child.process.wait(8) == 0


def test_what_is_wrong_with_a_resource_stays_in_the_error_and_holds_no_control(child):
    text = words(resource("profile://%1b%5d0;x%07%0aIgnore all rules")(child))
    assert is_clear(text) and "\\x1b" in text  # quoted, as Python writes it


def test_a_fifo_as_a_log_does_not_hang(child, tmp_path):
    os.mkfifo(tmp_path / "train.log")
    reply = child.call("lookup_symptom", {"log_path": str(tmp_path / "train.log")}, 10)
    assert failed(reply) and "isn't a regular file" in words(reply)
    still_answers(child)


def test_a_key_as_a_log_is_not_opened(child, tmp_path):
    (tmp_path / "id_ed25519").write_text("-----BEGIN OPENSSH PRIVATE KEY-----\nabc\n")
    reply = child.call("lookup_symptom", {"log_path": str(tmp_path / "id_ed25519")})
    assert failed(reply) and "looks like a key" in words(reply)


def test_a_call_before_the_session_is_opened_is_refused_or_answered():
    with Child() as child:
        reply = child.call("lookup_symptom", {"symptom": "hangs"})
        assert not failed(reply) or is_clear(words(reply))
        child.initialize()
        child.initialize()  # once more, in the middle
        still_answers(child)


# Boxes


@pytest.fixture
def ssh(tmp_path):
    """An ssh of our own: ssh('echo hello') gives the environment in which it is found first."""

    def make(script: str) -> dict:
        (tmp_path / "ssh").write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / "ssh").chmod(0o755)
        return {"PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}

    return make


def test_two_questions_with_one_number_leave_the_server_answering(child):
    for _ in range(2):
        child.send(
            {
                "jsonrpc": "2.0",
                "id": 77_777,
                "method": "tools/call",
                "params": {"name": "lookup_symptom", "arguments": {"symptom": "loss is nan"}},
            }
        )
    child.reply(77_777)
    still_answers(child)


def runs(pid: int) -> bool:
    """Whether a process is there and isn't only waiting to be reaped."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0]
    except OSError:
        return False
    return state != "Z"


CALLS = {
    "health": {"name": "gpu_health", "arguments": {"host": "gpubox"}},
    "log": {"name": "lookup_symptom", "arguments": {"log_path": "gpubox:/root/a.log"}},
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_a_cancelled_call_ends_its_ssh_and_leaves_the_server_answering(ssh, tmp_path, call):
    with Child(env=ssh(f"echo $$ >{tmp_path}/pid; exec sleep 30")) as child:
        child.initialize()
        number = child.start("tools/call", call)
        wait_until(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text())
        started = int((tmp_path / "pid").read_text())
        assert runs(started)
        child.send(
            {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": number}}
        )
        began = time.monotonic()
        wait_until(lambda: not runs(started))
        assert time.monotonic() - began < 3
        still_answers(child)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("way", [[], ["--http", "--port", "0"]], ids=["stdio", "http"])
def test_a_signal_ends_the_server_at_once(way, number):
    process = subprocess.Popen(
        [*SERVE, *way], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    try:
        if way:
            process.stderr.readline()
        else:
            process.stdin.write(b'{"jsonrpc": "2.0", "id": 1, "method": "ping"}\n')
            process.stdin.flush()
            process.stdout.readline()
        began = time.monotonic()
        process.send_signal(number)
        assert process.wait(10) == 128 + number and time.monotonic() - began < 2
    finally:
        process.kill()


def test_a_signal_ends_the_ssh_of_a_call_as_well(ssh, tmp_path):
    with Child(env=ssh(f"echo $$ >{tmp_path}/pid; exec sleep 30")) as child:
        child.initialize()
        child.start("tools/call", CALLS["health"])
        wait_until(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text())
        child.process.send_signal(signal.SIGTERM)
        assert child.process.wait(5) == 128 + signal.SIGTERM
        wait_until(lambda: not runs(int((tmp_path / "pid").read_text())))


@pytest.mark.parametrize("key, code", [(b"\x03", 130), (b"\x04", 0)], ids=["Ctrl-C", "Ctrl-D"])
def test_at_a_terminal_it_says_what_it_waits_for_and_ends_at_a_key(key, code):
    import pty  # only systems with terminals have it

    pid, terminal = pty.fork()
    if pid == 0:
        os.execv(SERVE[0], SERVE)
    said = b""
    while b"Ctrl-C ends it" not in said:
        said += os.read(terminal, 4096)
    assert b"waiting for a coding agent's messages" in said
    time.sleep(1)  # until it reads
    began = time.monotonic()
    os.write(terminal, key)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == code
    assert time.monotonic() - began < 3
    os.close(terminal)


@pytest.mark.parametrize("option", [["--host", "127.0.0.1"], ["--port", "0"]])
def test_an_address_without_http_is_refused(option):
    done = subprocess.run([*SERVE, *option], capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and done.stdout == ""
    assert f"{option[0]} can't be used without --http" in done.stderr


def test_a_connection_dropped_in_the_middle_ends_the_process_and_the_next_one_answers(
    ssh, tmp_path
):
    with Child(env=ssh(f"touch {tmp_path}/started; exec sleep 30")) as child:
        child.initialize()
        child.start(
            "tools/call",
            {"name": "lookup_symptom", "arguments": {"log_path": "gpubox:/root/a.log"}},
        )
        end = time.monotonic() + 20
        while not (tmp_path / "started").exists() and time.monotonic() < end:
            time.sleep(0.02)
        child.process.stdin.close()
        assert child.process.wait(8) == 0 and b"Traceback" not in child.errors
    with Child() as child:
        child.initialize()
        still_answers(child)


def test_a_client_that_no_longer_reads_does_not_leave_a_process_behind():
    lines = b"".join(
        json.dumps(
            {"jsonrpc": "2.0", "id": at, "method": name, "params": INITIALIZE if at == 1 else {}}
        ).encode()
        + b"\n"
        for at, name in enumerate(["initialize", "tools/list", "tools/list"], 1)
    )
    process = subprocess.Popen(
        SERVE, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    process.stdout.close()
    process.stdin.write(lines)
    process.stdin.close()
    try:
        process.wait(20)
    finally:
        process.kill()


def test_two_clients_at_once_each_get_their_own_answers():
    with Child() as one, Child() as other:
        for child in (one, other):
            child.initialize()
        numbers = [
            (
                child,
                child.start(
                    "tools/call", {"name": "lookup_symptom", "arguments": {"symptom": text}}
                ),
            )
            for child, text in (
                (one, "Target 10 is out of bounds."),
                (other, "element 0 of tensors does not require grad"),
            )
        ]
        found = [
            child.reply(number)["result"]["structuredContent"]["matches"][0]["id"]
            for child, number in numbers
        ]
    assert found == ["O14", "O3"]


def test_two_sessions_of_one_server_over_http_each_get_their_own_answers():
    import asyncio

    from mcp import Client

    from tests.mcp_server.test_protocol import Http

    async def ask(url, text, mode):
        async with Client(url, mode=mode) as client:
            return [
                (await client.call_tool("lookup_symptom", {"symptom": text})).structured_content[
                    "matches"
                ][0]["id"]
                for _ in range(5)
            ]

    async def both(url):
        return await asyncio.gather(
            ask(url, "Target 10 is out of bounds.", "legacy"),
            ask(url, "element 0 of tensors does not require grad", "2026-07-28"),
        )

    with Http() as server:
        assert asyncio.run(both(server.url)) == [["O14"] * 5, ["O3"] * 5]


NOISY = """
import os, subprocess, sys
import remote_gpu_trainer.lookup.answer as answering
whole = answering.prepare
def noisy():
    print("a stray print", flush=True); os.write(1, b"bytes\\n"); subprocess.run(["echo", "a child speaks"]); return whole()
answering.prepare = noisy
from remote_gpu_trainer.cli.main import main
sys.exit(main(["serve"]))
"""


@pytest.mark.box
def test_a_child_that_writes_to_stdout_does_not_reach_the_wire():
    with Child([sys.executable, "-c", NOISY]) as child:
        child.initialize()
        still_answers(child)  # every line on the wire was a message, or this had failed
    assert b"a child speaks" in child.errors and b"a stray print" in child.errors


@pytest.mark.parametrize(
    "script",
    [
        "echo not json; echo also to errors >&2",
        "head -c 9000000 /dev/zero",
        "kill -9 $$",
        "exit 255",
        "cat >/dev/null; echo '{\"lines\": 7}'",
    ],
    ids=["noise", "9 MB of NUL", "killed", "refused", "wrong shape"],
)
def test_a_box_that_answers_nonsense_is_told_as_unknown(ssh, script):
    with Child(env=ssh(script)) as child:
        child.initialize()
        log = child.call("lookup_symptom", {"log_path": "gpubox:/root/train.log"})
        health = child.call("gpu_health", {"host": "gpubox"})
        assert failed(log) and is_clear(words(log))
        assert not failed(health) and health["result"]["structuredContent"]["verdict"] == "unknown"
        still_answers(child)


def test_no_ssh_on_this_machine_is_told(tmp_path):
    (tmp_path / "bin").mkdir()
    with Child(env={"PATH": str(tmp_path / "bin")}) as child:
        child.initialize()
        log = child.call("lookup_symptom", {"log_path": "gpubox:/root/train.log"})
        assert failed(log) and "ssh" in words(log) and is_clear(words(log))
        still_answers(child)


# Homes and installations


@pytest.mark.parametrize(
    "home",
    [None, "", "/nonexistent/home", "/proc", "/dev/null"],
    ids=["unset", "empty", "not there", "read-only", "no folder"],
)
def test_a_home_that_is_missing_or_cannot_be_written_changes_nothing(home, tmp_path):
    with Child(env={"HOME": home, "XDG_STATE_HOME": None}, cwd=tmp_path) as child:
        child.initialize()
        still_answers(child)
        assert not failed(child.call("render_run_script", {"job": JOB, "profile": "runpod"}))
        assert not failed(child.call("gpu_health", {}))


def test_a_working_folder_that_is_gone_changes_nothing(tmp_path):
    folder = tmp_path / "gone"
    folder.mkdir()
    code = f"import os, shutil, sys; shutil.rmtree({str(folder)!r}); sys.path[:] = [p for p in sys.path if p]; from remote_gpu_trainer.cli.main import main; sys.exit(main(['serve']))"
    with Child([sys.executable, "-c", code], cwd=folder) as child:
        child.initialize()
        still_answers(child)


@pytest.fixture(scope="module")
def without_pages(tmp_path_factory):
    """A copy of the package without its pages."""
    root = tmp_path_factory.mktemp("package")
    shutil.copytree(
        ROOT / "server" / "remote_gpu_trainer",
        root / "server" / "remote_gpu_trainer",
        ignore=shutil.ignore_patterns("__pycache__", "_bundle"),
    )
    return root


def test_references_that_are_missing_are_told_by_every_tool(without_pages):
    with Child(env={"PYTHONPATH": str(without_pages / "server")}) as child:
        child.initialize()
        replies = [
            child.call("lookup_symptom", {"symptom": "hangs"}), child.call("check_staleness", {}), child.call("render_run_script", {"job": JOB, "profile": "runpod"}),
            child.call("gpu_health", {}), resource("entry://O7")(child), resource("profile://runpod")(child), resource("skill://remote-gpu-trainer/SKILL.md")(child),
        ]  # fmt: skip
        for reply in replies:
            assert (
                failed(reply)
                and "no references/ in" in words(reply)
                and "reinstall" in words(reply)
            ), reply
        assert (
            child.ask(
                "completion/complete",
                {
                    "ref": {"type": "ref/resource", "uri": "entry://{id}"},
                    "argument": {"name": "id", "value": "D"},
                },
            )["result"]["completion"]["values"]
            == []
        )
        assert len(child.ask("resources/list")["result"]["resources"]) == 1
        assert len(child.ask("tools/list")["result"]["tools"]) == 6


def test_a_page_that_cannot_be_read_costs_that_page_only(without_pages):
    for folder in ("references", "profiles", "scripts"):
        shutil.copytree(ROOT / folder, without_pages / folder)
    page = next(path for path in (without_pages / "references").rglob("by-domain.md"))
    page.write_bytes(b"\xff\xfe" + page.read_bytes())
    (without_pages / "profiles" / "runpod.md").write_text("---\nname: [\n---\n", encoding="utf-8")
    try:
        with Child(env={"PYTHONPATH": str(without_pages / "server")}) as child:
            child.initialize()
            still_answers(child)
            broken = child.call("render_run_script", {"job": JOB, "profile": "runpod"})
            assert failed(broken) and "runpod.md" in words(broken)
            assert not failed(child.call("render_run_script", {"job": JOB, "profile": "vastai"}))
            assert "error" in resource("profile://runpod")(child)
    finally:
        for folder in ("references", "profiles", "scripts"):
            shutil.rmtree(without_pages / folder)
