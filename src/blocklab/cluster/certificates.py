"""Certificates for one study: an authority of its own, and one certificate for all who take part."""

from __future__ import annotations

import datetime

import msgspec

from blocklab.errors import SetupError

DAYS = 30


class Certificates(msgspec.Struct, frozen=True):
    """PEM texts."""

    ca: str
    cert: str
    key: str

    def files(self) -> dict[str, str]:
        """By the names that the programs' options have."""
        return {"ca": self.ca, "cert": self.cert, "key": self.key}


def certificates() -> Certificates:
    """New ones, whose authority's key is forgotten. Raises ``SetupError`` without the package cryptography."""
    try:
        from cryptography import x509
        from cryptography.hazmat.primitives import hashes, serialization
        from cryptography.hazmat.primitives.asymmetric import ec
        from cryptography.x509.oid import NameOID
    except ModuleNotFoundError as error:
        raise SetupError(
            f"--dask with a hosts file needs {error.name}", hint="pip install 'blocklab[dask]'"
        ) from error
    now = datetime.datetime.now(datetime.UTC)

    def signed(name: str, key: ec.EllipticCurvePrivateKey, by: x509.Name, its: ec.EllipticCurvePrivateKey) -> str:
        mine = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        made = (
            x509.CertificateBuilder()
            .subject_name(mine)
            .issuer_name(by)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            # Clocks of hosts differ.
            .not_valid_before(now - datetime.timedelta(days=1))
            .not_valid_after(now + datetime.timedelta(days=DAYS))
            .add_extension(x509.BasicConstraints(ca=key is its, path_length=None), critical=True)
            .sign(its, hashes.SHA256())
        )
        return made.public_bytes(serialization.Encoding.PEM).decode()

    authority, own = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "blocklab")])
    key = own.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    mine = signed("blocklab worker", own, name, authority)
    return Certificates(signed("blocklab", authority, name, authority), mine, key.decode())
