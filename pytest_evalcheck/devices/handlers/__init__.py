"""Handlers of the function mode for single functions of PyTorch."""
