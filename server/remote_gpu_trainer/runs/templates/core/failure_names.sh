# What a failure is called in the catalogue.

# class, platform (profile or target; * for all), entry. The first line that fits counts; no line: no entry.
rgt_entries=(
  'disk runpod RP11'
  'disk autodl AD5'
  'disk vastai VAST10'
  'disk paperspace PS10'
  'disk kubernetes K8S5'
  'disk * U6'
  'inodes autodl AD4'
  'inodes * U7'
  'unwritable * U47'
  'clock * U46'
  'torn * C2'
  'lost * C4'
  'crlf * GEN4'
  'stall * D19'
  'hang * D20'
  'shm * DP15'
  'port * D4'
  'oom local LOC3'
  'oom * U10'
  'host-oom slurm SLURM4'
  'host-oom autodl AD8'
  'host-oom * DP9'
  'timelimit slurm SLURM2'
  'preempted vastai VAST4'
  'no-gpu kubernetes K8S6'
  'no-gpu notebooks NB3'
  'no-gpu runpod RP1'
  'no-gpu * U31'
  'kernel autodl AD9'
  'kernel * ENV1'
  'driver paperspace PS11'
  'driver runpod RP9'
  'driver vastai VAST5'
  'driver * ENV6'
  'busy local LOC5'
  'busy * GEN7'
  'held * U11'
  'secret runpod RP12'
  'python autodl AD6'
  'hangup * GEN2'
)
rgt_tables+=(rgt_entries)

rgt_entry_of() {
  local line class platform
  rgt_id=''
  for line in "${rgt_entries[@]}"; do
    class=${line%% *} platform=${line#* } platform=${platform% *}
    [[ $class == "$1" ]] || continue
    if [[ $platform == '*' || $platform == "$RGT_PROFILE" || $platform == "$RGT_TARGET" ]]; then
      rgt_id=${line##* }
      return
    fi
  done
}
