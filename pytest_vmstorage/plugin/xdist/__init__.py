"""Runs under pytest-xdist: a worker for each host, and the messages between controller and workers."""
