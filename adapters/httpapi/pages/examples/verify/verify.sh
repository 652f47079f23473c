#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# sh verify.sh SECRET WEBHOOK-ID WEBHOOK-TIMESTAMP WEBHOOK-SIGNATURE < body
# For tests by hand: openssl shows the key in the list of processes.
set -eu
secret=$1 id=$2 timestamp=$3 signatures=$4

# The timestamp may be at most five minutes from the current time. This limits how long a recorded
# message can be sent again.
age=$(($(date +%s) - timestamp))
[ "${age#-}" -le 300 ] || { echo "not verified: too old or too new" >&2; exit 1; }

key=$(printf %s "${secret#whsec_}" | openssl base64 -d -A | od -An -v -tx1 | tr -d ' \n')
want=v1,$({ printf '%s.%s.' "$id" "$timestamp"; cat; } |
	openssl dgst -sha256 -mac HMAC -macopt "hexkey:$key" -binary | openssl base64 -A)
for signature in $signatures; do
	[ "$signature" != "$want" ] || exit 0
done
echo "not verified" >&2
exit 1
