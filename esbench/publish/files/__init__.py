"""A race in formats that other tools read (docs/reference/export.md). Each module writes one of them."""
