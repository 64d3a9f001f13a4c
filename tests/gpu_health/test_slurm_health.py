"""Slurm's own health check with scripts/slurm_health_check.sh: a real slurmd runs it, and an unfit node is drained with the reason."""

import os
import shutil
import subprocess
import tempfile
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.engines import slurm as engine
from tests.engines.fake_smi import fake_smi

LOST = "[ 9000.500000] NVRM: Xid (PCI:0000:4e:00): 79, pid=1234, name=python3, GPU has fallen off the bus.\n"
IDLE = "NodeName=n State=IDLE ThreadsPerCore=1 CfgTRES=cpu=2"
DRAINED = "NodeName=n State=IDLE+DRAIN ThreadsPerCore=1 CfgTRES=cpu=2 Reason={} [root@2026-11-20T10:00:00]"


def install(place: Path) -> Path:
    """Both files in one folder, as on a node."""
    place.mkdir(parents=True, exist_ok=True)
    for name in ("slurm_health_check.sh", "gpu_health.py"):
        shutil.copy(ROOT / "scripts" / name, place)
    return place / "slurm_health_check.sh"


@pytest.fixture
def node(tmp_path):
    """node(settings, state) runs the script beside a scontrol that keeps what it is asked; -> (code, stdout, its changes)."""
    script, fakes = install(tmp_path / "opt"), fake_smi(tmp_path / "bin")
    (fakes / "scontrol").write_text(
        f'#!/bin/sh\ncase $1 in show) cat {tmp_path}/state ;; *) echo "$*" >>{tmp_path}/changes; [ ! -e {tmp_path}/refuse ] ;; esac\n'
    )
    (fakes / "scontrol").chmod(0o755)

    def run(settings="", state=IDLE):
        (tmp_path / "state").write_text(state + "\n")
        (tmp_path / "changes").write_text("")
        (script.parent / "gpu_health.conf").write_text(settings)
        done = subprocess.run(
            [script],
            env={"PATH": f"{fakes}:{os.environ['PATH']}", "SLURMD_NODENAME": "n"},
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert "Traceback" not in done.stdout + done.stderr
        return done.returncode, done.stdout, (tmp_path / "changes").read_text().splitlines()

    run.fakes, run.place = fakes, tmp_path
    return run


def test_a_fit_node_is_left_alone(node):
    assert node() == (0, "slurm_health_check: fit\n", [])


def test_an_unfit_node_is_drained_with_the_card_and_the_literal_line(node):
    fake_smi(node.fakes, log=LOST)
    code, said, changes = node()
    assert code == 1
    assert len(changes) == 1 and changes[0].startswith(
        "update NodeName=n State=DRAIN Reason=gpu_health: unfit, fatal GPU 3: "
    )
    assert "Xid (PCI:0000:4e:00): 79" in changes[0] and "is drained" in said


def test_a_node_that_is_not_what_was_paid_for_is_drained(node):
    code, _, changes = node("GPU_HEALTH_EXPECT='gpus=8,name=H200'\n")
    assert code == 1 and "expected" not in changes[0] and "H100" in changes[0]


def test_a_node_that_is_drained_already_keeps_its_reason(node):
    fake_smi(node.fakes, log=LOST)
    code, said, changes = node(state=DRAINED.format("new cable on Monday"))
    assert (code, changes) == (1, []) and "its reason: new cable on Monday" in said


@pytest.mark.parametrize(
    ("settings", "reason", "resumed"),
    [
        ("", "gpu_health: unfit", False),
        ("GPU_HEALTH_RESUME=yes\n", "gpu_health: unfit", True),
        ("GPU_HEALTH_RESUME=yes\n", "new cable on Monday", False),
    ],
    ids=["not unless told", "told, and ours", "never another's"],
)
def test_a_fit_node_is_resumed_only_when_told_and_drained_by_us(node, settings, reason, resumed):
    code, _, changes = node(settings, DRAINED.format(reason))
    assert code == 0 and changes == (["update NodeName=n State=RESUME"] if resumed else [])


def test_what_could_not_be_told_drains_nothing_unless_told(node):
    settings = "GPU_HEALTH_SCRIPT=/nowhere.py\n"
    code, said, changes = node(settings)
    assert (code, changes) == (2, []) and "unknown: no verdict (exit 2)" in said
    assert "State=DRAIN" in node(settings + "GPU_HEALTH_DRAIN_ON='unfit unknown'\n")[2][0]


def test_a_look_that_takes_too_long_is_no_verdict(node):
    (node.place / "slow.py").write_text("import time\ntime.sleep(30)\n")
    code, said, changes = node(f"GPU_HEALTH_SECONDS=1 GPU_HEALTH_SCRIPT={node.place}/slow.py\n")
    assert (code, changes) == (2, []) and "no verdict within 1 s" in said


def test_a_program_that_says_fit_and_ends_with_an_error_is_not_believed(node):
    (node.place / "odd.py").write_text("print('verdict: fit')\nraise SystemExit(3)\n")
    assert node(f"GPU_HEALTH_SCRIPT={node.place}/odd.py\n")[0] == 2


def test_a_refused_drain_is_an_error(node):
    fake_smi(node.fakes, log=LOST)
    (node.place / "refuse").write_text("")
    assert node()[0] == 2


def test_hostile_evidence_reaches_the_reason_as_plain_text(node):
    (node.place / "bad.py").write_text(
        "print('verdict: unfit\\nfatal GPU 0: $(touch x) `id` \\x1b[31m State=RESUME \"; é' + 'A' * 500)\nraise SystemExit(1)\n"
    )
    [change] = node(f"GPU_HEALTH_SCRIPT={node.place}/bad.py\n")[2]
    assert change.startswith(
        "update NodeName=n State=DRAIN Reason=gpu_health: unfit, fatal GPU 0: (touch x)"
    )
    assert not set("$`\x1b\"'\\é") & set(change) and len(change) < 300


def test_a_real_slurmd_drains_the_unfit_node_with_the_reason_and_resumes_it(monkeypatch):
    path = os.environ["PATH"] + ":/usr/sbin:/sbin"
    missing = [name for name in engine.PROGRAMS if not shutil.which(name, path=path)]
    if missing or os.getuid() != 0:
        (pytest.fail if os.environ.get("REQUIRE_ENGINES") else pytest.skip)(
            f"no Slurm as root here ({', '.join(missing)}): {engine.INSTALL}"
        )
    with ExitStack() as stack:
        at = Path(tempfile.mkdtemp(prefix="slurm-health", dir="/tmp"))
        stack.callback(shutil.rmtree, at, ignore_errors=True)
        script, fakes = install(at / "opt"), fake_smi(at / "smi")
        healthy = fake_smi(at / "healthy")
        (script.parent / "gpu_health.conf").write_text(
            f'GPU_HEALTH_RESUME=yes\nexport SLURM_CONF={at}/slurm.conf\nif [ "$SLURMD_NODENAME" = gpu ]; then PATH={fakes}:$PATH; else PATH={healthy}:$PATH; fi\n'
        )
        monkeypatch.setattr(
            engine,
            "CONFIG",
            f"HealthCheckProgram={script}\nHealthCheckInterval=2\nHealthCheckNodeState=ANY\n"
            + engine.CONFIG,
        )
        slurm = engine.start(at, stack, path)

        def state(name: str) -> str:
            return slurm.client("scontrol", "show", "node", name, "--oneliner").stdout

        fake_smi(fakes, log=LOST)
        slurm.wait(
            lambda: "DRAIN" in state("gpu").partition(" State=")[2].split()[0],
            "the unfit node isn't drained",
            40,
        )
        assert "Reason=gpu_health: unfit, fatal GPU 3: " in state(
            "gpu"
        ) and "Xid (PCI:0000:4e:00): 79" in state("gpu")
        assert "DRAIN" not in state("z")
        log = (at / "log/slurmd-gpu.log").read_text()
        assert "health_check failed: rc:1" in log and "node gpu is drained" in log
        fake_smi(fakes)
        slurm.wait(
            lambda: "DRAIN" not in state("gpu"), "the node that is fit again isn't resumed", 40
        )
