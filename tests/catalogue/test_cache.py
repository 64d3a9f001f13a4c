"""The light reader of the catalogue says what the whole one says, and leaves out what it leaves out."""

import pytest
from remote_gpu_trainer.catalogue import bundle
from remote_gpu_trainer.catalogue.entry import Signature

ENTRY = """### {id} — a title

**Symptom:** what is seen
**Check:** see
**Fix:** how

```
**Signatures:** `not one`
```

**Root cause:** why
**Signatures:** `a text` · `/b+/`
**Reported as:** words · more words
**Domain:** data
**Retry:** may help
**Severity:** {severity}
**Verified:** 2026-11-20, read
**Sources:** somewhere

"""


def test_it_holds_what_the_whole_catalogue_holds():
    whole, light = bundle.load(), bundle.load_cache()
    assert dict(light) == whole.by_id
    assert list(light.signatures()) == [(id, found) for id, found in whole.signatures if found]


def test_only_what_is_asked_for_is_read():
    light = bundle.EntryCache(bundle.bundle_root())
    assert light["O3"].title and list(light._read) == ["O3"]


@pytest.fixture
def root(tmp_path):
    (tmp_path / "references").mkdir()
    page = (
        "# A page\n\n"
        + ENTRY.format(id="O1", severity="wastes")
        + ENTRY.format(id="O2", severity="hurts")
        + "### O9 → O1\n\n### not an entry\n"
    )
    (tmp_path / "references/a.md").write_text(page)
    (tmp_path / "references/b.md").write_bytes(b"### O3 \xff")
    return tmp_path


def test_a_fence_holds_no_field(root):
    assert (
        dict(bundle.EntryCache(root).signatures())["O1"]
        == (Signature("a text"), Signature("b+", True))
        == bundle.read(root).by_id["O1"].signatures
    )


def test_what_breaks_the_grammar_is_left_out(root):
    light = bundle.EntryCache(root)
    assert list(light) == ["O1"] and len(light) == 1 and "O2" not in light and "O9" not in light
    assert dict(light) == bundle.read(root).by_id
