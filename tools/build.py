"""Wheel, sdist and plugin folder in one go: `python tools/build.py [--out DIR]` (needs `pip install build`).

OUT/remote-gpu-trainer is the plugin: its own marketplace, a skill folder as it stands, and the wheel that its server starts from.
"""

from __future__ import annotations

import argparse
import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PLUGIN = (".claude-plugin", ".mcp.json", "hooks", "references", "profiles", "scripts", "server/start_server.py", "SKILL.md", "README.md", "LICENSE")


def build(out: Path) -> Path:
    """Build everything into `out`; the plugin's folder comes back. Raises CalledProcessError, OSError."""
    out.mkdir(parents=True, exist_ok=True)
    for old in [*out.glob("remote_gpu_trainer-*.whl"), *out.glob("remote_gpu_trainer-*.tar.gz")]:
        old.unlink()
    isolation = ["--no-isolation"] if importlib.util.find_spec("hatchling") else []
    subprocess.run([sys.executable, "-m", "build", *isolation, "--outdir", str(out), str(ROOT)], check=True, stdout=sys.stderr)
    [wheel] = out.glob("*.whl")
    plugin = out / "remote-gpu-trainer"
    shutil.rmtree(plugin, ignore_errors=True)
    for part in PLUGIN:
        source, target = ROOT / part, plugin / part
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy2(source, target)
    shutil.copy2(wheel, plugin / "server")
    return plugin


def main() -> int:
    parser = argparse.ArgumentParser(description="Build wheel, sdist and plugin folder.")
    parser.add_argument("--out", type=Path, default=ROOT / "dist", help="where they go (default dist)")
    out = parser.parse_args().out.resolve()
    if not importlib.util.find_spec("build"):
        print("tools/build.py: found no module 'build', expected it; pip install build", file=sys.stderr)
        return 2
    try:
        plugin = build(out)
    except subprocess.CalledProcessError as error:
        print(
            f"tools/build.py: found that python -m build failed with code {error.returncode}, expected a wheel and an sdist; its output stands above",
            file=sys.stderr,
        )
        return 1
    for path in [*sorted(out.glob("remote_gpu_trainer-*")), plugin]:
        print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
