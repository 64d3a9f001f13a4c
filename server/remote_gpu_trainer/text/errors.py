"""Errors that a user can mend. Every front end shows their text as it is and goes on or exits with 2."""

from __future__ import annotations


class UserError(Exception):
    """Something outside the program is wrong. The text says what was found and what to do."""


class BadRequest(UserError):
    """The question itself is wrong. The text says what was found and what was expected."""
