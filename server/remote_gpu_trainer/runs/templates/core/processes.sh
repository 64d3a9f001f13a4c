# Processes: who lives, and what belongs to the program.

# The name in /proc/PID/stat, in rgt_stat_name, and the fields behind it, in rgt_stat; fails for a
# process that is gone or only waits to be reaped. No here-string: bash 4.4 would need room in /tmp
# for it.
rgt_read_stat() {
  local line=''
  { IFS= read -r -d '' line <"/proc/$1/stat"; } 2>/dev/null
  [[ -n $line ]] || return 1
  # shellcheck disable=SC2206
  rgt_stat=(${line##*) })
  line=${line#*(}
  rgt_stat_name=${line%)*}
  [[ ${rgt_stat[0]} != [ZX] ]]
}

# A pid may belong to someone else by now: the start time tells.
rgt_same() { [[ -n $1 && -n $2 ]] && rgt_read_stat "$1" && [[ ${rgt_stat[19]} == "$2" ]]; }

rgt_write_pid() {
  rgt_read_stat "$2" && rgt_write "$RGT_RUN_DIR/$1.pid" "$2 ${rgt_stat[19]}"$'\n'
}

# The run's process of that name (runner, train, keeper, sync), in rgt_pid and rgt_start; fails when
# it is gone.
rgt_alive() { rgt_alive_by "$RGT_RUN_DIR/$1.pid"; }

rgt_gone() { ! rgt_alive "$1"; }

# The same for the process that a pid file names.
rgt_alive_by() {
  rgt_pid='' rgt_start=''
  { read -r rgt_pid rgt_start <"$1"; } 2>/dev/null
  [[ $rgt_pid == [1-9]* && $rgt_pid != *[!0-9]* ]] && rgt_same "$rgt_pid" "$rgt_start"
}

rgt_boot_id() {
  { read -r rgt_boot </proc/sys/kernel/random/boot_id; } 2>/dev/null || rgt_boot=''
}

# The kernel's word: a scheduler hands the login node's HOSTNAME on.
rgt_find_host() {
  { read -r rgt_host </proc/sys/kernel/hostname; } 2>/dev/null || rgt_host=${HOSTNAME:-}
}

rgt_scan() {
  local file pid
  declare -gA rgt_parent=() rgt_session=() rgt_comm=()
  for file in /proc/[0-9]*/stat; do
    pid=${file#/proc/} pid=${pid%/stat}
    rgt_read_stat "$pid" || continue
    rgt_parent[$pid]=${rgt_stat[1]} rgt_session[$pid]=${rgt_stat[3]} rgt_comm[$pid]=$rgt_stat_name
  done
}

# Every process of the program, in rgt_pids: by the run's mark in its environment (workers of
# torchrun open sessions of their own, and orphans lose their parent), by session, and by descent.
rgt_program_pids() {
  local leader=${1:-} file pid grew=1
  local -A found=()
  rgt_scan
  while IFS= read -r file; do
    pid=${file#/proc/} pid=${pid%/environ}
    [[ -n ${rgt_parent[$pid]:-} ]] && found[$pid]=1
  done < <(grep -lzxF -e "RGT_RUN_DIR=$RGT_RUN_DIR" /proc/[0-9]*/environ 2>/dev/null)
  [[ -n $leader && -n ${rgt_parent[$leader]:-} ]] && found[$leader]=1
  while ((grew)); do
    grew=0
    for pid in "${!rgt_parent[@]}"; do
      [[ -z ${found[$pid]:-} ]] || continue
      if [[ -n ${found[${rgt_parent[$pid]}]:-} ||
        (-n $leader && ${rgt_session[$pid]} == "$leader") ]]; then
        found[$pid]=1 grew=1
      fi
    done
  done
  rgt_alive keeper && unset "found[$rgt_pid]"
  unset "found[$$]" "found[$BASHPID]"
  rgt_pids=()
  for pid in "${!found[@]}"; do rgt_pids+=("$pid"); done
}

# Kills what is left of the program, until nothing is found.
rgt_kill_program() {
  local leader='' had=1 _
  rgt_alive train && leader=$rgt_pid
  for _ in 1 2 3 4 5 6 7 8; do
    rgt_program_pids "$leader"
    ((${#rgt_pids[@]})) || return "$had"
    had=0
    kill -KILL "${rgt_pids[@]}" 2>/dev/null
    rgt_nap 0.1
  done
  return 0
}

# A program that outlived its runner is writing to the same checkpoints: it saves and ends before
# another one starts.
rgt_end_orphans() {
  local leader=''
  rgt_alive train && leader=$rgt_pid
  rgt_program_pids "$leader"
  ((${#rgt_pids[@]})) || return 0
  rgt_event orphan processes "${#rgt_pids[@]}"
  rgt_log 'an earlier program still runs without its runner; asking it to save'
  if [[ -n $leader ]]; then
    rm -f -- "$RGT_RUN_DIR/save-now"
    rgt_save_now orphan
    rgt_within "$RGT_SAVE_SECONDS" rgt_gone train
  fi
  rgt_kill_program
  return 0
}
