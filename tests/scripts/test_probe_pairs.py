"""The probe names each failure that a pair of programs shows, and is silent on the healthy ones."""

import json
import os
import re
import statistics
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
from remote_gpu_trainer.catalogue import bundle

from tests.changed import Changed
from tests.conftest import ROOT, Campaign, module, older_python
from tests.programs import loaded

PROBE = ROOT / "scripts/probe.py"
PAIRS = ROOT / "evals/probe"
IDS = sorted(path.parent.name for path in PAIRS.glob("*/failing.py"))
HEALTHY = sorted(path.stem for path in (PAIRS / "healthy").glob("*.py"))
pages = loaded(PAIRS / "page.py")
page, kept_aside = pages.page, pages.kept_aside
# Kept-aside entries that steps don't show; evals/probe/README.md says why. O6 is a matter of taste.
UNSEEN = {"C11", "C12", "DP11", "L2", "R4", "O6"}
# Told from the rhythm of the workers, which a busy machine disturbs; test_probe.py has the numbers.
BY_TIME = {"T7"}
# Healthy programs that get a hint: a reward that is reached early leaves spikes in the gradients.
HINTED = {"policy_gradient"}
# Programs of a Trainer, an adapter and Lightning, and two faults in what a library does.
OLDER = ("lm_trainer", "lora_peft", "lightning_module", "O5", "V7")
# Run each time beside every tenth program: frameworks, as people use them.
FRAMEWORKS = ("accelerate_accumulation", "ddp", "lightning_manual", "sft_trl")
# What the probe has proven on the failing programs. None of these may become a hint.
PROVEN = {
    "C13", "C18", "D22", "D23", "DP1", "DP2", "O12", "O15", "O16", "O17", "O2", "O24", "O5",
    "P14", "P20", "P7", "P9", "T25",
}  # fmt: skip
MOST_SUSPICIOUS = 0.03  # of the healthy programs
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


def chosen(run, changed=None):
    """The programs that run this time; `changed`: only those of what changed, and a seventh."""
    if changed:
        return [name for name in IDS + HEALTHY if changed.keeps_pair(name)]
    cases = run.live(IDS + HEALTHY)
    return [*cases, *(name for name in FRAMEWORKS if name not in cases)]


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "sitecustomize.py").write_text(SITE)
    return tmp_path


def test_each_failure_is_named_on_the_failing_program_alone(campaign, folder, request):
    module("torch", "pip install -e '.[proofs]'")
    run = campaign("probe")
    changed = Changed(ROOT) if request.config.getoption("--changed") else None
    with ThreadPoolExecutor(2) as pool:
        live = list(pool.map(lambda case: row(case, folder), chosen(run, changed)))
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


def test_twenty_healthy_programs_run_each_time_among_them_the_frameworks():
    cases = chosen(Campaign("probe", recording=False))
    assert len(cases) == len(set(cases)) >= 20 and set(FRAMEWORKS) <= set(cases)
    assert chosen(Campaign("probe", recording=True)) == IDS + HEALTHY


def test_few_healthy_programs_are_called_suspicious_and_the_page_tells_which(campaign):
    results = campaign("probe").recorded()
    doubted = pages.hinted(results)
    assert len(results) >= 150 and len(doubted) <= MOST_SUSPICIOUS * len(results)
    text = (ROOT / "evals/PROBE.md").read_text(encoding="utf-8")
    assert f"{len(doubted)} are called suspicious, {len(doubted) / len(results):.1%}: " in text
    assert all(f"`{row['id']}` (" in text for row in doubted)


def test_what_was_proven_stays_proven(campaign):
    results = [row for row in campaign("probe").recorded() if "failing" in row]
    proven = {row["id"] for row in results if pages.named(row["id"], row["failing"]) == "wrong"}
    assert proven >= PROVEN, PROVEN - proven


def test_a_step_of_ten_million_weights_costs_little_more_while_the_probe_looks_and_nothing_after():
    """Measured by evals/probe/cost.py. The processor's seconds move by some percent by themselves."""
    record = pages.cost()
    pairs = record["results"]
    looked, after = (statistics.median(pages.ratios(pairs, n)) for n in ("looked_at", "after"))
    assert len(pairs) >= 5 and looked <= 1.10 and after <= 1.03, (looked, after)
    both = zip(*(pages.ratios(pairs, n) for n in ("looked_at", "after")), strict=True)
    assert statistics.median(first / later for first, later in both) <= 1.10
    assert all(pair["plain"]["weights"] == pair["probed"]["weights"] for pair in pairs)


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
