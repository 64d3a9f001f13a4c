"""CMP10: what the kernel's log says of the card, and a wrong index that the CPU names. The faults themselves need a GPU."""

import os
import re

import pytest
import torch
from check_code import in_shell, span
from remote_gpu_trainer.catalogue import bundle

# Lines of `dmesg -T` as the driver writes them: at its start, for a fault of a program, for a broken card.
START = """\
[Mon Nov  2 09:58:01 2026] nvidia: loading out-of-tree module taints kernel.
[Mon Nov  2 09:58:02 2026] NVRM: loading NVIDIA UNIX x86_64 Kernel Module  590.44.01  Mon Jun  1 00:00:00 UTC 2026
"""
PROGRAM = """\
[Mon Nov  2 10:00:00 2026] NVRM: Xid (PCI:0000:1b:00): 13, pid=3900, name=python3, Graphics Exception: ESR 0x504648=0x1000e
[Mon Nov  2 10:00:01 2026] NVRM: Xid (PCI:0000:1b:00): 31, pid=3900, name=python3, Ch 0000000a, intr 00000000. MMU Fault
"""
CARD = """\
[Mon Nov  2 10:00:00 2026] NVRM: Xid (PCI:0000:05:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.
"""
ECC = """\
[Mon Nov  2 10:00:00 2026] NVRM: Xid (PCI:0000:3d:00): 95, pid=801, Uncontained: LTC TAG (0x2, 0x1). RST: Yes, D-RST: No
"""


@pytest.fixture
def codes(tmp_path, monkeypatch):
    """codes(log): the Xids in what the check prints, where the kernel's log is this one."""

    def told(log: str) -> set[int]:
        (tmp_path / "log").write_text(log)
        tool = tmp_path / "dmesg"
        tool.write_text(f'#!/bin/sh\ncat "{tmp_path}/log"\n')
        tool.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
        out = in_shell(span("CMP10", "dmesg"), tmp_path)
        assert out.count("\n") + bool(out) == out.count("Xid")
        return {int(code) for code in re.findall(r"Xid \(.*?\): (\d+)", out)}

    return told


def test_the_check_prints_nothing_of_a_healthy_log_and_each_xid_of_the_others(codes):
    said = bundle.load().get("CMP10").check
    of_programs, of_cards = (
        re.search(r": ([\d, ]+) or no line mean.*?; ([^;]*?) mean", said, re.S)[1],
        re.search(r"; ([^;]*?) mean the card", said, re.S)[1],
    )
    numbers = lambda text: {int(n) for n in re.findall(r"\d+", text)}
    assert codes(START) == set()
    assert codes(START + PROGRAM) == {13, 31} <= numbers(of_programs)
    assert codes(START + CARD) == {79} <= numbers(of_cards)
    assert codes(START + ECC) == {95} <= numbers(of_cards)


@pytest.mark.parametrize("call", ["embedding", "gather", "cross_entropy"])
def test_a_wrong_index_is_named_on_the_cpu(call):
    run = {
        "embedding": lambda i: torch.nn.functional.embedding(i, torch.zeros(4, 2)),
        "gather": lambda i: torch.zeros(4).gather(0, i),
        "cross_entropy": lambda i: torch.nn.functional.cross_entropy(torch.zeros(1, 4), i),
    }[call]
    run(torch.tensor([3]))
    with pytest.raises((IndexError, RuntimeError), match="out of (range|bounds)"):
        run(torch.tensor([4]))


def test_above_2_147_483_647_elements_a_32_bit_offset_turns_negative():
    tokens, vocabulary = torch.tensor(65_536, dtype=torch.int32), 32_768
    assert (tokens * vocabulary).item() == -(2**31)
    assert ((tokens // 2) * vocabulary).item() == 2**30
