"""The command `vmstorage`: run, doctor, image, reap, exec, show, time, promote and explain."""
