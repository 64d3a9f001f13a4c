#!/usr/bin/env python3
# Generated from the modules in server/remote_gpu_trainer/snapshot/.
# Edit them there, then run: rgt dev docs --write
"""Show where each rank of a training run stands, and what vanishes with its processes or its box.

usage: snapshot.py [--limit 20] [--json] [--to FOLDER] [RUN]

RUN is a name under ~/runs, or a folder; by default the run that is alive, else the newest one;
without any, whatever trains here.

Asked are the stacks of all ranks (by the fault handler that the runner puts into them, else by
py-spy), the calls in which they wait, the cards, the kernel's log, memory, disks, connections,
dumps of the Flight Recorder, versions, and the last lines of the logs. It only reads, and a disk
that hangs doesn't hold it up: after --limit seconds it shows what has answered, and names what is
missing.

--json prints all of it. --to writes a new folder with page.md, snapshot.json and stacks.log.
--why stall or --why failure says on the page what it is taken for. With --abort, processes whose
stacks can't be had otherwise are ended so that they write them first; only who is about to kill
them anyway wants that.

Exit codes: 0 with a snapshot, 1 where there is neither a run nor anything that trains, 2 where the
run's folder is closed to this user, or can't be written. Linux, Python 3.8 or newer.
"""

from __future__ import annotations

import argparse
import base64
import glob
import json
import os
import re
import select
import shutil
import signal
import socket
import subprocess
import sys
import time
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from stat import S_ISDIR, S_ISREG
from typing import Any, NamedTuple

# ---- proc.py
# What /proc tells of processes. Runs on the box too: Python 3.8, standard library only.

# Who notes its pid and start in a run's folder, and where. An older version had a file NAME.pid for
# each of them, and what it started may live on.
NOTED = {
    "train": "attempt.json",
    "runner": "lock",
    "supervisor": "own/supervisor.lock",
    "sync": "own/sync.lock",
}
_PAIR = re.compile(r'(?:.*"pid": )?(\d+),? (?:"start": )?(\d+)')


class Stat(NamedTuple):
    """What /proc/PID/stat tells. `start`: clock ticks since boot, which tell two owners of a pid
    apart. `ticks`: those that it has computed; `ended_ticks`: those of its children that it reaped.
    `ended`: the wait status of one that is dead.
    """

    name: str
    state: str
    parent: int
    session: int
    start: int
    ticks: int
    ended_ticks: int
    ended: int = 0

    @property
    def lives(self) -> bool:
        """Whether it is more than an entry that its parent hasn't waited for."""
        return self.state not in "ZX"


def read_stat(pid: int) -> Stat | None:
    """Return a process's stat, of a dead one too until it is reaped; None where it is gone."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            head, _, rest = file.read().decode("utf-8", "replace").rpartition(")")
    except OSError:
        return None
    words = rest.split()
    if len(words) < 20:
        return None
    return Stat(
        name=head.partition("(")[2],
        state=words[0],
        parent=int(words[1]),
        session=int(words[3]),
        start=int(words[19]),
        ticks=int(words[11]) + int(words[12]),
        ended_ticks=int(words[13]) + int(words[14]),
        ended=int(words[49]) if len(words) > 49 else 0,
    )


def read_table() -> dict[int, Stat]:
    """Return all processes, the dead among them; {} on a system that doesn't tell them."""
    rows = {}
    with suppress(OSError):
        rows = {int(name): read_stat(int(name)) for name in os.listdir("/proc") if name.isdigit()}
    return {pid: row for pid, row in rows.items() if row is not None}


def is_same_process(pid: int, start: int) -> bool:
    """Return whether this very process lives; its pid may belong to another one by now."""
    stat = read_stat(pid) if pid else None
    return stat is not None and stat.lives and stat.start == start


def read_noted(folder: str, name: str) -> tuple[int, int]:
    """Return pid and start of a run's `train`, `runner`, `supervisor` or `sync`, alive or
    not; (0, 0) where none is noted."""
    for file in (NOTED[name], f"{name}.pid"):
        with suppress(OSError), open(os.path.join(folder, file), errors="replace") as text:
            told = text.read(1 << 16)
            if found := _PAIR.match(told):
                return int(found[1]), int(found[2])
            if told.isspace():  # blank, where an older version's is empty
                break
    return 0, 0


def read_environment(pid: int) -> dict[str, str]:
    """Return a process's environment as it began; {} where it can't be read."""
    pairs = read_pairs(pid)
    split = (pair.decode("utf-8", "surrogateescape").partition("=") for pair in pairs if pair)
    return {name: value for name, _, value in split}


def read_pairs(pid: int) -> list[bytes]:
    """Return a process's environment as it began, each NAME=VALUE; [] where it can't be read."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return file.read().split(b"\0")
    except OSError:
        return []


def read_words(pid: int) -> bytes:
    """Return the words that a process was started with, each with a zero byte behind it; b"" where
    they can't be read."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return file.read()
    except OSError:
        return b""


def with_descendants(pids: Iterable[int], table: Mapping[int, Stat]) -> set[int]:
    """Return those of the processes that live, and all that lives below them."""
    among = {pid: stat.parent for pid, stat in table.items() if stat.lives}
    family = {pid for pid in pids if pid in among}
    grew = True
    while grew:
        more = {pid for pid, parent in among.items() if parent in family} - family
        family |= more
        grew = bool(more)
    return family


def send_signal(pid: int, number: int) -> None:
    """Signal a process that may be gone."""
    with suppress(OSError):
        os.kill(pid, number)


def read_executable(pid: int) -> str:
    """Return the path of the program that a process runs, '' where it can't be read."""
    try:
        return os.readlink(f"/proc/{pid}/exe")
    except OSError:
        return ""


def read_open_files(pid: int) -> dict[str, str]:
    """Return {number: path} of what a process has open, by the kernel's names; {} where that can't
    be read."""
    found = {}
    with suppress(OSError):
        for number in os.listdir(f"/proc/{pid}/fd"):
            with suppress(OSError):
                found[number] = os.readlink(f"/proc/{pid}/fd/{number}")
    return found


def read_status(pid: int) -> dict[str, str]:
    """Return {name: value} of /proc/PID/status; {} where it can't be read."""
    with suppress(OSError), open(f"/proc/{pid}/status", errors="replace") as file:
        pairs = (line.partition(":") for line in file)
        return {name: value.strip() for name, _, value in pairs}
    return {}


def has_signal(pid: int, mask: str, number: int) -> bool | None:
    """Return whether a signal is in a process's mask, SigCgt of those that it catches or SigIgn of
    those that it ignores; None where that can't be read."""
    value = read_status(pid).get(mask)
    return int(value, 16) >> (number - 1) & 1 == 1 if value else None


# ---- masking.py
# Mask secrets, and make text from a box, a log or a provider safe to show. Python 3.8.
#
# `mask` replaces what looks like a token, a key or a password by `***`. `shown` and `shown_lines`
# also remove escape sequences and control characters, and cut the text.
#
# Limits: patterns see form, not meaning. A name alone (key, token) hides nothing; what follows must
# look like a secret value. A value below its name is found only where the name is among the lines
# given (`hide_below`). No pattern may take quadratic time: each can start only once in a run of
# letters, or has a length limit.

# A terminal's escape sequence.
ANSI = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])"
)  # fmt: skip
# Control characters but tab and line feed, and what turns the direction of what is printed.
UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")
# user:password@ in an address.
IN_ADDRESS = re.compile(r"(?<=://)([^\s/@:]{0,100}):([^\s/@]{3,200})@")

_TOKENS = (
    "hf_", "sk-", "ghp_", "gho_", "ghs_", "ghu_", "_pat_", "glpat-", "xox", "akia", "asia", "ya29.",
    "aiza", "rpa_", "nvapi-", "gsk_", "r8_", "npm_", "eyj",
)  # fmt: skip
PRIVATE_KEY = r"-----BEGIN [A-Z ]{0,30}PRIVATE KEY"
PASSWORD = r"(?:password|passwd|secret)"
KEY = r"(?:api|access|account|secret|private|auth|encryption)[_ -]?key"
# Names of secrets in YAML, and in an environment.
_YAML = rf"[\w.-]{{0,60}}?(?:{PASSWORD}|passphrase|credentials?|_pass|_pwd|{KEY})"
_VARIABLE = (
    r"(?:\w{0,60}(?:PASSWORD|PASSWD|PASSPHRASE|SECRET)|(?:\w{0,60}_)?(?:PASS|PAT|TOKEN|KEY)"
    r"|\w{0,60}_(?:PWD|AUTH|CREDENTIALS?))(?:_?\d{1,3})?"
)
# Other values than null, 3, $NAME, &anchor, *alias, and the beginning of a block or a list.
_SOME = r"(?!(?:null|none|true|false|~)[ \t]*$|[\d.]{1,4}(?:[ \t]|$)|[$<&*|>{\[])"
# The inside of quotes, behind the first one; behind the last one, as in "$API_KEY:" -H, stands a
# blank. Quotes that are escaped hold no escaped ones.
_INSIDE = (
    r"(?<=\\['\"])(?!\s)[^'\"\\\n]{%d,}"
    r"|(?<=\")(?!\s)(?:[^\"\\\n]|\\.){%d,}"
    r"|(?<=')(?!\s)(?:[^'\\\n]|\\.){%d,}"
)
# A value without quotes. Behind & , ; another setting may follow.
_WORD = r"(?<!['\"])(?:[^\s'\"&,;]|[&,;](?![\w.-]{0,40}[ \t]?[=:]|\s|$)){%d,}"


def _setting(name: str, least: int, quoted: int = 1) -> str:
    """A name, what sets it, and a value of at least so many characters, alone or within quotes."""
    value = _INSIDE % (quoted, quoted, quoted) + "|" + _WORD % least
    return rf"({name}\\?['\"]?\s*[=:]\s*\\?['\"]?)(?:{value})"


# Each form: texts of which a line must contain one, a text that it must also contain, the pattern,
# and its flags. The texts are in lower case. The pattern's group stays; the rest is masked.
# Patterns are compiled on first use.
FORMS: tuple[tuple[Any, ...], ...] = (
    (
        ("-----begin",),
        "key",
        rf"({PRIVATE_KEY}-----)(?:\\n|[ \t])*[A-Za-z0-9+/=\\]{{8,}}",
        0,
    ),
    # Tokens of Hugging Face, npm and the like hold no further underscore, so hf_hub_download and
    # npm_config_registry are none. The last alternative is a JSON web token.
    (
        _TOKENS,
        "",
        r"\b(?:(hf_)[A-Za-z0-9]{12,}|(gsk_|r8_|npm_)[A-Za-z0-9]{16,}"
        r"|(nvapi-)[A-Za-z0-9_\-]{16,}|(A[KS]IA)[A-Z0-9]{12,}"
        r"|(sk-|gh[posu]_|github_pat_|dckr_pat_|glpat-|xox[abeprs]-|AKIA|ya29\.|AIza|rpa_)"
        r"[A-Za-z0-9_\-.]{8,}"
        r"|(?<![\w-])(eyJ)[A-Za-z0-9_\-]{8,}\.[A-Za-z0-9_\-]{8,}(?:\.[A-Za-z0-9_\-]+)?)",
    ),
    (("bearer ",), "", r"(?<=bearer )()[A-Za-z0-9_\-.=]{8,}", re.I),
    (
        ("authorization",),
        "",
        r"(authorization['\"]?\s*[:=]\s*['\"]?(?:(?:basic|token|bearer|digest|api-?key)\s+)?)"
        r"(?![$<{])[^\s'\"*]{8,}",
        re.I,
    ),
    # `token: 128` and eos_token="<|im_end|>" are settings.
    (("token",), "", r"(token['\"]?\s*[=:]\s*['\"]?)(?!\d+\b|<)[^\s'\"&,;]{6,}", re.I),
    # password: correct horse     in a line of YAML, or within { }
    (
        ("passw", "secret", "passphrase", "credential", "_pass", "_pwd", "key"),
        ": ",
        rf"(^[ \t]*(?:-[ \t]+)?['\"]?{_YAML}['\"]?[ \t]*:[ \t]+){_SOME}[^\n]+"
        rf"|([{{,][ \t]*{_YAML}[ \t]*:[ \t]+){_SOME}(?!['\"])[^,}}\n]+",
        re.I | re.M,
    ),
    (("passw", "secret"), "", _setting(PASSWORD, 6), re.I),
    (("key",), "", _setting(KEY, 6, 6), re.I),
    # 'DB_PASS': 'hunter2', as in a dump of the environment.
    (
        ("_pass", "_pwd", "passphrase", "_credential"),
        "",
        _setting("(?:_PASS|_PWD|PASSPHRASE|_CREDENTIALS?)", 3),
    ),
    (
        ("environ(",),
        "",
        rf"(['\"]{_VARIABLE}['\"]: ?['\"])(?:{_INSIDE % (1, 1, 1)})",
        re.I,
    ),
    # GITHUB_PAT=…     LOG_PAT=*.log is a pattern.
    (
        ("_pat=", "_pat:", "_pat'", '_pat"'),
        "",
        r"(_PAT['\"]?\s*[=:]\s*['\"]?)(?=[A-Za-z_\-]*\d)[A-Za-z0-9_\-]{16,}",
    ),
    (("@",), "://", r"(?<=://)([^\s/@:]{0,100}:)[^\s/@]{3,200}(?=@)"),
    # {name: DB_PASSWORD, value: hunter2}
    (
        ("name",),
        "value",
        rf"(\bname['\"]?[ \t]*:[ \t]*['\"]?{_VARIABLE}['\"]?[ \t]*,[ \t]*['\"]?value['\"]?[ \t]*:"
        rf"[ \t]*['\"]?){_SOME}(?:{_INSIDE % (1, 1, 1)}|(?<!['\"])[^,}}\n]+)",
        re.I,
    ),
    # `api key 0123…`, as in a sentence.
    (
        ("key",),
        "key ",
        r"((?:api|access|account|secret)[_ -]?key\s+)"
        r"(?:[0-9a-f]{24,}|(?=[A-Za-z_\-]*\d)[A-Za-z0-9_\-]{20,})",
        re.I,
    ),
    (
        ("key",),
        "_key",
        r"([A-Z]_KEY['\"]?\s*[=:]\s*['\"]?)(?=[A-Za-z_\-]*\d)[A-Za-z0-9_\-+/=]{16,}",
    ),
    # --hf_token X, --password X; --tokenizer X and --pad_token X are settings.
    (
        ("passw", "secret"),
        "--",
        rf"((?<![-\w])--[\w-]{{0,40}}?{PASSWORD}\s+['\"]?)(?![$<-])"
        rf"(?:{_INSIDE % (4, 4, 4)}|[^\s'\"]{{4,}})",
        re.I,
    ),
    (
        ("token", "key"),
        "--",
        r"((?<![-\w])--[\w-]{0,40}?(?:token|key)\s+['\"]?)"
        r"(?!\d+\b)(?=[A-Za-z_\-]*\d)[A-Za-z0-9_\-.]{8,}",
        re.I,
    ),
    (("wandb login",), "", r"(wandb login (?:--\S{1,60} ){0,5})[0-9a-f]{40}\b"),
    (
        ("sig", "x-amz-", "x-goog-", "key"),
        "=",
        r"([?&](?:sig|key|signature|x-(?:amz|goog)-(?:signature|credential|security-token))=)"
        r"[^\s&'\"]{8,}",
        re.I,
    ),
    (
        ("hook",),
        "/",
        r"((?:hooks\.slack\.com/(?:services|workflows)|discord(?:app)?\.com/api/webhooks"
        r"|open-apis/bot/v2/hook)/)[\w/-]{8,}",
        re.I,
    ),
)
HINTS = tuple(dict.fromkeys(hint for hints, *_ in FORMS for hint in hints))
# Hints such as hf_ and ghp_, by the letters before their underscore.
_TAILS = {hint[:-1].lstrip("_"): hint for hint in HINTS if hint.endswith("_")}
_OTHERS = tuple(hint for hint in HINTS if hint not in _TAILS.values())


def hints_in(low: str) -> tuple[str, ...]:
    """Return those of HINTS that a text in lower case may hold.

    Pass them to `mask` for each line of that text. Cutting the text once at its underscores is
    faster than searching for each hint.
    """
    parts = low.split("_")[:-1]
    tails = {part[-3:] for part in parts} | {part[-2:] for part in parts}
    return (
        *[_TAILS[tail] for tail in _TAILS.keys() & tails],
        *[hint for hint in _OTHERS if hint in low],
    )


@lru_cache(maxsize=None)
def compiled(form: int) -> re.Pattern[str]:
    """Compile a form of FORMS on its first use."""
    return re.compile(*FORMS[form][2:])


@lru_cache(maxsize=4096)
def _forms_of(held: tuple[str, ...]) -> tuple[tuple[int, str], ...]:
    """Return the number in FORMS and the second text of each form that a text may match which
    holds these of HINTS."""
    return tuple(
        (number, beside)
        for number, (hints, beside, *_) in enumerate(FORMS)
        if any(hint in held for hint in hints)
    )


def _hide(match: re.Match[str]) -> str:
    return next((group for group in match.groups() if group), "") + "***"


def mask(text: str, hints: tuple[str, ...] = HINTS) -> str:
    """Return the text with `***` in place of what looks like a token, a key or a password.

    `hints` are those of HINTS that the whole log holds (see `hints_in`); a line without any of
    them is returned as it is.
    """
    low = text.lower()
    held = tuple([hint for hint in hints if hint in low])
    if not held:
        return text
    for form, beside in _forms_of(held) if len(text) > 8 else ():
        if beside in low:
            text = compiled(form).sub(_hide, text)
    return "\n".join(hide_below(text.split("\n"))) if "\n" in text else text


# What stands below a name, as heads of lines; compiled on first use.
_BELOW = {
    # password: >-     or nothing behind the colon
    "head": rf"[ \t]*(?:-[ \t]+)?['\"]?(?:{_YAML}|[\w.-]{{0,60}}?token)['\"]?[ \t]*:[ \t]*"
    r"([|>][-+\d]{0,2})?[ \t]*$",
    # - name: DB_PASSWORD     and value: hunter2 in the line below
    "name": rf"[ \t]*(?:-[ \t]+)?['\"]?name['\"]?[ \t]*:[ \t]*['\"]?{_VARIABLE}['\"]?,?[ \t]*$",
    "value": r"([ \t]*['\"]?value['\"]?[ \t]*:[ \t]*)(?=\S)([|>][-+\d]{0,2}[ \t]*$)?",
    # host: box     or an item of a list: then the name above is of a mapping
    "pair": r"[ \t]*(?:-[ \t]|['\"]?[\w.-]{1,80}['\"]?[ \t]*:(?:[ \t]|$))",
    "private key": PRIVATE_KEY + r"-----\s*$",
    "of a key": r"\s*(?:[A-Za-z0-9+/=]{8,}|(?:Proc-Type|DEK-Info): .*)\s*$",
}
_ENDS = (":", "|", ">", "|-", ">-", "|+", ">+")


@lru_cache(maxsize=None)
def _below(name: str) -> re.Pattern[str]:
    return re.compile(_BELOW[name], re.I)


def hide_below(lines: Sequence[str]) -> list[str]:
    """Return the lines of a text with `***` for each secret that stands below its name.

    As a block of YAML, in the value of a pair of lines, or as a private key.
    """
    hiding = Below()
    return [hiding.hide(line) for line in lines]


class Below:
    """Hides the secrets of `hide_below` in lines that come one by one."""

    def __init__(self):
        self._depth = -1  # of the name whose block this is, -1 outside of one
        self._is_block = self._is_named = self._is_key = False

    def hide(self, line: str) -> str:
        """Return the next line, or `***` in its place."""
        bare = line.strip()
        here = len(line) - len(line.lstrip())
        if (
            self._depth >= 0
            and bare
            and (here <= self._depth or not (self._is_block or _below("pair").match(line) is None))
        ):
            self._depth = -1
        value = _below("value").match(line) if self._is_named else None
        self._is_key = self._is_key and _below("of a key").match(line) is not None
        if self._depth >= 0 or self._is_key:
            return f"{line[:here]}***" if bare else line
        shown = f"{value[1]}***" if value and not value[2] else line
        head = value if value and value[2] else None
        if head is None and bare.rstrip("0123456789").endswith(_ENDS):
            head = _below("head").match(line)
        self._depth, self._is_block = (
            (here, head.group(head.re.groups) is not None) if head else (-1, False)
        )
        self._is_named = "name" in bare and _below("name").match(line) is not None
        self._is_key = "PRIVATE KEY" in bare and _below("private key").search(line) is not None
        return shown


def strip_controls(text: str) -> str:
    """Return a text without what a terminal would obey: escape sequences, control characters but
    tab and line feed, and what turns the direction of what is printed."""
    if "\x1b" in text:
        text = ANSI.sub("", text)
    return UNSEEN.sub("", text)


def shown(text: object, most: int = 300) -> str:
    """Return one masked line of at most `most` characters. Line breaks become blanks."""
    flat = ANSI.sub("", str(text)[: most * 8])
    if not flat.isprintable():
        flat = "".join(c if c.isprintable() else " " for c in flat)
    flat = IN_ADDRESS.sub(r"\1:***@", mask(flat)).rstrip()
    return flat if len(flat) <= most else flat[: most - 2] + " …"


def shown_some(names: Sequence[object], most: int = 5, width: int = 60) -> str:
    """Return the first names of a list as `shown` gives them, and how many there are beside."""
    listed = ", ".join(shown(name, width) for name in names[:most])
    return listed + (f" and {len(names) - most} more" if len(names) > most else "")


def shown_lines(text: object, most: int = 40, width: int = 300) -> list[str]:
    """Return the last `most` lines that aren't blank, each masked and at most `width` long.

    A carriage return ends a line, as on a terminal.
    """
    flat = str(text)
    near = max(0, len(flat) - most * width * 4)
    # Start at a whole line: half a secret looks like any word.
    begin = max(flat.rfind("\n", 0, near), flat.rfind("\r", 0, near)) + 1
    cut = [shown(line, width) for line in hide_below(re.split(r"[\r\n]+", flat[begin:]))]
    return [line for line in cut if line.strip()][-most:]


# ---- files.py
# What lies in files: the last lines of each rank, dumps of the Flight Recorder, checkpoints.

LOG_TAIL = 200_000  # bytes of the program's log
RANK_TAIL = 40_000  # of the log of one rank
LARGEST_TRACE, ALL_TRACES = 16 << 20, 48 << 20  # bytes of a dump, and of all of them
_LOG_FILE = re.compile(r"train\.log\.\d{4,9}\Z")
_DUMP_PREFIXES = ("TORCH_FR_DUMP_TEMP_FILE", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE")


def read_log(folder: str) -> dict[str, Any]:
    """Return the end of the program's log: text, bytes and age in seconds; {} without one."""
    place = os.path.join(folder, "log")
    names = sorted((name for name in os.listdir(place) if _LOG_FILE.match(name)), key=_log_number)
    texts: list[str] = []
    left, age = LOG_TAIL, None
    for name in reversed(names):
        tail = read_tail(os.path.join(place, name), left)
        age = tail["age"] if age is None else age
        texts.append(tail["text"])
        left -= len(tail["text"])
        if left <= 0:
            break
    return {"text": "".join(reversed(texts)), "age": age} if names else {}


def is_run_log(path: str) -> bool:
    """Return whether a file is the log that the runner keeps."""
    return bool(_LOG_FILE.search(path))


def _log_number(name: str) -> int:
    return int(name.rpartition(".")[2])


def read_tail(path: str, size: int = RANK_TAIL) -> dict[str, Any]:
    """Return the last whole lines of a file, masked, and its age in seconds. Raises OSError."""
    with open(path, "rb") as file:
        status = os.fstat(file.fileno())
        begin = max(status.st_size - size, 0)
        file.seek(begin)
        data = file.read(size)
    if begin:
        data = data.partition(b"\n")[2]
    text = ANSI.sub("", data.decode("utf-8", "replace")).replace("\0", " ")
    masked = "".join(hide_below([mask(line) for line in text.splitlines(keepends=True)]))
    return {"text": masked, "age": round(max(time.time() - status.st_mtime, 0))}


def find_output(pid: int) -> str:
    """Return the plain file that a process writes its errors or output to, '' for a pipe."""
    for number in (2, 1):
        with suppress(OSError):
            path = os.readlink(f"/proc/{pid}/fd/{number}")
            is_file = path.startswith("/") and not path.startswith("/dev/")
            if is_file and S_ISREG(os.stat(path).st_mode):
                return path
    return ""


def read_dumps(envs: Mapping[str, Mapping[str, str]], folder: str, since: float) -> dict[str, Any]:
    """Return the dumps that ranks {rank: variables} have left since a time, by their names.

    Those in the log folder of a run whose ranks are gone count too. They are copied as they are,
    packed, and never read here; `left_out` are those without room.
    """
    pattern = os.path.join(glob.escape(folder), "log", "nccl_trace_*")
    paths = set(glob.glob(pattern) if folder else ())
    for rank, env in envs.items():
        given = (env.get(name) for name in _DUMP_PREFIXES)
        for prefix in filter(None, [*given, *_usual_dump_prefixes(env)]):
            paths.update(glob.glob(glob.escape(f"{prefix}{rank}") + "*"))
    dumps = {}
    for path in paths:
        status = os.stat(path)
        if S_ISREG(status.st_mode) and status.st_size and status.st_mtime >= since:
            dumps[path] = status.st_mtime, status.st_size
    files, left_out, room = {}, [], ALL_TRACES
    for path in sorted(dumps, key=lambda one: dumps[one][0], reverse=True):
        if dumps[path][1] > min(LARGEST_TRACE, room):
            left_out.append(path)
            continue
        with open(path, "rb") as file:
            data = file.read(LARGEST_TRACE)
        room -= len(data)
        files[os.path.basename(path)] = pack(data)
    return {"files": files, "left_out": left_out}


def _usual_dump_prefixes(env: Mapping[str, str]) -> list[str]:
    """Return where PyTorch puts dumps that nobody placed: the older place and the newer one."""
    home = env.get("HOME", "")
    cache = env.get("XDG_CACHE_HOME") or (os.path.join(home, ".cache") if home else "")
    newer = [os.path.join(cache, "torch", "comm_lib_trace_rank_")] if cache else []
    return ["/tmp/nccl_trace_rank_", *newer]


def pack(data: bytes) -> str:
    """Return bytes as a text that JSON can hold."""
    return base64.b64encode(zlib.compress(data, 6)).decode("ascii")


def measure_checkpoint(path: str) -> dict[str, Any]:
    """Return age in seconds and megabytes of a checkpoint. Raises OSError."""
    status = os.stat(path)
    size = status.st_size
    if S_ISDIR(status.st_mode):
        size = sum(os.path.getsize(os.path.join(base, name))
                   for base, _, names in os.walk(path) for name in names)  # fmt: skip
    return {"path": path, "age": round(time.time() - status.st_mtime), "mb": size >> 20}


# ---- frames.py
# Stacks as texts: what the fault handler and py-spy print, and where the user's own code stands.
#
# Pure. A frame is [function, file, line], and a stack lists the innermost first.

# Current thread 0x00007f1a54dc9b80 (most recent call first):
# Thread 0x00007f1a540646c0 [pin_memory] (most recent call first):
_FAULT_THREAD = re.compile(
    r"(Current thread|Thread) 0x[0-9a-f]+(?: \[(.{0,60})\])? \(most recent call first\):"
)
#   File "/tmp/t.py", line 7 in a
_FAULT_FRAME = re.compile(r'  File "(.*)", line (\d{1,7}|\?\?\?) in (.*)')
# Thread 8114 (active+gil): "MainThread"
_SPY_THREAD = re.compile(r'Thread (?:0x)?[0-9A-Fa-f]+ \(([\w+]{1,40})\)(?:: "(.{0,80})")?')
#     waits_here (t.py:7)
_SPY_FRAME = re.compile(r"    (\S.{0,200}?) \(([^()]{1,400}?)(?::(\d{1,7}))?\)\s*$")

LIBRARY = re.compile(
    r"(?:^|/)(?:site-packages|dist-packages|lib/python3\.\d+)/|^<frozen"
    r"|^(?:torch|torchvision|accelerate|transformers|trl|deepspeed|lightning|pytorch_lightning"
    r"|multiprocessing|concurrent|asyncio|importlib|contextlib\.py|runpy\.py|threading\.py"
    r"|queue\.py|selectors\.py|socket\.py|ssl\.py|subprocess\.py)(?:/|$)"
)
# What a library's frame says about the call that the user's code made, the first that fits.
_CALL_KINDS = (
    ("collective", re.compile(r"distributed_c10d\.py|_functional_collectives\.py|deepspeed/comm/")),
    ("rendezvous", re.compile(r"torch/distributed/(?:rendezvous|elastic/rendezvous)")),
    ("data", re.compile(r"torch/utils/data/")),
    ("backward", re.compile(r"torch/autograd/(?:graph|__init__)\.py")),
    ("cuda", re.compile(r"torch/cuda/")),
    ("save", re.compile(r"torch/serialization\.py|torch/distributed/checkpoint/|safetensors/")),
)
_WRAPPERS = frozenset(("wrapper", "inner", "decorate_context", "__call__", "<lambda>"))
_JOINING = frozenset(("init_process_group", "new_group", "rendezvous", "_store_based_barrier"))
_LEAVES = frozenset(("_shutdown", "_exit_function", "_run_exitfuncs", "_python_exit"))


class Place(NamedTuple):
    """Where a stack stands.

    `kind`: of the library's call that the user's code made: one of _CALL_KINDS, "joining" for the
    wait for all ranks at the start, "worker" for a data loader's, "leaving" for what runs after the
    program's end, "" for the user's own code. `call`: its name, '' for own code. `frame`: the
    user's own innermost one, or the innermost where none is the user's. `loads`: a data loader
    called it.
    """

    kind: str
    call: str
    frame: Sequence[Any]
    loads: bool = False

    def text(self) -> str:
        """Return as in "all_reduce, from step (train.py:52)"."""
        function, file, line = self.frame
        own = f"{function} ({os.path.basename(str(file))}:{line})"
        return f"{self.call}, from {own}" if self.call else own


def parse_fault_handler(text: str) -> list[dict[str, Any]]:
    """Return the threads in one dump of faulthandler: name, main, and frames."""
    threads: list[dict[str, Any]] = []
    for line in text.splitlines():
        head, frame = _FAULT_THREAD.match(line), _FAULT_FRAME.match(line)
        if head:
            is_current = head[1] == "Current thread"
            threads.append({"name": head[2] or "", "main": is_current, "frames": []})
        elif frame and threads:
            threads[-1]["frames"].append([frame[3], frame[1], frame[2]])
    # The kernel may hand the signal to another thread; the oldest is the last of the dump.
    for thread in threads:
        if thread["frames"] and thread["frames"][-1][0] == "_bootstrap":
            thread["main"] = False
    if threads and not any(thread["main"] for thread in threads):
        threads[-1]["main"] = True
    return [thread for thread in threads if thread["frames"]]


def parse_py_spy(text: str) -> list[dict[str, Any]]:
    """Return the threads in one `py-spy dump`, as parse_fault_handler does."""
    threads: list[dict[str, Any]] = []
    for line in text.splitlines():
        head, frame = _SPY_THREAD.match(line), _SPY_FRAME.match(line)
        if head:
            name = head[2] or ""
            is_main = name == "MainThread"
            threads.append({"name": name, "main": is_main, "gil": "gil" in head[1], "frames": []})
        elif frame and threads:
            threads[-1]["frames"].append([frame[1], frame[2], frame[3] or "?"])
    if threads and not any(thread["main"] for thread in threads):
        threads[-1]["main"] = True
    return [thread for thread in threads if thread["frames"]]


def format_as_py_spy(pid: int, command: str, threads: list[dict[str, Any]]) -> str:
    """Return threads as py-spy prints them, the main one first: the form that the look-up reads."""
    lines = [f"Process {pid}: {command}"]
    for at, thread in enumerate(sorted(threads, key=lambda thread: not thread["main"])):
        name = "MainThread" if thread["main"] else thread["name"] or f"Thread-{at}"
        lines.append(f'Thread {at} (idle): "{name}"')
        lines += [f"    {function} ({file}:{line})" for function, file, line in thread["frames"]]
    return "\n".join(lines) + "\n"


def main_frames(threads: list[dict[str, Any]]) -> list[list[Any]]:
    """Return the frames of the main thread, [] for none."""
    return next((thread["frames"] for thread in threads if thread["main"]), [])


def find_place(frames: list[list[Any]]) -> Place | None:
    """Return where a main thread stands, None without a frame."""
    if not frames:
        return None
    at = next((n for n, frame in enumerate(frames) if not LIBRARY.search(frame[1])), len(frames))
    inside, own = frames[:at], frames[min(at, len(frames) - 1)]
    functions = {frame[0] for frame in frames}
    loads = any("torch/utils/data/" in frame[1] for frame in frames)
    if "_worker_loop" in functions:
        return Place("worker", "", own)
    kind, call = _name_call(inside)
    if functions & _LEAVES or not _begins_as_program(frames[-1]):
        return Place("leaving", call, own)
    return Place(kind, call, own, loads)


def _name_call(inside: list[list[Any]]) -> tuple[str, str]:
    """Return kind and name of the library's call that these frames belong to."""
    named = [frame for frame in inside if frame[0] not in _WRAPPERS]
    if not named:
        return "", ""
    joining = next((frame[0] for frame in reversed(named) if frame[0] in _JOINING), "")
    if joining:
        return "joining", joining
    for kind, pattern in _CALL_KINDS:
        fits = [frame for frame in named if pattern.search(frame[1])]
        public = [frame for frame in fits if not frame[0].startswith("_")]
        if fits:
            name = "the data loader" if kind == "data" else (public or fits)[-1][0]
            return kind, "backward" if kind == "backward" else name
    return "library", named[-1][0]


def _begins_as_program(outermost: list[Any]) -> bool:
    """Return whether a stack begins as a program does: one that doesn't runs after its end."""
    return outermost[0] in ("<module>", "_run_module_as_main", "_bootstrap", "main")


# ---- machine.py
# What the machine around a run knows: cards, kernel, memory, disks, connections, software.

SMI_LIMIT = 8.0  # seconds for nvidia-smi
KERNEL_LIMIT = 5.0  # seconds for dmesg
MOST_LINES = 40  # of the kernel
MOST_SOCKETS = 200
# NVRM: Xid (PCI:0000:3b:00): 79, pid=1234, name=python, GPU has fallen off the bus.
_XID = re.compile(r"NVRM: Xid \([^)\n]{0,100}\): (\d{1,4})")
# Names of nvidia-smi --help-query-gpu that every driver knows: one unknown name spoils the answer.
_FIELDS = (
    "index", "uuid", "name", "utilization.gpu", "memory.used", "memory.total", "power.draw",
    "power.limit", "clocks.sm", "clocks.max.sm", "temperature.gpu",
)  # fmt: skip
# Memory cgroup out of memory: Killed process 1234 (python) total-vm:…
_OF_A_RUN = re.compile(
    r"NVRM: Xid|SXid|Killed process|oom-kill|blocked for more than|soft lockup|I/O error"
    r"|not responding|segfault at|general protection|fallen off the bus|Hardware Error"
    r"|amdgpu.{0,200}reset"
)
_SECONDS = re.compile(r"\[ *(\d+)\.\d+\]")
_SHOWN_VARIABLES = re.compile(
    r"(?:NCCL|TORCH|PYTORCH|CUDA|NVIDIA|GLOO|FI|UCX|RCCL|HIP|HSA|ROCR|OMP|MKL|OPENBLAS|ACCELERATE|DS"
    r"|FSDP|XLA|TRITON|MASTER|SLURM_(?:JOB|NNODES|NTASKS|PROCID|NODEID)|OMPI_COMM|RGT|HF_HUB_OFFLINE"
    r"|PYTHON|LD_|TMPDIR|RANK|LOCAL_|WORLD_SIZE|GROUP_RANK|TOKENIZERS_PARALLELISM|CONDA_PREFIX"
    r"|VIRTUAL_ENV)"
)
_HIDDEN_VARIABLES = re.compile(r"TOKEN|SECRET|PASS|KEY|CREDENTIAL|AUTH", re.I)
_PACKAGE_FOLDER = re.compile(
    r"((?:torch|nvidia_nccl|nvidia_cudnn|nvidia_cuda_runtime|triton|transformers|accelerate"
    r"|deepspeed|flash_attn|bitsandbytes|lightning|pytorch_lightning|megatron_core|datasets|numpy"
    r"|xformers|vllm|peft|trl)(?:_cu\d+)?)-([^-]+)\.dist-info$"
)
_SOCKET_STATES = {"01": "established", "02": "syn-sent", "04": "fin-wait", "05": "fin-wait",
           "06": "time-wait", "07": "closed", "08": "close-wait", "09": "last-ack",
           "0A": "listen"}  # fmt: skip


def ask_cards() -> dict[str, Any]:
    """Return the cards by nvidia-smi, and the processes on them; why there is none."""
    options = ["--format=csv,noheader,nounits"]
    output = _run_tool(["nvidia-smi", f"--query-gpu={','.join(_FIELDS)}", *options], SMI_LIMIT)
    if output is None:
        return {"cards": [], "why": _why_no_card()}
    rows = [[word.strip() for word in line.split(",")] for line in output.splitlines()]
    cards = [{name: shown(word, 80) for name, word in zip(_FIELDS, row)}
             for row in rows if len(row) == len(_FIELDS)]  # fmt: skip
    if not cards:
        return {
            "cards": [],
            "why": shown(" ".join(output.split()), 160) or "nvidia-smi said nothing",
        }
    query = "--query-compute-apps=gpu_uuid,pid,used_gpu_memory"
    output = _run_tool(["nvidia-smi", query, *options], SMI_LIMIT) or ""
    rows = [[word.strip() for word in line.split(",")] for line in output.splitlines()]
    apps = [{"uuid": row[0], "pid": int(row[1]), "mb": row[2]}
            for row in rows if len(row) == 3 and row[1].isdigit()]  # fmt: skip
    return {"cards": cards, "apps": apps}


def _why_no_card() -> str:
    if os.path.exists("/proc/driver/nvidia/version"):
        return "nvidia-smi doesn't answer, though the driver is loaded"
    return "AMD cards aren't asked" if os.path.exists("/dev/kfd") else "no NVIDIA driver"


def _run_tool(words: list[str], seconds: float) -> str | None:
    """Return what a tool prints; None where it isn't there or doesn't end."""
    null, environment = subprocess.DEVNULL, {**os.environ, "LC_ALL": "C"}
    try:
        child = subprocess.Popen(
            words,
            stdin=null,
            stdout=subprocess.PIPE,
            stderr=null,
            start_new_session=True,
            env=environment,
        )
        return child.communicate(timeout=seconds)[0].decode("utf-8", "replace")
    except OSError:
        return None
    except subprocess.TimeoutExpired:
        with suppress(OSError):
            os.killpg(child.pid, signal.SIGKILL)
        return None


def read_kernel_log(since: float) -> dict[str, Any]:
    """Return the kernel's lines about failures, and the Xids in them.

    `since`: seconds after the machine's start before which nothing counts.
    """
    log = _run_tool(["dmesg"], KERNEL_LIMIT)
    if not log:
        return {"lines": [], "xids": [], "why": "the kernel's log can't be read"}
    lines = []
    for line in log.splitlines():
        stamp = _SECONDS.search(line)
        if _OF_A_RUN.search(line) and (stamp is None or int(stamp[1]) >= since - 5):
            lines.append(shown(line, 300))
    xids = [int(match[1]) for match in map(_XID.search, lines) if match]
    return {"lines": lines[-MOST_LINES:], "xids": xids}


def read_uptime() -> float:
    """Return the seconds since the machine's start, 0 where nothing tells."""
    words = _read_file("/proc/uptime").split()
    return float(words[0]) if words else 0.0


def read_memory(pid: int, root: str = "/sys/fs/cgroup") -> dict[str, Any]:
    """Return the host's memory, and limit, use and kills of a process's own cgroup."""
    memory: dict[str, Any] = {}
    for name, value in _pairs("/proc/meminfo", ":"):
        if name in ("MemTotal", "MemAvailable", "SwapTotal", "SwapFree", "Shmem"):
            memory[name] = int(value.split()[0]) // 1024
    for line in _read_file(f"/proc/{pid or 'self'}/cgroup").splitlines():
        _, controllers, path = (line.split(":", 2) + ["", ""])[:3]
        if not controllers:
            memory.update(_new_cgroup(root, path.strip("/")))
        elif "memory" in controllers.split(","):
            memory.update(_old_cgroup(os.path.join(root, "memory"), path.strip("/")))
    return memory


def _new_cgroup(root: str, path: str) -> dict[str, Any]:
    for folder in dict.fromkeys((os.path.join(root, path), root)):
        if os.path.exists(os.path.join(folder, "memory.events")):
            events = dict(_pairs(os.path.join(folder, "memory.events"), " "))
            return {
                "limit_mb": _megabytes(_read_file(os.path.join(folder, "memory.max"))),
                "used_mb": _megabytes(_read_file(os.path.join(folder, "memory.current"))),
                "kills": int(events.get("oom_kill") or 0),
                "at_limit": int(events.get("max") or 0),
            }
    return {}


def _old_cgroup(root: str, path: str) -> dict[str, Any]:
    for folder in dict.fromkeys((os.path.join(root, path), root)):
        if os.path.exists(os.path.join(folder, "memory.oom_control")):
            limit = _megabytes(_read_file(os.path.join(folder, "memory.limit_in_bytes")))
            control = dict(_pairs(os.path.join(folder, "memory.oom_control"), " "))
            return {
                "limit_mb": None if limit is None or limit > 1 << 30 else limit,
                "used_mb": _megabytes(_read_file(os.path.join(folder, "memory.usage_in_bytes"))),
                "kills": int(control.get("oom_kill") or 0),
            }
    return {}


def _megabytes(text: str) -> int | None:
    return int(text) >> 20 if text.strip().isdigit() else None


def _pairs(path: str, sign: str) -> Iterable[tuple[str, str]]:
    for line in _read_file(path).splitlines():
        name, _, value = line.partition(sign)
        yield name, value.strip()


def _read_file(path: str) -> str:
    with suppress(OSError), open(path, errors="replace") as file:
        return file.read(1 << 20)
    return ""


def read_disk(path: str) -> dict[str, Any]:
    """Return the free room and the free inodes where a folder lies. Raises OSError."""
    status = os.statvfs(path)
    total = status.f_blocks * status.f_frsize
    return {
        "free_mb": status.f_bavail * status.f_frsize >> 20,
        "total_mb": total >> 20,
        "free_inodes": status.f_favail if status.f_files else None,
        "read_only": bool(status.f_flag & os.ST_RDONLY),
    }


def read_mounts() -> list[tuple[str, str]]:
    """Return the mount points with their kinds, the longest first. It touches none of them."""
    mounts = []
    for line in _read_file("/proc/self/mounts").splitlines():
        words = line.split()
        if len(words) > 2:
            mounts.append((words[1].replace("\\040", " "), words[2]))
    return sorted(mounts, key=lambda one: -len(one[0]))


def find_mount(path: str, among: list[tuple[str, str]]) -> tuple[str, str]:
    """Return the mount point on which a path lies, and its kind."""
    for point, kind in among:
        if path == point or path.startswith(point.rstrip("/") + "/"):
            return point, kind
    return "/", ""


def read_sockets(members: Mapping[str, int]) -> list[dict[str, Any]]:
    """Return the TCP connections of members {name: pid}.

    `to`: the member at the other end, '' for one elsewhere. `unread`, `unsent`: bytes that wait.
    """
    owners: dict[str, str] = {}
    for name, pid in members.items():
        for link in read_open_files(pid).values():
            if link.startswith("socket:["):
                owners.setdefault(link[8:-1], name)
    rows, ends = [], {}
    for pid in list(members.values())[:1]:
        for kind in ("tcp", "tcp6"):
            for line in _read_file(f"/proc/{pid}/net/{kind}").splitlines()[1:]:
                words = line.split()
                if len(words) > 9 and words[9] in owners:
                    unsent, _, unread = words[4].partition(":")
                    both_ends = (_parse_address(words[1]), _parse_address(words[2]))
                    ends[both_ends] = owners[words[9]]
                    rows.append((both_ends, words[3], int(unsent, 16), int(unread, 16)))
    sockets = []
    for (near, far), state, unsent, unread in rows:
        state_name = _SOCKET_STATES.get(state, state)
        if state_name == "listen":
            continue
        sockets.append({
            "of": ends[near, far], "to": ends.get((far, near), ""), "state": state_name,
            "unread": unread, "unsent": unsent, "peer": far,
        })  # fmt: skip
    return sockets[:MOST_SOCKETS]


def _parse_address(text: str) -> str:
    """Return an end of a connection as the kernel writes it; IPv4 within IPv6 as IPv4."""
    address, _, port = text.partition(":")
    if len(address) == 32 and address.startswith("0000000000000000FFFF0000"):
        address = address[24:]
    if len(address) == 8:
        address = ".".join(str(int(address[at : at + 2], 16)) for at in (6, 4, 2, 0))
    return f"{address}:{int(port, 16)}"


def read_software(pid: int) -> dict[str, Any]:
    """Return versions and the variables of a process that matter, with masked values."""
    driver = re.search(
        r"Module\s+([\d.]+)|x86_64\s+([\d.]+)", _read_file("/proc/driver/nvidia/version")
    )
    return {
        "python": read_executable(pid),
        "kernel": os.uname().release,
        "driver": next((word for word in driver.groups() if word), "") if driver else "",
        "packages": _list_packages(pid),
        "variables": choose_variables(read_environment(pid)),
    }


def choose_variables(env: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that decide how a program trains; no name of a secret, values masked."""
    chosen = {}
    for name in sorted(env):
        if _SHOWN_VARIABLES.match(name) and not _HIDDEN_VARIABLES.search(name):
            chosen[name] = shown(f"{name}={env[name]}", 300).partition("=")[2]
    return chosen


def _list_packages(pid: int) -> dict[str, str]:
    """Return the versions beside the libraries that a process has loaded."""
    places = re.findall(r"(/\S*?/(?:site|dist)-packages)/", _read_file(f"/proc/{pid}/maps"))
    versions: dict[str, str] = {}
    for place in dict.fromkeys(places):
        with suppress(OSError):
            for name in os.listdir(place):
                if match := _PACKAGE_FOLDER.match(name):
                    versions.setdefault(match[1], match[2])
    return dict(sorted(versions.items()))


# ---- members.py
# Which processes are a run's, and which rank each of them is.

RUN_MARK = "RGT_RUN_DIR"  # in the environment of each process of a run's program: the run's folder
MOST_MEMBERS = 128
# Variables with a rank, the number of all, its number on this machine, and how many are there.
# PyTorch's come first: below torchrun each process has those of the batch step too.
RANK_VARIABLES = (
    ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
     "OMPI_COMM_WORLD_LOCAL_SIZE"),
    ("SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", "SLURM_NTASKS_PER_NODE"),
    ("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"),
)  # fmt: skip
_TRACKERS = ("multiprocessing.resource_tracker", "multiprocessing.forkserver")


def is_python(pid: int) -> bool:
    """Return whether a process is a Python; an exe that can't be read is judged by its name."""
    name = os.path.basename(read_executable(pid))
    if not name:
        stat = read_stat(pid)
        name = stat.name if stat else ""
    return name.startswith(("python", "pypy", "pt_main_thread", "pt_data_worker"))


def command_line(pid: int) -> str:
    """Return a process's command line as one masked line, '' where there is none."""
    text = read_words(pid)[:4096].replace(b"\0", b" ").decode("utf-8", "replace")
    return shown(text.strip(), 300)


def find_runs() -> dict[str, set[int]]:
    """Return {run folder: processes} of all runs whose program is alive."""
    runs: dict[str, set[int]] = {}
    for pid, stat in read_table().items():
        folder = read_environment(pid).get(RUN_MARK) if stat.lives else None
        if folder:
            runs.setdefault(_folder_of_all_nodes(folder), set()).add(pid)
    return runs


def _folder_of_all_nodes(folder: str) -> str:
    head, _, last = folder.rstrip("/").rpartition("/")
    return head if last.startswith("node-") and last[5:].isdigit() else folder.rstrip("/")


def find_without_a_run() -> set[int]:
    """Return the processes that train without this tool: those with a rank, or with a card open."""
    pids = set()
    for pid, stat in read_table().items():
        environment = read_environment(pid) if stat.lives else {RUN_MARK: ""}
        is_rank = {"RANK", "WORLD_SIZE"} <= environment.keys()
        if RUN_MARK not in environment and (is_rank or _has_card(pid)):
            pids.add(pid)
    return pids


def _has_card(pid: int) -> bool:
    for path in read_open_files(pid).values():
        if path.startswith("/dev/nvidia") and path[11:].isdigit() or path == "/dev/kfd":
            return is_python(pid)
    return False


def find_members(pids: Iterable[int]) -> list[dict[str, Any]]:
    """Return the members among a run's processes: pid, start, rank and sizes, children, command.

    A member is the topmost Python of each rank; without ranks each Python that isn't below another
    one. Those below a member are its children.
    """
    table = read_table()
    pids = {pid for pid in pids if pid in table and table[pid].lives}
    environments = {pid: read_environment(pid) for pid in pids}
    names = next(
        (row for row in RANK_VARIABLES if any(row[0] in one for one in environments.values())), None
    )
    pythons = {pid for pid in pids if is_python(pid)}
    pythons = {pid for pid in pythons if not any(t in command_line(pid) for t in _TRACKERS)}
    sizes = {pid: _read_rank(environments[pid], names) for pid in pythons}
    members = []
    for pid in sorted(pythons):
        if (names and sizes[pid]["rank"] is None) or _is_below_its_rank(pid, sizes, table):
            continue
        below = (with_descendants([pid], table) - {pid}) & pythons
        start, command = table[pid].start, command_line(pid)
        members.append(
            {
                **sizes[pid],
                "pid": pid,
                "start": start,
                "children": sorted(below),
                "command": command,
            }
        )
    members.sort(key=lambda one: (one["rank"] is None, one["rank"] or 0, one["pid"]))
    return members[:MOST_MEMBERS]


def _read_rank(
    environment: Mapping[str, str], names: tuple[str, str, str, str] | None
) -> dict[str, Any]:
    """Return what a process's variables say of its rank."""
    keys = ("rank", "world", "local_rank", "local_world")
    if names is None:
        return dict.fromkeys(keys)
    return {key: _parse_count(environment.get(name, "")) for key, name in zip(keys, names)}


def _parse_count(text: str) -> int | None:
    digits = text.partition("(")[0]
    return int(digits) if digits.isdigit() and len(digits) < 8 else None


def _is_below_its_rank(
    pid: int, sizes: Mapping[int, Mapping[str, Any]], table: Mapping[int, Stat]
) -> bool:
    """Return whether a Python above a process is the same rank."""
    at = table[pid].parent
    while at in table:
        if at in sizes and sizes[at]["rank"] == sizes[pid]["rank"]:
            return True
        at = table[at].parent
    return False


def expected_ranks(members: list[dict[str, Any]], is_alone: bool) -> list[int]:
    """Return the ranks that this machine should have, [] where nothing says so.

    `is_alone`: no other machine takes part.
    """
    ranks: set[int] = set()
    for one in members:
        rank, local, size = one["rank"], one["local_rank"], one["local_world"]
        if None not in (rank, local, size):
            ranks.update(range(rank - local, rank - local + size))
        elif is_alone and one["world"] and rank is not None:
            ranks.update(range(one["world"]))
    return sorted(ranks)


def is_only_machine(environment: Mapping[str, str]) -> bool:
    """Return whether a rank's variables say that all ranks are on this machine."""
    nodes = environment.get("SLURM_JOB_NUM_NODES") or environment.get("SLURM_NNODES") or "1"
    address, host = environment.get("MASTER_ADDR", ""), socket.gethostname()
    here = ("", "localhost", "::1", host, host.partition(".")[0])
    return nodes == "1" and (address in here or address.startswith("127."))


def gone_ranks(roll: Mapping[str, Any], members: list[dict[str, Any]]) -> dict[int, int]:
    """Return {rank: pid} of the ranks in a run's roll {rank: [pid, start]} that are gone."""
    here = {one["rank"] for one in members}
    noted = {int(rank): row for rank, row in roll.items()
             if rank.isdigit() and isinstance(row, list) and len(row) == 2}  # fmt: skip
    return {rank: pid for rank, (pid, start) in noted.items()
            if rank not in here and not is_same_process(pid, start)}  # fmt: skip


def find_zombies(parents: Iterable[int]) -> list[dict[str, Any]]:
    """Return the dead whose parents haven't waited for them: pid, parent, and the wait status."""
    among = set(parents)
    return [
        {"pid": pid, "parent": stat.parent, "status": stat.ended, "name": stat.name}
        for pid, stat in read_table().items()
        if stat.state == "Z" and stat.parent in among
    ]


# ---- processes.py
# What /proc tells of a process that may hang: how busy it is, and what it waits for.

BETWEEN = 1.0  # seconds between two looks at the time on a processor
STEADY = 3  # ticks of a processor's time that one that stands still may use in between
# The numbers of calls in which a process may wait, by machine.
_CALLS_BY_MACHINE = {
    "x86_64": {
        0: "read", 1: "write", 2: "open", 4: "stat", 5: "fstat", 6: "lstat", 7: "poll", 16: "ioctl",
        17: "pread", 18: "pwrite", 19: "readv", 20: "writev", 23: "select", 34: "pause",
        35: "nanosleep", 40: "sendfile", 42: "connect", 43: "accept", 44: "send", 45: "recv",
        46: "sendmsg", 47: "recvmsg", 56: "clone", 57: "fork", 58: "vfork", 59: "execve",
        61: "wait", 72: "fcntl", 73: "flock", 74: "fsync", 75: "fdatasync", 78: "getdents",
        128: "sigtimedwait", 130: "sigsuspend", 202: "futex", 217: "getdents", 219: "restart",
        230: "nanosleep", 232: "epoll_wait", 247: "wait", 257: "open", 262: "stat", 270: "select",
        271: "poll", 281: "epoll_wait", 288: "accept", 295: "preadv", 332: "stat", 435: "clone",
    },
    "aarch64": {
        22: "epoll_wait", 25: "fcntl", 29: "ioctl", 32: "flock", 56: "open", 61: "getdents",
        63: "read", 64: "write", 65: "readv", 66: "writev", 67: "pread", 68: "pwrite",
        71: "sendfile", 72: "select", 73: "poll", 79: "stat", 80: "fstat", 82: "fsync",
        83: "fdatasync", 95: "wait", 98: "futex", 101: "nanosleep", 115: "nanosleep",
        128: "restart", 133: "sigsuspend", 137: "sigtimedwait", 202: "accept", 203: "connect",
        206: "send", 207: "recv", 211: "sendmsg", 212: "recvmsg", 220: "clone", 221: "execve",
        242: "accept", 260: "wait", 291: "stat", 435: "clone",
    },
}  # fmt: skip
_BY_NUMBER = frozenset(  # their first argument is an open file
    ("read", "write", "fstat", "ioctl", "pread", "pwrite", "readv", "writev", "sendfile", "connect",
     "accept", "send", "recv", "sendmsg", "recvmsg", "fcntl", "flock", "fsync", "fdatasync",
     "getdents", "preadv")
)  # fmt: skip
_BY_PATH = {"x86_64": {2: 0, 4: 0, 6: 0, 59: 0, 257: 1, 262: 1, 332: 1},
            "aarch64": {56: 1, 79: 1, 221: 0, 291: 1}}  # fmt: skip


def examine_process(pid: int) -> dict[str, Any]:
    """Return what is known of a process after two looks BETWEEN seconds apart; {} where it is gone.

    `cpu`: the share of one core that all its threads used in between. `main`: the share of the
    time in which the main thread ran, or wanted to on a machine without a free core. `steady`: both
    looks found the same state, and no work in between; whoever reads much is in D now and then.
    `wakes`: how often the main thread waited and went on in between.
    Calls and files need the right to trace it, so they may be missing.
    """
    before, waits, ready, began = read_stat(pid), _waits(pid), _ready(pid), time.monotonic()
    if before is None:
        return {}
    time.sleep(BETWEEN)
    after, seconds = read_stat(pid), time.monotonic() - began
    status = read_status(pid)
    if after is None or not status:
        return {}
    tid = f"/proc/{pid}/task/{pid}"
    state = (status.get("State") or "?")[0]
    worked = after.ticks - before.ticks
    return {
        "state": state,
        "steady": before.state == state and worked <= STEADY,
        "cpu": round(worked / os.sysconf("SC_CLK_TCK") / seconds, 2),
        "main": round(min(max(_ready(pid) - ready, 0) / seconds / 1e9, 1.0), 2),
        "threads": _leading_number(status.get("Threads")),
        "wakes": max(_waits(pid) - waits, 0),
        "rss_mb": _leading_number(status.get("VmRSS")) // 1024,
        "tracer": _leading_number(status.get("TracerPid")),
        "wchan": _first_bytes(f"{tid}/wchan").strip("0"),
        "call": waiting_call(pid) if state in "SD" else {},
        "kernel": _kernel_stack(pid) if state == "D" else [],
        "stuck_threads": _count_stuck_threads(pid),
    }


def waiting_call(pid: int) -> dict[str, str]:
    """Return the call that the main thread waits in: its name and its file, {} if unknown."""
    words = _first_bytes(f"/proc/{pid}/syscall").split()
    if len(words) < 7 or not words[0].isdigit():
        return {}
    machine, number = os.uname().machine, int(words[0])
    name = _CALLS_BY_MACHINE.get(machine, {}).get(number, f"call {number}")
    call = {"name": name}
    if name in _BY_NUMBER:
        with suppress(OSError, ValueError):
            call["file"] = os.readlink(f"/proc/{pid}/fd/{int(words[1], 16)}")
    at = _BY_PATH.get(machine, {}).get(number)
    if at is not None:
        call["file"] = _path_at(pid, int(words[1 + at], 16))
    return call


def _path_at(pid: int, address: int) -> str:
    """Return the path that a call was given, from the process's memory, '' where it is closed."""
    with suppress(OSError, ValueError, OverflowError), open(f"/proc/{pid}/mem", "rb", 0) as file:
        file.seek(address)
        return file.read(512).partition(b"\0")[0].decode("utf-8", "replace")
    return ""


def _ready(pid: int) -> int:
    """Return the nanoseconds that a main thread has run or waited for a core, 0 if unknown."""
    words = _first_bytes(f"/proc/{pid}/task/{pid}/schedstat").split()
    return int(words[0]) + int(words[1]) if len(words) > 1 and words[1].isdigit() else 0


def _waits(pid: int) -> int:
    """Return how often a main thread has given its core back to wait."""
    return _leading_number(read_status(pid).get("voluntary_ctxt_switches"))


def _leading_number(text: str | None) -> int:
    match = re.match(r"\d+", text or "")
    return int(match[0]) if match else 0


def _first_bytes(path: str) -> str:
    with suppress(OSError), open(path, errors="replace") as file:
        return file.read(4096).strip()
    return ""


def _kernel_stack(pid: int) -> list[str]:
    """Return the kernel's functions that a process is in; root alone may read them."""
    lines = _first_bytes(f"/proc/{pid}/stack").splitlines()
    return [line.partition("] ")[2].partition("+")[0] for line in lines[:6]]


def _count_stuck_threads(pid: int) -> int:
    """Return how many threads are in state D besides the main one."""
    stats = []
    with suppress(OSError):
        names = os.listdir(f"/proc/{pid}/task")
        stats = [read_stat(int(name)) for name in names if name != str(pid)]
    return sum(stat is not None and stat.state == "D" for stat in stats)


# ---- questions.py
# Questions in children of their own: what hangs is left behind, and named.


class NoAnswer(Exception):
    """There is no answer; the text says why."""


class Question:
    """A function in a forked child; its value must be one that JSON can hold."""

    def __init__(self, function: Callable[..., Any], *arguments: Any):
        self._reading, writing = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            _answer(writing, function, arguments)
        os.close(writing)
        self._text = bytearray()
        self.is_open = True

    def poll(self, seconds: float = 0.0) -> bool:
        """Wait so long at most; return whether the child has answered or died."""
        until = time.monotonic() + seconds
        while self.is_open:
            left = max(until - time.monotonic(), 0)
            if not select.select([self._reading], [], [], left)[0]:
                return False
            piece = os.read(self._reading, 1 << 20)
            self._text += piece
            if not piece:
                self.give_up()
        return True

    def give_up(self) -> None:
        """Kill the child; one that hangs in the kernel is left behind."""
        if self.is_open:
            os.close(self._reading)
        self.is_open = False
        with suppress(OSError):
            os.kill(self.pid, signal.SIGKILL)
        # A killed child is gone within a moment, but for one that hangs.
        for _ in range(20):
            with suppress(OSError):
                if os.waitpid(self.pid, os.WNOHANG)[0] == 0:
                    time.sleep(0.001)
                    continue
            return

    def value(self) -> Any:
        """Return what the function returned. Raises NoAnswer."""
        try:
            value, error = json.loads(self._text.decode("utf-8", "surrogateescape"))
        except ValueError:
            raise NoAnswer("the process that was to answer was killed") from None
        if error:
            raise NoAnswer(error)
        return value


def _answer(writing: int, function: Callable[..., Any], arguments: Sequence[Any]) -> None:
    """Run the function, write its value, and leave. Never returns."""
    try:
        os.setsid()
        # One that hangs must not hold the connection open over which this program was asked.
        nothing = os.open(os.devnull, os.O_RDWR)
        for number in (0, 1, 2):
            os.dup2(nothing, number)
        os.closerange(3, writing)
        os.closerange(writing + 1, 4096)
        try:
            answer = [function(*arguments), ""]
        except OSError as error:
            answer = [None, error.strerror or str(error)]
        except Exception as error:
            answer = [None, repr(error)]
        with os.fdopen(writing, "wb") as file:
            file.write(json.dumps(answer).encode("utf-8", "surrogateescape"))
    finally:
        os._exit(0)


def ask_all(
    questions: Mapping[str, Sequence[Any]], until: float
) -> tuple[dict[str, Any], dict[str, str]]:
    """Ask all questions {name: (function, arguments ...)} at once; return {name: answer}, and
    {name: why} of what is missing. `until`: by the clock that nobody sets.
    """
    missing: dict[str, str] = {}
    asked: dict[str, Question] = {}
    for name, (function, *arguments) in questions.items():
        try:
            asked[name] = Question(function, *arguments)
        except OSError as error:
            missing[name] = str(error)
    answers = {}
    while asked:
        is_late = time.monotonic() >= until
        for name, question in list(asked.items()):
            if not (question.poll() or is_late):
                continue
            del asked[name]
            if question.is_open:
                question.give_up()
                missing[name] = "no answer in time"
                continue
            try:
                answers[name] = question.value()
            except NoAnswer as error:
                missing[name] = str(error)
        time.sleep(0.02)
    return answers, missing


# ---- stacks.py
# The Python stacks of processes: from their fault handlers, else by py-spy.
#
# Neither ends or stops a process. The runner puts the fault handler into each Python process of its
# program; it writes into a file of the run's folder when STACK_SIGNAL comes. Whoever is to kill the
# processes anyway may abort those that are left: they write their stacks into the log first.

# A signal that programs leave alone: USR1 and USR2 may be theirs, and they would act on it.
STACK_SIGNAL = getattr(signal, "SIGRTMIN", 34) + 9
ONE_DUMP = 0.4  # seconds for one process to write its stacks
BETWEEN_DUMPS = 1.0  # seconds until the same process is asked again
HANDLERS_SHARE = 0.6  # of the time, for all by their fault handlers; py-spy has the rest
ABORTED = 2.0  # seconds for those that were aborted to write and end
LARGEST_DUMP = 400_000  # bytes
_MARK = re.compile(r"/stacks/attempt-[^/]*\.txt\Z")


def collect_stacks(pids: Iterable[int], seconds: float) -> dict[str, Any]:
    """Return {pid: {"how", "threads", "again"}} of those whose stacks could be had in so long.

    A fault handler is asked twice, BETWEEN_DUMPS seconds apart: `again` are the main thread's
    frames of the second time. py-spy, where it is installed and allowed, reads the others.
    """
    began = time.monotonic()
    until = began + HANDLERS_SHARE * seconds
    pids = list(pids)
    stacks: dict[str, Any] = {}
    for pid in pids:
        if time.monotonic() < until and (threads := parse_fault_handler(_dump(pid))):
            stacks[str(pid)] = {"how": "faulthandler", "threads": threads}
    marked = list(stacks)
    rest = [pid for pid in pids if str(pid) not in stacks]
    for pid, text in _run_py_spy(rest, began + seconds).items():
        if threads := parse_py_spy(text):
            stacks[str(pid)] = {"how": "py-spy", "threads": threads}
    if marked:
        time.sleep(max(min(began + BETWEEN_DUMPS, until) - time.monotonic(), 0))
    for name in marked:
        if time.monotonic() < max(until, began + BETWEEN_DUMPS + ONE_DUMP):
            stacks[name]["again"] = main_frames(parse_fault_handler(_dump(int(name))))
    return stacks


def _dump(pid: int) -> str:
    """Return what a process's fault handler writes, '' where it has none or doesn't answer.

    One that is stopped isn't asked: the signal would wait for it.
    """
    path = handler_file(pid)
    stat = read_stat(pid)
    if not path or stat is None or stat.state in "TtZX":
        return ""
    with suppress(OSError), open(path, "rb") as file:
        before = file.seek(0, os.SEEK_END)
        send_signal(pid, STACK_SIGNAL)
        until, size = time.monotonic() + ONE_DUMP, before
        while time.monotonic() < until:
            time.sleep(0.02)
            now = os.stat(path).st_size
            if now == size > before:
                break
            size = now
        file.seek(before)
        return file.read(LARGEST_DUMP).decode("utf-8", "replace")
    return ""


def handler_file(pid: int) -> str:
    """Return the file into which a process's fault handler writes, '' for a process without one.

    It holds such a file open and catches the signal, which would end others.
    """
    if not has_signal(pid, "SigCgt", STACK_SIGNAL):
        return ""
    return next(filter(_MARK.search, read_open_files(pid).values()), "")


def _run_py_spy(pids: list[int], until: float) -> dict[int, str]:
    """Return what py-spy prints of each process; it needs a right that containers lack."""
    tool = shutil.which("py-spy")
    if not tool or not pids:
        return {}
    started = {}
    for pid in pids:
        with suppress(OSError):
            started[pid] = subprocess.Popen(
                [tool, "dump", "--nonblocking", "--full-filenames", "--pid", str(pid)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
    texts = {}
    for pid, child in started.items():
        try:
            out = child.communicate(timeout=max(until - time.monotonic(), 0.05))[0]
            texts[pid] = out[:LARGEST_DUMP].decode("utf-8", "replace")
        except subprocess.TimeoutExpired:
            child.kill()
    return texts


def abort_processes(pids: Iterable[int]) -> None:
    """End processes that are to be killed so that they write their stacks first.

    They do so where PYTHONFAULTHANDLER is set, into what they write their errors to.
    """
    import resource

    pids = list(pids)
    for pid in pids:
        with suppress(OSError, ValueError):
            resource.prlimit(pid, resource.RLIMIT_CORE, (0, 0))  # no dump of its memory
        send_signal(pid, signal.SIGABRT)
    until = time.monotonic() + ABORTED
    while time.monotonic() < until and any(_lives(pid) for pid in pids):
        time.sleep(0.05)


def _lives(pid: int) -> bool:
    stat = read_stat(pid)
    return stat is not None and stat.lives


# ---- collect.py
# Collect a snapshot: ask each question in a child of its own, and leave behind what hangs.
#
# Nothing on the box is changed. A snapshot is one dictionary that JSON can hold; `files` are the
# dumps of the Flight Recorder, packed; `missing` names what didn't answer, and why.

FINDING = 5.0  # seconds at most, and a quarter of the limit, for who belongs to the run
LAST_SECOND = 1.0  # of the limit, to put the answers together
MOST_CHILDREN = 64  # processes below the ranks that are examined
ENDS = ("done", "failed", "preempted", "unsaved")  # markers in the folder of a run that has ended
ROLL = "own/ranks.json"  # in the run's folder: {rank: [pid, start]}, for ranks that are gone
_STATE = ("name", "phase", "attempt", "step", "exit", "class", "reason", "checkpoint", "stalled",
          "started", "log_age", "log", "gpu")  # fmt: skip
_OF_RUN = ("folder", "run", "end", "expected", "gone", "zombies", "processes", "others")
_SUPERVISORS = ("runner", "supervisor")
_ABORT_LINE = "Fatal Python error: Aborted"


def collect_snapshot(
    folder: str, limit: float, why: str = "asked", abort: bool = False
) -> dict[str, Any]:
    """Return the snapshot of a run by its folder; with '' that of what trains here without one.

    It takes `limit` seconds at most. `why`: what it is taken for, "asked", "stall" or "failure".
    `abort`: those whose stacks can't be had otherwise are to be killed anyway, and may be aborted.
    """
    began = time.monotonic()
    ends = began + limit - LAST_SECOND - (ABORTED if abort else 0)
    run, missing = _find_run(folder, min(FINDING, limit / 4))
    answers, more = ask_all(_questions(run, ends - time.monotonic()), ends)
    if abort:
        _abort_the_rest(run, answers)
    return _assemble(run, why, answers, {**missing, **more}, time.monotonic() - began)


def _find_run(folder: str, seconds: float) -> tuple[dict[str, Any], dict[str, str]]:
    """Return who belongs to the run, and what the run's folder says; and what didn't answer.

    The folder may hang: who is the run's is known without it, by the marks of processes.
    """
    first: dict[str, Sequence[Any]] = {"processes": (_marked_processes, folder)}
    if folder:
        first["folder"] = (_read_folder, folder)
    until = time.monotonic() + seconds
    answers, missing = ask_all(first, until)
    marked, files = answers.get("processes") or {}, answers.get("folder") or {}
    supervisors = files.get("supervisors", [])
    pids = {*marked.get("pids", []), *files.get("pids", [])} - set(supervisors)
    place = marked.get("inner") or folder
    if place != folder and "folder" not in missing:
        # The folder of this box's node lies in that of the run.
        files = ask_all({"folder": (_read_folder, place)}, until)[0].get("folder") or files
    parents = {*pids, *files.get("supervisors", [])}
    ranks = {"ranks": (_find_ranks, sorted(pids), sorted(parents), files.get("roll") or {})}
    last, more = ask_all(ranks, until + seconds / 2)
    run = {"members": [], "expected": [], "gone": {}, "zombies": [], **(last.get("ranks") or {})}
    run.update(
        folder=place,
        others=[name for name in marked.get("others", []) if name != place],
        run=files.get("run") or {},
        end=files.get("end") or "",
        processes=sorted(pids)[:200],
    )
    return run, {**missing, **more}


def _marked_processes(folder: str) -> dict[str, Any]:
    """Return the processes of a run by what /proc tells alone."""
    runs = find_runs()
    top = os.path.normpath(folder) if folder else ""
    # The cells of a queue lie below its folder.
    names = {name for name in runs if top and (name + "/").startswith(top + "/")}
    pids = set().union(*(runs[name] for name in names)) if top else find_without_a_run()
    pids = with_descendants(pids, read_table())
    marks = (read_environment(pid).get(RUN_MARK, "") for pid in sorted(pids))
    return {
        "pids": sorted(pids),
        "inner": next(filter(None, marks), ""),
        "others": sorted(set(runs) - names),
    }


def _read_folder(folder: str) -> dict[str, Any]:
    """Return what the folder of a run says. `pids`: the program's first process, the others of its
    session, orphans that the supervisor inherited, and what lives below them."""
    table = read_table()
    leader, above = _noted_process(folder, "train"), _noted_process(folder, "supervisor")
    supervisors = [pid for name in _SUPERVISORS if (pid := _noted_process(folder, name))]
    own = [pid for pid, stat in table.items() if leader and leader in (pid, stat.session)]
    orphans = [pid for pid, stat in table.items() if above and stat.parent == above]
    own += [pid for pid in orphans if "RGT_OWN" not in read_environment(pid)]
    state = read_object(os.path.join(folder, "state.json"))
    return {
        "pids": sorted(with_descendants(own, table) - set(supervisors)),
        "supervisors": supervisors,
        "run": {name: state.get(name) for name in _STATE} if state else {},
        "end": next((end for end in ENDS if os.path.lexists(f"{folder}/.{end}")), ""),
        "roll": read_object(os.path.join(folder, ROLL)),
    }


def _noted_process(folder: str, name: str) -> int:
    """Return the pid of one of a run's processes, 0 where that is gone."""
    pid, start = read_noted(folder, name)
    return pid if is_same_process(pid, start) else 0


def read_object(path: str, most: int = 1 << 20) -> dict[str, Any]:
    """Return a file's JSON object, {} where there is none, or a longer one."""
    with suppress(OSError, ValueError, RecursionError):
        if os.path.getsize(path) <= most:
            with open(path, encoding="utf-8", errors="surrogateescape") as file:
                value = json.load(file)
            return value if isinstance(value, dict) else {}
    return {}


def _find_ranks(pids: list[int], parents: list[int], roll: dict[str, Any]) -> dict[str, Any]:
    """Return the ranks among processes, and which of them are missing."""
    members = find_members(pids)
    is_alone = is_only_machine(read_environment(members[0]["pid"])) if members else False
    return {
        "members": members,
        "expected": expected_ranks(members, is_alone),
        "gone": gone_ranks(roll, members),
        "zombies": find_zombies(parents),
    }


def _examined(run: dict[str, Any]) -> list[int]:
    """Return the processes to examine: the ranks, and the first of those below them."""
    children = [pid for one in run["members"] for pid in one["children"]]
    return [*(one["pid"] for one in run["members"]), *children[:MOST_CHILDREN]]


def _questions(run: dict[str, Any], seconds: float) -> dict[str, Sequence[Any]]:
    """Return all that is asked, by name. `seconds`: until the answers have to be there."""
    ranks, folder, state = run["members"], run["folder"], run["run"]
    pids = [one["pid"] for one in ranks]
    since = float(state.get("started") or 0)
    first = pids[0] if pids else 0
    by_rank = {str(one["rank"] or 0): one["pid"] for one in ranks}
    asked: dict[str, Sequence[Any]] = {
        "stacks": (collect_stacks, _examined(run), seconds - LAST_SECOND),
        "cards": (ask_cards,),
        "kernel": (read_kernel_log, _begin_after_boot(since, ranks)),
        "memory": (read_memory, first),
        "sockets": (read_sockets, {_name_member(one): one["pid"] for one in ranks}),
        "software": (read_software, first),
        "recorder": (_read_dumps_of, by_rank, folder, since),
        "shm": (read_disk, "/dev/shm"),
    }
    asked.update({f"process {pid}": (examine_process, pid) for pid in _examined(run)})
    asked.update({f"output {_name_member(one)}": (_read_output, one["pid"]) for one in ranks})
    if folder:
        asked["log"] = (read_log, folder)
    if state.get("checkpoint"):
        asked["checkpoint"] = (measure_checkpoint, state["checkpoint"])
    for path in _choose_folders(folder, state, pids):
        asked[f"disk {path}"] = (read_disk, path)
    return asked


def _begin_after_boot(since: float, ranks: list[dict[str, Any]]) -> float:
    """Return when the run began, in seconds after the machine's start; 0 where nothing says so."""
    if since:
        return max(read_uptime() - (time.time() - since), 0.0)
    return min((one["start"] for one in ranks), default=0) / os.sysconf("SC_CLK_TCK")


def _name_member(one: dict[str, Any]) -> str:
    return f"process {one['pid']}" if one["rank"] is None else f"rank {one['rank']}"


def _choose_folders(folder: str, state: dict[str, Any], pids: list[int]) -> list[str]:
    """Return the folders whose disks matter, one a mount: of run, checkpoints, work and /tmp."""
    paths = [folder, os.path.dirname(str(state.get("checkpoint") or "")), "/tmp"]
    for pid in pids[:8]:
        with suppress(OSError):
            paths.append(os.readlink(f"/proc/{pid}/cwd"))
    mounts = read_mounts()
    by_mount = {find_mount(path, mounts)[0]: path for path in reversed(paths) if path}
    return sorted(by_mount.values())


def _read_output(pid: int) -> dict[str, Any]:
    path = find_output(pid)
    return {"path": path, **read_tail(path)} if path else {}


def _read_dumps_of(pids: dict[str, int], folder: str, since: float) -> dict[str, Any]:
    return read_dumps({rank: read_environment(pid) for rank, pid in pids.items()}, folder, since)


def _abort_the_rest(run: dict[str, Any], answers: dict[str, Any]) -> None:
    """Abort the processes without a stack, and read anew the log into which they write theirs."""
    stacks = answers.setdefault("stacks", {})
    pids = [pid for pid in _examined(run) if str(pid) not in stacks]
    if not pids:
        return
    abort_processes(pids)
    log = ask_all({"log": (read_log, run["folder"])}, time.monotonic() + LAST_SECOND)[0].get("log")
    answers["log"] = log or answers.get("log")
    written = ((log or {}).get("text") or "").split(_ABORT_LINE)[1:]
    if len(pids) == 1 and written and (threads := parse_fault_handler(written[-1])):
        stacks[str(pids[0])] = {"how": "abort", "threads": threads}


def _assemble(
    run: dict[str, Any], why: str, answers: dict[str, Any], missing: dict[str, str], seconds: float
) -> dict[str, Any]:
    """Put the answers together."""
    stacks = answers.get("stacks") or {}

    def describe(pid: int) -> dict[str, Any]:
        facts = answers.get(f"process {pid}") or {}
        return {"pid": pid, **facts, **(stacks.get(str(pid)) or {"how": "", "threads": []})}

    ranks = []
    for one in run["members"]:
        rank = {**one, **describe(one["pid"]), "name": _name_member(one)}
        rank["children"] = [describe(pid) for pid in one["children"]]
        rank["output"] = answers.get(f"output {_name_member(one)}") or {}
        ranks.append(rank)
    log = _separate_outputs(ranks, answers.get("log") or {})
    recorder = answers.get("recorder") or {"files": {}, "left_out": []}
    return {
        "why": why,
        "at": int(time.time()),
        "seconds": round(seconds, 1),
        "host": os.uname().nodename,
        **{name: run[name] for name in _OF_RUN},
        "ranks": ranks,
        "cards": answers.get("cards") or {"cards": []},
        "kernel": answers.get("kernel") or {"lines": [], "xids": []},
        "memory": answers.get("memory") or {},
        "disks": {n.partition(" ")[2]: a for n, a in answers.items() if n.startswith("disk ")},
        "shm": answers.get("shm") or {},
        "sockets": answers.get("sockets") or [],
        "software": answers.get("software") or {},
        "checkpoint": answers.get("checkpoint") or {},
        "log": log,
        "recorder": {"left_out": recorder["left_out"]},
        "files": recorder["files"],
        "missing": missing,
    }


def _separate_outputs(ranks: list[dict[str, Any]], log: dict[str, Any]) -> dict[str, Any]:
    """Leave each rank the file that it alone writes; return the log of all of them."""
    paths = [one["output"].get("path") for one in ranks]
    for one in ranks:
        path = one["output"].get("path", "")
        if path and (paths.count(path) > 1 or is_run_log(path)):
            log = log or one["output"]
            one["output"] = {}
    return log


# ---- judge.py
# Which rank of a snapshot differs from the others, and how. Pure.
#
# A rank that waits in a collective waits for somebody: it differs only where another one stands
# elsewhere. So those outside a collective come first.

BUSY_SHARE = 0.5  # of a core
WAKES_OFTEN = 20  # times a second that a thread wakes up; one that hangs does so hardly ever
WAITING = ("collective", "backward", "joining", "cuda")  # in which ranks wait for each other
_WAITS_FOR = {
    "futex": "a lock", "poll": "a message", "epoll_wait": "a message", "select": "a message",
    "recv": "a message", "recvmsg": "a message", "accept": "a connection", "nanosleep": "a sleep",
    "wait": "a child process", "flock": "a file lock", "fcntl": "a file lock",
    "pause": "a signal", "sigsuspend": "a signal", "sigtimedwait": "a signal",
}  # fmt: skip

_DOING = {"library": "in", "save": "saving,", "worker": "a data loader's worker,", "data": "in"}
# ValueError: shape mismatch in the head
_EXCEPTION = re.compile(r"(?:[a-zA-Z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Interrupt|Exit)\b.*")


class Standing(NamedTuple):
    """Where one rank stands.

    `kind`: gone, dead, stopped, traced, stuck, leaving, one of frames' kinds, "running" or
    "waiting" where only /proc tells. `said`: the same in words. `key`: what equal ranks share.
    `moves`: a moment later it was elsewhere, or its main thread wakes up often.
    """

    rank: int | None
    name: str
    kind: str
    said: str
    key: tuple[Any, ...]
    moves: bool = False


class Finding(NamedTuple):
    """One line about ranks that stand in the same place. `ranks`: those it is about."""

    ranks: tuple[int, ...]
    text: str


def find_standings(snapshots: list[dict[str, Any]]) -> list[Standing]:
    """Return where each rank of all boxes stands; those that are gone too."""
    standings = []
    for snapshot in snapshots:
        for one in compared_members(snapshot):
            moves = _moves(one) or one.get("wakes", 0) >= WAKES_OFTEN
            standings.append(_describe_member(one, snapshot)._replace(moves=moves))
        standings += _missing_ranks(snapshot, {one.rank for one in standings})
    if len(snapshots) > 1:
        world = max((one["world"] or 0 for s in snapshots for one in s["ranks"]), default=0)
        seen = {one.rank for one in standings}
        for rank in range(min(world, 4096)):
            if rank not in seen:
                said = "on none of these boxes"
                standings.append(Standing(rank, f"rank {rank}", "gone", said, ("gone",)))
    return sorted(standings, key=lambda one: (one.rank is None, one.rank or 0, one.name))


def compared_members(snapshot: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the processes to compare: the ranks, or what one program without ranks has spawned."""
    ranks = snapshot["ranks"]
    if len(ranks) == 1 and ranks[0]["rank"] is None and len(ranks[0]["children"]) > 1:
        place = find_place(main_frames(ranks[0]["threads"]))
        spawned = [one for one in ranks[0]["children"] if not _is_worker(one)]
        if place is not None and place.call in ("join", "wait", "spawn", "start_processes"):
            return [{"rank": None, "name": f"process {one['pid']}", "children": [], **one}
                    for one in spawned]  # fmt: skip
    return ranks


def _is_worker(one: dict[str, Any]) -> bool:
    place = find_place(main_frames(one["threads"]))
    return place is not None and place.kind == "worker"


def _describe_member(one: dict[str, Any], snapshot: dict[str, Any]) -> Standing:
    rank, name = one["rank"], one["name"]
    place = find_place(main_frames(one["threads"]))
    state, where = one.get("state", ""), f" in {place.text()}" if place else ""
    if not state or state in "ZX":
        return Standing(rank, name, "dead", "dead: it ended while it was looked at", ("dead",))
    if one.get("tracer"):
        said = f"held by process {one['tracer']}, a debugger or tracer{where}"
        return Standing(rank, name, "traced", said, ("traced", rank))
    if state in "Tt":
        said = f"stopped by a signal (state T, as SIGSTOP does){where}"
        said += f"; kill -CONT {one['pid']} lets it go on"
        return Standing(rank, name, "stopped", said, ("stopped", rank))
    if state == "D" and one.get("steady", True):
        return Standing(rank, name, "stuck", _describe_stuck(one, place), ("stuck", rank))
    if place is None:
        kind = "running" if is_busy(one) else "waiting"
        said = f"{_describe_use(one)}{_describe_wait(one)}; no Python stack"
        return Standing(rank, name, kind, said, (kind, _call_name(one)))
    if place.kind == "leaving":
        said = f"at its end, in what runs after the program (atexit, threads): {place.text()}"
        said += f": {_describe_use(one)}{_describe_wait(one)}{_last_exception(one, snapshot)}"
        return Standing(rank, name, "leaving", said, ("leaving",))
    if place.kind in WAITING:
        said = f"in {place.text()}"
        if place.kind == "backward":
            said += ", which may hold a collective"
        return Standing(rank, name, place.kind, said, (place.kind, place.call, *place.frame[1:]))
    said = f"{_describe_own_code(one, place)}{_describe_children(one)}"
    return Standing(rank, name, place.kind or "own", said, ("own", place.call, *place.frame[1:]))


def _last_exception(one: dict[str, Any], snapshot: dict[str, Any]) -> str:
    """Return the last exception that a rank wrote, '' where none is known to be its own."""
    own = one["output"].get("text", "")
    head = f"[rank{one['rank']}]:" if not own and len(snapshot["ranks"]) > 1 else ""
    for line in reversed((own or snapshot["log"].get("text", "")).splitlines()):
        if line.startswith(head):
            match = _EXCEPTION.match(line[len(head) :].strip())
            if match:
                return f"; it wrote: {match[0][:160]}"
    return ""


def _describe_own_code(one: dict[str, Any], place: Place) -> str:
    """Return what a rank does outside of a collective."""
    moves = ", the same line a moment later" if one.get("again") else ""
    if _moves(one):
        moves = ", and moves on"
    what = "loading data in own code," if place.loads else "in own code,"
    what = _DOING.get(place.kind, what)
    return f"{what} {place.text()}: {_describe_use(one)}{_describe_wait(one)}{moves}"


def _moves(one: dict[str, Any]) -> bool:
    """Return whether a rank's main thread was elsewhere a moment later."""
    return bool(one.get("again")) and one["again"] != main_frames(one["threads"])


def _describe_use(one: dict[str, Any]) -> str:
    """Return how much of a core a process used."""
    cpu = one.get("cpu", 0)
    if is_busy(one):
        short = ", and wants more" if cpu < BUSY_SHARE else ""
        return f"computes ({cpu:.0%} of a core{short})"
    return "waits" if cpu < 0.05 else f"waits mostly ({cpu:.0%} of a core)"


def is_busy(one: dict[str, Any]) -> bool:
    """Return whether a process computes; on a full machine it may get little of a core."""
    return max(one.get("cpu", 0), one.get("main", 0)) >= BUSY_SHARE


def _call_name(one: dict[str, Any]) -> str:
    return (one.get("call") or {}).get("name", "") or one.get("wchan", "")


def _describe_wait(one: dict[str, Any]) -> str:
    """Return the call in which a waiting process is, as in " for a lock"."""
    if is_busy(one):
        return ""
    call = one.get("call") or {}
    name, file = call.get("name", ""), call.get("file", "")
    if file and name not in ("poll", "epoll_wait", "select"):
        return f" in {name} of {_describe_file(file)}"
    if name in _WAITS_FOR:
        return f" for {_WAITS_FOR[name]}"
    return f" (kernel: {one['wchan']})" if one.get("wchan") else ""


def _describe_file(path: str) -> str:
    if path.startswith("pipe:"):
        return "a pipe"
    return "a socket" if path.startswith("socket:") else path[-120:]


def _describe_stuck(one: dict[str, Any], place: Place | None) -> str:
    where = f", {place.text()}" if place else ""
    kernel = one.get("kernel") or ([one["wchan"]] if one.get("wchan") else [])
    path = (one.get("call") or {}).get("file", "")
    file = f" of {_describe_file(path)}" if path else ""
    said = f"stuck in the kernel (state D, no signal but a kill reaches it){where}"
    name = (one.get("call") or {}).get("name", "")
    said += f", in {name}{file}" if name else ""
    return said + (f" (kernel: {', '.join(kernel[:3])})" if kernel else "")


def _describe_children(one: dict[str, Any]) -> str:
    """Return what differs about a rank's children, '' for nothing."""
    lines = []
    for child in one.get("children", []):
        state = child.get("state", "")
        place = find_place(main_frames(child["threads"]))
        if state in ("T", "t"):
            lines.append(f"its child {child['pid']} is stopped")
        elif state == "D" and child.get("steady", True):
            lines.append(f"its child {child['pid']} is {_describe_stuck(child, place)}")
        elif place is not None and place.kind == "worker":
            own = place.frame
            if os.path.basename(str(own[1])) != "worker.py":
                use = f"{_describe_use(child)}{_describe_wait(child)}"
                lines.append(f"its worker {child['pid']} is in {place.text()}: {use}")
    return "; " + "; ".join(lines[:2]) if lines else ""


def _missing_ranks(snapshot: dict[str, Any], seen: set[int | None]) -> list[Standing]:
    """Return the ranks of a box that aren't there any more."""
    roll = {int(rank): pid for rank, pid in snapshot["gone"].items()}
    ranks = sorted({*snapshot["expected"], *roll} - {rank for rank in seen if rank is not None})
    here = any(one["rank"] is not None for one in snapshot["ranks"])
    if not here:
        return []  # the run has ended, or never came so far
    dead = {one["pid"]: one for one in snapshot["zombies"]}
    nameless = [one for pid, one in dead.items() if pid not in roll.values()]
    standings = []
    for rank in ranks:
        pid = roll.get(rank, 0)
        is_only = not pid and len(ranks) == len(nameless) == 1
        one = dead.get(pid) or (nameless[0] if is_only else None)
        killed = [line for line in snapshot["kernel"]["lines"]
                  if "Killed process" in line and pid and f" {pid} " in line]  # fmt: skip
        said = f"dead: {_describe_end(one['status'])}" if one else "dead: its process is gone"
        said += f" (pid {one['pid'] if one else pid})" if one or pid else ""
        said += "; the kernel killed it for want of memory" if killed else ""
        standings.append(Standing(rank, f"rank {rank}", "dead", said, ("dead", rank)))
    return standings


def _describe_end(status: int) -> str:
    """Return a wait status in words."""
    if status & 127:
        try:
            return f"killed by {signal.Signals(status & 127).name}"
        except ValueError:
            return f"killed by signal {status & 127}"
    return f"ended with exit code {status >> 8}" if status else "ended"


_WORST_FIRST = ("gone", "dead", "stopped", "traced", "stuck", "leaving")


def compare_ranks(standings: list[Standing]) -> tuple[list[Finding], list[Finding]]:
    """Return who differs, the most telling first, and where the others are.

    Nobody does where all ranks move on: they train, each where it happens to be.
    """
    if standings and all(one.moves and one.kind not in _WORST_FIRST for one in standings):
        ranks = tuple(one.rank for one in standings if one.rank is not None)
        return [], [Finding(ranks, f"{name_group(standings)}: all move on, so the run trains")]
    bad = [one for one in standings if one.kind in _WORST_FIRST]
    others = [one for one in standings if one.kind not in _WORST_FIRST]
    bad.sort(key=lambda one: _WORST_FIRST.index(one.kind))
    groups: dict[tuple[Any, ...], list[Standing]] = {}
    for one in others:
        groups.setdefault(one.key, []).append(one)
    ordered = sorted(groups.values(), key=lambda group: (group[0].kind in WAITING, len(group)))
    first = [_describe_group(group) for group in _group_by_words(bad)]
    if len(ordered) == 1:
        rest = ordered
    else:
        waiting = [group for group in ordered if group[0].kind in WAITING]
        largest = max(waiting or ordered, key=len, default=[])
        equal = [c for c in (waiting or ordered) if len(c) == len(largest)]
        # Of groups of equal size nobody can say which one strayed: all are told.
        rest = [] if len(equal) > 1 and not first and len(waiting) == len(ordered) else [largest]
        if not waiting and len(equal) > 1:
            rest = []
    first += [_describe_group(group) for group in ordered if group not in rest]
    return first, [_describe_group(group) for group in rest if group]


def _group_by_words(standings: list[Standing]) -> list[list[Standing]]:
    """Return those with the same words together."""
    same: dict[str, list[Standing]] = {}
    for one in standings:
        same.setdefault(one.said, []).append(one)
    return list(same.values())


def _describe_group(group: list[Standing]) -> Finding:
    ranks = tuple(one.rank for one in group if one.rank is not None)
    return Finding(ranks, f"{name_group(group)}: {group[0].said}")


def name_group(group: list[Standing]) -> str:
    """Return as in "rank 3", "ranks 0-2, 5" or "process 4121"."""
    ranks = sorted(one.rank for one in group if one.rank is not None)
    if len(ranks) < len(group):
        return ", ".join(one.name for one in group[:6])
    return name_ranks(ranks)


def name_ranks(ranks: list[int]) -> str:
    """Return sorted ranks in words, '' for none."""
    return f"rank{'s' if len(ranks) > 1 else ''} {join_numbers(ranks)}" if ranks else ""


def join_numbers(numbers: Iterable[int]) -> str:
    """Return numbers in short, as in "0-2, 5"."""
    spans: list[list[int]] = []
    for number in numbers:
        if spans and spans[-1][1] == number - 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    return ", ".join(f"{a}" if a == b else f"{a}-{b}" for a, b in spans)


# ---- page.py
# A snapshot as a page: first what is odd, then the rest in short. Pure.

PAGE_TOKENS = 800.0  # tokens
LINE_WIDTH = 300  # characters of a line
MOST_ODD, MOST_PIDS = 8, 16
LAST_LOG_LINES = 3
FULL_DISK, FEW_INODES = (
    0.02,
    10_000,
)  # a share of a disk, and inodes, below which there is little left
_NO_STACKS = (
    "py-spy on the box's PATH reads them (pip install py-spy); ranks that rgt start begins carry "
    "a fault handler"
)


def estimate_tokens(text: str) -> float:
    """About how many tokens a text has, on the high side."""
    return len(text) / 2.6


def format_page(
    snapshots: list[dict[str, Any]], cost: Callable[[str], float] = estimate_tokens
) -> str:
    """Return the page of a run's snapshots, one for each box, within PAGE_TOKENS tokens.

    Who is odd may take two thirds of it; what there is no room for is in snapshot.json.
    """
    found = find_standings(snapshots)
    several = len(snapshots) > 1
    paper = _Paper(cost)
    paper.add([_headline(snapshots, found), ""], PAGE_TOKENS)
    paper.add(_difference_lines(snapshots, found), PAGE_TOKENS * 2 / 3)
    faults = [f"  {line}" for snapshot in snapshots for line in _faults_of_box(snapshot, several)]
    missing = [f"not answered: {', '.join(sorted(snapshot['missing']))[:160]}"
              for snapshot in snapshots[:2] if snapshot["missing"]]  # fmt: skip
    paper.add([*faults, ""], PAGE_TOKENS * 5 / 6)
    paper.add(
        [*missing, *(line for snapshot in snapshots for line in _rest_of_box(snapshot, several))],
        PAGE_TOKENS - 8,
    )
    return paper.text()


def format_stacks(snapshot: dict[str, Any]) -> str:
    """Return all stacks as py-spy prints them, each under its rank: what a look-up reads."""
    parts = []
    for one in compared_members(snapshot):
        if one["threads"]:
            command = shown(one.get("command") or "python", 200)
            rank = f"rank {one['rank']}\n" if isinstance(one["rank"], int) else ""
            parts.append(rank + format_as_py_spy(one["pid"], command, one["threads"]))
    return "\n".join(parts)


class _Paper:
    """Lines within a number of tokens."""

    def __init__(self, cost: Callable[[str], float]):
        self._cost, self._used, self._left_out = cost, 0.0, 0
        self._lines: list[str] = []

    def add(self, lines: list[str], room: float) -> None:
        """Add lines as long as all of the page takes no more than `room`."""
        for at, line in enumerate(lines):
            indent = " " * (len(line) - len(line.lstrip(" ")))
            cut = indent + shown(line.strip(), LINE_WIDTH)
            price = self._cost(cut) + 1
            if self._used + price > room:
                self._left_out += len(lines) - at
                return
            self._used += price
            self._lines.append(cut)

    def text(self) -> str:
        """Return the page."""
        more = [f"({self._left_out} lines more in snapshot.json)"] if self._left_out else []
        return "\n".join([*self._lines, *more]).rstrip() + "\n"


def _difference_lines(snapshots: list[dict[str, Any]], found: list[Standing]) -> list[str]:
    """Return who differs from the others, and where the others are."""
    first, rest = compare_ranks(found)
    if not found:
        return [_why_no_process(snapshots)]
    if first:
        more = len(first) - MOST_ODD
        lines = [f"  {one.text}" for one in first[:MOST_ODD]]
        lines += [f"  and {more} more groups"] if more > 0 else []
        return ["odd:", *lines, *(f"  the others, {one.text}" for one in rest)]
    where = rest[0].text if rest else ""
    blind = not any(one.get("how") for snapshot in snapshots for one in compared_members(snapshot))
    head = "can't be told without Python stacks" if blind else "no rank differs"
    lines = [f"odd: {head}. {where[:1].upper()}{where[1:]}"]
    return [*lines, f"  {_NO_STACKS}"] if blind else lines


def _headline(snapshots: list[dict[str, Any]], found: list[Standing]) -> str:
    first = snapshots[0]
    run = first["run"]
    what = run.get("name") or (first["folder"] and first["folder"].rpartition("/")[2]) or "no run"
    where = ", ".join(snapshot["host"] for snapshot in snapshots)
    parts = [f"{what} on {where}", time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(first["at"]))]
    if first["why"] != "asked":
        parts.append(f"taken by the runner at a {first['why']}")
    alive = sum(one.kind not in ("gone", "dead") for one in found)
    if any(one.rank is not None for one in found):
        parts.append(f"{alive} of {len(found)} ranks there")
    elif found:
        parts.append(f"{alive} process{'es' if alive > 1 else ''}")
    for key, word in (("phase", ""), ("attempt", "attempt "), ("step", "step ")):
        if run.get(key) is not None:
            parts.append(f"{word}{run[key]}")
    return ", ".join(parts)


def _why_no_process(snapshots: list[dict[str, Any]]) -> str:
    first = snapshots[0]
    run, end = first["run"], first["end"]
    if end:
        why = f": {run['class']}, {run['reason']}" if run.get("class") else ""
        return f"no process of it is left; it ended as {end}{why}"
    if first["folder"]:
        return "no Python process of it is here"
    return "nothing trains here: no process has a rank or a card"


def _faults_of_box(snapshot: dict[str, Any], several: bool) -> list[str]:
    """Return what is odd about one box."""
    faults = []
    kernel = snapshot["kernel"]
    if kernel["xids"]:
        last = [line for line in kernel["lines"] if "Xid" in line][-1]
        faults.append(f"Xid {', '.join(map(str, dict.fromkeys(kernel['xids'])))}: {last[:180]}")
    faults += [
        f"kernel: {line[:180]}" for line in kernel["lines"] if _is_about_run(line, snapshot)
    ][-2:]
    memory = snapshot["memory"]
    if memory.get("kills"):
        faults.append(f"memory: the kernel has killed {memory['kills']} in this cgroup")
    used, limit = memory.get("used_mb"), memory.get("limit_mb")
    if used and limit and used > 0.95 * limit:
        faults.append(f"memory: {used} of {limit} MB of the cgroup are used")
    for path, disk in {**snapshot["disks"], "/dev/shm": snapshot["shm"]}.items():
        if disk and (why := _why_little_room(disk)):
            faults.append(f"disk: {path} has {why}")
    for name in sorted(snapshot["missing"]):
        if name.startswith(("disk ", "checkpoint", "output")):
            faults.append(f"{name}: {snapshot['missing'][name]}: its file system may hang")
    faults += _socket_faults(snapshot["sockets"])
    return [f"{snapshot['host']}: {line}" for line in faults] if several else faults


def _is_about_run(line: str, snapshot: dict[str, Any]) -> bool:
    """Return whether a line of the kernel is about this run, or about the machine."""
    if "Xid" in line:
        return False
    if "segfault" not in line and "general protection" not in line:
        return True
    pids = {
        *snapshot["processes"],
        *snapshot["gone"].values(),
        *(z["pid"] for z in snapshot["zombies"]),
    }
    return any(f"[{pid}]" in line for pid in pids)


def _why_little_room(disk: dict[str, Any]) -> str:
    """Return what a disk lacks, '' for nothing."""
    total, free = disk.get("total_mb") or 0, disk.get("free_mb", 0)
    if disk.get("read_only"):
        return "become read-only"
    if total and (free < FULL_DISK * total and free < 20_000):
        return f"{free} of {total} MB free"
    inodes = disk.get("free_inodes")
    return f"{inodes} inodes free" if inodes is not None and inodes < FEW_INODES else ""


def _socket_faults(sockets: list[dict[str, Any]]) -> list[str]:
    """Return who doesn't read what the others send, and whose peer has closed."""
    unread: dict[str, int] = {}
    closed: dict[str, int] = {}
    for one in sockets:
        unread[one["of"]] = unread.get(one["of"], 0) + one["unread"]
        if one["state"] in ("close-wait", "syn-sent"):
            closed[one["of"]] = closed.get(one["of"], 0) + 1
    faults = [f"sockets: {size} bytes wait for {name}, which doesn't read them"
            for name, size in unread.items() if size > 0]  # fmt: skip
    faults += [f"sockets: {count} of {name} whose other end has closed or doesn't answer"
             for name, count in closed.items()]  # fmt: skip
    return faults[:3]


def _rest_of_box(snapshot: dict[str, Any], several: bool) -> list[str]:
    """Return the rest about one box, the most telling first."""
    lines = [f"{snapshot['host']}:"] if several else []
    lines += _log_lines(snapshot)
    checkpoint = snapshot["checkpoint"]
    if checkpoint:
        lines.append(f"checkpoint: {checkpoint['path']}, {_format_span(checkpoint['age'])} old, "
                    f"{checkpoint['mb']} MB")  # fmt: skip
    elif snapshot["run"]:
        lines.append(f"checkpoint: {snapshot['run'].get('checkpoint') or 'none is whole'}")
    lines += _rank_lines(compared_members(snapshot))
    lines += _card_lines(snapshot)
    lines.append(_memory_line(snapshot["memory"]))
    disks = [
        f"{path} {disk['free_mb'] // 1024} GB free" for path, disk in snapshot["disks"].items()
    ]
    lines.append(f"disks: {'; '.join(disks)}" if disks else "")
    lines.append(_socket_line(snapshot["sockets"]))
    lines.append(_recorder_line(snapshot))
    lines += _software_lines(snapshot["software"])
    if "why" in snapshot["kernel"]:
        lines.append(f"kernel: {snapshot['kernel']['why']}")
    if snapshot["others"]:
        lines.append(f"other runs here: {', '.join(snapshot['others'][:4])}")
    return [line for line in lines if line]


def _rank_lines(members: list[dict[str, Any]]) -> list[str]:
    """Return what /proc tells of the members, a line for those that are alike."""
    alike: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for one in members:
        call = (one.get("call") or {}).get("name") or one.get("wchan") or "-"
        alike.setdefault((one.get("state"), call, one.get("how")), []).append(one)
    lines = []
    for (state, call, how), ones in alike.items():
        cpu = _format_range([one.get("cpu", 0) for one in ones])
        memory = max(one.get("rss_mb", 0) for one in ones)
        line = [f"state {state or 'gone'}", call, f"cpu {cpu}", f"{memory} MB"]
        for key, words in (("children", "children"), ("stuck_threads", "threads in state D")):
            counts = [one.get(key) or 0 for one in ones]
            most = max(len(count) if isinstance(count, list) else count for count in counts)
            line += [f"{most} {words}"] if most else []
        line.append(f"stack by {how}" if how else "no stack")
        pids = ", ".join(str(one["pid"]) for one in ones[:MOST_PIDS])
        ranks = sorted(one["rank"] for one in ones if one["rank"] is not None)
        line.append(f"pids {pids}" if ranks else "")
        lines.append(f"{name_ranks(ranks) or f'pids {pids}'}: {', '.join(filter(None, line))}")
    return lines


def _format_range(shares: list[float]) -> str:
    low, high = min(shares), max(shares)
    return f"{low:.0%}" if round(low, 2) == round(high, 2) else f"{low:.0%}-{high:.0%}"


def _log_lines(snapshot: dict[str, Any]) -> list[str]:
    lines = []
    whole = snapshot["log"]
    if whole.get("text"):
        last = _last_lines(whole["text"], LAST_LOG_LINES)
        lines.append(f"log, last line {_format_span(whole.get('age') or 0)} ago:")
        lines += [f"  {line}" for line in last]
    for one in snapshot["ranks"]:
        if one["output"].get("text"):
            last = _last_lines(one["output"]["text"], 1)
            lines.append(
                f"{one['name']} wrote {_format_span(one['output']['age'])} ago: {''.join(last)}"
            )
    return lines


def _last_lines(text: str, count: int) -> list[str]:
    lines = [line for line in re.split(r"[\r\n]+", text) if line.strip()]
    return [shown(line, 150) for line in lines[-count:]]


def _format_span(seconds: float) -> str:
    """Return seconds in short."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def _card_lines(snapshot: dict[str, Any]) -> list[str]:
    cards = snapshot["cards"]
    pids = set(snapshot["processes"]) | {one["pid"] for one in snapshot["ranks"]}
    lines = []
    for card in cards["cards"][:8]:
        mine = [app for app in cards.get("apps", []) if app["uuid"] == card["uuid"]]
        ours = sum(app["pid"] in pids for app in mine)
        others = f", {len(mine) - ours} foreign" if len(mine) > ours else ""
        lines.append(
            f"card {card['index']}: {card['name']}, {card['utilization.gpu']} %, "
            f"{card['memory.used']}/{card['memory.total']} MB, {card['power.draw']}/"
            f"{card['power.limit']} W, {card['clocks.sm']}/{card['clocks.max.sm']} MHz, "
            f"{card['temperature.gpu']} C, {ours} processes of this run{others}"
        )
    return lines or [f"cards: {cards.get('why', 'none')}"]


def _memory_line(memory: dict[str, Any]) -> str:
    if not memory:
        return ""
    limit = memory.get("limit_mb")
    own = (
        f", cgroup {memory.get('used_mb')} of {limit or 'unlimited'} MB"
        if "used_mb" in memory
        else ""
    )
    kills = f", {memory['kills']} kills" if "kills" in memory else ""
    free, total = memory.get("MemAvailable", 0), memory.get("MemTotal", 0)
    return f"memory: {free} of {total} MB free{own}{kills}"


def _socket_line(sockets: list[dict[str, Any]]) -> str:
    between = sum(bool(one["to"]) for one in sockets) // 2
    away = sum(not one["to"] for one in sockets)
    return f"sockets: {between} between ranks here, {away} elsewhere" if sockets else ""


def _recorder_line(snapshot: dict[str, Any]) -> str:
    count, left = len(snapshot["files"]), len(snapshot["recorder"]["left_out"])
    more = f", {left} too large to copy" if left else ""
    return f"flight recorder: {count} dumps{more}" if count or left else ""


def _software_lines(software: dict[str, Any]) -> list[str]:
    if not software.get("python"):
        return []
    values = software["variables"]
    wanted = ("NCCL", "TORCH", "PYTORCH", "CUDA", "GLOO", "OMP")
    some = [f"{name}={value}" for name, value in values.items() if name.startswith(wanted)]
    parts = [software["python"], f"driver {software['driver']}" if software["driver"] else ""]
    parts += [f"{name} {version}" for name, version in software["packages"].items()]
    lines = [f"software: {', '.join(filter(None, parts))}"]
    return [*lines, f"variables: {' '.join(some)}"] if some else lines


# ---- program.py

LIMIT = 20.0  # seconds
FOLDER_LIMIT = 3.0  # seconds for one look at a folder
KEPT = os.path.join("log", "snapshots")  # in the run's folder: those that the runner took
LARGEST_KEPT = 24 << 20  # bytes of one; without its dumps it stays far below


def main(words: list[str] | None = None) -> int:
    """Print the snapshot of a run, and write it."""
    options = _parse(sys.argv[1:] if words is None else words)
    if not os.path.isdir("/proc/self"):
        print("a snapshot needs Linux: this machine has no /proc", file=sys.stderr)
        return 1
    folder = run_folder(options.run) if options.run else _ask(newest_run)[0]
    is_there, hangs = _ask(os.path.isdir, folder)
    if folder and not is_there and not hangs:
        print(f"no run in {folder}; name one with --run", file=sys.stderr)
        return 1
    if is_there and _ask(_is_closed, folder)[0]:
        print(f"can't read {folder}; take it as its owner, or as root", file=sys.stderr)
        return 2
    snapshot = collect_snapshot(folder or "", options.limit, options.why, options.abort)
    if options.to:
        error = _write(snapshot, options.to)
        if error:
            print(f"{options.to} can't be written ({error})", file=sys.stderr)
            return 2
    if options.json:
        kept = _ask(newest_kept, snapshot["folder"])[0] if is_there else {}
        print(json.dumps({**snapshot, "earlier": kept or {}}))
    else:
        print(format_page([snapshot]), end="")
    return 0 if folder or snapshot["ranks"] else 1


def _parse(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="snapshot.py", description=__doc__, usage=argparse.SUPPRESS, add_help=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    hidden = argparse.SUPPRESS
    parser.add_argument("-h", "--help", action="help", help=hidden)
    parser.add_argument("--limit", type=float, default=LIMIT, help=hidden)
    parser.add_argument("--json", action="store_true", help=hidden)
    parser.add_argument("--to", default="", help=hidden)
    parser.add_argument(
        "--why", choices=("asked", "stall", "failure"), default="asked", help=hidden
    )
    parser.add_argument("--abort", action="store_true", help=hidden)
    parser.add_argument("run", nargs="?", default="", help=hidden)
    return parser.parse_args(words)


def _ask(function: Any, *arguments: Any) -> tuple[Any, bool]:
    """Return what a function answers, and whether it hangs: a folder may be on a dead mount."""
    question = Question(function, *arguments)
    hangs = not question.poll(FOLDER_LIMIT)
    question.give_up()
    try:
        return question.value(), False
    except NoAnswer:
        return None, hangs


def _write(snapshot: dict[str, Any], folder: str) -> str:
    """Write page.md, snapshot.json and stacks.log; return why that failed, '' for nothing."""
    text = json.dumps(snapshot)
    if len(text) > LARGEST_KEPT:
        text = json.dumps({**snapshot, "files": {}})
    texts = {
        "snapshot.json": text,
        "stacks.log": format_stacks(snapshot),
        "page.md": format_page([snapshot]),
    }
    try:
        os.makedirs(folder)
        for name, content in texts.items():
            path = os.path.join(folder, name)
            with open(path, "w", encoding="utf-8", errors="replace") as file:
                file.write(content)
    except OSError as error:
        return error.strerror or str(error)
    return ""


def newest_kept(folder: str) -> dict[str, Any]:
    """Return the newest snapshot that the runner kept in a run's folder, {} without one."""
    place = os.path.join(folder, KEPT)
    names = sorted(os.listdir(place)) if os.path.isdir(place) else []
    kept = (read_object(os.path.join(place, name, "snapshot.json"), LARGEST_KEPT)
            for name in reversed(names) if name[:1].isdigit())  # fmt: skip
    return next(filter(None, kept), {})


def _is_closed(folder: str) -> bool:
    """Return whether there is a run here that this user may not read."""
    if not os.access(folder, os.R_OK | os.X_OK):
        return True
    paths = [os.path.join(folder, name) for name in ("state.json", "lock", "events.jsonl")]
    return any(os.path.lexists(path) and not os.access(path, os.R_OK) for path in paths)


def run_folder(name: str) -> str:
    """Return the folder of a run by a name under ~/runs, or by a path."""
    if not name.startswith(("/", "~/")):
        name = f"~/{name}" if "/" in name else f"~/runs/{name}"
    return os.path.normpath(os.path.expanduser(name))


def newest_run() -> str:
    """Return the folder of the user's run that lives, else of the newest under ~/runs, '' for none.

    Of several that live it is the one that wrote its state last. Where several share an account,
    such as root, each has a home.
    """
    top = os.path.expanduser("~/runs")
    living = [
        folder
        for folder, pids in find_runs().items()
        if os.path.isdir(folder)
        and (folder.startswith(f"{top}/") or any(_is_at_home(pid) for pid in pids))
    ]
    if living:
        return max(living, key=_last_written)
    names = os.listdir(top) if os.path.isdir(top) else []
    places = [os.path.join(top, name) for name in names]
    scripts = [place for place in places if os.path.exists(os.path.join(place, "run.sh"))]
    # What this user trains without a run of ours counts for more than a run that has ended.
    if any(_is_at_home(pid) for pid in find_without_a_run()):
        return ""
    return max(scripts, key=_last_written, default="")


def _is_at_home(pid: int) -> bool:
    """Return whether a process has this user's home."""
    home = read_environment(pid).get("HOME", "/")
    return os.path.normpath(home) == os.path.normpath(os.path.expanduser("~"))


def _last_written(folder: str) -> float:
    """Return when a run last wrote its state, else its script; 0 for neither."""
    for name in ("state.json", "run.sh"):
        try:
            return os.stat(os.path.join(folder, name)).st_mtime
        except OSError:
            continue
    return 0.0


if __name__ == "__main__":
    sys.exit(main())
