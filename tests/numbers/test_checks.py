"""Each row of the table of checks speaks on its example and is silent on the course it must spare."""

import re

import pytest
from remote_gpu_trainer.numbers import checks, metric_series
from remote_gpu_trainer.numbers.curves import curves_of

EACH = pytest.mark.parametrize("check", checks.CHECKS, ids=lambda check: check.name)
SPAN = re.compile(r"(?:(-?[\d.]+)\.\.)?(-?[\d.]+|nan|inf)(?:\*(\d+))?$")


def values(words):
    """The values of `2.3..0.3*20 nan*2`."""
    for word in words:
        first, last, count = SPAN.match(word).groups()
        count = int(count or 1)
        for at in range(count):
            share = at / max(1, count - 1)
            yield (
                last
                if first is None
                else f"{float(first) + share * (float(last) - float(first)):.6g}"
            )


def curves(course):
    """The curves of a log with such a course, a row for each step."""
    series, resumed = {}, None
    for part in course.split("|"):
        name, *words = part.split()
        if "resume" in words:
            at = words.index("resume")
            resumed = len(list(values(words[:at])))
            words.remove("resume")
        series[name] = list(values(words))
    counted = series if {"step", "epoch"} & set(series) else {"step": range(10_000), **series}
    rows = [
        " ".join(f"{name} {value}" for name, value in zip(counted, step, strict=True))
        for step in zip(*counted.values(), strict=False)
    ]
    if resumed is not None:
        rows.insert(resumed, "resuming from runs/1/last.pt")
    return curves_of(metric_series.of_rows([(n, row.encode()) for n, row in enumerate(rows, 1)]))


@EACH
def test_a_check_speaks_on_its_example(check):
    found = {row.name: finding for row, finding in checks.found_in(curves(check.example))}
    assert check.name in found
    assert (found[check.name].entry, found[check.name].fault) == (check.entry, check.fault)


@EACH
def test_a_check_is_silent_on_the_course_that_only_looks_so(check):
    assert check.name not in {row.name for row, _ in checks.found_in(curves(check.spares))}


@EACH
def test_a_check_hangs_on_its_limit(check):
    """With a limit out of reach it is silent on its own example, so the limit counts."""
    course = curves(check.example)
    assert check.find(course, check.limit)
    assert not (check.find(course, 1e3) and check.find(course, -1e3))


def test_names_are_unique_and_those_that_silence_others_stand_before_them():
    names = [check.name for check in checks.CHECKS]
    assert len(set(names)) == len(names)
    for at, check in enumerate(checks.CHECKS):
        above = set(names[:at]) | {check.name}
        assert set(check.unless) - {""} <= above
