# Copies that a run waits for.

: "${RGT_SYNC_WAIT:=5}"

# A copy in a child, so that signals are served meanwhile; three tries.
rgt_fetch() {
  local try code=1 out=$RGT_RUN_DIR/.fetch.$$
  for try in 1 2 3; do
    (
      # The run's mark, so that a copy which outlives its runner is found and ended.
      export RGT_RUN_DIR
      rgt_load_secrets
      rgt_copy quick "$1" "$2" "$3"
      code=$?
      rgt_mask_detail
      printf '%s' "$rgt_detail" >"$out"
      exit "$code"
    ) 9>&- &
    code=0
    rgt_wait_stage "$!" || code=$?
    rgt_detail=$(<"$out") 2>/dev/null
    rm -f -- "$out"
    ((code == 0)) && return 0
    [[ -z $rgt_asked ]] || return 1
    rgt_event stage-failed try "$try" why "$rgt_detail"
    rgt_nap "$RGT_SYNC_WAIT"
  done
  return 1
}
