# What is seen of the GPUs while the program runs.

: "${RGT_STALL_POWER_SECONDS:=0}"

rgt_new_xid() {
  local count
  count=$(timeout -k 1 5 dmesg 2>/dev/null | grep -cF 'NVRM: Xid')
  ((${count:-0} > ${rgt_xids_before:-0}))
}

rgt_note_xids() { rgt_xids_before=$(timeout -k 1 5 dmesg 2>/dev/null | grep -cF 'NVRM: Xid'); }

# Cards for a heartbeat: how many are busy without work, in rgt_gpu_hot, and a text about each, in
# rgt_gpu_text.
rgt_probe_gpus() {
  # At full utilisation and idle power the card waits for a message that doesn't come.
  rgt_gpu_text=$(timeout -k 1 30 nvidia-smi --format=csv,noheader,nounits \
    --query-gpu=utilization.gpu,power.draw,power.limit,memory.used,name 2>/dev/null |
    awk -F', *' '
      { n++; if ($1 >= 99 && $3 > 0 && $2 < 0.35 * $3) hot++
        text = text (n > 1 ? "; " : "") $5 " " $1 "% " int($2) "/" int($3) "W " $4 "MB" }
      END { print hot + 0; print text }')
  rgt_gpu_hot=${rgt_gpu_text%%$'\n'*} rgt_gpu_text=${rgt_gpu_text#*$'\n'}
}

rgt_gpus_wait() {
  local hot=0
  ((RGT_STALL_POWER_SECONDS > 0)) || return 1
  { read -r _ && read -r hot; } 2>/dev/null <"$RGT_RUN_DIR/probe"
  [[ $hot != *[!0-9]* ]] || hot=0
  ((${hot:-0} > 0 && ${hot:-0} >= RGT_GPUS)) || rgt_power_at=$rgt_up
  ((rgt_up - rgt_power_at >= RGT_STALL_POWER_SECONDS)) || return 1
  rgt_stall_reason="full utilisation at idle power for $((rgt_up - rgt_power_at)) s"
}
