# What a failure is called on a platform that has entries of its own.

# In front of those for all platforms: the first line that fits counts.
rgt_entries=(
  'disk runpod RP11'
  'disk autodl AD5'
  'disk vastai VAST10'
  'disk paperspace PS10'
  'disk kubernetes K8S5'
  'inodes autodl AD4'
  'host-oom slurm SLURM4'
  'host-oom autodl AD8'
  'timelimit slurm SLURM2'
  'preempted vastai VAST4'
  'secret runpod RP12'
  'python autodl AD6'
  ${rgt_entries[@]+"${rgt_entries[@]}"}
)
declare -gA rgt_signs
rgt_signs[timelimit]='DUE TO TIME LIMIT
DUE TO PREEMPTION'
