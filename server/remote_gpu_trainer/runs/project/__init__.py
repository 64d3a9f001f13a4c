"""A project's folder becomes a job: what its source says of its program, its saves and its needs.

Nothing of the project runs. `sources` reads its files, `values` reads what an expression amounts
to, `programs`, `saves` and `options` find what a job needs, and `drafting` writes it down.
"""
