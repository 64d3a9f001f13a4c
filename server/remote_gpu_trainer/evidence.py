"""A pasted report, or logs of any size, to what actually failed.

One file, standard library, Python 3.8: `lookup --log HOST:PATH` pipes this very file to the box. Three steps: read
(bounded memory: of a large file only windows around telling words, its head and its tail are kept), classify each
kept line, judge (which lines decide, which rank failed first).

Limits: a large file's line is seen only if it holds one of TELLING or stands in the head or tail; a rank is known only
from a prefix or a file name that RANK_PREFIX or RANK_NAME describes; lines are cut at MAX_LINE characters.
"""

from __future__ import annotations

import codecs
import os
import re
import stat
from dataclasses import dataclass, field
from typing import Callable, Iterable, List, Optional, Tuple

WHOLE = 1 << 20  # bytes up to which every line is kept
BLOCK = 1 << 20
HEAD, TAIL = 1 << 15, 1 << 17  # bytes of a large file that are kept whatever they hold
BEFORE, AFTER = 3000, 3000  # bytes kept around a telling word
PER_SHAPE = 3  # windows kept for lines that differ in digits only
MAX_KEPT = 4 << 20  # bytes of windows kept of one file
MAX_SHAPES, MAX_LATEST = 20000, 300
MAX_LINE = 2000
MAX_FILES = 512
LONGEST = 8 << 20  # bytes of one line above which a file of nothing else is no log

TELLING = (
    b"Traceback (most", b"Error", b"error:", b"ERROR", b"rror(s)", b"Exception", b"Warning", b"WARN", b"FATAL", b"Fatal", b"Killed",
    b"killed", b"bort", b"ignal ", b"SIG", b"Segmentation", b"xitcode", b"atchdog", b"imed out", b"imeout", b"oom-kill",
    b"OutOfMemory", b"out of memory", b"No space left", b"quota", b"Assert", b"assert", b"mismatch", b"failed", b"Failed",
)  # fmt: skip

_DIGITS = re.compile(rb"[0-9a-f]*[0-9][0-9a-f]*")
_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])")
_BAR = re.compile(r"[^|\n]{0,80}?\d{1,3}%\|[^|]{0,200}\|\s*[\d.]+\w?/[\d.]+\w?\s*\[[^\]\n]{0,200}\]?")
RANK_PREFIX = re.compile(
    r"\s*(?:\[rank(\d{1,5})\]:?|\[default(\d{1,5})\]:|\[\d+,(\d{1,5})\]<std(?:out|err)>:?|\(rank[ =]?(\d{1,5})\)|rank[ _]?(\d{1,5})\s?[:|]|\[(\d{1,4})\]:(?=\s))\s?",
    re.I,
)
RANK_NAME = re.compile(
    r"(?:(?:local_?)?rank|worker|proc|node|gpu|task|default|stderr|stdout|log|err|out)s?[-_.]?(\d{1,5})(?:\D|$)|(?:^|/)(\d{1,5})/std(?:err|out)(?:\.log)?$|[-_.](\d{1,5})\.(?:log|txt|out|err)$",
    re.I,
)
_STAMP = re.compile(r"\s*[\[(]?(\d{4}[-/]\d\d[-/]\d\d[ T]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?)(?:Z|[+-]\d\d:?\d\d)?[\])]?[\s,|:-]*")
_GLOG = re.compile(r"[IWEF](\d{4} \d\d:\d\d:\d\d(?:\.\d{1,9})?)\s+\d+\s+[^\]\s]{1,200}\]\s?")
_TRACE = re.compile(r"Traceback \(most recent call last\)")
_FRAME = re.compile(r'\s*File "([^"]{1,400})", line (\d+)(?:, in (\S+))?')
_EXCEPTION = re.compile(r"(?:[A-Za-z_]\w*\.)*[A-Za-z_]\w*(?:Error|Exception|Interrupt|Failure|Exit|Warning|Timeout|Expired|LimitHit)(?::\s|$)")
_FAILURE = re.compile(
    r"\bKilled\b|killed by signal|Segmentation fault|Bus error|core dumped|Aborted\b|terminate called|what\(\):|CUDA error|NCCL WARN|"
    r"slurmstepd: error|srun: error|oom[-_]kill|Out of memory: Kill|exitcode\s*:\s*-?\d|Signal \d+ \(SIG|watchdog|\bFATAL\b|\bfatal error\b|"
    r"Assertion .{0,200} failed|\[E\d* ?ProcessGroup|Watchdog caught|\bError:|\b[eE]rror\b.{0,80}:|\bERROR\b|exited with (?:code|status|signal)|Exit code|exit code -?[1-9]",
)
_WARNING = re.compile(r"Warning:|\bWARN(?:ING)?\b|\[W\d* ")
_NOISE = re.compile(r"^\W*$|^[\s=*#_~-]{6,}|^Root Cause|^Other Failures|^\s*\[\d+\]:\s*$|^-+$")
_SECONDARY = re.compile(
    r"connection (?:reset|closed|refused)|closed by peer|broken pipe|recvvalue|socket timeout|sigterm|signal 15|keyboardinterrupt|"
    r"watchdog|timed? ?out|remote process exited|abort|ncclcommwatchdog|heartbeat|store|sendbytes|no error",
    re.I,
)
_LOST_PEER = re.compile(r"connection (?:reset|closed)|closed by peer|broken pipe|sigterm|signal 15\b|exitcode\s*:\s*-15|remote process exited|sendbytes failed|recvvalue failed", re.I)
_WRAPPER = re.compile(r"ChildFailedError|CalledProcessError|SystemExit|ProcessExitedException|ProcessRaisedException|FAILED$|SignalException|subprocess-exited|returned non-zero exit")
_ROOT = re.compile(r"Root Cause \(first observed failure\)")
_SUMMARY_RANK = re.compile(r"^\s*rank\s*:\s*(\d+)")
_SUMMARY_CODE = re.compile(r"^\s*exitcode\s*:\s*(-?\d+)")
_STEP = re.compile(r"\b(?:step|iter(?:ation)?|it|batch)\b\D{0,4}(\d{1,9})", re.I)
_SECRETS = re.compile(
    r"\b(hf_|sk-|ghp_|gho_|github_pat_|glpat-|xox[abp]-|AKIA|ya29\.|AIza|rpa_)[A-Za-z0-9_\-.]{8,}|(?<=Bearer )[A-Za-z0-9_\-.=]{8,}"
    r"|((?:api[_-]?key|token|password|passwd|secret)['\"]?\s*[=:]\s*['\"]?)[^\s'\"&,;]{6,}",
    re.I,
)
_KEY_NAME = re.compile(r"^id_(?:rsa|dsa|ecdsa|ed25519)(?:_sk)?$|\.(?:pem|key|p12|pfx|kdbx|ppk)$|^\.(?:env|netrc|pgpass|git-credentials)|^(?:credentials|token|authorized_keys)$", re.I)
_NOT_LOGS = re.compile(r"\.(?:py|pyc|so|pt|pth|bin|safetensors|npy|npz|pkl|png|jpg|zip|gz|tar|whl|parquet|arrow|ckpt|onnx|h5|db|sqlite|lock|md|ya?ml|toml|cfg|sh|html?|csv|jsonl?)$", re.I)


class Unreadable(Exception):
    """The input can't be read as a log. The text says what was found, what was expected and what to do."""


@dataclass(frozen=True)
class Line:
    """One line that was looked at. `kind`: trace, frame, exception, message, failure, warning, plain, or
    consequence: what a rank says because another one is gone."""

    source: str
    number: int
    rank: Optional[int]
    text: str
    kind: str = "plain"
    time: str = ""


@dataclass(frozen=True)
class Failure:
    """One thing that ended, or seems to have ended, a rank. Secondary: what survivors say when a peer is gone."""

    line: Line
    secondary: bool
    frames: Tuple[Line, ...] = ()


@dataclass
class Evidence:
    """What was read and what it comes to. `decisive` holds the lines to believe, most telling first."""

    lines: List[Line] = field(default_factory=list)
    failures: List[Failure] = field(default_factory=list)
    decisive: List[Line] = field(default_factory=list)
    first: Optional[Line] = None
    ranks: Tuple[int, ...] = ()
    is_log: bool = False


def from_text(text: str, source: str = "text") -> Evidence:
    """Evidence of a pasted report. Raises Unreadable when it is blank or binary."""
    data = text.encode("utf-8", "replace")
    _refuse_binary(data[:65536], source)
    if not text.strip():
        raise Unreadable(f"found no text in {source}, expected an error, a log or a sentence about what happens")
    kept = _windows(_blocks_of([data]), len(data), ())
    return judge(_lines(kept, source, None))


def from_stream(stream, source: str = "stdin", needles: Iterable[bytes] = (), progress=None) -> Evidence:
    """Evidence of a binary stream of any length. `progress(bytes_read)` is called once a block."""
    return judge(_lines(_read(stream, source, None, needles, progress), source, None))


def from_path(path: str, needles: Iterable[bytes] = (), progress: Optional[Callable[[int], None]] = None) -> Evidence:
    """Evidence of a file, or of a folder of per-rank logs read as one run. Raises Unreadable."""
    needles = tuple(needles)
    if os.path.isdir(path):
        files = _log_files(path)
        if not files:
            raise Unreadable(f"found no log in the folder {path}, expected files such as rank_0.log or 0/stderr.log")
        lines: List[Line] = []
        for name in files:
            full = os.path.join(path, name)
            try:
                with _open(full) as stream:
                    kept = _read(stream, full, os.path.getsize(full), needles, progress)
            except Unreadable:
                continue
            lines.extend(_lines(kept, name, _rank_of(name)))
        if not lines:
            raise Unreadable(f"found only empty or binary files in the folder {path}, expected text logs")
        return judge(lines)
    with _open(path) as stream:
        kept = _read(stream, path, os.path.getsize(path), needles, progress)
    name = os.path.basename(path)
    return judge(_lines(kept, name, _rank_of(name)))


def _open(path: str):
    """A regular file, opened for reading bytes. Never a device, a socket, or what looks like a key."""
    name = os.path.basename(path)
    try:
        mode = os.stat(path).st_mode
        if not stat.S_ISREG(mode):
            kind = "a device" if stat.S_ISCHR(mode) or stat.S_ISBLK(mode) else "no regular file"
            raise Unreadable(f"found {kind} at {path}, expected a log file or a folder of logs")
        if _KEY_NAME.search(name) or f"{os.sep}.ssh{os.sep}" in os.path.realpath(path):
            raise Unreadable(f"found {name}, which looks like a key or a secret, expected a log file; it was not opened")
        return open(path, "rb")
    except FileNotFoundError:
        raise Unreadable(f"found no file {path}, expected a log file or a folder of logs") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise Unreadable(f"found {path} unreadable ({reason}), expected a log that this user may read") from None


def _log_files(folder: str) -> List[str]:
    found = []
    for base, folders, names in os.walk(folder):
        folders[:] = sorted(f for f in folders if not f.startswith(".") and f not in ("__pycache__", "wandb", "node_modules"))
        for name in sorted(names):
            full = os.path.join(base, name)
            if name.startswith(".") or _NOT_LOGS.search(name) or _KEY_NAME.search(name) or "tfevents" in name or not os.path.isfile(full):
                continue
            found.append(os.path.relpath(full, folder).replace(os.sep, "/"))
            if len(found) == MAX_FILES:
                return found
    return found


def _rank_of(name: str) -> Optional[int]:
    found = None
    for found in RANK_NAME.finditer(name):
        pass
    return int(next(g for g in found.groups() if g)) if found else None


def _refuse_binary(head: bytes, source: str) -> None:
    if head.count(0) * 100 > len(head):
        raise Unreadable(f"found NUL bytes in {source} (a binary file?), expected UTF-8 text")
    if head.lstrip()[:11] == b"-----BEGIN " and b"PRIVATE KEY" in head[:80]:
        raise Unreadable(f"found a private key in {source}, expected a log; it was not read further")


def _read(stream, source: str, size: Optional[int], needles: Iterable[bytes], progress):
    """Kept [(first line number, bytes)]. Decodes UTF-16 with a byte order mark."""
    head = stream.read(BLOCK)
    if head[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
        text = (head + stream.read(WHOLE * 64)).decode("utf-16", "replace")
        head, stream = text.encode("utf-8", "replace"), None
        size = len(head)
    _refuse_binary(head[:65536], source)

    def pieces():
        block, count = head, 0
        while block:
            count += len(block)
            if progress:
                progress(count)
            yield block
            block = stream.read(BLOCK) if stream else b""

    kept = _windows(_blocks_of(pieces(), source), size, tuple(needles))
    if not any(piece.strip() for _, piece in kept):
        raise Unreadable(f"found nothing but blanks in {source}, expected an error, a log or a sentence about what happens")
    return kept


def _blocks_of(pieces: Iterable[bytes], source: str = "text"):
    """Re-cut pieces at line ends. The middle of an endless line is left out; a file of nothing else is refused."""
    rest, lines, endless = [], False, 0
    for piece in pieces:
        cut = max(piece.rfind(b"\n"), piece.rfind(b"\r")) + 1
        if not cut:
            endless += len(piece)
            rest = [*rest, piece] if endless <= LONGEST else [*rest[:1], piece]
            continue
        yield b"".join((*rest, piece[:cut]))
        rest, lines, endless = [piece[cut:]], True, len(piece) - cut
    if endless > LONGEST and not lines:
        raise Unreadable(f"found one line of {endless // 1_000_000} MB in {source}, expected a log with lines")
    if any(rest):
        yield b"".join(rest)


def _windows(blocks, size: Optional[int], needles: Tuple[bytes, ...]) -> List[Tuple[int, bytes]]:
    """Keep what may matter: everything of a small input; of a large one head, tail and windows around telling lines."""
    kept: List[Tuple[int, bytes]] = []
    shapes: dict = {}
    latest: dict = {}
    number, seen, total = 1, 0, 0
    tail: List[Tuple[int, bytes]] = []
    telling = TELLING + tuple(n for n in needles if n)
    for block in blocks:
        if seen + len(block) <= WHOLE and (size is None or size <= WHOLE):
            kept.append((number, block))
        else:
            if seen < HEAD:
                kept.append((number, block[: block.find(b"\n", HEAD - seen) + 1 or HEAD]))
            counted, at = number, 0  # the line number at a place, counted on from the last one
            reach = 0
            repeated: dict = {}
            for start, end in _telling_lines(block, telling):
                shape = _DIGITS.sub(b"#", block[start : min(end, start + 160)])
                times = shapes.get(shape, 0) + 1
                if times > 1 or len(shapes) < MAX_SHAPES:
                    shapes[shape] = times
                if times > PER_SHAPE or total >= MAX_KEPT:
                    repeated[shape] = start
                    continue
                first = max(reach, block.rfind(b"\n", 0, max(0, start - BEFORE)) + 1)
                reach = block.find(b"\n", min(len(block), end + AFTER)) + 1 or len(block)
                if first >= reach:
                    continue
                counted, at = counted + block.count(b"\n", at, first), first
                kept.append((counted, block[first:reach]))
                total += reach - first
            for shape, start in repeated.items():
                if shape in latest or len(latest) < MAX_LATEST:
                    begin = block.rfind(b"\n", 0, max(0, start - BEFORE)) + 1
                    latest[shape] = (number + block.count(b"\n", 0, begin), block[begin : start + AFTER])
        seen += len(block)
        tail.append((number, block))
        while len(tail) > 1 and sum(len(b) for _, b in tail[1:]) >= TAIL:
            tail.pop(0)
        number += block.count(b"\n")
    if seen > WHOLE:
        kept.extend(latest.values())  # what was said often: the last time counts as well
        for first, block in tail:
            cut = block.rfind(b"\n", 0, max(0, len(block) - TAIL)) + 1
            kept.append((first + block.count(b"\n", 0, cut), block[cut:]))
    return kept


def _telling_lines(block: bytes, telling: Tuple[bytes, ...]) -> List[Tuple[int, int]]:
    """(start, end) of every line of a block that holds a telling word, in order, each once."""
    lines = {}
    for word in telling:
        at = block.find(word)
        while at >= 0:
            end = block.find(b"\n", at)
            end = len(block) if end < 0 else end
            start = block.rfind(b"\n", 0, at) + 1
            lines[max(start, at - 400)] = min(end, at + 1600)
            at = block.find(word, end)
    return sorted(lines.items())


def _lines(kept: List[Tuple[int, bytes]], source: str, rank: Optional[int]) -> List[Line]:
    """Decode, clean and classify. Windows may overlap: a line number is taken once."""
    lines: List[Line] = []
    taken = set()
    for first, data in kept:
        for offset, raw in enumerate(_cut_end(data).decode("utf-8", "replace").split("\n")):
            number = first + offset
            if number in taken:
                continue
            taken.add(number)
            for piece in raw.split("\r"):
                line = _clean(piece, source, number, rank)
                if line:
                    lines.append(line)
    lines.sort(key=lambda line: line.number)
    return _classify(lines)


def _cut_end(data: bytes) -> bytes:
    """Without the last line end, which would count as the start of a line that another window holds."""
    return data[:-1] if data.endswith(b"\n") else data


def _clean(text: str, source: str, number: int, rank: Optional[int]) -> Optional[Line]:
    text = _ANSI.sub("", text[: MAX_LINE * 4])
    if "%|" in text:
        text = _BAR.sub(" ", text)
    text = "".join(c if c.isprintable() or c == "\t" else " " for c in text).rstrip()[:MAX_LINE]
    time = ""
    for _ in range(3):  # prefixes nest: a rank, a time, a rank again
        found = RANK_PREFIX.match(text)
        if found:
            rank = int(next(g for g in found.groups() if g))
            text = text[found.end() :]
            continue
        found = _STAMP.match(text) or _GLOG.match(text)
        if not found:
            break
        time, text = time or found[1], text[found.end() :]
    return Line(source, number, rank, mask(text), time=time) if text.strip() else None


def mask(text: str) -> str:
    """Hide what looks like a token, a key or a password."""
    return _SECRETS.sub(lambda m: (m[1] or m[2] or "") + "***", text) if len(text) > 8 else text


def _classify(lines: List[Line]) -> List[Line]:
    """Give each line its kind; frames and messages are known from the lines before them of the same rank."""
    state: dict = {}
    done = []
    for line in lines:
        text, before = line.text, state.get(line.rank, "")
        stripped = text.strip()
        if _TRACE.search(text):
            kind = after = "trace"
        elif _FRAME.match(text):
            kind = after = "frame"
        elif before in ("trace", "frame") and (text[:1] in " \t" or set(stripped) <= set("^~ ")):
            kind, after = "frame", "frame"
        elif _EXCEPTION.match(stripped) and not _WARNING.match(stripped):
            kind = after = "warning" if "Warning" in stripped.split(":")[0] else "exception"
        elif before == "exception" and not line.time and not _FAILURE.search(text):
            kind, after = "message", "exception"
        elif _WARNING.search(text):
            kind = after = "warning"
        elif _FAILURE.search(text):
            kind = after = "failure"
        else:
            kind = after = "plain"
        state[line.rank] = after
        done.append(Line(line.source, line.number, line.rank, text, kind, line.time))
    return done


def judge(lines: List[Line]) -> Evidence:
    """What failed, in the order to believe it."""
    failures: List[Failure] = []
    frames: dict = {}
    root_rank = root_code = None
    in_root = False
    for line in lines:
        if line.kind == "trace":
            frames[line.rank] = []
        elif line.kind == "frame":
            frames.setdefault(line.rank, []).append(line)
        elif line.kind in ("exception", "failure"):
            failures.append(Failure(line, bool(_SECONDARY.search(line.text)), tuple(frames.pop(line.rank, ()))))
        if _ROOT.search(line.text):
            in_root = True
        if in_root and root_rank is None and _SUMMARY_RANK.match(line.text):
            root_rank = int(_SUMMARY_RANK.match(line.text)[1])
        if in_root and root_code is None and _SUMMARY_CODE.match(line.text):
            root_code = int(_SUMMARY_CODE.match(line.text)[1])
    ranks = tuple(sorted({line.rank for line in lines if line.rank is not None}))
    telling = [f for f in failures if not _WRAPPER.search(f.line.text)]
    first = _first(telling or failures, root_rank, ranks, lines)
    lines, failures = _consequences(lines, failures, first)
    telling = [f for f in failures if not _WRAPPER.search(f.line.text)]
    decisive = _decisive(telling or failures, first, lines)
    is_log = bool(failures) or len(ranks) > 1 or any(line.kind in ("warning", "frame", "trace") for line in lines)
    return Evidence(lines, failures, decisive, first, ranks, is_log)


def _first(failures: List[Failure], root_rank: Optional[int], ranks, lines: List[Line]) -> Optional[Line]:
    """The line of the failure that came first: the launcher's word, else own faults before consequences, else time."""
    if root_rank is not None:
        own = [f for f in failures if f.line.rank == root_rank and f.line.kind == "exception"] or [f for f in failures if f.line.rank == root_rank]
        own = [f for f in own if not f.secondary] or own
        if own:
            return own[-1].line if not own[0].frames else own[0].line
        named = next((line for line in lines if _SUMMARY_RANK.match(line.text) and int(_SUMMARY_RANK.match(line.text)[1]) == root_rank), None)
        if named:
            return Line(named.source, named.number, root_rank, named.text, "failure", named.time)
    pool = [f for f in failures if not f.secondary and f.line.kind == "exception"] or [f for f in failures if not f.secondary] or failures
    if not pool:
        return _behind(lines, ranks)
    if len({f.line.rank for f in pool}) > 1 and all(f.line.time for f in pool):
        return min(pool, key=lambda f: f.line.time).line
    per_rank: dict = {}
    for f in pool:
        if f.frames or f.line.rank not in per_rank:
            per_rank[f.line.rank] = f.line
    return next(iter(per_rank.values())) if len(per_rank) > 1 else pool[-1].line


def _consequences(lines: List[Line], failures: List[Failure], first: Optional[Line]):
    """Once a rank's own exception is known, take "my peer is gone" out of what failed. Time-outs stay: they may be the cause."""
    if first is None or first.kind != "exception" or first.rank is None or _LOST_PEER.search(first.text):
        return lines, failures
    lost = {id(f.line) for f in failures if _LOST_PEER.search(f.line.text)}
    lost |= {id(frame) for f in failures if id(f.line) in lost for frame in f.frames}
    changed = [line if id(line) not in lost else Line(line.source, line.number, line.rank, line.text, "consequence", line.time) for line in lines]
    return changed, [f for f in failures if id(f.line) not in lost]


def _behind(lines: List[Line], ranks) -> Optional[Line]:
    """No failure in any log: of several ranks the one whose last step is the lowest, if one is alone in that."""
    last = {}
    for line in lines:
        found = _STEP.search(line.text)
        if line.rank is not None and found:
            last[line.rank] = (int(found[1]), line)
    if len(last) < 2:
        return None
    steps = sorted(step for step, _ in last.values())
    return min(last.values(), key=lambda item: item[0])[1] if steps[0] < steps[1] else None


def _decisive(failures: List[Failure], first: Optional[Line], lines: List[Line]) -> List[Line]:
    """At most 12 lines to judge by: the first failure with its message and innermost frames, then others, then warnings."""
    chosen: List[Line] = []
    seen = set()

    def add(line: Line) -> None:
        shape = re.sub(r"\d+", "#", line.text.strip())
        if shape not in seen and not _NOISE.search(line.text) and len(chosen) < 12:
            seen.add(shape)
            chosen.append(line)

    ordered = sorted(failures, key=lambda f: (f.line is not first, f.secondary, f.line.kind != "exception", -f.line.number))
    for failure in ordered[:4]:
        add(failure.line)
        for line in lines:
            if line.kind == "message" and line.source == failure.line.source and line.rank == failure.line.rank and 0 < line.number - failure.line.number <= 4:
                add(line)
        for frame in [f for f in failure.frames if _FRAME.match(f.text)][-2:]:
            add(frame)
    if first:
        add(first)
    for line in reversed(lines):
        if line.kind == "warning":
            add(line)
    return chosen
