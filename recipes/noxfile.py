# noxfile.py
import nox


@nox.session
def evalcheck(session):
    """The checks of pytest-evalcheck."""
    session.install("-e", ".[test]")
    session.run("pytest", "--evalcheck", *session.posargs)
