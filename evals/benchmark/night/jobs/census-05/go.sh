#!/bin/bash
# Puts the project where the job expects it and starts the night; goes on with it after a restart.
run=~/runs/census-05
mkdir -p "$run/code"
rsync -a --exclude=/go.sh --exclude=/job.yaml --exclude=/night.sh --exclude=/RENDER.txt ./ "$run/code/"
cp night.sh "$run/run.sh.new" && mv "$run/run.sh.new" "$run/run.sh"
bash "$run/run.sh" start
