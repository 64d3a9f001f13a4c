"""Compare runs: what they were given, what came out, and how far seeds explain a difference. Pure.

Runs that were given the same but for their seed repeat one configuration. Two configurations are
compared over the seeds that both have, each with itself.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import shlex
import statistics
from dataclasses import asdict, dataclass, field
from typing import Any

from ..numbers import finite
from ..text.masking import shown, shown_lines, shown_some
from .status_reply import cards_named, ended_as

NOT_RECORDED = "not recorded"
ALIKE = "all of them, alike but for the seed"  # the only configuration
VERSION = " version"  # behind the name of a package
MOST_VALUE = 120  # characters of a fact
DIFF_LINES, DIFF_WIDTH = 12, 100  # of what differs from a commit
# Fields of a job that say nothing of what is trained.
_ASIDE = frozenset((
    "at_end", "budget", "checkpoint", "command", "deadline", "durable", "floors",
    "hours_between_kills", "kubernetes", "metric", "name", "notify", "on_nan", "price", "probe",
    "queue", "rehearsal", "rendezvous", "rented", "results", "resume", "retries", "run_dir",
    "save_signal", "secrets", "skypilot", "slurm", "stall", "step_pattern", "timings", "variables",
))  # fmt: skip
_SEEN_THERE = ("card", "versions")  # on the box, and given by nobody
_OPTION = re.compile(r"(--?[A-Za-z][\w.-]*)(?:=(.*))?\Z", re.S)
_ASSIGNED = re.compile(r"(\+{0,2}[A-Za-z_][\w./-]*)=(.*)\Z", re.S)
_WORDS = re.compile(r"[^A-Za-z0-9]+")
_COMMIT = re.compile(r"([0-9a-f]{7,64}) (\S+) (.*)", re.S)


@dataclass
class Run:
    """What is known of one run; None or '' where nothing is.

    `source`: the box and the folder of its job; the cells of a queue have one.
    `facts`: {what: text} of what it was given, NOT_RECORDED for what the run didn't leave. Those in
    `settings` make its configuration, `seed` aside. `metric`: the last value of the number that
    counts, a text where it isn't finite; `metric_name`: what it is called. `rate`: steps a second.
    `hours`: while the run was on its box. `money`: for them, in `currency`, by `price_by`.
    """

    name: str
    state: str
    source: str = ""
    facts: dict[str, str] = field(default_factory=dict)
    settings: tuple[str, ...] = ()
    seed: str = ""
    metric: float | str | None = None
    metric_name: str = ""
    loss: float | str | None = None
    val_loss: float | str | None = None
    step: int | None = None
    rate: float | None = None
    hours: float | None = None
    money: float | None = None
    currency: str = ""
    price_by: str = ""
    diff: list[str] = field(default_factory=list)
    series: list[dict[str, Any]] = field(default_factory=list)

    def fact(self, name: str) -> str:
        """Return a fact, and what stands for one that isn't there."""
        return self.facts.get(name, NOT_RECORDED if name.endswith(VERSION) else "absent")


@dataclass
class Configuration:
    """Runs that were given the same but for their seed.

    `label`: what tells it from the others. `values`: the finite metric of each run, by its seed.
    `mean`, `deviation`: of these; None below one and two.
    """

    label: str
    runs: list[str]
    values: dict[str, float]
    mean: float | None = None
    deviation: float | None = None


@dataclass
class Difference:
    """One configuration beside the first: `mean` and `deviation` (n - 1) of the differences over
    the seeds that both have. None: not known."""

    label: str
    seeds: list[str]
    differences: list[float]
    mean: float | None = None
    deviation: float | None = None


@dataclass
class Comparison:
    """Runs beside each other. `differing`: the facts that aren't the same in all of them.

    `notes`: what can't be said, and why.
    """

    runs: list[Run]
    differing: list[str]
    metric: str
    configurations: list[Configuration]
    differences: list[Difference]
    notes: list[str]

    def as_dict(self) -> dict[str, Any]:
        """Return all fields, as `runs compare --json` prints them."""
        return asdict(self)


def compare_runs(runs: list[Run]) -> Comparison:
    """Compare two runs or more, in the order in which they are named."""
    names = list(dict.fromkeys(name for run in runs for name in run.facts))
    differing = [n for n in names if len({run.fact(n) for run in runs}) > 1]
    called = sorted({run.metric_name for run in runs} - {""})
    metric = called[0] if len(called) == 1 else ""
    configurations = configurations_of(runs, differing) if metric else []
    differences = [difference_from(configurations[0], one) for one in configurations[1:]]
    notes = _list_notes(runs, called, configurations)
    return Comparison(runs, differing, metric, configurations, differences, notes)


def configurations_of(runs: list[Run], differing: list[str]) -> list[Configuration]:
    """Return the configurations of some runs, in the order of their first ones.

    `differing`: the facts by which they are told apart.
    """
    groups: dict[tuple[str, ...], list[Run]] = {}
    for run in runs:
        groups.setdefault(run.settings, []).append(run)
    found = []
    for members in groups.values():
        first = members[0]
        label = ", ".join(
            f"{name} {first.fact(name)}"
            for name in differing
            if name not in _SEEN_THERE
            and not name.endswith(VERSION)
            and any(_without_seed(name, one) != _without_seed(name, first) for one in runs)
            and all(_without_seed(name, one) == _without_seed(name, first) for one in members)
        )
        seeds = [one.seed for one in members]
        numbered = (
            (seed if seeds.count(seed) == 1 and seed else f"{seed or 'no seed'}: {one.name}", one)
            for seed, one in zip(seeds, members, strict=True)
        )
        values = {s: one.metric for s, one in numbered if isinstance(one.metric, float)}
        found.append(
            Configuration(
                shown(label or (first.name if len(groups) > 1 else ALIKE), 200),
                [one.name for one in members],
                values,
                *_mean_and_deviation(list(values.values())),
            )
        )
    return found


def difference_from(first: Configuration, other: Configuration) -> Difference:
    """Return how a configuration differs from the first one, seed by seed."""
    seeds = [seed for seed in first.values if seed in other.values]
    found = [other.values[seed] - first.values[seed] for seed in seeds]
    return Difference(other.label, seeds, found, *_mean_and_deviation(found))


def _mean_and_deviation(values: list[float]) -> tuple[float | None, float | None]:
    mean = statistics.fmean(values) if values else None
    return mean, statistics.stdev(values) if len(values) > 1 else None


def _without_seed(name: str, run: Run) -> str:
    """Return a fact without its run's seed and name, so that runs/seed1 is runs/seed2."""
    text = run.fact(name)
    if name in _seed_names(run.facts):
        return ""
    return _without_own(text, run.seed, run.name)


def _without_own(text: str, seed: str, name: str) -> str:
    if len(name) > 2:
        text = text.replace(name, "NAME")
    numbers = [word.rpartition(" ")[2] for word in seed.split(", ") if word]
    for number in numbers:
        text = re.sub(rf"(?i)(seed[\W_]?|\bs)0*{re.escape(number)}(?!\d)", r"\1N", text)
    return text


def _list_notes(
    runs: list[Run], called: list[str], configurations: list[Configuration]
) -> list[str]:
    notes = _notes_of_facts(runs)
    if not called:
        text = "no metric is named, so nothing is said of seeds; `metric` in the job names one"
        return [*notes, text]
    if len(called) > 1:
        text = ", ".join(shown(name, 40) for name in called)
        return [*notes, f"the jobs name several metrics ({text}); --metric NAME takes one for all"]
    first, *others = configurations
    if all(len(one.values) < 2 for one in configurations):
        notes.append(
            "no configuration has two runs with a result, so the spread between seeds isn't known"
        )
    elif others and not any(first.values.keys() & one.values.keys() for one in others):
        notes.append("no seed is in two configurations, so no difference is paired")
    without = [run.name for run in runs if not isinstance(run.metric, float)]
    if without:
        some = shown_some(without, 6)
        notes.append(f"without a finite {shown(called[0], 40)}, and left out: {some}")
    return notes


def _notes_of_facts(runs: list[Run]) -> list[str]:
    """Return what isn't known of what the runs were given, and what wasn't given to them."""
    unknown = [
        name
        for name in ("commit", "data", "card", "versions")
        if any(run.fact(name) == NOT_RECORDED for run in runs)
    ]
    notes = []
    if unknown and len({run.source for run in runs}) > 1:
        names = ", ".join(unknown)
        notes.append(f"{NOT_RECORDED} of each run: {names}; whether these are alike isn't known")
    for name in sorted({name for run in runs for name in run.facts}):
        values = {run.fact(name) for run in runs}
        is_seen = name == "card" or name.endswith(VERSION)
        if is_seen and len(values) > 1 and NOT_RECORDED not in values:
            notes.append(f"{name}: not the same in all runs, which a difference may come from")
    return notes


def run_of(row: dict[str, Any], sent: dict[str, Any], name: str, box: str) -> Run:
    """Return what a row of run_facts tells of a run. `sent`: as `sent_job.job_in` has it."""
    job = object_of(sent.get("job"))
    rendered = object_of(sent.get("rendered"))
    given = settings_of(job, row.get("arguments"))
    code = object_of(rendered.get("code"))
    facts = {**given, **_code_facts(code), "data": _data_of(job)}
    seeds = _seed_names(given)
    seed = ", ".join(given[n] if len(seeds) == 1 else f"{n} {given[n]}" for n in seeds)
    own = shown(row.get("cell") or job.get("name") or name, 100)
    settings = tuple(
        f"{key}={_without_own(text, seed, own)}" for key, text in facts.items() if key not in seeds
    )
    diff = str(code.get("diff") or "")
    facts.update({"card": _cards_of(row, job), **_versions_of(row.get("versions"))})
    numbers = object_of(row.get("numbers"))
    seconds, step = finite(row.get("seconds")), finite(row.get("step"))
    return Run(
        own if row.get("cell") else shown(name, 100),
        _state_of(row),
        shown(f"{box}:{row.get('folder')}", 300),
        {shown(key, 60): shown(text, MOST_VALUE) for key, text in facts.items()},
        settings,
        shown(seed, 60),
        _read_number(row.get("metric")),
        shown(row.get("metric_name") or "", 60),
        _read_number(numbers.get("loss")),
        _read_number(numbers.get("val_loss")),
        None if step is None else int(step),
        finite(row.get("rate")),
        None if seconds is None else seconds / 3600,
        diff=shown_lines(diff, DIFF_LINES, DIFF_WIDTH) if diff else [],
        series=[one for one in row.get("series") or [] if isinstance(one, dict)],
    )


def settings_of(job: dict[str, Any], arguments: Any) -> dict[str, str]:
    """Return {what: text} of what a job says of its training: each option of the command, each
    variable, and the fields of the job that aren't about the box.

    `arguments`: those of a cell.
    """
    command = job.get("command")
    try:
        words = shlex.split(command) if isinstance(command, str) else list(map(str, command or []))
    except ValueError:
        words = [str(command)]
    words += list(map(str, arguments)) if isinstance(arguments, list) else []
    found, rest, option = {}, [], ""
    for word in words:
        named = _OPTION.match(word) or _ASSIGNED.match(word)
        if named and not (option and _is_number(word)):
            option = named[1] if named[2] is None else ""
            found[named[1]] = named[2] or ""
        elif option:
            found[option] = f"{found[option]} {word}".strip()
        else:
            rest.append(word)
    facts = {"command": shlex.join(rest)}
    facts.update({name: text or "given" for name, text in found.items()})
    variables = job.get("variables")
    for name, text in (variables if isinstance(variables, dict) else {}).items():
        facts[f"${name}"] = str(text)
    for name in sorted(set(job) - _ASIDE - {"data"}):
        value = job[name]
        facts[name] = value if isinstance(value, str) else json.dumps(value, sort_keys=True)
    return facts


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True


def _seed_names(given: dict[str, str]) -> list[str]:
    """Return the settings whose name ends with the word seed, such as --data_seed."""
    return [name for name in given if _WORDS.split(name.lower())[-1] == "seed"]


def _code_facts(code: dict[str, Any]) -> dict[str, str]:
    commit, diff = str(code.get("commit") or ""), str(code.get("diff") or "")
    named = _COMMIT.match(commit)
    digest = hashlib.sha256(diff.encode("utf-8", "replace")).hexdigest()[:8]
    changed = f"{len(diff.splitlines())} lines of diff ({digest})" if diff else "none"
    if not named:
        return {"commit": NOT_RECORDED, "beside the commit": NOT_RECORDED}
    return {"commit": f"{named[1][:12]} {named[3].strip()}", "beside the commit": changed}


def _data_of(job: dict[str, Any]) -> str:
    copies = job.get("data")
    copies = [one for one in copies if isinstance(one, dict)] if isinstance(copies, list) else []
    copied = [f"{one.get('from')} to {one.get('to')}" for one in copies]
    return "; ".join(copied) or NOT_RECORDED


def _cards_of(row: dict[str, Any], job: dict[str, Any]) -> str:
    if job.get("gpus") == 0:
        return "none: it runs on the CPU"
    names = cards_named(row.get("gpu"))
    counted = [f"{names.count(name)} × {name}" for name in dict.fromkeys(names)]
    return ", ".join(counted) or NOT_RECORDED


def _versions_of(seen: Any) -> dict[str, str]:
    if not isinstance(seen, dict) or not seen:
        return {"versions": NOT_RECORDED}
    return {"versions": "recorded", **{f"{name}{VERSION}": str(seen[name]) for name in seen}}


def _state_of(row: dict[str, Any]) -> str:
    if row.get("alive") is True:
        return "alive"
    marker = object_of(row.get("marker"))
    if row.get("end"):
        return ended_as(str(row["end"]), marker.get("class"), marker.get("reason"))
    return "no end" if row.get("began") is True else "not begun"


def _read_number(number_row: Any) -> float | str | None:
    """Return the value of a number as the box tells it: 'nan' as a text."""
    value = number_row.get("value") if isinstance(number_row, dict) else None
    if isinstance(value, str):
        return value if value in ("nan", "inf", "-inf") else None
    number = finite(value, math.inf)
    return number


def object_of(given: Any) -> dict[str, Any]:
    """Return an object of somebody else's JSON, {} for anything else."""
    return given if isinstance(given, dict) else {}
