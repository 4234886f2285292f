"""All of it held together: the lab of a run, which opens a host, makes guests, and removes all that was made.

- `opening`, `lab`: a lab from its settings; `provisioner`, `factory`: environments and guests, made, proven and removed
- `pool`: what an environment is, and those at work and waiting; `prefetch`: waiting ones are prepared
- `environments`: a guest, the host, a machine of the user's; `machines`, `machine_disk`: machines that the user listed
- `image_operations`: the place where images are measured; `acceleration`: the KVM canary
- `division`: cells shared among hosts; `reaper`: what dead runs left
"""
