#!/bin/sh
# After an installation or an upgrade, by dpkg ("configure", and the version before) or rpm (1, or 2 at an upgrade).
set -e

# See EnvironmentFile= in daybook.service. An upgrade never writes it, and neither does an installation beside old data.
if { [ "$1" = configure ] && [ -z "$2" ]; } || [ "$1" = 1 ]; then
  if [ ! -e /var/lib/daybook ] && [ ! -e /var/lib/private/daybook ]; then
    echo DAYBOOK_INIT=true > /var/lib/daybook-first-start
  fi
fi

if [ -d /run/systemd/system ]; then
  systemctl daemon-reload || true
  # An upgrade restarts what runs: runners wait for the server meanwhile.
  systemctl try-restart daybook.service daybook-work.service || true
fi
