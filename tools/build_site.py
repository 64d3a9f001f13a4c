"""Build the documentation site: `python tools/build_site.py [--out DIR]`.

Needs `pip install -e '.[docs]'`. tools/site_pages makes the pages from the project's own Markdown,
front matter, help texts and schemas. Only the home page and the guides in docs/ are written for the
site alone. OUT is replaced when it holds an earlier site, and refused when it holds anything else.
"""

from __future__ import annotations

import argparse
import importlib.util
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def main() -> int:
    """0 built, 1 the build failed, 2 a module is missing."""
    parser = argparse.ArgumentParser(description="Build the documentation site.")
    parser.add_argument(
        "--out", type=Path, default=ROOT / "dist/site", help="output folder (default: dist/site)"
    )
    out = parser.parse_args().out.resolve()
    for name in ("zensical", "markdown_it", "pygments"):
        if not importlib.util.find_spec(name):
            print(
                f"tools/build_site.py: no module '{name}'; "
                "run pip install -e '.[docs]' with Python 3.11 or newer",
                file=sys.stderr,
            )
            return 2
    from remote_gpu_trainer.catalogue.bundle import CatalogueError
    from remote_gpu_trainer.catalogue.facts import FactError
    from site_pages import building, documents

    try:
        pages = building.build(ROOT, out)
    except subprocess.CalledProcessError as error:
        print(
            f"tools/build_site.py: the generator failed with code {error.returncode}; "
            "its output is above",
            file=sys.stderr,
        )
        return 1
    except (documents.SiteError, CatalogueError, FactError, OSError) as error:
        print(f"tools/build_site.py: {error}", file=sys.stderr)
        return 1
    print(f"{out}: {pages} pages")
    return 0


if __name__ == "__main__":
    sys.exit(main())
