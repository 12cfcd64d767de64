"""What esbench tells while it works, on stderr only: as lines, as JSON, as a live view, or not at all."""
