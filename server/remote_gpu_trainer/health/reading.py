"""The answer of scripts/gpu_health.py to a state. Pure. Nothing in it is trusted: types are checked, texts are cut, cleaned and masked.

A verdict never comes out better than its findings, its exit code and its list of GPUs allow: what doesn't fit together is unknown.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field

from ..numbers import finite
from ..text.masking import shown, shown_lines

LEVELS = ("fatal", "degraded", "unknown", "warn")
WORST = ("unfit", "care", "unknown", "fit")
CODES = {"fit": 0, "care": 1, "unfit": 1, "unknown": 2}
MOST_FINDINGS, MOST_KINDS, MOST_GPUS, MOST_LISTED = 24, 8, 64, 1000
_ENTRY = re.compile(r"[A-Z][A-Z0-9]{0,9}\Z|(?=)\Z")
_LABEL = re.compile(r"[0-9A-Za-z:. _-]{1,40}\Z")
_ABOUT_A_GPU = {
    "name": str,
    "memory_mib": int,
    "nvlinks": int,
    "bf16": bool,
    "fp8": bool,
    "p2p": str,
    "mig": list,
}


@dataclass
class Health:
    """What is known about a box. `findings` worst first, as in the contracts; `partial`: what was left out of what was asked, and how to get it."""

    verdict: str
    box: str
    findings: list[dict] = field(default_factory=list)
    gpus: list[dict] = field(default_factory=list)
    probe_seconds: float | None = None
    driver: str = ""
    about: list[str] = field(default_factory=list)
    left_out: dict[str, int] = field(default_factory=dict)
    stress: dict | None = None
    partial: str = ""
    why: str = ""

    def as_dict(self) -> dict:
        """The answer of the tool: fields that say nothing are left out."""
        out = {
            "verdict": self.verdict,
            "findings": self.findings,
            "gpus": self.gpus,
            "probe_seconds": self.probe_seconds,
        }
        more = {
            name: getattr(self, name)
            for name in ("box", "driver", "about", "left_out", "stress", "partial", "why")
        }
        return out | {name: value for name, value in more.items() if value}

    @property
    def code(self) -> int:
        """The exit code: 0 fit, 1 care or unfit, 2 could not tell."""
        return CODES[self.verdict]

    def add(self, level: str, evidence: str, threshold: str, action: str) -> None:
        """A finding about the box of our own; the verdict follows."""
        self.findings.append(
            {
                "gpu": None,
                "level": level,
                "evidence": evidence,
                "threshold": threshold,
                "action": action,
                "entry": "",
            }
        )
        self.findings.sort(key=lambda one: LEVELS.index(one["level"]))
        self.verdict = worst(self.verdict, verdict_of(self.findings))


def worst(*verdicts: str) -> str:
    return min(verdicts, key=WORST.index)


def verdict_of(findings: list[dict]) -> str:
    """As in scripts/gpu_health.py: fatal, degraded, unknown; warnings leave it fit."""
    levels = {one["level"] for one in findings}
    return (
        "unfit"
        if "fatal" in levels
        else "care"
        if "degraded" in levels
        else "unknown"
        if "unknown" in levels
        else "fit"
    )


def without_answer(name: str, text: str, why: str = "") -> Health:
    """A box that gave none. `text`: found, expected and do in one line."""
    found, _, rest = text.partition(", expected ")
    threshold, _, action = rest.partition("; do: ")
    health = Health("unknown", name, why=why)
    health.add("unknown", found, threshold or "an answer", action or "try again")
    return health


def read(name: str, reply: bytes, code: int | None, cut: bool = False, errors: str = "") -> Health:
    """What the program's reply says."""
    text = reply.decode("utf-8", "replace")
    try:
        told = json.loads(
            text[text.index("{") : text.rindex("}") + 1], parse_constant=lambda _: None
        )
        if not isinstance(told, dict) or cut:
            raise ValueError
        return _health(name, told, code)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError, OverflowError):
        return without_answer(name, _unreadable(name, text, code, cut, errors), "unreadable")


def _unreadable(name: str, text: str, code: int | None, cut: bool, errors: str) -> str:
    if cut:
        return f"found a reply over 4 MB from {name}, expected one JSON object; do: look what answers there as python3 and nvidia-smi"
    if code == 127:
        return f"found no python3 on {name}, expected 3.8 or later; do: install it there, or run nvidia-smi -q by hand"
    last = next(iter(shown_lines(errors or text, 1, 160)), "no message")
    return f"found a reply from {name} that can't be read (exit {code}: {last}), expected one JSON object from Python 3.8 or later; do: try python3 --version there"


def _health(name: str, told: dict, code: int | None) -> Health:
    findings = [_finding(one) for one in told["findings"][:MOST_LISTED]]
    findings.sort(key=lambda one: LEVELS.index(one["level"]))
    gpus = [one for one in told["gpus"][:MOST_LISTED] if isinstance(one, dict)]
    claimed = told["verdict"] if told["verdict"] in WORST else "unknown"
    health = Health(
        worst(claimed, verdict_of(findings)),
        name,
        findings,
        _brief(gpus),
        _number(told.get("probe_seconds")),
    )
    health.driver = shown(told.get("driver") or "", 40)
    listed = told.get("recognised")
    health.about = [shown(one, 80) for one in listed[:8]] if isinstance(listed, list) else []
    health.stress = _plain(told["stress"]) if isinstance(told.get("stress"), dict) else None
    if health.verdict == "fit" and (code != 0 or not gpus):
        what = f"exit code {code}" if code else "no GPU in it"
        health.add(
            "unknown",
            f"found the verdict fit with {what}",
            "an answer that agrees with itself",
            "look what answers there as python3",
        )
    if health.verdict != verdict_of(findings):
        health.add(
            "unknown",
            f"found the verdict {shown(told['verdict'], 40)} without a finding that explains it",
            "an answer that agrees with itself",
            "look what answers there as python3",
        )
    for one in findings[MOST_FINDINGS:]:
        health.left_out[one["level"]] = health.left_out.get(one["level"], 0) + 1
    del health.findings[MOST_FINDINGS:]
    return health


def _finding(one: dict) -> dict:
    level = one["level"] if one["level"] in LEVELS else "unknown"
    entry = one.get("entry")
    return {
        "gpu": _label(one.get("gpu")), "level": level, "evidence": shown(one["evidence"], 300), "threshold": shown(one["threshold"], 200),
        "action": shown(one["action"], 240), "entry": entry if isinstance(entry, str) and _ENTRY.match(entry) else "",
    }  # fmt: skip


def _brief(gpus: list[dict]) -> list[dict]:
    """One item for each kind of card; `gpu` holds the numbers of those that are alike."""
    kinds: list[dict] = []
    for one in gpus:
        kind = {
            name: _plain(one[name])
            for name, sort in _ABOUT_A_GPU.items()
            if type(one.get(name)) is sort
        }
        if "mig" in kind:
            kind["mig"] = [name for name in kind["mig"] if isinstance(name, str)]
        labels = one.get("gpu") if isinstance(one.get("gpu"), list) else [one.get("gpu")]
        same = next(
            (
                other
                for other in kinds
                if {key: value for key, value in other.items() if key != "gpu"} == kind
            ),
            None,
        )
        if same is None and len(kinds) < MOST_KINDS:
            same = {"gpu": [], **kind}
            kinds.append(same)
        if same is not None:
            same["gpu"] += [_label(label) for label in labels[: MOST_GPUS - len(same["gpu"])]]
    return kinds


def _label(value):
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 10**6:
        return value
    return value if isinstance(value, str) and _LABEL.match(value) else None


def _number(value) -> float | None:
    found = finite(value)
    return None if found is None else round(found, 3)


def _plain(value, depth: int = 0):
    """Numbers and short texts in short lists and objects; anything else is None."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, (int, float)):
        return value if finite(value) is not None else None
    if isinstance(value, str):
        return shown(value, 80)
    if depth < 3 and isinstance(value, list):
        return [_plain(one, depth + 1) for one in value[:MOST_GPUS]]
    if depth < 3 and isinstance(value, dict):
        return {shown(key, 40): _plain(one, depth + 1) for key, one in list(value.items())[:20]}
    return None


def as_text(health: Health) -> str:
    """For a terminal: the verdict, findings worst first, then a line for each kind of card."""
    out = [f"{health.verdict}: {health.box}"]
    for one in health.findings:
        out.append(
            f"{one['level']} {'box' if one['gpu'] is None else 'GPU ' + str(one['gpu'])}: {one['evidence']}"
        )
        out.append(f"    expected: {one['threshold']}")
        out.append(f"    do: {one['action']}" + (f" [{one['entry']}]" if one["entry"] else ""))
    out += [f"and {count} more of level {level}" for level, count in health.left_out.items()]
    out += [
        f"{len(kind['gpu'])} x {kind.get('name', 'GPU')}, {kind.get('memory_mib', '?')} MiB (GPU {', '.join(map(str, kind['gpu']))})"
        for kind in health.gpus
    ]
    about = [f"driver {health.driver}"] if health.driver else []
    about += health.about + (
        [f"{health.probe_seconds:.1f} s"] if health.probe_seconds is not None else []
    )
    out += [", ".join(about)] if about else []
    out += [f"stress: {json.dumps(health.stress)}"] if health.stress else []
    out += [f"partial: {health.partial}"] if health.partial else []
    return "\n".join(out)
