"""U46: what a clock that is behind does to certificates and files."""

import os
import shutil
import subprocess
import time

import pytest


def run(command, folder):
    finished = subprocess.run(
        command,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=30,
        env={**os.environ, "LC_ALL": "C"},
    )
    return finished.stdout + finished.stderr


def in_an_hour(path):
    path.write_text("x")
    os.utime(path, (time.time() + 3600,) * 2)


@pytest.mark.skipif(not shutil.which("openssl"), reason="needs openssl")
def test_a_good_certificate_is_not_yet_valid_on_a_clock_that_is_behind(tmp_path, says):
    run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", "key", "-out", "cert",
         "-days", "3", "-subj", "/CN=localhost"], tmp_path)  # fmt: skip
    verify = ["openssl", "verify", "-CAfile", "cert"]
    assert "cert: OK" in run([*verify, "cert"], tmp_path)
    says("U46", run([*verify, "-attime", str(int(time.time()) - 86400), "cert"], tmp_path))
    assert "certificate has expired" in run(
        [*verify, "-attime", str(int(time.time()) + 9 * 86400), "cert"], tmp_path
    )


@pytest.mark.skipif(not shutil.which("make"), reason="needs make")
def test_make_complains_about_a_file_from_the_future(tmp_path, says):
    (tmp_path / "Makefile").write_text("a: b\n\t@touch a\n")
    in_an_hour(tmp_path / "b")
    text = run(["make"], tmp_path)
    for line in text.splitlines():
        says("U46", line)
    assert len(text.splitlines()) == 2


def test_find_lists_files_from_the_future(tmp_path):
    in_an_hour(tmp_path / "cache.bin")
    (tmp_path / "old.bin").write_text("x")
    assert (
        run(["bash", "-c", """find . -type f -newermt "$(date -d '+1 min' '+%F %T')" """], tmp_path)
        == "./cache.bin\n"
    )


def test_texts_of_services_are_found(says):
    for text in (
        "botocore.exceptions.ClientError: An error occurred (RequestTimeTooSkewed) when calling the CreateMultipartUpload operation: "
        "The difference between the request time and the current time is too large.",
        "x509: certificate has expired or is not yet valid: current time 2021-01-01T00:00:07Z is before 2025-06-02T08:35:41Z",
        "google.auth.exceptions.InvalidValue: Token used too early, 1650302066 < 1650302067. Check that your computer's clock is set correctly.",
        "E: Release file for http://archive.ubuntu.com/ubuntu/dists/noble/InRelease is not valid yet (invalid for another 3h 2min 15s).",
        "jwt.exceptions.ImmatureSignatureError: The token is not yet valid (iat)",
    ):
        says("U46", text)


@pytest.mark.parametrize(("behind", "low", "high"), [(0, -5, 5), (7200, -7205, -7195)])
def test_the_check_shows_by_how_much_the_clock_is_off(tmp_path, shell_of, behind, low, high):
    servers = time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime(time.time() + behind))
    curl = tmp_path / "curl"
    curl.write_text(f"#!/bin/sh\nprintf 'HTTP/2 200 \\r\\ndate: {servers}\\r\\n'\n")
    curl.chmod(0o755)
    code = f"PATH={tmp_path}:$PATH; {shell_of('U46', 'curl')}"
    seconds, unit = run(["bash", "-c", code], tmp_path).split()
    assert low <= int(seconds) <= high and unit == "s"
