"""A race in formats that other tools read (docs/reference/export.md). Each module makes the text of one of them."""
