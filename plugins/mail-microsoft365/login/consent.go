// SPDX-License-Identifier: Apache-2.0

package login

import (
	"net/url"
	"strings"

	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/plugins/mail-microsoft365/call"
)

// consumers is the tenant of personal accounts, which nobody administers.
const consumers tenant.GUID = "9188040d-6c67-4c5b-b112-36a304b66dad"

const maxQuery = 16 << 10

// ConsentURL is the page where an administrator of any organization approves
// the application with all permissions that it is registered with.
func (h Host) ConsentURL(scope, state, redirect string) string {
	return h.URL + "/organizations/v2.0/adminconsent?" + url.Values{
		"client_id": {h.Credential.ClientID}, "scope": {scope}, "redirect_uri": {redirect}, "state": {state},
	}.Encode()
}

// Granted reads the callback's query and returns the tenant that it claims.
// admin_consent=True comes with errors too, so it says nothing.
func Granted(query string) (tenant.GUID, error) {
	if len(query) > maxQuery {
		return "", nonsense()
	}
	q, err := url.ParseQuery(query)
	if err != nil || len(q["error"]) > 1 || len(q["tenant"]) > 1 || len(q["admin_consent"]) > 1 {
		return "", nonsense()
	}
	if q.Has("error") {
		return "", declined(q.Get("error"), q.Get("error_description"))
	}
	if consent := q.Get("admin_consent"); consent != "" && !strings.EqualFold(consent, "true") {
		return "", declined("", "")
	}
	id, ok := tenant.ParseGUID(q.Get("tenant"))
	if !ok || id == tenant.NoGUID || id == consumers {
		return "", nonsense()
	}
	return id, nil
}

func nonsense() error {
	return call.Refuse(fault.InvalidRequest, "the mail platform's answer to the consent makes no sense")
}

// declined reads the callback's error. Whatever it is, nothing was connected;
// only the number and a code are kept of it.
func declined(code, description string) error {
	number := aadsts(description)
	detail := "the administrator declined, or the mail platform did not grant the consent"
	switch meaning[number] {
	case busy:
		return &outcome.Error{
			Kind: outcome.NotReady, Cause: cause(number, code, 0),
			Detail: "the mail platform is taking another consent in; ask for a new link in half a minute",
		}
	case noExchange:
		detail = "the organization is not subscribed to a service that the consent covers"
	case operator, bug:
		detail = "the mail platform refused the service's own registration"
	}
	return call.Refuse(fault.ConsentDeclined, detail, cause(number, code, 0))
}
