"""ENV18: pip and uv find no wheel of that version for this Python, this system or this index, and one that fits is found."""

import os
import shutil
import subprocess
import sys
import zipfile

import pytest

pytest.importorskip("pip")
if not sys.platform.startswith("linux"):
    pytest.skip("wheels with the tags of Linux", allow_module_level=True)

PIP = [
    sys.executable,
    "-m",
    "pip",
    "--disable-pip-version-check",
    "install",
    "--dry-run",
    "--ignore-installed",
]
HERE = f"cp{sys.version_info.major}{sys.version_info.minor}"
OLDER = f"cp{sys.version_info.major}{sys.version_info.minor - 1}"


@pytest.fixture
def index(tmp_path):
    """A folder that stands for an index. pip and uv choose by the names of its files."""

    def add(version: str, python: str, system: str) -> None:
        with zipfile.ZipFile(
            tmp_path / f"torch-{version}-{python}-{python}-{system}.whl", "w"
        ) as wheel:
            folder = f"torch-{version}.dist-info"
            wheel.writestr(
                f"{folder}/METADATA", f"Metadata-Version: 2.1\nName: torch\nVersion: {version}\n"
            )
            wheel.writestr(
                f"{folder}/WHEEL",
                f"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: {python}-{python}-{system}\n",
            )
            wheel.writestr(f"{folder}/RECORD", "")

    machine = os.uname().machine
    add("1.13.1", OLDER, f"manylinux1_{machine}")  # made for another Python
    add("2.8.0", HERE, f"manylinux_2_90_{machine}")  # for a newer C library
    add("2.9.0", HERE, "manylinux_2_17_s390x")  # for another processor
    add("2.13.0", HERE, f"manylinux_2_17_{machine}")
    return tmp_path


def run(*command):
    env = {k: v for k, v in os.environ.items() if not k.startswith(("PIP_", "UV_"))}
    env["PIP_CONFIG_FILE"] = os.devnull
    done = subprocess.run(
        [str(c) for c in command], capture_output=True, text=True, timeout=60, env=env
    )
    return done.returncode, done.stdout + done.stderr


def test_pip(index, says):
    lines = []
    for asked in ("torch==1.13.1", "torch==2.13.0+cu118", "torch==2.9.0"):
        status, output = run(*PIP, "--no-index", "--find-links", index, asked)
        assert status == 1 and "(from versions: 2.13.0)" in output
        lines += output.splitlines()[-2:]
    for line in lines:
        says("ENV18", line)
    status, output = run(*PIP, "--no-index", "--find-links", index, "torch")
    assert status == 0 and "Would install torch-2.13.0" in output


def test_pip_without_any_index(says):
    status, output = run(*PIP, "--no-index", "torch==2.13.0")
    assert status == 1 and "(from versions: none)" in output
    says("ENV18", output)


def test_a_wheel_by_its_name(index, says):
    status, output = run(*PIP, "--no-index", next(index.glob("torch-1.13.1*")))
    assert status == 1
    says("ENV18", output)


def test_uv(index, says):
    if not (uv := shutil.which("uv")):
        pytest.skip("uv is not installed")
    command = [
        uv,
        "pip",
        "install",
        "--dry-run",
        "--no-cache",
        "--python",
        sys.executable,
        "--target",
        index / "to",
    ]
    for asked, part in {
        "torch==1.13.1": "we only found wheels for",
        "torch==2.8.0": "Wheels are available for",
        "torch==2.5.1": "there is no version of",
    }.items():
        status, output = run(*command, "--no-index", "--find-links", index, asked)
        assert status == 1
        lines = [line for line in output.splitlines() if part in line]
        says("ENV18", lines[0])
        says("ENV18", next(line for line in output.splitlines() if "Because" in line))
    assert run(*command, "--no-index", "--find-links", index, "torch==2.13.0")[0] == 0
