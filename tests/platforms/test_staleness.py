"""What is out of date: the cases, the command, and the look-up that marks its matches."""

import json
import re
import subprocess
import sys
from datetime import date, timedelta

import pytest
from remote_gpu_trainer.catalogue import bundle
from remote_gpu_trainer.catalogue.facts import FactError
from remote_gpu_trainer.catalogue.freshness import LIMITS, kind_of
from remote_gpu_trainer.catalogue.front_matter import read_fact_heads
from remote_gpu_trainer.cli import main as cli
from remote_gpu_trainer.platforms import checking, installed, staleness
from remote_gpu_trainer.platforms.profile import load as load_profiles
from remote_gpu_trainer.platforms.staleness import Statement, contradictions

from tests.conftest import ROOT

sys.path.insert(0, str(ROOT / "evals"))

from grading import stale

CASES = ROOT / "evals/sets/staleness.jsonl"


def test_forty_cases_are_answered_right():
    count, wrong = stale.run(CASES)
    assert count >= 40 and wrong == []


def test_a_wrong_expectation_is_seen():
    case = {
        "id": "x",
        "on": "2026-11-20",
        "profiles": {
            "runpod": {
                "price": {
                    "source": "https://a.b",
                    "date": "2026-01-01",
                    "status": "confirmed",
                    "kind": "price",
                }
            }
        },
        "expect": {},
    }
    assert stale.answer(case) == {"stale": ["runpod.price"]}


def test_the_whole_catalogue_takes_no_longer_cold_than_a_few_starts():
    resource = pytest.importorskip("resource")
    taken: dict[str, list[float]] = {"staleness --json": [], "--version": []}
    for _ in range(3):  # time of the processor, in turns: other tests run beside this one
        for words, seconds in taken.items():
            command = [sys.executable, "-m", "remote_gpu_trainer", *words.split()]
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            done = subprocess.run(command, capture_output=True, text=True)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            seconds.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
            assert done.returncode in (0, 1), done.stderr
    assert min(taken["staleness --json"]) < 6 * min(taken["--version"])


def test_nothing_here_contradicts_itself():
    assert contradictions(staleness.read_statements(ROOT)) == []


def test_two_values_of_one_thing_are_named_with_their_places():
    said = [
        Statement("a.b.c", "5", "one"),
        Statement("a.b.c", "5.0", "two"),
        Statement("d", "x", "one"),
        Statement("d", "y", "two"),
    ]
    assert contradictions(said) == [
        {"id": "d", "values": [{"value": "x", "place": "one"}, {"value": "y", "place": "two"}]}
    ]


def guide_that_says(guide: str, /, **repeat: object) -> str:
    """A platform's page with two facts, whose guide repeats one of them."""
    return (
        "---\nfacts:\n  preemption:\n    value: {notice_seconds: 120}\n"
        "  spot:\n    value: {offered: true, text: x}\n"
        f"repeats: [{json.dumps(repeat)}]\n---\n\n{guide}\n"
    )


@pytest.mark.parametrize(
    ("fact", "value", "other"),
    [("preemption.notice_seconds", 120, 30), ("spot.offered", True, False)],
)
def test_a_value_in_the_guide_is_held_against_the_front_matter(fact, value, other, tmp_path):
    (tmp_path / "profiles").mkdir()
    page = tmp_path / "profiles/aws.md"
    page.write_text(guide_that_says("It says so.", fact=fact, value=value, text="says so"))
    assert contradictions(staleness.read_statements(tmp_path)) == []
    page.write_text(guide_that_says("It says so.", fact=fact, value=other, text="says so"))
    [found] = contradictions(staleness.read_statements(tmp_path))
    places = [said["place"] for said in found["values"]]
    assert found["id"] == f"aws.{fact}" and places == ["profiles/aws.md:10", "profiles/aws.md"]


@pytest.mark.parametrize(
    ("fact", "text", "error"),
    [
        ("preemption.notice", "says so", "repeats preemption.notice, which it has no fact for"),
        ("preemption.notice_seconds", "says it", "its guide doesn't say 'says it'"),
    ],
)
def test_a_repeat_of_no_fact_or_no_text_is_an_error(fact, text, error, tmp_path):
    (tmp_path / "profiles").mkdir()
    page = guide_that_says("It says so.", fact=fact, value=120, text=text)
    (tmp_path / "profiles/aws.md").write_text(page)
    with pytest.raises(FactError, match=error):
        staleness.read_statements(tmp_path)


def test_the_pages_here_say_which_facts_they_repeat():
    said = [s.thing for s in staleness.read_statements(ROOT) if re.search(r"\.md:\d+$", s.place)]
    assert len(said) >= 6


def page_with(token: str, form: str) -> str:
    """A page with one token, in one of the forms in which YAML has a list."""
    listed = form.replace("TOKEN", token)
    return f"---\ntokens:{listed}\nfacts: {{}}\n---\n"


@pytest.mark.parametrize(
    "form",
    [
        '\n- first\n- "TOKEN"',
        "\n  - first\n  - TOKEN",
        " [first, TOKEN]",
        " ['first', 'TOKEN']",
        ' ["first",\n  "TOKEN"]',
    ],
)
def test_a_token_of_two_platforms_is_seen_in_every_form_of_a_list(form, tmp_path):
    (tmp_path / "references").mkdir()
    (tmp_path / "profiles").mkdir()
    (tmp_path / "profiles/aws.md").write_text(page_with("/mnt/x", ' ["/mnt/x"]'), encoding="utf-8")
    (tmp_path / "profiles/gcp.md").write_text(page_with("/mnt/x", form), encoding="utf-8")
    [found] = contradictions(staleness.read_statements(tmp_path))
    assert found == {
        "id": "token /mnt/x",
        "values": [
            {"value": "aws", "place": "profiles/aws.md"},
            {"value": "gcp", "place": "profiles/gcp.md"},
        ],
    }


def test_every_token_of_every_profile_is_held_against_the_others():
    named = {
        (said.value, said.thing)
        for said in staleness.read_statements(ROOT)
        if "token" in said.thing
    }
    assert named == {
        (name, f"token {token}")
        for name, profile in load_profiles().items()
        for token in profile.tokens
    }


def test_front_matter_that_is_no_yaml_is_named_with_its_line(tmp_path):
    (tmp_path / "references").mkdir()
    (tmp_path / "profiles").mkdir()
    (tmp_path / "profiles/x.md").write_text("---\nname: x\nfacts: [\n---\n", encoding="utf-8")
    with pytest.raises(FactError, match=r"profiles/x\.md: the front matter isn't YAML \(line "):
        checking.check(date(2026, 11, 20), root=tmp_path)


# the command


def command(capsys, *arguments: str):
    code = cli.main(["staleness", *arguments])
    out = capsys.readouterr()
    return code, out.out, out.err


def test_the_command_says_what_to_open_again_and_exits_with_one(capsys):
    code, out, _ = command(capsys, "--on", "2030-01-01", "--scope", "O1")
    assert code == 1 and out.startswith(
        "Entries: 1 past the limit for their age\n\n"
        "Entries past their limit:\n"
        f"  O1: checked {bundle.load().get('O1').verified}, limit 730 days: ["
    )


def test_the_command_exits_with_zero_when_nothing_is_stale(capsys):
    assert command(capsys, "--on", "2026-11-20", "--scope", "O1") == (0, "Nothing is stale.\n", "")


def test_a_limit_of_thousands_of_years_makes_nothing_stale_and_no_traceback(capsys):
    assert command(
        capsys, "--on", "2030-01-01", "--scope", "O1", "--limit", "mechanism=99999999999"
    ) == (0, "Nothing is stale.\n", "")


def test_a_library_is_known_by_the_name_that_people_write(capsys):
    by_name = [
        command(capsys, "--released", f"{name} 99.0", "--scope", "references", "--json")[1]
        for name in ("torch", "PyTorch", "TORCH")
    ]
    assert (
        by_name[0] == by_name[1] == by_name[2]
        and "ran with torch 2.13.0, not yet with 99.0" in by_name[0]
    )


def test_a_scope_holds_for_contradictions_too():
    said = [
        Statement("aws.spot.offered", "True", "profiles/aws.md"),
        Statement("aws.spot.offered", "False", "references/a.md:3"),
    ]
    for scope, count in (("aws", 1), ("AWS", 1), ("references", 1), ("aws.spot", 1), ("runpod", 0)):
        read = bundle.load()
        assert (
            len(
                staleness.check(
                    read.entries,
                    read_fact_heads(ROOT),
                    said,
                    on=date(2026, 11, 20),
                    scope=scope,
                ).contradictions
            )
            == count
        ), scope


def test_markdown_is_a_page_with_a_table(capsys):
    code, out, _ = command(capsys, "--on", "2030-01-01", "--scope", "runpod", "--markdown")
    assert (
        code == 1
        and out.startswith("# Staleness on 2030-01-01\n")
        and "| id | checked | limit_days | source |" in out
    )


def test_a_page_for_an_issue_is_cut_at_what_an_issue_holds(capsys):
    code, out, _ = command(capsys, "--on", "2036-01-01", "--released", "torch 99.0", "--markdown")
    assert code == 1 and 50_000 < len(out.encode()) < 61_000
    assert re.search(
        r"\nCut here: \d+ more lines; `remote-gpu-trainer staleness --on 2036-01-01 --json` has all\.\n",
        out,
    )


def test_the_summary_comes_first_and_the_rest_waits_for_all(tmp_path, capsys):
    (tmp_path / "freeze.txt").write_text("torch==1.0.0\n")
    arguments = ("--on", "2026-11-23", "--installed", str(tmp_path / "freeze.txt"))
    arguments += ("--released", "torch 99.0")
    code, short, _ = command(capsys, *arguments)
    summary, *sections = short.rstrip("\n").split("\n\n")
    assert code == 1 and [line.split(":")[0] for line in summary.splitlines()] == [
        "Your packages",
        "Release",
        "Platforms",
        "Platforms",
    ]
    assert len(short.splitlines()) < 60
    assert sections[0].startswith("About other versions than yours:\n")
    assert re.search(r"^  … and \d+ more$", sections[1], re.M)
    assert sections[-1] == (
        "--all prints every finding; --scope NAME prints those of one platform, page or id."
    )
    code, whole, _ = command(capsys, *arguments, "--all")
    report = json.loads(command(capsys, *arguments, "--json")[1])
    findings = [item["id"] for found in report.values() for item in found]
    assert whole.startswith(summary) and "--all prints" not in whole
    assert sorted(re.findall(r"^  ([\w.-]+)(?: \(\w+\))?: ", whole, re.M)) == sorted(findings)


def test_many_facts_are_told_by_platform_with_the_oldest():
    def fact(name, checked):
        about = {"what": "", "checked": checked, "limit_days": 90, "source": "https://a.b"}
        return {"id": name, **about}

    facts = [fact(f"aws.f{n}", f"2026-01-{n + 10}") for n in range(8)]
    report = staleness.Report(stale=[*facts, fact("gcp.price", "2025-12-31")])
    assert checking.as_text(report).splitlines() == [
        "Platforms: 9 facts past the limit for their age",
        "",
        "Facts past their limit:",
        "  aws: 8 facts, oldest f0 of 2026-01-10",
        "  gcp: 1 fact, oldest price of 2025-12-31",
        "",
        "--all prints every finding; --scope NAME prints those of one platform, page or id.",
    ]


HOSTILE = [
    "a|b",
    "a\nb",
    "a\r\n| x | y |",
    "a\u2028b\x85c\x0bd",
    "\\|",
    "\\\\|",
    "<img src=x onerror=alert(1)>",
    "&lt;b&gt;",
    "](https://evil.example) [x",
    "![x](https://evil.example/p.png)",
    "`code` ``|``",
    "**bold** __bold__ _em_ ~~gone~~",
    "# heading",
    "{{ on }} {% raw %}",
    "$x$",
    "<!-- x",
    "\u202egpj.exe",
    "",
]


def rendered_cells(page: str) -> list[list[str]]:
    """The rows of every table of a page as plain text, by a Markdown parser; no other markup."""
    markdown = pytest.importorskip("markdown_it").MarkdownIt("gfm-like", {"linkify": False})
    rows, inside = [], False
    for token in markdown.parse(page):
        assert token.type != "html_block"
        if token.type == "tr_open":
            rows.append([])
        inside = token.type in ("td_open", "th_open") or (inside and token.type == "inline")
        if inside and token.type == "inline":
            kinds = {child.type for child in token.children}
            assert kinds <= {"text", "text_special", "link_open", "link_close"}, token.content
            for child in token.children:
                if child.type == "link_open":
                    assert child.attrs["href"].startswith("https://a.b/"), child.attrs
            rows[-1].append("".join(child.content for child in token.children))
    return rows


@pytest.mark.parametrize("value", HOSTILE)
def test_no_value_breaks_out_of_its_cell_on_the_page(value):
    plain = " ".join("".join(c if c.isprintable() else " " for c in value).split())
    report = staleness.Report(
        stale=[{"id": value, "checked": value, "limit_days": 90, "source": value}],
        out_of_range=[{"id": value, "requirement": value, "installed": value}],
        doubt=[{"id": "x", "why": value, "source": f"[{value}](https://a.b/c)"}],
        contradictions=[{"id": value, "values": [{"value": value, "place": value}] * 2}],
    )
    page = checking.as_markdown(report, date(2026, 11, 20))
    assert page.count("\n## ") == 4
    rows = rendered_cells(page)
    assert [len(row) for row in rows] == [4, 4, 2, 2, 3, 3, 3, 3]
    said = " ".join(f"{value} ({value}); {value} ({value})".split())
    said = " ".join("".join(c if c.isprintable() else " " for c in said).split())
    assert rows[1] == [plain, plain, "90", plain]
    assert rows[3] == [plain, said] and rows[5] == [plain, plain, plain]
    assert rows[7][1] == plain


@pytest.mark.parametrize(
    ("source", "written"),
    [
        ("https://a.b/c_d?e=1&f=2", "<https://a.b/c_d?e=1&f=2>"),
        ("https://a.b/c|d", "<https://a.b/c%7Cd>"),
        ("[torch, `a_b`: c](https://a.b/c(d))", "[torch, a_b: c](<https://a.b/c(d)>)"),
        ("[a|b](https://a.b/?c&lt=d)", "[a\\|b](<https://a.b/?c&amp;lt=d>)"),
        ("javascript:alert(1)", "javascript:alert(1)"),
        ("[a](javascript:alert(1))", "\\[a\\](javascript:alert(1))"),
    ],
)
def test_a_source_is_a_link_only_where_it_is_an_address(source, written):
    report = staleness.Report(doubt=[{"id": "x", "why": "y", "source": source}])
    assert f"| x | y | {written} |" in checking.as_markdown(report, date(2026, 11, 20))


def test_a_field_that_the_page_needs_and_a_finding_lacks_is_an_error():
    jinja2 = pytest.importorskip("jinja2")
    report = staleness.Report(doubt=[{"id": "x", "source": "https://a.b"}])
    with pytest.raises(jinja2.UndefinedError):
        checking.as_markdown(report, date(2026, 11, 20))


def test_nothing_stale_is_a_page_too():
    page = checking.as_markdown(staleness.Report(), date(2026, 11, 20))
    assert page == "# Staleness on 2026-11-20\n\nNothing is stale.\n"


@pytest.mark.parametrize(
    "arguments, said",
    [
        (("--on", "soon"), "'soon' isn't a date; write it as YYYY-MM-DD"),
        (("--scope", "nowhere"), "unknown scope 'nowhere'; give an id (O7)"),
        (("--released", "torch"), "'torch' isn't a release; write a name and a version"),
        (("--on", "20261120"), "'20261120' isn't a date"),
        (
            ("--released", "nosuchlibrary 1.0"),
            "no entry is about 'nosuchlibrary 1.0'; name one of ",
        ),
        (("--limit", "price=-1"), "'price=-1' isn't a limit; write KIND=DAYS with one of price"),
        (
            ("--installed", "/no/such/file"),
            "can't read /no/such/file (No such file or directory); pass 'pip freeze' text",
        ),
        (("--json", "--markdown"), "--json and --markdown can't be combined; give one of them"),
    ],
)
def test_a_question_that_cannot_be_answered_is_code_two(capsys, arguments, said):
    code, out, error = command(capsys, *arguments)
    assert code == 2 and said in error
    assert out == "" or json.loads(out)["error"] in error


def test_an_interpreter_tells_what_is_installed(capsys):
    text = installed.read_packages(sys.executable)
    assert [str(v) for v in installed.versions(text)["pytest"]] == [pytest.__version__]
    code, out, _ = command(
        capsys,
        "--installed",
        sys.executable,
        "--json",
        "--on",
        "2026-11-20",
        "--scope",
        "references",
    )
    assert code in (0, 1) and "concerns" in json.loads(out)


def read(text: str) -> dict[str, str]:
    return {name: " ".join(map(str, found)) for name, found in installed.versions(text).items()}


@pytest.mark.parametrize(
    "text",
    [
        "torch==2.13.0",
        "\ufeff# by hand\r\ntorch==2.13.0 ; sys_platform == 'linux'\r\ntorch==1.13.1 ; sys_platform == 'darwin'\r\n",
        "Package    Version\n---------- -------\ntorch      2.13.0\n",
        '[{"name": "torch", "version": "2.13.0"}]',
        "# packages in environment at /opt/conda:\n#\n# Name   Version   Build  Channel\npytorch   2.13.0   py3.11_cuda12.8  pytorch\n",
        "# This file may be used to create an environment using:\npytorch=2.13.0=py3.11_cuda12.8\n",
        "https://example.org/whl/torch-2.13.0-cp311-cp311-manylinux_2_28_x86_64.whl#sha256=0\n",
        'lock-version = "1.0"\n\n[[packages]]\nname = "torch"\nversion = "2.13.0"\n',
        'version = 1\n[[package]]\nname = "torch"\nversion = "1.13.1"\nresolution-markers = ["sys_platform == \'darwin\'"]\n'
        '[[package]]\nname = "torch"\nversion = "2.13.0"\nresolution-markers = ["sys_platform == \'linux\'"]\n',
    ],
)
def test_every_common_listing_tells_what_is_pinned_on_the_box(text):
    assert read(text) == {"torch": "2.13.0"}


def test_a_post_release_stays_one_and_the_first_range_that_fails_is_named():
    have = installed.versions("torch==2.9.0.post1\ntransformers==4.40.0\n")
    assert installed.out_of_range(["torch>2.9.0.post0"], have) == ""
    assert (
        installed.out_of_range(["torch<2.0", "transformers>=5"], have)
        == "about torch<2.0, installed is 2.9.0.post1"
    )


def test_what_does_not_concern_an_environment_makes_the_answer_not_fresh(tmp_path, capsys):
    (tmp_path / "freeze.txt").write_text("torch==1.0.0\n")
    entry = next(e for e in bundle.load().entries if "torch>=2.0" in e.applies_to)
    code, out, _ = command(
        capsys,
        "--on",
        "2026-11-20",
        "--installed",
        str(tmp_path / "freeze.txt"),
        "--scope",
        entry.id,
    )
    assert (code, out) == (
        1,
        "Your packages: 1 entry about other versions\n\nAbout other versions than yours:\n"
        f"  {entry.id}: about torch>=2.0, installed is 1.0.0\n",
    )


def test_of_two_versions_that_may_be_there_one_that_fits_is_enough():
    lock = 'version = 1\n[[package]]\nname = "torch"\nversion = "2.9.0"\n[[package]]\nname = "torch"\nversion = "1.13.1"\n'
    assert read(lock) == {"torch": "2.9.0 1.13.1"}
    have = installed.versions(lock)
    assert (
        installed.out_of_range(["torch>=2.6"], have) == ""
        and installed.out_of_range(["torch<1.10"], have) == "about torch<1.10, installed is 2.9.0"
    )


@pytest.mark.parametrize(
    "text",
    [
        "",
        "torch>=2.6\n",
        "we run torch 2.13.0 there\n",
        "name: env\ndependencies:\n  - python\n",
        '{"default": {}}',
    ],
)
def test_what_pins_nothing_is_refused_and_not_called_fresh(text, tmp_path, capsys):
    (tmp_path / "list.txt").write_text(text)
    code, out, error = command(capsys, "--installed", str(tmp_path / "list.txt"), "--scope", "O1")
    assert (
        code == 2
        and out == ""
        and "no package with a version in " in error
        and "pass 'pip freeze' text" in error
    )


def test_a_listing_of_powershell_is_read_and_no_text_file_is_run(tmp_path):
    wide = tmp_path / "freeze.txt"
    wide.write_bytes("torch==2.13.0\r\n".encode("utf-16"))
    assert read(installed.read_packages(str(wide))) == {"torch": "2.13.0"}
    named = tmp_path / "python-requirements.txt"
    named.write_text("#!/bin/sh\ntouch made\n")
    named.chmod(0o755)
    assert installed.read_packages(str(named)).startswith("#!") and not (tmp_path / "made").exists()


def test_a_text_that_looks_like_a_command_is_only_text(tmp_path):
    made = tmp_path / "made"
    text = f"torch==2.13.0\nnumpy==2.0; $(touch {made})\n`touch {made}`\n$(touch {made})==1.0\npandas==`touch {made}`\n"
    assert read(text) == {"torch": "2.13.0"}
    assert not made.exists()


def test_a_stale_fact_says_in_a_word_whether_its_age_can_change_the_decision(capsys):
    _, out, _ = command(capsys, "--on", "2030-01-01", "--scope", "runpod", "--json")
    named = {item["id"]: item.get("matters") for item in json.loads(out)["stale"]}
    assert named["runpod.survives"] == "decides" and named["runpod.price"] == "amount"
    assert named["runpod.paths"] == "hardly" and named["RP4"] is None
    _, out, _ = command(capsys, "--on", "2030-01-01", "--scope", "runpod", "--all")
    assert "\n  runpod.survives (decides): checked 2026-08-20, limit 180 days: https://" in out


# ages and the look-up


def test_a_stale_match_is_marked_and_falls_behind_a_fresh_one():
    from remote_gpu_trainer.logs import reading
    from remote_gpu_trainer.lookup.steps import look_up
    from remote_gpu_trainer.retrieval import ranking

    read = bundle.load()
    asked = reading.from_text("element 0 of tensors does not require grad")
    entry = read.get("O3")
    late = entry.verified + timedelta(LIMITS[kind_of(entry)] + 1)
    match = look_up(asked, read.by_id, ranking.load(), limit=3, today=late).matches[0]
    assert match["id"] == "O3" and match["stale"].startswith(f"last checked {entry.verified}")
    fresh = look_up(asked, read.by_id, ranking.load(), limit=3, today=entry.verified).matches[0]
    assert fresh["stale"] == ""
