#!/bin/sh
# Makes sure that what the tests need beside Go is there: Java and Maven for a
# real Kafka, kcat for a client that is not ours. As root on a system with apt
# it installs what is missing; elsewhere it says what to install.
set -eu

missing=""
packages=""
need() { # command, package
	if ! command -v "$1" >/dev/null 2>&1; then
		missing="$missing $1"
		packages="$packages $2"
	fi
}

command -v go >/dev/null 2>&1 || {
	echo "setup: go is missing: install Go 1.26 or newer, see https://go.dev/dl" >&2
	exit 1
}
need java openjdk-17-jre-headless
need mvn maven
need kcat kcat
if [ -z "$missing" ]; then
	exit 0
fi

if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null 2>&1; then
	echo "setup: missing:$missing. Install them; on Debian or Ubuntu:" >&2
	echo "  sudo apt-get install -y$packages" >&2
	exit 1
fi
echo "setup: installing$packages"
export DEBIAN_FRONTEND=noninteractive
apt-get update -q </dev/null
# shellcheck disable=SC2086 # a list of words
apt-get install -q -y --no-install-recommends $packages </dev/null
