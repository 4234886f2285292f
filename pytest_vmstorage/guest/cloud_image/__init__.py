"""Guests that boot a user's own image: seed, network, and what is needed in it."""
