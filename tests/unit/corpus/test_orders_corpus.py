"""The corpus of the orders track is what the track promises: sizes, ids, skew."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml
from corpora import bodies_of

import esbench
from esbench.features.synthetic.generate.generator import Generator

ORDERS = Path(esbench.__file__).parents[1] / "tracks" / "orders" / "orders-corpus.yml"


@pytest.fixture(scope="module")
def generator() -> Generator:
    return Generator(yaml.safe_load(ORDERS.read_text())["generate"], "orders")


@pytest.fixture(scope="module")
def orders(generator: Generator) -> list[dict[str, Any]]:
    return [json.loads(text) for text in bodies_of(generator, 0, 50_000)]


def test_an_order_takes_380_to_420_bytes_on_average(generator: Generator) -> None:
    texts = bodies_of(generator, 1_000_000, 20_000)
    assert 380 <= sum(map(len, texts)) / len(texts) <= 420


def test_order_ids_are_unique_and_not_in_order(generator: Generator) -> None:
    ids = [order_id for (order_id,) in generator.values(["order_id"], range(1_000_000))]
    assert len(set(ids)) == 1_000_000
    assert ids[:1000] != sorted(ids[:1000])


def test_users_merchants_and_amounts_are_skewed(orders: list[dict[str, Any]]) -> None:
    merchants = Counter(order["merchant_id"] for order in orders)
    users = Counter(order["user_id"] for order in orders)
    assert 0.08 < merchants["m00001"] / len(orders) < 0.12
    assert users.most_common(1)[0] == ("u0000001", users["u0000001"])
    assert 0.002 < users["u0000001"] / len(orders) < 0.01
    amounts = sorted(order["amount"] for order in orders)
    assert amounts[len(amounts) // 2] < 0.7 * sum(amounts) / len(amounts)


def test_orders_are_updated_after_they_were_created(orders: list[dict[str, Any]]) -> None:
    assert all("2024-01-01" < order["created_at"] < order["updated_at"] < "2024-04-01" for order in orders)
    assert all(1 <= len(order["items"]) <= 3 for order in orders)
