"""LAM7: torch from one place and torchvision from another is the mix; both from one place isn't."""

import shlex
import sys

import pytest


@pytest.mark.parametrize("mixed", [True, False])
def test_the_check_prints_from_where_each_part_comes(provider, shell_of, mixed):
    system, user = provider.place / "usr/lib/python3/dist-packages", provider.place / ".local"
    for folder, name, version in (
        (system, "torch", "2.4.1"),
        (system, "torchvision", "0.19.1"),
        *([(user, "torch", "2.11.0")] if mixed else []),
    ):
        (folder / name).mkdir(parents=True)
        (folder / name / "__init__.py").write_text(f"__version__ = {version!r}\n")
    line = shell_of("LAM7", "torchvision.__file__").replace("python3 ", f"{sys.executable} ", 1)
    shown = provider.run(line, PYTHONPATH=f"{user}:{system}").splitlines()
    places = [shlex.split(row)[1].removeprefix(str(provider.place)) for row in shown]
    assert places[0].startswith("/.local/" if mixed else "/usr/lib/")
    assert places[1].startswith("/usr/lib/")
