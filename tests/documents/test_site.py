"""The documentation site: built once, crawled over its files, and looked at in headless Chromium."""

import json
import re
import shlex
import subprocess
import sys
from datetime import timedelta
from html.parser import HTMLParser
from pathlib import Path, PurePosixPath
from urllib.parse import unquote, urljoin, urlsplit

import pytest
import yaml
from remote_gpu_trainer.catalogue import bundle
from remote_gpu_trainer.catalogue.freshness import LIMITS
from remote_gpu_trainer.cli.main import leaves
from remote_gpu_trainer.platforms import profile, showing
from site_pages.building import STYLE

from tests.conftest import ROOT, engine, module
from tests.engines.chromium import CHROMIUM, Browser, Served
from tests.programs import parsed

pytestmark = pytest.mark.site

INSTALL = "pip install -e '.[docs]'"
HOSTILE = '</div></code><script>alert(1)</script> {{ 7*7 }} {% raw %} {: onclick=alert(1)} ``` `x` ~~~ <!-- gone --> --8<-- "README.md" ![p](https://x.example/p.png)'


@pytest.fixture(scope="session")
def site(shared):
    """The folder of the built site."""
    module("zensical", INSTALL)

    def build(folder: Path):
        done = subprocess.run(
            [sys.executable, str(ROOT / "tools/build_site.py"), "--out", str(folder / "site")],
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert done.returncode == 0, done.stdout + done.stderr

    return shared.folder("built", build) / "site"


class Read(HTMLParser):
    """Links, what the page loads, anchors, the text and the description of one file."""

    def __init__(self, text: str):
        super().__init__()
        self.links, self.loads, self.anchors, self.handlers, self.words, self.refresh = (
            [],
            [],
            set(),
            [],
            [],
            "",
        )
        self.description, self.title, self._in_title = "", "", False
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        self.handlers += [name for name in values if name.startswith("on")]
        if tag == "a" and values.get("href"):
            self.links.append(values["href"])
        if tag in ("img", "script", "iframe", "source", "video", "object") and values.get("src"):
            self.loads.append(values["src"])
        if tag == "link" and values.get("href") and values.get("rel") != "canonical":
            self.loads.append(values["href"])
        if values.get("id"):
            self.anchors.add(values["id"])
        if tag == "a" and values.get("name"):
            self.anchors.add(values["name"])
        if tag == "meta" and values.get("http-equiv") == "refresh":
            self.refresh = values["content"].partition("url=")[2]
        if tag == "meta" and values.get("name") == "description":
            self.description = values["content"]

        self._in_title = tag == "title" and not self.title

    def handle_data(self, data):
        self.words.append(data)
        self.title += data if self._in_title else ""
        self._in_title = False


@pytest.fixture(scope="session")
def pages(site):
    """{address: what stands there} of every HTML file."""
    return {
        "/" + path.relative_to(site).as_posix().removesuffix("index.html"): Read(
            path.read_text(encoding="utf-8")
        )
        for path in sorted(site.rglob("*.html"))
    }


def modules():
    """The builder's modules, which need the extra."""
    module("zensical", INSTALL)
    from site_pages import collect, documents, entries, markup, page

    return collect, documents, entries, markup, page


def test_every_link_and_every_anchor_within_the_site_leads_somewhere(site, pages):
    broken = []
    for address, read in pages.items():
        if address == "/404.html":  # it is shown at any address, so its links begin at the root
            continue
        for link in [*read.links, *read.loads, *filter(None, [read.refresh])]:
            if urlsplit(link).scheme or link.startswith("//"):
                continue
            whole = urlsplit(urljoin("http://here" + address, link))
            target = unquote(whole.path)
            file = (
                site / target.lstrip("/") / "index.html"
                if target.endswith("/")
                else site / target.lstrip("/")
            )
            if (
                not file.is_file()
                or whole.fragment
                and target in pages
                and unquote(whole.fragment) not in pages[target].anchors | {"__skip"}
            ):
                broken.append((address, link))
    assert broken == []


def test_every_folder_of_an_address_is_a_page(pages):
    folders = {
        str(parent).rstrip("/") + "/"
        for address in pages
        for parent in PurePosixPath(address.removesuffix("index.html")).parents
    }
    assert folders - set(pages) == set()


def test_every_page_is_described_in_other_words_than_its_title(pages):
    for address, read in pages.items():
        if read.refresh or address == "/404.html":
            continue
        title = read.title.removesuffix(" - remote-gpu-trainer")
        assert read.description and title, address
        assert not read.description.startswith(title), address
    assert pages["/security/"].description.count('"') == 2  # nothing is lost behind a quotation


def test_an_entry_is_described_by_the_sentence_that_names_its_cause(pages):
    def bare(text):
        return re.sub(r"[\s`*]", "", text)

    listed = bare("".join(pages["/entries/"].words))
    for entry in bundle.load().entries:
        said = pages[f"/entries/{entry.id}/"].description
        assert bare(entry.root_cause).startswith(bare(said)) and said[-1] in ".?", entry.id
        assert bare(said) in listed, entry.id


def test_the_page_below_an_address_is_in_its_list(pages):
    for folder in ("/topics/", "/guides/", "/reference/", "/platforms/compare/"):
        below = {address for address in pages if address.startswith(folder)} - {folder}
        assert below and below <= {urljoin(folder, link) for link in pages[folder].links}


def test_a_source_is_shown_whole_and_the_day_when_it_is_old(pages):
    for name, shown in profile.load().items():
        words = " ".join(pages[f"/platforms/{name}/"].words)
        for field, fact in shown.facts:
            if fact is None:
                continue
            assert fact.source.split("//", 1)[1] in words, (name, field)
            if fact.status == "confirmed":
                last = fact.date + timedelta(days=LIMITS[fact.kind])
                assert f"read {fact.date}; after {last} open the page again" in words


def test_words_are_readable_on_both_grounds_in_light_and_in_dark():
    style = (ROOT / STYLE).read_text(encoding="utf-8")
    pairs = dict(re.findall(r"--(\w+): light-dark\((#\w+, #\w+)\)", style))
    modes = zip(*(pair.split(", ") for pair in pairs.values()), strict=True)
    for colours in (dict(zip(pairs, mode, strict=True)) for mode in modes):
        for ground in ("bg", "card"):
            for ink in ("fg", "dim", "line", "good", "hint", "bad"):
                assert contrast(colours[ink], colours[ground]) >= 4.5, (ink, ground, colours)


def contrast(one: str, other: str) -> float:
    """The contrast of two colours, as WCAG 2.2 reckons it."""

    def luminance(colour: str) -> float:
        digits = colour[1:] if len(colour) == 7 else "".join(2 * digit for digit in colour[1:])
        parts = [int(digits[at : at + 2], 16) / 255 for at in (0, 2, 4)]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]  # fmt: skip
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_nothing_is_loaded_from_elsewhere(site, pages):
    outside = {
        load
        for read in pages.values()
        for load in read.loads
        if urlsplit(load).scheme or load.startswith("//")
    }
    assert outside == set()
    styles = "".join(path.read_text(encoding="utf-8") for path in site.rglob("*.css"))
    assert not re.search(r"(@import|url\()\s*[\"']?(https?:)?//", styles)


def test_every_entry_has_its_page_with_every_field(pages):
    for entry in bundle.load().entries:
        read = pages[f"/entries/{entry.id}/"]
        words = " ".join(" ".join(read.words).split())
        assert f"{entry.id} — " in words and not read.refresh, entry.id
        assert {
            "symptom",
            "root-cause",
            "fix",
            "check",
            "reported-as",
            "sources",
        } <= read.anchors, entry.id
        for signature in entry.signatures:
            assert " ".join(signature.text.split()) in words, (entry.id, signature.text)


def test_a_retired_id_and_small_letters_lead_to_the_entry(site, pages):
    found = bundle.load()
    for gone in found.retired:
        assert (
            urljoin(f"/entries/{gone.id}/", pages[f"/entries/{gone.id}/"].refresh)
            == f"/entries/{found.current(gone.id)}/"
        )
    for entry in found.entries:
        old = f"/entries/{entry.id.lower()}/"
        if not (site / "entries" / entry.id.lower()).samefile(site / "entries" / entry.id):
            assert urljoin(old, pages[old].refresh) == f"/entries/{entry.id}/"


def test_every_platform_command_tool_and_script_is_there(pages):
    def words(address):
        return " ".join(pages[address].words)

    compared = words("/platforms/")
    for name, facts in profile.load().items():
        assert name in compared and f"/platforms/{name}/" in pages
        survives = facts.facts.survives
        assert str(survives.date or showing.standing(survives)) in compared
    unsure = sum(
        fact is not None and fact.status != "confirmed"
        for facts in profile.load().values()
        for _, fact in facts.facts
    )
    assert unsure and "unconfirmed" in compared
    commands = {name.replace(" ", "-") for name in leaves()}
    assert commands <= pages["/reference/commands/"].anchors
    for tool in ("lookup_symptom", "render_run_script", "check_staleness", "gpu_health"):
        assert tool in words("/reference/tools/")
    for path in (ROOT / "scripts").glob("*.*"):
        if path.suffix in (".py", ".sh", ".template"):
            assert path.name in words("/reference/scripts/"), path.name


def test_the_page_of_a_platform_has_its_facts_in_the_order_of_the_command(site, pages):
    for name, platform in profile.load().items():
        there = [fact for fact, value in platform.facts if value]
        headings = [title for fact, title in showing.HEADINGS.items() if fact in there]
        if platform.facts.stop_billing:
            headings.insert(1, showing.DELETED)
        html = (site / f"platforms/{name}/index.html").read_text(encoding="utf-8")
        shown = re.findall(r"<h3[^>]*>([^<]*)", html)
        assert shown[: len(headings)] == headings, name
        guesses = any(
            value and value.date is None and value.by is None for _, value in platform.facts
        )
        words = " ".join(pages[f"/platforms/{name}/"].words)
        assert ("a guess, no page with a date says it" in words) == guesses, name


def test_every_guide_of_the_skill_has_its_page_in_the_menu(pages):
    for path in sorted((ROOT / "references/guides").glob("*.md")):
        read = pages[f"/guides/{path.stem}/"]
        title = path.read_text(encoding="utf-8").splitlines()[0].removeprefix("# ")
        assert " ".join(title.replace("`", "").split()) in " ".join(" ".join(read.words).split())
        assert any(re.search(r"entries/[A-Z]+\d+/$", link) for link in read.links), path.stem
        home = [urljoin("/", link) for link in pages["/"].links]
        assert f"/guides/{path.stem}/" in home, path.stem


def test_the_path_of_a_page_leads_to_it(pages):
    def leads(start, end):
        return end in [urljoin(start, link) for link in pages[start].links]

    assert leads("/entries/GEN5/", "/guides/smoke-runs/")
    assert leads("/guides/lifecycle/", "/guides/monitoring/")
    assert leads("/guides/china-network/", "/platforms/autodl/")


def test_the_figures_stand_with_the_commands_that_measured_them(pages):
    words = " ".join(pages["/figures/"].words)
    assert (
        "python benchmarks/run_benchmarks.py --write" in words
        and "python evals/run_evals.py --write" in words
    )
    assert re.search(r"log of 1000 MB", words) and "claims on strange" in words


def test_no_address_is_written_twice():
    collect, documents, _, _, page = modules()
    site = collect.collect(ROOT)
    assert len({name.lower() for name in site.files if name.endswith(".md")}) == sum(
        name.endswith(".md") for name in site.files
    )
    with pytest.raises(documents.SiteError, match="two pages have the address /find/"):
        site.add(page.Page("find/", "Find", "# Again", "Once more."))


def test_every_link_of_the_guides_leads_to_a_page():
    collect, _, _, _, page = modules()
    known = collect.addresses(ROOT, bundle.load())
    for path in sorted((ROOT / "docs").rglob("*.md")):
        name = path.relative_to(ROOT).as_posix()
        here = page.Place(known[name], known, name)
        text = path.read_text(encoding="utf-8")
        links = re.findall(r"(?<!!)\[[^\]]*\]\(([^)]+)\)", text)  # a picture is no link
        assert [link for link in links if not here.link(link)] == []
        for line in re.findall(r"^remote-gpu-trainer .*$", text, re.M):
            arguments = shlex.split(line.split(" | ")[0], comments=True)[1:]
            parsed(arguments)
        for command in re.findall(r"`remote-gpu-trainer (\w+)", text):
            assert command in {
                "health",
                "lookup",
                "profile",
                "render",
                "status",
                "release",
                "staleness",
            }


def test_text_of_an_entry_stays_text(tmp_path, page):
    _, _, entries, markup, pages_ = modules()
    (tmp_path / "references").mkdir()
    swaps = (
        ("The loss was cut off.", HOSTILE),
        ("Take the cut out.", "This:\n\n```{include} /etc/passwd\n" + HOSTILE + "\n```"),
        (
            "the loss has no way back",
            '</title><script>alert(1)</script>" onload="alert(1) {{ 7*7 }} <b>*x*</b> `a*b` the loss has no way back',
        ),
    )
    (tmp_path / "references/a.md").write_text(
        "# A page\n\n## Part\n\n" + page(*swaps), encoding="utf-8"
    )
    found = bundle.read(tmp_path)
    assert found.faults == ()
    [entry] = found.entries
    known = {"references/a.md": "topics/a/", "entry:O3": "entries/O3/"}
    made = entries.entry_page(entry, pages_.Place("entries/O3/", known, entry.path), (None, None))
    work = tmp_path / "docs"
    work.mkdir()
    (work / "index.md").write_text(made.source(), encoding="utf-8")
    settings = {
        "site_name": "x",
        "theme": {"name": "material", "font": False},
        "markdown_extensions": [{"toc": {"permalink": True}}],
        "nav": [{"Home": "index.md"}],
    }
    (tmp_path / "mkdocs.yml").write_text(yaml.safe_dump(settings))
    done = subprocess.run(
        [sys.executable, "-m", "zensical", "build", "--strict"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    text = (tmp_path / "site/index.html").read_text(encoding="utf-8")
    read = Read(text)
    words = " ".join(read.words)
    assert words.count("<script>alert(1)</script>") >= 2 and "alert(1)" not in "".join(
        re.findall(r"<script[^>]*>(.*?)</script>", text, re.S)
    )
    assert (
        words.count("{{ 7*7 }}") >= 3
        and " 49 " not in words
        and "root:" not in words
        and "gone" not in words.split("```")[0]
    )
    assert (
        "<b> x </b> a*b" in " ".join(words.split()) and "https://x.example/p.png" not in read.loads
    )
    assert not read.handlers and {"fix", "check", "sources"} <= read.anchors


def test_only_pictures_of_the_project_are_shown():
    _, _, _, markup, page = modules()

    def shown(source: str, target: str) -> str:
        return markup.convert(f"![A <b>log](<{target}>)", page.Place("a/b/", {}, source))

    picture = '<img src="../../assets/lookup.svg" alt="A &lt;b&gt;log">'
    assert picture in shown("README.md", "docs/assets/lookup.svg")
    assert picture in shown("docs/guides/x.md", "../assets/lookup.svg")
    for target in ("https://x.example/docs/assets/p.png", "/etc/p.png", "docs/assets/../../p.png"):
        assert "<img" not in shown("README.md", target)


@pytest.mark.parametrize(
    ("target", "leads"),
    [
        ("../references/a.md#t18b--paid-for-80-gb", "../../entries/T18b/"),
        ("../references/a.md#t18--gpu-bored", "../../topics/a/#t18--gpu-bored"),
        ("../references/a.md#t18b", "../../topics/a/#t18b"),
        ("../references/a.md", "../../topics/a/"),
        ("../references/gone.md#part", ""),
    ],
)
def test_a_link_to_the_heading_of_an_entry_leads_to_the_entry(target, leads):
    *_, page = modules()
    known = {"references/a.md": "topics/a/", "entry:T18b": "entries/T18b/"}
    assert page.Place("reference/coverage/", known, "docs/coverage.md").link(target) == leads


def test_a_folder_with_other_files_is_not_replaced(tmp_path):
    module("zensical", INSTALL)
    (tmp_path / "mine.txt").write_text("mine")
    done = subprocess.run(
        [sys.executable, str(ROOT / "tools/build_site.py"), "--out", str(tmp_path)],
        capture_output=True,
        text=True,
    )
    assert (
        done.returncode == 1
        and "choose a new or empty folder" in done.stderr
        and (tmp_path / "mine.txt").read_text() == "mine"
    )


@pytest.fixture(scope="module")
def browser(site, tmp_path_factory):
    """(browser, address of the site)"""
    program = engine("chromium", CHROMIUM)
    served = Served(site)
    steered = Browser(program, tmp_path_factory.mktemp("chromium"))
    yield steered, served.at
    steered.close()
    served.close()


ERRORS = {
    "torch.distributed.DistNetworkError: The server socket has failed to listen on any local network address. port: 29500, useIpv6: false, code: -98, name: EADDRINUSE, message: address already in use": "D4",
    "element 0 of tensors does not require grad": "O3",
    "[rank3]:[E1120 03:12:55] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=15, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600029 milliseconds": "D20",
    "client_loop: send disconnect: Broken pipe": "GEN8",
    "/usr/bin/env: 'bash\\r': No such file or directory": "GEN4",
    "训练 loss 一直停在 0.69 不下降": "O1",
}


@pytest.mark.parametrize("text", ERRORS, ids=ERRORS.values())
def test_the_search_names_the_entry_first(browser, pages, text):
    steered, at = browser
    steered.size(1200, 900)
    steered.open(f"{at}/entries/P1/")
    steered.run(
        f"document.querySelector('.find-bar input').value = {json.dumps(text)}; document.querySelector('.find-bar button').click()"
    )
    first = steered.wait(
        "location.pathname.endsWith('/find/') && document.querySelector('#find-hits a') && document.querySelector('#find-hits a').getAttribute('href')"
    )
    assert first.endswith(f"/entries/{ERRORS[text]}/")
    snippet = steered.run("document.querySelector('#find-hits p').textContent")
    assert snippet == pages[f"/entries/{ERRORS[text]}/"].description
    steered.run("document.querySelector('#find-hits a').click()")
    assert steered.wait(
        f"location.pathname.endsWith('/entries/{ERRORS[text]}/') && document.querySelector('h1').textContent"
    ).startswith(ERRORS[text])


def test_every_literal_text_finds_its_entry(browser):
    steered, at = browser
    steered.open(f"{at}/find/", "window.findPages")
    asked = [
        (entry.id, s.text)
        for entry in bundle.load().entries
        for s in entry.signatures
        if not s.is_regex and s.role != "advice"
    ]
    found = json.loads(
        steered.run(
            f"JSON.stringify({json.dumps([text for _, text in asked])}.map((text) => findPages(text).slice(0, 3)))"
        )
    )
    missed = [
        (entry_id, text)
        for (entry_id, text), pages in zip(asked, found, strict=True)
        if f"entries/{entry_id}/" not in pages
    ]
    assert asked and missed == []
    assert (
        steered.run(
            "fetch('../assets/find.json').then((answer) => answer.json()).then((rows) => rows.flatMap((row) => row.r).filter((text) => !compiled(text).length))"
        )
        == []
    )


def test_the_search_says_when_nothing_fits(browser):
    steered, at = browser
    steered.open(f"{at}/find/", "window.findPages")
    for text in (
        "javax.servlet.ServletException: could not resolve view with name 'orders/list'",
        "xkcd qwertz zzyzx",
    ):
        steered.run(
            f"(() => {{ const field = document.getElementById('find-text'); field.value = {json.dumps(text)}; field.dispatchEvent(new Event('input')); }})()"
        )
        assert steered.wait(
            "(() => { const told = document.getElementById('find-state').textContent; return told.startsWith('Nothing here fits.') && told; })()"
        )


KINDS = {"home": "", "index": "topics/", "entry": "entries/GEN4/", "find": "find/?q=loss+is+nan", "comparison": "platforms/", "platform": "platforms/runpod/", "tools": "reference/tools/", "glossary": "reference/glossary/",
         "commands": "reference/commands/", "figures": "figures/", "guide": "guides/add-an-entry/", "topic": "topics/distributed-launch/"}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_a_page_fits_a_phone(browser, tmp_path, kind):
    steered, at = browser
    steered.size(360, 800)
    steered.requests.clear()
    steered.open(f"{at}/{KINDS[kind]}", "document.styleSheets.length > 2")
    wide = """[...document.querySelectorAll('article *, .find-bar *')].filter((one) => one.getBoundingClientRect().right > innerWidth + 1
      && !one.closest('.wide, pre, .md-typeset__scrollwrap, svg')).map((one) => one.outerHTML.slice(0, 100))"""
    assert steered.run(wide) == []
    assert steered.run("document.documentElement.scrollWidth") <= 360 == steered.run("innerWidth")
    assert (
        steered.run(
            "Math.min(...[...document.querySelectorAll('article p, article li, article td')].map((one) => parseFloat(getComputedStyle(one).fontSize)))"
        )
        >= 11
    )
    steered.picture(tmp_path / f"{kind}.png")
    assert (tmp_path / f"{kind}.png").stat().st_size > 8_000
    assert {
        urlsplit(address).netloc for address in steered.requests if not address.startswith("data:")
    } == {urlsplit(at).netloc}
