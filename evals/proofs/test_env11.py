"""ENV11: the driver's module in the kernel and its libraries on disk have different versions."""

import subprocess

import pytest


@pytest.mark.parametrize(("on_disk", "same"), [("535.161.08", True), ("570.86.15", False)])
def test_the_check_shows_both_versions(tmp_path, shell_of, on_disk, same):
    (tmp_path / "version").write_text("535.161.08\n")
    for library in ("libcuda", "libnvidia-ml"):
        (tmp_path / f"{library}.so.{on_disk}").write_text("")
        (tmp_path / f"{library}.so.1").symlink_to(f"{library}.so.{on_disk}")
    ldconfig = tmp_path / "ldconfig"
    ldconfig.write_text(
        "#!/bin/sh\n"
        f"echo '	libnvidia-ml.so.1 (libc6,x86-64) => {tmp_path}/libnvidia-ml.so.1'\n"
        f"echo '	libcuda.so.1 (libc6,x86-64) => {tmp_path}/libcuda.so.1'\n"
        f"echo '	libcudart.so.12 (libc6,x86-64) => {tmp_path}/libcudart.so.12'\n"
    )
    ldconfig.chmod(0o755)
    code = shell_of("ENV11", "ldconfig").replace(
        "/sys/module/nvidia/version", f"{tmp_path}/version"
    )
    module, *files = subprocess.run(
        ["bash", "-c", f"PATH={tmp_path}:$PATH; {code}"], capture_output=True, text=True, check=True
    ).stdout.split()
    assert len(files) == 2
    assert [file.endswith(module) for file in files] == [same, same]


def test_the_texts_are_recognised(says):
    says("ENV11", "Failed to initialize NVML: Driver/library version mismatch")
    says("ENV11", "NVRM: API mismatch: the client has the version 570.86.15, but")
