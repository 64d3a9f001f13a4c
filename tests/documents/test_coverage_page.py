"""Other lists of failures: each item has an answer, and the page links entries that there are."""

import runpy
import shutil

import pytest
import yaml
from generated_docs.coverage_page import DATA, PAGE, Item, coverage_page, link, read
from remote_gpu_trainer.catalogue import bundle
from remote_gpu_trainer.catalogue.bundle import CatalogueError

from tests.conftest import ROOT

LISTS = {each.name: each for each in read(ROOT)}
WANTED = runpy.run_path(str(ROOT / "evals/grading/others_sets.py"))["WANTED"]


def test_the_page_is_what_the_data_and_the_entries_make():
    assert (ROOT / PAGE).read_text(encoding="utf-8") == coverage_page(ROOT)


def test_each_list_is_as_long_as_its_source_and_names_no_item_twice():
    lengths = {name: len(each.items) for name, each in LISTS.items()}
    assert lengths == {"NVRx": 38, "gpualert": len(WANTED), "PYSIASSIST": 16, "TrainCheck": 20}
    for each in LISTS.values():
        assert len({item.item for item in each.items}) == len(each.items), each.name
        assert each.sources and all(source.startswith("https://") for source in each.sources)


def test_an_entry_that_the_suite_wants_for_a_class_explains_that_class():
    for item in LISTS["gpualert"].items:
        assert WANTED[item.item] <= {*item.entries}, item.item


def test_the_counts_of_the_page_add_up():
    page = (ROOT / PAGE).read_text(encoding="utf-8")
    head = page.split("## Gaps")[0]
    rows = [line.strip("| ").split(" | ") for line in head.splitlines() if line.startswith("| ")]
    *lists, total = [[int(cell) for cell in row[1:]] for row in rows[1:]]
    assert [sum(column) for column in zip(*lists, strict=True)] == total
    assert all(items == sum(kinds) for items, *kinds in [*lists, total])
    assert total[3] == page.split("## Gaps")[1].split("\n## ")[0].count("\n| ") - 1
    agreed = sum(item.agreed for each in LISTS.values() for item in each.items)
    assert f"agree on {agreed} of {total[0]} items" in page


@pytest.mark.parametrize(
    ("passes", "agreed"),
    [
        ({}, True),
        ({"first": ["U10", "M4"]}, True),
        ({"first": ["M4"]}, False),
        ({"first": "out"}, False),
        ({"first": "out", "second": "out"}, True),
        ({"first": "out", "second": "gap"}, False),
    ],
)
def test_passes_agree_when_they_say_the_same_kind_and_share_an_entry(passes, agreed):
    assert Item(item="x", entries=["U10"], **passes).agreed is agreed


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        (
            "D4",
            "../references/training/distributed-launch.md#d4--second-training-job-on-the-same-machine-stops-at-start-with-eaddrinuse-on-port-29500",
        ),
        (
            "SLURM8",
            "../profiles/slurm.md#slurm8--srun-error-node-failure-on--due-to-node-failure-node_fail-slurm-lost-a-node-of-the-job",
        ),
    ],
)
def test_a_link_has_the_anchor_that_github_gives_the_heading(entry, expected):
    assert link(bundle.read(ROOT).by_id[entry]) == expected


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    """A copy of what the page is made from."""
    root = tmp_path_factory.mktemp("tree")
    for name in ("references", "profiles"):
        shutil.copytree(ROOT / name, root / name)
    (root / "docs").mkdir()
    return root


@pytest.mark.parametrize(
    ("item", "told"),
    [
        ({"entries": ["U10", "U999"]}, "there is no entry U999; name one that there is"),
        ({"gap": "as U999"}, "there is no entry U999"),
        ({"out": "as U999"}, "there is no entry U999"),
        ({"entries": ["U10"], "but": "as U999"}, "there is no entry U999"),
        ({"entries": ["U10"], "first": ["U999"]}, "there is no entry U999"),
        ({}, "x: give it one of entries, out and gap"),
        ({"entries": []}, "x: give it one of entries, out and gap"),
        ({"entries": ["U10"], "gap": "most of it"}, "x: give it one of entries, out and gap"),
        ({"gap": "all of it", "but": "part"}, "x: but goes with entries"),
        ({"gap": "all of it", "second": "perhaps"}, "second"),
        ({"gap": "all of it", "remark": "none"}, "remark"),
    ],
)
def test_a_fault_in_the_data_is_named_with_its_item(tree, item, told):
    data = yaml.safe_load((ROOT / DATA).read_text(encoding="utf-8"))[:1]
    data[0]["items"].append({"item": "x", **item})
    (tree / DATA).write_text(yaml.safe_dump(data), encoding="utf-8")
    with pytest.raises(CatalogueError, match=told) as raised:
        coverage_page(tree)
    assert str(raised.value).startswith(f"{DATA}: ") and "\n" not in str(raised.value)


def test_data_that_is_no_yaml_is_an_error_with_its_line(tree):
    (tree / DATA).write_text("- list: [NVRx\n", encoding="utf-8")
    with pytest.raises(CatalogueError, match=f"{DATA}: can't be read as YAML; .*line 2"):
        coverage_page(tree)
