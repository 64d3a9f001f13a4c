"""HUB13: the Hub's address is read once, at import, from the environment of the process."""

import os
import subprocess
import sys

import pytest
from check_code import span

pytest.importorskip("huggingface_hub")
HUB, MIRROR = "https://huggingface.co", "https://mirror.example"
WHERE = "print(huggingface_hub.hf_hub_url('org/tiny', 'config.json'))"


def run(code: str, mirror: str = "") -> str:
    """What a new Python prints, started with that mirror, or with none."""
    settled = ("HF_ENDPOINT", "HF_HUB_OFFLINE")  # other proofs in this process set the latter
    environment = {name: value for name, value in os.environ.items() if name not in settled}
    if mirror:
        environment["HF_ENDPOINT"] = mirror
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=60
    )
    return done.stdout.strip() + done.stderr.strip()


def checked(mirror: str = "") -> str:
    command = span("HUB13", "constants.ENDPOINT")
    return run(command.partition('"')[2].rpartition('"')[0], mirror)


def test_the_check_prints_the_address_that_the_shell_gives():
    assert checked() == repr(HUB)
    assert checked(MIRROR) == repr(MIRROR)


def test_a_mirror_that_is_set_after_the_import_is_ignored_and_before_it_isnt():
    late = f"import huggingface_hub.constants, os; os.environ['HF_ENDPOINT'] = '{MIRROR}'; {WHERE}"
    early = f"import os; os.environ['HF_ENDPOINT'] = '{MIRROR}'; import huggingface_hub; {WHERE}"
    assert run(late).startswith(HUB)
    assert run(early).startswith(MIRROR)
    assert run(f"import huggingface_hub; {WHERE}", MIRROR).startswith(MIRROR)


def test_a_full_width_colon_leaves_no_protocol():
    told = run(
        "import huggingface_hub; huggingface_hub.HfApi().model_info('org/tiny')",
        "https\uff1a//mirror.example",
    )
    assert "missing an 'http://' or 'https://' protocol" in told
