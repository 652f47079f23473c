// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
)

// graphAnswer writes an answer with the headers that Graph always sends.
func (s *simulator) graphAnswer(w http.ResponseWriter, r *http.Request, out result) {
	request, client := newGUID(), r.Header.Get("client-request-id")
	if client == "" {
		client = request
	}
	h := w.Header()
	h.Set("request-id", request)
	h.Set("client-request-id", client)
	h.Set("x-ms-ags-diagnostic", `{"ServerInfo":{"DataCenter":"Sandbox","Slice":"E","Ring":"0","ScaleUnit":"000","RoleInstance":"SIM"}}`)
	h.Set("Date", s.kit.Now().Format(http.TimeFormat))
	h.Set("x-ms-resource-unit", strconv.Itoa(resourceUnits(r)))
	status, body := out.status, out.body
	if out.refused != nil {
		status, body = out.refused.status, out.refused.body(s.kit.Now(), request, client)
		if status == http.StatusUnauthorized {
			h.Set("WWW-Authenticate", `Bearer realm="", authorization_uri="`+s.authority("common")+
				`/oauth2/authorize", client_id="`+graphAppID+`"`)
		}
	}
	if text, plain := body.(string); plain {
		h.Set("Content-Type", "text/plain")
		w.WriteHeader(status)
		_, _ = w.Write([]byte(text))
		return
	}
	if body == nil {
		w.WriteHeader(status)
		return
	}
	h.Set("Content-Type", "application/json;odata.metadata=minimal;odata.streaming=true;IEEE754Compatible=false;charset=utf-8")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body)
}

// resourceUnits is what a call costs of the directory's budget.
func resourceUnits(r *http.Request) int {
	cost := 1
	switch {
	case r.Method != http.MethodGet:
		cost = 2
	case strings.HasSuffix(r.URL.Path, "/users") || strings.HasSuffix(r.URL.Path, "/appRoleAssignments"):
		cost = 2
	case strings.HasSuffix(r.URL.Path, "/domainNameReferences"):
		cost = 4
	}
	if r.URL.Query().Has("$select") {
		cost--
	}
	return max(cost, 1)
}
