# Accelerate.

# How it is started, in the `head` of rgt_add_launcher.
rgt_launcher_head() {
  local all=$((RGT_PROCS * RGT_NODES))
  bare=--no_python
  head=("$RGT_PYTHON" -m accelerate.commands.launch
    "--num_processes=$all" "--num_machines=$RGT_NODES")
  if ((RGT_NODES > 1)); then
    head+=("--machine_rank=$rgt_rank" "--main_process_ip=$RGT_RDZV_HOST"
      "--main_process_port=$port")
  else
    head+=(--main_process_port=0)
  fi
  # Without --multi_gpu it starts one process and says nothing, with --cpu too. A configuration for
  # FSDP or DeepSpeed on the box decides for itself.
  if ((all == 1)); then
    ((RGT_GPUS > 0)) || head+=(--cpu)
  elif ! grep -qsE '^distributed_type: *(FSDP|DEEPSPEED|MEGATRON_LM)' \
    "${HF_HOME:-${XDG_CACHE_HOME:-$HOME/.cache}/huggingface}/accelerate/default_config.yaml"; then
    head+=(--multi_gpu)
  fi
}
