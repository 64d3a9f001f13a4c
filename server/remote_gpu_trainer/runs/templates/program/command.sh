# The program's environment.

rgt_child_environment() {
  local pair
  umask "$RGT_UMASK"
  unset rgt_here
  export RGT_RUN_DIR RGT_CHECKPOINT_DIR RGT_ATTEMPT=$rgt_attempt RGT_RESUME_FROM=$rgt_checkpoint
  export RGT_SAVE_FILE=$RGT_RUN_DIR/save-now RGT_NODE_RANK=$rgt_rank
  export PYTHONUNBUFFERED=1 PYTHONFAULTHANDLER=1 TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1
  # A rank that leaves first must not cost the others their save.
  export TORCH_ELASTIC_SHUTDOWN_TIMEOUT=$((RGT_SAVE_SECONDS > 30 ? RGT_SAVE_SECONDS : 30))
  ((RGT_GPUS > 0)) || export ACCELERATE_USE_CPU=true DS_ACCELERATOR=cpu
  for pair in ${RGT_ENV[@]+"${RGT_ENV[@]}"}; do export "${pair?}"; done
  rgt_load_secrets
  rgt_note_hangs
  rgt_resume_variable
}
