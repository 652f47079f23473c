// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/ident"
	"github.com/tenantry/tenantry/core/tenant"
)

// tenantParameter is the name of the parameters in paths and queries that contain a tenant's GUID.
const tenantParameter = "tenant_id"

// hideTenants hides the tenants that the key must not see. In the path and the query, it replaces
// their ids and malformed ids with an id that no tenant has. The operation then runs the same
// queries as for an unknown tenant, and returns the same answer.
func (g *guard) hideTenants(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		e := exchangeOf(r.Context())
		if bounds := e.caller.Bounds; e.route.op != nil && bounds.Tenants != nil {
			address := *r.URL
			hideInPath(&address, e.route.path, bounds)
			hideInQuery(&address, bounds)
			masked := *r
			masked.URL = &address
			r = &masked
		}
		next.ServeHTTP(w, r)
	})
}

// hideInPath works on the escaped path, so that escaped slashes in other segments stay escaped.
func hideInPath(address *url.URL, template string, bounds access.Bounds) {
	segments := strings.Split(address.EscapedPath(), "/")
	for i, name := range strings.Split(template, "/") {
		if name != "{"+tenantParameter+"}" || i >= len(segments) {
			continue
		}
		value, err := url.PathUnescape(segments[i])
		if err != nil || !bounds.AllowsTenant(tenant.ParseGUIDOrNone(value)) {
			segments[i] = ident.Zero
		}
	}
	escaped := strings.Join(segments, "/")
	if plain, err := url.PathUnescape(escaped); err == nil {
		address.Path, address.RawPath = plain, escaped
	}
}

func hideInQuery(address *url.URL, bounds access.Bounds) {
	query := address.Query()
	if id := query.Get(tenantParameter); id != "" && !bounds.AllowsTenant(tenant.ParseGUIDOrNone(id)) {
		query.Set(tenantParameter, ident.Zero)
		address.RawQuery = query.Encode()
	}
}
