# Nobody to call: a message stands among the events.
rgt_notify() { rgt_event notify message "$1"; }
