# PyTorch's Flight Recorder: where each rank stood when a collective timed out.

# In the program's environment. The dumps lie with the log, so they go where it goes. What the user
# has set in either spelling stays: the newer one would win over the older.
rgt_note_hangs() {
  local files=$RGT_RUN_DIR/log/nccl_trace_attempt_${rgt_attempt}_rank_
  [[ -n ${TORCH_FR_BUFFER_SIZE+set}${TORCH_NCCL_TRACE_BUFFER_SIZE+set} ]] ||
    export TORCH_FR_BUFFER_SIZE=2000 TORCH_NCCL_TRACE_BUFFER_SIZE=2000
  [[ -n ${TORCH_NCCL_DUMP_ON_TIMEOUT+set} ]] || export TORCH_NCCL_DUMP_ON_TIMEOUT=1
  [[ -n ${TORCH_FR_DUMP_TEMP_FILE+set}${TORCH_NCCL_DEBUG_INFO_TEMP_FILE+set} ]] ||
    export TORCH_FR_DUMP_TEMP_FILE=$files TORCH_NCCL_DEBUG_INFO_TEMP_FILE=$files
}
