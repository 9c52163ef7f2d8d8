#!/bin/sh
# Before a removal ("remove", or 0), not before an upgrade.
set -e
if [ "$1" = remove ] || [ "$1" = 0 ]; then
  if [ -d /run/systemd/system ]; then
    systemctl disable --now daybook-work.service daybook.service || true
  fi
fi
