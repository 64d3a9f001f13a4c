"""Whether `rgt fit` reckons right: runs counted on a CPU, and figures that others published."""
