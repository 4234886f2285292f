"""All of it held together: the lab of a run, which opens a host, makes guests, and removes all that was made.

- `opening`, `lab`: a lab from its settings; `provisioner`, `factory`: environments and guests, made, proven and removed
- `environment`: the protocol of where workloads run; `environments`: a guest, the host, a machine of the user's
- `pool`, `prefetch`: environments at work and waiting; `machines`, `machine_disk`: machines that the user listed
- `image_operations`: the place where images are measured; `acceleration`: the KVM canary
- `division`: cells shared among hosts; `reaper`: what dead runs left
"""
