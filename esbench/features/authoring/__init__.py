"""Tools for authors of tracks: create a track from existing indices, describe and validate a track.

To create one reads a cluster, changes nothing in it, and writes files.
"""
