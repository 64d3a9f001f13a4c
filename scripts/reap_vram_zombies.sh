#!/usr/bin/env bash
# usage: reap_vram_zombies.sh [--force] [--json] [--sample SECONDS] [--min-age SECONDS] [--trust-empty-list] [--device FILE]...
#
# Find processes that hold a GPU although nothing of their job is left: their parent is gone, nvidia-smi doesn't list them, and they do nothing. Such
# leftovers keep GPU memory that the next job misses. Without --force nothing is ended.
#
# A process is a candidate only when all of this holds; else the table says which of it didn't:
#   it is yours (real and effective user), also when you are root; it is not this script or what started it
#   it is older than --min-age, and its parent is process 1 or the user's systemd
#   neither it nor a process of its session or process group, nor a descendant, is on nvidia-smi's list
#   over --sample seconds it and its session used no processor time, read and wrote nothing, and each GPU that it holds stayed at 0 per cent
#
# It refuses where that list can't be trusted, because there healthy jobs would look like leftovers:
#   in a PID namespace of its own, as in most rented containers (nvidia-smi sees other process numbers there, or none): run it on the host
#   when nvidia-smi lists a process that isn't there, or a CUDA MPS server runs
#   when nvidia-smi lists nothing while GPU memory is in use: --trust-empty-list, if you know that no job is meant to run on these GPUs
#
# options:
#   --force             send TERM to the candidates, after 10 seconds KILL to those that are left; each is looked at again before
#   --sample S          seconds to watch (default 10)
#   --min-age S         youngest age in seconds (default 120)
#   --trust-empty-list  see above
#   --device FILE       device file to look at (default: each /dev/nvidia0, /dev/nvidia1, ...)
#   --json              print an object: verdict (clean, candidates, ended, failed, refused, unknown), reason, processes
#   --help              this text
#
# The table (TSV): pid, uid, age_s, cpu_ticks, devices, verdict, reason, name. Command lines are not shown: they may hold secrets.
#
# exit: 0 no leftover (or all were ended); 1 leftovers are there, one could not be ended, or it could not tell (refused, no driver, no device
# file, neither fuser nor lsof); 2 usage
#
# example:
#   bash reap_vram_zombies.sh && echo 'nothing of mine is left on the GPUs'
set -euo pipefail
export LC_ALL=C

say() { printf 'reap_vram_zombies: %s\n' "$*" >&2; }
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

json_text() {
  local text=${1//[$'\001'-$'\037'$'\177']/ }
  text=${text//\\/\\\\}
  printf '"%s"' "${text//\"/\\\"}"
}

rows=()
# finish VERDICT CODE [REASON]: the answer, then the end
finish() {
  local verdict=$1 code=$2 reason=${3:-} row sep='' pid uid age ticks devices word why name
  if [ "$json" = yes ]; then
    printf '{"verdict": "%s", "reason": %s, "processes": [' "$verdict" "$(json_text "$reason")"
    for row in "${rows[@]}"; do
      IFS=$'\t' read -r pid uid age ticks devices word why name <<<"$row"
      printf '%s{"pid": %s, "uid": %s, "age_s": %s, "cpu_ticks": %s, "devices": %s, "verdict": "%s", "reason": %s, "name": %s}' "$sep" "$pid" "$uid" "$age" \
        "${ticks/-/null}" "$(json_text "$devices")" "$word" "$(json_text "$why")" "$(json_text "$name")"
      sep=', '
    done
    printf ']}\n'
  else
    if [ ${#rows[@]} -gt 0 ]; then
      printf 'pid\tuid\tage_s\tcpu_ticks\tdevices\tverdict\treason\tname\n'
      printf '%s\n' "${rows[@]}"
    fi
    printf '%s%s\n' "$verdict" "${reason:+: $reason}"
  fi
  exit "$code"
}

# ---------------------------------------------------------------- gather

# Fields of /proc/PID/stat behind the name into the array stat: 0 state, 1 parent, 2 group, 3 session, 11 and 12 ticks, 19 start.
read_stat() {
  local text=''
  { IFS= read -r text <"/proc/$1/stat"; } 2>/dev/null || return 1
  read -ra stat <<<"${text##*) }"
  [ "${#stat[@]}" -ge 20 ]
}

uids_of() { awk '/^Uid:/ { print $2, $3; exit }' "/proc/$1/status" 2>/dev/null; }

# Everything a process and its session have done so far: processor ticks and bytes, as one number; names change when members come or go.
activity() {
  local session=$1 entry pid name number total=0 members=''
  for entry in /proc/[0-9]*; do
    pid=${entry#/proc/}
    read_stat "$pid" || continue
    [ "${stat[3]}" = "$session" ] || continue
    members="$members,$pid"
    total=$((total + stat[11] + stat[12]))
    while read -r name number; do
      case $name in rchar: | wchar:) total=$((total + number)) ;; esac
    done 2>/dev/null <"$entry/io" || true
  done
  printf '%s:%s' "$members" "$total"
}

# fuser reads "--" as the end of what it was asked, and would find nobody: the path begins with a slash instead.
holders_of() {
  if command -v fuser >/dev/null; then
    fuser "$1" 2>/dev/null | tr -cs '0-9' '\n' | grep . || true
  else
    lsof -t -- "$1" 2>/dev/null || true
  fi
}

# Process numbers of every kind that nvidia-smi knows, one a line. Fails when it can't list.
listed_pids() {
  local compute all
  compute=$(timeout 20 nvidia-smi --query-compute-apps=pid --format=csv,noheader,nounits 2>/dev/null) || return 1
  all=$(timeout 20 nvidia-smi -q -d PIDS 2>/dev/null) || return 1
  # "    Processes                             : N/A"
  if grep -q 'Processes *: *N/A' <<<"$all"; then return 1; fi
  # "        Process ID                        : 4711"
  awk -F: '/Process ID/ { print $2 }' <<<"$all" | cat - <(printf '%s\n' "$compute") | tr -cs '0-9' '\n' | grep . | sort -un || true
}

# "0, 40321, 98" for each GPU: index, MiB used, per cent busy
gpu_table() { timeout 20 nvidia-smi --query-gpu=index,memory.used,utilization.gpu --format=csv,noheader,nounits 2>/dev/null; }

# Fails when a GPU that is held was busy, or can't say. A device of another name stands for all GPUs.
gpus_idle() {
  local index memory busy wanted
  while IFS=', ' read -r index memory busy; do
    [ -n "$index" ] || continue
    wanted=yes
    case ",$1," in *[!0-9,]*) ;; *",${minor_of[index]:-$index},"*) ;; *) wanted=no ;; esac
    if [ "$wanted" = yes ] && [ "$busy" != 0 ]; then return 1; fi
  done <<<"$2"
}

# ---------------------------------------------------------------- judge

# Why the list of processes can't be trusted here, into $doubt.
judge_list() {
  local pid index memory busy used=0 listed
  doubt=''
  # The first PID namespace of a kernel has this number (PROC_PID_INIT_INO in include/linux/proc_ns.h).
  if [ "$(readlink /proc/self/ns/pid 2>/dev/null)" != 'pid:[4026531836]' ]; then
    doubt='this is a PID namespace of its own (a container): nvidia-smi cannot tell which of its processes live'
    return
  fi
  for pid in /proc/[0-9]*; do
    case $(cat "$pid/comm" 2>/dev/null) in nvidia-cuda-mps*) doubt='a CUDA MPS server runs: its clients are not listed by themselves' ;; esac
  done
  listed=$1
  for pid in $listed; do
    [ -d "/proc/$pid" ] || doubt="nvidia-smi lists process $pid, which is not to be seen here"
  done
  while IFS=', ' read -r index memory busy; do
    case $memory in '' | *[!0-9]*) ;; *) used=$((used + memory)) ;; esac
  done <<<"$table"
  # An idle GPU with its driver loaded shows less.
  if [ -z "$doubt" ] && [ -z "$listed" ] && [ "$used" -ge 64 ] && [ "$trust_empty" = no ]; then
    doubt="nvidia-smi lists no process while $used MiB are in use: --trust-empty-list, if no job is meant to run here"
  fi
}

# What speaks against ending a process before it is watched, into $against. Reads listed.
judge_process() {
  local pid=$1 up other uids parent
  against=''
  read_stat "$pid" || {
    against='it has ended'
    return
  }
  uids=$(uids_of "$pid")
  if [ "$uids" != "$my_uid $my_uid" ]; then
    against="not yours (user ${uids%% *})"
    return
  fi
  case " $family " in *" $pid "*)
    against='this script or what started it'
    return
    ;;
  esac
  if [ "$(age_of)" -lt "$min_age" ]; then
    against="younger than $min_age s"
    return
  fi
  parent=$(cat "/proc/${stat[1]}/comm" 2>/dev/null) || parent=''
  if [ "${stat[1]}" -gt 1 ] && [ "$parent" != systemd ]; then
    against="its parent ${stat[1]} lives"
    return
  fi
  local session=${stat[3]} group=${stat[2]}
  for other in $listed; do
    if [ "$other" = "$pid" ]; then
      against='nvidia-smi lists it'
      return
    fi
    if read_stat "$other" && { [ "${stat[3]}" = "$session" ] || [ "${stat[2]}" = "$group" ]; }; then
      against="process $other of its session is on nvidia-smi's list"
      return
    fi
    up=$other
    while [ "$up" -gt 1 ] && read_stat "$up"; do
      up=${stat[1]}
      if [ "$up" = "$pid" ]; then
        against="its child $other is on nvidia-smi's list"
        return
      fi
    done
  done
}

# Age in seconds of the process in stat.
age_of() {
  local up
  read -r up _ </proc/uptime
  printf '%s' "$((${up%.*} - stat[19] / hertz))"
}

# ---------------------------------------------------------------- main

force=no json=no sample=10 min_age=120 trust_empty=no devices=()
while [ $# -gt 0 ]; do
  case $1 in
    --help | -h)
      help_text "${BASH_SOURCE[0]}"
      exit 0
      ;;
    --force) force=yes ;;
    --json) json=yes ;;
    --trust-empty-list) trust_empty=yes ;;
    --sample | --min-age)
      case ${2:-} in
        '' | *[!0-9]* | 0*) usage_error "$1: found $(printf '%q' "${2:-nothing}"), expected a whole number above 0" ;;
      esac
      if [ "$1" = --sample ]; then sample=$2; else min_age=$2; fi
      shift
      ;;
    --device)
      case ${2:-} in /*) ;; *) usage_error "--device: found $(printf '%q' "${2:-nothing}"), expected a path that begins with /" ;; esac
      [ -c "$2" ] || usage_error "--device: found $(printf '%q' "$2"), expected a character device"
      devices+=("$2")
      shift
      ;;
    *) usage_error "found $(printf '%q' "$1"), expected --force, --json, --sample, --min-age, --trust-empty-list, --device or --help" ;;
  esac
  shift
done

command -v nvidia-smi >/dev/null || finish unknown 1 'found no nvidia-smi, expected the NVIDIA driver'
command -v fuser >/dev/null || command -v lsof >/dev/null || finish unknown 1 'found neither fuser nor lsof, expected one: apt-get install psmisc'
if [ ${#devices[@]} -eq 0 ]; then
  for name in /dev/nvidia[0-9]*; do if [ -c "$name" ]; then devices+=("$name"); fi; done
fi
[ ${#devices[@]} -gt 0 ] || finish unknown 1 'found no /dev/nvidia0, expected a device file for each GPU'
table=$(gpu_table) || finish unknown 1 'nvidia-smi did not answer within 20 s, expected a table of GPUs: look at dmesg for Xid'
listed=$(listed_pids) || finish unknown 1 'nvidia-smi lists no processes at all here (N/A or an error), expected a list, if an empty one'

# The N of /dev/nvidiaN is the minor number, in the order of nvidia-smi's index: "    Minor Number                          : 0"
minor_of=()
while read -r number; do minor_of+=("$number"); done < <(timeout 20 nvidia-smi -q 2>/dev/null | awk -F': *' '/Minor Number/ { print $2 }')
my_uid=$(id -u) hertz=$(getconf CLK_TCK 2>/dev/null) || hertz=100
family="$$" up=$PPID
while [ "$up" -gt 1 ]; do
  family="$family $up"
  read_stat "$up" || break
  up=${stat[1]}
done

declare -A held=() before=() started=() session_of=()
for name in "${devices[@]}"; do
  index=${name##*/}
  index=${index#nvidia}
  for pid in $(holders_of "$name"); do held[$pid]=${held[$pid]:+${held[$pid]},}$index; done
done

judge_list "$listed"
watched=()
for pid in $(printf '%s\n' "${!held[@]}" | sort -n); do
  judge_process "$pid"
  if [ -n "$doubt" ] && [ -z "$against" ]; then against='the list of processes is not to be trusted'; fi
  if [ -z "$against" ]; then
    read_stat "$pid" || continue
    watched+=("$pid")
    started[$pid]=${stat[19]} session_of[$pid]=${stat[3]}
    before[$pid]=$(activity "${stat[3]}")
  else
    read_stat "$pid" || continue
    uids=$(uids_of "$pid")
    rows+=("$pid"$'\t'"${uids%% *}"$'\t'"$(age_of)"$'\t-\t'"${held[$pid]}"$'\tskipped\t'"$against"$'\t'"$(tr -d '\000-\037' <"/proc/$pid/comm" 2>/dev/null)")
  fi
done
[ -z "$doubt" ] || finish refused 1 "$doubt"
[ ${#watched[@]} -gt 0 ] || finish clean 0

busy_gpus=''
for ((second = 0; second < sample; second++)); do
  sleep 1
  busy_gpus=$busy_gpus$'\n'$(gpu_table) || finish unknown 1 'nvidia-smi stopped answering, expected a table of GPUs'
done
listed=$(listed_pids) || finish unknown 1 'nvidia-smi stopped listing processes'
judge_list "$listed"
[ -z "$doubt" ] || finish refused 1 "$doubt"
candidates=()
for pid in "${watched[@]}"; do
  judge_process "$pid"
  ticks=-
  if [ -z "$against" ] && read_stat "$pid"; then
    ticks=$((stat[11] + stat[12]))
    if [ "${stat[19]}" != "${started[$pid]}" ]; then
      against='it has ended'
    elif [ "$(activity "${session_of[$pid]}")" != "${before[$pid]}" ]; then
      against="it or its session worked within $sample s"
    elif ! gpus_idle "${held[$pid]}" "$busy_gpus"; then
      against="a GPU that it holds was not at 0 per cent within $sample s"
    fi
  fi
  read_stat "$pid" || continue
  word=candidate
  if [ -n "$against" ]; then word=skipped; else candidates+=("$pid"); fi
  rows+=("$pid"$'\t'"$my_uid"$'\t'"$(age_of)"$'\t'"$ticks"$'\t'"${held[$pid]}"$'\t'"$word"$'\t'"${against:--}"$'\t'"$(tr -d '\000-\037' <"/proc/$pid/comm" 2>/dev/null)")
done
[ ${#candidates[@]} -gt 0 ] || finish clean 0
[ "$force" = yes ] || finish candidates 1 "${#candidates[@]} leftover processes; look at them (ps -fp ${candidates[*]}), then --force"

# A signal only to the very process that was judged: same start time, still yours.
send() {
  read_stat "$2" && [ "${stat[19]}" = "${started[$2]}" ] && [ "$(uids_of "$2")" = "$my_uid $my_uid" ] && kill "-$1" "$2" 2>/dev/null
}
gone() { ! read_stat "$1" || [ "${stat[19]}" != "${started[$1]}" ] || [ "${stat[0]}" = Z ]; }
left() {
  remaining=()
  for pid in "${candidates[@]}"; do gone "$pid" || remaining+=("$pid"); done
}
for pid in "${candidates[@]}"; do send TERM "$pid" || true; done
for ((second = 0; second < 20; second++)); do
  left
  [ ${#remaining[@]} -gt 0 ] || break
  sleep 0.5
done
for pid in "${remaining[@]}"; do send KILL "$pid" || true; done
for ((second = 0; second < 10; second++)); do
  left
  [ ${#remaining[@]} -gt 0 ] || finish ended 0 "${#candidates[@]} leftover processes were ended"
  sleep 0.5
done
finish failed 1 "found ${remaining[*]} still there after KILL, expected them gone: a process that waits for the driver ends only with a restart of the box"
