"""What a provider announces is heard, and nothing else is."""

import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from remote_gpu_trainer.runner import preemption
from remote_gpu_trainer.runner.context import Run

from tests.runner.clocks import Clock
from tests.runner.jobs import job_of

PAGES = {
    "aws": ("/latest/meta-data/spot/instance-action", '{"action":"terminate","time":"…"}'),
    "gcp": ("/computeMetadata/v1/instance/preempted", "TRUE"),
    "azure": (
        "/metadata/scheduledevents?api-version=2020-07-01",
        json.dumps({"Events": [{"EventType": "Preempt"}]}),
    ),
}
OTHER = {"aws": '{"time":1}', "gcp": "FALSE", "azure": '{"Events":[{"EventType":"Freeze"}]}'}
NEEDS = {
    "aws": ("X-aws-ec2-metadata-token", "a-token"),
    "gcp": ("Metadata-Flavor", "Google"),
    "azure": ("Metadata", "true"),
}


@pytest.fixture
def service():
    """A metadata service: `pages` for who sends the header that `needs` names, and 404 else."""

    class Service(BaseHTTPRequestHandler):
        pages: dict = {}
        needs = ("", "")
        seen: list = []
        hang = threading.Event()
        tokens = 0

        def do_PUT(self):
            assert self.headers["X-aws-ec2-metadata-token-ttl-seconds"]
            Service.tokens += 1
            self.answer(200, "a-token")

        def do_GET(self):
            self.seen.append(self.path)
            self.hang.wait()
            if self.headers.get(self.needs[0]) != self.needs[1]:
                self.answer(401, "TRUE")
            elif self.path in self.pages:
                self.answer(200, self.pages[self.path])
            else:
                self.answer(404, "TRUE")

        def answer(self, code, text):
            self.send_response(code)
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *_):
            pass

    Service.hang.set()
    server = ThreadingHTTPServer(("127.0.0.1", 0), Service)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    Service.base = f"http://127.0.0.1:{server.server_address[1]}"
    yield Service
    Service.hang.set()
    server.shutdown()
    server.server_close()


def poll(tmp_path, provider: str, base: str) -> preemption.Poll:
    fields = {"rendered": {"run_dir": str(tmp_path), "notice": provider, "metadata": base}}
    run = Run(job_of(fields), clock=Clock())
    run.folder.make()
    return preemption.Poll(run)


def ask(made: preemption.Poll) -> str:
    """Let it ask once, wait for the answer, and return what it says then."""
    made.run.clock.nap(5)
    made.look()
    if made._thread:
        made._thread.join(10)
    return made.look()


@pytest.mark.parametrize("provider", PAGES)
def test_a_notice_is_heard_once_it_is_there(tmp_path, service, provider):
    path, text = PAGES[provider]
    service.needs = NEEDS[provider]
    made = poll(tmp_path, provider, service.base)
    assert ask(made) == ""
    service.pages = {path: OTHER[provider]}
    assert ask(made) == ""
    service.pages = {path: text}
    assert ask(made) == f"notice from {provider}" == ask(made)
    assert made.run.folder.read("events.jsonl").count('"event": "notice"') == 1


def test_one_token_serves_for_hours(tmp_path, service):
    service.needs = NEEDS["aws"]
    made = poll(tmp_path, "aws", service.base)
    for _ in range(5):
        ask(made)
    assert service.tokens == 1
    made.run.clock.nap(6 * 3600)
    ask(made)
    assert service.tokens == 2


def test_a_service_that_hangs_keeps_nobody_waiting_and_is_asked_once_at_a_time(tmp_path, service):
    service.hang.clear()
    made = poll(tmp_path, "gcp", service.base)
    begin = time.monotonic()
    for _ in range(20):
        assert made.look() == ""
        made.run.clock.nap(5)
    assert time.monotonic() - begin < 2
    until = time.monotonic() + 5
    while not service.seen and time.monotonic() < until:
        time.sleep(0.01)
    assert len(service.seen) == 1


def test_no_service_and_strange_answers_say_nothing(tmp_path, service):
    assert ask(poll(tmp_path, "aws", "http://127.0.0.1:9")) == ""
    path, _ = PAGES["azure"]
    for text in ("[]", "null", '{"Events":[1]}', '{"Events":7}', "Preempt", ""):
        service.pages, service.needs = {path: text}, NEEDS["azure"]
        assert ask(poll(tmp_path, "azure", service.base)) == "", text


def test_without_a_provider_nobody_is_asked(tmp_path, service):
    assert ask(poll(tmp_path, "", service.base)) == "" and service.seen == []
