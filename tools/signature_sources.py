"""Print the signatures that no installed source contains.

A signature is the text that a library prints. For the libraries that are installed, this reads each
string of their Python source, joined across the lines of an implicit concatenation and open where a
value goes in, and the texts in their compiled modules. What is listed comes from another release,
from a build for a card, from another program, or is wrong:

    python tools/signature_sources.py                      # of the libraries of this Python
    python tools/signature_sources.py --older PYTHON       # and of another Python's
"""

from __future__ import annotations

import argparse
import ast
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from remote_gpu_trainer.catalogue import bundle
from remote_gpu_trainer.catalogue.entry import Signature
from remote_gpu_trainer.catalogue.signatures import literal_runs, normal

LIBRARIES = (
    *("torch", "torchvision", "transformers", "peft", "trl", "accelerate", "deepspeed", "datasets"),
    *("lightning", "pytorch_lightning", "lightning_fabric", "huggingface_hub"),
)
SHORTEST = 8  # characters of a text that say where it is from
# Where a value goes in: `%s`, `{}` or `{name}`.
_HOLE = re.compile(r"%(?:\(\w+\))?[-+#0-9.]*[sdrfgxi]|\{[^{}]*\}")
_PRINTABLE = re.compile(rb"[\x09\x20-\x7e]{8,}")
_NAME = re.compile(r"^[\w.]*(?:error|exception|warning)\b:? ?")  # what a traceback puts in front


def site_of(python: str) -> Path:
    """The folder of the packages of this Python."""
    ask = "import sysconfig; print(sysconfig.get_path('purelib'))"
    done = subprocess.run([python, "-c", ask], capture_output=True, text=True, check=True)
    return Path(done.stdout.strip())


def texts_of(source: str) -> Iterator[str]:
    """The pieces of each string in Python source: what stands between two values."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from _HOLE.split(node.value)
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
            yield from _HOLE.split(_added(node))


def _added(node: ast.expr) -> str:
    """The text of strings that are added; a value among them is a hole."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return _added(node.left) + _added(node.right)
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(_added(part) for part in node.values)
    return "{}"


def pieces_in(folder: Path) -> set[str]:
    """The texts of a library, in the normal form of signatures."""
    found: set[str] = set()
    for path in folder.rglob("*.py"):
        try:
            found.update(map(normal, texts_of(path.read_text(encoding="utf-8"))))
        except (SyntaxError, UnicodeDecodeError):
            continue  # a template, or Python of another version
    for path in folder.rglob("*.so*"):
        if path.is_file():
            texts = _PRINTABLE.findall(path.read_bytes())
            found.update(normal(text.decode()) for text in texts if b" " in text)
    return {piece for piece in found if len(piece) >= SHORTEST}


class Texts:
    """The pieces of several libraries, found by the words in them."""

    def __init__(self, pieces: Iterable[str]):
        self._pieces = list(pieces)
        self._of_word: dict[str, set[int]] = {}
        for number, piece in enumerate(self._pieces):
            for word in set(re.findall(r"\w{4,}", piece)):
                self._of_word.setdefault(word, set()).add(number)

    def contain(self, signature: Signature) -> bool:
        """Whether a piece contains the signature's longest text, or makes up most of it."""
        runs = literal_runs(signature.text) if signature.is_regex else [signature.text]
        text = _NAME.sub("", normal(max(runs, key=len)))
        numbers: set[int] = set()
        for word in re.findall(r"\w{4,}", text):
            numbers |= self._of_word.get(word, set())
        return any(_shared(text, self._pieces[number]) for number in numbers)


def _shared(text: str, piece: str) -> bool:
    """Whether one holds the other, or the end of one begins the other, for half the text."""
    least = max(SHORTEST, len(text) // 2)
    if text in piece or (len(piece) >= least and piece in text):
        return True
    lengths = range(least, min(len(text), len(piece)) + 1)
    return any(piece.endswith(text[:n]) or piece.startswith(text[-n:]) for n in lengths)


def missing(texts: Texts) -> Iterator[str]:
    """A line for each signature of an entry for these libraries that none of them contains."""
    for entry in bundle.load().entries:
        names = {name.strip("`").replace("-", "_") for name in entry.applies_to}
        for signature in entry.signatures if names & set(LIBRARIES) else ():
            if not texts.contain(signature):
                yield f"{entry.id}: {signature.text}"


def main() -> int:
    """List the signatures; the number at the end counts them."""
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("--older", metavar="PYTHON", help="also read what this Python has")
    pythons = filter(None, (sys.executable, options.parse_args().older))
    folders = [site_of(python) / name for python in pythons for name in LIBRARIES]
    lines = list(missing(Texts(set().union(*map(pieces_in, folders)))))
    print(*lines, f"{len(lines)} signatures in no source", sep="\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
