"""Guests that are restored from a saved one in place of being booted."""
