"""All of it held together: the lab of a run, which opens a host, makes guests, and removes all that was made.

- `opening`, `lab`: a lab from its settings; `factory`, `pool`, `prefetch`: guests, made and waiting
- `systems`, `observer`, `native`, `machines`, `machine_disk`, `image_operations`: rows, and the looks around them
- `acceleration`: the KVM canary; `division`: cells shared among hosts; `kept`, `reaper`: what outlives a run
"""
