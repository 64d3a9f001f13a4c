"""ROC2: a spoiled database of kernels stops the first convolution, and a fresh folder lets it run.

SQLite is the real one, and so are its texts. A module stands for torch and MIOpen: it opens the file that MIOpen's
variables name, or the one in the home.
"""

import pytest
from check_code import span
from stub_box import Box

MIOPEN = """
import os, sqlite3, sys


class Tensor:
    shape = "torch.Size([4, 16, 62, 62])"

    def cuda(self):
        if os.environ.get("NO_CODE_FOR_THE_CARD"):
            sys.exit("RuntimeError: HIP error: invalid device function")
        return self

    def __call__(self, _):
        folder = os.environ.get("MIOPEN_USER_DB_PATH") or os.path.expanduser("~/.config/miopen")
        try:
            os.makedirs(folder, exist_ok=True)
            with sqlite3.connect(os.path.join(folder, "gfx90a68.ukdb")) as file:
                file.execute("CREATE TABLE IF NOT EXISTS kern_db (name TEXT, blob TEXT)")
                file.execute("INSERT INTO kern_db VALUES ('conv', ?)", ("x" * 5000,))
                file.execute("SELECT count(*) FROM kern_db").fetchall()
        except (OSError, sqlite3.Error) as error:
            sys.exit(f"MIOpen Error: Internal error while accessing SQLite database: {error}\\\\n"
                     "RuntimeError: miopenStatusInternalError")
        return self


class nn:
    Conv2d = staticmethod(lambda *_: Tensor())


randn = lambda *_: Tensor()
""".replace("\\\\n", "\\n")


@pytest.fixture
def box(tmp_path):
    made = Box(tmp_path)
    made.package("torch", "2.13.0+rocm7.2", MIOPEN)
    return made


def fresh_and_plain() -> tuple[str, str]:
    """The Check, and the same without its variables."""
    code = span("ROC2", "mktemp")
    return code, "python" + code.split("python", 1)[1]


def home(box) -> dict[str, str]:
    return {"HOME": str(box.folder), "TMPDIR": str(box.folder)}


def spoil(box):
    fresh, plain = fresh_and_plain()
    assert box.run(plain, **home(box)).returncode == 0
    file = box.folder / ".config/miopen/gfx90a68.ukdb"
    data = file.read_bytes()
    file.write_bytes(data[:4096] + b"\xff" * (len(data) - 4096))


def test_a_spoiled_file_in_the_home_fails_and_a_fresh_folder_prints_a_shape(box, says):
    spoil(box)
    fresh, plain = fresh_and_plain()
    failed = box.run(plain, **home(box))
    assert failed.returncode == 1 and "malformed" in failed.stderr
    says("ROC2", failed.stderr)
    assert box.said(fresh, **home(box)) == "torch.Size([4, 16, 62, 62])"


def test_a_home_that_takes_no_folder_is_the_same(box, says):
    (box.folder / ".config").write_text("a file")
    fresh, plain = fresh_and_plain()
    says("ROC2", box.run(plain, **home(box)).stderr)
    assert box.said(fresh, **home(box)) == "torch.Size([4, 16, 62, 62])"


def test_a_whole_file_prints_the_shape_both_times(box):
    for code in fresh_and_plain():
        assert box.said(code, **home(box)) == "torch.Size([4, 16, 62, 62])"


def test_a_wheel_without_code_for_the_chip_fails_in_a_fresh_folder_too(box, says):
    fresh, _ = fresh_and_plain()
    failed = box.run(fresh, NO_CODE_FOR_THE_CARD="1", **home(box))
    assert failed.returncode == 1
    says("ROC1", failed.stderr)
