"""Decrypt payloads, outputs and errors that the Go client or the command line of Daybook has encrypted.

    python3 decrypt.py FILE_WITH_KEYS payload|output|error < TEXTS

Each line of standard input is an encrypted text. The program prints the kind and the content of each. It needs the package
cryptography. The format is in docs/reference/encryption.md.
"""

import base64
import hashlib
import re
import sys

from cryptography.hazmat.primitives.ciphers.aead import AESGCM

KINDS = {b"t": "text", b"j": "json", b"b": "bytes"}
# The output of a job becomes the payload of the job that follows.
LETTERS = {"payload": "po", "output": "o", "error": "e"}
FORM = re.compile(r"(dbe1\.([poe])\.([0-9a-f]{16})\.)([A-Za-z0-9_-]+)")


def read_keys(path):
    """Return the secrets of a file with keys by their ids."""
    keys = {}
    with open(path, encoding="ascii") as file:
        for line in map(str.strip, file):
            if not line or line.startswith("#"):
                continue
            prefix, name, digits = line.split("_")
            secret = bytes.fromhex(digits)
            if prefix != "dbe" or len(secret) != 32 or hashlib.sha256(secret).hexdigest()[:16] != name:
                raise ValueError(f"{path} has a line that is not a key")
            keys[name] = secret
    return keys


def decrypt(keys, part, text):
    """Return the kind and the bytes of a content. Raise an error if it was changed, or is of another part."""
    form = FORM.fullmatch(text)
    if not form or form[2] not in LETTERS[part]:
        raise ValueError(f"this is not an encrypted {part}")
    head, _, name, data = form.groups()
    if name not in keys:
        raise ValueError(f"the key {name} is missing")
    sealed = base64.urlsafe_b64decode(data + "=" * (-len(data) % 4))
    plain = AESGCM(keys[name]).decrypt(sealed[:12], sealed[12:], head.encode())
    return KINDS[plain[:1]], plain[1:]


def main():
    keys = read_keys(sys.argv[1])
    for line in sys.stdin:
        kind, content = decrypt(keys, sys.argv[2], line.strip())
        sys.stdout.buffer.write(kind.encode() + b" " + content + b"\n")


if __name__ == "__main__":
    main()
