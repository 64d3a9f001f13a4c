# The probe in a rehearsal: a file beside the script, which enters Python by way of PYTHONPATH.

rgt_probe_begin() {
  local pair held=${PYTHONPATH:-} how="rgt probe --script >$rgt_base/probe.py"
  rgt_probe=${rgt_script%.*}.probe.py
  [[ -f $rgt_probe ]] || rgt_probe=$rgt_base/probe.py
  if [[ ! -f $rgt_probe ]]; then
    rgt_probe=''
    [[ $RGT_TARGET == local ]] || how="rgt probe --script | ssh BOX 'cat >$rgt_base/probe.py'"
    printf 'probe: not looked at: no %s; send it with: %s\n' "$rgt_base/probe.py" "$how"
    return
  fi
  rm -rf -- "$RGT_RUN_DIR/probe"
  rgt_ask_probe --prepare || { rgt_probe='' && return; }
  for pair in ${RGT_ENV[@]+"${RGT_ENV[@]}"}; do
    [[ $pair != PYTHONPATH=* ]] || held=${pair#*=}
  done
  RGT_ENV+=("PYTHONPATH=$RGT_RUN_DIR/probe${held:+:$held}")
}

rgt_ask_probe() {
  timeout -k 5 60 "$RGT_PYTHON" "$rgt_probe" "$1" "$RGT_RUN_DIR/probe" "${@:2}" && return
  printf 'probe: not looked at: %s ended with %s; see %s\n' "$rgt_probe" $? \
    "$RGT_RUN_DIR/log/runner.log"
  return 1
}

# Whether a program that saved at $1 goes on for the probe: a fifth of the minutes at most.
rgt_probe_waits() {
  [[ -n $rgt_probe ]] && ((rgt_up < $1 + RGT_REHEARSE_MINUTES * 12 && rgt_up < limit)) || return
  set -- "$RGT_RUN_DIR"/probe/rank-*.json
  [[ -e $1 ]] && ! grep -qs '"whole": true' "$@"
}

rgt_probe_tell() {
  [[ -n ${rgt_probe:-} ]] || return 0
  rgt_ask_probe --report --json "$RGT_RUN_DIR/log/probe.json" \
    --page "$RGT_RUN_DIR/log/probe.html" | LC_ALL=C tr -cd '\12\40-\176\200-\377'
  rm -rf -- "$RGT_RUN_DIR/probe"
}
