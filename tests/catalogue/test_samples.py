"""The signatures of an entry are in the real lines of evals/samples that they must find, and in none of the others.

A file holds the entries of one family. docs/guides/add-an-entry.md describes the form. A new sample needs no
change here.
"""

import json
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest
import yaml
from remote_gpu_trainer.catalogue import bundle
from remote_gpu_trainer.catalogue.entry import family_of
from remote_gpu_trainer.catalogue.signatures import SignatureIndex, literal_runs
from remote_gpu_trainer.logs import reading

from tests.conftest import ROOT

sys.path.insert(0, str(ROOT / "evals"))

from grading import unseen
from grading.cases import read_cases

FOLDER = ROOT / "evals/samples"
FLOOR = ROOT / "tests/records/samples.json"
KINDS = {  # the keys of a line, beyond `line` and one of ORIGINS
    "match": (),
    "miss": ("why", "entry"),
    "healthy": (),
}
ORIGINS = ("source", "made_from")
HALF_GRADED = ("near.jsonl", "outside.jsonl")  # besides those that `unseen.shut` knows
IN_LIBRARY = re.compile(r"https://\S+/[^/\s]+/blob/[^/\s]+/\S+")  # a file at a tag or a commit


class Fault(Exception):
    """Something to correct in a file of samples. The text names file and entry."""


@dataclass(frozen=True)
class Sample:
    """One line of a log, which signatures of `entry` must find or, unless `kind` is match, must not.

    `right`: of a near miss, the entry whose signature finds it instead, or "".
    """

    entry: str
    kind: str
    line: str
    origin: str
    right: str = ""


class _Loader(yaml.SafeLoader):
    """YAML in which a key that stands twice is an error; PyYAML would keep the second alone."""

    def construct_mapping(self, node, deep=False):
        keys = [self.construct_object(key) for key, _ in node.value]
        twice = {str(key) for key in keys if keys.count(key) > 1}
        if twice:
            raise yaml.YAMLError(f"{', '.join(sorted(twice))} stands twice; put both in one place")
        return super().construct_mapping(node, deep)


def read(path: Path) -> list[Sample]:
    """The samples of one file. Raises Fault."""
    try:
        entries = yaml.load(path.read_text(encoding="utf-8"), _Loader)
    except yaml.YAMLError as error:
        raise Fault(f"{path.name}: {error}") from None
    if not isinstance(entries, dict):
        raise Fault(f"{path.name}: a file holds entries, such as `D22:` in a line of its own")
    return [sample for name, kinds in entries.items() for sample in _of_entry(path, name, kinds)]


def _of_entry(path: Path, name: str, kinds: object) -> Iterator[Sample]:
    place = f"{path.name}: {name}"
    entry = bundle.load().by_id.get(name)
    if not entry:
        raise Fault(f"{place}: no entry has this id; write the id of an entry")
    if family_of(name) != path.stem:
        raise Fault(f"{place}: another family; move it to {family_of(name)}.yml")
    if not entry.signatures:
        raise Fault(f"{place}: the entry has no signatures; give it one, or take the samples out")
    if not isinstance(kinds, dict) or not kinds:
        raise Fault(f"{place}: no lines; write them under {', '.join(KINDS)}")
    for kind, items in kinds.items():
        if kind not in KINDS:
            raise Fault(f"{place}: {kind} is no kind of line; write {', '.join(KINDS)}")
        if not isinstance(items, list) or not items:
            raise Fault(f"{place}: {kind} holds no list; begin each line with `- line:`")
        for item in items:
            yield _sample(f"{place}: {kind}", name, kind, item)


def _sample(place: str, name: str, kind: str, item: object) -> Sample:
    if not isinstance(item, dict):
        raise Fault(f"{place}: {item!r} has no keys; write `- line:` and `source:`")
    allowed = ("line", *ORIGINS, *KINDS[kind])
    wrong = [str(key) for key in item if key not in allowed]
    if wrong:
        raise Fault(f"{place}: {wrong[0]} is no key here; the keys are {', '.join(allowed)}")
    if any(not isinstance(value, str) or not value.strip() for value in item.values()):
        raise Fault(f"{place}: a value is no text; put it in quotes")
    if "line" not in item:
        raise Fault(f"{place}: no line; write `- line:`")
    place = f"{place}: {item['line'][:60]!r}"
    origins = [key for key in ORIGINS if key in item]
    if len(origins) != 1:
        raise Fault(f"{place} needs a source or a made_from, one of the two; write its address")
    _check_origin(place, item)
    if kind == "miss" and ("why" in item) == ("entry" in item):
        raise Fault(f"{place} needs a why or an entry, one of the two; say whose line it is")
    if item.get("entry") in (name, "") or item.get("entry", name) not in bundle.load().by_id:
        raise Fault(f"{place}: {item['entry']} is no other entry; write the id of one")
    return Sample(name, kind, item["line"], item[origins[0]], item.get("entry", ""))


def _check_origin(place: str, item: dict) -> None:
    source, made_from = item.get("source", ""), item.get("made_from", "")
    if made_from and not IN_LIBRARY.fullmatch(made_from):
        raise Fault(f"{place}: made_from is no file at a tag or a commit; write …/blob/v2.9.0/…")
    if not source or re.fullmatch(r"https?://\S+", source):
        return
    if not (ROOT / source).is_file():
        raise Fault(f"{place}: {source} is no address and no file here; write one of them")
    if item["line"] not in (ROOT / source).read_text(encoding="utf-8"):
        raise Fault(f"{place} isn't in {source}; copy the line as it stands there")


@cache
def signatures() -> SignatureIndex:
    return SignatureIndex([(entry.id, entry.signatures) for entry in bundle.load().entries])


@cache
def found_in(line: str) -> frozenset[str]:
    """The entries with a signature in this line, read as a look-up reads it."""
    return frozenset(hit.entry_id for hit in signatures().find(reading.from_text(line)))


def words_of(text: str) -> set[str]:
    """What a plain search might look for: the words of four letters and more."""
    return set(re.findall(r"[^\W\d_]{4,}|[\u4e00-\u9fff]{2}", text.lower()))


@cache
def words_of_signatures(name: str) -> frozenset[str]:
    texts = []
    for signature in bundle.load().by_id[name].signatures:
        texts += literal_runs(signature.text) if signature.is_regex else []
        texts.append(signature.text)
    return frozenset(words_of(" ".join(texts)))


def everything() -> tuple[list[Sample], list[str]]:
    """All samples, and the faults of the files that can't be read."""
    samples, faults = [], []
    for path in sorted(FOLDER.iterdir()):
        try:
            samples += read(path)
        except Fault as fault:
            faults.append(str(fault))
    return samples, faults


SAMPLES, FAULTS = everything()


def of_kind(*kinds: str) -> list[Sample]:
    found = [sample for sample in SAMPLES if sample.kind in kinds]
    assert found
    return found


def test_every_file_is_a_family_in_the_form_of_samples():
    assert FAULTS == []
    assert {path.suffix for path in FOLDER.iterdir()} == {".yml"}


def test_a_signature_of_the_entry_is_in_its_line():
    samples = of_kind("match")
    assert [one for one in samples if one.entry not in found_in(one.line)] == []


def test_a_line_of_another_has_words_of_the_entry_but_no_signature():
    """Without a word of a signature the line would prove nothing."""
    samples = of_kind("miss", "healthy")
    assert [one for one in samples if one.entry in found_in(one.line)] == []
    proves = {one: words_of(one.line) & words_of_signatures(one.entry) for one in samples}
    assert [one for one in samples if not proves[one]] == []
    assert [one for one in samples if one.right and one.right not in found_in(one.line)] == []


def test_no_line_is_from_a_report_that_only_measures():
    """Signatures are mended for these lines, so none may come from what grades the look-up."""
    halves = [case for name in HALF_GRADED for case in read_cases(unseen.SETS / name)]
    shut = unseen.shut() | {case.source for case in halves if case.half == "reporting"}
    assert [sample for sample in SAMPLES if sample.origin in shut] == []


def test_at_least_as_many_entries_have_samples_as_before(request):
    """`-s` prints how many have none; `--update` raises the floor."""
    with_signatures = {entry.id for entry in bundle.load().entries if entry.signatures}
    sampled = {sample.entry for sample in SAMPLES if sample.kind == "match"}
    floor = json.loads(FLOOR.read_text(encoding="utf-8"))["entries"] if FLOOR.exists() else 0
    missing = sorted(with_signatures - sampled)
    print(f"\n{len(missing)} of {len(with_signatures)} entries with signatures have no sample:")
    print(*missing)
    assert len(sampled) >= floor, f"entries without a sample: {', '.join(missing)}"
    if request.config.getoption("--update"):
        FLOOR.write_text(json.dumps({"entries": len(sampled)}) + "\n", encoding="utf-8")


ADDRESS = "source: https://example.org/1"


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("- D34", "a file holds entries"),
        (f"D34:\n  match:\n  - {{line: a, {ADDRESS}}}\nD34:\n  match: []", "D34 stands twice"),
        (f"D999:\n  match:\n  - {{line: a, {ADDRESS}}}", "D999: no entry has this id"),
        (f"U2:\n  match:\n  - {{line: a, {ADDRESS}}}", "U2: another family; move it to U.yml"),
        ("D34:", "D34: no lines"),
        (f"D34:\n  hit:\n  - {{line: a, {ADDRESS}}}", "D34: hit is no kind of line"),
        ("D34:\n  match:", "D34: match holds no list"),
        ("D34:\n  match: [a line]", "D34: match: 'a line' has no keys"),
        (f"D34:\n  match:\n  - {{line: a, {ADDRESS}, why: b}}", "why is no key here"),
        (f"D34:\n  match:\n  - {{line: 7, {ADDRESS}}}", "a value is no text"),
        (f"D34:\n  match:\n  - {{{ADDRESS}}}", "D34: match: no line"),
        ("D34:\n  match:\n  - line: a", "D34: match: 'a' needs a source or a made_from"),
        ("D34:\n  match:\n  - {line: a, source: mail}", "mail is no address and no file here"),
        ("D34:\n  match:\n  - {line: abc, source: LICENSE}", "'abc' isn't in LICENSE"),
        (
            "D34:\n  match:\n  - {line: a, made_from: https://github.com/pytorch/pytorch}",
            "made_from is no file at a tag or a commit",
        ),
        (f"D34:\n  miss:\n  - {{line: a, {ADDRESS}}}", "needs a why or an entry"),
        (f"D34:\n  miss:\n  - {{line: a, {ADDRESS}, entry: D999}}", "D999 is no other entry"),
        (f"D34:\n  miss:\n  - {{line: a, {ADDRESS}, entry: D34}}", "D34 is no other entry"),
    ],
)
def test_a_fault_is_named_with_file_and_entry(tmp_path, text, fault):
    path = tmp_path / "D.yml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(Fault, match=re.escape(fault)) as told:
        read(path)
    assert str(told.value).startswith("D.yml: ")


def test_the_sample_in_the_guide_for_contributors_is_read(tmp_path):
    page = (ROOT / "docs/guides/add-an-entry.md").read_text(encoding="utf-8")
    [text] = re.findall(r"^ *```yaml\n(D34:.*?)^ *```$", page, re.S | re.M)
    path = tmp_path / "D.yml"
    path.write_text(text, encoding="utf-8")
    assert {sample.kind for sample in read(path)} == set(KINDS)


def test_a_sample_is_read_whole(tmp_path):
    path = tmp_path / "D.yml"
    path.write_text(f"D34:\n  miss:\n  - {{line: a, {ADDRESS}, entry: U1}}", encoding="utf-8")
    assert read(path) == [Sample("D34", "miss", "a", "https://example.org/1", "U1")]
