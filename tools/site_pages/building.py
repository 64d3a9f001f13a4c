"""Build the site: write the generator's folder, run the generator, move its site into place."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import yaml

from .collect import Site, collect, settings
from .documents import SiteError
from .finder import INDEX

STYLE = "server/remote_gpu_trainer/drawing/data/page.css"  # that of the tools' own pages too


def write(site: Site, root: Path, work: Path) -> Path:
    """Write the generator's folder under `work` and return its settings file. Raises OSError."""
    for path, text in site.files.items():
        target = work / "docs" / path
        # A file system that ignores case needs no redirect from entries/o1 to entries/O1.
        if target.exists():
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
    shutil.copytree(root / "docs/assets", work / "docs/assets", dirs_exist_ok=True)
    shutil.copy(root / STYLE, work / "docs/assets")
    shutil.copytree(root / "docs/overrides", work / "overrides")
    config = work / "mkdocs.yml"
    config.write_text(
        yaml.safe_dump(settings(site, "docs", "overrides"), allow_unicode=True, sort_keys=False),
        encoding="utf-8",
    )
    return config


def build(root: Path, out: Path) -> int:
    """Build the site of the project under `root` into `out` and return how many pages it has.

    Raises SiteError, CatalogueError, FactError, CalledProcessError and OSError.
    """
    if out.exists() and any(out.iterdir()) and not (out / INDEX).is_file():
        raise SiteError(
            f"{out}: holds files that aren't an earlier site; choose a new or empty folder"
        )
    site = collect(root)
    with tempfile.TemporaryDirectory() as folder:
        config = write(site, root, Path(folder))
        command = [
            sys.executable,
            "-m",
            "zensical",
            "build",
            "--clean",
            "--strict",
            "--config-file",
            str(config),
        ]
        subprocess.run(command, check=True, cwd=folder, stdout=sys.stderr)
        shutil.rmtree(out, ignore_errors=True)
        out.parent.mkdir(parents=True, exist_ok=True)
        shutil.move(Path(folder) / "site", out)
    return len(site.pages)
