"""`health --report`: one page of a watch's JSON lines, whatever they hold, that loads nothing and fits a phone. Looked at in headless Chromium."""

import json
import re
from html.parser import HTMLParser

import pytest
from jinja2 import UndefinedError
from remote_gpu_trainer.gpu_health import report as health_report
from remote_gpu_trainer.gpu_health import watch_file as health_watching
from remote_gpu_trainer.text import BadRequest

from tests.conftest import engine
from tests.engines.chromium import CHROMIUM, Browser, Served
from tests.programs import rgt

START = 1_795_000_000.0
HOT = {
    "gpu": 1,
    "level": "degraded",
    "evidence": "throttled: hw_thermal_slowdown at 88 C",
    "threshold": "power cap only",
    "action": "heat: ask the provider",
    "entry": "",
}


def sample(number, gpus=2, **more):
    one = {
        "throttle": ["sw_power_cap"],
        "util": 97,
        "mem_util": 40,
        "mem_mib": 61000,
        "power_w": 650.5,
        "temp_c": 61,
        "sm_mhz": 1755,
        "pcie_gen": 5,
    }
    return {"t": START + 10 * number, "gpus": [{"gpu": gpu, **one, **more} for gpu in range(gpus)]}


@pytest.fixture
def watch(tmp_path):
    """Write lines (objects, or raw bytes) into a watch file."""

    def write(*lines):
        path = tmp_path / "watch.jsonl"
        path.write_bytes(
            b"\n".join(
                line if isinstance(line, bytes) else json.dumps(line).encode() for line in lines
            )
            + b"\n"
        )
        return path

    return write


def usual(samples=60, gpus=2):
    lines = [{"t": START, "start": {"interval_s": 10, "fields": [], "kernel_log": True}}]
    for number in range(1, samples + 1):
        line = sample(number, gpus)
        if samples // 2 <= number < samples // 2 + 5:
            line["gpus"][1].update(throttle=["hw_thermal_slowdown"], temp_c=88, sm_mhz=1100)
        if number == samples // 2:
            line["findings"] = [HOT]
        if number == samples // 2 + 5:
            line["over"] = [HOT["evidence"]]
        if number > samples - 5:
            line["gpus"][0]["util"] = 0
            line["why"] = {
                "0": "process 4100 works on the CPU: loading data, compiling, saving or evaluating"
            }
        lines.append(line)
    return [*lines, {"t": START + 10 * samples + 10, "end": "signal 15"}]


def page(path):
    return health_report.page(health_watching.read_watch(path), path.name)


def test_a_page_has_a_section_per_gpu_with_every_quantity_on_one_axis(watch):
    text = page(watch(*usual()))
    assert text.count("<section>") == 2 and text.count('<div class="axis"') == 2
    for word in (
        "Utilisation",
        "SM clock",
        "Power",
        "Temperature",
        "Memory",
        "Clocks held back: sw_power_cap",
    ):
        assert text.count(f"<b>{word}</b>") == 2, word
    assert text.count("<b>Clocks held back: hw_thermal_slowdown</b>") == 1
    assert "2 GPUs, 60 samples, one every 10 s" in text and "Ended: signal 15." in text
    assert (
        '<b class="degraded">degraded</b> throttled: hw_thermal_slowdown at 88 C' in text
        and "over: throttled" in text
    )
    assert text.count('href="#f1"') == 1 and 'id="f1"' in text
    assert "5 samples: process 4100 works on the CPU" in text
    ticks = re.findall(r'<div class="axis".*?>(.*?)</div>', text)
    assert len(set(ticks)) == 1 and ticks[0].count("<span") >= 3


def test_the_page_loads_and_runs_nothing(watch):
    text = page(watch(*usual()))
    assert "default-src 'none'; style-src 'unsafe-inline'" in text
    assert not re.search(r"<script|<link|<img|<iframe|src=|url\(|@import|https?:", text)


BAD = [
    "<script>alert(1)</script>",
    "</script></style></title><script>alert(1)//",
    '"><img src=x onerror=alert(1)>',
    "' onmouseover='alert(1)",
    "x onmouseover=alert(1) y",
    "a\n<script>alert(1)</script>\r\n--><img src=x onerror=alert(1)>",
    "{{7*7}} {% raw %} {# &lt; &amp; ]]>",
    "\x1b[31mred\u202e",
    "token=abcdef123456789",
]


def shape(text):
    """The tags of a page with their attributes, without what stands between them."""
    seen = []
    parser = HTMLParser()
    parser.handle_starttag = lambda tag, attributes: seen.append((tag, attributes))
    parser.feed(text)
    return seen


@pytest.mark.parametrize("bad", BAD)
def test_text_of_the_file_stays_text(watch, bad):
    line = sample(1, throttle=[bad], why={"0": bad})
    line |= {
        "findings": [
            {**HOT, "gpu": bad, "level": bad, "evidence": bad, "action": bad, "entry": bad}
        ],
        "over": [bad],
        "why": {"0": bad, bad: bad},
    }
    line["gpus"].append({**line["gpus"][0], "gpu": bad})
    text = page(
        watch({"t": START, "start": {"interval_s": bad}}, line, {"t": START + 20, "end": bad})
    )
    tags = set(re.findall(r"<(/?[a-z!][a-z0-9]*)", text))
    assert tags <= {"!doctype", "html", "/html", "head", "/head", "meta", "title", "/title", "style", "/style", "body", "/body", "h1", "/h1", "h2", "/h2", "p", "/p", "b", "/b", "a", "/a", "br", "ol", "/ol", "li", "/li",
                    "table", "/table", "tr", "/tr", "th", "td", "div", "/div", "span", "/span", "section", "/section", "svg", "/svg", "path", "polyline", "polygon", "rect", "!",
                    "figure", "/figure", "figcaption", "/figcaption", "details", "/details", "summary", "/summary", "thead", "/thead", "tbody", "/tbody", "/td", "/th"}  # fmt: skip
    assert not re.search(r"<[^>]*\bon\w+=", text)
    assert "\x1b" not in text and "\u202e" not in text and "abcdef123456789" not in text
    assert "49" not in re.sub(r"<(svg|style).*?</\1>", "", text, flags=re.S)


def every_field(text, level="degraded"):
    """A watch with this text in every field that takes one, as if nothing had cleaned the file."""
    series = health_watching.Series(why={text: 3})
    for at in range(3):
        series.times.append(START + 10 * at)
        series.bits.append(1)
        for column in series.values.values():
            column.append(50.0)
    events = [
        health_watching.Event(START + 10, text, level, text, text, text),
        health_watching.Event(START + 10, None, level, text, text, text),
        health_watching.Event(START + 20, None, "over", text, text, text, True),
    ]
    return health_watching.RecordedWatch({text: series}, events, [text], 10.0, text, 3, 1, 1)


@pytest.mark.parametrize("bad", BAD)
def test_no_field_adds_a_tag_or_an_attribute(bad):
    plain = shape(health_report.page(every_field("plain"), "plain"))
    assert shape(health_report.page(every_field(bad), bad)) == plain
    marked = shape(health_report.page(every_field("plain", level=bad), "plain"))
    assert [(tag, [name for name, _ in attributes]) for tag, attributes in marked] == [
        (tag, [name for name, _ in attributes]) for tag, attributes in plain
    ]
    levels = [dict(attributes).get("class") for tag, attributes in marked if tag == "b"]
    assert levels.count(bad) == 2


def test_without_escaping_a_field_would_break_out(monkeypatch):
    """The tests above are no tests unless they fail where the template doesn't escape."""
    whole = health_report.Environment
    monkeypatch.setattr(
        health_report, "Environment", lambda **options: whole(**{**options, "autoescape": False})
    )
    plain = shape(health_report.page(every_field("plain"), "plain"))
    assert shape(health_report.page(every_field(BAD[0]), BAD[0])) != plain


def test_a_name_that_the_template_does_not_know_is_an_error(monkeypatch):
    monkeypatch.setattr(health_report, "_summary", lambda *_: {"label": 0})
    with pytest.raises(UndefinedError):
        health_report.page(every_field("plain"), "plain")


def test_the_name_of_a_file_that_is_no_text_is_shown_and_the_page_written(tmp_path):
    source = tmp_path / "a\udcff\nb.jsonl"
    try:
        source.write_bytes(json.dumps(sample(1)).encode())
    except (OSError, UnicodeError):
        pytest.skip("this file system takes only UTF-8 names")
    text = health_report.write(source, tmp_path / "page.html").read_text(encoding="utf-8")
    assert "<h1>GPU watch</h1>" in text and "a  b.jsonl" in text


HOSTILE = [
    b"", b"{}", b"null", b"[1]", b"\xff\xfe", b"{" * 5000, b'{"t": "now", "gpus": []}', b'{"t": 1e999}', b'{"t": NaN, "gpus": [{"gpu": 0}]}', b'{"t": -5, "gpus": [{"gpu": 0}]}',
    b'{"t": 1795000001, "gpus": {"a": 1}, "findings": 5, "over": {"x": 1}, "why": [1], "start": 3, "end": 7}',
    b'{"t": 1795000002, "gpus": [7, null, {"gpu": null}, {"gpu": true}, {"gpu": -1}, {"gpu": {"a": 1}}]}',
    b'{"t": 1795000003, "gpus": [{"gpu": 0, "util": "97", "temp_c": 1e999, "power_w": null, "throttle": "all", "mem_mib": -1e300}]}',
    b'{"t": 1795000003, "findings": [null, 7, {"level": 3}], "gpus": [{"gpu": 0, "throttle": [' + b"1," * 5000 + b"1]}]}",
    b"x" * 3_000_000,
]  # fmt: skip


def test_lines_that_are_no_samples_are_counted_and_break_nothing(watch):
    found = health_watching.read_watch(watch(*HOSTILE, sample(5), sample(4), sample(6)))
    assert found.unread >= 9 and found.left_out >= 4 and found.samples >= 4
    text = health_report.page(found, "w")
    assert (
        f"{found.unread} lines could not be read" in text
        and "were left out" in text
        and "nan" not in text.lower().replace("finance", "")
    )


@pytest.mark.parametrize(
    "lines", [[b""], [b"{}"], [b"not json"], [{"t": START, "start": {}}, {"t": START, "end": "x"}]]
)
def test_a_file_without_a_sample_is_refused(watch, lines):
    with pytest.raises(
        BadRequest, match="watch.jsonl: no samples; pass a file that remote-gpu-trainer health BOX"
    ):
        health_watching.read_watch(watch(*lines))


def test_one_sample_and_values_that_the_driver_does_not_tell_make_a_page(watch):
    text = page(watch(sample(1, gpus=1, power_w=None, util=None)))
    assert (
        text.count("not reported by the driver") == 2
        and "<b>Power" not in text
        and "1 GPUs, 1 samples" in text
    )
    assert "the watch is still running, or was killed" in text


def test_a_week_of_eight_gpus_stays_a_small_page(watch):
    lines = [json.dumps(sample(number, gpus=8)).encode() for number in range(3000)]
    assert len(page(watch(*lines))) < 1_500_000


def test_the_command_writes_beside_the_file_and_never_over_another_one(watch, tmp_path):
    path = watch(*usual())

    def run(*args):
        return rgt("health", "--report", path, *args)

    done = run()
    assert (done.returncode, done.stdout) == (0, f"{tmp_path}/watch.html\n")
    assert run().returncode == 0
    (tmp_path / "mine.html").write_text("<p>mine")
    refused = run("-o", str(tmp_path / "mine.html"))
    assert (
        refused.returncode == 2
        and "mine.html: not an earlier report; name another file with -o" in refused.stderr
        and (tmp_path / "mine.html").read_text() == "<p>mine"
    )
    assert run("-o", str(path)).returncode == 2 and path.read_text().startswith('{"t"')
    assert run("-o", str(tmp_path / "no" / "x.html")).returncode == 2


SEEN = """(()=>{const e=document.documentElement,q=s=>[...document.querySelectorAll(s)],boxes=q('svg').map(s=>s.getBoundingClientRect());
return {wide:e.scrollWidth,seen:e.clientWidth,given:innerWidth,left:[...new Set(boxes.map(b=>Math.round(b.left)))],across:[...new Set(boxes.map(b=>Math.round(b.width)))],
plots:boxes.length,lines:q('polyline').length,small:Math.min(...q('figcaption *').map(x=>parseFloat(getComputedStyle(x).fontSize)))}})()"""


@pytest.mark.parametrize("width", [360, 1100])
def test_chromium_shows_it_at_a_phones_and_at_a_desks_width(watch, tmp_path, width):
    (tmp_path / "shown").mkdir()
    (tmp_path / "shown/page.html").write_text(page(watch(*usual(gpus=8))), encoding="utf-8")
    served, steered = (
        Served(tmp_path / "shown"),
        Browser(engine("chromium", CHROMIUM), tmp_path / "chromium"),
    )
    try:
        steered.size(width, 1500)
        steered.open(f"{served.at}/page.html")
        told = steered.run(SEEN)
        steered.picture(tmp_path / "page.png")
    finally:
        steered.close()
        served.close()
    assert told["wide"] <= told["seen"] and told["given"] == width
    assert told["plots"] == 8 * 6 + 1 and told["lines"] == 8 * 5
    assert len(told["left"]) == len(told["across"]) == 1 and told["across"][0] > width * 0.7 * (
        1 if width < 960 else 0.8
    )
    assert told["small"] >= 10
    assert set(served.asked) <= {"/page.html", "/favicon.ico"}
    assert (tmp_path / "page.png").stat().st_size > 20_000
