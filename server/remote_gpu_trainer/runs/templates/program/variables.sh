# Variables that a login may lack.

# The value of a variable, in rgt_value: from this environment, else from the container's first
# process, whose variables an ssh login lacks.
rgt_variable() {
  local pair
  rgt_value=${!1:-}
  [[ -z $rgt_value ]] || return 0
  while IFS= read -r -d '' pair; do
    [[ $pair == "$1="?* ]] && rgt_value=${pair#*=} && return 0
  done 2>/dev/null </proc/1/environ
  return 1
}
