"""The page and the numbers of a run, whatever its box says."""

import csv
import json
import math
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from remote_gpu_trainer.boxes.box import parse
from remote_gpu_trainer.runs import run_charts, run_export, run_page, run_series
from remote_gpu_trainer.runs.status_reply import Status
from remote_gpu_trainer.text import BadRequest

from tests.conftest import ROOT, engine
from tests.drawing.test_charts import tags
from tests.engines.chromium import CHROMIUM, Browser, Served
from tests.engines.sshd import boxes, sshd  # noqa: F401
from tests.programs import rgt

START = 1_795_000_000


def lines(*rows: dict) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def card(minute: int, number: int) -> dict:
    return {
        "use": 97 - (minute + number) % 5,
        "memory_mb": 61440,
        "total_mb": 81559,
        "temperature_c": 60 + minute % 7,
    }


def usual(minutes: int = 180, gpus: int = 2) -> tuple[str, str]:
    """series.jsonl and events.jsonl of a run that was killed half way, and resumed."""
    half = minutes // 2
    rows, step, saved = [], 0, 0
    for minute in range(minutes):
        attempt = 1 if minute < half else 2
        step = step + 100 if minute != half else saved
        row = {"t": START + 60 * minute, "attempt": attempt, "phase": "running", "step": step}
        row |= {"total": 100 * minutes, "loss": 1.8 + 9 * math.exp(-step / 800)}
        row |= {
            "lr": 3e-4 * (1 - step / (100 * minutes)),
            "grad_norm": 0.5 + 100 * math.exp(-step / 300),
        }
        if minute % 10 == 9:
            row["val_loss"] = row["loss"] + 0.2
        if minute % 15 == 14 and minute != half:
            saved = step
            row["saved"] = [[step, row["t"] - 5]]
        row |= {"gpus": [card(minute, number) for number in range(gpus)]}
        row |= {"disk_free": 2e11 - 1e9 * minute, "disk_total": 5e11}
        rows.append(row)
    killed = START + 60 * half - 30
    events = [
        {"t": START - 5, "event": "attempt", "attempt": "1", "resume": "", "log": "0"},
        *(
            {"t": row["t"] + 20, "event": "copied", "source": f"step-{row['saved'][0][0]}.pt", "step": str(row["saved"][0][0]), "state": "complete"}
            for row in rows if "saved" in row
        ),
        {"t": killed, "event": "ended", "attempt": "1", "class": "killed", "reason": "killed by signal 9 from outside", "step": str(100 * half)},
        {"t": killed + 25, "event": "attempt", "attempt": "2", "resume": "/box/out/step-8900.pt", "log": "1"},
        {"t": START + 60 * minutes, "event": "ended", "attempt": "2", "class": "", "reason": "", "step": ""},
    ]  # fmt: skip
    return lines(*rows), lines(*events)


def made(series: str, events: str, status: Status | None = None) -> str:
    status = status or Status("finished", "gpu", "/root/runs/night")
    return run_page.page(status, run_series.read("/root/runs/night", series, events), START + 1e4)


def test_a_page_draws_all_that_the_box_measured_and_marks_what_happened():
    text = made(*usual())
    titles = re.findall(r"<figcaption><span><b>(.*?)</b>", text)
    assert titles == [
        "Loss", "Validation loss", "Learning rate", "Gradient norm", "Steps a second", "GPU use",
        "GPU memory", "GPU temperature", "Disk",
    ]  # fmt: skip
    assert text.count("<svg") == 2 * len(titles), "against steps and against time"
    rows = dict(re.findall(r'<span class="row">(\w+)</span>(.*?)</div>', text))
    assert {name: html.count("<span class") for name, html in rows.items()} == {
        "attempts": 4, "saved": 12, "copied": 12,
    }  # fmt: skip
    assert "attempt 1 ended: killed by signal 9 from outside" in text
    assert "attempt 2 resumed from /box/out/step-8900.pt" in text
    times = re.findall(r"<tr><td>([\d: -]+)</td><td>\d*</td>\n", text)
    assert times == sorted(times) and len(times) == 28
    assert "dot" not in text.partition("</style>")[2], "what comes each ten minutes is a line too"
    assert "<title>night: finished</title>" in text and '<span class="key c2">GPU 1' in text


def test_the_rate_is_that_of_one_attempt_and_skips_what_did_not_move():
    rows = [
        {"t": START, "attempt": 1, "phase": "running", "step": 0},
        {"t": START + 60, "attempt": 1, "phase": "running", "step": 60},
        {"t": START + 120, "attempt": 1, "phase": "running", "step": 60},
        {"t": START + 180, "attempt": 1, "phase": "running", "step": 120},
        {"t": START + 240, "attempt": 1, "phase": "syncing", "step": 121},
        {"t": START + 300, "attempt": 2, "phase": "running", "step": 40},
        {"t": START + 360, "attempt": 2, "phase": "running", "step": 160},
    ]
    read = run_series.read("/r", lines(*rows), "")
    assert [row.rate for row in read.rows] == [None, 1.0, None, 0.5, None, None, 2.0]


def test_runs_over_each_other_begin_at_nought_and_have_a_line_each():
    one = run_series.read("/r/a", *usual(60))
    other = run_series.read("/r/b", *usual(30))
    for row in other.rows:
        row.t += 1e6
    charts = {
        chart.title: chart
        for chart in run_charts.charts_of([("a", one), ("b", other)], is_elapsed=True)
    }
    assert [line.name for line in charts["Loss"].lines] == ["a", "b"]
    assert charts["Loss"].lines[0].times[0] == charts["Loss"].lines[1].times[0] == 0
    assert [line.name for line in charts["GPU use"].lines] == ["a", "b"]
    assert charts["GPU use"].note == "mean of the cards"
    assert charts["GPU use"].lines[0].values[0] == 96.5


def test_a_loss_of_nan_is_shown_and_what_is_no_number_left_out():
    rows = [
        {"t": START, "step": 1, "loss": 2.0},
        {"t": START + 60, "step": 2, "loss": "nan", "lr": "x", "gpus": {"use": 1}, "attempt": "7"},
        {"t": START + 120, "step": True, "loss": None, "disk_free": [], "gpus": [None, 3]},
        {"t": START + 180, "saved": [[5, 1e14], 7, [1], ["x", 3]]}, {"t": START + 181, "saved": 6},
        {"t": "x"}, {"t": -4}, {"t": 1e300}, 7, None,
    ]  # fmt: skip
    text = made(lines(*rows) + '{"t": 5, "st\n' + "[" * 5000, "[]\n5\n{\n")
    assert "1 not finite" in text and text.count('class="lost"') == 2
    assert re.findall(r"<figcaption><span><b>(.*?)</b>", text) == ["Loss"]


HOSTILE = "</script><img src=x onerror=alert(1)>\x1b[31m\u202e token=abcdef123456789"


def hostile(text: str) -> str:
    row = {
        "t": START,
        "step": 3,
        "loss": 1.0,
        "phase": text,
        text: text,
        "saved": [[3, START]],
    }
    names = ("attempt", "ended", "copied", "stall", "probe", text)
    told = dict.fromkeys(
        ("attempt", "resume", "class", "reason", "source", "state", "why", text), text
    )
    events = [{"t": START, "event": name, **told} for name in names]
    state = Status("failed", text, text, evidence=[text], attempts=[text])
    return made(lines(row, row), lines(*events), state)


def test_no_text_of_a_box_becomes_a_tag_or_an_attribute():
    text = hostile(HOSTILE)
    plain = [(tag, [name for name, _ in found]) for tag, found in tags(hostile("plain"))]
    assert [(tag, [name for name, _ in found]) for tag, found in tags(text)] == plain
    assert not {tag for tag, _ in plain} & {"script", "img", "link", "iframe", "form"}
    assert "&lt;img src=x" in text and "\x1b" not in text and "\u202e" not in text
    assert "default-src 'none'; style-src 'unsafe-inline'" in text


def test_what_is_masked_in_a_status_is_masked_in_a_page():
    event = {"t": START, "event": "stall", "reason": "curl -H token=abcdef123456789"}
    text = made(lines({"t": START, "step": 1, "loss": 1.0}), lines(event))
    assert "stood still: curl" in text and "abcdef123456789" not in text


def test_a_long_run_of_eight_cards_makes_a_page_of_a_few_megabytes():
    assert len(made(*usual(5000, gpus=8))) < 4_000_000


def test_numbers_are_written_as_csv_and_as_json_lines(tmp_path):
    read = run_series.read("/r", *usual(30))
    run_export.write(read, tmp_path / "run.csv")
    run_export.write(read, tmp_path / "run.jsonl")
    with (tmp_path / "run.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0])[:2] == ["timestamp", "step"] and len(rows) == 30
    assert rows[14]["saved"] == rows[14]["step"] == "1500" and rows[9]["val_loss"]
    assert rows[0]["gpu1_temperature_c"] == "60" and rows[0]["val_loss"] == ""
    told = [json.loads(line) for line in (tmp_path / "run.jsonl").read_text().splitlines()]
    assert {name: str(value) for name, value in told[14].items()} == {
        name: value for name, value in rows[14].items() if value
    }
    assert told[0]["timestamp"] == "2026-11-18T11:06:40+00:00"


@pytest.mark.parametrize("name", ["mine.csv", "mine.jsonl"])
def test_only_an_earlier_file_of_ours_is_replaced(name, tmp_path):
    read = run_series.read("/r", *usual(5))
    path = tmp_path / name
    run_export.write(read, path)
    run_export.write(read, path)
    path.write_text("mine\n")
    with pytest.raises(BadRequest, match="not an earlier series of a run; name another file"):
        run_export.write(read, path)
    assert path.read_text() == "mine\n"
    with pytest.raises(BadRequest, match=r"mine.txt must end in .csv or .jsonl"):
        run_export.write(read, tmp_path / "mine.txt")
    page = tmp_path / "mine.html"
    page.write_text("<p>mine")
    with pytest.raises(BadRequest, match="not an earlier page of a run"):
        run_page.write(Status("alive", "gpu"), read, page, START)


@pytest.fixture
def folder(tmp_path):
    run = tmp_path / "night"
    (run / "log").mkdir(parents=True)
    (run / "run.sh").write_text("""echo '{"phase": "done", "step": 3}'\n""")
    series, events = usual(40)
    (run / "series.jsonl").write_text(series)
    (run / "events.jsonl").write_text(events)
    return run


def test_the_command_writes_both_for_a_folder_here(folder, tmp_path):
    page, numbers = tmp_path / "page.html", tmp_path / "run.csv"
    done = rgt("status", "local", "--run", folder, "--page", page, "--series", numbers)
    assert done.returncode == 0 and done.stdout.startswith("finished: ")
    first, track, last = done.stderr.splitlines()
    assert (first, last) == (str(numbers), str(page))
    word, python, program, of, ways = shlex.split(track)
    assert (word, python, of, ways) == (
        "track", "python3", str(numbers), "trackio|tensorboard|wandb",
    )  # fmt: skip
    assert Path(program).read_text().startswith('"""Take the numbers of a run')
    assert (
        page.read_text().startswith(run_page.OURS) and len(numbers.read_text().splitlines()) == 41
    )


def test_a_run_without_a_series_says_so(folder, tmp_path):
    (folder / "series.jsonl").unlink()
    done = rgt("status", "local", "--run", folder, "--page", tmp_path / "page.html")
    assert done.returncode == 2 and "has no series.jsonl; its runner writes" in done.stderr
    assert done.stdout.startswith("finished: ") and not (tmp_path / "page.html").exists()


def test_of_several_cells_one_is_to_be_named(folder):
    for name in ("a", "b"):
        (folder / "cells" / name / "log").mkdir(parents=True)
    (folder / "log").rmdir()
    with pytest.raises(run_series.NoSeries, match="several runs; name one with --run: .*/cells/a"):
        run_series.ask(parse("local"), str(folder))


def test_it_comes_over_ssh(folder, sshd):
    shutil.copytree(folder, sshd.home / "runs/night")
    series = run_series.ask(parse("gpu"), "night")
    assert (len(series.rows), series.folder) == (40, str(sshd.home / "runs/night"))
    with pytest.raises(run_series.NoSeries, match="no run script in .*other on gpu"):
        run_series.ask(parse("gpu"), "other")


def test_a_large_series_comes_whole(folder):
    rows = [{"t": START + n, "step": n, "gpus": [card(n, 0)] * 8} for n in range(20_000)]
    (folder / "series.jsonl").write_text(lines(*rows))
    assert len(run_series.ask(parse("local"), str(folder)).rows) == 20_000


SEEN = """(() => {
  const root = document.documentElement, shown = [...document.querySelectorAll('svg')].filter(
    (one) => one.getBoundingClientRect().height > 0);
  return {wide: root.scrollWidth - root.clientWidth, given: innerWidth, plots: shown.length,
    columns: new Set(shown.map((one) => Math.round(one.getBoundingClientRect().left))).size,
    titles: [...new Set(shown.map((one) => /against (\\w+)/.exec(one.textContent)[1]))]};
})()"""
# How far a row's word sticks out of its panel's padding, and the share of the table's width that the
# text of an event has.
FITS = """(() => {
  const at = (one) => one.getBoundingClientRect(), all = (one) => [...document.querySelectorAll(one)];
  const left = at(document.querySelector('.charts')).left;
  const texts = all('.events td:last-child').map((one) => at(one).width);
  const rows = all('.marks .row').map(at).filter((one) => one.width);
  return {out: Math.max(...rows.map((one) => left - one.left)),
    share: Math.min(...texts) / at(document.querySelector('.events')).width};
})()"""


@pytest.mark.parametrize(("width", "columns"), [(360, 1), (1100, 2)])
def test_chromium_shows_it_at_a_phones_and_at_a_desks_width(width, columns, tmp_path):
    (tmp_path / "shown").mkdir()
    (tmp_path / "shown/page.html").write_text(made(*usual()), encoding="utf-8")
    served, steered = (
        Served(tmp_path / "shown"),
        Browser(engine("chromium", CHROMIUM), tmp_path / "chromium"),
    )
    try:
        steered.size(width, 1500)
        steered.open(f"{served.at}/page.html")
        steps, fits = steered.run(SEEN), steered.run(FITS)
        times = steered.run("document.querySelector('.switch input').click(), " + SEEN)
    finally:
        steered.close()
        served.close()
    assert (steps["wide"], steps["given"]) == (0, width)
    assert (steps["plots"], steps["columns"], steps["titles"]) == (9, columns, ["step"])
    assert (times["plots"], times["titles"]) == (9, ["time"])
    assert fits["out"] <= 0 and fits["share"] > 0.7
    assert set(served.asked) <= {"/page.html", "/favicon.ico"}


@pytest.mark.parametrize("way", ["trackio", "tensorboard", "wandb"])
def test_a_series_without_a_step_is_refused_in_words(way, tmp_path):
    rows = lines({"t": START, "phase": "running"}, {"t": START + 60, "phase": "done"})
    run_export.write(run_series.read("/r", rows, ""), tmp_path / "run.csv")
    track = ROOT / "examples/series/track.py"
    told = subprocess.run(
        [sys.executable, track, "run.csv", way], cwd=tmp_path, capture_output=True, text=True
    )
    assert told.returncode == 1 and told.stderr.count("\n") == 1
    assert "has no row with a step; step_pattern" in told.stderr


def test_a_run_whose_loss_is_nan_is_not_shown_as_well():
    ended = Status("finished", "gpu", "/r/night", worthless="the loss is nan")
    assert '<span class="bad">finished</span>' in made(*usual(5), ended)
    assert '<span class="good">finished</span>' in made(*usual(5))
