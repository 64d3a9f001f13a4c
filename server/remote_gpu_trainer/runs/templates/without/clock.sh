# The sender's clock is this one.
rgt_check_sender_clock() { :; }
