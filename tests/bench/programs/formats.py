"""Checkpoints as torch, safetensors and numpy write them, byte for byte, without importing any of them; and how a program reads its own.

Each writer gives the whole file as bytes. A checkpoint's `meta` (step, line) is part of it, as an epoch is part of a public program's.
"""

import hashlib
import io
import json
import pickle
import struct
import sys
import types
import zipfile
from collections import OrderedDict

ALIGNMENT = 64  # of a tensor's bytes in torch's zip
LEGACY_MAGIC, LEGACY_VERSION = 0x1950A86A20F9469CFC6C, 1001


def draw_bytes(seed, size):
    """`size` bytes that no compression shortens, the same for the same seed."""
    return hashlib.shake_128(seed.encode()).digest(size)


class _Storage:
    """What torch stores a tensor's numbers as."""

    def __init__(self, key, floats, legacy):
        self.id = ("storage", sys.modules["torch"].FloatStorage, key, "cpu", floats)
        self.id += (None,) if legacy else ()


class _Pickler(pickle.Pickler):
    def persistent_id(self, obj):
        return obj.id if isinstance(obj, _Storage) else None


class _Tensor:
    def __init__(self, storage, floats):
        self.storage, self.floats = storage, floats

    def __reduce__(self):
        rebuild = sys.modules["torch._utils"]._rebuild_tensor_v2
        return rebuild, (self.storage, 0, (self.floats,), (1,), False, OrderedDict())


def _dump(meta, sizes, legacy=False):
    """The pickle of {**meta, 'model': {...}} that torch would write for tensors of these many floats."""
    names = ("torch", "torch._utils")
    before = {name: sys.modules.get(name) for name in names}
    torch, utils = (types.ModuleType(name) for name in names)
    torch.FloatStorage = type("FloatStorage", (), {"__module__": "torch"})

    def _rebuild_tensor_v2():
        """Stands for torch's function while its name is pickled."""

    _rebuild_tensor_v2.__module__ = "torch._utils"
    _rebuild_tensor_v2.__qualname__ = "_rebuild_tensor_v2"
    utils._rebuild_tensor_v2 = _rebuild_tensor_v2
    torch._utils = utils
    sys.modules.update({"torch": torch, "torch._utils": utils})
    try:
        model = OrderedDict(
            (f"layer{n}.weight", _Tensor(_Storage(str(n), floats, legacy), floats))
            for n, floats in enumerate(sizes)
        )
        stream = io.BytesIO()
        _Pickler(stream, protocol=2).dump({**meta, "model": model})
    finally:
        for name, module in before.items():
            if module is None:
                del sys.modules[name]
            else:
                sys.modules[name] = module
    return stream.getvalue()


def _divide(data, parts=4):
    """The bytes in some parts of whole floats."""
    data = data[: len(data) // (4 * parts) * (4 * parts)]
    one = len(data) // parts
    return [data[n * one : (n + 1) * one] for n in range(parts)]


def torch_zip(meta, data):
    """What torch.save writes today."""
    tensors = _divide(data)
    members = [("data.pkl", _dump(meta, [len(t) // 4 for t in tensors]))]
    members += [(".format_version", b"1"), (".storage_alignment", b"64"), ("byteorder", b"little")]
    members += [(f"data/{n}", tensor) for n, tensor in enumerate(tensors)]
    members += [("version", b"3\n"), (".data/serialization_id", b"0" * 40)]
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_STORED) as archive:
        for name, content in members:
            info = zipfile.ZipInfo(f"archive/{name}", (1980, 1, 1, 0, 0, 0))
            head = stream.tell() + 30 + len(info.filename) + 4
            padding = -head % ALIGNMENT
            info.extra = struct.pack("<HH", 0x4246, padding) + b"Z" * padding
            archive.writestr(info, content)
    return stream.getvalue()


def torch_legacy(meta, data):
    """What torch.save writes with _use_new_zipfile_serialization=False, and wrote before 1.6."""
    tensors = _divide(data)
    system = {
        "protocol_version": LEGACY_VERSION,
        "little_endian": True,
        "type_sizes": {"short": 2, "int": 4, "long": 4},
    }
    parts = [pickle.dumps(part, protocol=2) for part in (LEGACY_MAGIC, LEGACY_VERSION, system)]
    parts.append(_dump(meta, [len(t) // 4 for t in tensors], legacy=True))
    parts.append(pickle.dumps([str(n) for n in range(len(tensors))], protocol=2))
    for tensor in tensors:
        parts += [struct.pack("<q", len(tensor) // 4), tensor]
    return b"".join(parts)


def plain_pickle(meta, data):
    """A dictionary of bytes by pickle.dump, as replay buffers and random states are saved."""
    return pickle.dumps({**meta, "data": data}, protocol=2)


def safetensors(meta, data):
    """A safetensors file: length, header, numbers."""
    header, at = {"__metadata__": {**{k: str(v) for k, v in meta.items()}, "format": "pt"}}, 0
    tensors = _divide(data)
    for n, tensor in enumerate(tensors):
        header[f"layer{n}.weight"] = {
            "dtype": "F32",
            "shape": [len(tensor) // 4],
            "data_offsets": [at, at + len(tensor)],
        }
        at += len(tensor)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + b"".join(tensors)


def npz(meta, data):
    """numpy.savez: a zip of .npy files."""
    stream = io.BytesIO()
    numbers = data[: len(data) // 4 * 4]
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_STORED) as archive:
        for name, kind, shape, content in (
            ("step", "<i8", "()", struct.pack("<q", meta["step"])),
            ("line", f"|S{len(meta['line'])}", "()", meta["line"].encode()),
            ("weights", "<f4", f"({len(numbers) // 4},)", numbers),
        ):
            head = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}"
            head += " " * (-(len(head) + 11) % 64) + "\n"
            archive.writestr(
                f"{name}.npy",
                b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode() + content,
            )
    return stream.getvalue()


def as_json(meta, data):
    """A state of a few numbers."""
    return json.dumps({**meta, "data": data[:64].hex()}).encode()


WRITERS = {
    "torch_zip": torch_zip,
    "torch_legacy": torch_legacy,
    "pickle": plain_pickle,
    "safetensors": safetensors,
    "npz": npz,
    "json": as_json,
}


class _Unpickler(pickle.Unpickler):
    def find_class(self, module, name):
        return OrderedDict if name == "OrderedDict" else lambda *args: None

    def persistent_load(self, pid):
        return pid


def read(path):
    """The meta of a checkpoint. Raises what a loader raises where the file is corrupt."""
    with open(path, "rb") as file:
        data = file.read()
    if data[:4] == b"PK\x03\x04":
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            parts = {name.split("/", 1)[-1]: archive.read(name) for name in archive.namelist()}
        if "step.npy" in parts:
            length = struct.unpack("<H", parts["line.npy"][8:10])[0]
            line = parts["line.npy"][10 + length :].decode()
            return {"step": struct.unpack("<q", parts["step.npy"][-8:])[0], "line": line}
        return _Unpickler(io.BytesIO(parts["data.pkl"])).load()
    if data[:1] == b"{":
        return json.loads(data)
    if data[:1] == b"\x80":
        return _read_pickle(data)
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + length])
    meta = header.pop("__metadata__", {})
    if len(data) != 8 + length + max(t["data_offsets"][1] for t in header.values()):
        raise ValueError("safetensors: incomplete metadata, file not fully covered")
    return {**meta, "step": int(meta.get("step", 0))}


def _read_pickle(data):
    stream = io.BytesIO(data)
    first = _Unpickler(stream).load()
    if first != LEGACY_MAGIC:
        return first
    for _ in range(2):
        _Unpickler(stream).load()
    meta = _Unpickler(stream).load()
    for _ in _Unpickler(stream).load():
        (floats,) = struct.unpack("<q", stream.read(8))
        if len(stream.read(floats * 4)) < floats * 4:
            raise EOFError("unexpected EOF, the file might be corrupted")
    return meta
