"""The grammar of an entry: what is read, and what is said of a page that breaks it."""

from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st
from remote_gpu_trainer.catalogue.entry import Entry, Signature
from remote_gpu_trainer.catalogue.grammar import read_page

from tests.conftest import ENTRY


def faults(text: str) -> list[str]:
    return [str(fault) for fault in read_page(text, "a.md").faults]


def test_a_good_entry_is_read_whole(page):
    [entry] = read_page("# Page\n\n## Loss\n\n" + page(), "a.md").entries
    assert entry.id == "O3"
    assert entry.family == "O"
    assert entry.section == "Loss"
    assert entry.signatures == (Signature("element 0 of tensors does not require grad"),)
    assert entry.verified == date(2026, 11, 20)
    assert entry.ran == ""
    assert entry.reported_as[-1] == "反向传播报错"
    assert entry.line == 5


@pytest.mark.parametrize(
    "how, fields, versions",
    [
        ("read", (), ""),
        ("ran (torch 2.13.0)", ("Check", "Fix"), "torch 2.13.0"),
        ("Check ran, Fix read (torch 2.13.0)", ("Check",), "torch 2.13.0"),
        ("Check read, Fix ran (torch 2.13.0, trl 1)", ("Fix",), "torch 2.13.0, trl 1"),
    ],
)
def test_verified_says_which_field_ran_on_which_versions(page, how, fields, versions):
    [entry] = read_page(page(("2026-11-20, read", f"2026-11-20, {how}")), "a.md").entries
    assert (entry.ran_fields, entry.ran, entry.how_verified) == (fields, versions, how)


def test_a_signature_between_slashes_is_a_regular_expression(page):
    [entry] = read_page(
        page(
            (
                "`element 0 of tensors does not require grad`\n\n**Rep",
                r"`/size \d+/` · ``a `b` c``" + "\n\n**Rep",
            )
        ),
        "a.md",
    ).entries
    assert entry.signatures == (Signature(r"size \d+", True), Signature("a `b` c"))


def test_a_mark_behind_a_signature_is_its_role(page):
    [entry] = read_page(
        page(
            (
                "does not require grad`\n\n**Rep",
                r"does not require grad` (cascade) · `/size \d+/` (advice) · ``a `b` c`` (cascade)"
                "\n\n**Rep",
            )
        ),
        "a.md",
    ).entries
    assert entry.signatures == (
        Signature("element 0 of tensors does not require grad", role="cascade"),
        Signature(r"size \d+", True, "advice"),
        Signature("a `b` c", role="cascade"),
    )
    assert Signature("a text").role == "root"


@pytest.mark.parametrize("domain", ["code", "data", "environment", "box", "platform"])
@pytest.mark.parametrize("retry", ["pointless", "may help", "helps after the port is free"])
def test_an_entry_says_where_its_cause_lies_and_whether_to_retry(page, domain, retry):
    said = (("**Domain:** code", f"**Domain:** {domain}"), ("pointless", retry))
    [entry] = read_page(page(*said), "a.md").entries
    assert (entry.domain, entry.retry) == (domain, retry)


def test_a_field_may_hold_paragraphs_and_code_with_headings_in_it(page):
    text = page(
        ("Take the cut out.", "Take it out.\n\n```python\n### not a heading\n**Not:** a field\n```")
    )
    [entry] = read_page(text, "a.md").entries
    assert "### not a heading" in entry.fix
    assert "**Not:** a field" in entry.fix


def test_a_retired_id_leads_to_its_successor():
    read = read_page("### O4 → O3\n", "a.md")
    assert [(old.id, old.successor) for old in read.retired] == [("O4", "O3")]
    assert not read.faults


def test_prose_without_entries_has_no_faults():
    assert read_page("# Title\n\nSome **bold:** text.\n\n## Part\n", "a.md").faults == ()


def test_windows_line_ends_change_nothing(page):
    assert (
        read_page(page().replace("\n", "\r\n"), "a.md").entries == read_page(page(), "a.md").entries
    )


@pytest.mark.parametrize(
    "old, new, said",
    [
        ("### O3 — the loss has", "### o3 the loss has", "a.md:1: can't read the heading '### o3 the loss has no way back to the weights of the model'; write '### ID — title' or '### ID → NEW-ID'"),
        ("**Severity:** blocks\n\n", "", "a.md:1: O3 has no Severity; add a paragraph '**Severity:** …'"),
        ("**Domain:** code\n\n", "", "a.md:1: O3 has no Domain; add a paragraph '**Domain:** …'"),
        ("**Retry:** pointless\n\n", "", "a.md:1: O3 has no Retry; add a paragraph '**Retry:** …'"),
        ("**Fix:** Take the cut out.", "**Fix:**", "a.md:1: O3 has no Fix; add a paragraph '**Fix:** …'"),
        ("blocks", "fatal", "a.md:19: O3 Severity: can't read 'fatal'; write one of blocks, corrupts, wastes, misleads"),
        ("2026-11-20, read", "2026-13-20, read", "a.md:21: O3 Verified: can't read '2026-13-20, read'; write '2026-11-20, read' or '2026-11-20, ran (torch 2.13.0)', and instead of 'ran' 'Check ran, Fix read' or 'Check read, Fix ran'"),
        ("2026-11-20, read", "2026-11-20, ran", "a.md:21: O3 Verified: can't read '2026-11-20, ran'; write '2026-11-20, read' or '2026-11-20, ran (torch 2.13.0)', and instead of 'ran' 'Check ran, Fix read' or 'Check read, Fix ran'"),
        ("2026-11-20, read", "2026-11-20, Check ran, Fix ran (torch 2)", "a.md:21: O3 Verified: can't read '2026-11-20, Check ran, Fix ran (torch 2)'; write '2026-11-20, read' or '2026-11-20, ran (torch 2.13.0)', and instead of 'ran' 'Check ran, Fix read' or 'Check read, Fix ran'"),
        ("**Fix:** Take", "**Remedy:** Take", "a.md:7: unknown field 'Remedy'; the fields are Symptom, Check, Fix, Tell apart, False alarm, Root cause, Signatures, Reported as, Applies to, Needs, Seen by, Domain, Retry, Severity, Verified, Sources"),
        ("**Fix:** Take", "**Check:** Take", "a.md:7: field 'Check' is there twice, first on line 5; keep one"),
        ("**Symptom:** It", "Lead.\n\n**Symptom:** It", "a.md:3: 'Lead.' comes before the first field; begin with '**Symptom:** …'"),
        ("**Signatures:** `element 0 of tensors does not require grad`", "**Signatures:** element 0", "a.md:11: O3 Signatures: can't read 'element 0'; write texts in backticks, separated by ' · '"),
        ("not require grad`\n\n**Rep", "not require grad` (root)\n\n**Rep", "a.md:11: O3 Signatures: can't read '`element 0 of tensors does not require grad` (root)'; write (cascade) or (advice) behind the text, or nothing"),
        ("**Domain:** code", "**Domain:** gpu", "a.md:15: O3 Domain: can't read 'gpu'; write one of code, data, environment, box, platform"),
        ("pointless", "helps after", "a.md:17: O3 Retry: can't read 'helps after'; write one of pointless, may help, helps after …"),
        ("**Domain:**", "**Seen by:** prober\n\n**Domain:**", "a.md:15: O3 Seen by: can't read 'prober'; write one of probe"),
        ("**Severity:** blocks", "**Severity:** blocks\n\n**False alarm:** x", "a.md:21: field 'False alarm' comes after 'Root cause'; the order is Symptom, Check, Fix, Tell apart, False alarm, Root cause, Signatures, Reported as, Applies to, Needs, Seen by, Domain, Retry, Severity, Verified, Sources"),
        ("Take the cut out.", "Open:\n```\nopen", "a.md:1: the ``` fence is never closed; close it before the next heading"),
    ],
)  # fmt: skip
def test_each_fault_says_what_is_wrong_and_what_to_write(page, old, new, said):
    assert said in faults(page((old, new)))


def test_fields_out_of_order_are_a_fault():
    lines = ENTRY.split("\n\n")
    lines[2], lines[3] = lines[3], lines[2]
    assert faults("\n\n".join(lines))[0].startswith(
        "a.md:7: field 'Check' comes after 'Fix'; the order is Symptom"
    )


def test_an_entry_with_a_fault_is_left_out_and_its_neighbour_is_not(page):
    read = read_page(page(("blocks", "bad")) + "\n" + page(("### O3", "### O4")), "a.md")
    assert [entry.id for entry in read.entries] == ["O4"]
    assert len(read.faults) == 1


def test_tell_apart_needs_an_id_before_its_colon(page):
    text = page(
        (
            "**Root cause:**",
            "**Tell apart:** O4: the order is wrong · no id here\n\n**Root cause:**",
        )
    )
    assert "can't read 'no id here'; write 'ID: how that one differs'" in faults(text)[0]


@given(st.text(max_size=400))
def test_any_text_is_read_without_an_exception(text):
    read_page(text, "a.md")


@given(
    st.lists(
        st.sampled_from(
            [
                *ENTRY.split("\n"),
                "### O9 — x",
                "### O9 → O3",
                "```",
                "~~~",
                "## Part",
                "**Fix:** again",
            ]
        ),
        max_size=60,
    )
)
def test_any_mix_of_an_entrys_lines_gives_entries_or_faults_and_never_half_an_entry(lines):
    read = read_page("\n".join(lines), "a.md")
    for entry in read.entries:
        assert isinstance(entry, Entry)
        assert all(
            (
                entry.symptom,
                entry.root_cause,
                entry.fix,
                entry.check,
                entry.reported_as,
                entry.sources,
            )
        )
