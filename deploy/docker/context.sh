#!/bin/sh
# Creates the build context of the image. Usage, in the root of the tree: context.sh PROGRAM DIRECTORY
set -e
rm -rf "$2"
mkdir -p "$2/empty"
cp "$1" "$2/daybook"
cp LICENSE cmd/daybook/licenses.txt "$2"
for bundle in /etc/ssl/certs/ca-certificates.crt /etc/pki/tls/certs/ca-bundle.crt /etc/ssl/cert.pem; do
  if [ -r "$bundle" ]; then
    cp "$bundle" "$2/ca-certificates.crt"
    exit 0
  fi
done
echo "context.sh: there are no certificates of public authorities on this machine; install ca-certificates" >&2
exit 1
