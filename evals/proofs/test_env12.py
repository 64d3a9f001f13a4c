"""ENV12: setuptools without pkg_resources, and what imports it."""

import os
import subprocess
import sys

import pytest

setuptools = pytest.importorskip("setuptools", minversion="82")

STAND_IN = "parse_requirements = None\n"  # for the module that setuptools below 82 brings


def run(code, folder, *path):
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, path))}
    return subprocess.run(
        [sys.executable, "-c", code],
        cwd=folder,
        env=env,
        capture_output=True,
        text=True,
        timeout=60,
    )


@pytest.fixture
def old_package(tmp_path):
    """A package whose setup.py asks for pkg_resources, and the call that pip makes to build it."""
    folder = tmp_path / "old"
    folder.mkdir()
    (folder / "setup.py").write_text(
        "import pkg_resources\nfrom setuptools import setup\nsetup(name='old', version='1', py_modules=[])\n"
    )
    return folder


BUILD = "from setuptools import build_meta; print(build_meta.get_requires_for_build_wheel())"


def test_an_import_fails(tmp_path, says):
    result = run("import setuptools, pkg_resources", tmp_path)
    assert result.returncode == 1
    says("ENV12", result.stderr)


def test_a_build_fails_inside_setup_py(old_package, says):
    result = run(BUILD, old_package)
    assert result.returncode == 1 and 'File "<string>"' in result.stderr
    says("ENV12", result.stderr)


def test_the_same_build_passes_where_the_module_is(old_package, tmp_path):
    (tmp_path / "pkg_resources.py").write_text(STAND_IN)
    result = run(BUILD, old_package, tmp_path)
    assert result.returncode == 0, result.stderr


def test_the_name_that_left_with_70(tmp_path, says):
    (tmp_path / "pkg_resources.py").write_text(STAND_IN)
    says("ENV12", run("from pkg_resources import packaging", tmp_path, tmp_path).stderr)


def test_a_newer_release_of_the_importing_package_needs_it_no_more(tmp_path):
    pytest.importorskip("tensorboard", minversion="2.21")
    result = run("import sys, tensorboard.default; print('pkg_resources' in sys.modules)", tmp_path)
    assert result.stdout.split()[-1:] == ["False"], result.stderr
