# The folders of a run, its lock and its own copy of the script.

# Folders as the box sees them.
rgt_resolve() {
  # A login without HOME has one in the list of users.
  [[ -n ${HOME:-} ]] || HOME=~
  if [[ -z $RGT_RUN_DIR || $RGT_RUN_DIR == *$'\n'* ]]; then
    echo "RGT_RUN_DIR is '$RGT_RUN_DIR', expected a folder" >&2
    exit 2
  fi
  rgt_home "$RGT_RUN_DIR" && RGT_RUN_DIR=${rgt_path%/}
  rgt_base=$RGT_RUN_DIR
  rgt_resolve_node
  rgt_home "${RGT_WORK_DIR:-$rgt_base}" && RGT_WORK_DIR=$rgt_path
  # In a container it may be "where the image begins"; the keeper and a detached run begin elsewhere.
  if [[ $RGT_WORK_DIR != /* ]]; then
    export rgt_here=${rgt_here:-$PWD}
    RGT_WORK_DIR=$rgt_here/$RGT_WORK_DIR
    while [[ $RGT_WORK_DIR == */. ]]; do RGT_WORK_DIR=${RGT_WORK_DIR%/.}; done
    [[ -n $RGT_WORK_DIR ]] || RGT_WORK_DIR=/
  fi
  rgt_resolve_checkpoints
  rgt_home "$RGT_DURABLE" && RGT_DURABLE=$rgt_path
  rgt_resolve_cell
  rgt_self=$RGT_RUN_DIR/run.sh
}

# The script that keeper and sync run: a copy, so that the original can be edited or go away.
rgt_keep_script() {
  if [[ -f $rgt_script ]]; then
    [[ $rgt_script -ef $rgt_self ]] && return 0
    cmp -s -- "$rgt_script" "$rgt_self" && return 0
    rgt_write_copy
    return
  fi
  # Read from a pipe: the text is made of what is in memory.
  {
    printf '#!/usr/bin/env bash\nset -u\numask 027\n'
    # shellcheck disable=SC2086
    declare -p ${!RGT_@} "${rgt_tables[@]}" | sed 's/^declare -x /declare -- /'
    declare -f
    # shellcheck disable=SC2016
    printf 'rgt_reset\nrgt_script=${BASH_SOURCE[0]}\nrgt_main "$@"\n'
  } >"$rgt_self.tmp.$$" && mv -f -- "$rgt_self.tmp.$$" "$rgt_self"
}

# What an older script took out of itself goes with it.
rgt_write_copy() {
  cp -- "$rgt_script" "$rgt_self.tmp.$$" && chmod u+x "$rgt_self.tmp.$$" && mv -f -- "$rgt_self.tmp.$$" "$rgt_self" &&
    rm -f -- "$RGT_RUN_DIR/check_checkpoint.py"
}

rgt_make_folders() {
  mkdir -p -- "$RGT_RUN_DIR/log" || {
    echo "can't make $RGT_RUN_DIR" >&2
    exit 1
  }
}

rgt_need_tools() {
  local tool
  for tool in flock setsid; do
    type -P "$tool" >/dev/null && continue
    echo "$tool is missing on this box: install util-linux" >&2
    exit 1
  done
}

# Fails when another run holds the lock; ends the script where the folder knows no locks.
rgt_lock_run() {
  rgt_need_tools
  exec 9>>"$RGT_RUN_DIR/lock"
  local code=0
  flock -n -E 75 9 || code=$?
  # A run that says it has ended is just leaving.
  if ((code == 75)) && { rgt_ended || [[ $(rgt_read_last_state && printf '%s' "$rgt_phase") == @(done|failed|preempted) ]]; }; then
    code=0
    flock -w 5 -E 75 9 || code=$?
  fi
  ((code == 0)) && return 0
  ((code == 75)) && return 1
  echo "can't lock $RGT_RUN_DIR/lock (flock $code): put the run folder on a local disk" >&2
  exit 1
}
