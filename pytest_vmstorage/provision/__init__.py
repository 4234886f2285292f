"""From a StorageConfig on a lab host to a running guest."""
