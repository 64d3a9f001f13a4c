#!/usr/bin/env bash
# usage: mem_monitor.sh [--interval SECONDS] [--pid PID] [--once]
#
# Print memory, processor and GPU readings every few seconds, as TSV with a heading. It only reads.
#
# options:
#   --interval S   seconds between lines (default 5)
#   --pid PID      the training process; the monitor ends when it ends
#   --once         print one line, after half a second of measuring
#   --help         this text
#
# variables:
#   TRAIN_PROC     without --pid: a shell pattern; the largest process whose command line matches it
#                  is the training process
#   CGROUP_ROOT    where the cgroup file system is mounted (default /sys/fs/cgroup)
#
# columns (an MB is 1048576 bytes; "-": can't be read; "max": no limit):
#   time           seconds since 1970
#   cgroup         v2 or v1: the source of the next five columns, the control group of the training
#                  process or, without one, of this script
#   cg_used_mb     memory in use, with the page cache
#   cg_cache_mb    the page cache in it, which the kernel can take back
#   cg_limit_mb    smallest limit of this group and of those above it
#   cg_oom_kills   how often the kernel killed a process for memory; if it rises, that is why a
#                  process died silently
#   cg_cpu_pct     processor time since the last line; 100 is one core
#   main_pid       the training process
#   main_rss_mb    its resident memory
#   python_n       number of visible Python processes
#   python_rss_mb  the sum of their resident memory; shared pages count once per process
#   wandb_rss_mb   the same for the processes of wandb
#   shm_used_mb    used part of /dev/shm, through which workers pass batches
#   gpu_used_mb    sum over all GPUs
#   gpu_util_pct   of the busiest GPU
#
# exit: 0 stopped, or the process of --pid has ended; 2 wrong usage, or no process PID
#
# example:
#   TRAIN_PROC='train.py' setsid nohup bash mem_monitor.sh --interval 10 >mem.tsv 2>&1 </dev/null &
set -euo pipefail
export LC_ALL=C

say() { printf 'mem_monitor: %s\n' "$*" >&2; }
usage_error() {
  say "$*; see --help"
  exit 2
}

help_text() {
  while IFS= read -r line; do
    case $line in
      '#!'*) ;;
      '# '*) printf '%s\n' "${line#'# '}" ;;
      '#') printf '\n' ;;
      *) break ;;
    esac
  done <"$1"
}

# The readers below leave their result in a variable, which saves a fork for each number.

# Puts the first line of a file into $value, or "-".
read_value() {
  value=-
  if [ -r "$1" ]; then IFS= read -r value 2>/dev/null <"$1" || true; fi
  [ -n "$value" ] || value=-
}

# Puts the number of a key into $value, from a file with lines "key number".
read_key() {
  local key number
  value=-
  [ -r "$1" ] || return 0
  while read -r key number; do
    if [ "$key" = "$2" ]; then
      value=$number
      return 0
    fi
  done 2>/dev/null <"$1" || true
}

to_mb() { case $value in *[!0-9]* | '') ;; *) value=$((value / 1048576)) ;; esac }

# Puts the start time of a process into $value, in clock ticks. A reused PID has another one.
read_start() {
  local text=''
  value=-
  { IFS= read -r text <"/proc/$1/stat"; } 2>/dev/null || return 0
  # shellcheck disable=SC2086 # field 22 of stat is the 20th after the closing bracket of the name
  set -- ${text##*)}
  value=${20:--}
}

# Puts the smallest memory.max from a folder up to the root into $value.
smallest_limit() {
  local folder=$1 best=-
  while :; do
    read_value "$folder/memory.max"
    case $value in
      -) ;;
      max) [ "$best" != - ] || best=max ;;
      *) case $best in - | max) best=$value ;; *) [ "$value" -ge "$best" ] || best=$value ;; esac ;;
    esac
    [ "$folder" != "$root" ] && [ "${#folder}" -gt "${#root}" ] || break
    folder=${folder%/*}
  done
  value=$best
}

# Puts the controller's folder for a process into $folder: its own path, or the root if a container
# sees only that.
cgroup_folder() {
  local wanted=$1 pid=$2 mount=$3 line path=/
  while IFS= read -r line; do
    case $line in
      "0::"*) if [ "$wanted" = v2 ]; then path=${line#0::}; fi ;;
      *:*:*)
        case ",${line#*:}" in
          *",$wanted:"* | *",$wanted,"*) path=${line#*:*:} ;;
        esac
        ;;
    esac
  done 2>/dev/null <"/proc/$pid/cgroup" || true
  case $path in *..*) path=/ ;; esac
  folder=$mount${path%/}
  [ -d "$folder" ] || folder=$mount
}

read_cgroup() {
  local pid=${main_pid/-/self} cpu_ns=- memory
  [ -d "/proc/$pid" ] || pid=self
  cgroup=- used=- cache=- limit=- kills=- cpu=-
  cgroup_folder v2 "$pid" "$root"
  if [ -r "$folder/memory.current" ]; then
    cgroup=v2
    read_value "$folder/memory.current" && to_mb && used=$value
    read_key "$folder/memory.stat" file && to_mb && cache=$value
    smallest_limit "$folder" && to_mb && limit=$value
    read_key "$folder/memory.events" oom_kill && kills=$value
    read_key "$folder/cpu.stat" usage_usec
    case $value in -) ;; *) cpu_ns=$((value * 1000)) ;; esac
  elif [ -r "$root/memory/memory.usage_in_bytes" ]; then
    cgroup=v1
    cgroup_folder memory "$pid" "$root/memory"
    memory=$folder
    read_value "$memory/memory.usage_in_bytes" && to_mb && used=$value
    read_key "$memory/memory.stat" total_cache && to_mb && cache=$value
    read_key "$memory/memory.stat" hierarchical_memory_limit
    if [ "$value" = - ]; then read_value "$memory/memory.limit_in_bytes"; fi
    case $value in
      # Without a limit it says 9223372036854771712.
      [0-9]*) if [ "${#value}" -ge 19 ]; then value=max; else to_mb; fi ;;
    esac
    limit=$value
    read_key "$memory/memory.oom_control" oom_kill && kills=$value
    cgroup_folder cpuacct "$pid" "$root/cpuacct"
    [ -d "$root/cpuacct" ] || cgroup_folder cpuacct "$pid" "$root/cpu,cpuacct"
    read_value "$folder/cpuacct.usage" && cpu_ns=$value
  fi
  read_clock
  if [ "$cpu_ns" != - ] && [ -n "$last_cpu" ] && [ "$last_folder" = "$cgroup$folder" ] &&
    [ "$clock_ms" -gt "$last_clock" ]; then
    cpu=$(((cpu_ns - last_cpu) / ((clock_ms - last_clock) * 10000)))
  fi
  last_cpu=${cpu_ns/-/} last_clock=$clock_ms last_folder=$cgroup$folder
}

read_clock() {
  local up=''
  { read -r up _ </proc/uptime; } 2>/dev/null || up=0.00
  clock_ms=$((10#${up//./} * 10))
}

# Looks at every process once: Python's, wandb's, and the training process.
read_processes() {
  local entry pid name pages words line largest=-1 seen=0
  python_n=0 python_rss=0 wandb_rss=0
  if [ "$asked_pid" = - ]; then main_pid=-; fi
  main_rss=-
  for entry in /proc/[0-9]*; do
    pid=${entry#/proc/} name='' pages=''
    [ "$pid" != "$$" ] || continue
    { read -r name <"$entry/comm"; } 2>/dev/null || continue
    { read -r _ pages _ <"$entry/statm"; } 2>/dev/null || continue
    [ -n "$pages" ] || continue
    seen=1
    case $name in
      python* | pt_main_thread | ray::* | pt_data_worker)
        python_n=$((python_n + 1))
        python_rss=$((python_rss + pages))
        ;;
      wandb* | gpu_stats) wandb_rss=$((wandb_rss + pages)) ;;
    esac
    if [ "$pid" = "$asked_pid" ]; then
      main_rss=$((pages * page / 1048576))
    elif [ "$asked_pid" = - ] && [ -n "${TRAIN_PROC:-}" ] && [ "$pages" -gt "$largest" ]; then
      words=()
      while IFS= read -r -d '' line; do words+=("$line"); done 2>/dev/null <"$entry/cmdline" || true
      case ${words[0]:-} in
        *mem_monitor* | */ssh | ssh | */tail | tail | */grep | grep) continue ;;
        */less | less | */vim | vim) continue ;;
      esac
      line=" ${words[*]:0:50} "
      if [[ $line == *$TRAIN_PROC* && $line != *mem_monitor.sh* ]]; then
        largest=$pages main_pid=$pid main_rss=$((pages * page / 1048576))
      fi
    fi
  done
  python_rss=$((python_rss * page / 1048576)) wandb_rss=$((wandb_rss * page / 1048576))
  if [ "$seen" = 0 ]; then python_n=- python_rss=- wandb_rss=-; fi
}

read_shm() {
  local blocks=''
  shm=-
  { read -r _ && read -r _ _ blocks _; } 2>/dev/null < <(df -Pk /dev/shm 2>/dev/null) || blocks=''
  case $blocks in '' | *[!0-9]*) ;; *) shm=$((blocks / 1024)) ;; esac
}

read_gpu() {
  local out line memory busy
  gpu_used=- gpu_util=-
  command -v nvidia-smi >/dev/null || return 0
  out=$(timeout 10 nvidia-smi --query-gpu=memory.used,utilization.gpu \
    --format=csv,noheader,nounits 2>/dev/null) || return 0
  # "40321, 98" for each GPU; "[N/A]" or "[Not Supported]" without a reading
  while IFS=, read -r memory busy; do
    memory=${memory// /} busy=${busy// /}
    case $memory in '' | *[!0-9]*) ;; *) gpu_used=$((${gpu_used/-/0} + memory)) ;; esac
    case $busy in
      '' | *[!0-9]*) ;;
      *) if [ "$gpu_util" = - ] || [ "$busy" -gt "$gpu_util" ]; then gpu_util=$busy; fi ;;
    esac
  done <<<"$out"
}

row() {
  local IFS=$'\t'
  printf '%s\n' "$*"
}

interval=5 once=no asked_pid=-
while [ $# -gt 0 ]; do
  case $1 in
    --help | -h)
      help_text "${BASH_SOURCE[0]}"
      exit 0
      ;;
    --once) once=yes ;;
    --interval | --pid)
      case ${2:-} in
        '' | *[!0-9]* | 0*)
          usage_error "$1 needs a whole number above 0, not $(printf '%q' "${2:-nothing}")"
          ;;
      esac
      if [ "$1" = --pid ]; then asked_pid=$2; else interval=$2; fi
      shift
      ;;
    *) usage_error "unknown argument $(printf '%q' "$1")" ;;
  esac
  shift
done

root=${CGROUP_ROOT:-/sys/fs/cgroup} page=$(getconf PAGESIZE 2>/dev/null) || page=4096
root=${root%/}
last_cpu='' last_clock=0 last_folder='' main_pid=$asked_pid start=-
if [ "$asked_pid" != - ]; then
  read_start "$asked_pid"
  start=$value
  [ "$start" != - ] || usage_error "--pid: no process $asked_pid"
fi

row time cgroup cg_used_mb cg_cache_mb cg_limit_mb cg_oom_kills cg_cpu_pct main_pid main_rss_mb \
  python_n python_rss_mb wandb_rss_mb shm_used_mb gpu_used_mb gpu_util_pct
if [ "$once" = yes ]; then
  read_processes
  read_cgroup
  sleep 0.5
fi
while :; do
  if [ "$asked_pid" != - ]; then
    read_start "$asked_pid"
    if [ "$value" != "$start" ]; then
      say "process $asked_pid has ended"
      exit 0
    fi
  fi
  read_processes
  read_cgroup
  read_shm
  read_gpu
  printf -v now '%(%s)T' -1
  row "$now" "$cgroup" "$used" "$cache" "$limit" "$kills" "$cpu" "$main_pid" "$main_rss" \
    "$python_n" "$python_rss" "$wandb_rss" "$shm" "$gpu_used" "$gpu_util"
  if [ "$once" = yes ]; then exit 0; fi
  sleep "$interval"
done
