"""U28: a requirement replaces the image's torch, and a constraint makes pip refuse. The wheels hold no code."""

import re

import pytest
from check_code import span
from local_wheels import Environment, add_wheel
from remote_gpu_trainer.catalogue import bundle
from stub_box import Box


@pytest.fixture
def image(tmp_path, monkeypatch):
    """An environment with torch 2.9.0 and an extension made for it; the index has an older torch."""
    monkeypatch.chdir(tmp_path)
    index = tmp_path / "index"
    add_wheel(index, "torch", "2.9.0")
    add_wheel(index, "torch", "2.1.2")
    add_wheel(index, "extension", "1.0")
    add_wheel(index, "tool", "1.0", "torch<2.2")
    made = Environment(tmp_path / "env", index)
    code, said = made.uv("install", "torch==2.9.0", "extension")
    assert code == 0, said
    (tmp_path / "requirements.txt").write_text("tool\n")
    return made


def test_a_package_that_wants_an_older_torch_replaces_it_and_leaves_the_extension(image, says):
    code, said = image.pip("install", "-r", "requirements.txt")
    assert code == 0
    assert image.versions() == {"torch": "2.1.2", "extension": "1.0", "tool": "1.0"}
    says("U28", said)


def test_the_entrys_pin_makes_the_installation_stop_instead(image, tmp_path):
    _, frozen = image.uv("freeze")
    pattern = re.search(r"pip freeze \| grep -E '([^']+)'", bundle.load().get("U28").fix)[1]
    pin = [line for line in frozen.splitlines() if re.search(pattern, line)]
    assert pin == ["torch==2.9.0"]
    (tmp_path / "pin.txt").write_text("\n".join(pin))
    code, said = image.uv("install", "-c", "pin.txt", "-r", "requirements.txt")
    assert code != 0 and "No solution found" in said
    assert image.versions() == {"torch": "2.9.0", "extension": "1.0"}


@pytest.mark.parametrize(("installs", "printed"), [
    ("tool-1.0 torch-2.1.2 torchvision-0.16.2", "torch-2.1.2"),
    ("torch-2.1.2+cu118", "torch-2.1.2+cu118"),
    ("tool-1.1 torch-geometric-2.6.1 torchmetrics-1.8.0", ""),
])  # fmt: skip
def test_the_check_prints_torch_alone_and_no_package_whose_name_begins_so(
    tmp_path, installs, printed
):
    box = Box(tmp_path)
    box.prints("pip", f"Collecting torch\nWould install {installs}\n")
    assert box.said(span("U28", "--dry-run")) == printed


def test_a_dry_run_tells_beforehand_whether_torch_would_be_replaced(image):
    _, said = image.uv("install", "--dry-run", "-r", "requirements.txt")
    assert "+ torch==2.1.2" in said
    add_wheel(image.index, "tool", "1.1")  # a release that takes the torch which is there
    _, said = image.uv("install", "--dry-run", "-r", "requirements.txt")
    assert "+ tool==1.1" in said and "torch" not in said
