"""The facts of platforms, and how old they are."""
