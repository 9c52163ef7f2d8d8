#!/bin/sh
# Runs after a removal. The data in /var/lib/daybook stays, even when dpkg purges the package.
set -e
if [ "$1" = remove ] || [ "$1" = purge ] || [ "$1" = 0 ]; then
  rm -f /var/lib/daybook-first-start
fi
if [ -d /run/systemd/system ]; then
  systemctl daemon-reload || true
fi
