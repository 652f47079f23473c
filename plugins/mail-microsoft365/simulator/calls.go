// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"encoding/json"
	"net/http"
	"strings"

	"github.com/tenantry/tenantry/plugins/sdk/simulate"
)

// Call implements simulate.Provider: what a request is, for the journal and
// for planned faults.
func (s *simulator) Call(r *http.Request, body []byte) simulate.Call {
	host := hostOf(r)
	c := simulate.Call{Host: host, Write: r.Method != http.MethodGet && r.Method != http.MethodHead}
	path := strings.TrimPrefix(r.URL.Path, host)
	switch host {
	case exchangeHost:
		c.Operation, c.Write = exchangeOperation(path, body)
		// The front door gives up on a cmdlet that goes on running.
		c.WorkAt = []int{http.StatusGatewayTimeout}
	case graphHost:
		c.Operation = graphOperation(r.Method, path)
	case loginHost:
		c.Operation = path[strings.LastIndex(path, "/")+1:]
		// Signing in and fetching tokens change nothing in the tenant.
		c.Write = c.Write && c.Operation == "adminconsent"
	}
	return c
}

// exchangeOperation is the cmdlet; only those that get something read.
func exchangeOperation(path string, body []byte) (string, bool) {
	if !strings.HasSuffix(path, "/InvokeCommand") {
		return path[strings.LastIndex(path, "/")+1:], false
	}
	var in command
	if json.Unmarshal(body, &in) != nil || in.CmdletInput.CmdletName == "" {
		return "InvokeCommand", true
	}
	return in.CmdletInput.CmdletName, !strings.HasPrefix(strings.ToLower(in.CmdletInput.CmdletName), "get-")
}

// graphOperation names a call as Graph's OpenAPI description does.
func graphOperation(method, path string) string {
	parts := strings.Split(strings.Trim(strings.TrimPrefix(path, "/v1.0"), "/"), "/")
	collection, _, _ := strings.Cut(parts[0], "(")
	last := parts[len(parts)-1]
	singular := strings.TrimSuffix(collection, "s")
	switch {
	case collection == "policies" || collection == "roleManagement":
		return map[string]string{"GET": "get-", "POST": "create-"}[method] + last
	case collection == "directory":
		return collection + ".list-" + last
	case last == "verify" || last == "forceDelete" || last == "$count":
		return singular + "." + last
	case len(parts) > 2 || len(parts) == 2 && last == "appRoleAssignments":
		return singular + ".list-" + last
	case len(parts) == 2 || strings.Contains(parts[0], "("):
		return singular + map[string]string{"GET": ".get", "PATCH": ".update", "DELETE": ".delete"}[method]
	}
	return singular + map[string]string{"GET": ".list", "POST": ".create"}[method]
}
