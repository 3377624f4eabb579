#!/bin/sh
# A Chromium for the browser tests: the system's own, installed from Debian's packages where that is possible.
command -v chromium >/dev/null || command -v chromium-browser >/dev/null || [ -n "$HINDCAST_CHROMIUM" ] && exit 0
if command -v apt-get >/dev/null && [ "$(id -u)" = 0 ]; then
    echo "setup: installing chromium"
    export DEBIAN_FRONTEND=noninteractive
    { apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium; } >/dev/null 2>&1 && exit 0
fi
echo "setup: the browser tests need Chromium: install it (apt-get install chromium), or set HINDCAST_CHROMIUM to its path" >&2
exit 1
