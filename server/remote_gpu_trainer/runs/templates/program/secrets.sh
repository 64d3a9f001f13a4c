# Secrets from files and variables of the box.

for rgt_name in RGT_SECRET_FILES RGT_SECRET_VARS; do
  declare -p "$rgt_name" >/dev/null 2>&1 || eval "$rgt_name=()"
done

rgt_check_secrets() {
  local pair name
  for pair in ${RGT_SECRET_FILES[@]+"${RGT_SECRET_FILES[@]}"}; do
    rgt_home "${pair#*=}"
    [[ -s $rgt_path && -r $rgt_path ]] ||
      rgt_refuse '' "the secret ${pair%%=*} has no readable file ${pair#*=}"
  done
  for name in ${RGT_SECRET_VARS[@]+"${RGT_SECRET_VARS[@]}"}; do
    rgt_variable "${name#*=}" ||
      rgt_refuse secret "the secret ${name#*=} is not set in this environment"
  done
  rgt_value=''
}

# Only ever called in a child: secrets are in no argument, file or variable of the runner.
rgt_load_secrets() {
  local pair name rgt_value
  for pair in ${RGT_SECRET_FILES[@]+"${RGT_SECRET_FILES[@]}"}; do
    rgt_home "${pair#*=}"
    { rgt_value=$(<"$rgt_path"); } 2>/dev/null || continue
    export "${pair%%=*}=${rgt_value%$'\r'}"
  done
  for name in ${RGT_SECRET_VARS[@]+"${RGT_SECRET_VARS[@]}"}; do
    rgt_variable "${name#*=}" && export "${name%%=*}=$rgt_value"
  done
  rgt_value=''
}

# Masks what goes to the log in rgt_out from here on, so that no tail and no copy of it holds a
# secret that the program printed.
rgt_mask_log() {
  local to=$rgt_out name python=''
  for name in python3 "$RGT_PYTHON" python; do
    "$name" -I -c '' 2>/dev/null </dev/null && python=$(type -P -- "$name") && break
  done
  exec {rgt_out}> >(
    trap '' HUP INT TERM USR1 USR2
    exec 9>&-
    rgt_load_secrets
    rgt_name_secrets
    if [[ -n $python ]]; then
      exec setsid "$python" -I -c "$(rgt_mask_secrets_program)" "${rgt_secrets[@]}" >&"$to"
    fi
    while IFS= read -r rgt_detail || [[ -n $rgt_detail ]]; do
      rgt_mask_detail
      printf '%s\n' "$rgt_detail"
    done >&"$to"
  )
  exec {to}>&-
}

# The variables that hold secrets in a child, in rgt_secrets.
rgt_name_secrets() {
  local pair
  rgt_secrets=()
  for pair in ${RGT_SECRET_FILES[@]+"${RGT_SECRET_FILES[@]}"} \
    ${RGT_SECRET_VARS[@]+"${RGT_SECRET_VARS[@]}"}; do
    rgt_secrets+=("${pair%%=*}")
  done
}

# The same for what a tool for copies said, in a child that holds the secrets.
rgt_mask_detail() {
  local name
  rgt_name_secrets
  for name in "${rgt_secrets[@]}"; do
    [[ ${!name:-} != ??????* ]] || rgt_detail=${rgt_detail//"${!name}"/***}
  done
}
