"""ENV15: pip keeps off a Python that the system manages, and packages of one Python aren't seen by another."""

import os
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

pip = pytest.importorskip("pip")
if not sys.platform.startswith("linux"):
    pytest.skip("a copy of the library folder by links", allow_module_level=True)

PIP = ["-m", "pip", "--disable-pip-version-check"]
BASE = str(Path(getattr(sys, "_base_executable", sys.executable)).resolve())


@pytest.fixture
def managed(tmp_path):
    """Environment variables under which the base Python takes tmp_path for its home, whose library is marked."""
    real = Path(sysconfig.get_path("stdlib"))
    library = tmp_path / "home" / "lib" / real.name
    library.mkdir(parents=True)
    for entry in real.iterdir():
        if entry.name not in ("EXTERNALLY-MANAGED", "site-packages", "dist-packages"):
            (library / entry.name).symlink_to(entry)
    (library / "site-packages").mkdir()
    (library / "site-packages" / "pip").symlink_to(Path(pip.__file__).parent)
    (library / "EXTERNALLY-MANAGED").write_text(
        "[externally-managed]\nError=To install Python packages system-wide, try apt.\n"
    )
    env = {
        k: v for k, v in os.environ.items() if not k.startswith(("PIP_", "PYTHON", "VIRTUAL_ENV"))
    }
    return {
        **env,
        "PYTHONHOME": str(tmp_path / "home"),
        "PYTHONPATH": str(library / "site-packages"),
    }


@pytest.fixture
def package(tmp_path):
    path = tmp_path / "tracker-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("tracker.py", "here = __file__\n")
        file.writestr(
            "tracker-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: tracker\nVersion: 1.0\n"
        )
        file.writestr(
            "tracker-1.0.dist-info/WHEEL",
            "Wheel-Version: 1.0\nGenerator: hand\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        )
        file.writestr("tracker-1.0.dist-info/RECORD", "")
    return path


def run(*command, env=None):
    return subprocess.run(
        [str(c) for c in command], capture_output=True, text=True, timeout=120, env=env
    )


def test_the_marked_python_is_refused_and_an_environment_is_not(managed, package, tmp_path, says):
    result = run(BASE, *PIP, "install", "--no-index", package, env=managed)
    assert result.returncode == 1
    says("ENV15", result.stderr)
    made = run(BASE, "-m", "venv", "--without-pip", tmp_path / "env", env=managed)
    assert made.returncode == 0, made.stderr
    result = run(tmp_path / "env/bin/python", *PIP, "install", "--no-index", package, env=managed)
    assert result.returncode == 0, result.stderr


def test_pip_of_one_python_and_another_python(package, tmp_path):
    for name in "ab":
        assert (
            run(
                sys.executable,
                "-m",
                "venv",
                "--without-pip",
                "--system-site-packages",
                tmp_path / name,
            ).returncode
            == 0
        )
    env = {**os.environ, "PYTHONPATH": str(Path(pip.__file__).parents[1])}
    one, other = (tmp_path / name / "bin/python" for name in "ab")
    assert run(one, *PIP, "install", "--no-index", package, env=env).returncode == 0
    assert (
        "Requirement already satisfied"
        in run(
            one, *PIP, "install", "--no-index", "--find-links", tmp_path, "tracker", env=env
        ).stdout
    )
    assert "No module named 'tracker'" in run(other, "-c", "import tracker").stderr
    # A launcher starts the Python of its first line, whatever `python` is.
    launcher = tmp_path / "launch"
    launcher.write_text(f"#!{one}\nimport tracker\n")
    launcher.chmod(0o755)
    assert (
        run(
            launcher, env={**os.environ, "PATH": f"{tmp_path}/b/bin:{os.environ['PATH']}"}
        ).returncode
        == 0
    )
    assert run(other, *PIP, "install", "--no-index", package, env=env).returncode == 0
    assert run(other, "-c", "import tracker").returncode == 0


def test_the_check_tells_two_pythons_from_one_behind_wrappers(tmp_path, shell_of):
    made = run(BASE, "-m", "venv", "--without-pip", "--system-site-packages", tmp_path / "env")
    assert made.returncode == 0, made.stderr

    def folders(pips_python):
        for name, line in {
            "python": f'exec "{BASE}" "$@"',
            "pip": f'exec "{pips_python}" -m pip "$@"',
            "torchrun": "",
        }.items():
            wrapper = tmp_path / name
            first = "#!/bin/sh" if line else f"#!{BASE}"
            wrapper.write_text(f"{first}\n{line}\n")
            wrapper.chmod(0o755)
        env = {**os.environ, "PATH": f"{tmp_path}:/usr/bin:/bin"}
        shown = run("bash", "-c", shell_of("ENV15", "pip debug"), env=env).stdout.splitlines()
        assert len(shown) == 3, shown
        return {os.path.dirname(line.split()[-1].lstrip("#!")) for line in shown}

    assert len(folders(BASE)) == 1
    assert len(folders(tmp_path / "env/bin/python")) == 2
