"""CMP2: what the small builds of Triton and Inductor say without a compiler, headers or libcuda, and with them."""

import os
import shutil
import subprocess
import sys

import pytest
import torch._inductor.config as config
from check_code import span
from torch._inductor.cpp_builder import get_cpp_compiler
from torch._inductor.exc import InvalidCxxCompiler

GCC = shutil.which("gcc")
pytestmark = pytest.mark.skipif(sys.platform != "linux" or not GCC, reason="needs gcc on Linux")


@pytest.fixture
def build(tmp_path, monkeypatch):
    """Builds a file as Triton does; returns the exit status and the text."""
    monkeypatch.setenv("LC_ALL", "C")
    (tmp_path / "cuda_utils.c").write_text("#include <Python.h>\nint one(void) { return 1; }\n")

    def run(*options):
        command = [
            GCC,
            str(tmp_path / "cuda_utils.c"),
            "-O3",
            "-shared",
            "-fPIC",
            "-o",
            str(tmp_path / "cuda_utils.so"),
            *options,
        ]
        finished = subprocess.run(command, capture_output=True, text=True)
        return finished.returncode, finished.stderr

    return run


@pytest.fixture
def headers(tmp_path):
    folder = tmp_path / "include"
    folder.mkdir()
    (folder / "Python.h").write_text("")
    return f"-I{folder}"


def test_without_headers_the_build_stops_with_the_signature_and_with_their_folder_it_works(
    build, headers, says, tmp_path
):
    empty = tmp_path / "empty"
    empty.mkdir()
    status, text = build("-nostdinc", f"-I{empty}")  # a Python.h of this box can't help
    assert status and "fatal error: Python.h: No such file or directory" in text
    says("CMP2", text)
    assert build("-nostdinc", headers) == (0, "")


def test_without_libcuda_the_linker_stops_and_a_link_in_library_path_cures_it(
    build, headers, says, tmp_path, monkeypatch
):
    status, text = build(headers, "-lcuda")
    if status:  # no driver on this box
        assert "cannot find -lcuda" in text
        says("CMP2", text)
    drivers, links = tmp_path / "drivers", tmp_path / "cu"
    for folder in (drivers, links):
        folder.mkdir()
    subprocess.run(
        [GCC, "-shared", "-nostdlib", "-o", str(drivers / "libcuda.so.1"), "-x", "c", os.devnull],
        check=True,
    )
    (links / "libcuda.so").symlink_to(drivers / "libcuda.so.1")
    monkeypatch.setenv("LIBRARY_PATH", str(links))
    assert build(headers, "-lcuda") == (0, "")


def test_inductor_names_the_missing_compiler_and_takes_one_that_is_there(says):
    with (
        config.patch({"cpp.cxx": (None, "/nowhere/g++")}),
        pytest.raises(InvalidCxxCompiler) as error,
    ):
        get_cpp_compiler()
    says("CMP2", str(error.value))
    with config.patch({"cpp.cxx": (None, GCC)}):
        assert get_cpp_compiler() == GCC


def test_other_texts_are_found(says):
    for text in ("RuntimeError: Failed to find C compiler. Please specify via CC environment variable.",
                 "RuntimeError: Failed to find C compiler. Please specify via CC environment variable or set triton.knobs.build.impl.",
                 "/tmp/tmppap3l7o5/main.c:4:10: fatal error: Python.h: No such file or directory",
                 "/usr/bin/ld: cannot find -lcuda: No such file or directory",
                 "/usr/bin/ld: cannot find -l:libcuda.so.1: No such file or directory",
                 "AssertionError: libcuda.so cannot found!",
                 "subprocess.CalledProcessError: Command '['/usr/bin/gcc', '/tmp/tmpe7nu9b0l/main.c', '-O3', '-shared', '-fPIC']' "
                 "returned non-zero exit status 1."):  # fmt: skip
        says("CMP2", text)


@pytest.mark.parametrize("missing", ["gcc", "Python.h", None])
def test_the_part_of_the_check_that_prints_nothing_is_what_is_missing(tmp_path, missing):
    programs, headers = tmp_path / "bin", tmp_path / "include"
    for folder in (programs, headers):
        folder.mkdir()
    for program in ("ls", "grep"):
        (programs / program).symlink_to(shutil.which(program))
    for name, line in (("python", f"echo {headers}"), ("ldconfig", "echo libcuda.so.1")):
        (programs / name).write_text(f"#!/bin/sh\n{line}\n")
        (programs / name).chmod(0o755)
    if missing != "gcc":
        (programs / "gcc").symlink_to(GCC)
    if missing != "Python.h":
        (headers / "Python.h").write_text("")
    done = subprocess.run(
        [shutil.which("bash"), "-c", span("CMP2", "command -v $CC gcc").replace("/sbin/", "")],
        env={"PATH": str(programs), "LC_ALL": "C"},
        capture_output=True,
        text=True,
    )
    assert (f"{programs}/gcc" in done.stdout) is (missing != "gcc")
    assert (f"{headers}/Python.h" in done.stdout) is (missing != "Python.h")
    assert "libcuda.so.1" in done.stdout and bool(done.stderr) is (missing == "Python.h")
