"""Replacements in PyTorch and in the standard library for the length of a simulation."""
