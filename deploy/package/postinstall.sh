#!/bin/sh
# Runs after an installation or upgrade. dpkg passes "configure" and the previous version; rpm passes 1, or 2 for an upgrade.
set -e

# See EnvironmentFile= in daybook.service. Only an installation on a machine without data writes the file.
if { [ "$1" = configure ] && [ -z "$2" ]; } || [ "$1" = 1 ]; then
  if [ ! -e /var/lib/daybook ] && [ ! -e /var/lib/private/daybook ]; then
    echo DAYBOOK_INIT=true > /var/lib/daybook-first-start
  fi
fi

if [ -d /run/systemd/system ]; then
  systemctl daemon-reload || true
  # An upgrade restarts the running services. Runners wait for the server during its restart.
  systemctl try-restart daybook.service daybook-work.service || true
fi
