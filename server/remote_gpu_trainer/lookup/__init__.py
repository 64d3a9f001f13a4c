"""From ranked entries to the answer that an agent or a person reads."""

from ..text import BadRequest

LIMITS = (1, 10)  # of the number of matches


def check_limit(limit: int) -> None:
    """Raises BadRequest unless the limit is a whole number from 1 to 10."""
    if isinstance(limit, bool) or not isinstance(limit, int) or not LIMITS[0] <= limit <= LIMITS[1]:
        raise BadRequest(
            f"can't use limit {limit!r}; give a whole number from {LIMITS[0]} to {LIMITS[1]}"
        )


def which_run(run: str | int | None) -> int | None:
    """The number of the run to read of several in a log: 0 for all, None for the last.

    Raises BadRequest for anything but a number from 1 and `all`.
    """
    written = str(run)
    if run is None or written == "all":
        return None if run is None else 0
    if not (written.isascii() and written.isdigit()) or int(written) < 1:
        raise BadRequest(
            f"run takes a number from 1, or all, and {written[:40]!r} was given; "
            "leave it out for the last"
        )
    return int(written)
