"""What the function mode does with single functions of PyTorch."""
