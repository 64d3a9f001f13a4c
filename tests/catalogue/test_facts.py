"""The facts of a platform's page: read with PyYAML or, on a box, without it; how long each kind stays fresh, and what its age decides."""

import re
from datetime import date

import pytest
from remote_gpu_trainer.catalogue import bundle, front_matter
from remote_gpu_trainer.catalogue.facts import FactError, fact_head, matters
from remote_gpu_trainer.catalogue.freshness import (
    LIMITS,
    BadQuestion,
    kind_of,
    past,
    read_day,
    read_limits,
)
from remote_gpu_trainer.catalogue.front_matter import read_fact_heads
from remote_gpu_trainer.platforms.profile import load as load_profiles

from tests.conftest import ROOT


def test_the_tokens_of_one_platform_are_those_of_its_page():
    for name, profile in load_profiles().items():
        assert front_matter.platform_tokens(ROOT, name) == tuple(profile.tokens)
    assert front_matter.platform_tokens(ROOT, "moon") == ()


EMPTY = "---\nfacts:\n  price:\n    source:\n    date:\n---\n"


def test_a_fact_whose_fields_are_empty_has_no_date_and_no_traceback():
    [head] = front_matter.read(EMPTY, "profiles/x.md").fact_heads()
    assert (head.id, head.source, head.date, head.status) == ("x.price", "", None, "unconfirmed")


@pytest.mark.parametrize(
    "wrong, said",
    [
        ("date: 2026-02-30", "profiles/x.md: price: '2026-02-30' isn't a date; write YYYY-MM-DD"),
        ("date: soon", "profiles/x.md: price: 'soon' isn't a date; write YYYY-MM-DD or null"),
        ("kind: gift", "profiles/x.md: price: unknown kind 'gift'; write one of platform, price"),
    ],
)
def test_a_bad_date_and_a_bad_kind_are_refused(wrong, said):
    page = f"---\nfacts:\n  price:\n    {wrong}\n---\n"
    with pytest.raises(FactError, match=re.escape(said)):
        front_matter.read(page, "profiles/x.md").fact_heads()


def test_the_age_of_a_fact_matters_by_its_name():
    told = {"ssh": "hardly", "paths": "hardly"}
    for name in ("stop_billing", "self_stop", "survives", "limits", "preemption"):
        told[name] = "decides"  # money or data
    for name in ("price", "card_prices", "quota", "egress", "spot"):
        told[name] = "amount"
    assert {name: matters(name) for name in told} == told


def test_a_fact_is_stale_the_day_after_its_limit_and_the_oldest_stands_first():
    kinds = {"price": "2026-01-01", "platform": "2025-10-03", "quota": ""}  # none: in doubt
    heads = [
        fact_head("x", kind, {"source": "https://a.b", "date": day, "kind": kind})
        for kind, day in kinds.items()
    ]
    assert past([], heads, date(2026, 4, 1)) == []
    found = [stale.as_dict() for stale in past([], heads, date(2026, 4, 2))]
    assert [(item["id"], item["matters"], item["limit_days"]) for item in found] == [
        ("x.platform", "hardly", 180),
        ("x.price", "amount", 90),
    ]
    assert found[1]["checked"] == "2026-01-01" and found[1]["source"] == "https://a.b"
    assert past([], heads, date(2026, 4, 2), {**LIMITS, "price": 91, "platform": 365}) == []


def test_a_day_and_a_limit_are_read_in_one_form_alone():
    assert read_day(" 2026-11-20\n") == date(2026, 11, 20) and read_day(None) == date.today()
    for text in ("20261120", "2026-W47-5", "2026-02-30", "tomorrow", ""):
        with pytest.raises(BadQuestion, match="isn't a date; write it as YYYY-MM-DD"):
            read_day(text)
    assert read_limits(["price=5", "quota=0"]) == {**LIMITS, "price": 5, "quota": 0}
    for text in ("price", "price=", "price=-1", "price=²", "gift=5"):
        with pytest.raises(BadQuestion, match="isn't a limit; write KIND=DAYS with one of price"):
            read_limits([text])


def test_the_limit_of_each_kind_is_one_table():
    assert LIMITS == {
        "price": 90,
        "quota": 90,
        "platform": 180,
        "library": 365,
        "mechanism": 730,
    }


def test_every_entry_has_a_kind_and_every_fact_a_limit():
    for entry in bundle.load().entries:
        assert kind_of(entry) in LIMITS
    assert all(head.kind in LIMITS for head in read_fact_heads(ROOT))
