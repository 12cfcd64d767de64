"""Resolution of host names to addresses, once before a race: each address becomes a host."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from esbench.cluster.options import Host
from esbench.cluster.proxy import Proxy
from esbench.errors import ClusterError
from esbench.errors.reasons import reason_of

_CONNECT_TIMEOUT_S = 2.0
Lookup = Callable[[str, int], Sequence[tuple[int, str]]]  # name, port -> (family, address) in order of preference


def look_up(name: str, port: int) -> Sequence[tuple[int, str]]:
    """Return the system's addresses of a name, as (family, address). Raises OSError if it cannot be resolved."""
    found = socket.getaddrinfo(name, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys((family, str(address[0])) for family, _, _, _, address in found))


def resolve(hosts: Iterable[Host], lookup: Lookup = look_up) -> tuple[Host, ...]:
    """Return the hosts with each name replaced by one host per address; hosts that are addresses stay as they are.

    A name with addresses of both IP versions stands for machines that have both: only one version is used, the first
    in the system's order that has a reachable address. Raises ClusterError if one of its addresses cannot be reached,
    or if a name cannot be resolved.
    """
    resolved: list[Host] = []
    for host in hosts:
        resolved += [host] if _is_address(host.host) else _addresses(host, lookup)
    return tuple(dict.fromkeys(resolved))


def hosts_to_reach(hosts: Sequence[Host], proxy: Proxy | None) -> tuple[Host, ...]:
    """Return the hosts to connect to: one per resolved address; unresolved with a proxy, which resolves them itself.

    Raises ClusterError as `resolve`.
    """
    return resolve(hosts) if proxy is None else tuple(hosts)


def addresses_by_name(hosts: Iterable[Host]) -> dict[str, tuple[str, ...]]:
    """Return the addresses of each name among resolved hosts: `name:port` -> addresses."""
    found: dict[str, tuple[str, ...]] = {}
    for host in hosts:
        if host.address:
            found[str(host)] = (*found.get(str(host), ()), host.address)
    return found


def is_loopback(name: str) -> bool:
    """True for an address, or the name, under which a host reaches itself."""
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return name == "localhost"


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _addresses(host: Host, lookup: Lookup) -> list[Host]:
    try:
        found = lookup(host.host, host.port)
    except OSError as error:
        raise ClusterError("this name cannot be resolved", where=str(host), hint="check --target-hosts") from error
    families: dict[int, list[Host]] = {}
    for family, address in found:
        families.setdefault(family, []).append(replace(host, address=address))
    failures: dict[Host, str] = {}
    for hosts in families.values():
        with ThreadPoolExecutor(len(hosts)) as pool:
            reasons = dict(zip(hosts, pool.map(_why_unreachable, hosts), strict=True))
        failures = {host: reason for host, reason in reasons.items() if reason}
        if not failures:
            return hosts
        if len(failures) < len(hosts):
            break
    unreachable, reason = next(iter(failures.items()))
    raise ClusterError(reason, where=unreachable.label, hint="every address of a name must answer")


def _why_unreachable(host: Host) -> str:
    """Return why no connection to the host's address can be opened; empty if one can."""
    try:
        socket.create_connection((host.address, host.port), _CONNECT_TIMEOUT_S).close()
    except TimeoutError:
        return f"no connection within {_CONNECT_TIMEOUT_S:g} s"
    except OSError as error:
        return reason_of(error)
    return ""
