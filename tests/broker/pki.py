# SPDX-License-Identifier: Apache-2.0
"""Certificates of the outside: a root that the broker is told to trust, one that it is not, and servers with all kinds of certificates."""
import os
import ssl
import subprocess
import tempfile

KEY = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]


def openssl(*words):
    subprocess.run(["openssl", *words], check=True, capture_output=True)


class Pki:
    def __init__(self):
        self.directory = tempfile.TemporaryDirectory()
        os.chmod(self.directory.name, 0o755)
        for root in ("root", "stranger"):
            openssl("req", "-x509", *KEY, "-subj", f"/CN={root}", "-days", "2", "-keyout", self.path(f"{root}.key"), "-out", self.path(f"{root}.crt"))
        self.trust = self.path("root.crt")

    def path(self, name):
        return os.path.join(self.directory.name, name)

    def context(self, name, root="root", days=1, usage="serverAuth", subject="server"):
        """What a server speaks TLS with. name: None: its certificate has a subject only."""
        base = self.path(f"{name}-{root}-{days}-{usage}-{subject}".replace("*", "_"))
        if not os.path.exists(base + ".crt"):
            names = ["-addext", f"subjectAltName=DNS:{name}"] if name else []
            openssl("req", "-new", *KEY, "-subj", f"/CN={subject}", *names, "-addext", f"extendedKeyUsage={usage}",
                    "-keyout", base + ".key", "-out", base + ".csr")  # fmt: skip
            openssl("x509", "-req", "-in", base + ".csr", "-CA", self.path(f"{root}.crt"), "-CAkey", self.path(f"{root}.key"), "-days", str(days),
                    "-copy_extensions", "copyall", "-out", base + ".crt")  # fmt: skip
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(base + ".crt", base + ".key")
        return context
