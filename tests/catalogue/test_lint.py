"""The linter: silent on the catalogue and on good pages, one line for each thing that is wrong."""

from datetime import date

import pytest
from generated_docs.documents import outdated
from remote_gpu_trainer.catalogue import bundle as catalogue
from remote_gpu_trainer.catalogue.backtracking import stalls
from remote_gpu_trainer.catalogue.lint import ORDINARY_LOG, lint
from remote_gpu_trainer.catalogue.seen_by_probe import probed
from remote_gpu_trainer.cli import main as cli

from tests.programs import loaded, rgt

TODAY = date(2026, 11, 20)


def findings(root) -> list[str]:
    return [str(fault) for fault in lint(catalogue.read(root), TODAY)]


def test_the_catalogue_has_no_findings():
    assert [str(f) for f in lint(catalogue.load(), date.today())] == []


def test_a_good_page_has_no_findings(bundle, page):
    assert findings(bundle({"a.md": page()})) == []


@pytest.mark.parametrize(
    "old, new, said",
    [
        ("**Check:**", "**Check:** See [Z9].", "entry Z9 doesn't exist; name one that does"),
        ("**Check:**", "**Check:** See [O3].", "it refers to itself; name another entry"),
        ("**Check:**", "**Check:** [here](gone.md)", "the link to 'gone.md' is broken; link to a file of the bundle or to a web address"),
        ("(https://docs.pytorch.org/docs/stable/notes/autograd.html)", "", "has no address; add one that can be opened again"),
        ("`element 0 of tensors does not require grad`\n\n**R", "`nan`\n\n**R", "signature 'nan' is too short; give 8 characters or more"),
        ("`element 0 of tensors does not require grad`\n\n**R", "`/(a/`\n\n**R", "doesn't compile"),
        ("`element 0 of tensors does not require grad`\n\n**R", "`/x{0,9}$/`\n\n**R", "matches an empty line"),
        ("`element 0 of tensors does not require grad`\n\n**R", "`/(a+)+b{2}/`\n\n**R", "has a repeat inside a repeat; write one that can't stall"),
        ("`element 0 of tensors does not require grad`\n\n**R", "`criterion = nn.CrossEntropyLoss()`\n\n**R", "matches the ordinary line"),
        ("`element 0 of tensors does not require grad`\n\n**R", "`/CUDA_LAUNCH_BLOCKING=\\d/`\n\n**R", "which is printed whatever failed; write (cascade) or (advice) behind it"),
        ("2026-11-20, read", "2027-11-20, read", "Verified is 2027-11-20; write a date from 2026-01-01 to 2026-11-20"),
        ("**Domain:**", "**Applies to:** torch>>2\n\n**Domain:**", "can't read 'torch>>2' in Applies to"),
        (" · 没有梯度 · 反向传播报错", "", "Reported as has 3 items; give at least 5"),
        ("The loss was cut off.", "Cut off.\n\n" + "word " * 88, "root cause has 90 words; keep to 80"),
        ("pointless", "helps after " + "word " * 11, "Retry has 13 words; keep to 12"),
        ("the loss has no way back to the weights of the model", "loss", "the title has 1 words"),
    ],
)  # fmt: skip
def test_each_check_finds_its_fault(bundle, page, old, new, said):
    [found] = findings(bundle({"a.md": page((old, new))}))
    assert found.startswith("references/a.md:1: O3: ")
    assert said in found


@pytest.mark.parametrize(
    "lists, faults",
    [
        ("## Which of these is it?\n\n1. `nan`: [O1]. No graph: [O3], [O4].\n", 0),
        ("## Which of these is it?\n\nGo to Vision.\n\n## Which of these is it? Vision\n\nO3\n", 0),
        ("## Which of these is it?\n\n1. `nan`: [O1], [O33].\n\n## Contents\n\n- O3\n", 1),
        ("## Contents\n\n- O3\n", 0),
    ],
)  # fmt: skip
def test_the_list_at_the_head_of_a_page_names_each_entry(bundle, page, lists, faults):
    found = findings(bundle({"a.md": f"# A page\n\n{lists}\n{page()}"}))
    assert len(found) == faults
    assert all("Which of these is it?" in fault for fault in found)


def test_an_entry_without_chinese_gets_a_note_and_no_fault(bundle, page, capsys):
    root = bundle({"a.md": page((" · 没有梯度 · 反向传播报错", " · no grad_fn · detached"))})
    assert findings(root) == []
    assert cli.main(["dev", "lint", str(root)]) == 0
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(
        "note: references/a.md:1: O3: Reported as has 0 items in Chinese; 2 would"
    )
    assert cli.main(["dev", "lint", str(bundle({"a.md": page()}))]) == 0
    assert "note" not in capsys.readouterr().err


@pytest.mark.parametrize(
    "lead, said",
    [
        ("Take the cut out.", None),
        ("Take the cut out.\n\n- and:\n\n" + "word " * 99, None),
        ("Take this out:\n```\ncut\n```", "the first paragraph of fix ends in 'Take this out:'; end in a full stop"),
        ("word " * 60 + "out.", "the first paragraph of fix has 61 words; keep to 60"),
    ],
)  # fmt: skip
def test_a_lead_is_a_short_sentence(bundle, page, lead, said):
    root = bundle(
        {"a.md": page(("`print(loss.grad_fn)` is `None`.", "None."), ("Take the cut out.", lead))}
    )
    assert findings(root) == ([f"references/a.md:1: O3: {said}"] if said else [])


UNTAKEN = (
    "Verified says that Check ran, and evals/proofs/test_o3.py doesn't take code from it; "
    "use evals/proofs/check_code.py, or say 'Check read'"
)
LEAD = "`print(loss.grad_fn)` is `None`."
AND_ADVICE = "Look at the loss.\n\nOr `print(loss.grad_fn)`."


@pytest.mark.parametrize(
    "how, check, proof, said",
    [
        ("read", LEAD, None, None),
        ("ran (torch 2)", LEAD, None, "Verified says ran, and evals/proofs/test_o3.py isn't there; write it, or 'read'"),
        ("Check read, Fix ran (torch 2)", LEAD, "loss.grad_fn", None),
        ("ran (torch 2)", LEAD, 'printed("O3", loss=loss)', None),
        ("ran (torch 2)", LEAD, 'shown(\n    span("O3", "grad_fn"), loss=loss)', None),
        ("Check ran, Fix read (torch 2)", LEAD, 'bundle.load().get("O3").check', None),
        ("ran (torch 2)", LEAD, "print(loss.grad_fn)", None),
        ("ran (torch 2)", AND_ADVICE, "assert not falls()", None),  # advice comes first: a reader judges
        ("ran (torch 2)", LEAD, "assert loss.grad_fn is None", UNTAKEN),
        ("ran (torch 2)", LEAD, 'span("O31", "grad_fn")', UNTAKEN),
        ("Check ran, Fix read (torch 2)", LEAD, 'block("O3", "fix")', UNTAKEN),
    ],
)  # fmt: skip
def test_check_ran_means_that_the_proof_takes_code_from_it(bundle, page, how, check, proof, said):
    root = bundle({"a.md": page(("2026-11-20, read", f"2026-11-20, {how}"), (LEAD, check))})
    (root / "evals/proofs").mkdir(parents=True)
    if proof:
        (root / "evals/proofs/test_o3.py").write_text(proof)
    assert findings(root) == ([f"references/a.md:1: O3: {said}"] if said else [])


def test_without_the_proofs_at_hand_nothing_is_said_of_them(bundle, page):
    assert findings(bundle({"a.md": page(("20, read", "20, ran (torch 2)"))})) == []


def test_an_id_that_stands_twice_is_found_with_both_places(bundle, page):
    assert findings(bundle({"a.md": page(), "b.md": page()})) == [
        "references/b.md:1: id O3 is already at references/a.md:1; give this one another"
    ]


def test_a_root_text_of_two_entries_is_found_in_both_until_one_is_a_cascade(bundle, page):
    other = page(
        ("### O3", "### O4"),
        ("`element 0 of tensors does not require grad`\n\n**R", "`of  tensors does not`\n\n**R"),
    )
    [found] = findings(bundle({"a.md": page(), "b.md": other}))
    assert found.startswith(
        "references/b.md:1: O4: signature 'of  tensors does not' is a root text of O3 too; write (cascade) behind it"
    )
    marked = other.replace("does not`", "does not` (cascade)")
    assert findings(bundle({"a.md": page(), "b.md": marked})) == []


@pytest.mark.parametrize("role", ["cascade", "advice"])
def test_what_is_printed_whatever_failed_may_be_a_cascade_or_advice(bundle, page, role):
    text = (
        "does not require grad`\n\n**R",
        f"does not require grad` · `TORCH_USE_CUDA_DSA` ({role})\n\n**R",
    )
    assert findings(bundle({"a.md": page(text)})) == []


def test_a_redirect_into_nothing_is_found(bundle, page):
    assert findings(bundle({"a.md": page() + "\n### O4 → O5\n"})) == [
        "references/a.md:25: O4 → O5 has no such successor; name the id of an entry"
    ]


def test_two_redirects_in_a_circle_end(bundle, page):
    assert len(findings(bundle({"a.md": page() + "\n### O4 → O5\n\n### O5 → O4\n"}))) == 2


@pytest.mark.parametrize(
    "pattern", [r"(a+)+b", r"(?:a|aa)+$(?:b*)*", r".*x.*y.*z", r"(\w+\s?)*:", r"(.)\1+"]
)
def test_an_expression_that_could_stall_is_refused_without_running_it(pattern):
    assert stalls(pattern)


@pytest.mark.parametrize(
    "pattern",
    [
        r"size \d+ at .{0,80}dim",
        r"rank\s?\d+: (?:killed|died)",
        r"a.*b",
        r"(?:ab){2}c",
        r"[0-9a-f]{8}",
        r"after \d+ s: \d+/\d+ of \w+ joined",
    ],
)
def test_an_ordinary_expression_is_not(pattern):
    assert stalls(pattern) == ""


@pytest.mark.parametrize(
    "item",
    [
        "torch",
        "torch>=2.6",
        "torch>=2.6 <2.9",
        "huggingface_hub<1",
        "platform:slurm",
        "gpu:H100 SXM",
        "cuda>=13",
    ],
)
def test_the_ranges_of_the_grammar_pass(bundle, page, item):
    assert (
        findings(bundle({"a.md": page(("**Domain:**", f"**Applies to:** {item}\n\n**Domain:**"))}))
        == []
    )


def test_a_page_that_is_no_utf8_is_a_finding_and_no_traceback(bundle):
    root = bundle({"a.md": ""})
    (root / "references" / "a.md").write_bytes(b"### O3 \xff\xfe")
    assert "can't read the page" in findings(root)[0]


def test_the_command_prints_findings_and_exits_1(bundle, page):
    root = bundle({"a.md": page(("blocks", "bad"))})
    done = rgt("dev", "lint", root)
    assert done.returncode == 1
    assert done.stdout.startswith("references/a.md:19: O3 Severity: can't read 'bad'; write one of")
    assert "Traceback" not in done.stderr


def test_no_signature_of_the_catalogue_is_in_an_ordinary_log():
    from remote_gpu_trainer.catalogue.signatures import SignatureIndex
    from remote_gpu_trainer.logs import reading

    assert SignatureIndex(catalogue.load().signatures).find(reading.from_text(ORDINARY_LOG)) == []


def test_the_field_seen_by_and_the_table_of_the_probe_agree_in_both_directions(bundle, page):
    root = bundle({"a.md": page() + "\n" + page(("O3", "O4"), ("**Domain:**", "**Seen by:** probe\n\n**Domain:**"), ("element 0", "element 1"))})  # fmt: skip
    assert findings(root) == [], "without the probe's table nothing is compared"
    table = root / "server/remote_gpu_trainer/probe/table.py"
    table.parent.mkdir(parents=True)
    table.write_text(
        "raise SystemExit\nWRONG = 'wrong'\nKINDS = {'a': ('O3', WRONG, 'b'), 'c': ('O99', WRONG)}"
    )
    [marked, unmarked, unknown] = findings(root)
    assert marked.endswith(
        "O3: the probe can name it; run rgt dev docs --write, which adds '**Seen by:** probe'"
    )
    assert unmarked.endswith(
        "O4: Seen by names the probe, and server/remote_gpu_trainer/probe doesn't name it; run rgt dev docs --write"
    )
    assert (
        unknown == "server/remote_gpu_trainer/probe:1: entry O99 doesn't exist; name one that does"
    )
    table.write_text("WRONG = 'wrong'\nKINDS = {'a': ('O3', WRONG, 'b')}")
    assert outdated(root, write=True) == ["references/a.md"]
    assert findings(root) == [] and outdated(root, write=False) == []
    assert [entry.seen_by for entry in catalogue.read(root).entries] == [("probe",), ()]


def test_the_probes_table_is_read_as_the_probe_reads_it():
    kinds = loaded(catalogue.load().root / "scripts/probe.py").KINDS
    assert probed(catalogue.load()) == {catalogue.load().current(one[0]) for one in kinds.values()}
