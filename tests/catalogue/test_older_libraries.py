"""The proofs on libraries a year older: which failures were there already, and which fixes.

A campaign: all proofs take twenty minutes. `OLDER_PYTHON` is a Python that has the versions of
`evals/proofs/older.txt` in front of the others; `.ci/run` makes it.
"""

import json
import os
import subprocess

import pytest
from remote_gpu_trainer.catalogue import bundle
from remote_gpu_trainer.catalogue.proofs import proof_of

from tests.conftest import ROOT, older_python

PAGE = ROOT / "evals" / "proofs" / "OLDER.md"
PROVE = """\
import json, sys
from remote_gpu_trainer.catalogue import bundle
from remote_gpu_trainer.catalogue import proofs
found = proofs.prove(bundle.load(), sys.argv[1:])
print(json.dumps({one.id: [one.verdict, [*one.faults, *one.skipped][:1]] for one in found}))
"""
HEAD = """\
# Proofs on older libraries

All proofs run on the versions that `pyproject.toml` names. Here they also ran on those of
[older.txt](older.txt), with the same torch. Made by `python -m pytest --all --record
tests/catalogue/test_older_libraries.py`.

"""


def all_proofs() -> list[str]:
    """The ids of the entries with a proof."""
    return sorted(entry.id for entry in bundle.load().entries if proof_of(ROOT, entry.id).is_file())


def proven_there(ids: list[str]) -> dict[str, list]:
    """{id: [verdict, [what failed first]]} of these proofs on the older libraries."""
    python = older_python()
    # A skipped proof says nothing about older libraries; it isn't a failure of them. And the inner
    # run must not wait for a turn that the outer one holds.
    left_out = ("REQUIRE_ENGINES", "PYTEST_")
    env = {name: value for name, value in os.environ.items() if not name.startswith(left_out)}
    env["PATH"] = os.pathsep.join([os.path.dirname(python), env["PATH"]])
    done = subprocess.run(
        [python, "-c", PROVE, *ids],
        cwd=ROOT, env=env, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)


def page(results: dict[str, list]) -> str:
    """The table of what isn't proven there, and why."""
    count = {
        verdict: sum(told == verdict for told, _ in results.values())
        for verdict in ("proven", "refuted", "unknown")
    }
    rows = [
        f"| {name} | {verdict} | {' '.join(why[:1]).replace('|', ' ')[:150]} |"
        for name, (verdict, why) in sorted(results.items())
        if verdict != "proven"
    ]
    return (
        f"{HEAD}Of {len(results)} entries {count['proven']} are proven there as well. "
        f"{count['refuted']} behave otherwise on the older versions, and {count['unknown']} couldn't "
        "run.\n\n| entry | verdict | the first test that differs |\n| --- | --- | --- |\n"
        + "\n".join(rows)
        + "\n"
    )


@pytest.mark.timeout(7200)
def test_a_tenth_of_the_proofs_does_on_older_libraries_what_the_record_says(campaign):
    told = campaign("proofs_on_older_libraries")
    there = all_proofs()
    if not told.recording:  # a newer proof waits for the next campaign
        there = [name for name in there if name in told.recorded()]
    live = proven_there(told.live(there))
    recorded = told.recorded(live)
    assert {name: recorded[name][0] for name in live} == {n: one[0] for n, one in live.items()}


def test_the_page_says_which_proofs_differ_on_older_libraries(campaign, request):
    results = campaign("proofs_on_older_libraries").recorded()
    assert set(results) <= set(all_proofs()) and len(results) > 0.8 * len(all_proofs())
    if request.config.getoption("--record") or request.config.getoption("--update"):
        PAGE.write_text(page(results), encoding="utf-8")
    assert PAGE.read_text(encoding="utf-8") == page(results)
    proven = sum(verdict == "proven" for verdict, _ in results.values())
    assert proven >= 0.85 * len(results)
