"""From ranked entries to the answer that an agent or a person reads."""

from ..text import BadRequest

LIMITS = (1, 10)  # of the number of matches


def check_limit(limit: int) -> None:
    """Raises BadRequest unless the limit is a whole number from 1 to 10."""
    if isinstance(limit, bool) or not isinstance(limit, int) or not LIMITS[0] <= limit <= LIMITS[1]:
        raise BadRequest(
            f"can't use limit {limit!r}; give a whole number from {LIMITS[0]} to {LIMITS[1]}"
        )
