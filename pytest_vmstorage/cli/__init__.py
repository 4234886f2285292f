"""The command `vmstorage`: doctor, plan, show, time, promote, reap and the others."""
