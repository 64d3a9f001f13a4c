"""Outputs of NVIDIA's and the kernel's own tools that somebody pasted: dcgmi, edac-util, ras-mc-ctl.

The layouts are those of NVIDIA/DCGM at 72fa3fea (`dcgmi/Diag.cpp`, `dcgmi/Health.cpp`), of the
reports that the tests name, and of edac-utils and rasdaemon.
"""

import json

import pytest

from tests.gpu_health.script import gpu_health
from tests.gpu_health.test_sick_hosts import pasted

EDGE = "+---------------------------+------------------------------------------------+\n"
HEAD = f"""\
Successfully ran diagnostic for group.
{EDGE}| Diagnostic                | Result                                         |
+===========================+================================================+
|-----  Deployment  --------+------------------------------------------------|
| Denylist                  | Pass                                           |
| Persistence Mode          | Pass                                           |
"""
WIDE = "+---------------------------+----------------------------------------------------------+\n"
REPORT = f"""\
{WIDE}| Health Monitor Report                                                                |
+===========================+==========================================================+
"""


def rows(*pairs, width=46):
    """Rows of a table of dcgmi."""
    return "".join(f"| {name:25} | {told:{width}} |\n" for name, told in pairs)


def told(text, folder):
    """(gpu, level) of what a tool says, and what the text was taken for."""
    findings, kinds = pasted(text, folder)
    return [
        (one["gpu"], one["level"])
        for one in findings
        if one["evidence"] != "no output shows the state of a GPU"
    ], kinds


def test_diagnostics_that_pass_say_nothing(tmp_path):
    four = rows(("software", "Pass"), ("", "GPU0: Pass"), ("memory", "Pass"), ("", "GPU0: Pass"))
    three = rows(
        ("PCIe", "Pass - All"), ("GPU Memory", "Skip - All"), ("Info", "GPU 0 failed over")
    )
    for body in (four, three):
        assert told(HEAD + body + EDGE, tmp_path) == ([], ["dcgm.txt"])


def test_a_test_that_failed_on_one_gpu_is_told_with_its_words(tmp_path):
    """go-dcgm#52"""
    body = rows(
        ("GPU Memory", "Pass - GPU: 1"),
        ("", "Fail - GPU: 0"),
        ("Warning", "GPU 0 Error using CUDA API cuCtxCreate Check"),
        ("", "DCGM and system logs for errors. Reset GPU. R"),
        ("", "estart DCGM. Rerun diagnostics."),
        ("Info", "GPU 1 is fine"),
    )
    findings, kinds = pasted(HEAD + body + EDGE, tmp_path)
    (failed,) = [one for one in findings if "cuCtxCreate" in one["evidence"]]
    assert kinds == ["dcgm.txt"] and (failed["gpu"], failed["level"]) == (0, "degraded")
    assert "Reset GPU. Restart DCGM" in failed["evidence"] and "GPU 1" not in failed["evidence"]


@pytest.mark.parametrize(
    ("body", "found"),
    [
        (
            (
                ("memory", "Fail"),
                ("", "GPU0: Pass"),
                ("", "GPU3: Fail"),
                ("Warning: GPU3", "Detected 2 volatile double-bit ECC error(s)"),
            ),
            [(3, "fatal")],
        ),
        (
            (("pcie", "Fail"), ("", "GPU1: Fail"), ("", "GPU2: Fail")),
            [(1, "degraded"), (2, "degraded")],
        ),
        ((("PCIe", "Fail - All"),), [(None, "degraded")]),
        ((("Fabric Manager", "Fail"), ("Warning", "not started")), [(None, "degraded")]),
        (
            (("software", "Warn"), ("Warning", "Persistence mode for GPU 0 is disabled.")),
            [(None, "warn")],
        ),
        (
            (
                ("Page Retirement/Row Remap", "Fail - GPU: 2"),
                ("Warning", "GPU 2 had uncorrectable memory errors"),
            ),
            [(2, "fatal")],
        ),
    ],
)
def test_what_failed_is_as_bad_as_its_words(body, found, tmp_path):
    assert told(HEAD + rows(*body) + EDGE, tmp_path) == (found, ["dcgm.txt"])


@pytest.mark.parametrize(
    ("state", "words", "level"),
    [
        ("Failure", "Detected 1 volatile double-bit ECC error(s) in GPU 3.", "fatal"),
        ("Failure", "Detected XID 79 for GPU 3", "fatal"),
        ("Warning", "Detected XID 13 for GPU 3", "warn"),
        ("Failure", "GPU 3's NvLink link 2 is currently down", "degraded"),
        ("Warning", "Detected more than 8 PCIe replays per minute", "warn"),
    ],
)
def test_the_health_that_dcgm_reports_is_told(state, words, level, tmp_path):
    half = words.rindex(" ", 0, 30)
    body = rows(
        ("Overall Health", state),
        ("GPU", ""),
        ("-> 3", state),
        ("   -> Errors", ""),
        ("      -> Memory system", state),
        ("", words[:half]),
        ("", words[half + 1 :]),
        width=56,
    )
    found = told(REPORT + body + WIDE, tmp_path)
    assert found == ([(3, level)], ["dcgm.txt"])
    healthy = REPORT + rows(("Overall Health", "Healthy"), width=56) + WIDE
    assert told(healthy, tmp_path) == ([], ["dcgm.txt"])


UTIL = """\
mc0: 0 Uncorrected Errors with no DIMM info
mc0: {} Corrected Errors with no DIMM info
mc0: csrow0: {} Uncorrected Errors
mc0: csrow0: CPU_SrcID#0_MC#0_Chan#0_DIMM#0: {} Corrected Errors
"""
FILES = """\
/sys/devices/system/edac/mc/mc0/ce_count:{}
/sys/devices/system/edac/mc/mc0/csrow0/ce_count:{}
/sys/devices/system/edac/mc/mc1/ue_count:{}
"""
SUMMARY = """\
Memory controller events summary:
\tCorrected on DIMM Label(s): 'DIMM_B1' location: 0:2:0:-1 errors: {}
\tCorrected on DIMM Label(s): 'DIMM_B2' location: 0:2:0:-1 errors: {}
\tUncorrected on DIMM Label(s): 'DIMM_C1' location: 1:2:0:-1 errors: {}
"""


@pytest.mark.parametrize(
    ("text", "levels"),
    [
        (UTIL.format(0, 0, 0), []),
        (UTIL.format(0, 0, 30), ["warn"]),
        (UTIL.format(12000, 0, 645), ["degraded"]),
        (UTIL.format(0, 1, 0), ["fatal"]),
        (FILES.format(600, 600, 0), ["warn"]),
        (FILES.format(12000, 12000, 3), ["degraded", "fatal"]),
        (SUMMARY.format(5, 0, 0), ["warn"]),
        (SUMMARY.format(900, 900, 2), ["degraded", "fatal"]),
        ("edac-util: No errors to report.\n", []),
    ],
)
def test_memory_errors_that_the_kernel_counted_are_told(text, levels, tmp_path):
    found, kinds = told(text, tmp_path)
    assert kinds == ["edac.txt"] and sorted(level for _, level in found) == levels


def test_a_text_about_these_tools_is_taken_for_none_of_them():
    for text in ("run dcgmi diag -r 3\n", "there were Corrected Errors\n", "| a | Fail |\n"):
        assert gpu_health.kind_of(text) == "unrecognised"


def diagnostic(*results, name="GPU Memory", of="DCGM GPU Diagnostic"):
    """`dcgmi diag -j` of one test."""
    tests = [{"name": name, "results": list(results)}]
    return json.dumps({of: {"test_categories": [{"category": "Hardware", "tests": tests}]}})


SETTING = "Persistence Mode: Persistence mode for GPU 0 is disabled. Enable it as root."
JSON_OF_DIAG = [
    ([{"gpu_ids": "0,1", "status": "Pass"}], []),
    ([{"gpu_id": "0", "status": "Skip"}, {"gpu_id": "1", "status": "Fail"}], [(1, "degraded")]),
    ([{"gpu_id": "1", "status": "Fail", "warnings": ["an uncorrectable error"]}], [(1, "fatal")]),
    ([{"gpu_ids": "0,1", "status": "Warn"}], [(0, "warn"), (1, "warn")]),
    (
        [
            {"entity_group": "GPU", "entity_id": 0, "status": "Pass"},
            {"entity_group": "GPU", "entity_id": 3, "status": "Fail", "warnings": [{"warning": "low bandwidth", "error_id": 9}]},
        ],
        [(3, "degraded")],
    ),
    ([{"entity_group": "CPU", "entity_id": 0, "status": "Fail"}], [(None, "degraded")]),
    ([{"entity_group": "GPU", "entity_id": 0, "status": "Fail", "warnings": [{"warning": SETTING}]}], [(0, "warn")]),
    (
        [{"entity_group": "GPU", "entity_id": 0, "status": "Fail", "warnings": [{"warning": SETTING}, {"warning": "DBE"}]}],
        [(0, "fatal")],
    ),
]  # fmt: skip


@pytest.mark.parametrize(("results", "found"), JSON_OF_DIAG)
@pytest.mark.parametrize("of", ["DCGM GPU Diagnostic", "DCGM Diagnostic"])
def test_the_json_of_a_diagnostic_is_read_as_its_table_is(results, found, of, tmp_path):
    text = f"Successfully ran diagnostic for group.\n{diagnostic(*results, of=of)}\n$ "
    assert told(text, tmp_path) == (found, ["dcgm.txt"])


def test_a_json_that_breaks_off_is_said(tmp_path):
    text = diagnostic({"gpu_id": "1", "status": "Fail"})[:120]
    assert told(text, tmp_path) == ([(None, "warn")], ["dcgm.txt"])


LIMITS = [
    # (the text, the processors and the GiB that it leaves, None where it tells none)
    ("$ cat /sys/fs/cgroup/cpu.max\n800000 100000\n$ cat /sys/fs/cgroup/memory.max\n68719476736\n", 8, 64),
    ("$ cat /sys/fs/cgroup/cpu.max /sys/fs/cgroup/memory.max\n250000 100000\n8589934592\n", 2.5, 8),
    ("/sys/fs/cgroup/cpu.max:400000 100000\n/sys/fs/cgroup/memory.max:max\n", 4, None),
    ("==> /sys/fs/cgroup/cpu.max <==\nmax 100000\n\n==> /sys/fs/cgroup/memory.max <==\n8589934592\n", None, 8),
    ("cpu.cfs_quota_us: 200000\ncpu.cfs_period_us: 100000\nmemory.limit_in_bytes: 9223372036854771712\n", 2, None),
    ("/sys/fs/cgroup/cpu/cpu.cfs_quota_us:-1\n/sys/fs/cgroup/cpu/cpu.cfs_period_us:100000\n", None, None),
    ("1600000 100000\n", 16, None),
    ("1600000 250000\n", None, None),
    ("68719476736\n", None, None),
    ("memory.max was too low, so I set\n68719476736 bytes\n", None, None),
    ("memory.maximum: 68719476736\n", None, None),
]  # fmt: skip


@pytest.mark.parametrize(("text", "processors", "memory"), LIMITS)
def test_the_limits_of_a_cgroup_are_compared_with_what_was_rented(
    text, processors, memory, tmp_path
):
    path = tmp_path / "pasted.txt"
    path.write_text(text, encoding="utf-8")
    asked = gpu_health.expectations_of("cpus=96,ram=512")
    evidence = {one["evidence"] for one in gpu_health.judge(gpu_health.load(str(path)), asked)}
    assert (f"cpus: {processors}" in evidence) == (processors is not None)
    assert ("cpus could not be read" in evidence) == (processors is None)
    assert (f"ram: {memory}.0 GiB" in evidence) == (memory is not None)
    assert ("ram could not be read" in evidence) == (memory is None)


def test_files_of_a_cgroup_are_known_by_their_names_and_beside_the_cards(tmp_path):
    folder = tmp_path / "box"
    folder.mkdir()
    (folder / "cpu.max").write_text("400000 100000\n")
    (folder / "memory.max").write_text("8589934592\n")
    cards = "".join(f"GPU {at}: NVIDIA H100 80GB HBM3 (UUID: GPU-{at})\n" for at in range(8))
    (folder / "list.txt").write_text(cards)
    found = gpu_health.judge(gpu_health.load(str(folder)))
    assert "this job may use 4 processors, for 8 GPUs" in [one["evidence"] for one in found]


def test_a_diagnostic_that_did_not_run_is_said(tmp_path):
    text = json.dumps({"DCGM Diagnostic": {"runtime_error": "no GPUs in this group"}})
    assert told(text, tmp_path) == ([(None, "warn")], ["dcgm.txt"])
