"""`rgt health --network`: the way to the Hub, PyPI and a durable place, and when nothing is measured."""

import json
import os
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from remote_gpu_trainer.cli.main import main
from remote_gpu_trainer.gpu_health.box_check import main as box_main
from remote_gpu_trainer.gpu_health.box_check import network, stress
from remote_gpu_trainer.gpu_health.box_check.recording import load

from tests.gpu_health.gpu_faults import CAPTURES

PAGE = (
    b'<a href="../files/torch-1.whl#sha256=ab">1</a> <a href="/files/torch-2.whl#sha256=cd">2</a>'
)
FILE = b"x" * (3 << 20)


@pytest.fixture
def server(monkeypatch):
    """A Hub and an index on this machine: the paths that were asked for."""
    asked = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append(self.path)
            known = {"/simple/torch/": PAGE, "/files/torch-2.whl": FILE, network.HUB_FILE: FILE}
            body = known.get(self.path)
            self.send_response(200 if body else 404)
            self.end_headers()
            self.wfile.write(body or b"")

        def log_message(self, *_):
            pass

    made = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=made.serve_forever, daemon=True).start()
    address = f"http://user:secret@127.0.0.1:{made.server_port}"
    monkeypatch.setenv("HF_ENDPOINT", address.replace("user:secret@", ""))
    monkeypatch.setenv("PIP_INDEX_URL", address.replace("user:secret@", "") + "/simple/")
    yield asked
    made.shutdown()
    made.server_close()


def fake_ssh(folder, monkeypatch, text: str) -> None:
    (folder / "ssh").write_text(f"#!/bin/sh\n{text}\n")
    (folder / "ssh").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")


def test_the_newest_file_and_the_models_are_read_and_nothing_is_kept(server, monkeypatch):
    monkeypatch.setattr(network, "PLACE_BYTES", 2 << 20)
    told, findings = network.network()
    assert [one["place"] for one in told] == ["the Hub", "PyPI"] and not findings
    assert all(one["mb"] == 2.1 and one["mb_s"] > 0 for one in told)
    assert told[1]["address"].endswith("/files/torch-2.whl")
    assert server == [network.HUB_FILE, "/simple/torch/", "/files/torch-2.whl"]


def test_a_place_that_is_not_reached_is_told_with_its_mirror(monkeypatch):
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setenv("PIP_INDEX_URL", "file:///etc")
    told, findings = network.network()
    assert ["error" in one for one in told] == [True, True]
    assert [one["level"] for one in findings] == ["warn", "warn"]
    assert all("HF_ENDPOINT" in one["action"] for one in findings)


@pytest.mark.parametrize(
    "speed, level", [(20.0, ""), (9.0, "warn"), (0.4, "degraded"), (0.0, "degraded")]
)
def test_a_slow_place_says_what_a_model_takes(speed, level):
    told = {"place": "the Hub", "mb": 1, "seconds": 1, "mb_s": speed}
    findings = network.judged_network([told])
    assert [one["level"] for one in findings] == ([level] if level else [])
    if speed == 9.0:
        assert "take 28 minutes" in findings[0]["evidence"]


def test_a_durable_place_behind_ssh_gets_bytes_that_it_throws_away(tmp_path, monkeypatch):
    monkeypatch.setattr(network, "SENT_BYTES", 5 << 20)
    fake_ssh(tmp_path, monkeypatch, f'echo "$@" >{tmp_path}/words; exec cat >{tmp_path}/got')
    told = network.uploaded("me@store:/runs")
    assert told["mb"] == 5.2 and (tmp_path / "got").stat().st_size == 5 << 20
    assert (tmp_path / "words").read_text().endswith("-- me@store cat >/dev/null\n")
    fake_ssh(tmp_path, monkeypatch, "echo 'Permission denied (publickey).' >&2; exit 255")
    assert network.uploaded("me@store:/runs")["error"] == "Permission denied (publickey)."


@pytest.mark.parametrize(
    "place", ["s3://bucket/x", "-oProxyCommand=x", "a b", "gs://x", "", "a;b:c"]
)
def test_no_other_durable_place_is_asked(place, tmp_path, monkeypatch):
    fake_ssh(tmp_path, monkeypatch, f"touch {tmp_path}/asked")
    assert "only a place behind ssh" in network.uploaded(place)["error"]
    assert not (tmp_path / "asked").exists()


def test_a_password_in_an_address_is_not_shown():
    told = network.without_password("https://user:secret@mirror.example/simple/torch/x.whl?token=s")
    assert told == "https://mirror.example/simple/torch/x.whl"


def test_nothing_is_measured_where_a_card_has_a_process(monkeypatch, capsys):
    idle, busy = (load(str(CAPTURES / name)) for name in ("h100x8", "h100x8-load"))
    assert stress.in_use(idle) is None and stress.in_use(busy)
    hidden = {**busy, "files": {**busy["files"], "apps.csv": ""}}
    assert stress.in_use(hidden), "a container may not see the process that holds the memory"
    for name in ("stress", "network"):
        monkeypatch.setattr(box_main, name, lambda *_: pytest.fail("it was measured"))
    monkeypatch.setattr(box_main, "gather", lambda **_: busy)
    code = box_main.main(["--json", "--stress", "9", "--network"])
    told = json.loads(capsys.readouterr().out)
    assert code != 0 and "network" not in told and "stress" not in told
    assert any(
        "neither load nor network was measured" in one["evidence"] for one in told["findings"]
    )


def test_the_slowest_memory_of_a_kind_is_named():
    record = load(str(CAPTURES / "h100x8"))
    lines = [{"stage": "import"}] + [
        {"stage": "copy done", "gpu": gpu, "copy_gb_s": 2600.0 if gpu != 3 else 1900.0, "h2d_gb_s": 53.0}
        for gpu in range(8)
    ] + [{"stage": "end"}]  # fmt: skip
    text = "".join(f"GPU_HEALTH {json.dumps(line)}\n" for line in lines)
    answer = {"text": text, "timed_out": False}
    _, findings = stress.judged_stress(answer, [], record, record["files"]["dmesg.txt"])
    assert [
        (one["gpu"], one["level"]) for one in findings if "memory copies" in one["evidence"]
    ] == [(3, "degraded")]


def test_what_was_measured_is_shown_and_what_it_takes_is_said_before(server, capsys):
    main(["health", "--network", "--json"])
    told = capsys.readouterr()
    assert "measuring: fetching 419 MB at most, 2 minutes at most" in told.err
    answer = json.loads(told.out)
    assert [one["place"] for one in answer["network"]] == ["the Hub", "PyPI"]
    main(["health", "--network"])
    assert "network: the Hub: 3.1 MB in " in capsys.readouterr().out


@pytest.mark.parametrize(
    "words, why",
    [
        (["--durable", "a@b:c"], "--durable needs --network"),
        ([__file__, "--network"], "--network is for a box, and "),
    ],
)
def test_options_that_do_not_go_together_are_refused(words, why, capsys):
    assert main(["health", *words]) == 2
    assert why in capsys.readouterr().err
