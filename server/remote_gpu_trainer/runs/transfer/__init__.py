"""Files between this machine and a box: one protocol both ways, over ssh alone."""
