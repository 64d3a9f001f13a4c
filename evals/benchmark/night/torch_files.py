"""Reads files of torch.save without torch: whether all is there, and what stands in them."""

import builtins
import io
import pickle
import zipfile
from collections import OrderedDict
from typing import Any

# Bytes of an element.
SIZES = {
    "FloatStorage": 4,
    "LongStorage": 8,
    "DoubleStorage": 8,
    "IntStorage": 4,
    "HalfStorage": 2,
    "BFloat16Storage": 2,
    "BoolStorage": 1,
    "ByteStorage": 1,
}
PLAIN = ("set", "dict", "list", "int", "float", "complex", "slice")


class Stand:
    """Stands for whatever a pickle names: a class or function of torch or another package."""

    state: Any = None

    def __init__(self, *args: Any, **_: Any):
        self.args = args

    def __call__(self, *args: Any, **_: Any) -> "Stand":
        """Stand for what was called, too."""
        return type(self)(*args)

    def __setstate__(self, state: Any) -> None:
        """Keep the state of an object."""
        self.state = state

    def __setitem__(self, key: Any, value: Any) -> None:
        """Take an item, which nobody asks for."""

    def append(self, value: Any) -> None:
        """Take a value, which nobody asks for."""

    def extend(self, values: Any) -> None:
        """Take values, which nobody asks for."""


class Reader(pickle.Unpickler):
    """Reads a pickle and imports nothing of it. `storages`: bytes that each tensor's key needs."""

    def __init__(self, data: bytes):
        super().__init__(io.BytesIO(data))
        self.storages: dict[str, int] = {}

    def find_class(self, module: str, name: str) -> Any:
        """Return plain types as they are, and a stand-in for all else."""
        if (module, name) == ("collections", "OrderedDict"):
            return OrderedDict
        if module == "builtins" and name in PLAIN:
            return getattr(builtins, name)
        return type(name, (Stand,), {})

    def persistent_load(self, pid: Any) -> Stand:
        """Note a storage, and stand for it; its `args` are the words of its id."""
        _, kind, key, _, count = pid
        self.storages[key] = count * SIZES.get(kind.__name__, 1)
        return Stand(*pid)


def load(data: bytes) -> Any:
    """Return the object in a file of torch.save, with stand-ins. Raises ValueError unless the file
    is whole: by its checksums, and with each storage that it names."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            if archive.testzip() is not None:
                raise ValueError("a member has another checksum")
            names = {name.split("/", 1)[-1]: name for name in archive.namelist()}
            reader = Reader(archive.read(names["data.pkl"]))
            found = reader.load()
            for key, size in reader.storages.items():
                if archive.getinfo(names[f"data/{key}"]).file_size != size:
                    raise ValueError(f"storage {key} is cut")
            return found
    except Exception as error:  # whatever a damaged file leads to
        raise ValueError(f"not whole: {error}") from error


def load_if_whole(data: bytes) -> Any:
    """Return the object in a file of torch.save; None for another file, and for one that is cut."""
    try:
        return load(data) if data[:2] == b"PK" else None
    except ValueError:
        return None


def read_storage(data: bytes, key: str) -> bytes:
    """Return the bytes of one storage of a whole file of torch.save."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        [name] = [name for name in archive.namelist() if name.endswith(f"/data/{key}")]
        return archive.read(name)
