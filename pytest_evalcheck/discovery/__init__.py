"""Targets that nobody wrote: what a module offers that can be checked, how it is made, and what it is fed with."""
