# Failures of a GPU: what they are called, the words for them, and how they are told.

rgt_entries+=(
  'oom local LOC3'
  'oom * U10'
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
)

declare -gA rgt_signs
rgt_signs[oom]='CUDA out of memory
OutOfMemoryError: CUDA
CUDA error: out of memory
CUDA_ERROR_OUT_OF_MEMORY
HIP out of memory
CUBLAS_STATUS_ALLOC_FAILED
RESOURCE_EXHAUSTED: Out of memory'
rgt_signs[kernel]='no kernel image is available'
rgt_signs[driver]='driver version is insufficient
NVIDIA driver on your system is too old
Driver/library version mismatch'
# A job without a GPU can meet only what core/evidence.sh has.
rgt_signs[gpu]="${rgt_signs[gpu]:-}"'
NVRM: Xid
fallen off the bus
uncorrectable ECC error
device(s) is/are busy or unavailable
Unable to determine the device handle'

rgt_is_gpu_oom() { rgt_said oom "$1"; }

# Leaves the sign in rgt_sign and the reason in rgt_why.
rgt_is_gpu_failure() {
  if rgt_said kernel "$1"; then
    rgt_sign=kernel rgt_why='torch has no kernels for this GPU'
  elif rgt_said driver "$1"; then
    rgt_sign=driver rgt_why='the driver does not fit torch'
  elif rgt_said gpu "$1" || rgt_new_xid; then
    rgt_sign=gpu rgt_why='the GPU or its driver failed'
  else
    return 1
  fi
}
