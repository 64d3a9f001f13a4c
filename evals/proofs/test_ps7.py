"""PS7: the check lists likely keys in a notebook, and no ordinary text."""

import json

import pytest

KEY = "hf_" + "a1B2" * 9


@pytest.mark.parametrize(
    ("cell", "found"),
    [
        (f"login(token='{KEY}')", True),
        ("os.environ['X'] = 'AKIA" + "A1" * 8 + "'", True),
        ("login(token=open('/storage/token').read())", False),
        ("wandb.login(key='wandb_v1_" + "aB3_" * 8 + "')", True),
        ("wandb.login(key='" + "a1b2" * 10 + "')", True),
        ("wandb==0.28.0 --hash=sha256:" + "a1b2" * 16, False),
        ("OpenAI(api_key='sk-proj-" + "aB3d" * 8 + "')", True),
        ("snapshot_download('hf_internal/tiny-random-gpt2')", False),
        ("run(wandb_project='text', task='disk-aaaaaaaaaaaaaaaaaaaaaaaa')", False),
    ],
)
def test_a_cell_with_a_key_is_listed_and_one_that_reads_it_is_not(provider, shell_of, cell, found):
    notebooks = provider.place / "notebooks"
    notebooks.mkdir()
    text = json.dumps({"cells": [{"cell_type": "code", "source": [cell]}]}, indent=1)
    (notebooks / "train.ipynb").write_text(text)
    line = shell_of("PS7", "grep -rlE").replace("/notebooks", str(notebooks))
    shown = provider.run(line)
    assert shown == (str(notebooks / "train.ipynb") if found else "")  # the file, never its key
