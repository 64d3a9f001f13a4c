# No GPU.
rgt_check_gpus() { :; }
rgt_note_xids() { :; }
rgt_new_xid() { return 1; }
rgt_probe_gpus() { :; }
rgt_gpus_wait() { return 1; }
