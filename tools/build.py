"""Build wheel, sdist, bill of materials and plugin: `python tools/build.py [--out DIR]`.

Needs `pip install build cyclonedx-python-lib`. OUT/remote-gpu-trainer is the plugin: its own
marketplace, a complete skill folder, and the wheel that its server starts from. The bill of
materials (CycloneDX) and server.json are written next to the wheel.
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
    "LICENSES",
    "NOTICE",
    ".skillspector-baseline.yaml",
)


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
