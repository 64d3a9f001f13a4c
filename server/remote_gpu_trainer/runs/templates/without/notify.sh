# Nobody to call: a message stands among the events.
rgt_notify() { rgt_event notify message "$RGT_NAME on ${HOSTNAME:-this box}: $1"; }
rgt_look_for_runner() { :; }
