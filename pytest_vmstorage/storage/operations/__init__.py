"""What image operations work on: files, and volumes of LVM and ZFS."""
