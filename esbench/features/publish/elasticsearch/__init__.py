"""The metrics store: finished races as documents in an Elasticsearch or OpenSearch of the user's.

It reads records and writes documents. It must not measure, run beside a race, or be read by esbench again: the record
on disk is what `show` and `compare` read.
"""
