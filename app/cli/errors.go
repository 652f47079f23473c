// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/spf13/cobra"

	"github.com/tenantry/tenantry/adapters/bunstore/database"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/outcome"
)

// The exit codes of all commands. A command that succeeds exits with 0.
const (
	ExitRefused  = 1 // refused or failed
	ExitUsage    = 2 // a mistake in the command line or the settings
	ExitNotFound = 3 // no such object
	ExitExternal = 4 // a provider, a server or the network failed
)

type errorWithFix struct {
	err error
	fix string
}

// WithFix returns err with the text that tells the operator how to fix it.
func WithFix(err error, fix string) error { return errorWithFix{err, fix} }

// FixOf returns the text with which err tells the operator how to fix it, or "".
func FixOf(err error) string {
	var withFix interface{ Fix() string }
	if errors.As(err, &withFix) {
		return withFix.Fix()
	}
	return ""
}

// HasFix reports whether err already tells the operator how to fix it.
func HasFix(err error) bool { return FixOf(err) != "" }

func (e errorWithFix) Error() string { return e.err.Error() }
func (e errorWithFix) Unwrap() error { return e.err }
func (e errorWithFix) Fix() string   { return e.fix }

type usageError struct{ error }

func (u usageError) Unwrap() error { return u.error }

// UsageError returns err as a mistake in the command line or the settings. The command exits with
// ExitUsage.
func UsageError(err error) error { return usageError{err} }

type externalError struct{ error }

func (e externalError) Unwrap() error { return e.error }

// ExternalError returns err as an error of something outside of tenantry, such as a provider that
// does not answer. The command exits with ExitExternal.
func ExternalError(err error) error { return externalError{err} }

// ErrReported is returned by a command that has already printed why it failed. PrintError prints
// nothing for it.
var ErrReported = errors.New("reported")

// ExitCode returns the exit code of a command that returned err.
func ExitCode(err error) int {
	var usage usageError
	var external externalError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &usage):
		return ExitUsage
	case errors.As(err, &external):
		return ExitExternal
	case outcome.KindOf(err) == outcome.Refused:
		return ExitRefused
	case outcome.KindOf(err) != 0:
		return ExitExternal
	}
	switch fault.ErrorOf(err).Code.Kind {
	case fault.NotFound:
		return ExitNotFound
	case fault.Unavailable, fault.Timeout, fault.BadGateway:
		return ExitExternal
	default:
		return ExitRefused
	}
}

// fixes maps an error code to the fix that an operator can apply. For a code without an entry, the
// fix is Code.About. Add an entry if About helps only callers of the API.
var fixes = map[string]string{
	fault.InvalidRequest.Name:        "correct the value and run the command again; --help lists the flags",
	fault.AccountNotFound.Name:       "`tenantry account list` shows all accounts",
	fault.KeyNotFound.Name:           "`tenantry key list` shows the ids",
	fault.DNSConnectionNotFound.Name: "`tenantry dns-connection list` shows the ids",
	fault.RunNotFound.Name:           "the account's list of provisioning runs, GET /v1/dns/provisioning-runs, shows the ids",
	fault.JobActive.Name:             "run the command again in a minute; a provisioning run shows the state of its job",
	fault.ConnectionRequired.Name:    "add a connection with `tenantry dns-connection add`; `tenantry dns-connection list` shows the stored ones",
	fault.TenantNotFound.Name:        "`tenantry tenant list` shows the stored tenants, and which of them are managed",
	fault.TenantHeld.Name:            "`tenantry tenant list` shows the account of the tenant; that account must release the tenant first",
	fault.TenantLimitReached.Name:    "raise the account's number of tenants: `tenantry account plan`, with --plan or --tenant-slots",
	fault.AccessDenied.Name:          "the tenant's administrator must consent to the application, for the first time or again",
	fault.ServiceUnavailable.Name:    "`tenantry doctor` reports what is missing",
	fault.ProviderError.Name:         "run the command again; `tenantry doctor` also checks the mail platform",
	fault.ProviderUnavailable.Name:   "run the command again in some minutes; `tenantry doctor` also checks the mail platform",
	fault.ProviderTimeout.Name:       "run the command again in some minutes; `tenantry doctor` also checks the mail platform",
}

// FixFileAccess is the fix for a file that the user of the command cannot access.
const FixFileAccess = "run the command as the user of the service, or let your user read and write the file"

// fixPrivileges is the fix for a database user without the privileges that a statement needs.
const fixPrivileges = "give the missing privilege to the database user: `tenantry migrate` creates tables, the service reads and writes them"

// PrintError writes the error of a command and its fix: as text, or as
// {"error": {"code", "message", "fix"}} when asJSON is set.
func PrintError(w io.Writer, cmd *cobra.Command, asJSON bool, err error) {
	if errors.Is(err, ErrReported) {
		return
	}
	code, message, fix := "failed", err.Error(), ""
	var failure *fault.Error
	if errors.As(err, &failure) {
		code, message, fix = failure.Code.Name, failure.Detail, cmp.Or(fixes[failure.Code.Name], failure.Code.About)
	}
	var usage usageError
	if errors.As(err, &usage) {
		code, fix = "usage", "`"+cmd.CommandPath()+" --help` shows the usage"
	}
	if errors.Is(err, fs.ErrPermission) {
		fix = FixFileAccess
	}
	if database.Forbidden(err) {
		fix = fixPrivileges
	}
	fix = cmp.Or(FixOf(err), fix)
	if asJSON {
		_ = json.NewEncoder(w).Encode(map[string]any{"error": map[string]string{"code": code, "message": message, "fix": fix}})
		return
	}
	_, _ = fmt.Fprintf(w, "tenantry: %s\n", message)
	if fix != "" {
		_, _ = fmt.Fprintf(w, "%s\n", fix)
	}
}
