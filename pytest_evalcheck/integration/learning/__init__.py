"""``--evalcheck-learn``: a project's own tests run, and their calls into its packages become a corpus."""
