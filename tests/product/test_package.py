"""The package from outside: a wheel in a fresh environment, no POSIX-only module, found from a checkout as well."""

import json
import subprocess
import sys
import tarfile
import zipfile

import pytest

from tests.conftest import ROOT
from tests.engines.artifacts import built  # noqa: F401

POSIX_ONLY = (
    "fcntl",
    "grp",
    "pwd",
    "resource",
    "termios",
    "tty",
    "pty",
    "syslog",
    "readline",
    "posix_ipc",
    "nis",
    "crypt",
    "spwd",
)


JOB = """\
name: toy
command: [python, train.py]
deadline: 2h
gpus: 0
checkpoint: {folder: /data/out}
kubernetes: {image: "python:3.12", claim: data, mount: /data}
"""
TARGETS = {
    "ssh": "runpod",
    "local": "local",
    "slurm": "slurm",
    "kubernetes": "kubernetes",
    "skypilot": "aws",
}


@pytest.fixture(scope="module")
def wheel(built):
    [wheel] = built.glob("*.whl")
    return wheel


def test_a_wheel_carries_the_catalogue_the_ranking_and_the_skill(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    assert "remote_gpu_trainer/_bundle/references/training/convergence-debugging.md" in names
    assert "remote_gpu_trainer/_bundle/SKILL.md" in names
    for folder in ("references", "profiles", "scripts", "examples/jobs", "examples/series"):
        here = {
            path.relative_to(ROOT).as_posix()
            for path in (ROOT / folder).rglob("*")
            if path.is_file() and "__pycache__" not in path.parts
        }
        assert here <= {name.removeprefix("remote_gpu_trainer/_bundle/") for name in names}
    assert {
        f"remote_gpu_trainer/retrieval/{name}"
        for name in ("encoder.npz", "vectors.txt", "judge.json")
    } <= set(names)
    assert not any(name.startswith(("tests/", "evals/", "server/")) for name in names)


def test_an_sdist_carries_what_the_wheel_is_built_from_and_no_tests(built):
    with tarfile.open(next(built.glob("*.tar.gz"))) as archive:
        paths = [name.split("/", 1)[1] for name in archive.getnames()]
    names = {path.split("/")[0] for path in paths}
    examples = {path for path in paths if path.startswith("examples/")}
    assert all(path.startswith(("examples/jobs/", "examples/series/")) for path in examples)
    folders = {"server", "references", "profiles", "scripts", "hooks", "LICENSES", "examples"}
    texts = {"SKILL.md", "README.md", "README.zh-CN.md", "LICENSE", "NOTICE", "CHANGELOG.md"}
    made = {"PKG-INFO", ".gitignore"}
    assert names == folders | texts | made | {"SECURITY.md", "pyproject.toml"}


def test_the_installed_skill_has_programs_for_a_box_and_none_of_their_parts(wheel):
    prefix = "remote_gpu_trainer/_bundle/scripts/"
    scripts = [
        name.removeprefix(prefix)
        for name in zipfile.ZipFile(wheel).namelist()
        if name.startswith(prefix)
    ]
    assert {"probe.py", "snapshot.py"} <= set(scripts) and not any("/" in name for name in scripts)


def test_a_wheel_answers_in_a_fresh_environment_outside_the_checkout(wheel, tmp_path):
    subprocess.run([sys.executable, "-m", "venv", str(tmp_path / "v")], check=True)
    scripts = next(p for p in (tmp_path / "v" / "bin", tmp_path / "v" / "Scripts") if p.is_dir())
    subprocess.run(
        [str(scripts / "python"), "-m", "pip", "install", "-q", str(wheel)],
        check=True,
        capture_output=True,
    )
    log = tmp_path / "train.log"
    log.write_bytes((ROOT / "examples/logs/detached-loss.log").read_bytes())
    command = str(scripts / "remote-gpu-trainer")
    done = subprocess.run(
        [command, "lookup", "--log", str(log)], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert "--id O3;" in done.stdout
    lint = subprocess.run([command, "dev", "lint"], cwd=tmp_path, capture_output=True, text=True)
    assert (lint.returncode, lint.stdout) == (0, "")
    profile = subprocess.run(
        [command, "profile", "runpod"], cwd=tmp_path, capture_output=True, text=True
    )
    assert profile.returncode == 0 and profile.stdout.startswith("runpod: ")
    for example in (ROOT / "examples/jobs").glob("*.yaml"):
        shown = [command, "init", "--example", example.stem]
        printed = subprocess.run(shown, cwd=tmp_path, capture_output=True, text=True)
        assert (printed.returncode, printed.stdout) == (0, example.read_text(encoding="utf-8"))
    (tmp_path / "job.yaml").write_text(JOB)
    for target, platform in TARGETS.items():
        render = [command, "render", "job.yaml", "--target", target, "--profile", platform]
        made = subprocess.run(render, cwd=tmp_path, capture_output=True, text=True)
        assert made.returncode == 0, made.stderr
        assert "RGT_NAME=toy" in made.stdout and "# run.d/end" in made.stdout, target
    stale = subprocess.run(
        [command, "staleness", "--on", "2020-01-01", "--json"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert (stale.returncode, json.loads(stale.stdout)["stale"]) == (0, []), stale.stderr


def test_the_package_imports_where_posix_only_modules_do_not_exist():
    program = f"""
import sys
class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name in {POSIX_ONLY!r}:
            raise ModuleNotFoundError(name)
# Libraries may use them behind a guard of their own: they are loaded before the block.
import mcp.server, pydantic, packaging.requirements
for name in {POSIX_ONLY!r}:
    sys.modules.pop(name, None)
sys.meta_path.insert(0, Blocked())
import pkgutil, importlib, remote_gpu_trainer
names = [m.name for m in pkgutil.walk_packages(remote_gpu_trainer.__path__, 'remote_gpu_trainer.') if not m.name.endswith('.__main__')]
# The runner runs on a box with Linux; of it the package itself reads tables.
names = [name for name in names if not name.startswith('remote_gpu_trainer.runner.')]
for name in names:
    importlib.import_module(name)
print(len(names))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) >= 80


def test_the_block_of_that_test_works():
    program = "import sys\nclass B:\n    def find_spec(self, n, p=None, t=None):\n        if n == 'fcntl': raise ModuleNotFoundError(n)\nsys.modules.pop('fcntl', None)\nsys.meta_path.insert(0, B())\nimport fcntl"
    assert subprocess.run([sys.executable, "-c", program], capture_output=True).returncode == 1


def test_one_version_stands_in_one_place():
    from remote_gpu_trainer import __version__

    assert "version = " not in (ROOT / "pyproject.toml").read_text().split("[project.optional")[
        0
    ].replace('dynamic = ["version"]', "")
    assert f'version: "{__version__}"' in (ROOT / "SKILL.md").read_text()
