# Checks of the GPUs before the start.

rgt_check_gpus() {
  local want=$RGT_GPUS out pid row index uuid used total at rest seen=0
  local -a cards=() chosen=() apps=()
  if ! type -P nvidia-smi >/dev/null; then
    rgt_refuse no-gpu "nvidia-smi is missing, expected $want GPUs"
    return
  fi
  rgt_slow_answer 60 nvidia-smi --query-gpu=index,uuid,memory.used,memory.total \
    --format=csv,noheader,nounits || {
    rgt_refuse no-gpu "nvidia-smi failed or hung: ${rgt_answer:0:200}"
    return
  }
  mapfile -t cards < <(printf '%s\n' "$rgt_answer" | grep -E '^ *[0-9]+ *,')
  if ((${#cards[@]} < want)); then
    rgt_refuse no-gpu "found ${#cards[@]} GPUs, expected $want"
    return
  fi
  rgt_slow_answer 60 nvidia-smi --query-compute-apps=gpu_uuid,pid,used_memory \
    --format=csv,noheader,nounits || rgt_answer=''
  mapfile -t apps < <(printf '%s\n' "$rgt_answer" | grep -F ',')
  # The program takes what CUDA_VISIBLE_DEVICES names, else the first ones.
  for row in "${cards[@]}"; do
    row=${row// /}
    index=${row%%,*} rest=${row#*,}
    uuid=${rest%%,*}
    if [[ -n ${CUDA_VISIBLE_DEVICES:-} ]]; then
      [[ ",$CUDA_VISIBLE_DEVICES," == *",$index,"* ||
        ",$CUDA_VISIBLE_DEVICES," == *",$uuid"* ]] || continue
    fi
    chosen+=("$row")
  done
  for row in ${chosen[@]+"${chosen[@]}"}; do
    ((seen++ < want)) || break
    IFS=, read -r index uuid used total < <(printf '%s\n' "$row")
    at=0
    for out in ${apps[@]+"${apps[@]}"}; do
      out=${out// /}
      [[ ${out%%,*} == "$uuid" ]] || continue
      rest=${out#*,} pid=${rest%%,*} rest=${rest##*,}
      # A display server or an idle MPS daemon holds a little.
      [[ $rest == *[!0-9]* || $rest -ge 64 ]] && at=1 &&
        rgt_refuse busy "GPU $index is used by process $pid ($rest MB)"
    done
    # In a container the list is empty although the memory is taken.
    if ((!at)) && [[ $used == [0-9]* && $total == [1-9]* ]] &&
      ((used > 2048 && used > total / 10)); then
      rgt_refuse held "GPU $index has $used of $total MB in use by a process that is not listed"
    fi
  done
  rgt_check_kernel
}

# Bytes of text from a command that may hang, in rgt_answer.
rgt_slow_answer() {
  local limit=$1 pid out=$RGT_RUN_DIR/.answer.$$ code
  shift
  timeout -k 2 "$limit" "$@" >"$out" 2>&1 </dev/null 9>&- &
  pid=$!
  rgt_attend "$pid" $((limit + 5)) ask
  code=$?
  rgt_answer=$(tr -d '\0' <"$out" 2>/dev/null)
  rm -f -- "$out"
  return "$code"
}

# Runs one small kernel on each GPU that the job wants. Says nothing without torch.
rgt_check_kernel_program() {
  cat <<'RGT_PROGRAM'
import sys

try:
    import torch
except ImportError:
    sys.exit(0)
want = int(sys.argv[1])
if not torch.cuda.is_available() or torch.cuda.device_count() < want:
    sys.exit(f"torch {torch.__version__} sees {torch.cuda.device_count()} GPUs, expected {want}")
for index in range(want):
    assert (torch.ones(64, device=f"cuda:{index}") * 2).sum().item() == 128.0
RGT_PROGRAM
}

rgt_check_kernel() {
  type -P -- "$RGT_PYTHON" >/dev/null || {
    rgt_refuse python "the interpreter $RGT_PYTHON is missing"
    return
  }
  rgt_slow_answer 180 "$RGT_PYTHON" -c "$(rgt_check_kernel_program)" "$RGT_GPUS" && return
  rgt_answer=${rgt_answer##*$'\n'}
  case $rgt_answer in
    *driver*) rgt_refuse driver "no CUDA kernel runs in $RGT_PYTHON: ${rgt_answer:0:300}" ;;
    *) rgt_refuse kernel "no CUDA kernel runs in $RGT_PYTHON: ${rgt_answer:0:300}" ;;
  esac
}
