"""Logs of searches: what production asked, and when. `esbench replay LOG... --inspect` describes them."""
