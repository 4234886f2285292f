"""What is pytest-xdist's: a worker for each host, and what controller and workers tell each other."""
