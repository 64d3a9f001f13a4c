# No secrets.
rgt_check_secrets() { :; }
rgt_load_secrets() { :; }
