// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"cmp"
	"errors"
	"strings"

	"github.com/tenantry/tenantry/app/cli"
	"github.com/tenantry/tenantry/app/dnsconnections"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/outcome"
)

// The fixes that operators read when the test of a connection fails.
const (
	fixCredential  = "use a credential that the provider accepts and that has the necessary permissions"
	fixSettings    = "correct the field: a secret in the file of --credential-file, any other field with --set"
	fixPlugin      = "`tenantry doctor` reports the problem of the plugin"
	fixTooLarge    = "use a credential with access to fewer or smaller zones; a retry would fail again"
	fixUnreachable = "check that this machine can reach the provider, and run the command again in some minutes"
	// fixReplaceStored is appended to another fix, because a stored credential cannot be changed.
	fixReplaceStored = "; to change a stored credential or field, add a new connection and remove this one"
)

// explainAddError returns the error of a connection that was not added, with a fix if the test of
// the credential failed. It returns a usage error if the plugin rejected a field without a call of
// the provider.
func explainAddError(provider string, err error) error {
	var providerErr *outcome.Error
	if errors.As(err, &providerErr) && outcome.IsInvalidSetting(err) {
		return cli.WithFix(cli.UsageError(errors.New(providerErr.Detail)), fixSettings)
	}
	cause, fix := explainFailedTest(provider, err)
	if cause == nil {
		return err
	}
	cause.Detail += "; nothing is stored"
	return cli.WithFix(cli.ExternalError(cause), fix)
}

// explainTestError returns the error of a stored connection that failed its test, with a fix if one
// is known.
func explainTestError(provider string, err error) error {
	var unreadable dnsconnections.UnreadableError
	if errors.As(err, &unreadable) {
		return cli.WithFix(err, "restore the backup of the keyset that encrypted the credential, or add a new connection and remove this one")
	}
	cause, fix := explainFailedTest(provider, err)
	if cause == nil {
		return err
	}
	if errors.Is(cause, fault.CredentialRejected) || fix == fixSettings {
		fix += fixReplaceStored
	}
	return cli.WithFix(cli.ExternalError(cause), fix)
}

// explainFailedTest translates an outcome.Error into the error that operators read, and returns its
// fix. It returns nil for other errors.
func explainFailedTest(provider string, err error) (*fault.Error, string) {
	var providerErr *outcome.Error
	if !errors.As(err, &providerErr) {
		return nil, ""
	}
	cause, fix := fault.ErrorOf(err), fixUnreachable
	switch {
	case errors.Is(err, fault.CredentialRejected):
		fix = fixCredential
	case providerErr.Cause == "private_address":
		fix = "use the server's public address; for a server in your own network set TENANTRY_PROVIDERS_" +
			strings.ToUpper(provider) + "_ALLOW_PRIVATE=true for this command and for the service"
	case errors.Is(err, fault.InvalidRequest):
		fix = fixSettings
	case outcome.IsTooLarge(err):
		fix = fixTooLarge
	case strings.HasPrefix(providerErr.Cause, outcome.PluginCausePrefix):
		fix = fixPlugin
	}
	return &fault.Error{Code: cause.Code, Detail: "the test of the connection failed: " + cmp.Or(providerErr.Detail, cause.Detail)}, fix
}
