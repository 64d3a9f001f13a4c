"""What only Slurm, Kubernetes and SkyPilot need."""
