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
