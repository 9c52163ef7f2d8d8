#!/bin/sh
# After a removal. The data in /var/lib/daybook stays, also when dpkg purges the package.
set -e
if [ "$1" = remove ] || [ "$1" = purge ] || [ "$1" = 0 ]; then
  rm -f /var/lib/daybook-first-start
fi
if [ -d /run/systemd/system ]; then
  systemctl daemon-reload || true
fi
