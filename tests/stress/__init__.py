"""Long trials with damaged files and killed processes: ``python -m stress`` in ``tests``."""
