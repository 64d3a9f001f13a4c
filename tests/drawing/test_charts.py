"""Charts: what is drawn of which numbers, and that no text of theirs becomes a tag."""

import math
import re
from array import array
from html.parser import HTMLParser

import pytest
from remote_gpu_trainer.drawing import axis as axes
from remote_gpu_trainer.drawing import charts
from remote_gpu_trainer.drawing.charts import Chart, Line, Mark, draw_charts
from remote_gpu_trainer.drawing.style import STYLE

from tests.documents.test_site import contrast

START = 1_795_000_000.0
NAN, INF = math.nan, math.inf


def loss(values, **more) -> Chart:
    times = [START + 60 * at for at in range(len(values))]
    return Chart("Loss", [Line("", values, times, [10 * at for at in range(len(values))])], **more)


def tags(text: str) -> list[tuple[str, list[tuple[str, str | None]]]]:
    """The tags of a page with their attributes; of a tooltip, which is text, only that it is."""
    seen = []
    parser = HTMLParser()
    parser.handle_starttag = lambda tag, attributes: seen.append(
        (tag, [(name, "" if name == "title" else value) for name, value in attributes])
    )
    parser.feed(text)
    return seen


def points(text: str) -> list[list[tuple[float, float]]]:
    """The lines of the first plot of each chart."""
    found = re.findall(r'<polyline class="l[^"]*" points="(.*?)"', text)
    return [[tuple(map(float, one.split(","))) for one in line.split()] for line in found]


def test_a_chart_has_a_title_round_numbers_beside_it_and_its_values_as_a_table():
    text = draw_charts([loss([4.0, 3.0, 2.5], unit="nats")])
    assert text.count("<svg") == 2, "against steps and against time"
    assert "<title>Loss against step: last 2.5, 2.5 to 4</title>" in text
    assert "<title>Loss against time: last 2.5, 2.5 to 4</title>" in text
    assert re.findall(r'class="level".*?>(.*?)</span>', text)[:4] == ["2.5", "3", "3.5", "4"]
    assert "<tr><td>10</td><td>2026-11-18 " in text and "<td>3</td></tr>" in text
    steps, times = points(text)
    assert steps == times == [(0.0, 3.0), (500.0, 65.7), (1000.0, 97.0)]


def test_steps_alone_and_times_alone_need_no_switch():
    both = loss([2.0, 1.0]).lines[0]
    assert "checkbox" in draw_charts([Chart("Loss", [both])])
    for line in (both._replace(times=()), both._replace(steps=()), both._replace(steps=[NAN, NAN])):
        text = draw_charts([Chart("Loss", [line])])
        assert "checkbox" not in text and text.count("<svg") == 1
    assert draw_charts([Chart("Loss", [both._replace(steps=(), times=())])]) == ""
    assert draw_charts([loss([NAN, NAN])]) == "" == draw_charts([])


def test_a_gap_an_unknown_value_and_steps_that_go_back_break_a_line():
    axis = axes.Axis(axes.CLOCK, 0.0, 10_000.0)
    times = array("d", [t for t in range(0, 10_000, 10) if not 4000 < t < 5000])
    line = Line("", array("d", [50.0] * len(times)), times, times, gap=31.0)
    runs = charts.buckets(line, axis)
    assert len(runs) == 2 and sum(map(len, runs)) <= charts.POINTS_ACROSS + 2
    assert len(charts.buckets(line, axes.Axis(axes.STEP, 0.0, 10_000.0))) == 1
    lost = charts.buckets(Line("", [1.0, INF, 1.0, NAN], [0.0, 10.0, 20.0, 30.0]), axis)
    assert [len(run) for run in lost] == [1, 1]
    resumed = Line("", [1.0] * 5, steps=[0.0, 50.0, 100.0, 60.0, 70.0])
    assert len(charts.buckets(resumed, axes.Axis(axes.STEP, 0.0, 100.0))) == 2


def test_a_spike_among_thousands_of_values_is_still_seen():
    times = array("d", range(0, 100_000, 10))
    values = array("d", [100.0 if t == 7770 else 10.0 for t in times])
    (run,) = charts.buckets(Line("", values, times), axes.Axis(axes.CLOCK, 0.0, 100_000.0))
    assert len(run) <= charts.POINTS_ACROSS and max(most for *_, most in run) == 100.0
    assert min(least for _, _, least, _ in run) == 10.0 and run[0][1] == 10.0


def test_a_value_that_is_not_finite_is_shown_as_such():
    text = draw_charts([loss([2.0, INF, 1.0, INF])])
    assert text.count('class="lost"') == 2 and "2 not finite" in text
    only = draw_charts([loss([INF, INF])])
    assert "no finite value" in only and "<polyline" not in only


@pytest.mark.parametrize(
    "values",
    [[1e308, -1e308], [1e308] * 3, [5e-324, 1e-320], [0.0, 0.0], [-3.0, -3.0], [1e-9, 1e9]],
)
def test_no_number_draws_what_is_no_number(values):
    text = draw_charts([loss(values, may_log=True)])
    assert not re.findall(r'(?:points|d|style)="[^"]*(?:nan|inf)', text)
    assert all(0 <= y <= 100 for line in points(text) for _, y in line)


def test_a_difference_that_no_number_beside_the_chart_shows_is_no_cliff():
    (flat, _) = points(draw_charts([loss([0.30551, 0.30549, 0.3055])]))
    assert max(y for _, y in flat) - min(y for _, y in flat) < 0.1


def test_a_wide_range_is_logarithmic_only_where_it_may_and_is_positive():
    assert "logarithmic" in draw_charts([loss([300.0, 2.0], may_log=True)])
    assert "logarithmic" not in draw_charts([loss([300.0, 2.0])])
    assert "logarithmic" not in draw_charts([loss([300.0, 0.0], may_log=True)])
    assert "logarithmic" not in draw_charts([loss([100.0, 2.0], may_log=True)])


def test_lines_over_each_other_have_a_legend_and_colours():
    steps = [0.0, 1.0]
    lines = [Line(f"run {n}", [1.0 * n, 2.0], (), steps) for n in range(8)]
    text = draw_charts([Chart("Loss", lines)])
    assert text.count('class="key') == 8 and "<td>run 7</td><td>1</td><td>2</td>" in text
    assert len(set(re.findall(r'polyline class="l (c\d)"', text))) == charts.LINE_COLOURS


def test_no_colour_stands_for_two_lines():
    many = [Line(f"run {n}", [n, 30 - n], [0, 60], [0, 1]) for n in range(30)]
    text = draw_charts([Chart("Loss", many)])
    by_step = text.partition("by-time")[0]
    colours = re.findall(r'polyline class="l (c\d)"', by_step)
    assert sorted(colours) == sorted([*(f"c{n}" for n in range(1, 9)), *["c0"] * 22])
    assert colours[0] == "c0", "the grey ones lie below"
    assert text.count('class="key') == 9 and "22 more, named under values" in text


def test_marks_stand_in_rows_and_those_of_attempts_cross_the_charts():
    marks = [
        Mark("start", "attempts", "started", START, 0),
        Mark("fail", "attempts", "killed", START + 60, 10),
        Mark("save", "saved", "step 10", START + 30, None),
    ]
    text = draw_charts([loss([2.0, 1.0])], marks)
    rows = re.findall(r'<span class="row">(\w+)</span>(.*?)</div>', text)
    assert [name for name, _ in rows] == ["attempts", "attempts", "saved"], "no step, no place"
    assert text.count('<path class="m start" d="M0.0 0V100"/>') == 2
    assert text.count('<path class="m fail"') == 2 and '<path class="m save"' not in text
    assert 'title="killed"' in text and "left:50.0%" in rows[2][1]
    many = [Mark("save", "saved", f"step {n}", START + n) for n in range(1000)]
    assert draw_charts([loss([2.0, 1.0])], many).count('class="mark save"') == charts.MOST_MARKS


def test_an_axis_reaches_to_the_marks():
    marks = [Mark("start", "attempts", "began", START - 60, 0), Mark("save", "saved", "", None, 20)]
    chart = Chart("Loss", [Line("", [2.0, 1.0], [START, START + 60], [10, 10])])
    text = draw_charts([chart], marks)
    assert re.findall(r"left:([\d.]+)%\" title=\"(\w*)\"", text) == [
        ("0.0", "began"), ("100.0", ""), ("0.0", "began"),
    ]  # fmt: skip
    steps, times = points(text)
    assert {x for x, _ in steps} == {500.0} and [x for x, _ in times] == [500.0, 1000.0]


def test_bars_are_as_strong_as_the_values_and_as_wide_as_they_last():
    times = [START + t for t in range(100)]
    values = [1.0 if 20 <= t < 40 else 0.5 if 60 <= t < 70 else 0.0 for t in range(100)]
    text = draw_charts([Chart("Held", [Line("", values, times)], band="bad", about="30 %")])
    bars = re.findall(r'<rect class="bad" x="([\d.]+)".*?width="([\d.]+)".*?opacity="(.*?)"', text)
    assert [(round(float(x)), round(float(wide)), opacity) for x, wide, opacity in bars] == [
        (202, 202, "1.00"),
        (606, 101, "0.70"),
    ]


BAD = [
    "</script><img src=x onerror=alert(1)>",
    '"><img src=x onerror=alert(1)>',
    "' onmouseover='alert(1)",
    "--></title></style><script>alert(1)</script>",
]


def every_text(text: str) -> str:
    lines = [Line(text, [1.0, 2.0], [START, START + 60], [0, 10]) for _ in range(2)]
    drawn = [
        Chart(text, lines, text, text, text),
        Chart(text, lines[:1], text, text, text, band=text),
    ]
    marks = [Mark(kind, text, text, START, 0, text, text) for kind in (*charts.MARK_KINDS, text)]
    marks += [Mark("start", text, text, START, 0)]
    return draw_charts(drawn, marks)


@pytest.mark.parametrize("bad", BAD)
def test_no_text_adds_a_tag_or_an_attribute(bad):
    plain = every_text("plain").replace("plain", "")
    assert [(tag, [name for name, _ in found]) for tag, found in tags(every_text(bad))] == [
        (tag, [name for name, _ in found]) for tag, found in tags(plain)
    ]
    links = [dict(found)["href"] for tag, found in tags(every_text(bad)) if tag == "a"]
    assert set(links) == {bad}


def test_without_escaping_a_text_would_break_out(monkeypatch):
    monkeypatch.setattr(charts, "escape", str)
    assert len(tags(every_text(BAD[0]))) > len(tags(every_text("plain")))


@pytest.mark.parametrize("span", [1, 59, 600, 5400, 86_400, 30 * 86_400, 900 * 86_400])
@pytest.mark.parametrize("kind", [axes.CLOCK, axes.ELAPSED, axes.STEP])
def test_every_length_of_an_axis_has_two_to_six_marks_within_it(span, kind):
    first = START if kind == axes.CLOCK else 0.0
    ticks = axes.Axis(kind, first, first + span).list_ticks()
    assert (1 if span < 3 else 2) <= len(ticks) <= 6
    assert all(first <= tick <= first + span for tick, _ in ticks)
    assert len({text for _, text in ticks}) == len(ticks)


@pytest.mark.parametrize(("value", "text"), [
    (0.0, "0"), (0.0003, "0.0003"), (1.5e-5, "1.5e-5"), (0.001, "0.001"), (2.34567, "2.346"), (9999, "9999"),
    (12500, "12.5k"), (-3_000_000, "-3M"), (81_559_000_000, "81.56G"), (1e300, "1e300"),
])  # fmt: skip
def test_numbers_are_short(value, text):
    assert axes.format_number(value) == text


def test_lines_are_seen_on_both_grounds_in_light_and_in_dark():
    pairs = dict(re.findall(r"--(\w+): light-dark\((#\w+, #\w+)\)", STYLE))
    modes = zip(*(pair.split(", ") for pair in pairs.values()), strict=True)
    for colours in (dict(zip(pairs, mode, strict=True)) for mode in modes):
        for ground in ("bg", "card"):
            for ink in (*(f"c{n}" for n in range(1, 9)), "calm"):
                assert contrast(colours[ink], colours[ground]) >= 3, (ink, ground, colours)
