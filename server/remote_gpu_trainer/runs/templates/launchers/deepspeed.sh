# DeepSpeed.

# A port that nobody listens on: cells beside each other need one each.
rgt_free_port() {
  while
    rgt_port=$((20000 + RANDOM % 12000)) && (exec 3<>"/dev/tcp/127.0.0.1/$rgt_port") 2>/dev/null
  do :; done
}

# How it is started, in the `head` of rgt_add_launcher.
rgt_launcher_head() {
  bare=--no_python module=--module
  ((RGT_NODES > 1)) || { rgt_free_port && port=$rgt_port; }
  head=("$RGT_PYTHON" -m deepspeed.launcher.runner "--master_port=$port")
  # --num_gpus takes the first cards, whatever CUDA_VISIBLE_DEVICES says.
  if ((RGT_NODES == 1 && RGT_GPUS > 0)) &&
    [[ ${CUDA_VISIBLE_DEVICES:-} =~ ^[0-9]+(,[0-9]+){$((RGT_PROCS - 1))} ]]; then
    head+=("--include=localhost:${BASH_REMATCH[0]}")
  else
    head+=("--num_gpus=$RGT_PROCS")
  fi
  if ((RGT_NODES > 1)); then
    local node hosts=''
    for ((node = 0; node < RGT_NODES; node++)); do hosts+="node-$node slots=$RGT_PROCS"$'\n'; done
    rgt_write "$RGT_RUN_DIR/hostfile" "$hosts"
    head+=("--hostfile=$RGT_RUN_DIR/hostfile" --no_ssh "--node_rank=$rgt_rank"
      "--master_addr=$RGT_RDZV_HOST")
  fi
}
