"""U33: a success line that hangs on nothing, and one that looks at the target first."""

import shutil
import subprocess

import pytest
from check_code import span

pytestmark = pytest.mark.skipif(not shutil.which("rsync"), reason="needs rsync")
VERIFIED = """\
set -euo pipefail
rsync -a --partial out/ target/
{meanwhile}
left=$(rsync -rlnc --out-format=%n out/ target/)
if [ -z "$left" ]; then echo "verified: $(find out -type f | wc -l) files"; else echo "NOT COPIED: $left" >&2; exit 1; fi
"""


@pytest.fixture
def bash(tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "step_2.pt").write_text("new weights")

    def run(script):
        return subprocess.run(
            ["bash", "-c", script], cwd=tmp_path, capture_output=True, text=True, timeout=20
        )

    return run


@pytest.mark.parametrize("script", [
    "cp out/step_2.pt missing/ ; echo backup done",
    "set -e; cp out/step_2.pt missing/ | tee log; echo backup done",
    "set -e; cp out/step_2.pt missing/ || true; echo backup done",
    "set -e; find out -type f -exec cp {} missing/ \\; ; echo backup done",
    "set -e; cp out/step_2.pt missing/ & echo backup done",
    "set -e; save() { cp out/step_2.pt missing/; echo copied; }; if save; then echo backup done; fi",
])  # fmt: skip
def test_the_message_comes_and_the_status_is_0_although_the_copy_failed(bash, script):
    finished = bash(script)
    assert "backup done" in finished.stdout
    assert finished.returncode == 0


def test_pipefail_stops_before_the_message(bash):
    finished = bash("set -euo pipefail; cp out/step_2.pt missing/ | tee log; echo backup done")
    assert finished.returncode != 0
    assert "backup done" not in finished.stdout


def test_a_look_at_the_target_finds_what_differs_by_content(bash):
    assert bash(VERIFIED.format(meanwhile="touch target/step_2.pt")).stdout == "verified: 1 files\n"
    spoiled = bash(VERIFIED.format(meanwhile="echo old-weights > target/step_2.pt"))
    assert spoiled.returncode == 1
    assert "NOT COPIED: step_2.pt" in spoiled.stderr


def test_rsync_names_a_file_that_it_could_not_read(bash):
    finished = bash("rsync -a out/step_2.pt out/step_3.pt . | cat; echo backup done")
    assert "backup done" in finished.stdout


@pytest.mark.parametrize(("spoil", "named"), [
    ("true", ""),
    ("rm /TARGET/step_2.pt", "step_2.pt\n"),
    ("echo old-weights > /TARGET/step_2.pt", "step_2.pt\n"),
    ("ln -s step_2.pt out/last", "last\n"),
    ("touch -d 2001-01-01 /TARGET/step_2.pt", ""),
])  # fmt: skip
def test_the_check_prints_what_differs_and_nothing_for_a_whole_copy(bash, tmp_path, spoil, named):
    target = str(tmp_path / "backup/run1")
    bash(f"mkdir -p {target} && rsync -a out/ {target}/")
    bash(spoil.replace("/TARGET", target))
    code = span("U33", "rsync -rlnc").replace("/mnt/backup/run1", target)
    assert bash(code).stdout.replace("./\n", "") == named


@pytest.mark.parametrize(("line", "found"), [
    ("rsync -a out/ /mnt/b/ || true", True),
    ("rsync -a out/ /mnt/b/ | tee log", True),
    ("cp out/a.pt /mnt/b/; echo backup done", True),
    ("find out -exec cp {} /mnt/b/ \\;", True),
    ("cp out/a.pt /mnt/b/ & echo backup done", True),
    ("cp out/a.pt /mnt/b/ &", True),
    ("if copy_all; then echo done; fi", True),
    ("cp out/a.pt /mnt/b/ 2>&1", False),
    ("rsync -a out/ /mnt/b/ && echo backup done", False),
])  # fmt: skip
def test_the_checks_search_finds_lines_that_lose_the_status(bash, tmp_path, line, found):
    (tmp_path / "backup.sh").write_text(f"set -euo pipefail\n{line}\n")
    assert bool(bash(span("U33", "grep -nE")).stdout) is found


@pytest.mark.parametrize(("first", "stops"), [
    ("set -euo pipefail", True), ("set -o errexit", True), ("", False), ("set -uo pipefail", False),
])  # fmt: skip
def test_the_check_sees_whether_the_script_stops_at_a_failure(bash, tmp_path, first, stops):
    (tmp_path / "backup.sh").write_text(f"{first}\ncp out/step_2.pt missing/\necho backup done\n")
    assert bool(bash(span("U33", "errexit")).stdout) is stops
    assert ("backup done" not in bash("bash backup.sh").stdout) is stops
