"""TLS for one race: an authority that lives as long as the race, and a certificate for each side that it signs."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from distributed.security import Security

_VALID = timedelta(days=30)  # longer than any race
_SKEW = timedelta(days=1)  # of the hosts' times of day


@dataclass(frozen=True)
class HostIdentity:
    """A certificate with its key, and the authority that both sides of a connection must be signed by: PEM texts."""

    authority: str
    certificate: str
    key: str

    def write(self, folder: Path) -> Mapping[str, str]:
        """Write the three to files that only their owner can read; return their paths by name."""
        paths = {}
        for name in ("authority", "certificate", "key"):
            path = folder / f"{name}.pem"
            with open(path, "x", opener=lambda path, flags: os.open(path, flags, 0o600)) as file:
                file.write(getattr(self, name))
            paths[name] = str(path)
        return paths


class Authority:
    """The authority of one race, whose key is never written down."""

    def __init__(self) -> None:
        from cryptography.hazmat.primitives.asymmetric import ec

        self._key = ec.generate_private_key(ec.SECP256R1())
        self._certificate = self._sign(self._key, "esbench race", is_authority=True)

    def identity(self, name: str) -> HostIdentity:
        """Return a new key and its certificate, signed by this authority."""
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import ec

        key = ec.generate_private_key(ec.SECP256R1())
        pem = serialization.Encoding.PEM
        text = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()).decode()
        certificate = self._sign(key, name).public_bytes(pem).decode()
        return HostIdentity(self._certificate.public_bytes(pem).decode(), certificate, text)

    def _sign(self, key: Any, name: str, *, is_authority: bool = False) -> Any:
        from cryptography import x509
        from cryptography.hazmat.primitives import hashes
        from cryptography.x509.oid import NameOID

        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name[:64])])
        issuer = subject if is_authority else self._certificate.subject
        now = datetime.now(UTC)
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(issuer)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - _SKEW)
            .not_valid_after(now + _VALID)
            .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        )
        return builder.sign(self._key, hashes.SHA256())


def security_of(paths: Mapping[str, str]) -> Security:
    """Return Dask's settings that ask both sides for a certificate of the authority; `paths` as `write` returned."""
    from distributed.security import Security

    pairs = {
        f"tls_{role}_{part}": paths[name]
        for role in ("scheduler", "worker", "client")
        for part, name in (("cert", "certificate"), ("key", "key"))
    }
    return Security(require_encryption=True, tls_ca_file=paths["authority"], **pairs)
