#!/bin/sh
# Runs before a removal or upgrade. It acts only on a removal: "remove" from dpkg, 0 from rpm.
set -e
if [ "$1" = remove ] || [ "$1" = 0 ]; then
  if [ -d /run/systemd/system ]; then
    systemctl disable --now daybook-work.service daybook.service || true
  fi
fi
