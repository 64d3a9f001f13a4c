"""What the build command makes, made once a test run, and the wheel installed where nothing else of this checkout is."""

import os
import site
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from tests.conftest import ROOT


@pytest.fixture(scope="session")
def built(shared):
    """The folder with wheel, sdist and plugin, from the one build command."""

    def build(out: Path):
        done = subprocess.run(
            [sys.executable, str(ROOT / "tools" / "build.py"), "--out", str(out)],
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr[-2000:]

    return shared.folder("dist", build)


@pytest.fixture(scope="session")
def programs(built, shared):
    """The folder of programs of an environment that holds the wheel, and borrows its dependencies: no network, nothing of the checkout."""
    [wheel] = built.glob("*.whl")
    place = shared.folder("installed", lambda place: _install(wheel, place))
    return _scripts(place)


def _scripts(place: Path) -> Path:
    return place / ("Scripts" if os.name == "nt" else "bin")


def _install(wheel: Path, place: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(place)], check=True)
    python = _scripts(place) / "python"
    subprocess.run(
        [
            sys.executable,
            "-m",
            "pip",
            "--python",
            str(python),
            "install",
            "-q",
            "--no-deps",
            "--no-index",
            str(wheel),
        ],
        check=True,
        capture_output=True,
    )
    asked = subprocess.run(
        [str(python), "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"],
        capture_output=True,
        text=True,
        check=True,
    )
    borrowed = {
        sysconfig.get_path("purelib"),
        sysconfig.get_path("platlib"),
        *site.getsitepackages(),
    }
    Path(asked.stdout.strip(), "borrowed.pth").write_text("\n".join(sorted(borrowed)) + "\n")
    where = subprocess.run(
        [str(python), "-I", "-c", "import remote_gpu_trainer as r; print(r.__file__)"],
        capture_output=True,
        text=True,
        check=True,
        cwd=place,
    )
    assert str(place) in where.stdout, "the wheel's own package must be the one that is imported"


@pytest.fixture
def home(tmp_path, programs):
    """An environment without anybody's account or configuration: the installed wheel, the clients, an empty home."""
    (tmp_path / "home").mkdir()
    # With any plugin in its configuration opencode fetches a package of its own from npm, and waits a minute when it can't.
    (tmp_path / "home" / ".npmrc").write_text("offline=true\nfetch-retries=0\n")
    path = os.pathsep.join(
        filter(
            None,
            [
                str(programs),
                os.environ.get("CLIENTS", ""),
                *_ripgrep(),
                "/usr/local/bin",
                "/usr/bin",
                "/bin",
            ],
        )
    )
    return {
        "HOME": str(tmp_path / "home"), "PATH": path, "LANG": "C.UTF-8", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "CLAUDE_CODE_MCP_STARTUP_WAIT_MS": "30000",  # on a busy machine the first turn would start without a plugin's server
        "OPENCODE_DISABLE_AUTOUPDATE": "1", "OPENCODE_DISABLE_MODELS_FETCH": "1",
    }  # fmt: skip


def _ripgrep() -> list[str]:
    """opencode's skill tool needs rg; Codex brings one."""
    clients = os.environ.get("CLIENTS")
    found = (
        sorted(Path(clients).parent.glob("@openai/codex-*/vendor/*/codex-path/rg"))
        if clients
        else []
    )
    return [str(found[0].parent)] if found else []


@pytest.fixture
def project(tmp_path):
    """An empty folder to work in, a repository like any other: clients look upwards for their configuration."""
    folder = tmp_path / "project"
    (folder / ".git").mkdir(parents=True)
    return folder


def run(command, env, cwd, seconds=90):
    """Run a program; its output and errors as text. The caller looks at the text: exit codes of several clients say nothing."""
    return subprocess.run(
        [str(part) for part in command],
        env=env,
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=seconds,
    )
