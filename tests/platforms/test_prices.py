"""The cheapest of the dated prices of cards."""

import json
from datetime import date, timedelta

import pytest
from pydantic import ValidationError
from remote_gpu_trainer.catalogue.freshness import LIMITS
from remote_gpu_trainer.cli.main import main
from remote_gpu_trainer.platforms import profile
from remote_gpu_trainer.platforms.cards import GPUS, gpu_named
from remote_gpu_trainer.platforms.prices import cheapest, offers
from remote_gpu_trainer.platforms.profile import CardPrices

from tests.conftest import ROOT

LLAMA = {
    "model_type": "llama",
    "hidden_size": 2048,
    "num_hidden_layers": 16,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "intermediate_size": 8192,
    "vocab_size": 32000,
}


def priced(name: str, currency: str, day: str, **prices: float):
    """A profile whose only priced fact is this one."""
    page = profile.get("runpod")
    known = page.facts.card_prices
    assert known is not None
    cards = {card.replace("_", "-"): price for card, price in prices.items()}
    value = CardPrices(currency=currency, an_hour=cards)
    fact = known.model_copy(update={"value": value, "date": date.fromisoformat(day)})
    facts = page.facts.model_copy(update={"card_prices": fact})
    return page.model_copy(update={"name": name, "facts": facts})


SHOPS = {
    "old": priced("old", "USD", "2025-01-01", A10=0.1, H200=1.0),
    "dear": priced("dear", "USD", "2026-11-01", A10=2.0, L40S=3.0),
    "far": priced("far", "CNY", "2026-11-01", A10=1.0),
}


def test_a_card_is_meant_by_its_name_or_its_memory():
    assert gpu_named("rtx 3080") == ("RTX-3080", GPUS["RTX-3080"])
    assert gpu_named("24 GB") == ("a GPU with 24 GiB", 24.0) and gpu_named("no card") is None


def test_the_cheapest_card_with_enough_memory_comes_first_and_currencies_stay_apart():
    found = [(offer.platform, offer.gpu) for offer in offers(SHOPS, 20.0)]
    assert found == [
        ("old", "A10"),
        ("old", "H200"),
        ("dear", "A10"),
        ("dear", "L40S"),
        ("far", "A10"),
    ]
    assert [offer.gpu for offer in offers(SHOPS, 40.0)] == ["H200", "L40S"]
    assert offers(SHOPS, 1000.0) == []


def test_a_price_past_its_limit_is_taken_only_where_there_is_no_other():
    day = date(2026, 11, 27)
    assert [(o.platform, o.past(day)) for o in cheapest(SHOPS, 20.0, day)] == [
        ("dear", False),
        ("far", False),
    ]
    [offer] = cheapest(SHOPS, 100.0, day)
    assert offer.platform == "old" and offer.past(day)
    last = offer.day + timedelta(LIMITS["price"])
    assert not offer.past(last) and offer.past(last + timedelta(1))


@pytest.mark.parametrize("prices", [{"H1000": 1.0}, {"A10": 0.0}])
def test_a_price_of_no_card_and_a_price_of_nothing_are_refused(prices):
    with pytest.raises(ValidationError):
        CardPrices(currency="USD", an_hour=prices)


def test_every_dated_price_stands_on_its_page_and_is_of_a_known_card():
    priced = {n: p.facts.card_prices for n, p in profile.load().items() if p.facts.card_prices}
    assert len(priced) >= 5
    for name, fact in priced.items():
        assert fact.kind == "price" and fact.date is not None and fact.note, name
        other = profile.load()[name].facts.price
        assert other is not None
        told = f"{other.value.text} {other.note}"
        for card, price in fact.value.an_hour.items():
            assert card in GPUS
            assert any(form in told for form in (f"{price:g}", f"{price:.2f}")), (name, card)


def test_solving_for_a_card_names_the_cheapest_dated_price(tmp_path, capsys):
    config = tmp_path / "config.json"
    config.write_text(json.dumps(LLAMA))
    assert main(["fit", str(config), "--sequence", "1024", "--solve", "gpu", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    offers = told["solved"]["cheapest"]
    assert {offer["currency"] for offer in offers} == {"USD", "CNY"}
    for offer in offers:
        assert GPUS[offer["gpu"]] >= told["need_gib"] * (1 + told["uncertain"])
        assert date.fromisoformat(offer["day"]) and offer["source"].startswith("https://")
    assert main(["fit", str(config), "--sequence", "1024", "--solve", "gpu"]) == 0
    assert "an hour on 20" in capsys.readouterr().out


def test_a_budget_counts_with_the_price_before_a_discount_that_not_everybody_has():
    facts = profile.get("autodl").facts
    assert facts.card_prices is not None and facts.price is not None
    told = facts.price.value.text
    assert told.startswith("Before a member's discount")
    assert [p for p in facts.card_prices.value.an_hour.values() if f" {p:g}" not in told] == []
    chinese = (ROOT / "README.zh-CN.md").read_text(encoding="utf-8")
    assert f"`{facts.card_prices.value.an_hour['RTX-4090']:g} CNY`（RTX 4090 的原价" in chinese
