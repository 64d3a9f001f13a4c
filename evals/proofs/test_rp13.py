"""RP13: a comparison by checksum lists what a broken transfer left out, and nothing after the fix's rsync."""

import shutil

import pytest
from remote_gpu_trainer.catalogue import bundle


def test_the_check_lists_what_is_missing_or_cut_and_nothing_after_the_copy(provider, shell_of):
    if not shutil.which("rsync"):
        pytest.skip("apt-get install rsync")
    data, there = provider.place / "DIR", provider.place / "workspace"
    data.mkdir()
    (there / "DIR").mkdir(parents=True)
    for name in ("a.tar", "b.tar"):
        (data / name).write_bytes(name.encode() * 10_000)
    (there / "DIR/a.tar").write_bytes(b"a.tar" * 100)  # as a transfer that stopped leaves it

    def here(line):
        ssh = "-e 'ssh -p PORT -i KEY' "
        return provider.run(line.replace(ssh, "").replace("root@HOST:/", f"{provider.place}/"))

    def listed(said):
        return [line for line in said.splitlines() if line.endswith(".tar")]

    check = shell_of("RP13", "--dry-run")
    assert listed(here(check)) == ["DIR/a.tar", "DIR/b.tar"]
    spans = bundle.load().get("RP13").fix.split("`")
    here(" ".join(next(code for code in spans if code.startswith("rsync")).split()))
    assert listed(here(check)) == []


@pytest.mark.parametrize("name", ["runpodctl", "runpod"])  # the prefix before 2.0 and since
def test_both_prefixes_of_the_command_name_the_entry(says, name):
    says("RP13", f"{name}-receive: croc: receive: room (secure channel) not ready")
