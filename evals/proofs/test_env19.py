"""ENV19: pip builds in an environment of its own, in which torch isn't there, though it is installed."""

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
from check_code import span
from stub_box import Box

pytest.importorskip("pip")
if not (Path(sysconfig.get_path("purelib")) / "_distutils_hack").is_dir():
    pytest.skip("setuptools is not installed here", allow_module_level=True)
if not sys.platform.startswith("linux"):
    pytest.skip("setuptools by a link", allow_module_level=True)


@pytest.fixture
def extension(tmp_path):
    """A package whose setup.py imports torch and does not say so. setuptools is lent to it, since no index is at hand."""
    lent = tmp_path / "lent"
    lent.mkdir()
    for name in ("setuptools", "_distutils_hack"):
        (lent / name).symlink_to(Path(sysconfig.get_path("purelib")) / name)
    folder = tmp_path / "extension"
    folder.mkdir()
    (folder / "setup.py").write_text(
        "import torch\nfrom setuptools import setup\n"
        "setup(name='extension', version='1+pt' + torch.__version__[:3], py_modules=[])\n"
    )
    (folder / "backend.py").write_text(
        f"import sys\nsys.path.append({str(lent)!r})\nfrom setuptools.build_meta import *\n"
    )
    (folder / "pyproject.toml").write_text(
        "[build-system]\nrequires = []\nbuild-backend = 'backend'\nbackend-path = ['.']\n"
    )
    return folder


def install(*options, folder):
    env = {k: v for k, v in os.environ.items() if not k.startswith(("PIP_", "UV_", "PYTHONPATH"))}
    env |= {"PIP_CONFIG_FILE": os.devnull, "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    command = [*options, "--dry-run", "--no-index", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=env)
    return done.returncode, done.stdout + done.stderr


def joined(text: str) -> str:
    """A signature may go over two lines; `says` looks at one."""
    return " ".join(text.split())


def test_pip_builds_without_torch(extension, says):
    status, output = install(sys.executable, "-m", "pip", "install", folder=extension)
    assert status == 1 and "Getting requirements to build wheel did not run successfully" in output
    says("ENV19", joined(output))


def test_the_same_torch_is_found_without_isolation(extension):
    status, output = install(
        sys.executable, "-m", "pip", "install", "--no-build-isolation", folder=extension
    )
    assert status == 0 and "Would install extension" in output, output


def test_uv_builds_without_torch(extension):
    if not (uv := shutil.which("uv")):
        pytest.skip("uv is not installed")
    command = [
        uv,
        "pip",
        "install",
        "--no-cache",
        "--python",
        sys.executable,
        "--target",
        str(extension / "to"),
    ]
    status, output = install(*command, folder=extension)
    assert status != 0 and "No module named 'torch'" in output


@pytest.mark.parametrize("text", [
    "hint: This error likely indicates that `flash-attn@2.8.1` depends on `torch`, but doesn't declare it as a build dependency.",
    "hint: This error likely indicates that a package depends on `torch`, but doesn't declare it as a build dependency.",
    "      ModuleNotFoundError: No module named 'torch' ----------------------------------------",
    "nvcc error   : 'cicc' died due to signal 9 (Kill signal)",
])  # fmt: skip
def test_texts_of_uv_old_pip_and_nvcc(text, says):
    says("ENV19", text)


def test_a_plain_import_is_not_this(says):
    with pytest.raises(AssertionError, match="none of the signatures"):
        says("ENV19", "ModuleNotFoundError: No module named 'torch'")


def test_the_check_shows_one_folder_twice_unless_pip_belongs_to_another_python(tmp_path):
    box = Box(tmp_path)
    box.package("torch", "2.13.0", "__version__ = '2.13.0'\n")

    def folders():
        pip, torch = box.said(span("ENV19", "pip debug")).splitlines()
        return Path(pip.split()[-1]).parent, Path(torch.split()[0]).parent

    box.program("pip", f'exec {sys.executable} -m pip "$@"')
    pip, torch = folders()
    assert pip == torch
    box.program("pip", 'echo "pip version: 23.0.1"; echo "sys.executable: /usr/bin/python3"')
    pip, torch = folders()
    assert pip != torch
