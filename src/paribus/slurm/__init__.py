"""What does SLURM know of the runs of a study? Options, submitted jobs, the queue, and one job."""
