"""What a program did, told to the judge alone: a line of JSON for each start, save, result and end, in a file that no fault touches."""

import hashlib
import json
import os
import time
import uuid
from pathlib import Path


class Journal:
    """Appends to the file that BENCH_JOURNAL names."""

    def __init__(self, path):
        self.path, self.count, self.pid = path, 0, os.getpid()
        self.line = ""

    def write(self, event, **more):
        text = json.dumps({"event": event, "t": time.time(), "pid": self.pid, **more}) + "\n"
        with open(self.path, "a") as file:
            file.write(text)

    def start(self, line="", step=0, source=""):
        """The program trains from this step on: in the line of the checkpoint that it opened, or in one of its own."""
        self.line = line or uuid.uuid4().hex[:8]
        self.write("start", line=self.line, step=step, source=str(source))

    def begin(self, role, step, paths):
        """A save of these files begins. Gives the save's id."""
        self.count += 1
        name = f"{self.pid}-{self.count}"
        paths = [str(Path(path).absolute()) for path in paths]
        self.write("begin", id=name, role=role, step=step, line=self.line, paths=paths)
        return name

    def end(self, name, files):
        """The save is complete; `files`: {path: bytes, or a digest}."""
        found = {}
        for path, data in files.items():
            told = data if isinstance(data, str) else hashlib.sha256(data).hexdigest()
            found[str(Path(path).absolute())] = told
        self.write("end", id=name, files=found)


def digest_folder(folder):
    """{path: SHA-256} of all files below a folder."""
    files = sorted(path for path in Path(folder).rglob("*") if path.is_file())
    return {path: hashlib.sha256(path.read_bytes()).hexdigest() for path in files}
