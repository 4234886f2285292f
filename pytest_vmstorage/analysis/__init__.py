"""What it means: pure functions from runs to comparisons.

- `gate`: is a cell slower than before; `comparability`: may two figures be compared at all
- `cell_pairs`, `ratios`, `assertions`, `axis_effects`, `shared_values`: cells of one run against each other
- `yardsticks`: native and null rows that others are measured by; `columns`: the columns of figures in a table
"""
