"""What outside judges of a skill ask (skills-ref, skillsaw, SkillEvaluator, SkillSpector), where they can't be run: their rules that matter, and the baseline that answers them."""

import fnmatch
import re
import subprocess
import zipfile

import pytest
import yaml
from remote_gpu_trainer.clients import skill_folder

from tests.conftest import ROOT
from tests.engines.artifacts import built  # noqa: F401
from tests.lookup.test_budget import counted

SKILL = (ROOT / "SKILL.md").read_text(encoding="utf-8")
FRONT = yaml.safe_load(SKILL.split("---\n")[1])
PLUGIN = ROOT / "plugins/remote-gpu-trainer"  # what a judge is shown
BASELINE = yaml.safe_load((PLUGIN / ".skillspector-baseline.yaml").read_text(encoding="utf-8"))
RULES = BASELINE["rules"]
LONGEST = 3000  # tokens of SKILL.md
SECTIONS = [
    "Purpose",
    "When not to use it",
    "Prerequisites",
    "Instructions",
    "Examples",
    "Available Scripts",
    "Troubleshooting",
    "Limitations",
]
WHEEL = "server/remote_gpu_trainer-*.whl*"  # lies in the built plugin only
SCANNER_SAYS = {"AE1", "SC4"}  # their text is the scanner's own, not a file's
INVISIBLE = re.compile(
    "[\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u206f\ufeff\U000e0000-\U000e007f]"
)


def tracked() -> list[str]:
    done = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True
    )
    if done.returncode:
        pytest.skip("this is no clone: the list of files comes from git")
    return [name for name in done.stdout.splitlines() if (ROOT / name).is_file()]


def held() -> list[str]:
    """The files that the plugin holds once its links are followed."""
    linked = [path.name for path in PLUGIN.iterdir()]
    own = [path.relative_to(PLUGIN).as_posix() for path in PLUGIN.rglob("*") if path.is_file()]
    there = [name for name in tracked() if name.partition("/")[0] in linked]
    return sorted({*own, *(name for name in there if (PLUGIN / name).is_file())})


def named(rule: dict) -> str:
    return " ".join(str(rule.get(key, "")) for key in ("id", "path", "message")).strip()


def test_the_front_matter_holds_the_fields_of_the_specification_and_no_other():
    assert set(FRONT) <= {
        "name",
        "description",
        "license",
        "allowed-tools",
        "metadata",
        "compatibility",
    }
    assert (
        FRONT["name"] == "remote-gpu-trainer"
        and len(FRONT["description"]) <= 1024
        and len(FRONT["compatibility"]) <= 500
    )
    assert "use when" in FRONT["description"].lower()
    assert all(isinstance(value, str) for value in FRONT["metadata"].values())
    assert re.fullmatch(r"\d+\.\d+\.\d+", FRONT["metadata"]["version"])
    assert re.fullmatch(r"[^<>]+ <[^<>@\s]+@[^<>@\s]+\.[a-z]+>", FRONT["metadata"]["author"])
    assert 1 <= len(FRONT["metadata"]["tags"].split(",")) <= 5


def test_the_skill_has_the_sections_that_judges_and_agents_look_for():
    headings = re.findall(r"^## (.+)$", SKILL, re.M)
    assert [
        name for name in SECTIONS if not any(heading.startswith(name) for heading in headings)
    ] == []
    assert "```" in SKILL and re.search(r"^1\. ", SKILL.split("## Instructions")[1], re.M)


def test_the_skill_costs_fewer_tokens_than_judges_allow():
    assert (
        counted([SKILL])[0] < LONGEST
        and len(SKILL) // 4 < LONGEST
        and len(SKILL.splitlines()) < 500
    )


def test_the_skill_is_short_and_begins_with_what_it_does():
    assert len(SKILL.encode()) <= 8000
    order = ["**Start.**", "**Watch.**", "**Stop.**", "**Fetch.**", "**When it fails.**"]
    places = [SKILL.index(word) for word in [*order, "## Examples: look up"]]
    assert places == sorted(places)


def test_the_installed_folder_holds_what_the_skill_uses_and_no_more():
    files = skill_folder.contents()
    assert len(files) <= 64 and sum(map(len, files.values())) <= 3_450_000
    folders = {"references", "references/guides", "references/training", "profiles", "scripts"}
    assert {name.rpartition("/")[0] for name in files} == {"", "hooks", *folders}
    programs = {name for name in files if name.endswith((".py", ".sh"))} - {"hooks/suggest.py"}
    assert all(f"`{name.rpartition('/')[2]}`" in SKILL for name in programs)


def test_the_table_of_scripts_names_every_script():
    table = SKILL.split("## Available Scripts")[1].split("\n## ")[0]
    assert "| Script | Purpose | Arguments |" in table
    said = re.findall(r"^\| `([\w.-]+)` \|", table, re.M)
    assert sorted(said) == sorted(
        path.name for path in (ROOT / "scripts").iterdir() if path.suffix in (".py", ".sh")
    )


def test_a_page_that_the_skill_names_leads_to_no_further_page():
    """An agent reads SKILL.md, then one page."""
    assert "](" not in SKILL.split("---\n", 2)[2]
    for page in (ROOT / "references").glob("*.md"):
        assert [
            link
            for link in re.findall(r"\]\(([^)]+)\)", page.read_text(encoding="utf-8"))
            if re.match(r"(?!https?:)[^#]*\.md", link)
        ] == [], page.name
    for name in re.findall(r"`((?:references|profiles|scripts)/[\w./-]*)`", SKILL):
        assert (ROOT / name).exists(), name


def test_no_page_of_the_plugin_holds_invisible_text():
    """A person who reads a rendered page sees no comment; an agent reads it as an instruction."""
    pages = [name for name in held() if name.endswith(".md")]
    assert len(pages) > 40
    for name in pages:
        text = (PLUGIN / name).read_text(encoding="utf-8")
        assert not INVISIBLE.search(text) and "<!--" not in text, name


def test_the_baseline_holds_rules_that_outlive_an_edit():
    """A fingerprint is bound to the whole file and to the scanner's version."""
    assert BASELINE["version"] == 2 and set(BASELINE) == {"version", "rules"}
    assert len({named(rule) for rule in RULES}) == len(RULES)


def test_an_answer_in_the_baseline_names_a_file_a_text_and_a_reason():
    texts = {
        name: (PLUGIN / name).read_text(encoding="utf-8", errors="replace").lower()
        for name in held()
    }
    for rule in RULES:
        if rule["path"] == WHEEL:
            continue
        assert set(rule) <= {"id", "path", "message", "reason"} and {"path", "reason"} <= set(rule)
        assert len(rule["reason"].split()) >= 5, f"{named(rule)}: a reason is a whole sentence"
        files = [name for name in texts if fnmatch.fnmatch(name.lower(), rule["path"].lower())]
        assert files, f"{named(rule)}: no file is left that it is about; take the rule out"
        assert re.fullmatch(r"[A-Z]+\d+", rule["id"]), f"{named(rule)}: one check each"
        if "message" in rule and rule["id"] not in SCANNER_SAYS:
            said = max(re.split(r"[*?]", rule["message"].lower()), key=len).strip()
            gone = f"{named(rule)}: the text is gone; take the rule out"
            assert said and any(said in texts[name] for name in files), gone


def test_reports_proofs_and_tests_are_in_nothing_that_is_installed():
    kept = ("evals/", "tests/", "benchmarks/", "tools/", ".ci/")
    plugin = [path.name for path in PLUGIN.iterdir()]
    included = (
        (ROOT / "pyproject.toml")
        .read_text(encoding="utf-8")
        .split("wheel.force-include]")[1]
        .split("\n[")[0]
    )
    assert not [name for name in [*plugin, *skill_folder.contents()] if f"{name}/".startswith(kept)]
    assert not re.search(r'^"?(evals|tests|benchmarks|tools)\b', included, re.M)
    assert ".skillspector-baseline.yaml" in plugin, "the answers ship with the plugin"


def test_the_wheel_holds_the_files_of_the_repository_and_nothing_else(built):
    """So what is answered for the files is answered for the wheel."""
    assert [rule for rule in RULES if rule["path"] == WHEEL]
    [wheel] = built.glob("*.whl")
    with zipfile.ZipFile(wheel) as files:
        for name in files.namelist():
            package, _, rest = name.partition("/")
            if package == "remote_gpu_trainer":
                source = (
                    ROOT / rest.removeprefix("_bundle/")
                    if rest.startswith("_bundle/")
                    else ROOT / "server" / name
                )
                assert source.read_bytes() == files.read(name), name
            else:
                assert re.fullmatch(r"remote_gpu_trainer-[\d.]+\.dist-info", package), name
