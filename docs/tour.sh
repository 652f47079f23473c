# SPDX-License-Identifier: Apache-2.0
# The functions of the README's tour. Load them in a second shell while `make dev` runs:
#
#	. ./tenantry-dev/env && . docs/tour.sh

# api METHOD PATH [JSON]: send one request to the API and print its answer. Each call has a new
# Idempotency-Key, because the API answers a write with a used key from its stored answer.
api() {
	set -- "$1" "$2" "${3:-}"
	curl -sS -X "$1" -H "Authorization: Bearer $TENANTRY_KEY" -H "Idempotency-Key: $(date +%s%N)" \
		${3:+-H 'Content-Type: application/json' -d "$3"} "$TENANTRY_URL$2"
}

# sandbox METHOD PATH [JSON]: send one request to the sandbox's control interface.
sandbox() {
	curl -sS -X "$1" ${3:+-d "$3"} "$TENANTRY_CONTROL$2"
}

# pick MEMBER: read JSON from standard input and print each string value of MEMBER on a line.
pick() { grep -o "\"$1\":\"[^\"]*\"" | cut -d'"' -f4; }

# consent: do what the tenant's administrator does in the browser.
consent() { sandbox POST "/tenants/$TENANTRY_TENANT/consent" "{\"api_key\":\"$TENANTRY_KEY\"}"; }

# sync_tenant: repeat the sync until the mail server of the tenant is ready.
sync_tenant() {
	until api POST "/v1/tenants/$TENANTRY_TENANT/sync" | grep '"status":"completed","run_id"'; do sleep 1; done
}

# provision_dns DOMAIN: start the DNS provisioning of a domain, wait until it ends or a person must
# act, and print the run.
provision_dns() {
	domain_id=$(api GET "/v1/tenants/$TENANTRY_TENANT/domains" | tr '{' '\n' | grep "\"domain_name\":\"$1\"" | pick id)
	run_id=$(api POST "/v1/domains/$domain_id/dns/provision" | tr '{' '\n' | grep '"total_domains"' | pick id)
	until api GET "/v1/dns/provisioning-runs/$run_id" | grep '"total_domains"' | grep -E '"status":"(completed|action_required|failed)"'; do sleep 1; done
}
