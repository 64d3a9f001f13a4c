"""What runs a job on the box: one program in Python 3.8's standard library, the same for every job.

A run.sh holds a shell head, the job as JSON, and the source of this package with `text.masking`.
`main` is its entrance. Nothing here imports another room.
"""
