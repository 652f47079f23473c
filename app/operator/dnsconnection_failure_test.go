// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/tenantry/tenantry/app/cli"
	"github.com/tenantry/tenantry/app/dnsconnections"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/plugins/sdk"
)

// TestFailedConnectionTestsHaveAFix checks the message, the exit code and the fix of errors of
// `dns-connection add` and `dns-connection test`.
func TestFailedConnectionTestsHaveAFix(t *testing.T) {
	t.Parallel()
	refusal := &outcome.Error{Kind: outcome.Refused, Code: fault.AccessDenied, Detail: "not this one"}
	for _, tt := range []struct {
		name               string
		err                error
		wantExit           int
		wantText, wantCode string
		addFix, testFix    string // the fixes that `add` and `test` print
	}{
		{"a rejected credential", fmt.Errorf("%w (%w)", fault.CredentialRejected.With("no"), refusal), cli.ExitExternal, "not this one", "provider_credential_rejected",
			fixCredential, fixCredential + fixReplaceStored},
		{"a setting that the server does not know", sdk.NotServed("zones", "the server does not serve one"), cli.ExitExternal, "zones: the server", "invalid_request",
			fixSettings, fixSettings + fixReplaceStored},
		{"a throttled call", &outcome.Error{Kind: outcome.Throttled, Detail: "wait"}, cli.ExitExternal, "wait", "provider_unavailable", fixUnreachable, fixUnreachable},
		{"an unreachable provider", &outcome.Error{Kind: outcome.Down, Detail: "nobody there"}, cli.ExitExternal, "nobody there", "provider_unavailable", fixUnreachable, fixUnreachable},
		{"a plugin that does not run", &outcome.Error{Kind: outcome.Down, Cause: "plugin_missing", Detail: "does not run"}, cli.ExitExternal, "does not run", "provider_unavailable",
			fixPlugin, fixPlugin},
		{"a server at a private address", &outcome.Error{Kind: outcome.Refused, Code: fault.InvalidRequest, Cause: "private_address", Detail: "no public address"}, cli.ExitExternal,
			"no public address", "invalid_request", "TENANTRY_PROVIDERS_X_ALLOW_PRIVATE=true for this command and for the service", "TENANTRY_PROVIDERS_X_ALLOW_PRIVATE=true for this command and for the service"},
		{"an invalid answer", &outcome.Error{Kind: outcome.Broken, Detail: "nonsense"}, cli.ExitExternal, "nonsense", "provider_error", fixUnreachable, fixUnreachable},
		{"an answer that is too large", &outcome.Error{Kind: outcome.Broken, Cause: outcome.CauseTooLarge, Detail: "the answer is too large"}, cli.ExitExternal, "too large", "provider_error",
			fixTooLarge, fixTooLarge},
		{"no answer in time", &outcome.Error{Kind: outcome.Unknown, Detail: "too late"}, cli.ExitExternal, "too late", "provider_timeout", fixUnreachable, fixUnreachable},
		{"a refusal before the test", fault.AccountClosed.With("closed"), cli.ExitRefused, "closed", "account_closed", fault.AccountClosed.About, fault.AccountClosed.About},
		{"a secret sealed by a different keyset", dnsconnections.UnreadableError{Connection: "c1", Cause: errors.New("does not open")}, cli.ExitRefused, "c1", "failed",
			"", "restore the backup of the keyset that encrypted the credential, or add a new connection and remove this one"},
	} {
		for i, err := range []error{explainAddError("x", tt.err), explainTestError("x", tt.err)} {
			fix := []string{tt.addFix, tt.testFix}[i]
			var printed strings.Builder
			cli.PrintError(&printed, &cobra.Command{}, true, err)
			if got := printed.String(); cli.ExitCode(err) != tt.wantExit || !strings.Contains(got, tt.wantText) || !strings.Contains(got, `"`+tt.wantCode+`"`) || !strings.Contains(got, fix+`"`) {
				t.Errorf("%s: exit code %d\n%s", tt.name, cli.ExitCode(err), got)
			}
		}
	}
}

// TestRejectedFieldIsAUsageErrorOnlyOfAdd checks a field that the plugin rejects. `add` returns a
// usage error for this field. `test` reports a failed test.
func TestRejectedFieldIsAUsageErrorOnlyOfAdd(t *testing.T) {
	t.Parallel()
	rejected := sdk.Misconfigured("key_secret", "it is not base64")
	for err, want := range map[error]struct {
		exit  int
		texts []string
	}{
		explainAddError("x", rejected):  {cli.ExitUsage, []string{`"usage"`, `"key_secret: it is not base64"`, "a secret in the file of --credential-file"}},
		explainTestError("x", rejected): {cli.ExitExternal, []string{`"invalid_request"`, "key_secret: it is not base64", fixSettings + fixReplaceStored}},
	} {
		var printed strings.Builder
		cli.PrintError(&printed, &cobra.Command{}, true, err)
		for _, text := range want.texts {
			if got := printed.String(); cli.ExitCode(err) != want.exit || !strings.Contains(got, text) {
				t.Errorf("exit code %d, want %d %s\n%s", cli.ExitCode(err), want.exit, text, got)
			}
		}
	}
}
