"""The only door to libvirt: connections, domains, events, secrets, and errors in plain words."""
