# Puts the last pair and train.log into one folder of the volume, beside the copies that rgt made; then ends the machine.
cd ~/runs/census-08/code/logs/vi_ms && [ -s G_99.pth ] && [ -s D_99.pth ] &&
  timeout 8 bash -c 'mkdir -p "$BOX/mnt/volume/vi_ms" && rsync -a G_99.pth D_99.pth train.log "$BOX/mnt/volume/vi_ms/"'
endbox
