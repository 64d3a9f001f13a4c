"""A sentence encoder: the meaning of a text as a vector of length 1, in numpy alone.

all-MiniLM-L6-v2 (six transformer layers, 384 wide), fine-tuned by evals/train.py so that a report
lies near the card of the entry that explains it. `encoder.npz` holds its weights as int8 with one
scale a row; the layers are widened to float32 when they are loaded, the table of words stays int8.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from functools import lru_cache
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from zipfile import ZIP_STORED, BadZipFile, ZipFile, ZipInfo

from . import numpy

PLACE = Path(__file__).with_name("encoder.npz")
MOST_PIECES = 128  # of a text; what follows isn't read
LAYERS, WIDTH, HEADS = 6, 384, 12
_SMALL = 1e-12

CLS, SEP, UNKNOWN = "[CLS]", "[SEP]", "[UNK]"
LONGEST_WORD = 100  # characters; a longer word is unknown
_CHINESE = (
    (0x4E00, 0x9FFF),
    (0x3400, 0x4DBF),
    (0x20000, 0x2A6DF),
    (0x2A700, 0x2B73F),
    (0x2B740, 0x2B81F),
    (0x2B820, 0x2CEAF),
    (0xF900, 0xFAFF),
    (0x2F800, 0x2FA1F),
)


@lru_cache(maxsize=4096)
def _kind(char: str) -> str:
    """`blank`, `drop`, `alone` or `letter`: what becomes of a character."""
    number = ord(char)
    if char in "\t\n\r":
        return "blank"
    category = unicodedata.category(char)
    if number in (0, 0xFFFD) or category in ("Cc", "Cf", "Mn"):
        return "drop"
    if category == "Zs":
        return "blank"
    if any(low <= number <= high for low, high in _CHINESE):
        return "alone"
    is_ascii_sign = 33 <= number <= 47 or 58 <= number <= 64 or 91 <= number <= 96
    if is_ascii_sign or 123 <= number <= 126 or category.startswith("P"):
        return "alone"
    return "letter"


def _words(text: str) -> list[str]:
    """The words of a text in lower case, each punctuation mark and Chinese character by itself."""
    spaced: list[str] = []
    for char in unicodedata.normalize("NFD", text.lower()):
        kind = _kind(char)
        if kind == "letter":
            spaced.append(char)
        elif kind == "blank":
            spaced.append(" ")
        elif kind == "alone":
            spaced.append(f" {char} ")
    return "".join(spaced).split()


class WordPiece:
    """Text to the pieces of words that the encoder knows (BERT's uncased WordPiece).

    The rules are those of BERT's own tokenizer (google-research/bert, tokenization.py): lower case,
    accents dropped, punctuation and Chinese characters by themselves, then the longest known piece
    from the left. tests/retrieval/test_encoder.py compares it with the library `tokenizers`.
    `rows`: the number of each piece.
    """

    def __init__(self, rows: Mapping[str, int]):
        self.rows = rows
        self._known: dict[str, list[int]] = {}

    def pieces(self, text: str, most: int) -> list[int]:
        """The rows of a text's pieces between [CLS] and [SEP], `most` at most with those two."""
        pieces = [self.rows[CLS]]
        for word in _words(text):
            if len(pieces) >= most - 1:
                break
            rows = self._known.get(word)
            if rows is None:
                rows = self._known[word] = self._of(word)
                if len(self._known) > 50_000:
                    self._known.clear()
            pieces += rows
        return [*pieces[: most - 1], self.rows[SEP]]

    def _of(self, word: str) -> list[int]:
        """The rows of a word's pieces, the longest known piece first; or that of [UNK]."""
        if len(word) > LONGEST_WORD:
            return [self.rows[UNKNOWN]]
        pieces, start = [], 0
        while start < len(word):
            for end in range(len(word), start, -1):
                row = self.rows.get(("##" if start else "") + word[start:end])
                if row is not None:
                    break
            else:
                return [self.rows[UNKNOWN]]
            pieces.append(row)
            start = end
        return pieces


class Encoder:
    """The encoder whose weights `arrays` are.

    `arrays`: {name: int8 matrix, `name/scale`: float32 a row} and float32 vectors, as
    `quantized` gives them, with `vocabulary`: the pieces, one a line, as bytes of UTF-8.
    """

    def __init__(self, arrays: dict[str, numpy.ndarray]):
        words = bytes(arrays["vocabulary"]).decode().split("\n")
        self.pieces = WordPiece({word: row for row, word in enumerate(words)})
        self._table = arrays["words"], arrays["words/scale"]
        self._weights = {
            name: numpy.multiply(value, arrays[f"{name}/scale"][:, None], dtype="f").T
            if f"{name}/scale" in arrays
            else value.astype("f")
            for name, value in arrays.items()
            if name not in ("vocabulary", "words", "made_from") and not name.endswith("/scale")
        }

    def vector(self, text: str, most: int = MOST_PIECES) -> numpy.ndarray:
        """The vector of a text, shape (384,), float32. Reads its first `most` pieces, up to 128."""
        rows = self.pieces.pieces(text, most)
        table, scale = self._table
        x = table[rows] * scale[rows][:, None] + self._weights["places"][: len(rows)]
        x = self._normal(x, "start")
        for layer in range(LAYERS):
            x = self._layer(x, str(layer))
        mean = x.mean(0)
        return mean / (numpy.linalg.norm(mean) + _SMALL)

    def _layer(self, x: numpy.ndarray, at: str) -> numpy.ndarray:
        w = self._weights
        count, size = len(x), WIDTH // HEADS
        mixed = x @ w[f"{at}/qkv"] + w[f"{at}/qkv bias"]
        # Three of (heads, pieces, size).
        q, k, v = mixed.reshape(count, 3, HEADS, size).transpose(1, 2, 0, 3)
        seen = q @ k.transpose(0, 2, 1) / numpy.float32(size**0.5)
        seen = numpy.exp(seen - seen.max(2, keepdims=True))
        seen /= seen.sum(2, keepdims=True)
        heads = (seen @ v).transpose(1, 0, 2).reshape(count, WIDTH)
        x = self._normal(x + heads @ w[f"{at}/joined"] + w[f"{at}/joined bias"], f"{at}/attention")
        inner = _gelu(x @ w[f"{at}/wide"] + w[f"{at}/wide bias"])
        return self._normal(x + inner @ w[f"{at}/narrow"] + w[f"{at}/narrow bias"], f"{at}/output")

    def _normal(self, x: numpy.ndarray, name: str) -> numpy.ndarray:
        x = x - x.mean(1, keepdims=True)
        x /= numpy.sqrt((x * x).mean(1, keepdims=True) + _SMALL)
        return x * self._weights[f"{name} gain"] + self._weights[f"{name} shift"]


def _gelu(x: numpy.ndarray) -> numpy.ndarray:
    """GELU by its tanh form, which differs from the exact one by less than 0.001."""
    inner = x * x
    inner *= numpy.float32(0.044715 * 0.7978845608)
    inner += numpy.float32(0.7978845608)
    inner *= x
    numpy.tanh(inner, out=inner)
    inner += 1
    inner *= x
    inner *= numpy.float32(0.5)
    return inner


def quantized(weights: dict[str, numpy.ndarray], vocabulary: str) -> dict[str, numpy.ndarray]:
    """The arrays of `encoder.npz` from the weights of a BERT by their own names, float32."""
    found: dict[str, numpy.ndarray] = {
        "vocabulary": numpy.frombuffer(vocabulary.encode(), "uint8"),
        "places": (
            weights["embeddings.position_embeddings.weight"][:MOST_PIECES]
            + weights["embeddings.token_type_embeddings.weight"][0]
        ),
    }

    def put(name: str, matrix: numpy.ndarray) -> None:
        scale = numpy.abs(matrix).max(1) / 127 + _SMALL
        found[name] = numpy.round(matrix / scale[:, None]).astype("int8")
        found[f"{name}/scale"] = scale.astype("f")

    def normal(name: str, source: str) -> None:
        found[f"{name} gain"] = weights[f"{source}.weight"]
        found[f"{name} shift"] = weights[f"{source}.bias"]

    put("words", weights["embeddings.word_embeddings.weight"])
    normal("start", "embeddings.LayerNorm")
    for layer in range(LAYERS):
        own = f"encoder.layer.{layer}."
        parts = [f"{own}attention.self.{name}" for name in ("query", "key", "value")]
        put(f"{layer}/qkv", numpy.concatenate([weights[f"{p}.weight"] for p in parts]))
        found[f"{layer}/qkv bias"] = numpy.concatenate([weights[f"{p}.bias"] for p in parts])
        for name, source in (
            ("joined", "attention.output.dense"),
            ("wide", "intermediate.dense"),
            ("narrow", "output.dense"),
        ):
            put(f"{layer}/{name}", weights[f"{own}{source}.weight"])
            found[f"{layer}/{name} bias"] = weights[f"{own}{source}.bias"]
        normal(f"{layer}/attention", f"{own}attention.output.LayerNorm")
        normal(f"{layer}/output", f"{own}output.LayerNorm")
    return found


@lru_cache(maxsize=1)
def load() -> Encoder | None:
    """The encoder of this installation. None for a missing or damaged file."""
    try:
        with numpy.load(PLACE) as arrays:
            return Encoder(dict(arrays))
    except (OSError, ValueError, KeyError, EOFError, BadZipFile):
        return None


@lru_cache(maxsize=1)
def name() -> str:
    """A hash of the weights: cards encoded by another model aren't compared with this one's."""
    return sha256(PLACE.read_bytes()).hexdigest()[:16]


def packed(arrays: dict[str, numpy.ndarray]) -> bytes:
    """The bytes of an .npz file of these arrays, the same for the same arrays."""
    buffer = BytesIO()
    with ZipFile(buffer, "w", ZIP_STORED) as archive:
        for key, value in arrays.items():
            part = BytesIO()
            numpy.lib.format.write_array(part, numpy.ascontiguousarray(value), allow_pickle=False)
            archive.writestr(ZipInfo(f"{key}.npy"), part.getvalue())
    return buffer.getvalue()
