# Nothing to install.
rgt_set_up() { :; }
