"""HUB1: the texts of a refused request, the wait for the window's end, and that an offline process asks nothing. A local server plays the Hub."""

import json
import os
import shutil
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from check_code import span

hub = pytest.importorskip("huggingface_hub")
errors = pytest.importorskip("huggingface_hub.errors")
utils = pytest.importorskip("huggingface_hub.utils")
COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture
def server():
    """Answers 429 while `left` lasts. `asked` counts the requests."""

    class Hub(BaseHTTPRequestHandler):
        rest = '"api";r=499;t=212'
        left, asked, headers_of_429 = (
            1,
            0,
            {"RateLimit": '"api";r=0;t=7', "RateLimit-Policy": '"fixed window";"api";q=500;w=300'},
        )

        def do_HEAD(self):
            self.do_GET()

        def do_GET(self):
            Hub.asked += 1
            Hub.token = self.headers.get("Authorization")
            refused = Hub.left > 0
            Hub.left -= 1
            answer = (
                [] if "/tree/" in self.path else {"id": "org/tiny", "sha": COMMIT, "siblings": []}
            )
            body = b"" if refused else json.dumps(answer).encode()
            self.send_response(429 if refused else 200)
            for name, value in (Hub.headers_of_429 if refused else {"RateLimit": Hub.rest}).items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    running = HTTPServer(("127.0.0.1", 0), Hub)
    threading.Thread(target=running.serve_forever, daemon=True).start()
    Hub.url = f"http://127.0.0.1:{running.server_port}/api/models/org/tiny"
    yield Hub
    running.shutdown()


def refused(server) -> str:
    with pytest.raises(errors.HfHubHTTPError) as caught:
        utils.hf_raise_for_status(utils.get_session().get(server.url))
    return str(caught.value)


def test_a_spent_window_is_named_with_its_rest(server, says):
    text = refused(server)
    says("HUB1", text)
    assert "Retry after 7 seconds (0/500 requests remaining in current 300s window)" in text


def test_the_library_waits_until_the_window_ends(server, says, monkeypatch):
    from huggingface_hub.utils import _http

    waits, lines = [], []
    monkeypatch.setattr(_http.time, "sleep", waits.append)
    monkeypatch.setattr(_http.logger, "warning", lambda text, *_: lines.append(text))
    assert _http.http_backoff("GET", server.url).status_code == 200
    assert waits == [8.0] and server.asked == 2
    says("HUB1", "\n".join(line for line in lines if line.startswith("Rate limited")))


def test_without_the_window_in_the_answer_it_gives_up_within_seconds(server, monkeypatch):
    """So did every version before 1.2."""
    from huggingface_hub.utils import _http

    waits = []
    server.left, server.headers_of_429 = 100, {}
    monkeypatch.setattr(_http.time, "sleep", waits.append)
    with pytest.raises(errors.HfHubHTTPError):
        _http.http_backoff("GET", server.url)
    assert sum(waits) < 60


def test_an_offline_process_asks_nothing(server, tmp_path, monkeypatch):
    repo = tmp_path / "models--org--tiny"
    (repo / "refs").mkdir(parents=True)
    (repo / "refs" / "main").write_text(COMMIT)
    (repo / "snapshots" / COMMIT).mkdir(parents=True)
    (repo / "snapshots" / COMMIT / "config.json").write_text("{}")
    where = {"cache_dir": tmp_path, "endpoint": server.url.partition("/api")[0]}
    server.left = 0
    hub.snapshot_download("org/tiny", **where)
    asked = server.asked
    assert asked  # the files are cached, and still it asks
    monkeypatch.setattr(hub.constants, "HF_HUB_OFFLINE", True)
    hub.snapshot_download("org/tiny", **where)
    assert hub.hf_hub_download("org/tiny", "config.json", **where)
    assert server.asked == asked


@pytest.mark.skipif(not shutil.which("curl"), reason="curl is not there")
@pytest.mark.parametrize(("left", "rest"), [(1, '"api";r=0;t=7'), (0, '"api";r=499;t=212')])
def test_the_check_prints_what_is_left_of_the_window(server, left, rest):
    server.left = left
    code = span("HUB1", "curl").replace("https://huggingface.co/api/models/gpt2", server.url)
    said = subprocess.run(["bash", "-c", code], capture_output=True, text=True).stdout
    assert said.splitlines()[0] == f"RateLimit: {rest}"


@pytest.mark.skipif(not shutil.which("curl"), reason="curl is not there")
@pytest.mark.parametrize("stored", [True, False])
@pytest.mark.parametrize("variable", [True, False])
def test_the_check_asks_as_the_job_does_by_variable_or_stored_token(
    server, tmp_path, stored, variable
):
    home = tmp_path / "a home"
    home.mkdir()
    if stored:
        (home / "token").write_text("hf_stored")
    env = {k: v for k, v in os.environ.items() if not k.startswith("HF_")} | {"HF_HOME": str(home)}
    env |= {"HF_TOKEN": "hf_set"} if variable else {}
    server.left = 0
    code = span("HUB1", "curl").replace("https://huggingface.co/api/models/gpt2", server.url)
    said = subprocess.run(["bash", "-c", code], env=env, capture_output=True, text=True)
    assert said.stdout.splitlines()[0] == 'RateLimit: "api";r=499;t=212'
    token = "hf_set" if variable else "hf_stored" if stored else None
    assert server.token == (token and f"Bearer {token}")
    assert ("No such file" in said.stderr) == (not stored and not variable)
