// SPDX-License-Identifier: Apache-2.0

package login

import (
	"errors"
	"net/url"
	"strings"
	"testing"

	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/core/tenant"
)

func TestParseConsentCallbackAcceptsOnlyAGrantedConsent(t *testing.T) {
	for name, tc := range map[string]struct {
		query string
		want  tenant.GUID
		code  error  // nil if the consent was granted
		cause string // cause of the refusal, "" if it has none
	}{
		"granted":                         {"admin_consent=True&tenant=" + string(guid) + "&scope=x&state=s", guid, nil, ""},
		"upper case":                      {"admin_consent=True&tenant=" + strings.ToUpper(string(guid)), guid, nil, ""},
		"without the flag":                {"tenant=" + string(guid), guid, nil, ""},
		"flag false":                      {"admin_consent=False&tenant=" + string(guid), "", fault.ConsentDeclined, "login"},
		"flag with an error":              {"admin_consent=True&error=consent_required&error_description=AADSTS65004%3A+x&tenant=" + string(guid), "", fault.ConsentDeclined, "AADSTS65004"},
		"cancelled, permission_denied":    {"error=permission_denied&error_description=The+admin+canceled+the+request", "", fault.ConsentDeclined, "login permission_denied"},
		"cancelled, access_denied":        {"error=access_denied&error_subcode=cancel", "", fault.ConsentDeclined, "login access_denied"},
		"invalid client":                  {"error=invalid_client", "", fault.ConsentDeclined, "login invalid_client"},
		"server error":                    {"error=server_error", "", fault.ConsentDeclined, "login server_error"},
		"out of service":                  {"error=temporarily_unavailable", "", fault.ConsentDeclined, "login temporarily_unavailable"},
		"empty error":                     {"error=&tenant=" + string(guid), "", fault.ConsentDeclined, "login"},
		"script as error":                 {"error=%3Cscript%3E", "", fault.ConsentDeclined, "login"},
		"not subscribed":                  {"error=invalid_resource&error_description=AADSTS650052%3A+x", "", fault.ConsentDeclined, "AADSTS650052"},
		"redirect mismatch":               {"error=invalid_request&error_description=AADSTS50011%3A+x", "", fault.ConsentDeclined, "AADSTS50011"},
		"a different consent in progress": {"error=server_error&error_description=AADSTS650051%3A+x", "", fault.ProviderTimeout, "AADSTS650051"},
		"empty":                           {"", "", fault.InvalidRequest, ""},
		"no tenant":                       {"admin_consent=True&state=s", "", fault.InvalidRequest, ""},
		"not a GUID":                      {"admin_consent=True&tenant=contoso.com", "", fault.InvalidRequest, ""},
		"zero GUID":                       {"admin_consent=True&tenant=00000000-0000-0000-0000-000000000000", "", fault.InvalidRequest, ""},
		"personal accounts":               {"admin_consent=True&tenant=" + string(consumers), "", fault.InvalidRequest, ""},
		"two tenants":                     {"admin_consent=True&tenant=" + string(guid) + "&tenant=" + string(guid), "", fault.InvalidRequest, ""},
		"invalid escape":                  {"%zz", "", fault.InvalidRequest, ""},
		"too long":                        {"admin_consent=True&tenant=" + string(guid) + "&x=" + strings.Repeat("x", 20<<10), "", fault.InvalidRequest, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := ParseConsentCallback(tc.query)
			if got != tc.want || !errors.Is(err, tc.code) || (tc.code == nil && err != nil) {
				t.Fatalf("got %q, %v, want %q, %v", got, err, tc.want, tc.code)
			}
			var result *outcome.Error
			if errors.As(err, &result) && result.Cause != tc.cause {
				t.Fatalf("the cause is %q, want %q", result.Cause, tc.cause)
			}
		})
	}
}

func FuzzParseConsentCallback(f *testing.F) {
	f.Add("admin_consent=True&tenant=" + string(guid) + "&state=s")
	f.Add("admin_consent=True&error=consent_required&error_description=AADSTS65004%3A+The+resource+owner")
	f.Add("error=<script>&error_description=AADSTS99999999999999999")
	f.Add("tenant=%zz;&&==")
	f.Fuzz(func(t *testing.T, query string) {
		id, err := ParseConsentCallback(query)
		if (id == "") == (err == nil) {
			t.Fatalf("got %q and %v, want either a tenant or an error", id, err)
		}
		if err == nil {
			parameters, parseErr := url.ParseQuery(query)
			if parseErr != nil || parameters.Has("error") || !strings.EqualFold(strings.Trim(parameters.Get("tenant"), "{}"), string(id)) {
				t.Fatalf("the query %q gives the tenant %s, want the tenant in the query, or an error", query, id)
			}
			return
		}
		var result *outcome.Error
		if !errors.As(err, &result) || strings.ContainsAny(result.Cause+result.Detail, "<>\"\n") {
			t.Fatalf("got %v, want an outcome without text of the query", err)
		}
	})
}
