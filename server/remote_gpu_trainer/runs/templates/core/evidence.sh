# Why an attempt ended: a class, an entry of the catalogue and a reason.

declare -gA rgt_signs=(
  [disk]='No space left on device
Disk quota exceeded
PytorchStreamWriter failed writing file'
  ['host-oom']='oom_kill event
Out of memory: Killed process
is killed by signal: Killed
Cannot allocate memory
MemoryError
RESOURCE_EXHAUSTED: Out of memory
DefaultCPUAllocator: not enough memory
DefaultCPUAllocator: can'\''t allocate memory'
  [shm]='unable to allocate shared memory
insufficient shared memory
is killed by signal: Bus error'
  [gpu]='no CUDA-capable device is detected
No CUDA GPUs are available'
  [hang]='Watchdog caught collective operation timeout
Some NCCL operations have failed or timed out
Timed out waiting
collective operation timeout'
  [killed]='exitcode  : -9
exits with return code = -9
Signal 9 (SIGKILL)'
  [port]='EADDRINUSE
Address already in use'
  [network]='Temporary failure in name resolution
Name or service not known
Connection reset by peer
Connection refused
Connection timed out
Connection closed by peer
Network is unreachable
Max retries exceeded with url
Read timed out
RemoteDisconnected
ConnectTimeout
IncompleteRead
502 Bad Gateway
503 Service
504 Gateway'
  [bug]='Traceback (most recent call last)'
)

# The newest log file and its number plus one.
rgt_log_files() {
  local IFS='' file
  rgt_log_all=() rgt_log_file='' rgt_log_next=0
  for file in "$RGT_RUN_DIR"/log/train.log.[0-9][0-9][0-9][0-9]; do
    [[ -e $file ]] && rgt_log_all+=("$file")
  done
  ((${#rgt_log_all[@]})) || return 0
  rgt_log_file=${rgt_log_all[-1]}
  rgt_log_next=$((10#${rgt_log_file##*.} + 1))
}

# The end of this attempt's log.
rgt_attempt_tail() {
  local bytes=$1 file take
  local -a files=()
  rgt_log_files
  for file in ${rgt_log_all[@]+"${rgt_log_all[@]}"}; do
    ((10#${file##*.} >= rgt_log_first)) && files+=("$file")
  done
  ((${#files[@]})) || return 0
  take=$((bytes / RGT_LOG_BYTES + 2))
  ((take > ${#files[@]})) && take=${#files[@]}
  cat -- "${files[@]: -take}" 2>/dev/null | tail -c "$bytes"
}

# Do the last bytes of the log hold a sign of this failure?
rgt_said() {
  [[ -n ${rgt_signs[$1]:-} ]] || return 1
  rgt_attempt_tail "${2:-200000}" 2>/dev/null | LC_ALL=C grep -aF -e "${rgt_signs[$1]}" >/dev/null
}

# How often the kernel killed for memory, in rgt_ooms: this cgroup, both versions, else the whole
# machine.
rgt_count_ooms() {
  local line where='' file name value
  rgt_ooms=0
  while IFS= read -r line; do
    case $line in
      *:memory:*) where=${line##*:} ;;
      0::*) where=${where:-${line#0::}} ;;
    esac
  done 2>/dev/null </proc/self/cgroup
  for file in "$RGT_CGROUP"{"$where",}/memory.events \
    "$RGT_CGROUP/memory"{"$where",}/memory.oom_control /proc/vmstat; do
    [[ -r $file ]] || continue
    while read -r name value _; do
      [[ $name == oom_kill ]] && rgt_ooms=$((rgt_ooms + value))
    done 2>/dev/null <"$file"
  done
  return 0
}

rgt_no_room() {
  local folder
  for folder in "$RGT_RUN_DIR" "$RGT_CHECKPOINT_DIR" "$RGT_DURABLE"; do
    [[ $folder == /* ]] || continue
    rgt_room "$folder"
    rgt_full=$folder
    [[ -n $rgt_kb ]] && ((rgt_kb < 1024)) && return 0
    [[ -n $rgt_inodes ]] && ((rgt_inodes < 8)) && return 0
  done
  return 1
}

rgt_verdict() {
  rgt_class=$1 rgt_reason=$3
  rgt_entry_of "$2"
  rgt_entry=$rgt_id
}

# Class, entry and reason from what there is: our own flags first, then the kernel, the disk, the
# log, the status.
rgt_classify() {
  local code=$1 signal='' name last=200000
  ((code > 128 && code < 192)) && signal=$(kill -l $((code - 128)) 2>/dev/null)
  rgt_full=''
  # A program that is killed has no last words: what it said long before, and survived, isn't why.
  [[ $signal == KILL ]] && last=4000
  if [[ $rgt_stalled == true ]]; then
    rgt_verdict stall stall "$rgt_stall_reason"
  elif [[ -n $rgt_asked ]]; then
    name=preempted
    [[ $rgt_asked == deadline ]] && name=deadline
    rgt_verdict "$name" preempted "$rgt_asked"
    rgt_said timelimit && rgt_verdict "$name" timelimit "$rgt_asked"
  elif rgt_said disk "$last" || rgt_no_room; then
    rgt_verdict disk disk "no room left${rgt_full:+ in $rgt_full}"
    [[ -z $rgt_full ]] && rgt_no_room && rgt_reason="no room left in $rgt_full"
  elif rgt_said shm "$last"; then
    rgt_verdict host-oom shm 'too little shared memory for the workers that load data'
  elif rgt_count_ooms && ((rgt_ooms > rgt_ooms_before)); then
    rgt_verdict host-oom host-oom 'the kernel killed for want of host memory'
  elif rgt_is_gpu_oom "$last"; then
    rgt_verdict oom oom 'the GPU ran out of memory'
  elif rgt_said host-oom "$last"; then
    rgt_verdict host-oom host-oom 'host memory ran out'
  elif rgt_is_gpu_failure "$last"; then
    rgt_verdict gpu "$rgt_sign" "$rgt_why"
  elif rgt_said hang "$last"; then
    rgt_verdict hang hang 'a collective operation timed out'
  elif [[ $signal == KILL ]] || rgt_said killed; then
    rgt_verdict killed killed "killed by signal 9 from outside"
  elif [[ $signal == @(TERM|HUP|INT|USR1|USR2) ]]; then
    rgt_verdict killed killed "ended by signal $signal from outside"
  elif rgt_said port; then
    rgt_verdict network port 'the port is taken'
  elif rgt_said network 20000; then
    rgt_verdict network network 'a connection failed'
  elif ((code == 2 || code == 126 || code == 127)) || rgt_said bug; then
    rgt_verdict bug bug "the program failed with exit status $code"
  else
    rgt_verdict unknown unknown "exit status $code${signal:+ (signal $signal)}"
  fi
}
