"""Learning from runs: calls into a project's code are watched, kept as a corpus, and become examples of its inputs."""
