// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"bytes"
	"database/sql"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tenantry/tenantry/app/apptest"
	"github.com/tenantry/tenantry/app/cli"
	"github.com/tenantry/tenantry/app/settings"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/sendlimit"
	"github.com/tenantry/tenantry/core/tenant"
)

// TestCloseWarnsOfRemainingRulesIfItCannotDeleteTheEvents checks that `account close` names the
// remaining rules even if the events of the closed account cannot be deleted. A second `account
// close` cannot name the rules, because the tenants are released. No mail platform is set, so the
// rule remains.
func TestCloseWarnsOfRemainingRulesIfItCannotDeleteTheEvents(t *testing.T) {
	const id = tenant.GUID("11111111-1111-4111-8111-111111111111")
	file := filepath.Join(t.TempDir(), "tenantry.db")
	store := apptest.OpenStore(t, "sqlite://"+file)
	account, err := store.CreateAccount(t.Context(), "ann@example.com", "complete", 0, time.Now())
	apptest.Must(t, err)
	_, err = store.Attach(t.Context(), account.ID, tenant.Tenant{GUID: id, ConsentedAt: time.Now()})
	apptest.Must(t, err)
	_, err = store.ReservePolicy(t.Context(), account.ID, id, sendlimit.TenantWide, time.Now())
	apptest.Must(t, err)
	db, err := sql.Open("sqlite", "file:"+file)
	apptest.Must(t, err)
	defer func() { _ = db.Close() }()

	// The deletion of the events fails without this table.
	_, err = db.ExecContext(t.Context(), "ALTER TABLE enforcement_counts RENAME TO renamed")
	apptest.Must(t, err)
	stderr, err := closeAccount(t, file)
	if err == nil || !strings.Contains(err.Error(), "the account is closed") || !cli.HasFix(err) {
		t.Errorf("got the error %v, want that the account is closed, and a fix", err)
	}
	if want := sendlimit.RuleName(sendlimit.TenantWide); !strings.Contains(stderr, "these mail flow rules may still exist in tenant "+string(id)) || !strings.Contains(stderr, want) {
		t.Errorf("no warning names the tenant %s and the rule %s:\n%s", id, want, stderr)
	}
	_, err = db.ExecContext(t.Context(), "ALTER TABLE renamed RENAME TO enforcement_counts")
	apptest.Must(t, err)
	if stderr, err := closeAccount(t, file); err != nil {
		t.Errorf("the second `account close`: got %v, want no error\n%s", err, stderr)
	}
	if closed, err := store.FindAccount(t.Context(), string(account.ID)); err != nil || closed.Status() != access.StatusClosed {
		t.Errorf("got the account %+v, %v, want a closed account", closed, err)
	}
}

// closeAccount runs `account close` for the account ann@example.com in the database file. It
// returns what the command prints on standard error.
func closeAccount(t *testing.T, file string) (stderr string, err error) {
	t.Helper()
	cmd := closeCommand()
	settings.Config{}.AddFlags(cmd.Flags())
	var errOut bytes.Buffer
	cmd.SetOut(io.Discard)
	cmd.SetErr(&errOut)
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetArgs([]string{"--account", "ann@example.com", "--yes", "--data-dir", filepath.Dir(file), "--plugin-dir", t.TempDir()})
	err = cmd.ExecuteContext(t.Context())
	return errOut.String(), err
}
