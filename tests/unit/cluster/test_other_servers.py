"""What is told of a server that is neither Elasticsearch nor OpenSearch."""

from __future__ import annotations

from typing import Any

import pytest

from esbench.cluster.other_servers import hint_at_port, other_server


@pytest.mark.parametrize(
    ("url", "reply", "told"),
    [
        (
            "http://a:5984",
            {"couchdb": "Welcome", "version": "3.3.2"},
            "a:5984: this is neither Elasticsearch nor OpenSearch, but CouchDB "
            "(check the port: that of Elasticsearch and OpenSearch is 9200)",
        ),
        (
            "http://a",
            "<title>Welcome to nginx!</title>",
            "a: this is neither Elasticsearch nor OpenSearch, but nginx "
            "(80 is the usual port of web servers; that of Elasticsearch and OpenSearch is 9200)",
        ),
        ("http://a:9200", [1], "a:9200: this is neither Elasticsearch nor OpenSearch (check host and port)"),
        (
            "http://a:5601",
            "",
            "a:5601: this is neither Elasticsearch nor OpenSearch "
            "(5601 is the usual port of Kibana; that of Elasticsearch and OpenSearch is 9200)",
        ),
    ],
)
def test_another_server_is_told_by_its_answer_and_its_port(url: str, reply: Any, told: str) -> None:
    assert str(other_server(url, reply)) == told


def test_the_port_of_a_database_says_how_it_is_raced() -> None:
    assert "say" not in hint_at_port("http://a:3306")
    assert "raced as mysql://user@host:3306/database" in hint_at_port("http://a:3306")
