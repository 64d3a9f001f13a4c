"""L10: which token reaches the Hub, and what the Hub answers. A local server plays the Hub."""

import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from check_code import span, typed

hub = pytest.importorskip("huggingface_hub")
from huggingface_hub import constants, hf_api
from huggingface_hub.errors import GatedRepoError

ACCOUNTS = {"hf_granted": "anna", "hf_other": "ben"}
GATED = "Access to model meta-llama/Llama-3.1-8B is restricted"
# Status, code and text of huggingface.co for a gated repository.
ANONYMOUS = (401, f"{GATED}. You must have access to it and be authenticated to access it.")
STRANGER = (403, f"{GATED} and you are not in the authorized list.")


class Hub(BaseHTTPRequestHandler):
    def do_GET(self):
        name = ACCOUNTS.get(self.headers.get("Authorization", "").removeprefix("Bearer "))
        status, text = ANONYMOUS if name is None else STRANGER if name == "ben" else (200, "")
        body = b"{}"
        if self.path == "/api/whoami-v2":
            status, text = (200, "") if name else (401, "Invalid credentials in header")
            body = json.dumps({"name": name, "orgs": []}).encode()
        self.send_response(status)
        if text:
            self.send_header("X-Error-Message", text)
            if GATED in text:
                self.send_header("X-Error-Code", "GatedRepo")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@pytest.fixture(autouse=True)
def home(monkeypatch, tmp_path):
    """Nobody is logged in, and the library asks the local server."""
    running = HTTPServer(("127.0.0.1", 0), Hub)
    threading.Thread(target=running.serve_forever, args=(0.02,), daemon=True).start()
    url = f"http://127.0.0.1:{running.server_port}"
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(tmp_path / "token"))
    monkeypatch.setattr(hf_api.api, "endpoint", url)
    for name in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    yield tmp_path
    running.shutdown()


def check() -> str:
    """What the line of the check prints."""
    return typed(span("L10", "auth_check"))


@pytest.mark.parametrize(("token", "status"), [(None, 401), ("hf_old", 401), ("hf_other", 403)])
def test_without_a_token_or_with_the_wrong_one_the_check_stops_with_the_signature(
    monkeypatch, says, token, status
):
    if token:
        monkeypatch.setenv("HF_TOKEN", token)
    with pytest.raises(GatedRepoError) as error:
        check()
    assert error.value.response.status_code == status
    says("L10", f"{type(error.value).__name__}: {error.value}")


def test_with_the_right_token_the_check_prints_nothing(monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "hf_granted")
    assert check() == ""


def test_an_old_variable_hides_a_new_login_until_it_is_unset(monkeypatch, home):
    (home / "token").write_text("hf_granted")
    assert check() == "" and hub.whoami()["name"] == "anna"
    monkeypatch.setenv("HF_TOKEN", "hf_other")
    assert hub.whoami()["name"] == "ben"
    with pytest.raises(GatedRepoError):
        check()
    monkeypatch.delenv("HF_TOKEN")
    assert check() == ""


def test_the_variable_counts_also_when_it_is_set_after_the_import(monkeypatch):
    with pytest.raises(GatedRepoError):
        check()
    monkeypatch.setenv("HF_TOKEN", "hf_granted")
    assert check() == ""
