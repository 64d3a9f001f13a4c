"""What a command does not import before it needs it."""

import subprocess
import sys


def test_a_look_up_starts_without_what_takes_long_to_import():
    slow = {"yaml", "pydantic", "mcp", "rich"}
    slow.add("remote_gpu_trainer.platforms.profile")
    program = (
        "import sys; from remote_gpu_trainer.cli.main import main; "
        "main(['lookup', 'loss is nan', '--json']); "
        f"print(sorted({slow} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == "[]"
