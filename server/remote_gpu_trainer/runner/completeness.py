"""Is a checkpoint complete? By its structure, in seconds, however large it is.

Complete is what its format or its framework's marker proves to be all there: a zip (.pt, .pth,
.ckpt, .npz, .keras) by its end record and the places of its members, safetensors by its header, a
pickle by the walk to its STOP, torch's old format by the storages that follow, an index by its
shards, a DCP folder by what .metadata says of its files. Corrupt is what they prove to lack
something. All else is unknown: an old tar, HDF5, raw bytes. Checksums are compared by `digest`,
which reads a file that is copied anyway.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import struct
import zlib
from collections import deque
from contextlib import suppress
from functools import lru_cache
from typing import IO, Any, Callable, Iterator, NamedTuple

COMPLETE, CORRUPT, UNKNOWN = "complete", "corrupt", "unknown"
REST = 5.0  # seconds without a change, where nothing proves that a save is over
AT_ONCE = 1.0  # the same, where something does
BLOCK = 1 << 22
MOST_OPCODES = 20_000_000  # of a pickle: half a minute
ARCHIVES = (".pt", ".pth", ".bin", ".ckpt", ".distcp", ".npz", ".tar")
WEIGHTS = (*ARCHIVES, ".safetensors", ".pkl", ".msgpack", ".h5", ".keras", ".state", ".npy")
SHARD = re.compile(r"(.*-)(\d+)-of-(\d+)(\.[a-z0-9.]+)$")
TRACKERS = ("latest", "latest_checkpointed_iteration.txt")  # of DeepSpeed and of Megatron
_BYTES = {
    "Double": 8, "Float": 4, "Half": 2, "BFloat16": 2, "Long": 8, "Int": 4, "Short": 2, "Char": 1,
    "Byte": 1, "Bool": 1, "ComplexDouble": 16, "ComplexFloat": 8, "Untyped": 1, "QInt8": 1,
    "QUInt8": 1, "QInt32": 4,
}  # fmt: skip
_TORCH_MAGIC = 0x1950A86A20F9469CFC6C  # torch/serialization.py, MAGIC_NUMBER


class Verdict(NamedTuple):
    """`state`: COMPLETE, CORRUPT or UNKNOWN; `why`: what is wrong, or why nothing can be proven."""

    state: str
    why: str


class _Corrupt(Exception):
    """The file lacks something; the text says what."""


class _Unknown(Exception):
    """Nothing can be proven; the text says why."""


def judge_path(path: str) -> Verdict:
    """Judge a file, or a folder as one checkpoint. Raises OSError where it can't be read."""
    if not os.path.isdir(path):
        return _beside(path) or judge_file(path)
    names = list(files_of(path))
    if not names:
        return Verdict(CORRUPT, "empty folder")
    lacking = _beside(path) or _lacks_of(path, names)
    if lacking:
        return lacking
    unknown = ""
    for name in names:
        verdict = _of_distcp(name) if name.endswith(".distcp") else judge_file(name)
        inside = os.path.relpath(name, path)
        # A note or a marker may be empty; what has a format never is.
        has_format = name.endswith((*WEIGHTS, ".json", ".metadata"))
        is_empty_note = verdict.why == "empty" and not has_format
        if verdict.state == CORRUPT and not is_empty_note:
            return Verdict(CORRUPT, f"{inside}: {verdict.why}")
        if verdict.state == UNKNOWN and name.endswith(WEIGHTS):
            unknown = unknown or f"{inside}: {verdict.why}"
    provable = any(name.endswith((*WEIGHTS, ".json", ".metadata")) for name in names)
    if unknown and os.path.exists(os.path.join(path, "trainer_state.json")):
        unknown = ""  # it is written last
    if unknown or not provable:
        return Verdict(UNKNOWN, unknown or "nothing in it can be judged")
    return Verdict(COMPLETE, "")


def judge_file(path: str) -> Verdict:
    """Judge a file by its own bytes. Raises OSError."""
    try:
        size = os.path.getsize(path)
        if not size:
            return Verdict(CORRUPT, "empty")
        with open(path, "rb") as stream:
            head = stream.read(4096)
            if path.endswith(WEIGHTS) and not head.strip(b"\0"):
                return Verdict(CORRUPT, "begins with zeros")
            stream.seek(0)
            _check(path, stream, head, size)
    except OSError:
        raise
    except MemoryError:
        return Verdict(UNKNOWN, "too large to be read here")
    except _Unknown as reason:
        return Verdict(UNKNOWN, str(reason))
    except Exception as error:  # a broken file may break its reader anywhere
        return Verdict(CORRUPT, str(error) or type(error).__name__)
    return Verdict(COMPLETE, "")


def files_of(path: str) -> Iterator[str]:
    """Return the files in and below a folder, in a fixed order; a file's own path for a file."""
    if not os.path.isdir(path):
        yield path
    for root, folders, names in os.walk(path):
        folders.sort()
        for name in sorted(names):
            if os.path.isfile(os.path.join(root, name)):
                yield os.path.join(root, name)


def digest(path: str, moved: Callable[[], None]) -> tuple[str, str]:
    """Return a file's SHA-256, and what is wrong by the checksums in it, '' for nothing.

    One read: each stored member of a zip is summed as its bytes pass by. A checksum of 0 is none:
    torch writes it where it was told not to compute it. Raises OSError.
    """
    members = _members(path)
    total, at, fault = hashlib.sha256(), 0, ""
    current, left, value = next(members, None), 0, 0
    with open(path, "rb") as stream:
        for block in iter(lambda: stream.read(BLOCK), b""):
            total.update(block)
            moved()
            while current is not None and current[0] < at + len(block):
                begin, size, wanted, name = current
                start = max(begin, at)
                left = begin + size - start
                value = zlib.crc32(block[start - at : start - at + left], value)
                if begin + size > at + len(block):
                    break
                if value != wanted and not fault:
                    fault = f"checksum of {name}"
                current, value = next(members, None), 0
            at += len(block)
    return total.hexdigest(), fault


def _members(path: str) -> Iterator[tuple[int, int, int, str]]:
    """Return (first byte, bytes, CRC, name) of the stored members of a zip that have a CRC."""
    import zipfile

    found = []
    broken = (OSError, ValueError, struct.error, zipfile.BadZipFile)
    with suppress(*broken), open(path, "rb") as stream:
        if stream.read(2) != b"PK":
            return
        for member in zipfile.ZipFile(stream).infolist():
            if member.compress_type == zipfile.ZIP_STORED and member.CRC and member.file_size:
                stream.seek(member.header_offset + 26)
                begin = member.header_offset + 30 + sum(struct.unpack("<HH", stream.read(4)))
                found.append((begin, member.file_size, member.CRC, member.filename))
    yield from sorted(found)


def _check(path: str, stream: IO[bytes], head: bytes, size: int) -> None:
    """Raise _Corrupt, _Unknown, or whatever a broken file raises."""
    if path.endswith(".safetensors"):
        _check_safetensors(stream, size)
    elif path.endswith(".json"):
        _check_json(path, stream)
    elif head[:2] == b"PK":
        _check_zip(stream, size)
    elif head[:6] == b"\x93NUMPY":
        _check_npy(stream, size)
    elif head[:1] == b"\x80" and head[1:2] in b"\2\3\4\5":
        _check_pickles(stream, size)
    elif path.endswith((".npz", ".npy", ".keras")):
        raise _Corrupt("it doesn't begin as its format does")
    else:
        raise _Unknown("a format without a proof")


def _check_zip(stream: IO[bytes], size: int) -> None:
    import zipfile

    archive = zipfile.ZipFile(stream)
    if size - archive.start_dir < 22 + sum(46 + len(m.filename) for m in archive.infolist()):
        raise _Corrupt("its directory is cut")
    for member in archive.infolist():
        stream.seek(member.header_offset)
        if stream.read(4) != b"PK\3\4":
            raise _Corrupt(f"{member.filename} isn't where the directory says")
        if member.header_offset + 30 + member.compress_size > archive.start_dir:
            raise _Corrupt(f"{member.filename} is cut")
    if not archive.infolist():
        raise _Corrupt("an archive of nothing")


def _check_safetensors(stream: IO[bytes], size: int) -> None:
    if size < 8:
        raise _Corrupt("shorter than a header")
    length = int.from_bytes(stream.read(8), "little")
    if length > size - 8:
        raise _Corrupt("header is longer than the file")
    try:
        header = json.loads(stream.read(length).decode("utf-8"))
    except ValueError:
        raise _Corrupt("header is not JSON") from None
    ends = [entry["data_offsets"][1] for key, entry in header.items() if key != "__metadata__"]
    wanted = 8 + length + max(ends, default=0)
    if size != wanted:
        raise _Corrupt(f"{size} bytes, expected {wanted}")


def _check_json(path: str, stream: IO[bytes]) -> None:
    try:
        content = json.loads(stream.read().decode("utf-8"))
    except ValueError:
        raise _Corrupt("not JSON") from None
    if path.endswith(".index.json") and isinstance(content, dict):
        for shard in sorted(set(content.get("weight_map", {}).values())):
            if not os.path.exists(os.path.join(os.path.dirname(path), shard)):
                raise _Corrupt(f"{shard} is missing")


def _check_npy(stream: IO[bytes], size: int) -> None:
    major = stream.read(8)[6]
    width = 2 if major == 1 else 4
    length = int.from_bytes(stream.read(width), "little")
    import ast

    header = ast.literal_eval(stream.read(length).decode("latin-1"))
    count, kind = 1, header["descr"]
    for extent in header["shape"]:
        count *= extent
    if not isinstance(kind, str) or not re.fullmatch(r"[<>|=][biufcSV]\d+", kind):
        raise _Unknown("an array of objects")
    wanted = 8 + width + length + count * int(kind[2:])
    if size != wanted:
        raise _Corrupt(f"{size} bytes, expected {wanted}")


def _check_pickles(stream: IO[bytes], size: int) -> None:
    """Check a pickle, several in one file, or torch's format of before 1.6."""
    first = _walk(stream, size)
    if _TORCH_MAGIC in first.numbers:
        for _ in range(2):  # the protocol and the machine's sizes
            _walk(stream, size)
        storages = _walk(stream, size).storages
        keys = _walk(stream, size)
        wanted = stream.tell()
        for kind, count in storages.values():
            if kind not in _BYTES:
                raise _Unknown(f"a storage of the kind {kind}")
            wanted += 8 + count * _BYTES[kind]
        if len(keys.texts) != len(storages):
            raise _Unknown("its list of storages isn't understood")
        if size != wanted:
            raise _Corrupt(f"{size} bytes, expected {wanted}")
        return
    while stream.tell() < size:
        begin = stream.read(2)
        stream.seek(-len(begin), 1)
        if begin[:1] != b"\x80":
            raise _Unknown("a pickle with something behind it")
        _walk(stream, size)


class _Walked(NamedTuple):
    """Of a pickle: numbers, texts, and {key: (kind, elements)} of torch's storages."""

    numbers: set[int]
    texts: list[str]
    storages: dict[str, tuple[str, int]]


# How long an argument is, as pickletools has it: so many bytes say it, or a line ends it.
_LINE = -1
_LENGTHS = {-2: 1, -3: 4, -4: 4, -5: 8}


@lru_cache(maxsize=None)
def _opcodes() -> dict[str, Any]:
    """Return {code: opcode} of pickles."""
    import pickletools

    return {op.code: op for op in pickletools.opcodes}


def _walk(stream: IO[bytes], size: int) -> _Walked:
    """Walk a pickle to its STOP; what is large is passed over. Runs nothing of it."""
    walked, opcodes = _Walked(set(), [], {}), _opcodes()
    memo: dict[Any, Any] = {}
    pushed: deque[Any] = deque(maxlen=8)
    for _ in range(MOST_OPCODES):
        code = stream.read(1)
        op = opcodes.get(code.decode("latin-1"))
        if op is None:
            raise _Corrupt("cut before its end" if not code else "a pickle that makes no sense")
        value = _argument(stream, op.arg, size) if op.arg is not None else None
        name = op.name
        if name == "STOP":
            return walked
        if name == "FRAME":
            continue
        if name in ("BINPUT", "LONG_BINPUT", "PUT", "MEMOIZE"):
            memo[len(memo) if name == "MEMOIZE" else value] = pushed[-1] if pushed else None
            continue
        if name in ("BINGET", "LONG_BINGET", "GET"):
            value = memo.get(value)
        elif name == "STACK_GLOBAL":
            value = f"{pushed[-2]} {pushed[-1]}" if len(pushed) > 1 else None
        elif name in ("BINPERSID", "PERSID"):
            _note_storage(walked, list(pushed))
        elif op.arg is None and name not in ("NONE", "NEWTRUE", "NEWFALSE"):
            continue
        if isinstance(value, int):
            walked.numbers.add(value) if len(walked.numbers) < 100 else None
        elif isinstance(value, str) and "UNICODE" in name:
            walked.texts.append(value)
        pushed.append(value)
    raise _Unknown("a pickle of too many objects to walk")


def _argument(stream: IO[bytes], arg: Any, size: int) -> Any:
    """Read an opcode's argument; what is long is passed over."""
    if arg.n == _LINE:
        line = stream.readline()
        if not line.endswith(b"\n"):
            raise _Corrupt("cut before its end")
        if arg.name.endswith("_pair"):
            line += stream.readline()
        return line.decode("utf-8", "replace").strip().replace("\n", " ")
    length = arg.n
    if arg.n in _LENGTHS:
        length = int.from_bytes(_exactly(stream, _LENGTHS[arg.n]), "little")
    if length > 4096:
        if stream.tell() + length > size:
            raise _Corrupt("cut before its end")
        stream.seek(length, 1)
        return None
    data = _exactly(stream, length)
    if "string" in arg.name or "unicode" in arg.name or "bytes" in arg.name:
        return data.decode("utf-8", "replace")
    if arg.name == "float8":
        return None
    return int.from_bytes(data, "little", signed="long" in arg.name or arg.name == "int4")


def _exactly(stream: IO[bytes], length: int) -> bytes:
    data = stream.read(length)
    if len(data) < length:
        raise _Corrupt("cut before its end")
    return data


def _note_storage(walked: _Walked, pushed: list[Any]) -> None:
    """Note a storage of torch's: ('storage', class, key, place, elements, None)."""
    for at in range(len(pushed) - 4):
        if pushed[at] == "storage":
            kind, key, _, count = pushed[at + 1 : at + 5]
            if isinstance(kind, str) and isinstance(count, int):
                kind = kind.split(" ")[-1].replace("Storage", "")
                walked.storages[str(key)] = (kind, count)
                return
    if "module" not in pushed:  # a class, which torch saves with its source
        raise _Unknown("a pickle that refers to something else")


def _lacks_of(path: str, names: list[str]) -> Verdict | None:
    """Return what a folder lacks by its framework's marker or by its shards."""
    inside = {os.path.relpath(name, path) for name in names}
    if "checkpoint-is-incomplete.txt" in inside:
        return Verdict(CORRUPT, "checkpoint-is-incomplete.txt lies in it")
    if any(name.endswith(".distcp") for name in inside) and not any(
        os.path.basename(name) == ".metadata" for name in inside
    ):
        return Verdict(CORRUPT, ".metadata is missing")
    of_trainer = re.match(r"checkpoint-\d+$", os.path.basename(path)) or "optimizer.pt" in inside
    if "training_args.bin" in inside and of_trainer and "trainer_state.json" not in inside:
        return Verdict(CORRUPT, "trainer_state.json is missing")  # transformers writes it last
    if missing := _missing_shard(inside):
        return Verdict(CORRUPT, f"{missing} is missing")
    for name in TRACKERS[:1]:
        named = _text(os.path.join(path, name))
        if named and not os.path.isdir(os.path.join(path, named)) and "global_step" in named:
            return Verdict(CORRUPT, f"{name} names {named}, which isn't there")
    return None


def _missing_shard(inside: set[str]) -> str:
    """Return the first shard that isn't among the others of its set, '' for none. Sets are counted
    from 0 where they have a shard 0, else from 1."""
    sets: dict[tuple[str, str, str], list[str]] = {}
    for shard in filter(None, map(SHARD.match, inside)):
        sets.setdefault((shard[1], shard[3], shard[4]), []).append(shard[2])
    for (begin, count, end), numbers in sorted(sets.items()):
        there, digits = set(map(int, numbers)), min(map(len, numbers))
        first = 0 if 0 in there else 1
        for number in range(first, first + min(int(count), 100_000)):
            if number not in there:
                return f"{begin}{number:0{digits}d}-of-{count}{end}"
    return ""


def _beside(path: str) -> Verdict | None:
    """Return what a marker beside a checkpoint says against it."""
    folder, name = os.path.split(path.rstrip("/"))
    if os.path.exists(f"{path}-unfinished"):  # NeMo
        return Verdict(CORRUPT, f"{name}-unfinished lies beside it")
    for tracker in TRACKERS:
        tracked = _text(os.path.join(folder, tracker))
        is_number = tracked.isdigit() and name.startswith("iter_")
        named = f"iter_{int(tracked):07d}" if is_number else tracked
        if not tracked or named == name or not os.path.isdir(os.path.join(folder, named)):
            continue
        if _alike(named, name) and _number(name) > _number(named):
            return Verdict(CORRUPT, f"{tracker} doesn't name it yet")
    return None


def _alike(one: str, other: str) -> bool:
    return re.sub(r"\d+", "0", one) == re.sub(r"\d+", "0", other)


def _number(name: str) -> int:
    return int((re.findall(r"\d+", name) or ["0"])[-1])


def _text(path: str) -> str:
    with suppress(OSError, ValueError), open(path, encoding="utf-8") as stream:
        text = stream.read(200).strip()
        return text if re.fullmatch(r"[\w.-]+", text) else ""
    return ""


def _of_distcp(path: str) -> Verdict:
    """Judge a file of torch.distributed.checkpoint by what .metadata beside it says."""
    try:
        ends = _ends(os.path.join(os.path.dirname(path), ".metadata"))
    except OSError:
        return Verdict(UNKNOWN, ".metadata lies elsewhere")
    except Exception as error:
        return Verdict(CORRUPT, f".metadata: {error}")
    wanted = ends.get(os.path.basename(path))
    size = os.path.getsize(path)
    if wanted is None:
        return Verdict(UNKNOWN, ".metadata doesn't name it")
    return (
        Verdict(COMPLETE, "")
        if size >= wanted
        else Verdict(CORRUPT, f"{size} bytes, expected {wanted}")
    )


class _Anything:
    """Stands for each class in a pickle, so that reading it runs nothing."""

    def __init__(self, *given: Any, **_: Any):
        self.given = given

    def __setstate__(self, state: Any) -> None:
        if isinstance(state, dict):
            self.__dict__.update(state)

    def __setitem__(self, key: Any, value: Any) -> None:
        pass

    def append(self, _: Any) -> None:
        """Take an element, as a list does."""

    extend = append


def _unpickle(stream: IO[bytes]) -> Any:
    """Return what a pickle holds, with _Anything for each class. Raises what a broken one does."""
    import pickle

    class Reader(pickle.Unpickler):
        def find_class(self, _module: str, _name: str) -> Any:
            return _Anything

    return Reader(stream).load()


def _ends(path: str) -> dict[str, int]:
    """Return {file: its least size} by a .metadata. Raises OSError, or what a broken one raises."""
    ends: dict[str, int] = {}
    with open(path, "rb") as stream:
        stored = getattr(_unpickle(stream), "storage_data", None) or {}
    for info in stored.values():
        name, offset, length = (
            getattr(info, key, None) for key in ("relative_path", "offset", "length")
        )
        if isinstance(name, str) and isinstance(offset, int) and isinstance(length, int):
            ends[name] = max(ends.get(name, 0), offset + length)
    return ends
