"""The two modes of PyTorch that a simulation runs in."""
