"""Build wheel, sdist, bill of materials and plugin: `python tools/build.py [--out DIR]`.

Needs `pip install build cyclonedx-python-lib`. OUT/remote-gpu-trainer is the plugin: its own
marketplace, a complete skill folder, and the wheel that its server starts from. The bill of
materials (CycloneDX) and server.json are written next to the wheel.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
NAME = "remote-gpu-trainer"
PLUGIN = ROOT / "plugins" / NAME  # holds links to the folders and files that stand at the root
FOLDERS = ("references", "profiles", "scripts", "LICENSES", "hooks")


def build(out: Path) -> Path:
    """Build everything into `out` and return the plugin's folder.

    Raises CalledProcessError and OSError.
    """
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
    plugin = out / NAME
    copy_plugin(plugin)
    shutil.copy2(wheel, plugin / "server")
    return plugin


def copy_plugin(plugin: Path) -> None:
    """Write the plugin's folder without its server's sources, and as its own marketplace."""
    shutil.rmtree(plugin, ignore_errors=True)
    compiled = shutil.ignore_patterns("__pycache__")
    shutil.copytree(PLUGIN / ".claude-plugin", plugin / ".claude-plugin")
    for name in FOLDERS:
        shutil.copytree(ROOT / name, plugin / name, ignore=compiled)
    for path in PLUGIN.iterdir():
        if path.is_file() and path.name != "pyproject.toml":
            shutil.copy2(path, plugin)
    (plugin / "server").mkdir()
    shutil.copy2(ROOT / "server" / "start_server.py", plugin / "server")
    market = json.loads((ROOT / ".claude-plugin" / "marketplace.json").read_text(encoding="utf-8"))
    for entry in market["plugins"]:
        entry["source"] = "./hooks" if entry["source"] == "./hooks" else "./"
    (plugin / ".claude-plugin" / "marketplace.json").write_text(
        json.dumps(market, indent=2) + "\n", encoding="utf-8"
    )


def main() -> int:
    """0 built, 1 the build failed, 2 a module is missing."""
    parser = argparse.ArgumentParser(description="Build wheel, sdist and plugin folder.")
    parser.add_argument(
        "--out", type=Path, default=ROOT / "dist", help="output folder (default: dist)"
    )
    out = parser.parse_args().out.resolve()
    for module, package in (("build", "build"), ("cyclonedx", "cyclonedx-python-lib")):
        if not importlib.util.find_spec(module):
            print(
                f"tools/build.py: no module {module!r}; run pip install {package}",
                file=sys.stderr,
            )
            return 2
    try:
        plugin = build(out)
    except subprocess.CalledProcessError as error:
        print(
            f"tools/build.py: python -m build failed with code {error.returncode}; "
            "its output is above",
            file=sys.stderr,
        )
        return 1
    for path in [*sorted(out.glob("remote_gpu_trainer-*")), out / "server.json", plugin]:
        print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
