# No limit for a step.
rgt_step_waits() { return 1; }
