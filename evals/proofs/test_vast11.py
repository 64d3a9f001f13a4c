"""VAST11: the check counts lines with a key or its name, and none for a clean instance."""

import pytest
from vast_instance import instance

SHOW = "show instance ID --raw"


@pytest.mark.parametrize(
    ("fields", "lines"),
    [
        ({}, 0),
        ({"extra_env": [["OUT", "/workspace"]], "onstart": "cat ~/.hf_token | wc -c"}, 0),
        ({"onstart": "export X=hf_" + "a1" * 17}, 1),
        ({"extra_env": [["OPEN_BUTTON_TOKEN", "1"]]}, 0),
        ({"onstart": "wandb login " + "0123abcdef" * 4}, 1),
        ({"onstart": "aws configure set aws_secret_access_key x"}, 1),
        ({"extra_env": [["WANDB_API_KEY", "0" * 40]]}, 2),
        ({"extra_env": [["HF_TOKEN", "x"]], "onstart": "aws configure set k AKIA" + "A1" * 8}, 2),
    ],
)
def test_the_check_counts_lines_that_hold_a_key_or_name_one(provider, shell_of, fields, lines):
    provider.printing("vastai", {SHOW: instance(**fields)})
    assert provider.run(shell_of("VAST11", "grep -cE")) == str(lines)
