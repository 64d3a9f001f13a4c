"""U27: a dotted override goes through a key that the file leaves empty."""

import re
import subprocess
import sys

import pytest
import yaml
from remote_gpu_trainer.catalogue import bundle

EMPTY = "model:\n  width: 8\n  ema:\nlr: 1\n"
DECLARED = "model:\n  width: 8\n  ema: {}\nlr: 1\n"


def override(config: dict, name: str, value) -> dict:
    """What a runner with `--set a.b.c=value` does."""
    node = config
    *parents, last = name.split(".")
    for part in parents:
        node = node[part]
    node[last] = value
    return config


def checked(folder, text: str, name: str) -> str:
    """What the entry's Check prints for a file with this text."""
    (folder / "base.yaml").write_text(text)
    code = re.search(r'python -c "(.*?)" base', bundle.load().get("U27").check, re.S)[1]
    done = subprocess.run(
        [sys.executable, "-c", code, "base.yaml", name], cwd=folder, capture_output=True, text=True
    )
    return (done.stdout + done.stderr).strip().splitlines()[-1]


def test_an_empty_key_is_none_and_takes_no_member(says):
    assert yaml.safe_load(EMPTY)["model"]["ema"] is None
    with pytest.raises(TypeError) as error:
        override(yaml.safe_load(EMPTY), "model.ema.decay", 0.99)
    says("U27", f"TypeError: {error.value}")


def test_setdefault_does_not_replace_a_null():
    node = yaml.safe_load(EMPTY)["model"]
    assert node.setdefault("ema", {}) is None


def test_a_declared_key_takes_it():
    config = override(yaml.safe_load(DECLARED), "model.ema.decay", 0.99)
    assert config["model"]["ema"] == {"decay": 0.99}


def test_the_check_tells_an_empty_key_from_a_mapping_and_from_a_misspelt_name(tmp_path):
    assert checked(tmp_path, EMPTY, "model.ema") == "None"
    assert checked(tmp_path, DECLARED, "model.ema") == "{}"
    assert checked(tmp_path, EMPTY, "model.emma").startswith("KeyError")
    assert checked(tmp_path, "model:\n", "model.ema").endswith("is not subscriptable")
