"""Reads a NumPyro program as a Gaussian prior and factors of one or two predictors."""
