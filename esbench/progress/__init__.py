"""Progress output on stderr while esbench works: as lines, as JSON, as a live view, or none at all."""
