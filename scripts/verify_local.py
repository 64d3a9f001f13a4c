#!/usr/bin/env python3
"""Check that a folder of pulled results is complete, unaltered and loadable.

Python 3.8 and the standard library; with torch it also loads checkpoints. Without torch it checks
an archive's checksums, a checkpoint's pickle, and that every tensor has its bytes.

usage:
  verify_local.py FOLDER --manifest FILE [--expect N] [--checkpoints GLOB]
                  [--allow-pickle | --no-load] [--list-metrics] [--json]
  verify_local.py --make FOLDER -o FILE [--run-id ID] [--roster FILE]

The manifest, made where the results were written, decides: no file may be missing or extra, and
sizes and SHA-256 must match. Then the checkpoints are loaded and each *metrics*.json is parsed.
Cells are the names of the roster that the manifest was made with; each needs its weights. Without
a roster, cells are FOLDER and each folder directly in it that holds weights. If the results have
no weights, pass --expect 0, unless the manifest says that none are expected.

If all of this holds, it writes FOLDER/PULL_VERIFIED.json, the file that `release` asks for; an
older one becomes PULL_VERIFIED.old.json first. It writes nothing else and deletes nothing.

Exit 0: verified. Exit 1: something is bad. Exit 2: could not tell (wrong usage, an unreadable
manifest, a pickle of another program without torch here, a checkpoint of more than plain tensors).
PULL_VERIFIED.json is there only after exit 0; it says whether the checkpoints were loaded.

Not covered: whether the weights are any good, and whether the source was right when its manifest
was made.

example:
  verify_local.py ~/results/sweep7 --manifest ~/results/sweep7/PULL_MANIFEST.json --expect 12
"""

import argparse
import hashlib
import json
import math
import os
import pickle
import re
import struct
import sys
import time
import zipfile
from pathlib import Path, PurePosixPath
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, NoReturn, Optional, Set, Tuple

SCHEMA = 1
MARKER, OLD_MARKER, MANIFEST = "PULL_VERIFIED.json", "PULL_VERIFIED.old.json", "PULL_MANIFEST.json"
OURS = {MARKER, OLD_MARKER, MANIFEST}
CELL_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._+=@,-]*")
TORCH_SUFFIXES = {".pt", ".pth", ".ckpt"}
# Files that trainers write beside the weights, such as rng_state_0.pth. Numpy or Python objects in
# them cast no doubt on the weights.
SIDE_FILE = re.compile(
    r"(optimizer|scheduler|scaler|rng_state|random_states|training_args|sampler)", re.I
)
WEIGHTS_BIN = re.compile(r"(pytorch_|adapter_|diffusion_pytorch_)?model.*\.bin")
# Bits of each type. A file is 8 bytes of length, JSON, data: see
# https://github.com/huggingface/safetensors#format
BITS = {
    name: bits
    for bits, names in {
        4: "F4",
        6: "F6_E2M3 F6_E3M2",
        8: "BOOL U8 I8 F8_E5M2 F8_E4M3 F8_E8M0 F8_E4M3FNUZ F8_E5M2FNUZ",
        16: "I16 U16 F16 BF16",
        32: "I32 U32 F32",
        64: "I64 U64 F64 C64",
    }.items()
    for name in names.split()
}
LARGEST_HEADER = 100_000_000  # the limit of the safetensors library itself


class Finding(NamedTuple):
    """One thing that isn't as it should be. `--json` prints it under the names of these fields."""

    level: str  # bad, unknown or note
    kind: str  # manifest, path, missing, extra, bytes, sha256, link, cells, load, metrics
    path: str
    found: str
    expected: str
    do: str

    def line(self) -> str:
        """The finding in one line for stderr."""
        return f"{self.level}: {self.path}: {self.found}, expected {self.expected}; {self.do}"


class Listed(NamedTuple):
    """A file of the manifest; `path` is relative, with slashes, `sha256` in lower-case hex."""

    path: str
    bytes: int
    sha256: str


class Manifest(NamedTuple):
    """What should be in the folder."""

    run_id: str
    cells: Optional[List[str]]  # the roster, if it was made with one
    files: List[Listed]
    links: Dict[str, str]  # second names of listed files
    checks: Dict[str, Any]  # expect, checkpoints, weights and unlisted, as `release` wrote them
    digest: str  # SHA-256 of the manifest's own bytes


class CannotTell(Exception):
    """The question can't be answered: the text goes to stderr, the exit code is 2."""


# ---------------------------------------------------------------- manifest


def unsafe(path: object) -> Optional[str]:
    """What is wrong with a manifest's path; None if it stays in its folder on every system."""
    if not isinstance(path, str) or not path:
        return "no text"
    if any(ord(char) < 32 or ord(char) == 127 for char in path):
        return "a control character"
    if any(0xD800 <= ord(char) <= 0xDFFF for char in path):
        return "bytes that aren't UTF-8"
    if "\\" in path or ":" in path.split("/")[0]:
        return "a backslash or a drive"
    parts = path.split("/")
    if path.startswith("/") or any(part in ("", ".", "..") for part in parts):
        return "an absolute path, an empty part, '.' or '..'"
    if path in OURS:
        return "a name that this tool writes itself"
    return None


def read_manifest(path: Path) -> Tuple[Manifest, List[Finding]]:
    """(the manifest, what is bad in it). Raises CannotTell for a file that isn't a manifest."""
    try:
        raw = path.read_bytes()
        data = json.loads(raw.decode("utf-8"))
    except (OSError, ValueError) as error:
        raise CannotTell(
            f"manifest {path}: can't be read as JSON ({error}); pull it again from the box"
        ) from None
    if not isinstance(data, dict) or data.get("schema") != SCHEMA:
        shown = data.get("schema") if isinstance(data, dict) else type(data).__name__
        raise CannotTell(
            f"manifest {path}: its schema is {shown!r}, not {SCHEMA}; "
            "make it again with verify_local.py --make"
        )
    run_id, rows = data.get("run_id"), data.get("files")
    if not isinstance(run_id, str) or not isinstance(rows, list):
        raise CannotTell(
            f"manifest {path}: run_id or files is missing; "
            "make it again with verify_local.py --make"
        )
    cells = data.get("cells")
    if cells is not None and not (
        isinstance(cells, list)
        and cells
        and all(isinstance(name, str) and CELL_NAME.fullmatch(name) for name in cells)
    ):
        raise CannotTell(
            f"manifest {path}: cells {ascii(cells)[:80]} aren't names; "
            "make it again with verify_local.py --make"
        )
    listed: List[Listed] = []
    findings: List[Finding] = []
    seen: Set[str] = set()
    for number, row in enumerate(rows):
        row = row if isinstance(row, dict) else {}
        name, size, digest = row.get("path"), row.get("bytes"), row.get("sha256")
        fault = unsafe(name)
        if fault is None and (not isinstance(size, int) or isinstance(size, bool) or size < 0):
            fault = "no size"
        if fault is None and not (isinstance(digest, str) and re.fullmatch("[0-9a-f]{64}", digest)):
            fault = "no SHA-256"
        if fault is None and name in seen:
            fault = "a path that is listed twice"
        if fault is not None:
            shown = ascii(name)[:120]
            findings.append(
                Finding(
                    "bad",
                    "manifest",
                    f"files[{number}] {shown}",
                    fault,
                    "a safe relative path, a size, a SHA-256",
                    "don't use this manifest",
                )
            )
            continue
        seen.add(name)
        listed.append(Listed(name, size, digest))
    links = data.get("links")
    links = {
        second: name
        for second, name in (links if isinstance(links, dict) else {}).items()
        if unsafe(second) is None and name in seen and second not in seen
    }
    digest = hashlib.sha256(raw).hexdigest()
    return Manifest(run_id, cells, listed, links, checks_of(data), digest), findings


def checks_of(data: Dict[str, Any]) -> Dict[str, Any]:
    """What a manifest says to check, beside its files; of the wrong type it says nothing.

    expect: the number of cells. checkpoints: a glob of the job's own. weights: whether any are
    expected. unlisted: files that may be there although the manifest can't hold their names.
    """
    told = data.get("checks")
    told = told if isinstance(told, dict) else {}
    count, pattern, unlisted = told.get("expect"), told.get("checkpoints"), told.get("unlisted")
    is_count = isinstance(count, int) and not isinstance(count, bool)
    return {
        "expect": count if is_count else None,
        "checkpoints": pattern if isinstance(pattern, str) else "",
        "weights": told.get("weights") is not False,
        "unlisted": [name for name in unlisted if isinstance(name, str)]
        if isinstance(unlisted, list)
        else [],
    }


def sha256(path: Path) -> str:
    """The SHA-256 of a file, in lower-case hex."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        for block in iter(lambda: file.read(1 << 20), b""):
            digest.update(block)
    return digest.hexdigest()


def walk(folder: Path) -> Iterator[Tuple[str, str]]:
    """(relative path with slashes, "file", "link" or "other") of everything below a folder, sorted.

    Links aren't followed. Raises CannotTell for a folder that can't be read.
    """

    def fail(error: OSError) -> NoReturn:
        raise CannotTell(
            f"{error.filename}: the folder can't be read ({error.strerror}); check its permissions"
        )

    for here, folders, files in os.walk(str(folder), onerror=fail):
        folders.sort()
        for name in sorted(
            files + [name for name in folders if os.path.islink(os.path.join(here, name))]
        ):
            full = os.path.join(here, name)
            kind = "link" if os.path.islink(full) else "file" if os.path.isfile(full) else "other"
            yield os.path.relpath(full, str(folder)).replace(os.sep, "/"), kind


def write_atomically(path: Path, data: Dict[str, Any]) -> None:
    """Write JSON so that the file is never seen half written, and flush it to the disk."""
    new = path.with_name("." + path.name + ".new")
    with new.open("w", encoding="utf-8") as file:
        file.write(json.dumps(data, ensure_ascii=False, indent=1) + "\n")
        file.flush()
        os.fsync(file.fileno())
    os.replace(str(new), str(path))
    if hasattr(os, "O_DIRECTORY"):  # POSIX only: flush the rename as well
        handle = os.open(str(path.parent), os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(handle)
        except OSError:
            pass  # some network file systems refuse to flush a folder
        finally:
            os.close(handle)


def cell_of(path: str) -> str:
    """The cell that a file belongs to: its first folder, or '.'."""
    return path.split("/")[0] if "/" in path else "."


# ---------------------------------------------------------------- loading


def import_torch() -> Any:
    """The torch module; None if it is missing or broken."""
    try:
        import torch  # type: ignore
    except Exception:  # a broken installation may raise anything
        return None
    return torch


def has_torch_name(path: str) -> bool:
    """Whether a file's name is that of what torch.save writes."""
    name, suffix = PurePosixPath(path).name, PurePosixPath(path).suffix.lower()
    return suffix in TORCH_SUFFIXES or WEIGHTS_BIN.fullmatch(name) is not None


def is_checkpoint(path: str, pattern: str = "") -> bool:
    """Whether a file's name is that of saved weights or training state.

    `pattern`: a glob of the job's own checkpoints, files or folders.
    """
    pure = PurePosixPath(path)
    return (
        has_torch_name(path)
        or pure.suffix.lower() in (".safetensors", ".distcp")
        or bool(pattern and any(place.match(pattern) for place in (pure, *pure.parents)))
    )


def is_metrics(path: str) -> bool:
    """Whether a file is a *metrics*.json."""
    name = PurePosixPath(path).name.lower()
    return "metrics" in name and name.endswith(".json")


def safetensors_fault(path: Path) -> Optional[str]:
    """What is wrong with a .safetensors file, by its header and size; None if nothing is."""
    size = path.stat().st_size
    with path.open("rb") as file:
        start = file.read(8)
        if len(start) < 8:
            return f"{size} bytes"
        (length,) = struct.unpack("<Q", start)
        if length > min(LARGEST_HEADER, size - 8):
            return f"a header of {length} bytes in a file of {size}"
        try:
            header = json.loads(file.read(length).decode("utf-8"))
        except ValueError as error:
            return f"a header that isn't JSON ({error})"
    if not isinstance(header, dict):
        return "a header that isn't an object"
    spans = []
    for name, tensor in header.items():
        if name == "__metadata__":
            continue
        try:
            begin, end = tensor["data_offsets"]
            count = 1
            for side in tensor["shape"]:
                count *= side
            bits = BITS.get(tensor["dtype"])
            if bits is not None and (end - begin) * 8 != count * bits:
                return "tensor {} of {} bytes for {} {}".format(
                    ascii(name)[:60], end - begin, tensor["shape"], tensor["dtype"]
                )
            spans.append((begin, end))
        except (KeyError, TypeError, ValueError):
            return f"a broken description of tensor {ascii(name)[:60]}"
    at = 0
    for begin, end in sorted(spans):
        if begin != at or end < begin:
            return f"a gap or an overlap at data byte {at}"
        at = end
    if 8 + length + at != size:
        return f"{size} bytes, the header describes {8 + length + at}"
    return None if at else "no tensor data"


def zip_fault(path: Path) -> Optional[str]:
    """What is wrong with a zip archive, as torch.save writes it; None if every CRC holds."""
    try:
        with zipfile.ZipFile(str(path)) as archive:
            broken = archive.testzip()
    except (
        zipfile.BadZipFile,
        OSError,
        EOFError,
        ValueError,
        RuntimeError,
        NotImplementedError,
    ) as error:
        return f"a corrupt archive ({error})"
    return None if broken is None else f"a wrong CRC in {ascii(broken)[:80]}"


class Anything:
    """Stands in for every object of a pickle, so that reading one runs none of its code."""

    def __new__(cls, *_: Any, **__: Any) -> Any:
        """An object, whatever it is given."""
        return object.__new__(cls)

    def __init__(self, *_: Any, **__: Any) -> None: ...

    def _ignore(self, *_: Any) -> None: ...

    __setstate__ = __setitem__ = append = extend = add = update = _ignore


class Storages(pickle.Unpickler):
    """Reads a pickle of torch.save without torch. `found`: (kind, key, number of elements)."""

    found: List[Tuple[str, str, int]]

    def find_class(self, module: str, name: str) -> Any:
        """A stand-in: nothing is imported."""
        return type(name, (Anything,), {})

    def persistent_load(self, pid: Any) -> Any:
        """Note a storage: ('storage', its class, its key, a device, its number of elements).

        Old files also hold ('module', a class, its source).
        """
        if pid[0] == "module":
            return pid[1]
        self.found.append((pid[1].__name__, str(pid[2]), int(pid[4])))
        return Anything()


# Bytes of an element, by the name of the storage's class.
STORAGES = {
    name + "Storage": size
    for size, names in {
        1: "Untyped Byte Char Bool QInt8 QUInt8",
        2: "Half BFloat16 Short",
        4: "Float Int QInt32",
        8: "Double Long ComplexFloat",
        16: "ComplexDouble",
    }.items()
    for name in names.split()
}


def archive_fault(path: Path, side: bool) -> Optional[str]:
    """What is wrong with what an archive of torch.save says of itself; None if nothing is.

    `side`: it needs no tensors. An archive of another program isn't judged.
    """
    with zipfile.ZipFile(str(path)) as archive:
        sizes = {item.filename: item.file_size for item in archive.infolist()}
        place = next((name[:-8] for name in sizes if name.split("/", 1)[-1] == "data.pkl"), None)
        if place is None:
            return None
        with archive.open(place + "data.pkl") as file:
            reader = Storages(file)
            reader.found = []
            try:
                reader.load()
            except Exception as error:
                return f"a pickle that can't be read ({type(error).__name__}: {str(error)[:80]})"
    for kind, key, count in reader.found:
        size, wanted = sizes.get(f"{place}data/{key}"), count * STORAGES.get(kind, 0)
        if size is None or (kind in STORAGES and size != wanted):
            return f"tensor data {ascii(key)[:40]} of {size or 0} bytes, not {wanted}"
    if side or any(count for _, _, count in reader.found):
        return None
    return "no weights in its archive"


# How a file begins that torch.save wrote before 1.6, or writes when told to: a number, pickled.
OLD_START = pickle.dumps(0x1950A86A20F9469CFC6C, 2)


def is_old_file(path: Path) -> bool:
    """Whether a file has the form that torch.save wrote before 1.6."""
    with path.open("rb") as file:
        return file.read(len(OLD_START)) == OLD_START


def old_file_fault(path: Path, side: bool) -> Optional[str]:
    """What is wrong with a file for which `is_old_file` holds; None if nothing is.

    Five pickles (the number, a version, the system, the value, the keys of the tensors' data), then
    the data of each key: the number of elements in 8 bytes, the elements. `side`: it needs no
    tensors.
    """
    found: List[Tuple[str, str, int]] = []
    with path.open("rb") as file:
        try:
            for _ in range(5):
                reader = Storages(file)
                reader.found = found
                keys = reader.load()
            kinds = {key: (kind, count) for kind, key, count in found}
            for key in keys:
                kind, wanted = kinds[str(key)]
                (count,) = struct.unpack("<q", file.read(8))
                if count != wanted:
                    return f"tensor data {ascii(key)[:40]} of {count} elements, not {wanted}"
                file.seek(count * STORAGES[kind], os.SEEK_CUR)
            size, end = path.stat().st_size, file.tell()
        except Exception as error:
            return f"a file that can't be read ({type(error).__name__}: {str(error)[:80]})"
    if size != end or len(keys) != len(kinds):
        return f"{size} bytes, its contents need {end}"
    return None if side or any(count for _, _, count in found) else "no weights in it"


def holds_tensor(torch: Any, value: Any, depth: int = 0) -> bool:
    """Whether a loaded value holds a tensor that isn't empty, at most eight levels deep."""
    if isinstance(value, torch.Tensor):
        return bool(value.numel())
    if depth > 8:
        return False
    if isinstance(value, dict):
        return any(holds_tensor(torch, item, depth + 1) for item in value.values())
    if isinstance(value, (list, tuple)):
        return any(holds_tensor(torch, item, depth + 1) for item in value)
    state = getattr(value, "state_dict", None)  # a whole module, with --allow-pickle
    return callable(state) and holds_tensor(torch, state(), depth + 1)


def torch_load(torch: Any, path: Path, allow_pickle: bool) -> Any:
    """What a checkpoint holds, on the CPU. Raises whatever torch.load raises."""
    asked: Dict[str, Any] = {"map_location": "cpu", "weights_only": not allow_pickle}
    if zipfile.is_zipfile(str(path)):
        try:
            # mmap: the file may be larger than the memory
            return torch.load(str(path), mmap=True, **asked)
        except TypeError:
            pass  # before torch 2.1
    return torch.load(str(path), **asked)


def try_checkpoint(
    folder: Path, path: str, torch: Any, allow_pickle: bool, load: bool
) -> Optional[Finding]:
    """What to report about a checkpoint; None if it loads, or is whole and `load` is False."""
    full, side = folder / path, is_side_file(path)

    def report(
        level: str,
        found: str,
        expected: str = "a checkpoint that loads",
        do: str = "copy it again from a good save",
    ) -> Finding:
        return Finding(level, "load", path, found, expected, do)

    suffix = PurePosixPath(path).suffix.lower()
    if suffix == ".safetensors":
        fault = safetensors_fault(full)
        return report("bad", fault) if fault else None
    if suffix == ".distcp":
        return (
            report(
                "unknown",
                "not loaded: a shard of a distributed checkpoint",
                do="load it in your own program, then pass --no-load",
            )
            if load
            else None
        )
    if suffix == ".json":
        try:
            json.loads(full.read_bytes().decode("utf-8"))
        except (ValueError, RecursionError) as error:
            return report("bad", f"not JSON ({str(error)[:80]})")
    if not has_torch_name(path):
        return None
    start = first_bytes(full)
    archived = start == b"PK\x03\x04"
    fault = zip_fault(full) if archived else None
    if fault is None and load and start[:2] != b"PK" and start[:1] != b"\x80":
        fault = f"a file that begins with {start!r}: neither an archive nor a pickle"
    if fault:
        return report("bad", fault)
    if not load:
        return None
    if torch is None:
        old = not archived and is_old_file(full)
        judge = archive_fault if archived else old_file_fault
        fault = judge(full, side) if archived or old else None
        if fault:
            return report("bad", fault)
        whole = "whole archive" if archived else "whole file" if old else ""
        return report(
            "note" if side or whole else "unknown",
            "not loaded, no torch here: " + (whole or "unchecked pickle"),
            do="run this where torch is installed, if you want it loaded"
            if whole
            else "run this where torch is installed, or pass --no-load",
        )
    try:
        value = torch_load(torch, full, allow_pickle)
    except Exception as error:
        first = " ".join(str(error).split())
        # "WeightsUnpickler error: Unsupported global: GLOBAL numpy.core.multiarray._reconstruct
        # was not an allowed global by default."
        named = re.search(r"Unsupported (?:global: GLOBAL|class|operand) [\w.]+", first)
        if named and not allow_pickle:
            return needs_pickle(report, named[0], side)
        return report("bad", f"{type(error).__name__}: {first[:160]}")
    if not side and not holds_tensor(torch, value):
        return report(
            "bad", f"no weights ({type(value).__name__})", "at least one tensor that isn't empty"
        )
    return None


def needs_pickle(report: Callable[..., Finding], what: str, side: bool) -> Optional[Finding]:
    """What to report about a file that is more than plain tensors: nothing if it is a side file,
    where numpy's or Python's objects cast no doubt on the weights."""
    if side:
        return None
    do = "pass --allow-pickle only if you wrote the file: it runs the file's code"
    return report("unknown", "not loaded: " + what, "plain tensors", do)


def first_bytes(path: Path) -> bytes:
    """The first four bytes of a file."""
    with path.open("rb") as file:
        return file.read(4)


def read_metrics(path: Path) -> Any:
    """The content of a metrics file. Raises ValueError if it is empty or not JSON."""
    value = json.loads(path.read_bytes().decode("utf-8"))
    if not isinstance(value, (dict, list)) or not value:
        raise ValueError(f"{type(value).__name__} without content")
    return value


def numbers(value: Any, name: str = "") -> Iterator[Tuple[str, str]]:
    """(dotted name, value as text) of each number in a metrics file."""
    if isinstance(value, dict):
        for key in value:
            yield from numbers(value[key], name + "." + str(key) if name else str(key))
    elif isinstance(value, bool) or value is None or isinstance(value, (list, str)):
        return
    else:
        yield (
            " ".join(name.split()),
            repr(value) if not isinstance(value, float) or math.isfinite(value) else str(value),
        )


# ---------------------------------------------------------------- verbs


def compare(folder: Path, manifest: Manifest, skip: Set[str]) -> Tuple[List[Finding], List[str]]:
    """(findings, the files that are as listed). `skip`: files that the manifest needn't list."""
    findings: List[Finding] = []
    there: Dict[str, str] = {
        path: kind
        for path, kind in walk(folder)
        if path not in skip and not is_second_name(folder, path, manifest.links)
    }
    listed = {item.path: item for item in manifest.files}
    for path in sorted(set(there) - set(listed)):
        found = "a file" if there[path] == "file" else "a " + there[path]
        findings.append(
            Finding(
                "bad",
                "extra",
                path,
                found + " that isn't listed",
                "the manifest's files only",
                f"move it out of {folder}",
            )
        )
    good: List[str] = []
    for path in sorted(listed):
        item, full = listed[path], folder / path
        if path not in there:
            findings.append(
                Finding("bad", "missing", path, "missing", f"{item.bytes} bytes", "pull it again")
            )
        elif there[path] != "file":
            findings.append(
                Finding(
                    "bad",
                    "link",
                    path,
                    "a " + there[path],
                    "a plain file",
                    "pull it again into an empty folder",
                )
            )
        elif full.stat().st_size != item.bytes:
            findings.append(
                Finding(
                    "bad",
                    "bytes",
                    path,
                    f"{full.stat().st_size} bytes",
                    f"{item.bytes} bytes",
                    "pull it again",
                )
            )
        else:
            digest = sha256(full)
            if digest == item.sha256:
                good.append(path)
            else:
                findings.append(
                    Finding(
                        "bad",
                        "sha256",
                        path,
                        "SHA-256 " + digest[:12],
                        item.sha256[:12],
                        "pull it again with rsync --checksum",
                    )
                )
    return findings, good


def is_second_name(folder: Path, path: str, links: Dict[str, str]) -> bool:
    """Whether a path is a second name of a listed file, and shares its bytes."""
    try:
        return path in links and os.path.samefile(str(folder / path), str(folder / links[path]))
    except OSError:
        return False


def is_side_file(path: str) -> bool:
    """Whether a checkpoint holds training state, such as an optimizer's, rather than weights."""
    return SIDE_FILE.match(PurePosixPath(path).name) is not None


def cells_of(manifest: Manifest, pattern: str) -> List[str]:
    """The names of the roster, or without one the folders that hold weights."""
    if manifest.cells is not None:
        return manifest.cells
    return sorted(
        {
            cell_of(item.path)
            for item in manifest.files
            if is_checkpoint(item.path, pattern) and not is_side_file(item.path)
        }
    )


def merged(findings: List[Finding]) -> List[Finding]:
    """The findings, with one in place of all that were not loaded for the same reason."""
    groups: Dict[Tuple[str, ...], List[Finding]] = {}
    for number, finding in enumerate(findings):
        same = finding.found.startswith("not loaded")
        key = (finding.level, finding.found, finding.do) if same else (str(number),)
        groups.setdefault(key, []).append(finding)
    return [
        group[0]
        if len(group) == 1
        else group[0]._replace(path=f"{len(group)} checkpoints, first {group[0].path}")
        for group in groups.values()
    ]


def look_inside(
    folder: Path, manifest: Manifest, good: List[str], args: argparse.Namespace
) -> Tuple[List[Finding], List[str], Dict[str, Dict[str, str]], Any]:
    """(findings, names of the cells, their metrics, torch or None)."""
    findings: List[Finding] = []
    pattern = args.checkpoints or manifest.checks["checkpoints"]
    expect = manifest.checks["expect"] if args.expect is None else args.expect
    cells = cells_of(manifest, pattern)
    metrics: Dict[str, Dict[str, str]] = {}
    weights = [path for path in good if is_checkpoint(path, pattern)]
    torch = import_torch() if any(map(has_torch_name, weights)) and not args.no_load else None
    for path in weights:
        finding = try_checkpoint(folder, path, torch, args.allow_pickle, not args.no_load)
        findings += [finding] if finding else []
    findings = merged(findings)
    for path in filter(is_metrics, good):
        try:
            metrics.setdefault(cell_of(path), {}).update(numbers(read_metrics(folder / path)))
        except (ValueError, RecursionError) as error:
            findings.append(
                Finding(
                    "bad",
                    "metrics",
                    path,
                    str(error)[:120],
                    "JSON with content",
                    "evaluate this cell again",
                )
            )
    for cell in cells:
        if not any(
            cell_of(item.path) == cell
            and is_checkpoint(item.path, pattern)
            and not is_side_file(item.path)
            for item in manifest.files
        ):
            findings.append(
                Finding(
                    "bad",
                    "cells",
                    cell,
                    "no checkpoint",
                    "a file of weights",
                    "finish the cell, or take it off the roster",
                )
            )
    if expect is not None and len(cells) != expect:
        findings.append(
            Finding(
                "bad",
                "cells",
                str(folder),
                f"{len(cells)} cells",
                f"{expect} cells",
                "compare with the roster",
            )
        )
    elif not cells and expect is None and manifest.checks["weights"]:
        findings.append(
            Finding(
                "bad",
                "cells",
                str(folder),
                "no checkpoint",
                "at least one cell",
                "look at the box, or pass --expect 0",
            )
        )
    if not manifest.files:
        findings.append(
            Finding(
                "bad",
                "manifest",
                str(args.manifest),
                "an empty list",
                "at least one file",
                "look at the roster on the box",
            )
        )
    return findings, cells, metrics, torch


def verify(args: argparse.Namespace) -> int:
    """Compare a folder with its manifest and load what is in it: 0 verified, 1 bad, 2 unknown."""
    folder, source = args.folder, args.manifest
    if not folder.is_dir():
        raise CannotTell(f"{folder}: no such folder; pass the one with the pulled results")
    manifest, findings = read_manifest(source)
    marker = folder / MARKER
    if marker.is_file() or marker.is_symlink():
        os.replace(str(marker), str(folder / OLD_MARKER))  # an interrupted check leaves no marker
    skip = set(OURS)
    if folder.resolve() in source.resolve().parents:
        skip.add(source.resolve().relative_to(folder.resolve()).as_posix())
    more, good = compare(folder, manifest, skip | set(manifest.checks["unlisted"]))
    inside, cells, metrics, torch = look_inside(folder, manifest, good, args)
    findings += more + inside
    levels = {finding.level for finding in findings}
    verdict = "bad" if "bad" in levels else "unknown" if "unknown" in levels else "ok"
    total = sum(item.bytes for item in manifest.files)
    answer: Dict[str, Any] = {
        "verdict": verdict,
        "run_id": manifest.run_id,
        "cells": len(cells),
        "files": len(manifest.files),
        "bytes": total,
        "loaded": not args.no_load
        and verdict == "ok"
        and not any(finding.found.startswith("not loaded, no torch") for finding in findings),
        "findings": [finding._asdict() for finding in findings],
        "marker": None,
    }
    if verdict == "ok":
        proof = {key: answer[key] for key in ("run_id", "files", "bytes", "loaded")}
        proof.update(
            {
                "schema": SCHEMA,
                "manifest_sha256": manifest.digest,
                "cells": cells,
                "torch": getattr(torch, "__version__", None),
            }
        )
        proof["checked"] = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        write_atomically(marker, proof)
        answer["marker"] = str(marker)
    if args.list_metrics:
        answer["metrics"] = metrics
    if args.json:
        print(json.dumps(answer, ensure_ascii=False, indent=1))
    else:
        for cell, values in sorted(metrics.items()) if args.list_metrics else []:
            for key, shown in values.items():
                print(f"{cell}\t{key}\t{shown}")
        told = ", not loaded as asked" if args.no_load else ""
        size = f"{len(cells)} cells, {len(manifest.files)} files, {total} bytes{told}"
        print(f"{'verified' if verdict == 'ok' else verdict}: {size}")
    for finding in findings:
        print("verify_local: " + finding.line(), file=sys.stderr)
    return {"ok": 0, "bad": 1, "unknown": 2}[verdict]


def read_roster(path: Path) -> List[str]:
    """The names of the cells, one per line; empty lines and # lines are skipped."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError) as error:
        raise CannotTell(
            f"roster {path}: can't be read ({error}); pass a text with one cell per line"
        ) from None
    names = [line.strip() for line in lines if line.strip() and not line.lstrip().startswith("#")]
    for name in names:
        if not CELL_NAME.fullmatch(name) or names.count(name) > 1:
            raise CannotTell(
                f"roster {path}: {ascii(name)[:80]} isn't a name, or is listed twice; "
                "use letters, digits and ._+=@,- and each name once"
            )
    if not names:
        raise CannotTell(f"roster {path}: no cell; write one per line")
    return names


def make(args: argparse.Namespace) -> int:
    """Write the manifest of a folder: 0 written, 1 the folder isn't fit for one."""
    folder, out = args.make, args.output
    if not folder.is_dir():
        raise CannotTell(f"{folder}: no such folder; pass the one with the results")
    cells = read_roster(args.roster) if args.roster else None
    rows: List[Dict[str, Any]] = []
    for path, kind in walk(folder):
        if (
            path in OURS
            or (folder / path).resolve() == out.resolve()
            or (cells is not None and cell_of(path) not in cells)
        ):
            continue
        if kind != "file" or unsafe(path):
            print(
                f"verify_local: {ascii(path)}: a {kind}, expected a plain file with a safe name; "
                "move it away",
                file=sys.stderr,
            )
            return 1
        rows.append(
            {"path": path, "bytes": (folder / path).stat().st_size, "sha256": sha256(folder / path)}
        )
    missing = sorted(set(cells or []) - {cell_of(row["path"]) for row in rows})
    if missing or not rows:
        shown = ", ".join(missing) or "any cell"
        print(
            f"verify_local: {folder}: no files of {shown}; finish it or take it off the roster",
            file=sys.stderr,
        )
        return 1
    run_id = args.run_id or folder.resolve().name
    head: Dict[str, Any] = {"schema": SCHEMA, "run_id": run_id}
    if cells is not None:
        head["cells"] = cells
    write_atomically(out, {**head, "files": sorted(rows, key=lambda row: row["path"])})
    print(f"{out}: {len(rows)} files, {sum(row['bytes'] for row in rows)} bytes")
    return 0


def main() -> int:
    """Run one verb. Returns the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        usage=argparse.SUPPRESS,
    )
    parser.add_argument("folder", nargs="?", type=Path, metavar="FOLDER", help="the pulled results")
    parser.add_argument(
        "--manifest",
        type=Path,
        metavar="FILE",
        help="the list of what should be there; nothing is verified without it",
    )
    parser.add_argument("--expect", type=int, metavar="N", help="how many cells there must be")
    parser.add_argument(
        "--checkpoints",
        default="",
        metavar="GLOB",
        help="the job's own checkpoints, such as 'ckpt/step_*.json', besides those known by name",
    )
    parser.add_argument(
        "--list-metrics",
        action="store_true",
        help="print the numbers of *metrics*.json: cell, name, value",
    )
    how = parser.add_mutually_exclusive_group()
    how.add_argument(
        "--allow-pickle",
        action="store_true",
        help="load files that hold Python objects; this runs their code, so use it for your own",
    )
    how.add_argument(
        "--no-load",
        action="store_true",
        help="don't load checkpoints (archives are still checked); PULL_VERIFIED.json says so",
    )
    parser.add_argument(
        "--json",
        action="store_true",
        help="print an object: verdict, run_id, cells, files, bytes, loaded, findings, marker",
    )
    parser.add_argument(
        "--make", type=Path, metavar="FOLDER", help="write the manifest of FOLDER instead"
    )
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="where --make writes")
    parser.add_argument(
        "--run-id", metavar="ID", help="with --make: the run's name (default: the folder's)"
    )
    parser.add_argument(
        "--roster",
        type=Path,
        metavar="FILE",
        help="with --make: include only these cells; each must be there",
    )
    args = parser.parse_args()
    sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace")  # type: ignore
    try:
        if args.make:
            if args.output is None:
                raise CannotTell("-o is missing; say where the manifest goes with -o FILE")
            return make(args)
        if args.folder is None:
            raise CannotTell("FOLDER is missing; pass the pulled results (see --help)")
        if args.manifest is None:
            raise CannotTell(
                "--manifest is missing; pass the list that was made on the box: nothing is "
                "verified without it (see --help)"
            )
        return verify(args)
    except (CannotTell, OSError) as error:
        print(f"verify_local: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
