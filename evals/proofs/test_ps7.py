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
        ("snapshot_download('hf_internal/tiny-random-gpt2')", False),
    ],
)
def test_a_cell_with_a_key_is_listed_and_one_that_reads_it_is_not(provider, shell_of, cell, found):
    notebooks = provider.place / "notebooks"
    notebooks.mkdir()
    text = json.dumps({"cells": [{"cell_type": "code", "source": [cell]}]}, indent=1)
    (notebooks / "train.ipynb").write_text(text)
    line = shell_of("PS7", "grep -rnE").replace("/notebooks", str(notebooks))
    assert ("train.ipynb" in provider.run(line)) == found
