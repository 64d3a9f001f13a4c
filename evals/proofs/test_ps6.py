"""PS6: after a stop and start the saved address differs from the machine's; a machine that is off has none."""

import shutil

import pytest


@pytest.mark.parametrize(
    ("now", "differs"), [("198.51.100.9", True), ("198.51.100.2", False), (None, True)]
)
def test_the_saved_address_is_held_against_the_machines(provider, shell_of, now, differs):
    if not shutil.which("ssh"):
        pytest.skip("apt-get install openssh-client")
    config = provider.place / "config"
    config.write_text("Host ALIAS\n  HostName 198.51.100.2\n")
    provider.printing("pspace", {"machine get ID -j": {"id": "ID", "publicIp": now}})
    saved = provider.run(shell_of("PS6", "ssh -G").replace("ssh -G", f"ssh -F {config} -G"))
    shown = provider.run(shell_of("PS6", "publicIp"))
    assert (saved != f"hostname {shown}") == differs
    assert (shown == "null") == (now is None)
