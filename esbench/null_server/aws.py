"""A domain of AWS: it answers requests only if they are signed by its key (Signature Version 4)."""

from __future__ import annotations

import calendar
import time
from collections.abc import Mapping

from esbench.cluster.aws import AwsIdentity, AwsKeys, AwsSigner, digest_of
from esbench.null_server.script import AwsDomain, ScriptedReply

SIGNED = b"AWS4-HMAC-SHA256"  # in place of the Authorization of a request that is signed well
UNSIGNED = ScriptedReply(
    status=403,
    body={
        "message": "The request signature we calculated does not match the signature you provided. Check your AWS "
        "Secret Access Key and signing method. Consult the service documentation for details."
    },
)
_OLDEST_S = 300


class Domain:
    """The domain that a script describes. A signature five minutes old, or of another body, does not count."""

    def __init__(self, script: AwsDomain) -> None:
        keys = AwsKeys(script.access_key_id, script.secret_access_key, script.session_token)
        self._identity = AwsIdentity(script.region, script.service, keys)

    def has_signed(self, method: str, target: str, headers: Mapping[bytes, bytes], body: bytes) -> bool:
        """True if a request was signed by the domain's key; `headers` have names in lower case."""
        date, host, stated, given = (
            headers.get(name, b"").decode("latin-1")
            for name in (b"x-amz-date", b"host", b"x-amz-content-sha256", b"authorization")
        )
        try:
            signed_s = calendar.timegm(time.strptime(date, "%Y%m%dT%H%M%SZ"))
        except ValueError:
            return False
        if abs(time.time() - signed_s) > _OLDEST_S or stated != digest_of(body):
            return False
        expected = dict(AwsSigner(self._identity, now=lambda: signed_s).headers(method, target, host, stated))
        return given == expected["Authorization"]
