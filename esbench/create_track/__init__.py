"""For people who write tracks: makes one of indices that are there, describes and validates those that they write.

To make one reads a cluster, changes nothing in it, and writes files.
"""
