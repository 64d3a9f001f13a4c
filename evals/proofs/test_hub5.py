"""HUB5: the Check tells a host that nobody answers at from one that answers, whatever it says. curl and the servers are real."""

import shutil
import socket
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from check_code import span

pytestmark = pytest.mark.skipif(not shutil.which("curl"), reason="curl is not there")


class NotFound(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_error(404)

    def log_message(self, *_):
        pass


def told(mirror: str, host: str) -> dict[str, str]:
    """What the Check prints, by host; plain HTTP, since these have no certificate."""
    code = span("HUB5", "curl").replace(
        "huggingface.co cas-server.xethub.hf.co HOST", f"{mirror} {host}"
    )
    code = code.replace("https://", "http://")
    said = subprocess.run(["bash", "-c", code], capture_output=True, text=True).stdout
    return dict(line.split() for line in said.splitlines())


def test_a_closed_host_gives_000_and_one_that_answers_gives_its_number():
    server = HTTPServer(("127.0.0.1", 0), NotFound)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with socket.create_server(("127.0.0.1", 0)) as free:
        closed = f"127.0.0.1:{free.getsockname()[1]}"
    answering = f"127.0.0.1:{server.server_port}"
    assert told(closed, answering) == {closed: "000", answering: "404"}
    server.shutdown()


@pytest.mark.parametrize("text", [
    "RuntimeError: Data processing error: CAS service error : Reqwest Error: HTTP status client error (404 Not Found)",
    "requests.exceptions.HTTPError: 404 Client Error: Not Found for url: https://mirror/api/models/o/n/xet-read-token/abc",
])  # fmt: skip
def test_the_texts_are_recognised(text, says):
    says("HUB5", text)
