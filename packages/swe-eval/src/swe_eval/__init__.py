"""Evaluate coding agents on real GitHub issues: SWE-bench, SWE-Gym, your own rows, and a small benchmark of our own."""

__version__ = "0.1.0"
