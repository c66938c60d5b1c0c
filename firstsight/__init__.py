"""Modules that nobody tuned the checks for: drawn by a seed before they were run, with their first outcomes kept."""
