"""Checks before the start: what would fail in an hour is refused now.

What may hang is looked at in a child; `beat` goes on meanwhile.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import sys
from contextlib import suppress
from typing import Mapping, NamedTuple

from . import child, containers, durable, killing, launchers, program, secrets, setting_up
from .child import Beat
from .context import Run
from .why import Refusal, refuse

FIRST_SECOND = 1767225600  # 2026-01-01; an earlier clock was never set
FOLDER_LIMIT = 20.0  # seconds in which a folder must answer
CARD_LIMIT = 60.0  # seconds for nvidia-smi, which wakes the cards up
KERNEL_LIMIT = 180.0  # seconds for a first kernel: importing torch from a network disk is slow
SETUP_LIMIT = 600.0  # seconds for the setup: modules and conda on a network disk are slow
IMAGE_LIMIT = 30.0  # seconds in which an engine must say whether it has an image
# What docker and podman say of an image that they would fetch first.
NO_IMAGE = ("no such image", "image not known", "no such object", "unable to inspect")
# What a box that has just booted may still get. `absent`: what has no entry of its own.
LATER = ("absent", "unwritable", "python", "no-gpu", "kernel", "driver")
NO_GPU = "; for a run without a GPU set `gpus: 0` in the job"

_PLAIN_WORD = re.compile(r"[A-Za-z0-9_.+-]+\Z")
_PLAIN_START = re.compile(r"[A-Za-z0-9_.+-]+(?:\s+[\w./+=:,@-]+|\Z)")
# Words of bash that no PATH has to hold.
_OF_BASH = re.compile(
    r"(?:\.|:|alias|bg|break|builtin|case|cd|command|continue|coproc|declare|dirs|echo|enable|eval"
    r"|exec|exit|export|false|fg|for|function|hash|if|jobs|kill|let|local|logout|mapfile|popd|printf"
    r"|pushd|pwd|read|readarray|readonly|return|select|set|shift|shopt|source|test|time|times|trap"
    r"|true|type|typeset|ulimit|umask|unalias|unset|until|wait|while)\Z"
)

# Runs one small kernel on each GPU that the job wants. Says nothing without torch.
KERNEL = """\
import sys
try:
    import torch
except ImportError:
    sys.exit(0)
want = int(sys.argv[1])
if not torch.cuda.is_available() or torch.cuda.device_count() < want:
    sys.exit(f"torch {torch.__version__} sees {torch.cuda.device_count()} GPUs, expected {want}")
for index in range(want):
    assert (torch.ones(64, device=f"cuda:{index}") * 2).sum().item() == 128.0
"""

# Behind the setup: the environment that it leaves, as the last line.
TELL = "import json, os; print(); print(json.dumps(dict(os.environ)))"


class Card(NamedTuple):
    """A GPU as nvidia-smi lists it; MB, None where it doesn't say."""

    index: str
    uuid: str
    used: int | None
    total: int | None


def check(run: Run, sent_at: str = "", beat: Beat | None = None) -> list[Refusal]:
    """Return all that speaks against a start. `sent_at`: the sender's clock, seconds since 1970."""
    env, broken = _after_setup(run, beat)
    found = [
        *(broken or _tools(run, env)),
        *(_container(run, env, beat) if run.spec.container and not broken else ()),
        *_folder(run, "the run folder", run.folder.path, beat),
        *(_folder(run, "the checkpoint folder", run.checkpoints, beat) if run.checkpoints else ()),
        *durable.check(run, beat),
        *_work(run, beat),
        *_clock(run, sent_at),
        *[refuse(run, kind, reason) for kind, reason in secrets.problems(run)],
        *_rendezvous(run, beat),
    ]
    if run.spec.gpus:
        cards = _gpus(run, beat, env)
        found += cards
        # Behind a setup that fails nothing can be said of the interpreter.
        if not broken and not any(refusal.kind == "no-gpu" for refusal in cards):
            found += _kernel(run, beat, env) if _is_at_hand(run, env, beat) else []
    return found


def tell_refusals(run: Run, refusals: list[Refusal]) -> None:
    """Write each refusal into log and events."""
    for refusal in refusals:
        run.log(f"refused {refusal.entry or '-'} {refusal.reason}")
        run.event("refused", entry=refusal.entry, reason=refusal.reason)


def _after_setup(run: Run, beat: Beat | None) -> tuple[dict[str, str], list[Refusal]]:
    """Return the variables that the program will have, and the line of the setup that fails."""
    spec = run.spec
    if not spec.setup:
        # A container is told the names of the run's own variables too.
        env = program.environment(run, 0, "") if spec.container else {**os.environ}
        return {**env, **spec.variables}, []
    env = program.environment(run, 0, "")
    tell = [sys.executable, "-I", "-S", "-c", TELL]
    words = setting_up.before(run.folder, spec.setup, tell)
    code, said = child.ask(run, SETUP_LIMIT, beat, words, env, run.work)
    lines = said.strip().splitlines() or [""]
    if code == 0:
        with suppress(ValueError):
            return json.loads(lines[-1]), []
    fault = setting_up.failure(run.folder, spec.setup)
    if code is None:
        fault = f"setup: no answer within {SETUP_LIMIT:g} s"
    if fault and lines[-1].strip():
        fault += f" ({lines[-1].strip()[:300]})"
    return env, [refuse(run, "absent", fault or f"setup: it ended with {code}: {lines[-1][:300]}")]


def _tools(run: Run, env: Mapping[str, str]) -> list[Refusal]:
    """Look for what is started on the box itself; in a container the image has the rest."""
    spec = run.spec
    needed = ["bash"] if spec.setup else []
    if spec.container:
        needed.append(containers.program_of(spec.container["engine"]))
    elif isinstance(spec.command, str):
        needed.append("bash")
    named = _program_of(run) if not spec.container and spec.launcher == "none" else ""
    if named and named not in needed and not _which(named, env):
        path = env.get("PATH", "")
        fault = f"the command's {named} is not in PATH here ({path[:200]}); write its whole path"
        return [refuse(run, "python", fault)]
    if spec.launcher != "none" and not spec.container:
        needed.append(spec.python)
    return [
        refuse(run, "python", f"{tool} is missing on this box")
        for tool in needed
        if not _which(tool, env)
    ]


def _program_of(run: Run) -> str:
    """Return the program that a command names without a folder, "" where that can't be told.

    What bash has itself is left out, and what begins with anything but a plain word.
    """
    command = run.spec.command
    if isinstance(command, str):
        line = command.strip()
        words = line.split(None, 1) if _PLAIN_START.match(line) else [""]
    else:
        words = command
    word = words[0] if words else ""
    return "" if "/" in word or _OF_BASH.match(word) or not _PLAIN_WORD.match(word) else word


def _container(run: Run, env: Mapping[str, str], beat: Beat | None) -> list[Refusal]:
    """Look for the image where that is cheap, and whether its engine answers."""
    engine, name = run.spec.container["engine"], run.spec.container["image"]
    odd = [bind for bind in containers.binds(run) if "," in bind or bind.count(":") > 2]
    if odd:
        return [refuse(run, "", f"container: {odd[0]} has a ',' or ':', which no engine can bind")]
    if not _which(containers.program_of(engine), env):
        return []
    if containers.is_file(name) and not os.path.exists(containers.image(run)):
        return [refuse(run, "absent", f"container: there is no image {containers.image(run)}")]
    if engine == "pyxis":
        code, said = child.ask(run, IMAGE_LIMIT, beat, ["srun", "--help"], env)
        if code == 0 and "--container-image" not in said:
            return [refuse(run, "", "container: this Slurm has no pyxis, srun has no such option")]
    if engine in ("docker", "podman"):
        code, said = child.ask(run, IMAGE_LIMIT, beat, [engine, "image", "inspect", name], env)
        lines = said.strip().splitlines() or [f"no answer within {IMAGE_LIMIT:g} s"]
        if code != 0 and not any(sign in said.lower() for sign in NO_IMAGE):
            return [refuse(run, "absent", f"container: {engine} doesn't answer: {lines[-1][:300]}")]
    return []


def _is_at_hand(run: Run, env: Mapping[str, str], beat: Beat | None) -> bool:
    """Return whether a check can run in the program's surroundings without fetching an image."""
    if not run.spec.container:
        return True
    engine, name = run.spec.container["engine"], run.spec.container["image"]
    if engine in ("docker", "podman"):
        return child.ask(run, IMAGE_LIMIT, beat, [engine, "image", "inspect", name], env)[0] == 0
    return engine != "pyxis" and os.path.exists(containers.image(run))


def _which(tool: str, env: Mapping[str, str]) -> str | None:
    """Return where the program would find a tool."""
    return shutil.which(tool, path=env.get("PATH"))


def _folder(run: Run, what: str, folder: str, beat: Beat | None) -> list[Refusal]:
    """Look whether a folder can be written and has room."""
    try:
        is_writable, megabytes, inodes = child.call(
            run, _try_folder, folder, limit=FOLDER_LIMIT, beat=beat
        )
    except child.Failed as failed:
        return [refuse(run, "unwritable", f"{what} {folder} can't be looked at: {failed}")]
    floors = run.spec.floors
    least = megabytes_of(floors.free_gb), floors.free_inodes
    found = judge_folder(f"{what} {folder}", is_writable, megabytes, inodes, *least)
    return [refuse(run, *reason) for reason in found]


def megabytes_of(gigabytes: float) -> int:
    """Return gigabytes as whole megabytes."""
    return round(gigabytes * 1000)


def judge_folder(
    name: str,
    is_writable: bool,
    megabytes: int | None,
    inodes: int | None,
    least_megabytes: int,
    least_inodes: int,
) -> list[tuple[str, str]]:
    """Return (kind, reason) for what a folder lacks. None: what isn't known of it."""
    # A full disk is told as one; anything else as a folder that can't be written.
    if not is_writable and megabytes != 0:
        return [("unwritable", f"{name} is not writable")]
    found = []
    if megabytes is not None and megabytes < max(least_megabytes, 0 if is_writable else 1):
        numbers = f"{megabytes} MB free, expected {least_megabytes} MB"
        found.append(("disk", f"{name} has less room than floors.free_gb: {numbers}"))
    if inodes is not None and inodes < least_inodes:
        numbers = f"{inodes} inodes free, expected {least_inodes}"
        found.append(("inodes", f"{name} has fewer inodes than floors.free_inodes: {numbers}"))
    return found


def _try_folder(folder: str) -> list[int | bool | None]:
    """Return whether it can be written, and its free MB and inodes, None for what isn't known."""
    file = os.path.join(folder, f".rgt-write-{os.getpid()}")
    is_writable = True
    try:
        os.makedirs(folder, exist_ok=True)
        with open(file, "wb") as written:
            written.write(b"x")
            written.flush()
            os.fsync(written.fileno())
    except OSError:
        is_writable = False
    with suppress(OSError):
        os.unlink(file)
    try:
        room = os.statvfs(folder)
    except OSError:
        return [is_writable, None, None]
    # btrfs and network mounts count no inodes.
    inodes = room.f_favail if room.f_files else None
    return [is_writable, room.f_bavail * room.f_frsize // (1 << 20), inodes]


def _work(run: Run, beat: Beat | None) -> list[Refusal]:
    """Look at the work folder and the files that the command names."""
    command = run.spec.command
    words = command.split() if isinstance(command, str) else command
    found = [] if words else [refuse(run, "", "the job has no command; set `command`")]
    try:
        is_there, bad = child.call(run, _try_work, run.work, words, limit=FOLDER_LIMIT, beat=beat)
    except child.Failed as failed:
        return [
            *found,
            refuse(run, "absent", f"the work folder {run.work} can't be looked at: {failed}"),
        ]
    if not is_there:
        found.append(refuse(run, "absent", f"the work folder {run.work} is missing"))
    for word in bad:
        reason = f"{word} has Windows line ends: sed -i 's/\\r$//' {word}"
        found.append(refuse(run, "crlf", reason))
    return found


def _try_work(folder: str, words: list[str]) -> list[object]:
    """Return whether the folder is there, and the scripts among the words with Windows line
    ends."""
    bad = []
    for word in words:
        path = os.path.join(folder, word)
        if len(word) > 4096 or "\n" in word or not os.path.isfile(path):
            continue
        with suppress(OSError), open(path, "rb") as file:
            text = file.read(1 << 20)
            if (path.endswith(".sh") or text.startswith(b"#!")) and b"\r\n" in text:
                bad.append(word)
    return [os.path.isdir(folder), bad]


def _clock(run: Run, sent_at: str) -> list[Refusal]:
    found = []
    now = int(run.now)
    if now < FIRST_SECOND:
        found.append(refuse(run, "clock", f"the clock says {now}, before 2026"))
    try:
        away = now - int(float(sent_at))
    except (ValueError, OverflowError):
        return found
    if abs(away) > 300:
        reason = f"the clock differs from the sender's by {away} s, more than 300"
        found.append(refuse(run, "clock", reason))
    return found


def _rendezvous(run: Run, beat: Beat | None) -> list[Refusal]:
    """Wait until the first node's name is known: it may come a while after the node."""
    spec, host = run.spec, launchers.rendezvous(run.spec)[0]
    if spec.nodes == 1 or spec.launcher == "none":
        return []
    if not host:
        reason = "the address of the first node is unknown; set `rendezvous` in the job"
        return [refuse(run, "", reason)]
    until = run.up + spec.timings.name_wait
    while True:
        with suppress(child.Failed):
            child.call(run, _resolve, host, limit=10, beat=beat)
            return []
        if run.up >= until or run.asked:
            return [refuse(run, "absent", f"can't resolve the first node's name, {host}")]
        run.clock.nap(2)
        if beat is not None:
            beat()


def _resolve(host: str) -> None:
    socket.getaddrinfo(host, None)


def _gpus(run: Run, beat: Beat | None, env: Mapping[str, str]) -> list[Refusal]:
    want = run.spec.gpus
    if not shutil.which("nvidia-smi"):
        return [refuse(run, "no-gpu", f"nvidia-smi is missing, expected {want} GPUs{NO_GPU}")]
    query = ["nvidia-smi", "--query-gpu=index,uuid,memory.used,memory.total"]
    form = "--format=csv,noheader,nounits"
    code, said = child.ask(run, CARD_LIMIT, beat, [*query, form])
    if code != 0:
        return [refuse(run, "no-gpu", f"nvidia-smi failed or hung: {said[:200].strip()}{NO_GPU}")]
    cards = _cards(said)
    if len(cards) < want:
        hint = "" if cards else NO_GPU
        return [refuse(run, "no-gpu", f"found {len(cards)} GPUs, expected {want}{hint}")]
    query = ["nvidia-smi", "--query-compute-apps=gpu_uuid,pid,used_memory"]
    code, said = child.ask(run, CARD_LIMIT, beat, [*query, form])
    rows = [[cell.strip() for cell in line.split(",")] for line in said.splitlines()]
    apps = [row for row in rows if len(row) == 3] if code == 0 else []
    chosen = _visible(cards, env.get("CUDA_VISIBLE_DEVICES", ""))[:want]
    shared = run.spec.gpus_shared
    busy = [reason for card in chosen if not shared for reason in _busy(card, apps)]
    return [refuse(run, *reason) for reason in busy]


def _cards(said: str) -> list[Card]:
    found = []
    for line in said.splitlines():
        cells = [cell.strip() for cell in line.split(",")]
        if len(cells) == 4 and cells[0].isdigit():
            used, total = (int(cell) if cell.isdigit() else None for cell in cells[2:])
            found.append(Card(cells[0], cells[1], used, total))
    return found


def _visible(cards: list[Card], named: str) -> list[Card]:
    """Return the cards that the program takes: those that CUDA_VISIBLE_DEVICES names, else all."""
    if not named:
        return cards
    names = [name.strip() for name in named.split(",")]
    return [
        card
        for card in cards
        if card.index in names or any(name and card.uuid.startswith(name) for name in names)
    ]


def _busy(card: Card, apps: list[list[str]]) -> list[tuple[str, str]]:
    """Return (kind, reason) for each process that holds the card's memory."""
    found = []
    for uuid, pid, used in apps:
        # A display server or an idle MPS daemon holds a little.
        if uuid == card.uuid and not (used.isdigit() and int(used) < 64):
            found.append(("busy", f"GPU {card.index} is used by process {pid} ({used} MB)"))
    # In a container the list is empty although the memory is taken.
    if not found and card.used and card.total and card.used > max(2048, card.total // 10):
        taken = f"{card.used} of {card.total} MB in use by a process that is not listed"
        found.append(("held", f"GPU {card.index} has {taken}"))
    return found


def _kernel(run: Run, beat: Beat | None, env: Mapping[str, str]) -> list[Refusal]:
    """Run one small kernel on each GPU, in the program's own interpreter and variables."""
    python = run.spec.python
    if not run.spec.container and not _which(python, env):
        return [refuse(run, "python", f"the interpreter {python} is missing")]
    words = [python, "-c", KERNEL, str(run.spec.gpus)]
    code, said = child.ask(run, KERNEL_LIMIT, beat, containers.around(run, words, env), env)
    killing.end_container(run.folder)
    if code == 0:
        return []
    lines = said.strip().splitlines() or [f"no answer within {KERNEL_LIMIT:g} s"]
    kind = "driver" if "driver" in lines[-1] else "kernel"
    return [refuse(run, kind, f"no CUDA kernel runs in {python}: {lines[-1][:300]}")]
