"""Single faults in raw text: each is found, at its level, on its GPU, and nothing else is reported."""

import collections
import os
import re
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.gpu_health import gpu_faults
from tests.gpu_health.script import gpu_health

FAULTS = list(gpu_faults.faults())


def replayed(files, folder, expect=""):
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8", newline="")
    return gpu_health.judge(gpu_health.load(str(folder)), gpu_health.expectations_of(expect))


def test_a_fault_gives_one_finding_at_its_level_on_its_gpu(some, tmp_path):
    wrong = {}
    for number, fault in enumerate(some(FAULTS, lambda fault: fault.name.partition(": ")[2])):
        folder = tmp_path / str(number)
        folder.mkdir()
        found = replayed(fault.files, folder, fault.expect)
        if [(one["gpu"], one["level"]) for one in found] != [(fault.gpu, fault.level)]:
            wrong[fault.name] = [one["evidence"] for one in found]
    assert wrong == {}


def test_the_faults_are_many_and_stand_on_every_gpu_of_every_box():
    assert len(FAULTS) >= 200
    assert len({fault.name for fault in FAULTS}) == len(FAULTS)
    where = collections.defaultdict(set)
    for fault in FAULTS:
        where[fault.capture].add(fault.gpu)
    assert {index for index in where["h100x8"] if isinstance(index, int)} == set(range(8))
    assert {index for index in where["v100x4"] if isinstance(index, int)} == set(range(4))


def test_the_program_that_makes_faults_knows_nothing_of_the_prober():
    for name in ("gpu_faults.py", "gpu_captures/make.py"):
        text = (ROOT / "tests/gpu_health" / name).read_text(encoding="utf-8")
        assert set(re.findall(r"^(?:import|from) (\w+)", text, re.M)) <= {
            "json",
            "re",
            "pathlib",
            "typing",
        }


@pytest.mark.parametrize("capture", gpu_faults.BOXES)
def test_unedited_captures_give_no_finding(capture, tmp_path):
    assert (
        replayed(gpu_faults.Text(capture).files, tmp_path, "gpus=1" if capture == "t4x1" else "")
        == []
    )


@pytest.mark.parametrize("line", gpu_faults.HARMLESS)
def test_lines_that_look_bad_and_are_not_give_no_finding(line, tmp_path):
    box = gpu_faults.Text("v100x4")
    box.log(line)
    assert replayed(box.files, tmp_path) == []


def test_a_fault_of_the_host_ends_at_its_boot_and_is_only_a_warning_in_a_container(tmp_path):
    box = gpu_faults.Text("v100x4")
    box.log(
        "EXT4-fs (nvme0n1p2): Remounting filesystem read-only",
        "NVRM: loading NVIDIA UNIX x86_64 Kernel Module  470.256.02",
    )
    assert [one["level"] for one in replayed(box.files, tmp_path)] == ["degraded"]
    box.proc(lambda proc: proc["platform"].update(container="docker"))
    assert [one["level"] for one in replayed(box.files, tmp_path)] == ["warn"]
    box.log("Linux version 6.8.0-60-generic")
    assert replayed(box.files, tmp_path) == []


REAL = (
    sorted(Path(os.environ["GPU_CAPTURES"]).glob("query-gpu-full-*.csv"))
    if os.environ.get("GPU_CAPTURES")
    else []
)


def test_cells_of_real_captures_are_read_alike():
    """The same cells, edited in what real drivers printed (465 to 610). A lone table tells neither who holds memory nor the kernel module."""
    if not REAL:
        pytest.skip("GPU_CAPTURES names no folder of real captures")
    done = 0
    for path in REAL:
        head, row = path.read_text(encoding="utf-8").splitlines()[:2]
        names = [
            cell.split(" [")[0].replace("throttle_reasons", "event_reasons")
            for cell in head.split(", ")
        ]
        for what, field, value, level in gpu_faults.CELLS:
            cells = row.split(", ")
            at = names.index(field) if field in names else None
            if (
                at is None
                or what in ("memory held", "a little memory held", "other driver")
                or ("N/A" in cells[at] and "[GPU" not in value)
                or cells[at] == value
            ):
                continue
            unit = re.match(r"[\d.]+( \S+)$", cells[at])
            cells[at] = value + (unit.group(1) if unit and re.match(r"[\d.]+$", value) else "")
            got = gpu_health.judge(
                {"files": {"nvidia-smi.csv": "{}\n{}\n".format(head, ", ".join(cells))}, "exit": {}}
            )
            assert [(one["gpu"], one["level"]) for one in got] == [(0, level)], (
                path.name,
                what,
                got,
            )
            done += 1
    assert done > 200
