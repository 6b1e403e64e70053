#!/bin/sh
# Installs runwatch into an environment of its own, or brings it up to date. It may be run again at any time.
set -eu

usage() {
  cat <<'END'
usage: deploy/install.sh [agent|daemon] [--from SOURCE] [--prefix DIR] [--python PYTHON] [--etc DIR] [--systemd DIR]

  agent    also: the user runwatch, /etc/runwatch/agent.yaml and the systemd unit of a GPU node
  daemon   also: the user runwatch, /etc/runwatch/runwatch.yaml, a token and the systemd unit of the watching host
  (none)   the environment alone; needs no root with a --prefix of your own

  --from     a wheel, a source tree or a package name (default: the source tree of this script)
  --prefix   where the environment is (default: /opt/runwatch)
  --python   which Python to use, 3.11 or newer (default: the newest that is found)
  --etc      where the configs are (default: /etc/runwatch)
  --systemd  where the units go (default: /etc/systemd/system)

What configs and tokens say is never changed. Nothing is started.
END
}

fail() {
  echo "install.sh: $*" >&2
  exit 1
}

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
role='' source=${here%/deploy} prefix=/opt/runwatch python='' etc=/etc/runwatch systemd=/etc/systemd/system
while [ $# -gt 0 ]; do
  case $1 in
    agent | daemon) role=$1 ;;
    -h | --help) usage; exit 0 ;;
    --from | --prefix | --python | --etc | --systemd)
      [ $# -ge 2 ] || fail "$1 needs a value"
      case $1 in
        --from) source=$2 ;;
        --prefix) prefix=$2 ;;
        --python) python=$2 ;;
        --etc) etc=$2 ;;
        --systemd) systemd=$2 ;;
      esac
      shift ;;
    *) usage >&2; exit 2 ;;
  esac
  shift
done

case $prefix in /*) ;; *) prefix=$PWD/$prefix ;; esac
case $etc in /*) ;; *) etc=$PWD/$etc ;; esac
case ${role:+$prefix$etc} in # they are written into the unit
  *[!A-Za-z0-9_./+~@:=,-]*) fail "$prefix, $etc: give paths of plain letters, without blanks" ;;
esac

# What is set for other programs must not lead into this environment.
unset PYTHONPATH PYTHONHOME PIP_TARGET PIP_PREFIX PIP_USER PIP_REQUIRE_VIRTUALENV
export PIP_DISABLE_PIP_VERSION_CHECK=1

new_enough() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; }

if [ -n "$python" ]; then
  new_enough "$python" || fail "$python is not Python 3.11 or newer"
else
  for candidate in python3.14 python3.13 python3.12 python3.11 python3; do
    if new_enough "$candidate"; then python=$candidate; break; fi
  done
  [ -n "$python" ] || fail "needs Python 3.11 or newer (Debian: apt-get install python3 python3-venv); or give --python"
fi
"$python" -c 'import ensurepip, venv' 2>/dev/null || fail "$python cannot make environments: apt-get install python3-venv"

# An environment whose Python has gone with an upgrade of the system is made anew; anything else is left alone.
if [ -e "$prefix/pyvenv.cfg" ]; then
  "$prefix/bin/python" -I -c 'import sys, pip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null ||
    "$python" -m venv --clear "$prefix"
elif [ -d "$prefix" ] && [ -n "$(ls -A "$prefix")" ]; then
  fail "$prefix holds something else; give another --prefix"
else
  mkdir -p "$prefix" 2>/dev/null || fail "cannot make $prefix: run it as root, or give a --prefix of your own"
  "$python" -m venv "$prefix"
fi

umask 022 # the user of the units must be able to read it
pip="$prefix/bin/python -I -m pip"
$pip install --quiet --upgrade "$source"
if [ -e "$source" ]; then # the same version may hold other code
  $pip install --quiet --force-reinstall --no-deps "$source"
fi

"$prefix/bin/python" -I - <<'END' || fail "nothing was set up beyond $prefix: give runwatch an environment of its own"
import sys
from watcher.guard import package_problems
problems = package_problems()
print("\n".join(problems), file=sys.stderr, end="\n" * bool(problems))
sys.exit(bool(problems))
END
"$prefix/bin/runwatch" --version

if [ -z "$role" ]; then
  echo "try it: $prefix/bin/runwatch demo"
  exit 0
fi

if ! getent passwd runwatch >/dev/null; then
  useradd --system --user-group --no-create-home --home-dir /var/lib/runwatch --shell /usr/sbin/nologin runwatch ||
    fail "cannot make the user runwatch: run it as root"
fi
install -d -m 755 "$etc"
unit=runwatch config=runwatch
if [ "$role" = agent ]; then unit=runwatch-agent config=agent; fi
if [ ! -e "$etc/$config.yaml" ]; then
  sed "s|/etc/runwatch/|$etc/|g" "$here/$config.example.yaml" >"$etc/$config.yaml"
  chmod 644 "$etc/$config.yaml"
fi
if [ "$role" = daemon ] && [ ! -e "$etc/agent.token" ]; then
  (umask 077 && head -c 32 /dev/urandom | base64 >"$etc/agent.token")
fi
for secret in "$etc"/*; do # tokens, keys, URLs: for the units' user, for nobody else
  case $secret in *.yaml) continue ;; esac
  if [ -f "$secret" ]; then chown root:runwatch "$secret" && chmod 640 "$secret"; fi
done
sed "s|/opt/runwatch/|$prefix/|; s|/etc/runwatch/|$etc/|" "$here/systemd/$unit.service" >"$systemd/$unit.service"
chmod 644 "$systemd/$unit.service"
if [ -d /run/systemd/system ]; then systemctl daemon-reload; fi

echo
echo "next:"
if [ "$role" = daemon ]; then
  echo "  1. copy $etc/agent.token to the same place on every node"
  echo "  2. set runs: and channels: in $etc/runwatch.yaml"
  echo "  3. $prefix/bin/runwatch check-config $etc/runwatch.yaml"
  echo "  4. $prefix/bin/runwatch test-page --config $etc/runwatch.yaml"
  echo "  5. systemctl enable --now $unit"
else
  [ -e "$etc/agent.token" ] || echo "  0. copy agent.token of the daemon's host to $etc, and run this again"
  echo "  1. set logs: in $etc/agent.yaml"
  echo "  2. $prefix/bin/runwatch check-config $etc/agent.yaml"
  echo "  3. systemctl enable --now $unit"
fi
echo "a unit that runs already takes up a new version with: systemctl restart $unit"
