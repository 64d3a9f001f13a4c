"""HUB11: a filter that signs anew with an authority of its own. Python refuses it, the Check names the authority, a bundle cures it.

A server on this machine plays the filter; the connection, the certificates and the texts are real.
"""

import shutil
import socket
import ssl
import subprocess
import threading

import pytest
from check_code import span

pytestmark = pytest.mark.skipif(not shutil.which("openssl"), reason="openssl is not there")


@pytest.fixture(scope="module")
def filtered(tmp_path_factory):
    """(port, file of the authority): a server whose certificate a company's authority signed."""
    folder = tmp_path_factory.mktemp("tls")

    def openssl(*words):
        subprocess.run(["openssl", *words], cwd=folder, check=True, capture_output=True)

    key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")
    name = ("-subj", "/O=Example Corp/CN=Example Corp Filter CA")
    openssl("req", "-x509", *key, "-keyout", "ca.key", "-out", "ca.pem", "-days", "2", *name)
    openssl("req", *key, "-keyout", "leaf.key", "-out", "leaf.csr", "-subj", "/CN=localhost")
    (folder / "ext").write_text("subjectAltName=DNS:localhost,IP:127.0.0.1\n")
    openssl(
        "x509", "-req", "-in", "leaf.csr", "-CA", "ca.pem", "-CAkey", "ca.key",
        "-CAcreateserial", "-days", "2", "-extfile", "ext", "-out", "leaf.pem",
    )  # fmt: skip
    chain = folder / "chain.pem"
    chain.write_text((folder / "leaf.pem").read_text() + (folder / "ca.pem").read_text())
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(chain, folder / "leaf.key")
    listener = socket.create_server(("127.0.0.1", 0))

    def serve():
        while True:
            try:
                plain, _ = listener.accept()
            except OSError:
                return
            try:
                with context.wrap_socket(plain, server_side=True) as talk:
                    talk.recv(1)
            except OSError:
                pass

    threading.Thread(target=serve, daemon=True).start()
    yield listener.getsockname()[1], folder / "ca.pem"
    listener.close()


def connect(port: int, bundle=None) -> str:
    """The authority's name, as Python's client sees it."""
    context = ssl.create_default_context(cafile=bundle)
    with socket.create_connection(("127.0.0.1", port), 10) as plain:
        with context.wrap_socket(plain, server_hostname="localhost") as talk:
            return dict(pair for [pair] in talk.getpeercert()["issuer"])["commonName"]


def test_python_refuses_the_filter_and_a_bundle_with_its_authority_cures_it(filtered, says):
    port, authority = filtered
    with pytest.raises(ssl.SSLCertVerificationError) as error:
        connect(port)
    says("HUB11", f"ssl.SSLCertVerificationError: {error.value}")
    assert connect(port, authority) == "Example Corp Filter CA"


def test_the_check_names_the_companys_authority(filtered):
    port, _ = filtered
    code = span("HUB11", "s_client").replace("$H:443", f"localhost:{port}")
    said = subprocess.run(["bash", "-c", code], capture_output=True, text=True, timeout=30)
    assert "issuer" in said.stdout and "Example Corp Filter CA" in said.stdout


def test_the_check_names_nobody_where_nothing_answers():
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    code = span("HUB11", "s_client").replace("$H:443", f"localhost:{port}")
    said = subprocess.run(["bash", "-c", code], capture_output=True, text=True, timeout=30)
    assert "issuer" not in said.stdout
