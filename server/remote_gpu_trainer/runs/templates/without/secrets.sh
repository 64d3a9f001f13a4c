# No secrets.
rgt_check_secrets() { :; }
rgt_load_secrets() { :; }
rgt_mask_log() { :; }
rgt_mask_detail() { :; }
