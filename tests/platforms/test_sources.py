"""The sources of facts: opened on a server of the test's own, and what of a fact is looked for on its page."""

import json
import re
import threading
import time
from datetime import date
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from remote_gpu_trainer.catalogue import bundle
from remote_gpu_trainer.cli import main as cli
from remote_gpu_trainer.platforms import opening, profile, source_report, sources
from remote_gpu_trainer.platforms.opening import Opened
from remote_gpu_trainer.platforms.profile import Fact, Quota, Text

from tests.conftest import ROOT

HTML = "text/html; charset=utf-8"
LONG = "<p>" + "Words of a page that a person reads. " * 20 + "</p>"
PAGES = {
    "/holds": (HTML, LONG + "<p>It costs $<b>0</b><i>.69</i> an hour; kept for 15 days.</p>"),
    "/changed": (HTML, LONG + "<p>It costs $0.79 an hour; kept for 15 days.</p>"),
    "/in-a-script": (HTML, LONG + "<script>price = '$0.69'</script>kept for 15 days"),
    "/script-only": (HTML, "<div id=app></div><script>draw('$0.69', '15 days')</script>"),
    "/short": (HTML, "<p>$0.69, 15 days</p>"),
    "/plain": ("text/plain", "0.690 per hour, 15 days"),
    "/chinese": ("text/html", '<meta charset="gb18030">每小时 0.69 元，15 天后释放'),
    "/latin": ("text/plain; charset=latin-1", "0.69 \u00a3, 15 jours \u00e0 compter"),
    "/wide": ("text/plain", "0.69 and 15"),
    "/unknown-charset": ("text/plain; charset=klingon", "0.69 and 15"),
    "/nuls": ("text/plain", "0.69\0 15"),
    "/picture": ("image/png", "0.69 15"),
    "/home": (HTML, "the front page, 0.69 15"),
    "/": (HTML, "the front page, 0.69 15"),
    "/forbidden-to-programs": (HTML, "0.69 15"),
    "/robots.txt": ("text/plain", "User-agent: *\nDisallow: /forbidden-to-programs\n"),
}
ENCODED = {"/chinese": "gb18030", "/latin": "latin-1", "/wide": "utf-16"}
REDIRECTS = {
    "/circle": "/circle-2",
    "/circle-2": "/circle",
    "/moved": "/holds",
    "/old-page": "/",
    "/old-page-in-english": "/en/",
    "/en/": "/",
    "/to-ftp": "ftp://example.org/x",
}
STATUS = {"/gone": 410, "/no-rights": 403, "/broken": 500, "/too-many": 429}


class Site(BaseHTTPRequestHandler):
    asked: list[tuple[str, str]] = []

    def do_GET(self):
        self.asked.append((self.path, self.headers["User-Agent"]))
        if self.path in REDIRECTS:
            self.send_response(302)
            self.send_header("Location", REDIRECTS[self.path])
            self.send_header("Content-Length", "0")
            self.end_headers()
        elif self.path in ("/huge", "/slow"):
            self.send_response(200)
            self.send_header("Content-Type", "text/plain")
            self.end_headers()
            self.endless()
        elif self.path in PAGES:
            kind, text = PAGES[self.path]
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.end_headers()
            self.wfile.write(text.encode(ENCODED.get(self.path, "utf-8")))
        else:
            self.send_error(STATUS.get(self.path, 404))

    def endless(self):
        try:
            while True:
                self.wfile.write(b"0.69 15 " * (1 << 17 if self.path == "/huge" else 1))
                time.sleep(0 if self.path == "/huge" else 0.05)
        except OSError:
            pass

    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def site():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Site)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(opening, "PAUSE", 0)
    Site.asked.clear()


def fact(text: str, source: str, day: date | None = date(2026, 8, 20)) -> Fact:
    status = "confirmed" if day else "unconfirmed"
    return Fact[Text](value=Text(text=text), source=source, date=day, status=status)


def came_of(source: str, text: str = "$0.69 an hour, kept for 15 days") -> tuple[str, str]:
    """The state of a fact whose source is this address, and why."""
    [looked] = sources.look({"x.price": fact(text, source)}, opening.open_all([source]))
    return looked.state, looked.why


@pytest.mark.parametrize(
    "path",
    ["holds", "moved", "short", "plain", "chinese", "latin", "wide", "unknown-charset", "home"],
)
def test_a_page_that_says_the_number_is_no_reason_to_read_the_fact_again(site, path):
    assert came_of(f"{site}/{path}") == ("said", "every number of it is on the page")


@pytest.mark.parametrize("path", ["changed", "in-a-script"])
def test_a_number_that_a_reader_does_not_see_on_the_page_is_named(site, path):
    assert came_of(f"{site}/{path}") == ("changed", "not on the page: $0.69")


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("nowhere", "404 Not Found"),
        ("gone", "410 Gone"),
        ("circle", "it is redirected in a circle"),
        ("old-page", "it leads to the home page, http://127.0.0.1"),
        ("old-page-in-english", "it leads to the home page, http://127.0.0.1"),
    ],
)
def test_a_dead_link_is_told_from_a_page_that_cannot_be_looked_at(site, path, why):
    state, said = came_of(f"{site}/{path}")
    assert state == "gone" and said.startswith(why)


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("script-only", "it shows its text by JavaScript alone"),
        ("no-rights", "403 Forbidden"),
        ("broken", "500 Internal Server Error"),
        ("too-many", "429 Too Many Requests: the site wants no more questions now"),
        ("picture", "it is no text (image/png)"),
        ("nuls", "it is no text (it holds NULs)"),
        ("huge", "it is longer than 10 MB"),
        ("to-ftp", "it leads to ftp://example.org/x, which isn't a web page"),
        ("forbidden-to-programs", "the site's robots.txt asks programs not to open it"),
    ],
)
def test_what_cannot_be_looked_at_says_why_and_nothing_of_the_fact(site, path, why):
    assert came_of(f"{site}/{path}") == ("unseen", why)


def test_a_page_that_never_ends_is_left_after_its_time(site, monkeypatch):
    monkeypatch.setattr(opening, "MOST_SECONDS", 0.3)
    assert came_of(f"{site}/slow") == ("unseen", "it takes longer than 0 s")


def test_a_host_that_is_not_there_is_asked_once():
    closed = "http://127.0.0.1:1"
    opened = opening.open_all([f"{closed}/{name}" for name in "abc"])
    assert [page.unseen for page in opened.values()] == [
        "no answer ([Errno 111] Connection refused)"
    ] * 3


def test_a_host_that_wants_no_more_questions_gets_none(site):
    opened = opening.open_all([f"{site}/too-many", f"{site}/holds"])
    assert opened[f"{site}/holds"].unseen.startswith("429 Too Many Requests")
    assert "/holds" not in [path for path, _ in Site.asked]


def test_each_page_is_opened_once_after_robots_txt_under_a_name_of_its_own(site):
    counts = []
    opening.open_all([f"{site}/holds", f"{site}/short", f"{site}/holds"], counts.append)
    paths, agents = zip(*Site.asked, strict=True)
    assert paths == ("/robots.txt", "/holds", "/short") and counts == [1, 2]
    assert set(agents) == {opening.AGENT} and agents[0].startswith("remote-gpu-trainer/")


def test_pages_of_one_host_have_a_pause_between_them(site):
    started = time.monotonic()
    opening.open_all([f"{site}/holds", f"{site}/short"], pause=0.2)
    assert time.monotonic() - started >= 0.4


def test_a_token_in_an_address_is_masked_where_it_is_shown(site, monkeypatch):
    monkeypatch.setitem(REDIRECTS, "/old-page", "/?token=ghp_" + "a1B2" * 9)
    state, said = came_of(f"{site}/old-page")
    assert state == "gone" and "a1B2" not in said


def test_no_other_scheme_is_opened(tmp_path):
    (tmp_path / "x").write_text("0.69 15")
    [page] = opening.open_all([f"file://{tmp_path}/x"]).values()
    assert page == Opened(unseen="it isn't an address of the web")


def test_a_file_that_github_shows_is_read_itself():
    assert opening.readable("https://github.com/o/r/blob/main/a/b.md#L3") == (
        "https://raw.githubusercontent.com/o/r/main/a/b.md"
    )
    assert opening.readable("https://github.com/o/r/issues/3") == "https://github.com/o/r/issues/3"


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("RTX 4090 at $0.69 an hour on 2026-07-10", ["$0.69"]),
        ("after 15 days, or 5 minutes, in 3 regions", ["15", "5 minutes"]),
        ("since 2026, v2 of H100-80GB", []),
        ("10,000 files, 1.5 GB", ["10,000", "1.5"]),
        ("--min-cuda-version 12.8", ["12.8"]),
        ("by /v2/pods and sbatch.1", []),
        ("--allow=tcp:6006 and --format=ReqTRES%60", []),
    ],
)
def test_the_numbers_of_a_fact_are_those_that_a_change_would_change(text, numbers):
    assert list(sources.numbers_of(fact(text, "https://a.b"))) == numbers


def test_a_number_in_a_field_of_its_own_is_looked_for_too():
    value = Quota(storage="grows only", inodes=None, disk_gb=4096)
    held = Fact[Quota](value=value, source="https://a.b", date=None, status="unconfirmed")
    assert list(sources.numbers_of(held)) == ["4096"]


@pytest.mark.parametrize(
    ("written", "page", "found"),
    [
        ("0.20", "costs 0.2 a GB", True),
        ("0.20", "costs 0.25 a GB", False),
        ("10,000", "10000 files", True),
        ("10000", "10,000 files", True),
        ("15", "115 and 15.5 and 150", False),
        ("15", "at least 15.", True),
        ("12.8", "12.8.1", False),
        ("5 minutes", "5 min", True),
        ("5 minutes", "5 hours", False),
        ("7 days", "7天后释放", True),
    ],
)
def test_a_number_is_found_as_a_page_may_write_it_and_not_within_another(written, page, found):
    held = {"x.price": fact(written, "https://a.b")}
    [looked] = sources.look(held, {"https://a.b": Opened(text=page)})
    assert (looked.state == "said") == found


@pytest.mark.parametrize(
    ("page", "state"),
    [
        ("sbatch \\-\\-requeue does it", "said"),
        ("nothing of the kind", "opens"),
    ],
)
def test_words_of_a_command_can_confirm_a_fact_without_numbers_and_never_accuse_it(page, state):
    held = {"x.spot": fact("--requeue asks for it", "https://a.b")}
    assert [each.state for each in sources.look(held, {"https://a.b": Opened(text=page)})] == [
        state
    ]


def test_the_most_urgent_stands_first():
    pages = {
        "https://gone": Opened(gone="404 Not Found"),
        "https://new": Opened(text="nothing"),
        "https://shut": Opened(unseen="403 Forbidden"),
    }
    held = {
        "x.price": fact("$0.69", "https://shut"),
        "x.paths": fact("/tmp", "https://gone"),
        "x.egress": fact("$0.10", "https://new"),
        "y.egress": fact("$0.10", "https://new", date(2026, 1, 1)),
        "x.survives": fact("15 days", "https://new"),
    }
    ids = [looked.id for looked in sources.look(held, pages)]
    assert ids == ["x.paths", "x.survives", "y.egress", "x.egress", "x.price"]


def test_most_facts_of_the_platforms_have_a_number_or_a_command_word():
    facts = sources.chosen(profile.load(), []).values()
    numbers = [held for held in facts if sources.numbers_of(held)]
    either = [held for held in facts if sources.numbers_of(held) or sources.words_of(held)]
    assert len(numbers) / len(facts) > 0.3 and len(either) / len(facts) > 0.6


# the command


@pytest.fixture
def platforms(tmp_path, monkeypatch, site):
    """A catalogue of one platform, whose facts name pages of the test's own server."""
    text = (ROOT / "profiles/paperspace.md").read_text(encoding="utf-8")
    (tmp_path / "profiles").mkdir()
    page = tmp_path / "profiles/paperspace.md"

    def write(**paths: str) -> None:
        """Let facts name these pages; those that aren't named have /holds."""
        name = ""
        lines = []
        for line in text.split("\n"):
            if head := re.fullmatch(r"  ([a-z_]+):", line):
                name = head[1]
            line = re.sub(
                r"^    source: .*", f"    source: {site}/{paths.get(name, 'holds')}", line
            )
            lines.append(line)
        page.write_text("\n".join(lines), encoding="utf-8")

    monkeypatch.setattr(bundle, "bundle_root", lambda: tmp_path)
    return write


def command(capsys, *arguments: str):
    code = cli.main(["staleness", "--sources", *arguments])
    out = capsys.readouterr()
    return code, out.out, out.err


def test_the_command_says_which_facts_to_read_again_and_why(platforms, capsys, site):
    platforms(ssh="nowhere", egress="script-only")
    code, out, _ = command(capsys, "paperspace.ssh", "paperspace.egress", "paperspace.scheduler")
    assert code == 1
    assert out == (
        "The page is gone: 1 of 3 facts\n"
        "Couldn't be looked at: 1 of 3 facts\n\n"
        "The page is gone, so read again:\n"
        f"  paperspace.ssh (hardly, read {day_of('ssh')}): 404 Not Found: {site}/nowhere\n\n"
        "Couldn't be looked at, so read again:\n"
        f"  paperspace.egress (amount, read {day_of('egress')}): it shows its text by JavaScript "
        f"alone: {site}/script-only\n\n"
        "Of 0 facts the page says the numbers or command words; of 1 it opens, and shows nothing "
        "to compare.\n"
    )


def day_of(name: str) -> date | None:
    return getattr(profile.read_profile(ROOT / "profiles/paperspace.md").facts, name).date


def test_the_answer_as_json_counts_every_fact_of_the_platform(platforms, capsys):
    platforms(ssh="nowhere")
    code, out, _ = command(capsys, "paperspace", "--json")
    answer = json.loads(out)
    assert code == 1 and sum(answer["counts"].values()) == 17
    first, *rest = answer["read_again"]
    assert (first["id"], first["state"], first["why"]) == (
        "paperspace.ssh",
        "gone",
        "404 Not Found",
    )
    assert {each["state"] for each in rest} <= {"changed"} and len(rest) == answer["counts"][
        "changed"
    ]


def test_the_page_for_an_issue_has_a_table_for_each_reason(platforms, capsys, site):
    platforms(ssh="nowhere")
    code, out, _ = command(capsys, "paperspace.ssh", "--markdown")
    assert code == 1 and out.startswith("# Sources of facts on 20")
    assert "## The page is gone (1)\n\n| id | matters | checked | why | source |" in out
    assert (
        f"| paperspace.ssh | hardly | {day_of('ssh')} | 404 Not Found | <{site}/nowhere> |" in out
    )


def test_nothing_to_read_again_is_code_zero(platforms, capsys):
    platforms()
    code, out, _ = command(capsys, "paperspace.scheduler")
    assert code == 0 and out.startswith(
        "Of 0 facts the page says the numbers or command words; of 1"
    )


def test_where_no_page_can_be_looked_at_the_code_is_two(platforms, capsys):
    platforms(ssh="no-rights", egress="script-only")
    code, out, _ = command(capsys, "paperspace.ssh", "paperspace.egress")
    assert code == 2 and out.startswith("Couldn't be looked at: 2 of 2 facts")


def test_many_facts_that_could_not_be_seen_are_told_by_site_and_reason(site):
    held = {f"x.f{n}": fact("15 days", f"{site}/p{n % 3}") for n in range(9)}
    pages = {f"{site}/p{n}": Opened(unseen="403 Forbidden") for n in range(3)}
    lines = source_report.as_text(sources.look(held, pages)).splitlines()
    assert lines[3] == f"  {site.removeprefix('http://')}: 9 facts, 403 Forbidden"
    assert "--all prints every finding" in lines[5]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--sources", "moon"), "unknown source 'moon'; give a platform (runpod) or a fact of one"),
        (
            ("--sources", "--on", "2026-01-01"),
            "--sources and --on can't be combined; leave --on out",
        ),
        (("--sources", "--limit", "price=3"), "--sources and --limit can't be combined"),
        (("runpod", "modal"), "one scope at a time; give one name, or --scope, or several"),
        (("runpod", "--scope", "modal"), "one scope at a time"),
    ],
)
def test_a_question_that_cannot_be_answered_opens_nothing(arguments, said, capsys, monkeypatch):
    monkeypatch.setattr(opening, "open_all", pytest.fail)
    assert cli.main(["staleness", *arguments]) == 2
    assert f"error: {said}" in capsys.readouterr().err


def test_a_bare_name_is_a_scope(capsys):
    told = []
    for words in (["runpod"], ["--scope", "runpod"]):
        cli.main(["staleness", "--on", "2030-01-01", *words])
        told.append(capsys.readouterr().out)
    assert told[0] == told[1] and "runpod" in told[0]
