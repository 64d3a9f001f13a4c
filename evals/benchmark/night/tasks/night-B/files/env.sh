# settings of this project; source it before training
export DATA="$HOME/proj/data"
export OMP_NUM_THREADS=1
