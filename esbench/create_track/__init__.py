"""Makes a track of indices that are there: reads a cluster and writes files. It changes nothing in the cluster."""
