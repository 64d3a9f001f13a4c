"""Which checkpoint of a folder is the newest whole one? Standard library, Python 3.8.

usage: check_checkpoint.py FOLDER GLOB [CACHE]
       check_checkpoint.py --list FOLDER GLOB      all with their stamps, newest first, unchecked
       check_checkpoint.py PATH
A zip (.pt, .pth, .bin, .ckpt) must pass its checksums, safetensors must have the size that their
header gives, JSON must parse, an index must find its shards, a folder must hold whole files and the
weights and states that its older neighbours hold. What can't be read from a format, such as the
end of an old pickle, is taken as whole.
Of names that differ only in whole numbers (step-9, step-10) the higher one is newer, for a copy or
a touch changes times; else the one whose weights were written last: an evaluation writes its
results into an old folder.
"""

import glob
import json
import os
import re
import sys
import zipfile

NOTE = re.compile(
    r"\.(json|jsonl|txt|log|ya?ml|md|csv|tsv|lock|py|sh|html|pdf|png|jpe?g|gif|svg|mp4|wav)$"
    r"|tfevents|/latest[^/]*$"
)
ARCHIVES = (".pt", ".pth", ".bin", ".ckpt", ".distcp", ".npz", ".tar")
WEIGHTS = (*ARCHIVES, ".safetensors", ".pkl", ".msgpack", ".h5", ".keras", ".state")
# What a resume needs besides; results and notes come and go.
STATE = re.compile(r"(^|/)(trainer_state|adapter_config|[^/]*\.index)\.json$|\.metadata$")
FRACTION = re.compile(r"\d+\.\d+|\d+e-?\d+")  # a loss of 0.52 orders nothing
COUNTED = re.compile(r"(?:steps?|iter[a-z]*|epochs?|checkpoint|ckpt)[-_=]?(\d+)", re.I)
LEFTOVER = re.compile(r"(\.tmp|\.torn(\.\d+)?|\.partial|\.incomplete|~)$|\.tmp[.-]|/tmp-|/\.[^/]*$")


def fault_of_file(path):
    """What is wrong with a file; '' for a whole one and an unknown format. Raises OSError."""
    size = os.path.getsize(path)
    name = os.path.basename(path)
    with open(path, "rb") as stream:
        head = stream.read(16)
    if name.endswith(".safetensors"):
        if size < 8:
            return "shorter than a header"
        length = int.from_bytes(head[:8], "little")
        if length > size - 8:
            return "header is longer than the file"
        with open(path, "rb") as stream:
            stream.seek(8)
            try:
                header = json.loads(stream.read(length).decode("utf-8"))
            except ValueError:
                return "header is not JSON"
        ends = [entry["data_offsets"][1] for key, entry in header.items() if key != "__metadata__"]
        wanted = 8 + length + max(ends, default=0)
        return "" if size == wanted else f"{size} bytes, expected {wanted}"
    if name.endswith(ARCHIVES):
        if size == 0:
            return "empty"
        if not head.strip(b"\0"):
            return "begins with zeros"
        if head[:2] == b"PK":
            try:
                with zipfile.ZipFile(path) as archive:
                    bad = archive.testzip()
            except OSError:
                raise
            except Exception as error:
                return str(error)
            return f"checksum of {bad}" if bad else ""
        return ""
    if name.endswith(".json"):
        try:
            with open(path, encoding="utf-8") as stream:
                content = json.load(stream)
        except ValueError:
            return "not JSON"
        if name.endswith(".index.json") and isinstance(content, dict):
            for shard in sorted(set(content.get("weight_map", {}).values())):
                if not os.path.exists(os.path.join(os.path.dirname(path), shard)):
                    return f"{shard} is missing"
    return ""


def files_of(path):
    """The files in and below a folder, in a fixed order."""
    for root, folders, names in os.walk(path):
        folders.sort()
        for name in sorted(names):
            if os.path.isfile(os.path.join(root, name)):
                yield os.path.join(root, name)


def shape_of(path):
    """The names of a folder's weights and states, with 0 for each number."""
    names = (os.path.relpath(name, path) for name in files_of(path))
    return {
        re.sub(r"\d+", "0", name) for name in names if name.endswith(WEIGHTS) or STATE.search(name)
    }


def is_checkpoint(path):
    """By a pattern for everything: beside checkpoints stand notes, pictures, folders of logs."""
    if not os.path.isdir(path):
        return not NOTE.search(path)
    return any(name.endswith(WEIGHTS) or name.endswith(".metadata") for name in files_of(path))


def fault_of(path):
    """What is wrong with a file or a folder; '' for a whole one. Raises OSError."""
    if not os.path.isdir(path):
        return fault_of_file(path) or ("" if os.path.getsize(path) else "empty")
    names = list(files_of(path))
    if not names:
        return "empty folder"
    if any(name.endswith(".distcp") for name in names) and not any(
        name.endswith(".metadata") for name in names
    ):
        return ".metadata is missing"
    for name in names:
        fault = fault_of_file(name)
        if fault:
            return f"{os.path.relpath(name, path)}: {fault}"
    return ""


def stamp_of(path):
    """Time of the last change and bytes, of everything; then the time of the weights alone."""
    names = list(files_of(path)) if os.path.isdir(path) else [path]
    stats = {name: os.stat(name) for name in names or [path]}
    weights = [s.st_mtime_ns for name, s in stats.items() if name.endswith(WEIGHTS)]
    times = [s.st_mtime_ns for s in stats.values()]
    return (max(times), sum(s.st_size for s in stats.values())), max(weights or times)


def numbers_of(path):
    """The steps and epochs in a name; where none is marked as such, all whole numbers."""
    name = FRACTION.sub(".", os.path.basename(path))
    return [int(text) for text in COUNTED.findall(name) or re.findall(r"\d+", name)]


def kind_of(path):
    """What checkpoints share that differ only in their numbers: a form of name, a folder."""
    return re.sub(r"\d+", "0", os.path.basename(path)), os.path.dirname(path)


def newest_first(found):
    """(stamp, path) in the order in which they were saved.

    Within a kind by number, among kinds by time.
    """
    kinds = {}
    for stamp, path in found:
        kinds.setdefault(kind_of(path), []).append((numbers_of(path), stamp[1], stamp, path))
    order = []
    for items in kinds.values():
        latest = 0
        for numbers, time, stamp, path in sorted(items):
            latest = max(latest, time)
            order.append((latest, numbers, time, path, stamp))
    return [(stamp, path) for _, _, _, path, stamp in sorted(order, reverse=True)]


def lost_by(path, older, is_whole):
    """A name that the two older neighbours have, or the only one, and this folder lacks.

    `older`: (stamp, path), newest first.
    """
    shapes = []
    for stamp, other in older:
        if (
            len(shapes) < 2
            and os.path.isdir(other)
            and kind_of(other) == kind_of(path)
            and is_whole(stamp, other)
        ):
            shapes.append(shape_of(other))
    return min(set.intersection(*shapes) - shape_of(path), default="") if shapes else ""


def tell(kind, path, why):
    """Write a verdict for bash: three fields, each ended by NUL."""
    sys.stdout.buffer.write(
        b"\0".join([kind.encode(), os.fsencode(path), why.encode("utf-8", "replace"), b""])
    )


def main(arguments):
    """Judge a path, or a folder's newest ones until one is whole. Returns the exit code."""
    listing = arguments[0] == "--list"
    arguments = arguments[listing:]
    if len(arguments) == 1:
        fault = fault_of(arguments[0])
        print(fault or "whole")
        return 1 if fault else 0
    folder, pattern = arguments[:2]
    cache = arguments[2] if len(arguments) > 2 else ""
    known = set()
    if cache and os.path.exists(cache):
        with open(cache, encoding="utf-8", errors="surrogateescape") as stream:
            known = set(stream.read().split("\n"))
    found = []
    for path in glob.glob(os.path.join(glob.escape(folder), pattern), recursive=True):
        if LEFTOVER.search(path[len(folder) :]):
            continue
        try:
            if os.path.isfile(path) or os.path.isdir(path):
                found.append((stamp_of(path), path))
        except OSError:
            continue
    # A pattern for everything is for checkpoints: what stands beside them counts only where nothing
    # else is.
    found = [item for item in found if pattern != "*" or is_checkpoint(item[1])] or [
        item for item in found if not os.path.isdir(item[1])
    ]
    found = newest_first(found)
    if listing:
        for stamp, path in found:
            tell("there", path, "{} {}".format(*stamp[0]))
        return 0

    def fault_now(stamp, path):
        key = "{} {} {}".format(*stamp[0], path.replace("\n", "?"))
        fault = "" if key in known else fault_of(path)
        if cache and not fault and key not in known:
            known.add(key)
            with open(cache, "a", encoding="utf-8", errors="surrogateescape") as stream:
                stream.write(key + "\n")
        return fault

    for place, (stamp, path) in enumerate(found):
        try:
            fault = fault_now(stamp, path)
            if not fault and os.path.isdir(path):
                lost = lost_by(path, found[place + 1 :], lambda *other: not fault_now(*other))
                fault = f"{lost} is missing" if lost else ""
        except OSError as error:
            # A mount or a right that fails says nothing about the content: passed over, left in
            # place.
            tell("unread", path, str(error))
            continue
        if not fault:
            tell("whole", path, str(stamp[1]))
            return 0
        tell("torn", path, fault)
    return 0


sys.exit(main(sys.argv[1:]))
