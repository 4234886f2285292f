"""In which guest: its XML, its start through libvirt, its agent, and what is known of it.

- `domain_xml`, `disk_xml`, `emulator`, `pinning`, `boot`, `acceleration`, `instance`, `protocol`: how a guest is begun
- `guest`, `agent`, `facts`, `file_system`, `kernel_log`, `provenance`: a guest that runs
- `libvirt`: the only door to libvirt; `appliance`, `cloud_image`: what guests boot; `restore`: guests that were saved
"""
