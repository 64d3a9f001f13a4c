"""Logs become evidence: what failed, and on which rank first. Standard library, Python 3.8."""
