# The roster: what is known of each cell.

# Folders and cells of this process. What is known of a cell is kept under its index in RGT_CELLS,
# of a running one under its slot.
rgt_queue_open() {
  local index name
  local -A seen=()
  rgt_queue_mine=() rgt_queue_names=() rgt_queue_state=() rgt_queue_result=()
  rgt_queue_tries=() rgt_queue_after=()
  rgt_queue_cell=() rgt_queue_pid=() rgt_queue_started=() rgt_queue_token_of=() rgt_queue_pending=()
  rgt_queue_every=$((RGT_LEASE > 60 ? 30 : RGT_LEASE / 2 + 1))
  rgt_queue_serial=0 rgt_queue_clock=0 rgt_queue_cell_verb=run
  rgt_queue_halt='' rgt_queue_halt_class='' rgt_queue_halt_entry=''
  rgt_queue_dirty=yes rgt_queue_written=0 rgt_queue_beaten=0
  rgt_queue_cursor=0 rgt_queue_next_scan=0 rgt_queue_passed='' rgt_queue_idle=''
  rgt_home "$RGT_CLAIMS" && rgt_queue_claims=${rgt_path%/}
  [[ -n $rgt_queue_claims ]] || rgt_queue_claims=$rgt_queue_root/claims
  [[ $rgt_queue_claims == /* ]] || rgt_queue_claims=$RGT_WORK_DIR/$rgt_queue_claims
  for index in "${!RGT_CELLS[@]}"; do
    name=${RGT_CELLS[index]%%$'\x1f'*}
    if [[ $name != [A-Za-z0-9]* || $name == *[!A-Za-z0-9._=+-]* || ${#name} -gt 100 ||
      -n ${seen[$name]:-} ]]; then
      echo "RGT_CELLS has the name '$name';" \
        "use letters, digits and ._=+-, and each name once" >&2
      exit 2
    fi
    seen[$name]=1
    rgt_queue_names[index]=$name rgt_queue_state[index]=left rgt_queue_result[index]=''
    if ((index % rgt_queue_n == rgt_queue_k - 1)); then rgt_queue_mine+=("$index"); fi
  done
  rgt_queue_identity
}

# A value of a marker's line as it stands there, in rgt_queue_value.
rgt_queue_field() {
  local pattern="\"$2\":(\"(([^\"\\\\]|\\\\.)*)\"|[^,}]*)"
  rgt_queue_value=''
  [[ $1 =~ $pattern ]] || return 0
  rgt_queue_value=${BASH_REMATCH[2]}
  [[ ${BASH_REMATCH[1]} == \"* || ${BASH_REMATCH[1]} == null ]] ||
    rgt_queue_value=${BASH_REMATCH[1]}
}

# Looks at a cell and remembers what it saw. $2: briefly, without reading what a good cell left.
rgt_queue_see() {
  local index=$1 line=''
  rgt_queue_look "${rgt_queue_names[index]}"
  [[ $rgt_queue_is == "${rgt_queue_state[index]}" && $rgt_queue_is != running ]] && return
  if [[ $rgt_queue_is == failed || ($rgt_queue_is == "done" && -z ${2:-}) ]]; then
    { read -r line <"$rgt_queue_claims/${rgt_queue_names[index]}/$rgt_queue_is"; } 2>/dev/null
  elif [[ -n $rgt_queue_by ]]; then
    line=${rgt_queue_by##*/by.}
    line="{\"host\":\"${line%%@*}\"}"
  fi
  rgt_queue_note "$index" "$rgt_queue_is" "$line"
}

rgt_queue_note() {
  rgt_queue_state[$1]=$2 rgt_queue_result[$1]=$3
  rgt_queue_dirty=yes
}

rgt_queue_count() {
  local index
  local -A number=(["done"]=0 [failed]=0 [running]=0 [lost]=0 [left]=0)
  for index in ${rgt_queue_mine[@]+"${rgt_queue_mine[@]}"}; do
    number[${rgt_queue_state[index]}]=$((number[${rgt_queue_state[index]}] + 1))
  done
  rgt_queue_done=${number[done]} rgt_queue_failed=${number[failed]}
  rgt_queue_running=${number[running]} rgt_queue_lost=${number[lost]} rgt_queue_left=${number[left]}
  rgt_queue_counts="\"total\":${#rgt_queue_mine[@]}"
  rgt_queue_counts+=",\"done\":$rgt_queue_done,\"failed\":$rgt_queue_failed"
  rgt_queue_counts+=",\"running\":$rgt_queue_running"
  rgt_queue_counts+=",\"lost\":$rgt_queue_lost,\"left\":$rgt_queue_left"
  rgt_queue_sum="${#rgt_queue_mine[@]} cells: $rgt_queue_done done, $rgt_queue_failed failed,"
  rgt_queue_sum+=" $rgt_queue_running running, $rgt_queue_lost lost, $rgt_queue_left left"
}

# Each cell that isn't simply left, as members of a JSON object. $1: only these states.
rgt_queue_members() {
  local index text='' state
  for index in ${rgt_queue_mine[@]+"${rgt_queue_mine[@]}"}; do
    state=${rgt_queue_state[index]}
    [[ " $1 " == *" $state "* ]] || continue
    text+=",\"${rgt_queue_names[index]}\":{\"state\":\"$state\""
    rgt_queue_field "${rgt_queue_result[index]}" class && text+=",\"class\":\"$rgt_queue_value\""
    rgt_queue_field "${rgt_queue_result[index]}" entry && text+=",\"entry\":\"$rgt_queue_value\""
    rgt_queue_field "${rgt_queue_result[index]}" host && text+=",\"where\":\"$rgt_queue_value\"}"
  done
  rgt_queue_text=${text:1}
}

rgt_queue_write() {
  rgt_queue_count
  rgt_queue_members 'done failed running lost'
  rgt_now
  rgt_json "$rgt_queue_halt"
  rgt_write "$RGT_RUN_DIR/queue.json" "{$rgt_queue_counts,\"stopped\":$rgt_j,\"updated\":$rgt_t,\
\"cells\":{$rgt_queue_text}}"$'\n'
  rgt_queue_dirty='' rgt_queue_written=$rgt_up
}

# Every cell of the roster against its result; the ones that aren't done go to queue.rest, as lines
# of a queue file.
rgt_queue_reconcile() {
  local index name state text='' rest='' rows='' where fields=() json=${1:-}
  rgt_queue_open
  mkdir -p -- "$RGT_RUN_DIR"
  rgt_queue_read_clock || { rgt_now && rgt_queue_clock=$rgt_t; }
  for index in ${rgt_queue_mine[@]+"${rgt_queue_mine[@]}"}; do
    name=${rgt_queue_names[index]}
    rgt_queue_see "$index"
    state=${rgt_queue_state[index]}
    [[ $state != left ]] || rgt_queue_why_left "$index"
    fields=()
    for where in class entry host reason; do
      rgt_queue_field "${rgt_queue_result[index]}" "$where"
      fields+=("$rgt_queue_value")
    done
    rows+="$name"$'\t'"$state"
    printf -v rgt_queue_text '\t%s' "${fields[@]}"
    rows+=$rgt_queue_text$'\n'
    text+=",{\"name\":\"$name\",\"state\":\"$state\",\"class\":\"${fields[0]}\",\
\"entry\":\"${fields[1]}\",\"where\":\"${fields[2]}\",\"reason\":\"${fields[3]}\"}"
    if [[ $state != "done" ]]; then
      rgt_queue_as_line "$index"
      rest+=$rgt_queue_text$'\n'
    fi
  done
  rgt_queue_count
  rgt_write "$RGT_RUN_DIR/queue.rest" "$rest" || echo "can't write $RGT_RUN_DIR/queue.rest" >&2
  if [[ $json == --json ]]; then
    rgt_json "$RGT_RUN_DIR/queue.rest"
    printf '{%s,"rest":%s,"cells":[%s]}\n' "$rgt_queue_counts" "$rgt_j" "${text:1}"
  else
    printf 'cell\tstate\tclass\tentry\twhere\treason\n%s# %s\n' "$rows" "$rgt_queue_sum"
  fi
  ((rgt_queue_done == ${#rgt_queue_mine[@]}))
}

# Why a cell that nobody holds isn't done: a box that couldn't, or an end that was asked for.
rgt_queue_why_left() {
  local name=${rgt_queue_names[$1]} file line=''
  for file in "$rgt_queue_root/cells/$name/.preempted" "$rgt_queue_claims/$name".fault.*/fault; do
    { read -r line <"$file"; } 2>/dev/null
  done
  rgt_queue_result[$1]=$line
}

# NAME ARGUMENT …, quoted as Python's shlex reads it.
rgt_queue_as_line() {
  local rest=${RGT_CELLS[$1]} word quote="'\"'\"'"
  rgt_queue_text=${rgt_queue_names[$1]}
  while [[ $rest == *$'\x1f'* ]]; do
    rest=${rest#*$'\x1f'}
    word=${rest%%$'\x1f'*}
    if [[ -z $word || $word == *[!A-Za-z0-9@%+=:,./_-]* ]]; then word="'${word//\'/$quote}'"; fi
    rgt_queue_text+=" $word"
  done
}
