"""Every capture gives what tests/gpu_expectations.tsv says, ours and those of $GPU_CAPTURES."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.test_gpu_health_faults import ROOT, gpu_health

TABLE = [line.split("\t") for line in (ROOT / "tests" / "gpu_expectations.tsv").read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
OWN = ROOT / "tests" / "gpu_captures"
REAL = os.environ.get("GPU_CAPTURES")
LEVELS = ("fatal", "degraded", "unknown", "warn")


def check(path, row):
    answer = gpu_health.report(gpu_health.load(str(path)))
    got = [sum(one["level"] == level for one in answer["findings"]) for level in LEVELS]
    assert (answer["verdict"], got) == (row[2], [int(text) for text in row[3:7]]), [one["evidence"] for one in answer["findings"]]


@pytest.mark.parametrize("row", [row for row in TABLE if row[0] == "own"], ids=lambda row: row[1])
def test_our_captures_give_what_the_table_says(row):
    check(OWN / row[1], row)


@pytest.mark.parametrize("row", [row for row in TABLE if row[0] == "real"], ids=lambda row: row[1])
def test_real_captures_give_what_the_table_says(row):
    if not REAL:
        pytest.skip("GPU_CAPTURES names no folder of real captures")
    check(Path(REAL) / row[1], row)


def test_the_table_names_every_capture_once():
    ours = sorted(path.name for path in OWN.iterdir() if path.is_dir() and not path.name.startswith("__"))
    assert sorted(row[1] for row in TABLE if row[0] == "own") == ours
    if REAL:
        assert sorted(row[1] for row in TABLE if row[0] == "real") == sorted(path.name for path in Path(REAL).iterdir() if path.name != "SOURCES.md")


def test_captures_called_healthy_give_nothing_above_warn():
    healthy = [row for row in TABLE if row[7].startswith("healthy") and row[1] != "container-no-log"]
    assert len(healthy) >= 25
    assert all(row[2] == "fit" and row[3:6] == ["0", "0", "0"] for row in healthy)


def every_finding():
    from tests.gpu_faults import faults

    for row in TABLE:
        if row[0] == "own":
            yield from gpu_health.judge(gpu_health.load(str(OWN / row[1])))
    for fault in faults():
        record = {"files": {k: v for k, v in fault.files.items() if k not in ("exit.json", "proc.json")},
                  "exit": json.loads(fault.files["exit.json"]), "proc": json.loads(fault.files["proc.json"])}
        yield from gpu_health.judge(record, gpu_health.expectations_of(fault.expect))


def test_findings_have_the_shape_of_the_contract():
    for one in every_finding():
        assert list(one) == ["gpu", "level", "evidence", "threshold", "action", "entry"]
        assert one["level"] in LEVELS
        assert one["evidence"] and one["threshold"] and one["action"], one
        assert len(json.dumps(one)) < 1200


def test_entries_are_those_of_the_catalogue():
    pages = list((ROOT / "references").rglob("*.md")) + list((ROOT / "profiles").glob("*.md"))
    ids = {found for page in pages for found in re.findall(r"^### ([A-Z0-9]+) —", page.read_text(encoding="utf-8"), re.M)}
    assert {entry for entry in gpu_health.ENTRY.values() if entry} <= ids
    used = set(re.findall(r'"([a-z_]+)", key=', (ROOT / "scripts" / "gpu_health.py").read_text(encoding="utf-8")))
    assert used <= set(gpu_health.ENTRY) | {"mismatch", "tool"}, used - set(gpu_health.ENTRY)


@pytest.mark.parametrize(("capture", "code", "word"), [("h100x8", 0, "fit"), ("amd-ecc", 1, "unfit"), ("no-gpu", 2, "unknown")])
def test_the_program_ends_with_the_code_of_its_verdict(capture, code, word):
    done = subprocess.run([sys.executable, ROOT / "scripts" / "gpu_health.py", "--replay", OWN / capture, "--json"], capture_output=True, text=True,
        timeout=60)
    assert (done.returncode, json.loads(done.stdout)["verdict"], done.stderr) == (code, word, "")


def test_a_healthy_box_of_eight_is_told_in_few_words():
    done = subprocess.run([sys.executable, ROOT / "scripts" / "gpu_health.py", "--replay", OWN / "h100x8"], capture_output=True, text=True,
        timeout=60)
    assert done.stdout.splitlines() == ["verdict: fit", "8 x NVIDIA H100 80GB HBM3, 81559 MiB (GPU 0, 1, 2, 3, 4, 5, 6, 7)", "driver 590.44.01"]


@pytest.mark.parametrize(("expect", "findings"), [
    ("gpus=8,name=H100,vram=80,nvlink=all,driver>=550", []),
    ("gpus=8,name=h100 80gb,mig=off,ecc=on,bf16=yes,fp8=yes,p2p=yes,cc>=9.0,pcie=16,pciegen=5,disk>=500,shm>=32,ram>=128", []),
    ("gpus=4", [(None, "fatal")]), ("gpus>=4", []), ("driver>=600", [(None, "fatal")]), ("torch=cu130", [(None, "unknown")]),
    ("name=H200", [(index, "fatal") for index in range(8)]), ("vram=141", [(index, "fatal") for index in range(8)]), ("nvlink=18", []),
    ("disk>=5000", [(None, "fatal")]),
])
def test_expectations_are_compared_with_the_box(expect, findings):
    got = gpu_health.judge(gpu_health.load(str(OWN / "h100x8")), gpu_health.expectations_of(expect))
    assert [(one["gpu"], one["level"]) for one in got] == findings


def test_a_wrong_expectation_is_a_wrong_usage_that_names_the_right_ones():
    done = subprocess.run([sys.executable, ROOT / "scripts" / "gpu_health.py", "--replay", OWN / "h100x8", "--expect", "gups=8"], capture_output=True,
        text=True, timeout=60)
    assert done.returncode == 2
    assert done.stdout == ""
    assert "gups=8" in done.stderr and "gpus" in done.stderr


@pytest.mark.parametrize(("torch", "expect", "levels"), [
    ({"torch": "2.13.0+cu130", "cuda": "13.0", "available": True, "devices": [{"index": 0, "ok": True}]}, "torch=cu130", []),
    ({"torch": "2.13.0+cu130", "cuda": "13.0", "available": True, "devices": [{"index": 0, "ok": True}]}, "torch>=2.6", []),
    ({"torch": "2.5.1+cu124", "cuda": "12.4", "available": True, "devices": [{"index": 0, "ok": True}]}, "torch=cu130", ["fatal"]),
    ({"torch": "2.5.1+cu124", "cuda": "12.4", "available": True,
    "devices": [{"index": 3, "ok": False, "error": "CUDA error: no kernel image is available"}]}, "", ["fatal"]),
    ({"torch": "2.13.0+cu130", "cuda": "13.0", "available": False, "devices": [], "error": "The NVIDIA driver on your system is too old"}, "",
    ["fatal"]),
    ({"error": "ModuleNotFoundError: No module named 'torch'"}, "", ["unknown"]),
])
def test_the_jobs_own_torch_is_judged(torch, expect, levels):
    record = gpu_health.load(str(OWN / "h100x8"))
    record["proc"]["torch"] = dict(torch, python="/opt/venv/bin/python")
    assert [one["level"] for one in gpu_health.judge(record, gpu_health.expectations_of(expect))] == levels


def test_judging_changes_nothing_and_says_the_same_twice():
    record = gpu_health.load(str(OWN / "amd-ecc"))
    before = json.dumps(record, sort_keys=True)
    first = gpu_health.judge(record)
    assert gpu_health.judge(record) == first
    assert json.dumps(record, sort_keys=True) == before


def test_a_log_that_cannot_be_read_can_be_accepted():
    record = gpu_health.load(str(OWN / "container-no-log"))
    assert gpu_health.verdict(gpu_health.judge(record)) == "unknown"
    assert gpu_health.verdict(gpu_health.judge(record, gpu_health.expectations_of("log=no"))) == "fit"


@pytest.mark.parametrize(("capture", "word"), [("h100mig", "MIG"), ("vgpu", "vGPU"), ("wsl", "WSL"), ("container-no-log", "container (docker)"),
    ("amd", "AMD"), ("no-gpu", "no GPU seen"),
                                               ("t4x1", "virtual machine with the GPU passed through")])
def test_the_kind_of_box_is_recognised(capture, word):
    assert word in gpu_health.report(gpu_health.load(str(OWN / capture)))["recognised"]


@pytest.mark.parametrize(("name", "text", "levels"), [
    ("amd-metric.json", '[{"gpu": 0, "ecc": {"total_uncorrectable_count": 0, "total_correctable_count": 4}}]', []),
    ("amd-metric.json", '[{"gpu": 0, "ecc": {"total_uncorrectable_count": 2}}]', ["fatal"]),
    ("amd-bad-pages.json", '[{"gpu": 0, "pending": [{"page_address": "0x1", "status": "PENDING"}]}]', ["degraded"]),
    ("amd-metric.json", "not JSON", ["unknown"]),
])
def test_amd_smi_is_read_where_it_is(name, text, levels):
    record = gpu_health.load(str(OWN / "amd"))
    record["files"][name] = text
    assert [one["level"] for one in gpu_health.judge(record)] == levels


def test_an_amd_box_whose_ecc_nobody_tells_is_unknown():
    record = gpu_health.load(str(OWN / "amd"))
    record["proc"]["pci"][0]["ras"] = {}
    assert gpu_health.report(record)["verdict"] == "unknown"


def test_the_answer_for_a_healthy_box_of_eight_is_short():
    assert len(json.dumps(gpu_health.report(gpu_health.load(str(OWN / "h100x8"))))) < 600


@pytest.mark.parametrize(("capture", "told"), [("rtx3090x2", True), ("l40sx4", False), ("vgpu", False), ("wsl", False)])
def test_persistence_mode_off_is_told_of_a_card_without_hbm_and_judges_nothing(capture, told):
    record = gpu_health.load(str(OWN / capture))
    if told:
        record["files"]["nvidia-smi.csv"] = persistence(record["files"]["nvidia-smi.csv"], "Disabled")
        record["files"]["nvidia-smi-q.xml"] = re.sub("(<persistence_mode>)[A-Za-z]+", r"\1Disabled", record["files"]["nvidia-smi-q.xml"])
    answer = gpu_health.report(record)
    assert any("persistence mode off" in word for word in answer["recognised"]) is told
    assert not any("persistence" in one["evidence"] for one in answer["findings"])


def persistence(table, mode):
    rows = [line.split(", ") for line in table.splitlines()]
    for header in [row for row in rows if "persistence_mode" in row]:
        at, start = header.index("persistence_mode"), rows.index(header) + 1
        for row in rows[start:]:
            if len(row) != len(header):
                break
            row[at] = mode
    return "".join(", ".join(row) + "\n" for row in rows)
