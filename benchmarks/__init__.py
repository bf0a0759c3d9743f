"""Benchmarks of bayesrank; run ``python -m benchmarks --help`` in the checkout."""
