# Checks before the start.

# class or '', reason. The class gives the entry and, for a run, the class of its failure.
rgt_refuse() {
  rgt_entry_of "$1"
  rgt_refusals+=("$1"$'\t'"$rgt_id"$'\t'"$2")
}

rgt_check_tools() {
  local tool
  rgt_tools=(setsid split flock timeout df stat mv grep tail cat)
  rgt_tools_for_copies
  [[ $RGT_LAUNCHER == none ]] || rgt_tools+=("$RGT_PYTHON")
  for tool in "${rgt_tools[@]}"; do
    type -P -- "$tool" >/dev/null || rgt_refuse python "$tool is missing on this box"
  done
}

rgt_check_folder() {
  local what=$1 folder=$2 file=$2/.rgt-write-$$ failed=0
  { mkdir -p -- "$folder" && printf 'x' |
    timeout -k 1 20 dd "of=$file" conv=fsync status=none; } 2>/dev/null || failed=1
  { rm -f -- "$file"; } 2>/dev/null
  rgt_room "$folder"
  # A full disk is told as one; anything else as a folder that can't be written.
  if ((failed)) && [[ $rgt_kb != 0 ]]; then
    rgt_refuse unwritable "$what $folder is not writable"
    return
  fi
  [[ -n $rgt_kb ]] && ((rgt_kb / 1024 < RGT_MIN_FREE_MB + failed)) &&
    rgt_refuse disk "$what $folder has $((rgt_kb / 1024)) MB free, expected $RGT_MIN_FREE_MB MB"
  [[ -n $rgt_inodes ]] && ((rgt_inodes < RGT_MIN_FREE_INODES)) &&
    rgt_refuse inodes "$what $folder has $rgt_inodes inodes free, expected $RGT_MIN_FREE_INODES"
  return 0
}

rgt_check_crlf() {
  local word file first
  for word in ${RGT_COMMAND[@]+"${RGT_COMMAND[@]}"}; do
    file=$word
    [[ $file == /* ]] || file=$RGT_WORK_DIR/$word
    [[ ${#word} -lt 4096 && $word != *$'\n'* && -f $file && -r $file ]] || continue
    first=''
    { IFS= LC_ALL=C read -r -n 200 first <"$file"; } 2>/dev/null
    [[ $file == *.sh || $first == '#!'* ]] || continue
    LC_ALL=C grep -q $'\r$' -- "$file" &&
      rgt_refuse crlf "$word has Windows line ends: sed -i 's/\\r\$//' $word"
  done
  return 0
}

rgt_check_clock() {
  rgt_now
  # 1767225600 is 2026-01-01.
  ((rgt_t >= 1767225600)) || rgt_refuse clock "the clock says $rgt_t, before 2026"
  rgt_check_sender_clock
}

rgt_preflight() {
  rgt_refusals=()
  rgt_check_tools
  rgt_check_folder 'the run folder' "$RGT_RUN_DIR"
  [[ -z $RGT_CHECKPOINT_DIR ]] || rgt_check_folder 'the checkpoint folder' "$RGT_CHECKPOINT_DIR"
  rgt_check_durable
  [[ -d $RGT_WORK_DIR ]] || rgt_refuse '' "the work folder $RGT_WORK_DIR is missing"
  ((${#RGT_COMMAND[@]})) || rgt_refuse '' 'RGT_COMMAND is empty'
  rgt_check_crlf
  rgt_check_clock
  rgt_check_secrets
  rgt_check_rendezvous
  rgt_check_gpus
  ((${#rgt_refusals[@]} == 0))
}

rgt_tell_refusals() {
  local line id
  for line in "${rgt_refusals[@]}"; do
    id=${line#*$'\t'} id=${id%%$'\t'*}
    rgt_log "refused ${id:--} ${line##*$'\t'}"
    rgt_event refused entry "$id" reason "${line##*$'\t'}"
  done
}
