"""Hyperparameters: their evidence, its maximum, and integration over them."""
