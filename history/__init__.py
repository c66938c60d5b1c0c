"""Released fixes of evaluation numbers, and whether today's suite finds what they mended: see history/README.md."""
