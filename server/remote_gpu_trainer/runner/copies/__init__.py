"""Copies between this box and the durable place.

`groups` says which checkpoints lie here, `generations` which lie there, `plan` what is to be done,
`rounds` does it; `mirror` keeps all other files. `place` and `clouds` bring files there and back
and compare them, `tool` runs their programs.
"""
