"""`vmstorage calibrate`: a host measured once, so that runs need not be told what it is like."""
