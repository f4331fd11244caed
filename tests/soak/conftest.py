from fixtures import *  # noqa: F401,F403  pytest finds fixtures and hooks by their names here
