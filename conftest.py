"""Settings of every test run, doctests of the package included."""

import os

import jax

os.environ.setdefault("MPLBACKEND", "Agg")
jax.config.update("jax_enable_x64", True)
