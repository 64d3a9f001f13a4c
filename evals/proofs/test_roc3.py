"""ROC3: what the kernel's files say of the IOMMU: translation, passthrough, or none."""

import pytest
from check_code import span
from stub_box import Box

PLAIN = "BOOT_IMAGE=/boot/vmlinuz-6.8.0-60-generic root=/dev/nvme0n1p2 ro quiet"


@pytest.mark.parametrize(("line", "types", "confirmed"), [
    (PLAIN, ["DMA-FQ", "DMA-FQ", "DMA"], True),
    (f"{PLAIN} iommu=pt", ["identity", "identity"], False),
    (PLAIN, ["identity"], False),  # a kernel that passes through by default
    (PLAIN, [], False),
])  # fmt: skip
def test_only_translation_confirms_it(tmp_path, line, types, confirmed):
    (tmp_path / "cmdline").write_text(line + "\n")
    for number, kind in enumerate(types):
        folder = tmp_path / "iommu_groups" / str(number)
        folder.mkdir(parents=True)
        (folder / "type").write_text(kind + "\n")
    code = span("ROC3", "cmdline").replace("/proc/cmdline", f"{tmp_path}/cmdline")
    first, *groups = Box(tmp_path).said(code.replace("/sys/kernel", str(tmp_path))).splitlines()
    assert first == line
    assert sum(int(group.split()[0]) for group in groups) == len(types)
    assert any(group.split()[1].startswith("DMA") for group in groups) is confirmed


def test_the_word_in_the_command_line_alone_does_not_clear_it(tmp_path):
    """A kernel may ignore it: the groups' files count."""
    (tmp_path / "iommu_groups/0").mkdir(parents=True)
    (tmp_path / "iommu_groups/0/type").write_text("DMA-FQ\n")
    (tmp_path / "cmdline").write_text(f"{PLAIN} iommu=pt\n")
    code = span("ROC3", "cmdline").replace("/proc/cmdline", f"{tmp_path}/cmdline")
    said = Box(tmp_path).said(code.replace("/sys/kernel", str(tmp_path)))
    assert said.splitlines()[1].split() == ["1", "DMA-FQ"]
