"""Proves that a model served by NVIDIA Triton is still right, and measures how fast it is."""
