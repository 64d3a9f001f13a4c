# A queue of cells: what its verbs mean, and the cell that a process is to run.

rgt_usage+=$'\n  queue          run the cells in the foreground'
rgt_usage+=$'\n  reconcile      list the cells that are done, failed or left'
: "${RGT_CLAIMS=}" "${RGT_LEASE:=600}" "${RGT_SLOTS:=1}" "${RGT_RDZV_PORT:=29500}"
for rgt_name in RGT_SYNC RGT_EXPECT; do
  declare -p "$rgt_name" >/dev/null 2>&1 || eval "$rgt_name=()"
done

# A verb for the queue ends here; one for a cell goes on as a run's.
rgt_queue_main() {
  [[ -z $RGT_CELL ]] && ((${#RGT_CELLS[@]})) || return 0
  case $1 in
    queue | reconcile | start | resume | run | status | stop | save | sync | sync-worker | \
      keeper | rehearse | --rehearse)
      rgt_queue_verb "$@"
      exit
      ;;
  esac
}

rgt_resolve_cell() {
  [[ -n $RGT_CELL ]] || return 0
  rgt_apply_cell
  rgt_base=$RGT_RUN_DIR
}

# What a verb means for a queue. Called once the folders are resolved.
rgt_queue_verb() {
  local verb=$1 json=''
  shift
  [[ " $* " != *' --json '* ]] || json=--json
  rgt_queue_apply_part
  if [[ ! -f $rgt_script && $verb != status ]]; then
    echo "a queue starts its own script again for each cell:" \
      "put it into a file, then: bash run.sh $verb" >&2
    exit 2
  fi
  case $verb in
    start) rgt_start once "$@" ;;
    resume) rgt_start again "$@" --again ;;
    queue | run) rgt_queue_run "$@" ;;
    reconcile) rgt_queue_reconcile $json ;;
    status) rgt_queue_status $json ;;
    stop) rgt_stop ;;
    save) rgt_queue_save ;;
    sync) rgt_queue_sync full ;;
    sync-worker) rgt_queue_sync "${1:-quick}" ;;
    rehearse | --rehearse)
      rgt_queue_add_arguments 0
      rgt_rehearse
      ;;
    keeper)
      rgt_kill_program() { rgt_queue_kill_cells; }
      rgt_keeper
      ;;
  esac
}

# A part has a state of its own, for parts may share the run folder, as the tasks of a Slurm array
# do.
rgt_queue_apply_part() {
  rgt_queue_k=1 rgt_queue_n=1 rgt_queue_root=$RGT_RUN_DIR
  [[ -n $RGT_PART ]] || return 0
  if ! [[ $RGT_PART =~ ^([1-9][0-9]{0,5})/([1-9][0-9]{0,5})$ ]] ||
    ((BASH_REMATCH[1] > BASH_REMATCH[2])); then
    echo "--part is '$RGT_PART'; write K/N such as 1/2" >&2
    exit 2
  fi
  rgt_queue_k=${BASH_REMATCH[1]} rgt_queue_n=${BASH_REMATCH[2]}
  RGT_RUN_DIR=$rgt_queue_root/parts/$rgt_queue_k-of-$rgt_queue_n
  rgt_self=$RGT_RUN_DIR/run.sh
  # The keeper and the copies are processes of this part.
  export RGT_PART
}

# Folders, arguments and GPUs of RGT_CELL. What belongs to the whole box (deadline, setup, staging,
# stop) stays with the queue.
rgt_apply_cell() {
  local at=-1 index item items=()
  for index in "${!RGT_CELLS[@]}"; do
    if [[ ${RGT_CELLS[index]%%$'\x1f'*} == "$RGT_CELL" ]]; then at=$index; fi
  done
  if ((at < 0)); then
    echo "RGT_CELL is '$RGT_CELL'; name a cell of this queue" >&2
    exit 2
  fi
  rgt_queue_add_arguments "$at"
  for item in ${RGT_SYNC[@]+"${RGT_SYNC[@]}"}; do
    rgt_home "${item%/}"
    [[ $rgt_path == /* ]] || rgt_path=$RGT_WORK_DIR/$rgt_path
    if [[ -n $RGT_CHECKPOINT_DIR && $rgt_path == "$RGT_CHECKPOINT_DIR" ]]; then
      item=$rgt_path/$RGT_CELL
    fi
    items+=("${item//'{cell}'/$RGT_CELL}")
  done
  RGT_SYNC=(${items[@]+"${items[@]}"})
  items=()
  for item in ${RGT_EXPECT[@]+"${RGT_EXPECT[@]}"}; do items+=("${item//'{cell}'/$RGT_CELL}"); done
  RGT_EXPECT=(${items[@]+"${items[@]}"})
  RGT_RUN_DIR=$RGT_RUN_DIR/cells/$RGT_CELL
  [[ -z $RGT_CHECKPOINT_DIR ]] || RGT_CHECKPOINT_DIR=$RGT_CHECKPOINT_DIR/$RGT_CELL
  [[ -z $RGT_DURABLE ]] || RGT_DURABLE=${RGT_DURABLE%/}/$RGT_CELL
  RGT_ENV+=("RGT_CELL=$RGT_CELL" "RGT_QUEUE_DIR=${RGT_QUEUE_DIR:-}")
  RGT_DEADLINE=${RGT_CELL_DEADLINE:-$RGT_DEADLINE}
  RGT_GPUS=${RGT_CELL_GPUS:-$RGT_GPUS} RGT_PROCS=${RGT_CELL_PROCS:-$RGT_PROCS}
  RGT_RDZV_PORT=$((RGT_RDZV_PORT + ${RGT_CELL_SLOT:-0}))
  RGT_SETUP=() RGT_STAGE=() RGT_NOTIFY=() RGT_AT_END=keep RGT_REQUEUE=no RGT_NOTICE=''
  # Where cells share a card, it is busy with the others.
  if [[ -n ${RGT_CELL_SHARED:-} ]]; then rgt_check_gpus() { :; }; fi
}

rgt_queue_add_arguments() {
  local rest=${RGT_CELLS[$1]} items=()
  while [[ $rest == *$'\x1f'* ]]; do
    rest=${rest#*$'\x1f'}
    items+=("${rest%%$'\x1f'*}")
  done
  rgt_with_arguments ${items[@]+"${items[@]}"}
  RGT_COMMAND=("${rgt_argv[@]}")
}
