"""`rgt dev lint`: checks of the whole catalogue beyond the grammar.

`lint` runs every function called `check_*` on each entry, and then the checks of all entries
together. It looks up the target of a link only inside the bundle, never on the network. Regular
expressions that `backtracking.stalls` lets pass are timed on texts that make bad ones slow, which
is no proof that they are fast on every text.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from datetime import date, timedelta

from .backtracking import stalls
from .bundle import Catalogue
from .entry import ID, Entry, Fault, Signature
from .proofs import PROOFS, proof_of, takes_check
from .seen_by_probe import PROBE, probed
from .signatures import Pattern  # the compiled form that the look-up itself uses

MAX_WORDS = {"symptom": 90, "root_cause": 80}
ANSWER_WORDS = 190  # words that an answer shows of an entry: the three leads together
RETRY_WORDS = 12
LEAD_WORDS = 60  # words of a lead, the first paragraph of a field, which an answer shows whole
MIN_SIGNATURE = 8  # shorter literals occur by chance in base64, hashes and ordinary words
SLOW_SECONDS = 0.05
MIN_REPORTS, MIN_CHINESE = 5, 2  # items of Reported as

# Healthy runs print these lines; no signature may match them.
ORDINARY_LOG = """\
2026-11-20 10:00:00,123 INFO train.py:88 Starting training on cuda:0, world_size=8, rank=0, \
LOCAL_RANK=0
Epoch 3/100:  45%|████▌     | 450/1000 [02:13<02:43,  3.37it/s, loss=1.2345, lr=0.0001, \
grad_norm=0.87]
{'loss': 2.3026, 'grad_norm': 1.0, 'learning_rate': 5e-05, 'epoch': 0.12}
NCCL version 2.21.5+cuda12.4
host:123:456 [0] NCCL INFO comm 0x55 rank 0 nranks 8 cudaDev 0 busId 1000 - Init COMPLETE
trainable params: 4,194,304 || all params: 6,742,609,920 || trainable%: 0.0622
Saving model checkpoint to ./out/checkpoint-500
Validation: accuracy 0.8123, best 0.8123, error 0.1877, 0 errors
optimizer.step() took 12 ms, backward 80 ms, dataloader 3 ms, num_workers=8, pin_memory=True, \
fused=True
model = nn.Sequential(nn.Linear(10, 10), nn.ReLU(), nn.BatchNorm1d(10)); \
criterion = nn.CrossEntropyLoss()
accelerate launch --multi_gpu train.py && torchrun --standalone --nproc-per-node=8 train.py \
--find_unused_parameters
DeepSpeed info: version=0.16.0, zero_optimization stage 2, gradient_accumulation_steps=4
Done. Training finished without errors in 3:21:07. exit code 0
"""
# Libraries and surviving ranks print these lines after any failure; no root text may match them.
ECHOES = """\
CUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace \
below might be incorrect.
For debugging consider passing CUDA_LAUNCH_BLOCKING=1
Compile with `TORCH_USE_CUDA_DSA` to enable device-side assertions.
If reserved but unallocated memory is large try setting PYTORCH_ALLOC_CONF=expandable_segments:True
If reserved memory is >> allocated memory try setting max_split_size_mb to avoid fragmentation.
[rank1]:[E ProcessGroupNCCL.cpp:632] [Rank 1] Watchdog caught collective operation timeout: \
WorkNCCL(SeqNum=7, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600013 \
milliseconds before timing out.
To avoid data inconsistency, we are taking the entire process down.
RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:534] Connection closed by peer \
[10.0.0.7]:44321
[../third_party/gloo/gloo/transport/tcp/pair.cc:525] Read error [10.0.0.7]:44321: \
Connection reset by peer
ncclRemoteError: A call failed possibly due to a network error or a remote process exiting \
prematurely.
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
Root Cause (first observed failure):
terminate called after throwing an instance of 'c10::DistBackendError'
terminate called without an active exception
"""
# Long lines on which a bad regular expression takes long.
_STRAIN = (
    "a" * 3000,
    " " * 3000,
    "0.1 " * 800,
    "[rank0]: " * 400,
    "(" * 2000,
    "/a" * 1500 + "!",
    "Error: " * 500,
)
_LINK = re.compile(r"\]\(([^()\s]+)\)")
_REFERENCE = re.compile(rf"\[({ID.pattern})\](?!\()")
_QUESTIONS = re.compile(r"^## Which of these is it\?.*\n((?:(?!## ).*\n)*)", re.MULTILINE)
_WORD = re.compile(r"\w+")
_RANGE = r"(?:==|!=|<=|>=|<|>|~=)[\w.*+!-]+"
_REQUIREMENT = re.compile(
    rf"(?:platform|gpu):[\w .+-]+|[A-Za-z][\w.-]*(?:(?: ?{_RANGE})(?: {_RANGE})*)?"
)


def lint(catalogue: Catalogue, today: date) -> list[Fault]:
    """Return every fault of the catalogue by page and line. A date after `today` is a fault."""
    faults = list(catalogue.faults)
    for entry in catalogue.entries:
        for name, check in sorted(globals().items()):
            if name.startswith("check_"):
                faults.extend(check(entry, catalogue, today))
    faults.extend(_wrong_ids(catalogue))
    faults.extend(_shared_root_texts(catalogue))
    faults.extend(_wrong_seen_by(catalogue))
    faults.extend(_ran_without_a_proof(catalogue))
    faults.extend(leads(catalogue))
    faults.extend(_missing_in_lists(catalogue))
    return sorted(faults, key=lambda fault: (fault.path, fault.line, fault.text))


def notes(catalogue: Catalogue) -> list[Fault]:
    """Return what would make entries better, but isn't required of their authors.

    People report failures in Chinese too, and the look-up compares their words with the field
    Reported as. Not every author writes Chinese, so a maintainer may add these items.
    """
    return [
        _fault(
            entry,
            f"Reported as has {chinese} items in Chinese; "
            f"{MIN_CHINESE} would help those who search in it",
        )
        for entry in catalogue.entries
        if (chinese := sum(map(_is_chinese, entry.reported_as))) < MIN_CHINESE
    ]


def _is_chinese(text: str) -> bool:
    return any("\u4e00" <= char <= "\u9fff" for char in text)


def leads(catalogue: Catalogue) -> list[Fault]:
    """Return what is wrong with the leads: the first paragraphs of root cause, fix and check."""
    faults = []
    for entry in catalogue.entries:
        for name in ("root_cause", "fix", "check"):
            lead = getattr(entry, name).split("\n\n")[0].split("\n```")[0].strip()
            words, field = len(lead.split()), name.replace("_", " ")
            if words > LEAD_WORDS:
                text = f"the first paragraph of {field} has {words} words; keep to {LEAD_WORDS}"
                faults.append(_fault(entry, text))
            if not lead.endswith((".", ".)")):
                text = f"the first paragraph of {field} ends in {lead[-20:]!r}; end in a full stop"
                faults.append(_fault(entry, text))
    return faults


def _wrong_ids(catalogue: Catalogue) -> Iterator[Fault]:
    """Every id stands once, and a retired one leads to an entry."""
    places: dict[str, tuple[str, int]] = {}
    for item in (*catalogue.entries, *catalogue.retired):
        if item.id in places:
            path, line = places[item.id]
            text = f"id {item.id} is already at {path}:{line}; give this one another"
            yield Fault(item.path, item.line, text)
        places.setdefault(item.id, (item.path, item.line))
    for old in catalogue.retired:
        if catalogue.current(old.id) not in catalogue.by_id:
            text = f"{old.id} → {old.successor} has no such successor; name the id of an entry"
            yield Fault(old.path, old.line, text)


def _shared_root_texts(catalogue: Catalogue) -> Iterator[Fault]:
    """A root signature names one entry, so no other entry has it or a longer text with it."""
    roots = [
        (entry, Pattern(signature))
        for entry in catalogue.entries
        for signature in entry.signatures
        if signature.role == "root"
    ]
    texts = [pattern.literal or pattern.source.text for _, pattern in roots]
    # One search of all texts is fast, and most texts occur once. The rest is compared one by one.
    everything = "\n".join(texts)
    for (entry, pattern), text in zip(roots, texts, strict=True):
        if everything.count(text) < 2:
            continue
        others = dict.fromkeys(
            other.id
            for (other, other_pattern), other_text in zip(roots, texts, strict=True)
            if other.id != entry.id
            and (
                text in other_text
                if pattern.literal and other_pattern.literal
                else text == other_text
            )
        )
        for name in others:
            yield _fault(
                entry,
                f"signature {pattern.source.text!r} is a root text of {name} too; write (cascade) "
                "behind it in the entry that it doesn't name alone",
            )


def _missing_in_lists(catalogue: Catalogue) -> Iterator[Fault]:
    """Each entry of a page with lists "Which of these is it?" stands in one of them."""
    named: dict[str, set[str]] = {}
    for entry in catalogue.entries:
        if entry.path not in named:
            page = (catalogue.root / entry.path).read_text(encoding="utf-8")
            lists = _QUESTIONS.findall(page)
            named[entry.path] = set(_WORD.findall(" ".join(lists)))
        if named[entry.path] and entry.id not in named[entry.path]:
            text = 'the list "Which of these is it?" of its page doesn\'t name it'
            yield _fault(entry, f"{text}; add what one sees of it there, and the id")


def _wrong_seen_by(catalogue: Catalogue) -> Iterator[Fault]:
    """Exactly the entries that the probe can name have the field Seen by."""
    ids = probed(catalogue)
    if ids is None:
        return
    repair = "run rgt dev docs --write"
    for entry in catalogue.entries:
        if entry.id in ids and not entry.seen_by:
            yield _fault(entry, f"the probe can name it; {repair}, which adds '**Seen by:** probe'")
        if entry.id not in ids and entry.seen_by:
            text = f"Seen by names the probe, and {PROBE} doesn't name it; {repair}"
            yield _fault(entry, text)
    for id in sorted(ids - {*catalogue.by_id}):
        yield Fault(PROBE, 1, f"entry {id} doesn't exist; name one that does")


def _ran_without_a_proof(catalogue: Catalogue) -> Iterator[Fault]:
    """In a checkout, what Verified calls run has a proof, and one that takes the Check's own code.

    Of Fix no such rule holds: it is prose as a rule, and a proof does the same in other words.
    """
    if not (catalogue.root / PROOFS).is_dir():
        return
    for entry in catalogue.entries:
        if not entry.ran:
            continue
        proof = proof_of(catalogue.root, entry.id)
        name = proof.relative_to(catalogue.root).as_posix()
        if not proof.is_file():
            yield _fault(entry, f"Verified says ran, and {name} isn't there; write it, or 'read'")
        elif "Check" in entry.ran_fields and not takes_check(
            entry, proof.read_text(encoding="utf-8")
        ):
            text = f"Verified says that Check ran, and {name} doesn't take code from it"
            yield _fault(entry, f"{text}; use evals/proofs/check_code.py, or say 'Check read'")


def _fault(entry: Entry, text: str) -> Fault:
    return Fault(entry.path, entry.line, f"{entry.id}: {text}")


def check_references(entry: Entry, catalogue: Catalogue, today: date) -> Iterator[Fault]:
    """Every id that an entry names belongs to another entry."""
    named = [*_REFERENCE.findall(entry.markdown), *(other for other, _ in entry.tell_apart)]
    for other in dict.fromkeys(named):
        if catalogue.current(other) not in catalogue.by_id:
            yield _fault(entry, f"entry {other} doesn't exist; name one that does")
    if entry.id in named:
        yield _fault(entry, "it refers to itself; name another entry")


def check_links(entry: Entry, catalogue: Catalogue, today: date) -> Iterator[Fault]:
    """Links lead to files of the bundle or to the web, and Sources has one to open again."""
    for target in _LINK.findall(entry.markdown):
        if target.startswith(("https://", "http://", "#")):
            continue
        page = catalogue.root / entry.path
        if not (page.parent / target.split("#")[0]).exists():
            yield _fault(
                entry,
                f"the link to {target!r} is broken; "
                "link to a file of the bundle or to a web address",
            )
    if not any("http" in source or "release notes" in source for source in entry.sources):
        yield _fault(
            entry, f"Sources {entry.sources!r} has no address; add one that can be opened again"
        )


def check_signatures(entry: Entry, catalogue: Catalogue, today: date) -> Iterator[Fault]:
    """Signatures are distinct, specific, valid and fast."""
    seen = set()
    for signature in entry.signatures:
        text = signature.text
        if text in seen:
            yield _fault(entry, f"signature {text!r} is there twice; keep one")
        seen.add(text)
        wrong = _useless(signature)
        if wrong:
            yield _fault(entry, wrong)
            continue
        pattern = Pattern(signature)
        echo = next(filter(pattern.matches, ECHOES.splitlines()), None)
        if echo and signature.role == "root":
            yield _fault(
                entry,
                f"signature {text!r} matches {echo[:60]!r}, which is printed whatever failed; "
                "write (cascade) or (advice) behind it",
            )
        hit = next((line for line in ORDINARY_LOG.splitlines() if pattern.matches(line)), None)
        if hit:
            yield _fault(
                entry,
                f"signature {text!r} matches the ordinary line {hit[:60]!r}; "
                "give a text that only this failure prints",
            )
        started = time.process_time()
        for strain in _STRAIN:
            pattern.matches(strain)
        if time.process_time() - started > SLOW_SECONDS:
            yield _fault(
                entry,
                f"signature {text!r} takes over {SLOW_SECONDS} s on a long line; "
                "avoid repeats inside repeats",
            )


def _useless(signature: Signature) -> str:
    """Return why a signature can't be used, or ''."""
    text = signature.text
    if not signature.is_regex and len(text) < MIN_SIGNATURE:
        return f"signature {text!r} is too short; give {MIN_SIGNATURE} characters or more"
    try:
        empty = Pattern(signature).matches("")
    except re.error as error:
        return f"signature /{text}/ doesn't compile ({error}); correct the regular expression"
    slow = stalls(text) if signature.is_regex else ""
    if slow:
        return f"signature /{text}/ has {slow}; write one that can't stall"
    return f"signature {text!r} matches an empty line; give a text" if empty else ""


def check_lengths(entry: Entry, catalogue: Catalogue, today: date) -> Iterator[Fault]:
    """Title, symptom, root cause, Retry and the texts of an answer aren't too long."""
    for name, limit in MAX_WORDS.items():
        words = len(getattr(entry, name).split())
        if words > limit:
            yield _fault(entry, f"{name.replace('_', ' ')} has {words} words; keep to {limit}")
    answer = sum(
        len(text.split("\n\n")[0].split()) for text in (entry.root_cause, entry.fix, entry.check)
    )
    if answer > ANSWER_WORDS:
        yield _fault(
            entry,
            f"root cause and the first paragraphs of fix and check have {answer} words together; "
            f"keep to {ANSWER_WORDS}",
        )
    words = len(entry.retry.split())
    if words > RETRY_WORDS:
        yield _fault(entry, f"Retry has {words} words; keep to {RETRY_WORDS}")
    words = len(entry.title.split())
    if not 5 <= words <= 18:
        yield _fault(entry, f"the title has {words} words; say in 5 to 18 words what the user sees")


def check_dates(entry: Entry, catalogue: Catalogue, today: date) -> Iterator[Fault]:
    """The date under Verified isn't before the catalogue began, and isn't in the future."""
    # One day of grace for authors in time zones ahead of this one.
    if not date(2026, 1, 1) <= entry.verified <= today + timedelta(days=1):
        yield _fault(
            entry, f"Verified is {entry.verified}; write a date from 2026-01-01 to {today}"
        )


def check_ranges(entry: Entry, catalogue: Catalogue, today: date) -> Iterator[Fault]:
    """The field Applies to names only packages with version ranges, platforms and GPUs."""
    for item in entry.applies_to:
        if not _REQUIREMENT.fullmatch(item):
            yield _fault(
                entry,
                f"can't read {item!r} in Applies to; "
                "write NAME with a version range, platform:NAME or gpu:TEXT",
            )


def check_reports(entry: Entry, catalogue: Catalogue, today: date) -> Iterator[Fault]:
    """The field Reported as has at least `MIN_REPORTS` items."""
    if len(entry.reported_as) < MIN_REPORTS:
        yield _fault(
            entry,
            f"Reported as has {len(entry.reported_as)} items; give at least {MIN_REPORTS}",
        )
