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

// consumers is the tenant of personal Microsoft accounts. It has no administrator.
const consumers tenant.GUID = "9188040d-6c67-4c5b-b112-36a304b66dad"

const maxQueryBytes = 16 << 10

// ConsentURL returns the URL of the page on which an administrator of any organization approves the
// application. The page lists all permissions of the app registration.
func (h Host) ConsentURL(scope, state, redirect string) string {
	return h.URL + "/organizations/v2.0/adminconsent?" + url.Values{
		"client_id": {h.Credential.ClientID}, "scope": {scope}, "redirect_uri": {redirect}, "state": {state},
	}.Encode()
}

// ParseConsentCallback reads the query of the consent callback and returns the tenant that the
// query claims. It fails with ConsentDeclined if the consent was not granted, with NotReady while
// another consent is in progress, and with InvalidRequest if the query is malformed. It does not
// trust admin_consent=True, which is also in the query of a failed consent.
func ParseConsentCallback(query string) (tenant.GUID, error) {
	if len(query) > maxQueryBytes {
		return "", malformedCallback()
	}
	values, err := url.ParseQuery(query)
	if err != nil || len(values["error"]) > 1 || len(values["tenant"]) > 1 || len(values["admin_consent"]) > 1 {
		return "", malformedCallback()
	}
	if values.Has("error") {
		return "", consentError(values.Get("error"), values.Get("error_description"))
	}
	if consent := values.Get("admin_consent"); consent != "" && !strings.EqualFold(consent, "true") {
		return "", consentError("", "")
	}
	id, ok := tenant.ParseGUID(values.Get("tenant"))
	if !ok || id == tenant.NoGUID || id == consumers {
		return "", malformedCallback()
	}
	return id, nil
}

func malformedCallback() error {
	return call.Refuse(fault.InvalidRequest, "the mail platform's answer to the consent is malformed")
}

// consentError translates the error of the callback. From the callback, the result contains only
// the AADSTS number or the error code.
func consentError(code, description string) error {
	number := aadstsNumber(description)
	detail := "the administrator declined, or the mail platform did not grant the consent"
	switch classes[number] {
	case consentInProgress:
		return &outcome.Error{
			Kind: outcome.NotReady, Cause: cause(number, code, 0),
			Detail: "the mail platform is processing another consent; ask for a new link in half a minute",
		}
	case noExchange:
		detail = "the organization is not subscribed to a service that the consent covers"
	case operatorError, unexpected:
		detail = "the mail platform refused the service's own registration"
	}
	return call.Refuse(fault.ConsentDeclined, detail, cause(number, code, 0))
}
