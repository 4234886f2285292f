"""What to run in a guest and how to read it, one tool a file; pure."""
