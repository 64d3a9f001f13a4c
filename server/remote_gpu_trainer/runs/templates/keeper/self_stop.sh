# Stops the box by the profile's own command.

: "${RGT_SELF_STOP=}" "${RGT_SELF_STOP_NEEDS=}" "${RGT_BOX_ID=}"
declare -p RGT_SECRET_FILES >/dev/null 2>&1 || RGT_SECRET_FILES=()

# Stops the box by the profile's own command, if it was given the key. Fails otherwise, and says why
# in rgt_why.
rgt_self_stop() {
  local out='' code=124 from name line
  rgt_why=''
  rgt_has_credential || rgt_why="the credential $RGT_SELF_STOP_NEEDS is missing on the box"
  [[ -z $rgt_why ]] || return 1
  rgt_event self-stop
  sync -f "$RGT_RUN_DIR/state.json" 2>/dev/null &
  # No command substitution: what the line leaves behind in the background would hold it open.
  exec {from}< <(
    rgt_load_secrets
    export RGT_BOX_ID
    if [[ $RGT_SELF_STOP_NEEDS == *=* ]]; then
      rgt_home "${RGT_SELF_STOP_NEEDS#*=}"
      export "${RGT_SELF_STOP_NEEDS%%=*}=$(<"$rgt_path")"
    fi
    # What the line names and a login lacks stands with the container's first process.
    line=$RGT_SELF_STOP
    while [[ $line =~ \$\{?([A-Z_][A-Z0-9_]*)(.*) ]]; do
      name=${BASH_REMATCH[1]} line=${BASH_REMATCH[2]}
      [[ -z ${!name:-} ]] && rgt_variable "$name" && export "$name=$rgt_value"
    done
    timeout -k 2 15 bash -c "$RGT_SELF_STOP" </dev/null 2>&1
    printf '\0%s\n' "$?"
  )
  rgt_attend "$!" 20 2>/dev/null
  IFS= read -r -d '' -t 1 -u "$from" out && read -r -t 1 -u "$from" code
  exec {from}<&-
  [[ $code == 0 ]] && return 0
  rgt_why="the stop command failed with exit status $code"
  # What it said may hold the credential, so it is only kept where no credential is involved.
  ((${#out} <= 300)) || out=${out: -300}
  [[ -n $RGT_SELF_STOP_NEEDS || -z $out ]] || rgt_why+=": ${out%$'\n'}"
  return 1
}

rgt_has_credential() {
  local pair
  [[ -n $RGT_SELF_STOP_NEEDS ]] || return 0
  if [[ $RGT_SELF_STOP_NEEDS == *=* ]]; then
    rgt_home "${RGT_SELF_STOP_NEEDS#*=}"
    [[ -s $rgt_path && -r $rgt_path ]]
    return
  fi
  if [[ $RGT_SELF_STOP_NEEDS == */* || $RGT_SELF_STOP_NEEDS == '~'* ]]; then
    rgt_home "$RGT_SELF_STOP_NEEDS"
    [[ -r $rgt_path ]]
    return
  fi
  for pair in ${RGT_SECRET_FILES[@]+"${RGT_SECRET_FILES[@]}"}; do
    rgt_home "${pair#*=}"
    [[ ${pair%%=*} == "$RGT_SELF_STOP_NEEDS" && -s $rgt_path ]] && return 0
  done
  rgt_variable "$RGT_SELF_STOP_NEEDS" && rgt_value=''
}
