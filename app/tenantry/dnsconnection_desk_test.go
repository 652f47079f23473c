// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/tenantry/tenantry/app/dnsconnections"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/outcome"
)

// TestFailedTestsSayWhatToDo: each way in which a provider says no.
func TestFailedTestsSayWhatToDo(t *testing.T) {
	t.Parallel()
	rejected := &outcome.Error{Kind: outcome.Refused, Code: fault.AccessDenied, Detail: "not this one"}
	for _, tt := range []struct {
		name       string
		err        error
		exit       int
		says, code string
		add, test  string // what to do
	}{
		{"the credential", fmt.Errorf("%w (%w)", fault.CredentialRejected.With("no"), rejected), exitOutside, "not this one", "provider_credential_rejected",
			fixRefused, fixRefused + fixStored},
		{"a setting", &outcome.Error{Kind: outcome.Refused, Code: fault.InvalidRequest, Detail: "api_url: it is a URL"}, exitOutside, "api_url", "invalid_request",
			fixSettings, fixSettings + fixStored},
		{"a secret that is none", &outcome.Error{Kind: outcome.Refused, Code: fault.InvalidRequest, Detail: "key_secret: it is not base64"}, exitOutside, "key_secret", "invalid_request",
			"a secret in the file of --credential-file", fixSettings + fixStored},
		{"throttled", &outcome.Error{Kind: outcome.Throttled, Detail: "wait"}, exitOutside, "wait", "provider_unavailable", fixAway, fixAway},
		{"down", &outcome.Error{Kind: outcome.Down, Detail: "nobody there"}, exitOutside, "nobody there", "provider_unavailable", fixAway, fixAway},
		{"our own plugin", &outcome.Error{Kind: outcome.Down, Cause: "plugin_missing", Detail: "does not run"}, exitOutside, "does not run", "provider_unavailable",
			fixPlugin, fixPlugin},
		{"a server inside", &outcome.Error{Kind: outcome.Refused, Code: fault.InvalidRequest, Cause: "private_address", Detail: "no public address"}, exitOutside,
			"no public address", "invalid_request", "TENANTRY_PROVIDERS_X_ALLOW_PRIVATE=true", "TENANTRY_PROVIDERS_X_ALLOW_PRIVATE=true"},
		{"broken", &outcome.Error{Kind: outcome.Broken, Detail: "nonsense"}, exitOutside, "nonsense", "provider_error", fixAway, fixAway},
		{"too large", &outcome.Error{Kind: outcome.Broken, Cause: outcome.CauseTooLarge, Detail: "the answer is too large"}, exitOutside, "too large", "provider_error",
			fixTooLarge, fixTooLarge},
		{"silent", &outcome.Error{Kind: outcome.Unknown, Detail: "too late"}, exitOutside, "too late", "provider_timeout", fixAway, fixAway},
		{"no test at all", fault.AccountClosed.With("closed"), exitRefused, "closed", "account_closed", fault.AccountClosed.About, fault.AccountClosed.About},
		{"the keyset is another one", dnsconnections.Unreadable{Connection: "c1", Cause: errors.New("does not open")}, exitRefused, "c1", "failed",
			"", "put the keyset that it was sealed with back"},
	} {
		for of, err := range map[string]error{tt.add: notAdded("x", tt.err), tt.test: testFailed("x", tt.err)} {
			var printed strings.Builder
			printError(&printed, &cobra.Command{}, true, err)
			if got := printed.String(); exitCode(err) != tt.exit || !strings.Contains(got, tt.says) || !strings.Contains(got, `"`+tt.code+`"`) || !strings.Contains(got, of) {
				t.Errorf("%s: exit code %d\n%s", tt.name, exitCode(err), got)
			}
		}
	}
}
