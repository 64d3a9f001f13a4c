"""Text to the pieces that the encoder knows, as BERT's own tokenizer cuts it."""

import pytest
from remote_gpu_trainer.retrieval import encoder
from remote_gpu_trainer.retrieval.encoder import WordPiece

PIECES = ["[UNK]", "[CLS]", "[SEP]", "out", "of", "mem", "##ory", ":", "cafe", "\u663e", "\u5b58"]
TEXTS = [
    "RuntimeError: CUDA out of memory. Tried to allocate 20.00 MiB (GPU 0; 23.69 GiB total)",
    "[rank1]: File \"/usr/lib/python3.11/site-packages/torch/nn/modules/module.py\", line 1511, in _call_impl",
    "loss\u53d8\u6210nan\uff0c\u8bad\u7ec3\u5361\u4f4f\u4e86\u3002\u663e\u5b58\u4e0d\u8db3",
    "caf\u00e9 na\u00efve \u0130stanbul \ufb01ne \u00df \u2014 \u201cquoted\u201d \u2026 \u2265 8\u00d7A100",
    "\x00a\u200bb\ufeff\tc\r\nd \U0001f600 \u0e01\u0e33 \ud55c\uad6d\uc5b4 \u0645\u0631\u062d\u0628\u0627",
    "x" * 150 + " " + "ab1_" * 30,
    "^$`~|<>=+ @#%&*()_+-={}[]\\;'\",./?",
    "",
]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("Out of memory", ["out", "of", "mem", "##ory"]),
        ("OOM: memory", ["[UNK]", ":", "mem", "##ory"]),
        ("Caf\u00e9\t\nof", ["cafe", "of"]),
        ("\u663e\u5b58", ["\u663e", "\u5b58"]),
        ("x" * 200, ["[UNK]"]),
        ("", []),
    ],
)
def test_text_is_cut_into_known_pieces_between_two_marks(text, pieces):
    rows = WordPiece({word: at for at, word in enumerate(PIECES)}).pieces(text, 100)
    assert [PIECES[row] for row in rows] == ["[CLS]", *pieces, "[SEP]"]


def test_a_long_text_is_cut_and_still_ends_in_its_mark():
    rows = WordPiece({word: at for at, word in enumerate(PIECES)}).pieces("out of " * 50, 10)
    assert len(rows) == 10 and PIECES[rows[-1]] == "[SEP]"


@pytest.mark.parametrize("text", TEXTS, ids=range(len(TEXTS)))
def test_the_shipped_vocabulary_cuts_as_the_library_does(text):
    tokenizers = pytest.importorskip("tokenizers")
    ours = encoder.load().pieces
    theirs = tokenizers.BertWordPieceTokenizer(vocab=dict(ours.rows), lowercase=True)
    assert ours.pieces(text, 10_000) == theirs.encode(text).ids
