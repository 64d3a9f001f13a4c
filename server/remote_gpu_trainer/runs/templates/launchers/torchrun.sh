# torchrun.

# How it is started, in the `head` of rgt_add_launcher.
rgt_launcher_head() {
  head=("$RGT_PYTHON" -m torch.distributed.run "--nproc-per-node=$RGT_PROCS" --max-restarts=0)
  if ((RGT_NODES > 1)); then
    # c10d ignores --node-rank and orders the nodes by their addresses' text: said here, so that
    # rank 0, its checkpoints and its results stay on node 0. Its address is also the one that all
    # others can reach; a container's own name isn't.
    local address=$RGT_RDZV_HOST
    ((rgt_rank == 0)) || printf -v address '~node-%05d' "$rgt_rank"
    head+=("--nnodes=$RGT_NODES" "--node-rank=$rgt_rank" --rdzv-backend=c10d
      "--rdzv-endpoint=$RGT_RDZV_HOST:$port"
      "--rdzv-id=$RGT_NAME" "--local-addr=$address"
      "--rdzv-conf=is_host=$((rgt_rank == 0)),read_timeout=900,join_timeout=900")
  else
    head+=(--nnodes=1 --standalone)
  fi
}
