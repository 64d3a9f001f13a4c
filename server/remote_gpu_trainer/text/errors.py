"""Errors that a user can fix.

Every front end shows their text as it is. The text reads `what is wrong; what to do`, in one line.
"""

from __future__ import annotations


class UserError(Exception):
    """Something outside the program is wrong: a file, a box, a setting."""


class BadRequest(UserError):
    """The request itself is wrong: an argument that can't be used."""
