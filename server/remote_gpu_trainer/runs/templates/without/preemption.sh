# No provider to ask for a notice.
rgt_has_notice() { return 1; }
