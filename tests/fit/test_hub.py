"""A model's config by its name on the Hub."""

import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from remote_gpu_trainer.cli.main import main
from remote_gpu_trainer.fit.known_configs import _known, known_config
from remote_gpu_trainer.fit.model_config import model_of
from remote_gpu_trainer.runs import hub
from remote_gpu_trainer.text import BadRequest

from evals.fit.page import LLAMA3

# Weights as the models' own pages tell them, in billions.
TOLD = {
    "Qwen/Qwen2.5-0.5B": 0.494,
    "Qwen/Qwen2.5-7B-Instruct": 7.616,
    "Qwen/Qwen2.5-72B": 72.71,
    "Qwen/Qwen3-4B": 4.022,
    "Qwen/Qwen3-30B-A3B": 30.53,
    "meta-llama/Llama-3.1-8B": 8.030,
    "meta-llama/Llama-3.2-1B-Instruct": 1.236,
    "meta-llama/Llama-2-70b-hf": 68.98,
    "mistralai/Mistral-7B-v0.1": 7.242,
    "mistralai/Mixtral-8x7B-v0.1": 46.70,
    "google/gemma-2-9b-it": 9.242,
    "microsoft/phi-4": 14.66,
    "TinyLlama/TinyLlama-1.1B-Chat-v1.0": 1.100,
    "gpt2": 0.1244,
    "gpt2-xl": 1.558,
    "openai/gpt-oss-20b": 20.91,
    "openai/gpt-oss-120b": 116.83,
    "mistralai/Mistral-Nemo-Base-2407": 12.25,
    "google/gemma-3-12b-pt": 11.77,
    "facebook/opt-125m": 0.12524,
    "facebook/bart-base": 0.13942,
    "EleutherAI/pythia-1.4b": 1.4147,
    "google/flan-t5-base": 0.2476,
    "google/mt5-base": 0.5824,
}
# One of each family that people train, by the name that they type.
FAMILIES = [
    "Qwen/Qwen3-8B", "Qwen/Qwen2.5-VL-7B-Instruct", "meta-llama/Llama-3.1-8B-Instruct",
    "meta-llama/Llama-3.3-70B-Instruct", "google/gemma-3-1b-it", "google/gemma-3-27b-it",
    "mistralai/Mistral-7B-v0.3", "mistralai/Mistral-Nemo-Instruct-2407", "microsoft/phi-4",
    "microsoft/Phi-4-mini-instruct", "HuggingFaceTB/SmolLM2-360M", "HuggingFaceTB/SmolLM3-3B",
    "allenai/OLMo-2-1124-7B", "EleutherAI/pythia-160m", "gpt2-medium", "bigcode/starcoder2-3b",
    "openai/gpt-oss-20b", "deepseek-ai/DeepSeek-R1-Distill-Llama-8B", "bert-large-uncased",
    "roberta-base", "FacebookAI/xlm-roberta-large", "microsoft/deberta-v3-base",
    "answerdotai/ModernBERT-base", "t5-base", "google/flan-t5-xl", "google/mt5-small",
    "facebook/bart-large-cnn", "openai/whisper-small", "google/vit-base-patch16-224-in21k",
    "facebook/dinov2-base", "openai/clip-vit-large-patch14", "llava-hf/llava-1.5-7b-hf",
    "stabilityai/stable-diffusion-xl-base-1.0", "runwayml/stable-diffusion-v1-5",
    "stabilityai/stable-diffusion-3-medium-diffusers", "black-forest-labs/FLUX.1-dev",
]  # fmt: skip
# Of these a part isn't counted, or the library's shapes aren't known.
IN_PART = ("-VL-", "gemma-3-4b", "gemma-3-12b", "gemma-3-27b", "llava", "deberta-v3")


@pytest.fixture(autouse=True)
def no_home(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    for name in ("HF_TOKEN", "HF_ENDPOINT", "HF_HUB_OFFLINE"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def server(monkeypatch):
    """A Hub on this machine: {path: (code, headers, body)}, and the requests that it got."""
    answers, asked = {}, []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append((self.path, self.headers.get("Authorization")))
            code, headers, body = answers.get(self.path, (404, {}, b""))
            self.send_response(code)
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    made = HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=made.serve_forever, daemon=True).start()
    monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{made.server_port}/")
    yield answers, asked
    made.shutdown()
    made.server_close()


@pytest.mark.parametrize("name", TOLD)
def test_a_known_model_has_the_weights_that_its_page_tells(name):
    known = known_config(name)
    assert model_of(known.config).total() / 1e9 == pytest.approx(TOLD[name], rel=5e-4)


def test_known_models_have_address_and_date_and_are_counted_whole():
    assert len({json.dumps(known.config) for known in _known().values()}) > 120
    for name, known in _known().items():
        assert known.address.startswith("https://github.com/")
        assert known.date in ("2026-11-29", "2026-11-30")
        model, in_part = model_of(known.config), any(word.lower() in name for word in IN_PART)
        assert bool(model.guessed or model.on_top) == in_part, name
        assert set(model.on_top) <= {"the part that sees"}, name


@pytest.mark.parametrize("name", FAMILIES)
def test_what_people_train_needs_no_network(name, capsys, server):
    assert main(["fit", name, "--gpu", "H100-80GB"]) in (0, 1, 2)
    said = capsys.readouterr()
    assert not said.err and "GiB on each GPU" in said.out and not server[1]


def test_a_known_name_needs_no_network(capsys, server):
    assert main(["fit", "qwen/qwen2.5-7b", "--lora", "16", "--precision", "bf16"]) == 0
    told = capsys.readouterr().out
    assert "weights: 7,615,616,512" in told and "note: qwen/qwen2.5-7b as it is known here" in told
    assert not server[1]


def test_another_name_is_fetched(capsys, server):
    answers, asked = server
    path = "/acme/Model-1/resolve/main/config.json"
    answers[path] = (200, {}, json.dumps(LLAMA3).encode())
    assert main(["fit", "acme/Model-1", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["weights"] == model_of(LLAMA3).total() and path in report["remarks"][0]
    assert asked == [(path, None)]


def test_a_model_that_was_fetched_before_is_read_from_this_disk(tmp_path, server):
    folder = tmp_path / "hf/hub/models--acme--Model-1/snapshots/abc"
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(LLAMA3))
    found = hub.config_of("acme/Model-1")
    assert json.loads(found.data) == LLAMA3 and not server[1]


def test_a_token_goes_over_https_alone_and_to_no_other_host(monkeypatch, server):
    answers, asked = server
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    answers["/acme/M/resolve/main/config.json"] = (200, {}, b"{}")
    hub.config_of("acme/M")
    assert asked[-1][1] is None
    request = hub.urllib.request.Request("https://huggingface.co/a/b")
    request.add_header("Authorization", "Bearer hf_secret")
    follow = hub._WithoutToken().redirect_request
    same = follow(request, None, 302, "", {}, "https://huggingface.co/c")
    other = follow(request, None, 302, "", {}, "https://cdn.example/c")
    assert same.has_header("Authorization") and not other.has_header("Authorization")
    assert follow(request, None, 302, "", {}, "http://huggingface.co/c") is None


@pytest.mark.parametrize(
    "code, why", [(401, "set HF_TOKEN"), (404, "check the name"), (500, "answered 500")]
)
def test_a_refusal_says_what_to_do_and_no_token(capsys, server, monkeypatch, code, why):
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    server[0]["/acme/M/resolve/main/config.json"] = (code, {}, b"hf_secret")
    with pytest.raises(BadRequest, match=why) as raised:
        hub.config_of("acme/M")
    assert "hf_secret" not in str(raised.value) and "config.json" in str(raised.value)


def test_without_a_network_the_error_says_what_to_pass(monkeypatch):
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(
        BadRequest, match="can't ask 127.0.0.1:9 for acme/M: .*; pass a config.json"
    ):
        hub.config_of("acme/M")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(BadRequest, match="HF_HUB_OFFLINE forbids"):
        hub.config_of("acme/M")
    monkeypatch.setenv("HF_HUB_OFFLINE", "0")
    monkeypatch.setenv("HF_ENDPOINT", "file:///etc")
    with pytest.raises(BadRequest, match="HF_ENDPOINT is no address"):
        hub.config_of("acme/M")


@pytest.mark.parametrize("text", ["a/b/c", "/etc/x", "../x", "a b/c", "models/config.json", "x"])
def test_what_is_no_name_is_a_file(text, server):
    assert hub.config_of(text) is None and not server[1]


def test_the_oldest_names_have_no_owner(server):
    path = "/camembert-large/resolve/main/config.json"
    server[0][path] = (200, {}, json.dumps(LLAMA3).encode())
    assert json.loads(hub.config_of("camembert-large").data) == LLAMA3
    assert server[1] == [(path, None)]


def test_without_a_network_a_copy_is_taken_for_the_model_of_its_name(monkeypatch):
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    found = hub.config_of("NousResearch/Llama-2-70b-chat-hf")
    assert json.loads(found.data) == known_config("meta-llama/Llama-2-70b-chat-hf").config
    assert "can't be asked" in found.note
    copy = hub.config_of("somebody/Meta-Llama-3-70B-Instruct-GPTQ")
    assert json.loads(copy.data) == known_config("meta-llama/Meta-Llama-3-70B").config


@pytest.mark.parametrize(
    ("name", "size"), [("acme/Base-7b-v1.5", "7B"), ("acme/Chat-1_8B", "1.8B"), ("acme/M-a3b", "")]
)
def test_without_a_network_the_error_names_the_size_that_the_name_tells(monkeypatch, name, size):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(BadRequest) as raised:
        hub.config_of(name)
    assert str(raised.value).endswith(f", or --parameters {size}" if size else "of the name")
