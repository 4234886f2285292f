"""The saved days of a baseline as a history: what changed for good, since when, in which cells."""
