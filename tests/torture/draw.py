"""What happens to whom in one run of the torture."""

from __future__ import annotations

import random

from tests.bench import faults, shapes

FORM_SHARE = 3  # percent, for a form that the census doesn't count apart
SHAPES = (*shapes.ALL, *shapes.FORMS)
BEFORE = [kind.name for kind in faults.ALL if not kind.last and kind.name != "nan"]
LAST = [kind.name for kind in faults.ALL if kind.last]


def draw(seed: int) -> tuple[str, list[str], int]:
    """A shape by its share of the census, up to two faults inside its saves, and how it ends; then the seed."""
    chance = random.Random(seed)
    shape = chance.choices(SHAPES, [one.share or FORM_SHARE for one in SHAPES])[0]
    names = chance.sample(BEFORE, chance.randint(0, 2))
    return shape.name, [*names, chance.choice(LAST)], seed
