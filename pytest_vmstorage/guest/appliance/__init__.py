"""The guest that is built from Debian packages: kernel, initrd and root, cached by content."""
