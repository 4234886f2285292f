"""From a Run to the comparison matrix: one pure table, and one file for each form it is written in."""
