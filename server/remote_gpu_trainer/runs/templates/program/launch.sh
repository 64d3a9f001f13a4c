# Starts the program, writes its log, and asks it to save.

# `split` of every coreutils since 2016 hands on what it has read; where it doesn't, `dd` does, a
# file a 64 KB block count.
rgt_start_writer() {
  local to=$RGT_RUN_DIR/log/train.log. first=$1
  if [[ -z ${rgt_writer:-} ]]; then
    rgt_writer='split'
    local probe=$RGT_RUN_DIR/.writer.$$.
    { printf x && sleep 0.3; } | split -b 1000 -d -a 4 - "$probe" 2>/dev/null 9>&- &
    local end=$!
    rgt_nap 0.2
    [[ -s ${probe}0000 ]] || rgt_writer='dd'
    wait "$end"
    rm -f -- "${probe}0000"
  fi
  exec {rgt_out}> >(
    trap '' HUP INT TERM USR1 USR2
    exec 9>&-
    [[ $rgt_writer != split ]] ||
      exec setsid split -b "$RGT_LOG_BYTES" -a 4 "--numeric-suffixes=$first" - "$to" \
        2>>"$RGT_RUN_DIR/log/runner.log"
    number=$first
    printf -v name '%s%04d' "$to" "$number"
    while dd bs=65536 "count=$((RGT_LOG_BYTES / 65536 + 1))" of="$name" status=none &&
      [[ -s $name ]]; do
      printf -v name '%s%04d' "$to" $((++number))
    done
  )
  rgt_writer_pid=$!
  rgt_mask_log
}

# Starts the command in rgt_argv in a session of its own.
rgt_launch() {
  rgt_log_files
  rgt_log_first=$rgt_log_next
  rgt_start_writer "$rgt_log_first"
  (
    trap - HUP INT QUIT TERM USR1 USR2 PIPE
    # Found before the user's own PATH counts. What ignored a signal from its start, as behind
    # `&`, can't reset it by a trap.
    local front=("$(type -P setsid)" --)
    env --default-signal=HUP,INT,QUIT true 2>/dev/null &&
      front=("$(type -P env)" "--default-signal=HUP,INT,QUIT" "${front[@]}")
    # Where runner and keeper are killed, it ends the program all the same. (A rehearsal has no
    # deadline.)
    rgt_now
    if ((rgt_deadline)); then
      front+=("$(type -P timeout)" -s "$RGT_SAVE_SIGNAL" -k "$RGT_SAVE_SECONDS"
      $((rgt_deadline > rgt_t ? rgt_deadline - rgt_t + 20 : 1)))
    fi
    rgt_child_environment
    cd -- "$RGT_WORK_DIR" || exit 126
    exec "${front[@]}" "${rgt_argv[@]}"
  ) >&"$rgt_out" 2>&1 </dev/null 9>&- {rgt_out}>&- {rgt_tick}>&- &
  rgt_program=$! rgt_backstop=timeout
  exec {rgt_out}>&-
  rgt_read_stat "$rgt_program" && rgt_program_start=${rgt_stat[19]} || rgt_program_start=''
  rgt_write "$RGT_RUN_DIR/train.pid" "$rgt_program $rgt_program_start"$'\n'
}

# After the program's end: workers left behind hold memory and the log's pipe. Five seconds for
# those that end by themselves; none where it was killed.
rgt_reap() {
  local _
  rgt_program_code=0
  wait "$rgt_program" || rgt_program_code=$?
  for _ in {1..10}; do
    ((rgt_program_code != 137)) || break
    rgt_program_pids
    ((${#rgt_pids[@]})) || break
    rgt_nap 0.5
  done
  rgt_kill_program && rgt_event killed-leftovers
  rgt_attend "$rgt_writer_pid" 10 2>/dev/null
  rm -f -- "$RGT_RUN_DIR/train.pid"
}

# The processes that should hear the save signal, in rgt_pids. A shell would die of it and leave its
# child alone, so the signal goes to what the shell runs; a script with a first line of its own is
# called after its file, so the executable tells. What reads the program's output (`| tee log`)
# stays, or the program would die of the broken pipe while it saves.
rgt_save_targets() {
  local todo=("$1") pid child children name readers=()
  rgt_scan
  rgt_find_ranks "$1"
  ((${#rgt_pids[@]} == 0)) || todo=("${rgt_pids[@]}")
  rgt_pids=()
  while ((${#todo[@]})); do
    pid=${todo[0]} todo=("${todo[@]:1}")
    children=()
    name=$(readlink -- "/proc/$pid/exe" 2>/dev/null) || name=''
    name=${name##*/} name=${name% (deleted)}
    case ${name:-${rgt_comm[$pid]:-}} in
      bash | sh | dash | zsh | ksh* | mksh | ash | busybox | timeout | nice | ionice | env | \
        time | stdbuf | coreutils)
        for child in "${!rgt_parent[@]}"; do
          [[ ${rgt_parent[$child]} == "$pid" ]] && children+=("$child")
        done
        ;;
      tee | cat | head | tail | grep | sed | gawk | mawk | tr | ts | logger | split)
        readers+=("$pid")
        continue
        ;;
    esac
    if ((${#children[@]})); then todo+=("${children[@]}"); else rgt_pids+=("$pid"); fi
  done
  ((${#rgt_pids[@]})) || rgt_pids=(${readers[@]+"${readers[@]}"})
}

# "Save now", once: whoever creates the file sends the signal, so runner and keeper can both ask.
rgt_save_now() {
  # Looked for first: a program that watches the file could be on its way out when a late signal
  # comes.
  rgt_pids=()
  if [[ ! -e $RGT_RUN_DIR/save-now ]] && rgt_alive train; then rgt_save_targets "$rgt_pid"; fi
  # A name needs no room: on a full disk the text may be missing, the file and the signal not.
  if ! (set -C && : >"$RGT_RUN_DIR/save-now") 2>/dev/null; then
    [[ -e $RGT_RUN_DIR/save-now ]] && return 1
  fi
  ((${#rgt_pids[@]})) && kill -s "$RGT_SAVE_SIGNAL" "${rgt_pids[@]}" 2>/dev/null
  { printf '%s\n' "$1" >"$RGT_RUN_DIR/save-now"; } 2>/dev/null
  rgt_event save-now reason "$1" signal "$RGT_SAVE_SIGNAL"
  ((${#rgt_pids[@]}))
}
