"""What a provider announces becomes one "save now"."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.runner.box import Box, undisturbed

pytest_plugins = ["tests.runner.box"]

AWS = {
    "/latest/meta-data/spot/instance-action": '{"action":"terminate","time":"2026-11-20T17:02:00Z"}'
}
GCP = {"/computeMetadata/v1/instance/preempted": "TRUE"}
AZURE = {
    "/metadata/scheduledevents?api-version=2020-07-01": json.dumps(
        {"Events": [{"EventType": "Preempt"}]}
    )
}
NEEDS = {
    "aws": ("X-aws-ec2-metadata-token", "a-token"),
    "gcp": ("Metadata-Flavor", "Google"),
    "azure": ("Metadata", "true"),
}


@pytest.fixture
def metadata():
    """A metadata service: answers from `pages`, 404 for the rest, 401 without the header that the provider wants."""

    class Service(BaseHTTPRequestHandler):
        needs = ("", "")

        def do_PUT(self):
            assert self.headers["X-aws-ec2-metadata-token-ttl-seconds"]
            self.answer(200, "a-token")

        def do_GET(self):
            self.seen.append(self.path)
            name, value = self.needs
            if name and self.headers.get(name) != value:
                self.answer(401, "no")
            elif self.path in self.pages:
                self.answer(200, self.pages[self.path])
            else:
                self.answer(404, "not found")

        def answer(self, code, text):
            self.send_response(code)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Service)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    Service.base = f"http://127.0.0.1:{server.server_address[1]}"
    Service.seen, Service.pages = [], {}
    yield Service
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize(("provider", "pages"), [("aws", AWS), ("gcp", GCP), ("azure", AZURE)])
def test_a_notice_saves_and_ends_the_run_as_preempted(box: Box, metadata, provider, pages):
    metadata.needs = NEEDS[provider]
    box.make("--steps", 400, spec={"notice": provider, "metadata": metadata.base})
    box.start()
    box.at_step(3)
    box.until(lambda: metadata.seen)
    assert box.status()["phase"] == "running"
    metadata.pages = pages
    box.wait("preempted", timeout=20)
    marker = box.marker("preempted")
    assert (marker["class"], marker["reason"], marker["exit"]) == (
        "preempted",
        f"notice from {provider}",
        85,
    )


def test_a_notice_is_heard_without_curl(box: Box, metadata):
    tools = box.folder / "bin"
    tools.mkdir()
    for folder in ("/bin", "/usr/bin", "/usr/sbin"):
        for program in Path(folder).iterdir():
            if program.name != "curl" and not (tools / program.name).exists():
                (tools / program.name).symlink_to(program)
    box.env["PATH"] = str(tools)
    metadata.needs, metadata.pages = NEEDS["aws"], AWS
    box.make("--steps", 400, spec={"notice": "aws", "metadata": metadata.base})
    box.start()
    box.wait("preempted", timeout=20)
    assert box.marker("preempted")["reason"] == "notice from aws"


def test_a_silent_metadata_service_changes_nothing(box: Box, metadata):
    metadata.needs = NEEDS["aws"]
    box.make(spec={"notice": "aws", "metadata": metadata.base})
    box.start()
    assert box.wait()["phase"] == "done"
    assert (box.run_dir / "final.bin").read_bytes() == undisturbed()
