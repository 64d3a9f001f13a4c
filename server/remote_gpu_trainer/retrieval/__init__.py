"""From evidence to a ranking of the catalogue's entries.

NumPy is imported here, with one thread: the sums of a look-up are small, and beside other work a
second thread makes them three times as slow.
"""

import os

_THREADS = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS", "OMP_NUM_THREADS")
_before = {name: os.environ.get(name) for name in _THREADS}
os.environ.update(dict.fromkeys(_THREADS, "1"))
try:
    import numpy as numpy  # the modules of this room import it from here
finally:
    # NumPy has read the variables. What this process starts later decides for itself.
    for _name, _value in _before.items():
        if _value is None:
            del os.environ[_name]
        else:
            os.environ[_name] = _value
