"""A server with TLS and a self-signed certificate."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta

import psycopg
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from penstock_testkit import PostgresServer


def speak_tls(server: PostgresServer) -> None:
    """Enable TLS for new connections."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    texts = {
        "server.crt": certificate.public_bytes(pem),
        "server.key": key.private_bytes(
            pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        ),
    }
    owner = server.data.stat()
    for file, text in texts.items():
        path = server.data / file
        path.write_bytes(text)
        path.chmod(0o600)
        os.chown(path, owner.st_uid, owner.st_gid)
    with psycopg.connect(server.url, autocommit=True) as admin:
        admin.execute("ALTER SYSTEM SET ssl = on")
        admin.execute("SELECT pg_reload_conf()")
