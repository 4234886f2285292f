"""The user's request: a cell and its rules, the matrix of cells, settings of a run, and the hosts that the user lists.

- `cell`: StorageConfig, the value that a test is parametrized by; `rules`: which values exclude each other, and why
- `matrix`, `selection`, `selector`, `variant`: cells of a file, those that are measured, their names in tests
- `settings`, `inventory`, `inventory_file`, `guest_image`: settings of a whole run
- `fs_options`, `qcow2_cache`, `cpu_list`: values of single axes; `toml`, `user_input`, `ownership`: reading of files
"""
