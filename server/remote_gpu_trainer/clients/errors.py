"""What can go wrong while a client's files are edited."""


class InstallError(Exception):
    """The installation isn't possible, and nothing was changed. The text says what to do."""


class BadText(Exception):
    """A text that isn't valid, or has no place for a value. The message says where and why."""
