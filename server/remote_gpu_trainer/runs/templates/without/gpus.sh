# No GPU.
rgt_check_gpus() { :; }
rgt_note_xids() { :; }
rgt_is_gpu_oom() { return 1; }
rgt_is_gpu_failure() { rgt_said gpu "$1" && rgt_sign=gpu rgt_why='the job has no GPU'; }
rgt_probe_gpus() { :; }
rgt_gpus_wait() { return 1; }
