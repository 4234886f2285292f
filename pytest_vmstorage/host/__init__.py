"""On which machine: a shell on a host, and what of the host a run reads, watches, locks and sets.

- `shell`, `ssh`, `files`, `guard`: commands and files on a host, and the guard below everything that writes
- `facts`, `watch`, `counters`: what the host is and does; `settings`: what is set for a run and set back
- `lock`, `lease`, `folders`, `file_systems`, `device_node`: one job at a time, and where things lie
"""
