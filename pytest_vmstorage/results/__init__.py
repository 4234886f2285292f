"""What was found: frozen values that are saved, and the files that they are saved in.

- `run`: metrics, samples, measurements, runs; `host`: the host they were measured on
- `counters`, `cost`, `cautions`, `failures`: bytes, CPU time and warnings beside a figure, and why one is missing
- `saved`, `journal`: pytest-benchmark's files and our journal; `packed`: what is compressed in them
- `timeline`, `spans`: where the time of a run went
"""
