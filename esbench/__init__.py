"""esbench: a benchmark orchestrator for Elasticsearch and what speaks its API."""

__version__ = "0.1.0"
