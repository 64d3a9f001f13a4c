"""Collect the site as values: its pages, plain files, navigation and the generator's settings."""

from __future__ import annotations

import asyncio
import html
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from generated_docs import documents as docs
from remote_gpu_trainer.catalogue import bundle
from remote_gpu_trainer.catalogue.bundle import Catalogue
from remote_gpu_trainer.mcp_server.server import make_server
from remote_gpu_trainer.platforms import profile
from remote_gpu_trainer.platforms.profile import Profile

from . import commands, documents, entries, finder, platforms
from .page import Page, Place, file_of

# The project's own documents and their addresses.
DOCUMENTS = {
    "README.md": "readme/",
    "README.zh-CN.md": "zh/",
    "SKILL.md": "skill/",
    "CONTRIBUTING.md": "contributing/",
    "SECURITY.md": "security/",
    "CHANGELOG.md": "changelog/",
    "evals/EXPERIMENTS.md": "figures/experiments/",
}
FIGURES = ("benchmarks/FIGURES.md", "evals/RESULTS.md")
PLACES = {
    "page:entries": "entries/",
    "page:compare": "platforms/",
    "page:commands": "reference/commands/",
    "page:scripts": "reference/scripts/",
    "page:tools": "reference/tools/",
    "page:job": "reference/job/",
    "page:figures": "figures/",
    "page:find": finder.ADDRESS,
    "page:topics": "topics/",
    "page:guides": "guides/",
    "page:reference": "reference/",
    "page:facts": "platforms/compare/",
    "page:glossary": "reference/glossary/",
    "page:launch_scripts": "reference/launch_scripts/",
    "page:bit_flips": "reference/bit_flips/",
    "page:coverage": "reference/coverage/",
    "page:rooms": "reference/rooms/",
}
GUIDES = "references/guides/"  # guides that the skill carries; those of docs/ are for the site only
# Pages of docs/ that belong to the reference, not the guides.
REFERENCE = ("bit_flips", "commands", "coverage", "glossary", "job", "launch_scripts", "rooms")


@dataclass
class Site:
    """The site: its files by path below the generator's folder, its pages by address, its menus."""

    files: dict[str, str] = field(default_factory=dict)
    pages: dict[str, Page] = field(default_factory=dict)
    navigation: list[Any] = field(default_factory=list)

    def add(self, page: Page) -> Page:
        """Add a page. Raises SiteError when its address is taken or nothing says its purpose."""
        if page.address in self.pages:
            raise documents.SiteError(f"two pages have the address /{page.address}; rename one")
        if not page.about:
            raise documents.SiteError(
                f"/{page.address}: nothing to describe it with; begin the page with a sentence"
            )
        self.pages[page.address] = page
        self.file(file_of(page.address), page.source())
        return page

    def file(self, path: str, text: str) -> None:
        """Add a file. Raises SiteError when its path is taken."""
        if path in self.files:
            raise documents.SiteError(f"two files have the path {path}; rename one")
        self.files[path] = text


def addresses(root: Path, found: Catalogue) -> dict[str, str]:
    """The address of each file of the project and of each entry."""
    known = (
        {name: address for name, address in DOCUMENTS.items() if (root / name).is_file()}
        | dict.fromkeys(FIGURES, PLACES["page:figures"])
        | PLACES
    )
    with_entries = {entry.path for entry in found.entries}
    for path in bundle.pages(root):
        name = path.relative_to(root).as_posix()
        if name.startswith("profiles/"):
            known[name] = platforms.address_of(path.stem.strip("_"))
        elif name.startswith(GUIDES):
            known[name] = f"guides/{path.stem}/"
        else:
            known[name] = f"{'topics' if name in with_entries else 'reference'}/{path.stem}/"
    for path in sorted((root / "docs").rglob("*.md")):
        name = path.relative_to(root / "docs").as_posix().removesuffix(".md")
        address = "" if name == "index" else f"{name}/"
        known[f"docs/{name}.md"] = PLACES[f"page:{name}"] if name in REFERENCE else address
    for entry in found.entries:
        known[f"entry:{entry.id}"] = entries.address_of(entry.id)
    return known | {
        f"entry:{gone.id}": entries.address_of(found.current(gone.id)) for gone in found.retired
    }


@dataclass(frozen=True)
class Project:
    """What the pages are made from, read once."""

    root: Path
    found: Catalogue
    profiles: dict[str, Profile]
    known: dict[str, str]

    def place(self, source: str, address: str | None = None, every_id: bool = False) -> Place:
        """The place of the text of `source`: its own page, or `address`."""
        return Place(
            self.known[source] if address is None else address, self.known, source, every_id
        )

    def text(self, name: str) -> str:
        """The text of a file of the project."""
        return (self.root / name).read_text(encoding="utf-8")


def collect(root: Path) -> Site:
    """Read the project under `root` and make all pages.

    Raises SiteError, CatalogueError, ProfileError and OSError.
    """
    site, found = Site(), bundle.read(root)
    project = Project(root, found, profile.read_all(root), addresses(root, found))
    guides = _documents(site, project)
    _catalogue(site, project)
    _reference(site, project)
    _lists(site, project)
    for old, address in entries.redirects(found).items():
        site.file(
            f"{old}index.html", entries.redirect_text(old, Place(old, project.known), address)
        )
    site.file(finder.INDEX, finder.index_text(site.pages.values()))
    site.navigation = _navigation(site, project.known, guides)
    return site


def _documents(site: Site, project: Project) -> list[Page]:
    """Add the guides of docs/, the documents and the figures; return the guides."""
    known = project.known
    shown = {name: project.text(name) for name in known if name in DOCUMENTS or name in FIGURES}
    guides = []
    for name in (name for name in known if name.startswith("docs/")):
        here = project.place(name, every_id=True)
        included = {other: project.place(other, here.address) for other in shown}
        page = site.add(documents.guide_page(project.text(name), shown, here, included))
        if Path(name).stem not in REFERENCE:
            guides.append(page)
    for name in (name for name in shown if name in DOCUMENTS):
        site.add(documents.document_page(shown[name], project.place(name)))
    site.add(
        documents.figures_page(
            {name: shown[name] for name in FIGURES},
            {name: project.place(name) for name in FIGURES},
            project.place("page:figures"),
        )
    )
    return guides


def _catalogue(site: Site, project: Project) -> None:
    """Add every file of references/ and profiles/, every entry, and the comparisons."""
    found, profiles, titles = project.found, project.profiles, {}
    for path in bundle.pages(project.root):
        name = path.relative_to(project.root).as_posix()
        group = [entry for entry in found.entries if entry.path == name]
        here = project.place(name, every_id=bool(group) or name.startswith(GUIDES))
        if name.startswith("profiles/") and path.stem in profiles:
            page = platforms.platform_page(
                name, project.text(name), profiles[path.stem], found, here
            )
        elif group:
            page = entries.topic_page(name, project.text(name), found, here)
        else:
            page = documents.document_page(project.text(name), here)
        site.add(page)
        if group:
            titles[name] = page.title
        for before, entry, after in zip([None, *group], group, [*group[1:], None], strict=False):
            site.add(
                entries.entry_page(
                    entry, project.place(name, entries.address_of(entry.id)), (before, after)
                )
            )
    ordered = dict(
        sorted(titles.items(), key=lambda item: item[0].startswith("profiles/"))
    )  # the training first
    site.add(
        entries.index_page(
            found, ordered, project.place("page:entries"), docs.make("count", "", found)
        )
    )
    site.add(
        platforms.comparison_page(
            profiles, docs.make("shares", "", found), project.place("page:compare")
        )
    )
    for fact in profile.Facts.model_fields:
        site.add(
            platforms.fact_page(
                fact, profiles, project.place("page:compare", platforms.fact_address(fact))
            )
        )


def _reference(site: Site, project: Project) -> None:
    """What the program says about itself, and the search."""
    helps = {
        path.name: commands.script_help(path)
        for path in sorted((project.root / "scripts").iterdir())
        if path.is_file()
    }
    site.add(
        commands.scripts_page(
            {name: said for name, said in helps.items() if said}, project.place("page:scripts")
        )
    )
    site.add(commands.tools_page(*asyncio.run(_served()), project.place("page:tools")))
    site.add(finder.find_page(project.place("page:find")))


def _lists(site: Site, project: Project) -> None:
    """A page for each folder of pages that has none of its own."""
    for name, title, about in (
        ("topics", "Entries by topic", "Where a failure shows, and what goes wrong there."),
        ("guides", "Guides", "How to do it, from the first question to the last bill."),
        ("reference", "Reference", "What each command, tool, field and check is and does."),
        ("facts", "One fact, all platforms", "A page for each fact, with every platform on it."),
    ):
        place = project.place("", PLACES[f"page:{name}"])
        below = [p for a, p in site.pages.items() if a.startswith(place.address)]
        site.add(documents.list_page(title, about, below, place))


async def _served() -> tuple[list[Any], list[Any], list[Any]]:
    """(tools, resources, prompts) of the MCP server."""
    server = make_server()
    resources = [*await server.list_resources(), *await server.list_resource_templates()]
    return await server.list_tools(), resources, await server.list_prompts()


def _navigation(site: Site, known: dict[str, str], guides: list[Page]) -> list[Any]:
    """The menus in the generator's form, without entries, which every page would repeat."""

    def item(address: str, title: str | None = None) -> dict[str, str]:
        shown = html.escape(title or site.pages[address].title)  # the templates don't escape it
        return {shown: file_of(address)}

    files = {name: address for name, address in known.items() if name.endswith(".md")}
    topics = [
        item(a) for n, a in files.items() if n.startswith("references/") and a.startswith("topics/")
    ]
    platform = [
        item(a, Path(n).stem)
        for n, a in files.items()
        if n.startswith("profiles/") and not Path(n).stem.startswith("_")
    ]
    about = [
        item(a)
        for n, a in files.items()
        if n.startswith(("references/", "profiles/_")) and not a.startswith(("topics/", "guides/"))
    ]
    steps = [page.address for page in guides if page.address]
    steps += [address for name, address in files.items() if name.startswith(GUIDES)]
    home = [item(p.address, "Home") for p in guides if not p.address]
    return [
        *home,
        item(PLACES["page:find"]),
        {"Guides": [item(PLACES["page:guides"], "All guides"), *map(item, steps)]},
        {"Entries": [item(PLACES["page:entries"]), item(PLACES["page:topics"]), *topics]},
        {"Platforms": [item(PLACES["page:compare"]), item(PLACES["page:facts"]), *platform]},
        {
            "Reference": [item(PLACES["page:reference"], "All of the reference")]
            + [
                item(PLACES[f"page:{name}"])
                for name in (
                    "commands",
                    "tools",
                    "job",
                    "launch_scripts",
                    "bit_flips",
                    "coverage",
                    "scripts",
                    "glossary",
                )
            ]
            + about
        },
        {"Figures": [item(a) for a in sorted(site.pages) if a.startswith(PLACES["page:figures"])]},
        {
            "The project": [
                item(a)
                for n, a in DOCUMENTS.items()
                if a in site.pages and not a.startswith(PLACES["page:figures"])
            ]
        },
    ]


def settings(site: Site, folder: str, overrides: str) -> dict[str, Any]:
    """The generator's settings.

    They load no fonts, icons or scripts from elsewhere, and no extension that runs what is on a
    page.
    """
    return {
        "site_name": "remote-gpu-trainer",
        "docs_dir": folder,
        "site_dir": "site",
        "use_directory_urls": True,
        "theme": {
            "name": "material",
            "font": False,
            "custom_dir": overrides,
            "features": [
                "navigation.top",
                "navigation.tracking",
                "content.code.copy",
                "toc.follow",
            ],
            "palette": [
                {
                    "media": "(prefers-color-scheme: light)",
                    "scheme": "default",
                    "toggle": {"icon": "lucide/sun", "name": "Dark"},
                },
                {
                    "media": "(prefers-color-scheme: dark)",
                    "scheme": "slate",
                    "toggle": {"icon": "lucide/moon", "name": "Light"},
                },
            ],
        },
        "plugins": [{"search": {"enabled": False}}],
        "markdown_extensions": [{"toc": {"permalink": True, "toc_depth": 3}}],
        "extra": {"generator": False},
        "extra_css": ["assets/page.css", "assets/site.css"],
        "nav": site.navigation,
    }
