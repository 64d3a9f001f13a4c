"""Commands: each module parses its arguments, asks a room below and prints the answer."""
