"""On which machine: a shell on a host, and the parts of the host that a run reads, watches, locks and sets.

- `shell`, `ssh`, `files`, `guard`: commands and files on a host, and the guard below everything that writes
- `facts`, `watch`, `counters`: the host's properties, state, counters; `settings`: those that a run sets and restores
- `lock`, `lease`, `folders`, `file_systems`, `device_node`: one job at a time, and where things lie
"""
