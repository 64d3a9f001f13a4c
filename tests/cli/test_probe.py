"""`rgt probe` runs a program under the probe and ends as the program does."""

import html.parser
import json
import os
import re
import subprocess
import sys

from tests.conftest import ROOT, engine
from tests.engines.chromium import CHROMIUM, Browser, Served
from tests.programs import loaded, rgt

probe = loaded(ROOT / "scripts/probe.py")


def test_it_ends_with_the_code_of_the_program_and_writes_the_report(tmp_path):
    done = rgt("probe", "--json", tmp_path / "told.json", "--", sys.executable, "-c", "exit(3)")
    assert done.returncode == 3 and done.stdout == ""
    told = json.loads((tmp_path / "told.json").read_text())
    assert told["verdict"] == "not looked at" and told["exit"] == 3
    assert "probe: not looked at" in done.stderr


def test_the_options_of_the_program_stay_with_the_program(tmp_path):
    (tmp_path / "train.py").write_text("import sys\nprint(sys.argv[1:])\n")
    done = rgt("probe", "--", "train.py", "--json", "x", "--steps", "2", "--", cwd=tmp_path)
    assert done.returncode == 0
    assert done.stdout == "['--json', 'x', '--steps', '2', '--']\n"


def test_without_a_program_it_says_where_to_write_one():
    done = rgt("probe")
    assert done.returncode == 2
    assert done.stderr == ("error: no program given; write it after --, as in -- python train.py\n")


def test_a_finding_shows_the_check_and_the_fix_of_its_entry():
    told = probe.advice({"O12", "T18b"}, str(ROOT))
    assert set(told) == {"O12", "T18b"}
    assert told["O12"]["fix"].startswith("Remove the softmax from the model")
    assert told["O12"]["check"].endswith("Raw scores are negative in places and sum to anything.")
    assert all(len(text) <= probe.MOST_TEXT + 2 for one in told.values() for text in one.values())
    report = dict(probe.finding("softmax twice", 1, "seen"), rank=0, ranks=[0], **told["O12"])
    text = probe.shown({"verdict": "wrong", "steps": 1, "processes": [{}], "findings": [report], "observations": {}})  # fmt: skip
    assert "    fix: Remove the softmax" in text and "    do: " not in text


def test_each_entry_that_the_probe_names_has_a_check_and_a_fix():
    ids = {kind[0] for kind in probe.KINDS.values()}
    told = probe.advice(ids, str(ROOT))
    assert set(told) == ids
    assert all(one["check"] and one["fix"] for one in told.values())


def test_alone_the_probe_needs_no_catalogue(tmp_path):
    assert probe.advice({"O12"}, "") == {}
    (tmp_path / "probe.py").write_text((ROOT / "scripts/probe.py").read_text())
    assert loaded(tmp_path / "probe.py").catalogue() == ""
    assert os.path.samefile(probe.catalogue(), ROOT)


def test_it_prints_the_probe_for_another_machine():
    done = rgt("probe", "--script")
    assert done.returncode == 0 and done.stdout == (ROOT / "scripts/probe.py").read_text()


HOSTILE = "</script><script>alert(1)</script><svg onload='x'>\"&{{ 7 * 7 }}\u202e\x00\ud800"
NAN = float("nan")


def hostile_report() -> dict:
    """A report whose every text is hostile, with numbers that aren't finite."""
    found = dict(probe.finding("softmax twice", 1, HOSTILE), rank=0, ranks=[0, 1])
    texts = dict.fromkeys(("what", "well", "do", "check", "fix", "page"), HOSTILE)
    process = {"rank": 0, "pid": 1, "steps": 3, "torch": HOSTILE, "python": HOSTILE}
    return {
        "verdict": "wrong",
        "program": HOSTILE,
        "date": HOSTILE,
        "steps": 3,
        "processes": [process, process],
        "findings": [found | texts],
        "observations": {"losses": {"state": "found"}, "rates": {"state": "not looked at", "why": HOSTILE}},
        "series": {
            "loss": [[1, 2.0], [2, None], [3, 1e308], [4, -1e308]],
            "gradient norm": [[1, NAN]],
            "update": [],
            "seconds": [[2, 0.1]],
            "modules": [[HOSTILE, 0.0]],
        },
    }  # fmt: skip


class Elements(html.parser.HTMLParser):
    """The elements of a page, and the names of all attributes."""

    def __init__(self, text: str):
        super().__init__()
        self.tags, self.attributes, self.links = set(), set(), []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}
        self.links += [value for name, value in attrs if name == "href"]


def test_a_page_shows_hostile_names_as_text_and_loads_nothing(tmp_path):
    probe.write(str(tmp_path / "page.html"), probe.page, hostile_report())
    text = (tmp_path / "page.html").read_text()
    found = Elements(text)
    assert not found.tags & {"script", "img", "link", "iframe", "form"}
    assert found.links == ["#O12"]
    assert not {name for name in found.attributes if name.startswith("on")} and "src" not in text.replace("default-src", "").replace("style-src", "")  # fmt: skip
    assert "{{ 7 * 7 }}" in text and "&lt;script&gt;" in text and "http" not in text.replace("http-equiv", "")  # fmt: skip
    assert text.count("<polyline") == 3, "two lines of the loss, one of the seconds"
    assert "<b>Update" not in text and not re.findall('(?:points|d)="[^"]*(?:nan|inf|e)', text)
    assert re.search("<b>Gradient norm</b>.*no finite value", text)
    assert all(char.isprintable() or char == "\n" for char in text)


def test_a_page_shows_the_code_of_a_fix_as_code_and_fits_a_phone(tmp_path):
    report = hostile_report()
    report["findings"][0] |= {"fix": "Call `step()` once", "evidence": "/a/path" * 40}
    (tmp_path / "shown").mkdir()
    text = probe.page(report)
    assert "<dd>Call <code>step()</code> once</dd>" in text
    probe.write(str(tmp_path / "shown/page.html"), probe.page, report)
    served = Served(tmp_path / "shown")
    steered = Browser(engine("chromium", CHROMIUM), tmp_path / "chromium")
    try:
        steered.size(390, 900)
        steered.open(f"{served.at}/page.html")
        assert steered.run("document.documentElement.scrollWidth") == 390
        assert steered.run("innerWidth") == 390
    finally:
        steered.close()
        served.close()


def test_a_sound_run_has_a_green_page_and_a_program_without_torch_one_too():
    nothing = probe.merged([], [], 0)
    assert 'class="dim">not looked at' in probe.page(nothing) and "<h2>Course" not in probe.page(nothing)  # fmt: skip
    looked = {name: {"state": "sound"} for name in probe.OBSERVATIONS}
    sound = nothing | {"verdict": "sound", "observations": looked}
    assert probe.page(sound).count('class="good">sound') == 1 + len(looked)


def test_a_page_links_each_entry_and_names_the_program_and_the_day():
    report = probe.merged([], [], 0) | {"program": "train.py", "date": "2026-01-02 03:04 UTC"}
    report["findings"] = [dict(probe.finding("tiny updates", 3, "seen"), ranks=[])]
    probe.advise(report)
    text = probe.page(report)
    place = "references/training/convergence-debugging.md#o7--loss-falls-smoothly-but-so-slowly-that-whole-epochs-bring-almost-nothing"  # fmt: skip
    assert Elements(text).links == [f"{probe.HOME}{place}", "#O7"]
    assert 'id="O7"' in text and "train.py,\n2026-01-02 03:04 UTC:" in text


def test_a_page_draws_no_cliff_that_its_numbers_dont_show():
    def heights(values):
        chart = probe.chart_of(list(enumerate(values)), "Loss", "")
        (line,) = re.findall('<polyline.*points="(.*?)"', probe.draw_charts([chart]))
        return [float(point.split(",")[1]) for point in line.split()]

    flat = heights([0.30551, 0.30549, 0.3055])
    assert max(flat) - min(flat) < 0.1 and 40 < flat[0] < 60
    assert heights([2.0, 1.0]) == [3.0, 97.0]


def test_a_kind_with_words_of_its_own_has_these_in_place_of_the_entrys():
    report = probe.merged([], [], 0)
    kinds = ("ranks share data", "workers repeat the stream", "weights stand still", "forgotten weights")  # fmt: skip
    report["findings"] = [probe.finding(kind, 3, "seen") for kind in kinds]
    probe.advise(report)
    shared, streams, still, forgotten = report["findings"]
    assert "DistributedSampler(dataset)" in shared["fix"] and "Number all readers" in streams["fix"]
    assert "before and after optimizer.step()" in still["check"]
    assert "held = {id(p)" in forgotten["check"]


def test_without_jinja2_the_rest_of_the_report_is_written(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "jinja2", None)
    probe.write(str(tmp_path / "page.html"), probe.page, probe.merged([], [], 0))
    assert "a page needs jinja2; install it" in capsys.readouterr().err
    assert not (tmp_path / "page.html").exists()


JOB = """\
name: tiny
command: [python, train.py]
code: code
python: {python}
gpus: 0
deadline: 1h
checkpoint: {{folder: out, pattern: "step-*.pt"}}
floors: {{free_gb: 0, free_inodes: 0}}
run_dir: {folder}/run
"""
PROGRAM = """\
import os, pathlib, time, zipfile
folder = pathlib.Path(os.environ["RGT_CHECKPOINT_DIR"])
number = len([path.read_bytes() for path in folder.glob("*.pt")])
with zipfile.ZipFile(folder / "new", "w") as archive:
    archive.writestr("a", "b")
os.replace(folder / "new", folder / f"step-{number}.pt")
time.sleep(60)
"""


def test_rehearse_tries_a_job_here_with_the_probe_and_starts_nothing(tmp_path):
    (tmp_path / "code").mkdir()
    (tmp_path / "code/train.py").write_text(PROGRAM)
    (tmp_path / "job.yaml").write_text(JOB.format(python=sys.executable, folder=tmp_path))
    done = rgt("rehearse", "job.yaml", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    *ok, stop, told = done.stdout.splitlines()
    assert [line.split(":")[0] for line in ok] == ["ok train", "ok save", "ok kill", "ok resume"]
    assert stop.startswith(("ok stop: ", "unsure stop: "))
    assert told.startswith("probe: not looked at (0 steps")
    assert not (tmp_path / "run/state.json").exists(), "no run was started"
    quiet = rgt("rehearse", "job.yaml", "--set", "probe=off", cwd=tmp_path)
    assert quiet.returncode == 0 and "probe" not in quiet.stdout


def test_a_refused_rehearsal_says_what_it_left_and_how_to_remove_it(tmp_path):
    (tmp_path / "code").mkdir()
    (tmp_path / "code/train.py").write_text(PROGRAM)
    (tmp_path / "job.yaml").write_text(JOB.format(python=sys.executable, folder=tmp_path))
    words = ("rehearse", "job.yaml", "--set", "floors.free_gb=100000000")
    done = rgt(*words, cwd=tmp_path)
    assert done.returncode == 1 and "MB free, expected" in done.stdout
    told = done.stderr.splitlines()[-1]
    assert told.startswith(f"left: {tmp_path}/run, with the code that was sent")
    again = rgt(*words, cwd=tmp_path)
    assert "left:" not in again.stderr, "a folder that was there before may hold more"
    line = told.rpartition("; ")[2].removesuffix(" removes it")
    subprocess.run(["bash", "-c", line], check=True)
    assert not (tmp_path / "run").exists()
