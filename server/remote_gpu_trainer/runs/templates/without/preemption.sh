# No provider to ask for a notice.
rgt_pass_notice_on() { :; }
