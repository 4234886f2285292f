"""The command `vmstorage`: doctor, image, reap, exec, show, time and promote."""
