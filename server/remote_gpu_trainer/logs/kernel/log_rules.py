"""The bad lines of the kernel log that aren't Xids, and what to do about each kind."""

import re

from . import data_text
from .advice import BACK
from .tables import rows_of

LOG_TABLE = data_text("log_rules.txt")


def log_rules():
    """-> ([(kind, level, pattern)] in the order of the table, {kind: what to do})."""
    rules, actions = [], {}
    for paragraph in re.sub(r"(?m)^ *#.*\n", "", LOG_TABLE).strip().split("\n\n"):
        kind, level, action = rows_of(re.sub(r"\n  (?! )", "\n", paragraph))[0]
        if action != "-":
            actions[kind] = action.format(BACK=BACK)
        patterns = re.findall(r"(?m)^  (\S.*)$", paragraph)
        rules += [(kind, level, re.compile(pattern)) for pattern in patterns]
    return rules, actions


LOG_RULES, LOG_ACTION = log_rules()
