# Several nodes: which one this is, and where the first one is.

: "${RGT_RDZV_HOST=}" "${RGT_NAME_WAIT:=120}"

# The first node's name may come a while after the node; a cluster's name service needs a minute.
rgt_check_rendezvous() {
  local try
  [[ $RGT_LAUNCHER != none ]] || return 0
  if [[ -z $RGT_RDZV_HOST ]]; then
    rgt_refuse '' "the address of the first node is unknown; set \`rendezvous\` in the job"
    return
  fi
  type -P getent >/dev/null || return 0
  rgt_uptime
  local until=$((rgt_up + RGT_NAME_WAIT))
  while ! timeout -k 1 10 getent ahosts "$RGT_RDZV_HOST" >/dev/null 2>&1; do
    rgt_uptime
    if ((rgt_up >= until)) || [[ -n $rgt_asked ]]; then
      rgt_refuse '' "can't resolve the first node's name, $RGT_RDZV_HOST"
      return
    fi
    rgt_nap 2
  done
}

# The first node's address and this node's number, where the scheduler knows them.
rgt_find_node() {
  local node=${1:-}
  [[ -n $node ]] ||
    node=${RGT_NODE_RANK:-${SLURM_NODEID:-${JOB_COMPLETION_INDEX:-${SKYPILOT_NODE_RANK:-0}}}}
  [[ $node == [0-9]* && $node != *[!0-9]* ]] || node=0
  rgt_rank=0
  rgt_rank=$node
  [[ -z $RGT_RDZV_HOST ]] || return 0
  if [[ -n ${SLURM_JOB_NODELIST:-} ]]; then
    RGT_RDZV_HOST=$(timeout 20 scontrol show hostnames "$SLURM_JOB_NODELIST" 2>/dev/null |
      head -n 1)
  elif [[ -n ${SKYPILOT_NODE_IPS:-} ]]; then
    RGT_RDZV_HOST=${SKYPILOT_NODE_IPS%%[$' \n']*}
  fi
}

# A further node of one job keeps its own state; its box knows its number from the start.
rgt_resolve_node() {
  if [[ $rgt_rank == 0 && ! -e $rgt_base/state.json ]]; then
    set -- "$rgt_base"/node-[0-9]*/state.json
    [[ $# != 1 || ! -e $1 ]] || { rgt_rank=${1%/state.json} && rgt_rank=${rgt_rank##*/node-}; }
  fi
  if [[ $rgt_rank != 0 ]]; then RGT_RUN_DIR=$RGT_RUN_DIR/node-$rgt_rank; fi
}
