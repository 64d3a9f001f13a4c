"""What a card cost at the platforms whose pages have a dated price: the cheapest that is enough.

Prices of different currencies aren't compared. A price is as old as its fact; `rgt staleness` knows
the limit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date

from ..catalogue.freshness import LIMITS
from .cards import GPUS
from .profile import Profile


@dataclass(frozen=True)
class Offer:
    """What an hour of a box with one card cost at a platform on a day."""

    platform: str
    gpu: str
    an_hour: float
    currency: str
    day: date
    source: str
    confirmed: bool

    def past(self, on: date) -> bool:
        """Return whether the price is past its limit on this day."""
        return (on - self.day).days > LIMITS["price"]


def offers(profiles: Mapping[str, Profile], gib: float) -> list[Offer]:
    """Return dated prices of cards with at least so many GiB, by currency, the cheapest first."""
    found = []
    for name, profile in profiles.items():
        fact = profile.facts.card_prices
        if fact is None or fact.date is None:
            continue
        for gpu, price in fact.value.an_hour.items():
            if GPUS[gpu] >= gib:
                confirmed = fact.status == "confirmed"
                terms = (price, fact.value.currency, fact.date, fact.source, confirmed)
                found.append(Offer(name, gpu, *terms))
    return sorted(found, key=lambda offer: (offer.currency != "USD", offer.an_hour, offer.platform))


def cheapest(profiles: Mapping[str, Profile], gib: float, on: date) -> list[Offer]:
    """Return the cheapest offer of each currency; a price past its limit only where no other is."""
    best: dict[str, Offer] = {}
    every = offers(profiles, gib)
    for offer in [*(o for o in every if not o.past(on)), *(o for o in every if o.past(on))]:
        best.setdefault(offer.currency, offer)
    return list(best.values())
