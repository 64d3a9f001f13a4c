"""LAM10: the alias names another address than the API after a new launch, and the same one before it."""

import shutil

import pytest
from remote_gpu_trainer.catalogue import bundle


@pytest.mark.parametrize(("now", "differs"), [("198.51.100.9", True), ("198.51.100.2", False)])
def test_the_alias_differs_from_the_api_only_after_a_new_launch(provider, shell_of, now, differs):
    if not shutil.which("ssh"):
        pytest.skip("apt-get install openssh-client")
    config = provider.place / "config"
    config.write_text("Host ALIAS\n  HostName 198.51.100.2\n")
    provider.answers["cloud.lambda.ai/api/v1/instances"] = {
        "data": [
            {"name": "other", "id": "i1", "ip": "203.0.113.1"},
            {"name": "NAME", "id": "i2", "ip": now},
            {"id": "i3", "ip": "203.0.113.9"},
        ]
    }
    ask = next(c for c in bundle.load().get("LAM10").fix.split("`") if "/instances" in c)
    check = shell_of("LAM10", "ssh -G").replace("ssh -G", f"ssh -F {config} -G")
    rows = [row.split("\t") for row in provider.run(ask).splitlines()]
    (address,) = [ip for name, _, ip in rows if name == "NAME"]
    assert (provider.run(check) != f"hostname {address}") == differs
    assert ["", "i3", "203.0.113.9"] in rows, "an instance without a name is listed too"
