"""scripts/download_loop.sh: results pulled over ssh, gone on with after a break, and verified by hash."""

import json
import os
import random
import signal
import subprocess
import sys
import time

import pytest

from tests.conftest import ROOT, engine
from tests.engines.sshd import boxes, sshd  # noqa: F401

SCRIPT = ROOT / "scripts/download_loop.sh"
VERIFY = ROOT / "scripts/verify_local.py"


@pytest.fixture
def results(tmp_path):
    """A folder of results with its manifest, and where it is to be pulled to."""
    engine("rsync", "apt-get install -y rsync")
    remote = tmp_path / "results of sweep 7"
    for name in ("seed0", "seed1"):
        (remote / name).mkdir(parents=True)
        (remote / name / "best_metrics.json").write_text('{"acc": 0.5}')
        (remote / name / "best.ckpt").write_bytes(b"\x80" + random.Random(name).randbytes(200_000))
    (remote / "README").write_text("what this is")
    make(remote)
    (remote / "seed1/not-listed.tmp").write_text("later")
    return remote


def make(remote, run_id="sweep7"):
    subprocess.run(
        [
            sys.executable,
            VERIFY,
            "--make",
            remote,
            "-o",
            remote / "PULL_MANIFEST.json",
            "--run-id",
            run_id,
        ],
        check=True,
        capture_output=True,
    )


def command(remote, local, *args, path="", options=("--no-load",), **env):
    given = {
        "REMOTE_ALIAS": "",
        "REMOTE_PATH": remote,
        "LOCAL_TARGET": local,
        "PY": sys.executable,
        "WAIT": "0",
        "TRIES": "2",
        **env,
    }
    kept = {**os.environ, **{name: str(value) for name, value in given.items()}}
    kept["PATH"] = path + kept["PATH"]
    return {"args": ["bash", str(SCRIPT), *args, "--", *options], "env": kept}


def pull(*args, **kw):
    done = subprocess.run(**command(*args, **kw), capture_output=True, text=True, timeout=60)
    return done.returncode, done.stdout, done.stderr


def test_listed_files_come_over_ssh_and_are_verified(results, sshd, tmp_path):
    local = tmp_path / "pulled here"
    code, out, err = pull(results, local, REMOTE_ALIAS="gpu", SSH_CONFIG=sshd.ssh_config)
    assert code == 0, err
    assert out.startswith("verified: 2 cells, 5 files, ")
    assert (local / "PULL_VERIFIED.json").is_file()
    assert (local / "seed1/best.ckpt").read_bytes() == (results / "seed1/best.ckpt").read_bytes()
    assert not (local / "seed1/not-listed.tmp").exists()
    assert pull(results, local, REMOTE_ALIAS="gpu", SSH_CONFIG=sshd.ssh_config)[0] == 0


def test_a_path_below_the_home_folder_there_is_found(results, sshd, tmp_path):
    results.rename(sshd.home / "results")
    code, _, err = pull(
        "~/results", tmp_path / "here", REMOTE_ALIAS="gpu", SSH_CONFIG=sshd.ssh_config
    )
    assert code == 0, err


def test_no_connection_is_told_apart_from_bad_results(results, sshd, tmp_path):
    sshd.cut()
    code, out, err = pull(
        results, tmp_path / "here", REMOTE_ALIAS="gpu", SSH_CONFIG=sshd.ssh_config
    )
    assert (code, out) == (2, "")
    assert "; try: ssh gpu true" in err and "can't reach gpu:" in err


def test_after_a_break_it_goes_on_with_what_has_arrived(results, sshd, tmp_path):
    (results / "seed1/not-listed.tmp").unlink()
    (results / "seed0/best.ckpt").write_bytes(random.Random(7).randbytes(6_000_000))
    make(results)
    slow = tmp_path / "slow"
    slow.mkdir()
    (slow / "rsync").write_text(f'#!/bin/sh\nexec {engine("rsync", "")} --bwlimit=1500 "$@"\n')
    (slow / "rsync").chmod(0o755)
    local = tmp_path / "here"
    started = subprocess.Popen(
        **command(results, local, path=f"{slow}:", REMOTE_ALIAS="gpu", SSH_CONFIG=sshd.ssh_config),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    end = time.monotonic() + 20
    while (
        not any(path.stat().st_size > 1_000_000 for path in local.glob("seed0/.best.ckpt.*"))
        and time.monotonic() < end
    ):
        time.sleep(0.05)
    os.killpg(started.pid, signal.SIGTERM)
    started.wait(10)
    time.sleep(0.5)
    [kept] = local.glob("seed0/.rsync-partial/best.ckpt")
    assert kept.stat().st_size > 500_000
    assert not (local / "PULL_VERIFIED.json").exists()
    code, out, err = pull(results, local, REMOTE_ALIAS="gpu", SSH_CONFIG=sshd.ssh_config)
    assert code == 0, err
    assert (local / "seed0/best.ckpt").read_bytes() == (results / "seed0/best.ckpt").read_bytes()


def test_a_file_of_the_same_size_and_time_with_other_bytes_is_pulled_again(results, tmp_path):
    local = tmp_path / "here"
    assert pull(results, local)[0] == 0
    path = local / "seed0/best.ckpt"
    when = path.stat().st_mtime_ns
    path.write_bytes(b"x" + path.read_bytes()[1:])
    os.utime(path, ns=(when, when))
    code, out, err = pull(results, local)
    assert code == 0, err
    assert "a hash differs: pulling once more by checksum" in err
    assert path.read_bytes() == (results / "seed0/best.ckpt").read_bytes()


def test_results_that_changed_after_their_manifest_are_bad(results, tmp_path):
    assert pull(results, tmp_path / "here")[0] == 0
    (results / "seed0/best.ckpt").write_bytes(b"retrained")
    code, out, err = pull(results, tmp_path / "here", "--json")
    assert code == 1
    assert json.loads(out)["verdict"] == "bad"
    assert not (tmp_path / "here/PULL_VERIFIED.json").exists()


def test_a_listed_file_that_is_gone_fails_the_folder_and_leaves_no_marker(results, tmp_path):
    assert pull(results, tmp_path / "here")[0] == 0
    (results / "seed0/best_metrics.json").rename(results / "gone")
    code, _, err = pull(results, tmp_path / "here")
    assert code == 1
    assert "seed0: rsync ended with 23; run this again" in err
    assert not (tmp_path / "here/PULL_VERIFIED.json").exists()


def test_a_folder_that_holds_another_run_is_left_as_it_is(results, tmp_path):
    local = tmp_path / "here"
    assert pull(results, local)[0] == 0
    before = {path: path.read_bytes() for path in local.rglob("*") if path.is_file()}
    make(results, "sweep8")
    code, _, err = pull(results, local)
    assert code == 2
    assert "holds run sweep7, the box has run sweep8; take another LOCAL_TARGET" in err
    assert {path: path.read_bytes() for path in local.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize("path", ["../out", "/etc/passwd", "odd name/x", "-rf/x", "$(touch hit)/x"])
def test_a_manifest_with_an_odd_folder_pulls_nothing(results, tmp_path, path):
    listing = results / "PULL_MANIFEST.json"
    data = json.loads(listing.read_text())
    data["files"].append({"path": path, "bytes": 1, "sha256": "0" * 64})
    listing.write_text(json.dumps(data))
    code, _, err = pull(results, tmp_path / "here")
    assert code == 1
    assert "can't be trusted; make it again on the box" in err
    assert list((tmp_path / "here").iterdir()) == []


def test_without_a_manifest_there_nothing_is_pulled(results, tmp_path):
    (results / "PULL_MANIFEST.json").rename(tmp_path / "elsewhere")
    code, _, err = pull(results, tmp_path / "here")
    assert code == 2
    assert "no PULL_MANIFEST.json in" in err


@pytest.mark.parametrize(
    ("env", "text"),
    [
        ({"REMOTE_ALIAS": "-oProxyCommand=touch hit"}, "isn't a host of the ssh configuration"),
        ({"REMOTE_ALIAS": "a b"}, "isn't a host of the ssh configuration"),
        ({"REMOTE_PATH": "--rsync-path=touch"}, "isn't a folder"),
        ({"LOCAL_TARGET": ""}, "LOCAL_TARGET isn't set"),
        ({"TRIES": "many"}, "TRIES=many and WAIT=0 must be whole numbers"),
    ],
    ids=[
        "an option as host",
        "two words as host",
        "an option as path",
        "no target",
        "a word as number",
    ],
)
def test_settings_that_ssh_or_rsync_would_misread_are_refused(results, tmp_path, env, text):
    code, out, err = pull(results, **{"local": tmp_path / "here", **env})
    assert (code, out) == (2, "")
    assert f"{text}; see --help" in err


def test_what_verify_local_could_not_tell_is_passed_on(results, tmp_path):
    code, _, err = pull(results, tmp_path / "here", options=("--expect", "3"))
    assert code == 1
    (tmp_path / "no/torch").mkdir(parents=True)
    (tmp_path / "no/torch/__init__.py").write_text("raise ImportError")
    code, _, err = pull(results, tmp_path / "here", options=(), PYTHONPATH=tmp_path / "no")
    assert code == 2
    assert "not loaded, no torch here: unchecked pickle" in err


def test_help_and_unknown_options():
    done = subprocess.run(["bash", str(SCRIPT), "--help"], capture_output=True, text=True)
    assert done.returncode == 0
    for text in ("usage:", "variables:", "exit:", "example:"):
        assert text in done.stdout
    assert subprocess.run(["bash", str(SCRIPT), "--delete"], capture_output=True).returncode == 2
