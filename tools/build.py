"""Wheel, sdist, bill of materials, server.json and plugin folder in one go: `python tools/build.py [--out DIR]` (needs `pip install build cyclonedx-python-lib`).

OUT/remote-gpu-trainer is the plugin: its own marketplace, a skill folder as it stands, and the wheel that its server starts from. The bill (CycloneDX)
lies beside the wheel.
"""

from __future__ import annotations

import argparse
import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PLUGIN = (
    ".claude-plugin",
    ".mcp.json",
    "hooks",
    "references",
    "profiles",
    "scripts",
    "server/start_server.py",
    "SKILL.md",
    "README.md",
    "LICENSE",
    ".skillspector-baseline.yaml",
)


def build(out: Path) -> Path:
    """Build everything into `out`; the plugin's folder comes back. Raises CalledProcessError, OSError."""
    out.mkdir(parents=True, exist_ok=True)
    for kind in ("whl", "tar.gz", "cdx.json"):
        for old in out.glob(f"remote_gpu_trainer-*.{kind}"):
            old.unlink()
    isolation = ["--no-isolation"] if importlib.util.find_spec("hatchling") else []
    subprocess.run(
        [sys.executable, "-m", "build", *isolation, "--outdir", str(out), str(ROOT)],
        check=True,
        stdout=sys.stderr,
    )
    [wheel] = out.glob("*.whl")
    from sbom import bill

    (out / ("-".join(wheel.name.split("-")[:2]) + ".cdx.json")).write_text(
        bill(wheel, (ROOT / "requirements-run.txt").read_text(encoding="utf-8")), encoding="utf-8"
    )
    shutil.copy2(ROOT / "server.json", out)
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
    parser.add_argument(
        "--out", type=Path, default=ROOT / "dist", help="where they go (default dist)"
    )
    out = parser.parse_args().out.resolve()
    for module, package in (("build", "build"), ("cyclonedx", "cyclonedx-python-lib")):
        if not importlib.util.find_spec(module):
            print(
                f"tools/build.py: found no module {module!r}, expected it; pip install {package}",
                file=sys.stderr,
            )
            return 2
    try:
        plugin = build(out)
    except subprocess.CalledProcessError as error:
        print(
            f"tools/build.py: found that python -m build failed with code {error.returncode}, expected a wheel and an sdist; its output stands above",
            file=sys.stderr,
        )
        return 1
    for path in [*sorted(out.glob("remote_gpu_trainer-*")), out / "server.json", plugin]:
        print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
