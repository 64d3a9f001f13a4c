# A machine that nobody has to stop.
rgt_start_last_resort() { :; }
rgt_leaves_box() { rgt_ended_early; }
rgt_quiet_alarm() { rgt_quiet=''; }
rgt_after_deadline() { rgt_notify "the deadline ended the run"; }
