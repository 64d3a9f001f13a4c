"""`python -m remote_gpu_trainer` is the command `remote-gpu-trainer`."""

import sys

from .cli.main import main

sys.exit(main())
