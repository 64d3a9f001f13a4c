"""The probe names each failure that a pair of programs shows, and is silent on the healthy ones."""

import json
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
from remote_gpu_trainer.catalogue import bundle

from tests.conftest import ROOT, module, older_python
from tests.programs import loaded

PROBE = ROOT / "scripts/probe.py"
PAIRS = ROOT / "evals/probe"
IDS = sorted(path.parent.name for path in PAIRS.glob("*/failing.py"))
HEALTHY = sorted(path.stem for path in (PAIRS / "healthy").glob("*.py"))
pages = loaded(PAIRS / "page.py")
page, kept_aside = pages.page, pages.kept_aside
# Kept-aside entries that steps don't show; evals/probe/README.md says why.
UNSEEN = {"C11", "C12", "DP11", "L2", "R4"}
# Told from the rhythm of the workers, which a busy machine disturbs; test_probe.py has the numbers.
BY_TIME = {"T7"}
# Healthy programs that get a hint: a reward that is reached early leaves spikes in the gradients.
HINTED = {"policy_gradient"}
# Programs of a Trainer, an adapter and Lightning, and two faults in what a library does.
OLDER = ("lm_trainer", "lora_peft", "lightning_module", "O5", "V7")
# gloo's threads may abort a process whose work is done: https://github.com/pytorch/pytorch/pull/179291
TORCHS_OWN_ABORT = "terminate called without an active exception"
ALONE = {
    "OMP_NUM_THREADS": "1",
    "CUDA_VISIBLE_DEVICES": "",
    "HF_HUB_OFFLINE": "1",
    "DS_ACCELERATOR": "cpu",
    "GLOO_SOCKET_IFNAME": "lo",
}

# torchvision's compiled operators want a CUDA build of torch; libraries that import it stop at their
# names. It also shows that a sitecustomize which is there already still runs.
SITE = """
import sys
class Names:
    def find_spec(self, name, path=None, target=None):
        if name == "torchvision" and "torch" in sys.modules:
            sys.meta_path.remove(self)
            import torch
            self.library = torch.library.Library("torchvision", "DEF")
            for operator in ("nms", "qnms"):
                self.library.define(operator + "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
names = Names()
sys.meta_path.insert(0, names)
"""


def findings(program, folder, python=sys.executable):
    """[entry, level] of what the probe says about a program that ends well after its steps."""
    name = f"{program.parent.name}-{program.stem}"
    launcher = re.match(r"# run: torchrun (.*)", program.read_text(encoding="utf-8"))
    torchrun = ["torchrun", "--standalone", "--local-addr=127.0.0.1"]
    command = [*torchrun, *launcher[1].split(), str(program)] if launcher else [str(program)]
    for _ in range(2):
        done = subprocess.run(
            [python, PROBE, "--json", folder / f"{name}.json", "--", *command],
            capture_output=True,
            text=True,
            env=os.environ | {"PYTHONPATH": str(folder)} | ALONE,
            cwd=folder,
        )
        if TORCHS_OWN_ABORT not in done.stderr:
            break
    assert done.returncode == 0, done.stderr
    report = json.loads((folder / f"{name}.json").read_text())
    assert report["steps"] >= 30 or kept_aside(program.parent.name), name
    missing = [
        n
        for n, state in report["observations"].items()
        if state.get("broken") and not state["why"].startswith("torch.compile:")
    ]
    assert not missing, (name, report["observations"])
    return sorted([one["id"], one["level"]] for one in report["findings"])


def row(case, folder):
    """The row of the record for a pair, or for a healthy program."""
    if case in HEALTHY:
        return {"id": case, "healthy": findings(PAIRS / "healthy" / f"{case}.py", folder)}
    failing, healthy = (findings(PAIRS / case / f"{k}.py", folder) for k in ("failing", "healthy"))
    return {"id": case, "failing": failing, "healthy": healthy}


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "sitecustomize.py").write_text(SITE)
    return tmp_path


def test_each_failure_is_named_on_the_failing_program_alone(campaign, folder):
    module("torch", "pip install -e '.[proofs]'")
    run = campaign("probe")
    with ThreadPoolExecutor(2) as pool:
        live = list(pool.map(lambda case: row(case, folder), run.live(IDS + HEALTHY)))
    results = run.recorded(live)
    assert [one["id"] for one in results] == IDS + HEALTHY
    for one in [*results, *live]:
        entry = one["id"]
        levels = {level for _, level in one["healthy"]}
        assert "wrong" not in levels, one
        assert "failing" in one or entry in HINTED or levels <= {"note"}, one
        if "failing" in one and entry not in UNSEEN:
            assert entry not in {found for found, _ in one["healthy"]}, one
            named = entry in {found for found, _ in one["failing"]}
            assert named or entry in BY_TIME, one


@pytest.mark.parametrize("case", OLDER)
def test_with_libraries_of_a_year_ago_the_probe_says_the_same(case, campaign, folder):
    """transformers 4.57, peft 0.18, accelerate 1.12 and Lightning 2.5: evals/proofs/older.txt."""
    python = older_python()
    recorded = next(one for one in campaign("probe").recorded() if one["id"] == case)
    kind = "failing" if "failing" in recorded else "healthy"
    place = PAIRS / case / "failing.py" if kind == "failing" else PAIRS / f"healthy/{case}.py"
    assert findings(place, folder, python) == recorded[kind]


def test_seventy_entries_are_named(campaign):
    results = [row for row in campaign("probe").recorded() if "failing" in row]
    named = [row["id"] for row in results if pages.named(row["id"], row["failing"]) != "no"]
    assert len(named) >= 70


def test_no_program_of_others_gets_a_false_alarm():
    """A finding of level wrong stands only where a remark says what the program does wrong."""
    rows = [row for row in pages.public()["healthy"] if row["steps"]]
    ended = {(row["repository"], row["path"]) for row in rows if not row.get("stopped")}
    assert len(ended) >= 60 and all(re.fullmatch("[0-9a-f]{40}", row["commit"]) for row in rows)
    for row in rows:
        levels = {one["level"] for one in row["findings"]}
        worst = "wrong" if "wrong" in levels else "suspicious" if levels else "sound"
        assert row["verdict"] == worst, row
        assert "wrong" not in levels or (row["real"] and row["remark"].startswith("real: ")), row


def test_the_page_keeps_the_first_run_of_the_kept_aside_pairs(campaign):
    """Rules that were written after it change the last table, never the one of that run."""
    first = pages.first_run()
    unseen = [row for row in first if row["id"] not in pages.HAD_RULES]
    assert len(first) == 24 and all(kept_aside(row["id"]) for row in first)
    assert [pages.named(row["id"], row["failing"]) for row in unseen] == ["no"] * 21
    text = (ROOT / "evals/PROBE.md").read_text(encoding="utf-8")
    run, now = text.split("first run", 2)[-1], text.split("## The same pairs")[1]
    assert "0 of 21 entries are named on the failing program" in run
    assert "written after that run" in now and "is no measure" in now


def test_the_page_shows_the_record(campaign, request):
    results = campaign("probe").recorded()
    titles = {entry.id: entry.title for entry in bundle.load().entries}
    text = page(results, titles)
    place = ROOT / "evals/PROBE.md"
    if request.config.getoption("--update") or request.config.getoption("--record"):
        place.write_text(text, encoding="utf-8")
    assert place.read_text(encoding="utf-8") == text
