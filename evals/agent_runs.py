"""One task for one client in one empty folder.

What the client answered, what it called, what it spent, and how the answer is graded. The client is
any program that takes a prompt and prints an answer: as plain text, as one JSON object, or as JSON
lines.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path

NAME = "remote-gpu-trainer"
# Lays out a task's files in an empty folder, and gives the prompt.
Prepared = Callable[[dict, Path], AbstractContextManager[str]]
# Grades an answer; the second value says whether the agent called the skill or the look-up.
Marker = Callable[[str, bool | None], dict[str, bool]]
SKILL_FOLDERS = (
    ".claude/skills",
    ".agents/skills",
    ".gemini/skills",
)  # opencode and Codex read the second
_CALLS = {"tool_use", "tool_call", "tool", "function_call", "mcp_tool_call", "command_execution"}
_TOKENS = (
    "input_tokens",
    "output_tokens",
    "cache_creation_input_tokens",
    "cache_read_input_tokens",
)


@dataclass
class Run:
    """What a client did with a task.

    `tokens` and `called` are None where the client doesn't tell. `error` says why there is no
    answer, and is empty where there is one.
    """

    task: int | str
    arm: str
    answer: str = ""
    called: bool | None = None
    tokens: int | None = None
    seconds: float = 0.0
    error: str = ""
    marks: dict[str, bool] = field(default_factory=dict)

    @property
    def passed(self) -> bool:
        """Whether the answer got every mark that its task asks for."""
        return bool(self.marks) and all(self.marks.values())


def run(
    task: dict,
    arm: str,
    command: list[str],
    skill: dict[str, bytes],
    timeout: float,
    prepared: Prepared,
    marked: Marker,
) -> Run:
    """Ask the client once, in a folder with the task's files and, in the arm `with`, the skill.

    `prepared` lays out the files and gives the prompt; `marked` grades the answer.
    """
    with tempfile.TemporaryDirectory(prefix="agent-eval-") as name:
        work = Path(name) / "work"
        env = {
            **os.environ,
            "PWD": str(work),
        }  # opencode believes PWD more than the folder that it is started in
        work.mkdir()
        with prepared(task, work) as prompt:
            if arm == "with":
                for place in SKILL_FOLDERS:
                    for path, data in skill.items():
                        file = work / place / NAME / path
                        file.parent.mkdir(parents=True, exist_ok=True)
                        file.write_bytes(data)
                env["PATH"] = str(Path(sys.executable).parent) + os.pathsep + env.get("PATH", "")
            words = [word.replace("{prompt}", prompt) for word in command]
            if words == command:
                words.append(prompt)
            started = time.monotonic()
            code, out, err = _wait(words, work, env, Path(name), timeout)
            done = Run(task["id"], arm, seconds=time.monotonic() - started)
    events = read_events(out)
    done.answer, done.tokens, done.called = (
        answer_of(events, out),
        tokens_of(events),
        called(events),
    )
    if code:
        done.error = (
            f"no end within {timeout:g} s"
            if code == "timeout"
            else f"exit code {code}: {err.strip()[-200:]}"
        )
    elif not done.answer.strip():
        done.error = "an empty answer"
    done.marks = {} if done.error else marked(done.answer, done.called)
    return done


def lay_out(files: list[str], root: Path, work: Path) -> list[str]:
    """Copy a task's files under names that tell nothing. Returns the names."""
    if not files:
        return []
    if len(files) == 1:
        names = ["output.log"]
    else:
        parent = os.path.commonpath(files)
        names = [f"logs/{os.path.relpath(file, parent)}".replace(os.sep, "/") for file in files]
    for file, name in zip(files, names, strict=True):
        (work / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(root / file, work / name)
    return names


def told(names: list[str]) -> str:
    """The sentence behind the prompt that names the attached files."""
    return f"\n\nAttached, in the current folder: {', '.join(names)}" if names else ""


def _wait(
    words: list[str], work: Path, env: dict, place: Path, timeout: float
) -> tuple[int | str, str, str]:
    """(exit code or 'timeout', stdout, stderr).

    Ends the client with everything that it started. Raises OSError when it can't be started.
    """
    out, err = place / "out", place / "err"
    with out.open("wb") as o, err.open("wb") as e:
        child = subprocess.Popen(
            words,
            cwd=work,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=o,
            stderr=e,
            start_new_session=os.name == "posix",
        )
        try:
            code: int | str = child.wait(timeout)
        except subprocess.TimeoutExpired:
            code = "timeout"
        finally:
            if os.name == "posix":
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(child.pid, signal.SIGKILL)
            elif child.poll() is None:
                child.kill()
            child.wait()
    return code, out.read_text("utf-8", "replace"), err.read_text("utf-8", "replace")


def read_events(out: str) -> list[dict]:
    """The JSON objects that a client printed: one, a list, or one a line. None in plain text."""
    try:
        whole = json.loads(out)
        return [
            event
            for event in (whole if isinstance(whole, list) else [whole])
            if isinstance(event, dict)
        ]
    except ValueError:
        pass
    events = []
    for line in out.splitlines():
        try:
            event = json.loads(line)
        except ValueError:
            continue
        if isinstance(event, dict):
            events.append(event)
    return events


def answer_of(events: list[dict], out: str) -> str:
    """The text for the user, or all of stdout where no known form is found.

    Known are Claude Code's `result`, Gemini CLI's `response`, and the messages of Codex and
    opencode.
    """
    if not events:
        return out
    said, pieces = [], []
    for event in events:
        part = event.get("item") or event.get("part") or {}
        if isinstance(event.get("result"), str):
            return event["result"]
        if isinstance(event.get("response"), str):
            return event["response"]
        if (
            isinstance(part, dict)
            and part.get("type") in ("agent_message", "text")
            and isinstance(part.get("text"), str)
        ):
            said.append(part["text"])
        if (
            event.get("type") == "message"
            and event.get("role") == "assistant"
            and isinstance(event.get("content"), str)
        ):
            pieces.append(event["content"])  # Gemini CLI's JSON lines
    return "\n".join(said) or "".join(pieces)


def tokens_of(events: list[dict]) -> int | None:
    """All tokens, in and out, cached ones too.

    Where a client prints sums, only the last counts.
    """
    sums = [
        event for event in events if "result" in event and isinstance(event.get("usage"), dict)
    ][-1:] or events
    total, told_any = 0, False
    for event in sums:
        counts = []
        if isinstance(event.get("usage"), dict):
            counts = [event["usage"].get(name) for name in _TOKENS]
        elif isinstance(event.get("part"), dict) and isinstance(event["part"].get("tokens"), dict):
            spent = event["part"]["tokens"]
            cache = spent.get("cache")
            counts = [spent.get(name) for name in ("input", "output", "reasoning")] + list(
                cache.values() if isinstance(cache, dict) else ()
            )
        elif isinstance(event.get("stats"), dict) and "total_tokens" in event["stats"]:
            counts = [event["stats"]["total_tokens"]]
        elif isinstance(event.get("stats"), dict) and isinstance(
            event["stats"].get("models"), dict
        ):
            counts = [
                (model.get("tokens") or {}).get("total")
                for model in event["stats"]["models"].values()
                if isinstance(model, dict)
            ]
        counts = [count for count in counts if isinstance(count, int)]
        total, told_any = total + sum(counts), told_any or bool(counts)
    return total if told_any else None


def called(events: list[dict]) -> bool | None:
    """Did it load the skill or call the look-up? None where the client doesn't list its calls."""
    calls = [node for node in _nodes(events) if node.get("type") in _CALLS]
    if any(
        NAME in (text := json.dumps(_asked(call))) or "lookup_symptom" in text for call in calls
    ):
        return True
    return False if len(events) > 1 else None


def _asked(call: dict) -> list:
    """What the agent asked for, without what came back: a folder's listing names the skill too."""
    state = call.get("state")
    return [
        call.get(key)
        for key in (
            "name",
            "tool",
            "tool_name",
            "server",
            "input",
            "arguments",
            "parameters",
            "command",
        )
    ] + [state.get("input") if isinstance(state, dict) else None]


def _nodes(value):
    waiting = [value]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            yield value
            waiting.extend(value.values())
        elif isinstance(value, list):
            waiting.extend(value)


def marks(grade: dict, answer: str, was_called: bool | None, ids: list[str]) -> dict[str, bool]:
    """What the task asks for, each as right or wrong."""
    if grade.get("silent"):
        named = rf"(?:entry\s+|\*\*|`|\(|^#+\s*)(?:{'|'.join(map(re.escape, ids))})(?![\w-])"
        return {
            "silent": not was_called and NAME not in answer and not re.search(named, answer, re.M)
        }
    low, found = answer.casefold(), {}
    if "entry" in grade:
        found["entry"] = any(
            re.search(rf"(?<![\w-]){re.escape(one)}(?![\w-])", answer) for one in grade["entry"]
        )
    for name in ("command", "caution"):
        found[name] = any(_said(word.casefold(), low) for word in grade[name])
    return found


def _said(word: str, answer: str) -> bool:
    """`ask` is said in "asked" and not in "task"."""
    return (
        re.search(("(?<![a-z0-9])" if re.match("[a-z0-9]", word) else "") + re.escape(word), answer)
        is not None
    )
