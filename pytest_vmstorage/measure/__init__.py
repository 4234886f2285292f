"""How it is measured and proven: the system under test, its rounds, and the proof of its cell.

- `system`, `runner`, `rounds`: what is measured, and how often
- `preconditioning`, `caches`: the state before a round; `diagnosis`: what is behind a failure
- `image_operations`: measurements without a guest; `proof`: that a cell is what its label says
"""
