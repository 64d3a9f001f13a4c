"""LAM7: the check shows the mix, pip's torch in front of the stack's, and a clean stack apart. It imports none."""

import sys

import pytest

PARTS = ("torch", "torchvision", "triton", "numpy")


@pytest.mark.parametrize("in_user", [(), ("torch",), ("numpy",), PARTS])
def test_the_check_prints_from_where_each_part_comes_though_its_import_fails(
    provider, shell_of, in_user
):
    system, user = provider.place / "usr/lib/python3/dist-packages", provider.place / ".local"
    for folder, name in [(system, name) for name in PARTS] + [(user, name) for name in in_user]:
        (folder / name).mkdir(parents=True)
        (folder / name / "__init__.py").write_text("raise RuntimeError('operator nms')\n")
    line = shell_of("LAM7", "find_spec").replace("python3 ", f"{sys.executable} ", 1)
    version, *places = provider.run(line, PYTHONPATH=f"{user}:{system}").split()
    assert version == sys.version.split()[0]
    places = [path.removeprefix(str(provider.place)) for path in places]
    for name, place in zip(PARTS, places, strict=True):
        assert place.startswith("/.local/" if name in in_user else "/usr/lib/")
