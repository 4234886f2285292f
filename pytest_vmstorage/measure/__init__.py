"""How it is measured and proven: the system under test, its rounds, and the proof of its cell.

- `system`, `runner`, `rounds`: the system under test, its rounds, and how many of them there are
- `preconditioning`: the disk's state before the rounds; `diagnosis`: the evidence behind a failure
- `image_operations`: measurements without a guest; `proof`: that a cell is what its label says
"""
