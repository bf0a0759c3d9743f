"""NumPyro programs, one a file: the generative story and nothing else."""
