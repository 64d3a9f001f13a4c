#!/usr/bin/env bash
# usage: gpu_campaign.sh [--out FILE] [--parts LIST] [--keep FILE] [--python PATH] [--cpu]
#
# Try on a real GPU what the tests can only imitate, and write what happened into one JSON record.
# It takes at most nine minutes and needs no network, no installation and no rights. What is missing
# on the machine (a card, torch, transformers, pytest) leaves out the part that needs it, and the
# record says so. No setting of the card is changed.
#
# parts, in this order:
#   health   scripts/gpu_health.py, plain and with its stress, with the captures that it read; its
#            check of numbers for twenty seconds, with the false alarms and the seconds of a round
#   errors   short programs that fail as users' programs do: their whole stderr, and the entry that
#            the look-up names for it
#   fit      the peak memory of 46 models beside the estimate of `rgt fit`, 16 of sizes people train
#   probe    scripts/probe.py on programs with AMP, CUDA graphs and streams: what it says, that the
#            weights are the same to the last bit without it, and what it costs a step
#   proofs   the proofs in evals/proofs whose entry needs a card, or that ask whether there is one
#   compare  only by --parts compare, seven minutes: what `rgt fit` reckons of full training, LoRA,
#            an 8-bit base, Liger, DPO, a U-Net and a ViT, what `rgt fit --measure` tells of each, and
#            what nvidia-smi shows; a kind whose library is missing is named
#
# options:
#   --out FILE      the record (default $OUT/gpu_campaign.json, without OUT ./gpu_campaign.json)
#   --parts LIST    only these, such as errors,fit
#   --keep FILE     an earlier record of this machine, whose other parts stay as they are
#   --python PATH   a Python 3.8 or later, with torch (default: the first one found that has torch)
#   --cpu           as if there were no card
#   --help          this text
#
# exit: 0 the record is written, whatever it says; 1 it could not be written; 2 wrong usage
#
# example:
#   bash tools/gpu_campaign.sh --out tests/records/gpu_campaign_h100.json
set -euo pipefail
export LC_ALL=C

say() { printf 'gpu_campaign: %s\n' "$*" >&2; }
usage_error() {
  say "$*; see --help"
  exit 2
}

help_text() {
  while IFS= read -r line; do
    case $line in
      '#!'*) ;;
      '# '*) printf '%s\n' "${line#'# '}" ;;
      '#') printf '\n' ;;
      *) break ;;
    esac
  done <"$1"
}

starts() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 8))' 2>/dev/null; }
has_torch() {
  "$1" -c 'import importlib.util as u, sys; sys.exit(u.find_spec("torch") is None)' 2>/dev/null
}

# Prints the first Python that has torch, otherwise the first that starts.
find_python() {
  local candidate first=''
  for candidate in python3 python "$root"/.venv/bin/python /opt/*/bin/python3 \
    /opt/*/.venv/bin/python3 /opt/*/venv/bin/python3 "${HOME:-/root}"/*conda*/bin/python3 \
    "${HOME:-/root}"/*venv*/bin/python3 /usr/bin/python3 /usr/local/bin/python3; do
    candidate=$(command -v -- "$candidate" 2>/dev/null) || continue
    starts "$candidate" || continue
    if has_torch "$candidate"; then
      printf '%s' "$candidate"
      return
    fi
    first=${first:-$candidate}
  done
  printf '%s' "$first"
}

most_seconds=530
root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd)
out=${OUT:-.}/gpu_campaign.json parts='' keep='' python='' cpu=''
while [ $# -gt 0 ]; do
  case $1 in
    --help | -h)
      help_text "${BASH_SOURCE[0]}"
      exit 0
      ;;
    --cpu) cpu=--cpu ;;
    --out | --parts | --keep | --python)
      [ -n "${2:-}" ] || usage_error "$1 needs a value"
      printf -v "${1#--}" '%s' "$2"
      shift
      ;;
    *) usage_error "unknown argument $(printf '%q' "$1")" ;;
  esac
  shift
done

if [ -z "$python" ]; then
  python=$(find_python)
  [ -n "$python" ] || usage_error 'no Python 3.8 or later was found; name one with --python'
fi
starts "$python" || usage_error "--python: $(printf '%q' "$python") is no Python 3.8 or later"

# The campaign keeps its own time and ends before this. It gets INT first, and then still writes
# what it has.
set -- "$python" "$root/tools/gpu_campaign" --out "$out" ${parts:+--parts "$parts"} \
  ${keep:+--keep "$keep"} ${cpu:+"$cpu"}
code=0
timeout --signal=INT --kill-after=5 "$most_seconds" "$@" || code=$?
case $code in
  0 | 2) exit "$code" ;;
  *)
    say "the campaign ended with code $code; $(printf '%q' "$out") holds what was done before that"
    exit 1
    ;;
esac
