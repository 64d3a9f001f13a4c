"""LAM7: torch from one place and torchvision from another is the mix; both from one place isn't. Neither is imported."""

import sys

import pytest


@pytest.mark.parametrize("mixed", [True, False])
def test_the_check_prints_from_where_each_part_comes_though_its_import_fails(
    provider, shell_of, mixed
):
    system, user = provider.place / "usr/lib/python3/dist-packages", provider.place / ".local"
    for folder, name in (
        (system, "torch"),
        (system, "torchvision"),
        *([(user, "torch")] if mixed else []),
    ):
        (folder / name).mkdir(parents=True)
        (folder / name / "__init__.py").write_text("raise RuntimeError('operator nms')\n")
    line = shell_of("LAM7", "find_spec").replace("python3 ", f"{sys.executable} ", 1)
    version, *places = provider.run(line, PYTHONPATH=f"{user}:{system}").split()
    assert version == sys.version.split()[0]
    places = [path.removeprefix(str(provider.place)) for path in places]
    assert places[0].startswith("/.local/" if mixed else "/usr/lib/")
    assert places[1].startswith("/usr/lib/")
