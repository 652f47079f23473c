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

// TestFailedConnectionTestsHaveAFix checks the message, the exit code, the error code and the fix
// of errors of `dns-connection add` and `dns-connection test`.
func TestFailedConnectionTestsHaveAFix(t *testing.T) {
	t.Parallel()
	refusal := &outcome.Error{Kind: outcome.Refused, Code: fault.AccessDenied, Detail: "the token is revoked"}
	for _, tc := range []struct {
		name               string
		err                error
		wantExit           int
		wantText, wantCode string
		addFix, testFix    string // the fixes that `add` and `test` print
	}{
		{"a rejected credential", fmt.Errorf("%w (%w)", fault.CredentialRejected.With("rejected"), refusal), cli.ExitExternal, "the token is revoked", "provider_credential_rejected",
			fixCredential, fixCredential + fixReplaceStored},
		{"a setting that the server does not know", sdk.NotServed("zones", "the server does not serve one"), cli.ExitExternal, "zones: the server", "invalid_request",
			fixSettings, fixSettings + fixReplaceStored},
		{"a throttled call", &outcome.Error{Kind: outcome.Throttled, Detail: "wait"}, cli.ExitExternal, "wait", "provider_unavailable", fixUnreachable, fixUnreachable},
		{"an unreachable provider", &outcome.Error{Kind: outcome.Down, Detail: "connection refused"}, cli.ExitExternal, "connection refused", "provider_unavailable", fixUnreachable, fixUnreachable},
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
		for _, explained := range []struct {
			command, wantFix string
			err              error
		}{{"add", tc.addFix, explainAddError("x", tc.err)}, {"test", tc.testFix, explainTestError("x", tc.err)}} {
			var printed strings.Builder
			cli.PrintError(&printed, &cobra.Command{}, true, explained.err)
			exit := cli.ExitCode(explained.err)
			if got := printed.String(); exit != tc.wantExit || !strings.Contains(got, tc.wantText) || !strings.Contains(got, `"`+tc.wantCode+`"`) || !strings.Contains(got, explained.wantFix+`"`) {
				t.Errorf("%s, `%s`: got the exit code %d, want %d with %q, the code %s and the fix %q in\n%s", tc.name, explained.command, exit, tc.wantExit, tc.wantText, tc.wantCode, explained.wantFix, got)
			}
		}
	}
}

// TestRejectedFieldIsAUsageErrorOnlyOfAdd checks a field that the plugin rejects. For `add`, this
// is a usage error. For `test`, it is a failed test.
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
				t.Errorf("got the exit code %d, want %d with %q in\n%s", cli.ExitCode(err), want.exit, text, got)
			}
		}
	}
}
