"""What is asked: a cell and its rules, the matrix of cells, the user's settings, and the hosts that the user lists.

- `cell`: StorageConfig, the value that a test is parametrized by; `rules`: which values exclude each other, and why
- `matrix`, `selection`, `selector`, `variant`: cells of a file, which of them are measured, how tests name them
- `settings`, `inventory`, `inventory_file`, `guest_image`: what holds for a whole run
- `fs_options`, `qcow2_cache`, `cpu_list`: values of single axes; `toml`, `user_input`, `ownership`: how files are read
"""
