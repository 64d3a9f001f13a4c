# A machine that nobody has to stop.
rgt_start_last_resort() { :; }
rgt_after_deadline() { rgt_notify "$RGT_NAME on ${HOSTNAME:-this box}: the deadline ended the run"; }
