"""AD6: over ssh another python comes first, or none, though the image's own has torch; with its folder on the path it comes first."""

import sys

import pytest

SSH = '#!/bin/bash\nshift\nexec env -i PATH="$REMOTE_PATH" /bin/bash -c "$*"\n'


@pytest.mark.parametrize(
    ("path", "first", "confirmed"),
    [("/nowhere", "none", True), ("other", "other/python", True), ("image", "image/python", False)],
)
def test_the_first_line_tells_whether_ssh_finds_the_images_python(
    provider, shell_of, path, first, confirmed
):
    place = provider.place
    (place / "torch").mkdir()
    (place / "torch/__init__.py").write_text("__version__ = '2.8.0+cu128'\n")
    for name in ("image", "other"):
        (place / name).mkdir()
        python = place / name / "python"
        python.write_text(f'#!/bin/sh\nPYTHONPATH={place} exec {sys.executable} "$@"\n')
        python.chmod(0o755)
    provider.program("ssh", SSH)
    line = shell_of("AD6", "command -v").replace("/root/miniconda3/bin", str(place / "image"))
    line = line.replace("; ls ", "; /bin/ls ")  # the path of the test has no ls
    shown = provider.run(line, REMOTE_PATH=str(place / path)).splitlines()
    assert shown == [
        first if first == "none" else str(place / first),
        str(place / "image/python"),
        "2.8.0+cu128",
    ]
    assert (shown[0] != str(place / "image/python")) == confirmed
