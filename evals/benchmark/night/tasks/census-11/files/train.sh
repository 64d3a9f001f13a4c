#!/usr/bin/env bash
set -euo pipefail

OUTPUT_DIR="${OUTPUT_DIR:-./training/output/desk_lora}"
INSTANCE_PROMPT="${INSTANCE_PROMPT:-deskadkb custom keyboard deskterior product advertising photo}"
TRAIN_BATCH_SIZE="${TRAIN_BATCH_SIZE:-4}"
MAX_TRAIN_STEPS="${MAX_TRAIN_STEPS:-100}"
LEARNING_RATE="${LEARNING_RATE:-5e-4}"

accelerate launch --cpu --num_processes 1 train_dreambooth_lora.py \
  --instance_prompt "$INSTANCE_PROMPT" \
  --output_dir "$OUTPUT_DIR" \
  --train_batch_size "$TRAIN_BATCH_SIZE" \
  --learning_rate "$LEARNING_RATE" \
  --max_train_steps "$MAX_TRAIN_STEPS" \
  --checkpointing_steps 10 \
  --seed 1
