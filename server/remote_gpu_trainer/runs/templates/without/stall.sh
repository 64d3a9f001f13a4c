# No test for a stall.
rgt_end_stalled() { :; }
