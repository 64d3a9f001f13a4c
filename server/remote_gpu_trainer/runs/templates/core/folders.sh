# The folders of a run, its lock and its own copy of the script.

# Folders as the box sees them.
rgt_resolve() {
  # A login without HOME has one in the list of users.
  [[ -n ${HOME:-} ]] || HOME=~
  if [[ -z $RGT_RUN_DIR || $RGT_RUN_DIR == *$'\n'* ]]; then
    echo "RGT_RUN_DIR is '$RGT_RUN_DIR'; set a folder" >&2
    exit 2
  fi
  rgt_home "$RGT_RUN_DIR" && RGT_RUN_DIR=${rgt_path%/}
  rgt_base=$RGT_RUN_DIR
  rgt_resolve_node
  rgt_home "${RGT_WORK_DIR:-$rgt_base}" && RGT_WORK_DIR=$rgt_path
  rgt_resolve_start_folder
  rgt_resolve_checkpoints
  rgt_home "$RGT_DURABLE" && RGT_DURABLE=$rgt_path
  rgt_resolve_cell
  rgt_self=$RGT_RUN_DIR/run.sh
}

# The script that keeper and sync run: a copy, so that the original can be edited or go away.
rgt_keep_script() {
  if [[ -f $rgt_script ]]; then
    cmp -s -- "$rgt_script" "$rgt_self" && return 0
    # What an older script took out of itself goes with it.
    cp -- "$rgt_script" "$rgt_self.tmp.$$" && chmod u+x "$rgt_self.tmp.$$" &&
      mv -f -- "$rgt_self.tmp.$$" "$rgt_self" && rm -f -- "$RGT_RUN_DIR/check_checkpoint.py"
    return
  fi
  rgt_keep_script_from_memory
}

rgt_make_folders() {
  mkdir -p -- "$RGT_RUN_DIR/log" || {
    echo "can't make $RGT_RUN_DIR" >&2
    exit 1
  }
}

# Free kilobytes and inodes of a folder, in rgt_kb and rgt_inodes; '' for what is not known.
rgt_room() {
  local total
  read -r rgt_kb rgt_inodes total < <(
    timeout -k 1 10 df -k --output=avail,iavail,itotal -- "$1" 2>/dev/null | tail -n 1
  )
  [[ ${rgt_kb:-} == [0-9]* ]] || rgt_kb=''
  # btrfs and network mounts count no inodes.
  [[ ${total:-} == [1-9]* && $rgt_inodes == [0-9]* ]] || rgt_inodes=''
}

rgt_need_tools() {
  local tool
  for tool in flock setsid; do
    type -P "$tool" >/dev/null && continue
    echo "$tool is missing on this box: install util-linux" >&2
    exit 1
  done
}

# Ends the script when another run holds the lock, and where the folder knows no locks.
rgt_lock_run() {
  rgt_need_tools
  exec 9>>"$RGT_RUN_DIR/lock"
  local code=0
  flock -n -E 75 9 || code=$?
  # A run that says it has ended is just leaving.
  if ((code == 75)) && { rgt_ended ||
    [[ " ${rgt_ends[*]} " == *" $(rgt_read_last_state && printf '%s' "$rgt_phase") "* ]]; }; then
    code=0
    flock -w 5 -E 75 9 || code=$?
  fi
  ((code == 0)) && return 0
  if ((code == 75)); then
    echo "$RGT_NAME: a run holds $RGT_RUN_DIR/lock" >&2
    exit 75
  fi
  echo "can't lock $RGT_RUN_DIR/lock (flock $code): put the run folder on a local disk" >&2
  exit 1
}
