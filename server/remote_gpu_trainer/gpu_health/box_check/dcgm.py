"""What NVIDIA's DCGM says of the cards: `dcgmi diag` and `dcgmi health -c`, as somebody pasted it.

The check starts neither. Their tables have two columns: what was tested and how it went, and
below it, with the first column empty, the same for single GPUs or the words of an error.
`dcgmi diag -j` gives the same as JSON, whose fields changed with DCGM 4.
"""

import json
import re
from typing import NamedTuple, Optional

from ...logs.kernel.places import clean, short
from ...logs.kernel.xids import xid_level
from .text import as_dict, as_list

TABLE_OF_DCGM = re.compile(r"^[>\s]*\| (?:Health Monitor Report|Diagnostic +\| Result) +\|", re.M)
ROW_OF_DCGM = re.compile(r"^[>\s]*\| (.*?) *\|(?: (.*?) *\|)?\s*$")
CHUNK = 45  # characters of a message in a row of `diag`, which cuts through words
BAD = {"Fail": "degraded", "Failure": "degraded", "Warn": "warn", "Warning": "warn"}
# Of the messages in DCGM's dcgm_errors.h, those after which no training on the card is sound.
FATAL = re.compile(
    r"double-bit|\bDBE\b|uncorrectable|faulty memory|uncontained|fallen off the bus"
    r"|corrupt InfoROM|row remapping failed|fatal NvSwitch SXID"
)
# A setting that DCGM 4 fails a card for, and that harms no training.
SETTING = re.compile(r"Persistence mode for GPU \d{1,3} is (?:currently )?disabled", re.I)
OBJECT_OF_DCGM = re.compile(r"\{\s*\"DCGM (?:GPU )?Diagnostic\"\s*:")
NAMED_XID = re.compile(r"\bXID (\d{1,3})\b")


class DcgmFinding(NamedTuple):
    """One thing that isn't well: the GPU, None for all of them, the level, and what was said."""

    gpu: Optional[int]
    level: str
    text: str


class TestOfDcgm:
    """One test of `dcgmi diag`: how it went, by GPU where that is told, and its errors."""

    def __init__(self, name):
        """A test of which nothing is known yet."""
        self.name, self.results, self.errors = name, {}, []
        self.is_in_error = False  # whether the next row without a name goes on with an error

    def find_faults(self):
        """What isn't well: [DcgmFinding], of single GPUs where the test names them."""
        bad = {gpu: result for gpu, result in self.results.items() if result in BAD}
        alone = [gpu for gpu in bad if gpu is not None]
        return [self.find_fault(gpu, bad[gpu]) for gpu in alone or bad]

    def find_fault(self, gpu, result):
        """What isn't well with one GPU, with the errors that are its own or nobody's."""
        mine = [text for whose, text in self.errors if whose in (gpu, None) or gpu is None]
        words = " ".join(" ".join(mine).split())
        text = f"diag: {self.name}: {result}" + (f": {words}" if words else "")
        is_setting = mine and all(SETTING.search(" ".join(one.split())) for one in mine)
        level = "warn" if is_setting else level_of_words(BAD[result], words)
        return DcgmFinding(gpu, level, text)


def parse_dcgm(text):
    """The output of `dcgmi diag` or `dcgmi health -c` -> [DcgmFinding], empty where all is well."""
    found = OBJECT_OF_DCGM.search(text)
    if found:
        return read_json_report(text[found.start() :])
    rows = [row.groups() for row in map(ROW_OF_DCGM.match, clean(text).splitlines()) if row]
    is_report = any(name.startswith("Health Monitor Report") for name, _ in rows)
    return read_health_report(rows) if is_report else read_diag_report(rows)


def is_of_dcgm(text):
    """Whether a text is one of these outputs."""
    return bool(TABLE_OF_DCGM.search(text) or OBJECT_OF_DCGM.search(text))


def read_json_report(text):
    """Read `dcgmi diag -j`: DCGM 3 names a card by gpu_id, or several by gpu_ids; 4 by entity_id.

    A text that breaks off tells nothing, and says so.
    """
    try:
        report, _ = json.JSONDecoder().raw_decode(text)
    except (ValueError, RecursionError):
        return [DcgmFinding(None, "warn", "diag: its JSON breaks off, so it can't be read")]
    tests = []
    for value in map(as_dict, report.values()):
        if value.get("runtime_error"):
            words = f"diag: it didn't run: {value['runtime_error']}"
            return [DcgmFinding(None, "warn", words)]
        for category in map(as_dict, as_list(value.get("test_categories"))):
            tests += map(test_of_json, map(as_dict, as_list(category.get("tests"))))
    return [finding for test in tests for finding in test.find_faults()]


def test_of_json(given):
    """A test of the JSON -> TestOfDcgm."""
    test = TestOfDcgm(short(str(given.get("name")), 60))
    for result in map(as_dict, as_list(given.get("results"))):
        status = str(result.get("status")).strip().capitalize()
        named = [result.get(name) for name in ("gpu_id", "gpu_ids", "entity_id")]
        gpus = re.findall(r"\d{1,3}", str(next((one for one in named if one is not None), "")))
        if result.get("entity_group", "GPU") != "GPU":
            gpus = []
        for gpu in map(int, gpus) if gpus else [None]:
            test.results[gpu] = status
        for warning in as_list(result.get("warnings")):
            words = as_dict(warning).get("warning") or warning
            if isinstance(words, str):
                test.errors += [(int(gpu), words + " ") for gpu in gpus] or [(None, words + " ")]
    return test


def read_health_report(rows):
    """Read `dcgmi health -c`: below a GPU each system that isn't well, with its errors."""
    found, gpu, overall = [], None, ""
    for name, value in rows:
        arrow, value = re.match(r"( *)-> (.+)", name), value or ""
        if name == "Overall Health":
            overall = value
        elif arrow and arrow.group(2).isdigit() and len(arrow.group(2)) < 4:
            gpu = int(arrow.group(2))
        elif arrow and value in BAD:
            found.append([gpu, value, arrow.group(2), ""])
        elif not name.strip() and value and found:
            found[-1][3] += " " + value
    if not found and overall in BAD:
        found = [[None, overall, "Overall Health", ""]]
    return [
        DcgmFinding(gpu, level_of_words(BAD[value], words), f"health: {system}: {value}{words}")
        for gpu, value, system, words in found
    ]


def read_diag_report(rows):
    """Read `dcgmi diag`: each test, then how it went on single GPUs, and the errors of it."""
    tests = []
    for name, value in rows:
        name, value = name.strip(), value or ""
        results = results_of(value)
        if results and name and name != "Info":
            tests.append(TestOfDcgm(name))
        if not tests:
            continue
        test = tests[-1]
        if results:
            test.results.update(results)
        elif name:
            test.is_in_error = name.startswith("Warning")
            if test.is_in_error:
                gpu = re.search(r"^Warning: GPU ?(\d{1,3})$", name) or re.match(
                    r"GPU (\d{1,3})\b", value
                )
                test.errors.append((int(gpu.group(1)) if gpu else None, of_width(value)))
        elif test.is_in_error:
            gpu, text = test.errors[-1]
            test.errors[-1] = (gpu, text + of_width(value))
    return [finding for test in tests for finding in test.find_faults()]


def of_width(value):
    """A part of a message as long as dcgmi cut it, with the blanks at its end."""
    return value[:CHUNK].ljust(CHUNK)


def results_of(value):
    """The results in a cell -> {GPU: result}, with None for the whole test."""
    alone = re.match(r"GPU ?(\d{1,3}): (Pass|Fail|Warn|Skip)$", value)
    if alone:
        return {int(alone.group(1)): alone.group(2)}
    found = re.match(r"(Pass|Fail|Warn|Skip)(?: - (?:All|GPUs?: ([\d, ]+)))?$", value)
    if not found:
        return {}
    named = re.findall(r"\d{1,3}", found.group(2) or "")
    return {int(gpu): found.group(1) for gpu in named} or {None: found.group(1)}


def level_of_words(level, words):
    """The level of a result, by the error that it names where that says more."""
    xid = NAMED_XID.search(words)
    if xid:
        named = xid_level(int(xid.group(1)), "")
        return named if named in ("fatal", "degraded") else "warn"
    return "fatal" if FATAL.search(words) else level


def judge_dcgm(box, add):
    """Add a finding for each thing that DCGM says isn't well."""
    for gpu, level, text in box.dcgm:
        key, text = f"dcgm {text}", short(text)
        if level == "fatal":
            add(gpu, "dcgm_fatal", text, level=level, key=key)
        elif level == "degraded":
            add(gpu, "dcgm_failed", text, level=level, key=key)
        else:
            add(gpu, "dcgm_warned", text, level=level, key=key)
