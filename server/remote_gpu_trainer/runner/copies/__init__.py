"""Copies between this box and a place: a folder here, one over ssh, an rclone remote, a bucket.

`listing` says what is copied, `place` and `clouds` bring it there and back and compare it by
content, `tool` runs their programs.
"""
