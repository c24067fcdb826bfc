#!/bin/sh
# Judges the judge: builds ax broken in one way after the other, runs a short
# soak of each, and requires that the promise in question is found broken.
#
#   internal/soak/sabotage.sh [NAME...]    all, or those named
#   internal/soak/sabotage.sh unbroken     the same soaks of a build in order, which must find nothing
#
# It starts a Kafka of its own, unless it runs under the rig already.
set -eu

cd "$(dirname "$0")/../.."
if [ -z "${AX_KAFKA_CONTROL:-}" ]; then
	exec go run -C internal/rig . -nodes 3 -provider java -proxy -- "$PWD/internal/soak/sabotage.sh" "$@"
fi

# name, promise that breaks, and the soak that provokes it.
table="
commit_early         commits  --scenario none      --for 5s  --max-delay 2s --drain 20s
start_early          early    --scenario none      --for 5s  --max-delay 2s --drain 20s
drop_failed_publish  lost     --scenario publishes --for 5s  --max-delay 2s --drain 20s
forget_pause         idle     --scenario pauses    --for 16s --max-delay 6s --drain 14s --movers 2
settle_lost          commits  --scenario evictions --for 20s --max-delay 2s --drain 20s
"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0

soak() { # build, arguments: the exit code and the report in $work/out
	build=$1
	shift
	code=0
	began=$(date +%s)
	"$work/$build" "$@" --dir "$work/facts" >"$work/out" 2>&1 </dev/null || code=$?
	took=$(($(date +%s) - began))
	rm -rf "$work/facts"
}

if [ "${1:-}" = unbroken ]; then
	go build -tags axskew -o "$work/unbroken" ./internal/soak
	echo "$table" | while read -r name _ args; do
		[ -n "$name" ] || continue
		# shellcheck disable=SC2086 # a list of words
		soak unbroken $args
		echo "unbroken, as $name, in $took s: $(tail -n 1 "$work/out")"
		if [ "$code" != 0 ]; then
			tail -n 40 "$work/out"
			exit 1
		fi
	done
	exit
fi

wanted() { # name, names
	name=$1
	shift
	[ $# = 0 ] && return 0
	for n in "$@"; do
		[ "$n" = "$name" ] && return 0
	done
	return 1
}

echo "$table" >"$work/table"
while read -r name promise args; do
	if [ -z "$name" ] || ! wanted "$name" "$@"; then
		continue
	fi
	go build -tags "axskew sabotage_$name" -o "$work/$name" ./internal/soak </dev/null
	# shellcheck disable=SC2086 # a list of words
	soak "$name" $args
	if [ "$code" = 1 ] && grep -q "^FAILED  $promise " "$work/out"; then
		echo "caught $name in $took s: $(grep "^FAILED  $promise " "$work/out")"
	else
		echo "NOT CAUGHT $name in $took s (exit code $code), expected $promise to fail:"
		tail -n 40 "$work/out"
		failed=1
	fi
	rm -f "$work/$name"
done <"$work/table"
exit "$failed"
