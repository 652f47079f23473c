// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tenantry/tenantry/adapters/bunstore"
	"github.com/tenantry/tenantry/adapters/secrets"
	"github.com/tenantry/tenantry/adapters/testserver"
	"github.com/tenantry/tenantry/app/cli"
	"github.com/tenantry/tenantry/core/secret"
	"github.com/tenantry/tenantry/core/webhook"
)

func gunzipFile(t *testing.T, name string) []byte {
	t.Helper()
	f, err := os.Open(name)
	must(t, err)
	defer func() { _ = f.Close() }()
	reader, err := gzip.NewReader(f)
	must(t, err)
	content, err := io.ReadAll(reader)
	must(t, err)
	return content
}

// gzipToFile compresses content into a file and returns the name of the file.
func gzipToFile(t *testing.T, name string, content []byte) string {
	t.Helper()
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	_, err := w.Write(content)
	must(t, errors.Join(err, w.Close(), os.WriteFile(name, out.Bytes(), 0o600)))
	return name
}

// newSmallBackup writes a backup of an installation with one account.
func newSmallBackup(t *testing.T) (env []string, file string) {
	t.Helper()
	env = []string{"TENANTRY_DATA_DIR=" + t.TempDir()}
	file = filepath.Join(t.TempDir(), "simple.backup")
	runTenantry(t, env, "keyset", "create", "-o", "json").mustJSON(t)
	runTenantry(t, env, "migrate", "-o", "json").mustJSON(t)
	runTenantry(t, env, "account", "create", "--email", "ann@example.com", "-o", "json").mustJSON(t)
	if got := runTenantry(t, env, "backup", file); got.code != 0 {
		t.Fatalf("backup fails: %s", got.stderr)
	}
	return env, file
}

// TestBackupDoesNotOverwriteAFile checks that only --force overwrites a backup, and that a refused
// backup creates no file.
func TestBackupDoesNotOverwriteAFile(t *testing.T) {
	t.Parallel()
	env, file := newSmallBackup(t)
	before := fileText(t, file)
	runTenantry(t, env, "backup", file).checkFailure(t, cli.ExitRefused)
	if after := fileText(t, file); after != before {
		t.Error("backup without --force overwrote the file")
	}
	if got := runTenantry(t, env, "backup", file, "--force"); got.code != 0 {
		t.Errorf("backup --force fails: %s", got.stderr)
	}
	if entries, err := os.ReadDir(filepath.Dir(file)); err != nil || len(entries) != 1 {
		t.Errorf("the folder has the files %v, want only the backup (%v)", entries, err)
	}
	emptyDir := t.TempDir() // has no database and no keyset
	runTenantry(t, []string{"TENANTRY_DATA_DIR=" + emptyDir}, "backup", filepath.Join(emptyDir, "b")).checkFailure(t, cli.ExitRefused)
	runTenantry(t, append(env, "TENANTRY_KEYSET_FILE="+emptyDir+"/keyset"), "backup", filepath.Join(emptyDir, "b")).checkFailure(t, cli.ExitRefused)
	runTenantry(t, env, "backup").checkFailure(t, cli.ExitUsage)
	if entries, err := os.ReadDir(emptyDir); err != nil || len(entries) != 0 {
		t.Errorf("refused backups left the files %v, want none (%v)", entries, err)
	}
}

// TestBackupRefusesTheKeysetOfAnotherInstallation stores an encrypted value. A backup with the
// keyset that encrypted the value succeeds. A backup with a different keyset fails, unless
// --allow-missing-keys is set.
func TestBackupRefusesTheKeysetOfAnotherInstallation(t *testing.T) {
	t.Parallel()
	env, file := newSmallBackup(t)
	dataDir := strings.TrimPrefix(env[0], "TENANTRY_DATA_DIR=")
	addEncryptedWebhook(t, dataDir)
	if got := runTenantry(t, env, "backup", file, "--force"); got.code != 0 {
		t.Errorf("backup with the right keyset fails: %s", got.stderr)
	}
	otherKeysetEnv := append(env, "TENANTRY_KEYSET_FILE="+filepath.Join(t.TempDir(), "keyset.json"))
	runTenantry(t, otherKeysetEnv, "keyset", "create", "-o", "json").mustJSON(t)
	got := runTenantry(t, otherKeysetEnv, "backup", file+".other")
	got.checkFailure(t, cli.ExitRefused)
	if _, err := os.Stat(file + ".other"); err == nil || !strings.Contains(got.stderr, "tables webhooks") {
		t.Errorf("backup printed %q, want an error about the table webhooks and no file (Stat: %v)", got.stderr, err)
	}
	if got := runTenantry(t, otherKeysetEnv, "backup", file+".other", "--allow-missing-keys"); got.code != 0 {
		t.Errorf("backup --allow-missing-keys fails: %s", got.stderr)
	}
}

// addEncryptedWebhook stores a webhook whose secret is encrypted with the keyset in the data
// folder.
func addEncryptedWebhook(t *testing.T, dataDir string) {
	t.Helper()
	sealer, err := secrets.OpenKeyset(filepath.Join(dataDir, "keyset.json"), secrets.RequireExisting)
	must(t, err)
	sealed, err := sealer.Seal(secret.New("whsec"), "webhook")
	must(t, err)
	store, err := bunstore.Open(t.Context(), "sqlite://"+filepath.Join(dataDir, "tenantry.db"), bunstore.Options{})
	must(t, err)
	account, err := store.FindAccount(t.Context(), "ann@example.com")
	must(t, err)
	must(t, errors.Join(store.AddWebhook(t.Context(), webhook.Webhook{
		ID: "019a52d0-04e1-7f11-9c3b-7d4e52a1b00d", Account: account.ID, URL: "https://hooks.example.test/",
		Status: webhook.Enabled, Secrets: webhook.Secrets{Current: sealed}, CreatedAt: time.Now(),
	}, nil), store.Close()))
}

func TestRestoreRefusesDamagedBackups(t *testing.T) {
	t.Parallel()
	_, file := newSmallBackup(t)
	content := string(gunzipFile(t, file))
	compressed := []byte(fileText(t, file))
	wrongChecksum := bytes.Clone(compressed)
	wrongChecksum[len(compressed)-6] ^= 1 // the last 8 bytes are the checksum and the length
	dir := t.TempDir()
	backupWithReplacement := func(old, new string) string {
		if !strings.Contains(content, old) {
			t.Fatalf("the backup does not contain %q", old)
		}
		return gzipToFile(t, filepath.Join(dir, fmt.Sprint(uniqueNumber.Add(1))), []byte(strings.Replace(content, old, new, 1)))
	}
	backupFile := func(content []byte) string {
		name := filepath.Join(dir, fmt.Sprint(uniqueNumber.Add(1)))
		must(t, os.WriteFile(name, content, 0o600))
		return name
	}
	lines := strings.SplitAfter(strings.TrimSuffix(content, "\n"), "\n")
	for name, tc := range map[string]struct{ file, wantMessage string }{
		"an account has a different email": {backupWithReplacement(`"ann@example.com","complete"`, `"eve@example.com","complete"`), "the rows of table accounts differ"},
		"a table has an extra row":         {backupWithReplacement(`["api_growth"`, "[\"big\",9,true]\n[\"api_growth\""), "table plans"},
		"the keyset differs":               {backupWithReplacement(`\"primaryKeyId\":`, `\"primaryKeyId\": `), "SHA-256"},
		"a newer format":                   {backupWithReplacement(`"tenantry_backup":1`, `"tenantry_backup":2`), "format 2"},
		"unknown migrations":               {backupWithReplacement(`"20261121000000"`, `"20261121000000","29990101000000"`), "1 migrations"},
		"an empty file":                    {backupFile(nil), "not a backup"},
		"a truncated file":                 {backupFile(compressed[:len(compressed)/2]), "damaged"},
		"no manifest at the end":           {gzipToFile(t, filepath.Join(dir, "cut"), []byte(strings.Join(lines[:len(lines)-1], ""))), "too early"},
		"data after the end":               {gzipToFile(t, filepath.Join(dir, "more"), []byte(content+"[1]\n")), "data after its manifest"},
		"a wrong checksum":                 {backupFile(wrongChecksum), "damaged"},
		"a zip file":                       {backupFile([]byte("PK\x03\x04")), "not a backup"},
		"a gzip file that is not a backup": {gzipToFile(t, filepath.Join(dir, "other"), []byte("hello\n")), "does not begin"},
		"a missing file":                   {filepath.Join(dir, "away"), "no such file"},
	} {
		t.Run(name, func(t *testing.T) {
			dataDir := filepath.Join(t.TempDir(), "data")
			got := runTenantry(t, []string{"TENANTRY_DATA_DIR=" + dataDir}, "restore", tc.file)
			got.checkFailure(t, cli.ExitRefused)
			if !strings.Contains(got.stderr, tc.wantMessage) || strings.Count(got.stderr, "\n") != 2 {
				t.Errorf("restore printed %q, want two lines with the text %q", got.stderr, tc.wantMessage)
			}
			if _, err := os.Stat(dataDir); err == nil {
				t.Error("the refused restore created the data folder")
			}
		})
	}
}

// TestRestoreWithPassphraseRefusesPlainBackup checks that restore with a passphrase refuses an
// unencrypted backup, which anybody could have made.
func TestRestoreWithPassphraseRefusesPlainBackup(t *testing.T) {
	t.Parallel()
	_, file := newSmallBackup(t)
	credential, dataDir := filepath.Join(t.TempDir(), "passphrase"), filepath.Join(t.TempDir(), "data")
	must(t, os.WriteFile(credential, []byte("correct horse battery staple\n"), 0o600))
	got := runTenantry(t, []string{"TENANTRY_DATA_DIR=" + dataDir}, "restore", file, "--credential-file", credential)
	got.checkFailure(t, cli.ExitRefused)
	if _, err := os.Stat(dataDir); err == nil || !strings.Contains(got.stderr, "not encrypted") {
		t.Errorf("restore printed %q, want the text \"not encrypted\"; the data folder must not exist, and Stat returned %v", got.stderr, err)
	}
}

// TestRestoreRefusesADifferentKeyset restores a backup over the keyset of a different installation,
// which is refused, and over its own keyset that was rotated after the backup. The second restore
// succeeds and does not change the keyset.
func TestRestoreRefusesADifferentKeyset(t *testing.T) {
	t.Parallel()
	env, file := newSmallBackup(t)
	otherInstallationEnv := []string{"TENANTRY_DATA_DIR=" + t.TempDir()}
	runTenantry(t, otherInstallationEnv, "keyset", "create", "-o", "json").mustJSON(t)
	got := runTenantry(t, otherInstallationEnv, "restore", file)
	got.checkFailure(t, cli.ExitRefused)
	if !strings.Contains(got.stderr, "keyset") {
		t.Errorf("restore printed %q, want an error about the keyset", got.stderr)
	}
	runTenantry(t, otherInstallationEnv, "migrate", "-o", "json").mustJSON(t) // the restore may have ended before it created a database
	if list := runTenantry(t, otherInstallationEnv, "account", "list", "-o", "json").mustJSON(t); list.valueAt("count") != 0.0 {
		t.Errorf("the refused restore left the accounts %v, want none", list)
	}
	runTenantry(t, env, "keyset", "rotate", "-o", "json").mustJSON(t)
	rotatedKeyset := runTenantry(t, env, "keyset", "list", "-o", "json").mustJSON(t)
	rotatedKeysetEnv := append([]string{"TENANTRY_KEYSET_FILE=" + strings.TrimPrefix(env[0], "TENANTRY_DATA_DIR=") + "/keyset.json"}, "TENANTRY_DATA_DIR="+t.TempDir())
	runTenantry(t, rotatedKeysetEnv, "restore", file, "-o", "json").mustJSON(t)
	if list := runTenantry(t, rotatedKeysetEnv, "account", "list", "-o", "json").mustJSON(t); list.valueAt("count") != 1.0 {
		t.Errorf("after the restore the accounts are %v, want 1 account", list)
	}
	if afterRestore := runTenantry(t, env, "keyset", "list", "-o", "json").mustJSON(t); !reflect.DeepEqual(afterRestore, rotatedKeyset) {
		t.Errorf("the restore changed the keyset from %v to %v", rotatedKeyset, afterRestore)
	}
}

// TestBackupIsConsistentDuringWrites writes backups while accounts are created. Each account has
// one member, so a backup must have equal numbers of accounts and members.
func TestBackupIsConsistentDuringWrites(t *testing.T) {
	t.Parallel()
	for name, newDatabase := range map[string]func(testing.TB) string{
		"sqlite": func(testing.TB) string { return "" }, "postgres": testserver.Database,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dataDir := t.TempDir()
			databaseURL := newDatabase(t)
			if databaseURL == "" {
				databaseURL = "sqlite://" + filepath.Join(dataDir, "tenantry.db")
			}
			env := []string{"TENANTRY_DATA_DIR=" + dataDir, "TENANTRY_DATABASE_URL=" + databaseURL}
			runTenantry(t, env, "keyset", "create", "-o", "json").mustJSON(t)
			runTenantry(t, env, "migrate", "-o", "json").mustJSON(t)
			stopCreating := createAccounts(t, databaseURL)
			for i := range 3 {
				file := filepath.Join(dataDir, fmt.Sprint("backup", i))
				if got := runTenantry(t, env, "backup", file); got.code != 0 {
					t.Fatalf("backup fails: %s", got.stderr)
				}
				accounts, members := countBackupRows(t, file, "accounts"), countBackupRows(t, file, "members")
				if accounts != members || accounts == 0 {
					t.Errorf("backup %d has %d accounts and %d members, want equal numbers above 0", i, accounts, members)
				}
			}
			stopCreating()
		})
	}
}

// createAccounts creates one account, and then further accounts until stop is called.
func createAccounts(t *testing.T, url string) (stop func()) {
	t.Helper()
	store, err := bunstore.Open(t.Context(), url, bunstore.Options{Operator: "test"})
	must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	createAccount := func(i int) error {
		_, err := store.CreateAccount(ctx, fmt.Sprintf("a%d@example.com", i), "complete", 0, time.Now())
		return err
	}
	must(t, createAccount(0))
	var creator sync.WaitGroup
	creator.Go(func() {
		for i := 1; ctx.Err() == nil; i++ {
			if err := createAccount(i); err != nil && ctx.Err() == nil {
				t.Error(err)
			}
		}
	})
	return func() {
		cancel()
		creator.Wait()
		_ = store.Close()
	}
}

var tableLine = regexp.MustCompile(`^\{"table":"([^"]+)"`)

func countBackupRows(t *testing.T, file, table string) (n int) {
	t.Helper()
	inTable := false
	for lines := bufio.NewScanner(bytes.NewReader(gunzipFile(t, file))); lines.Scan(); {
		if match := tableLine.FindStringSubmatch(lines.Text()); match != nil {
			inTable = match[1] == table
		} else if inTable && strings.HasPrefix(lines.Text(), "[") {
			n++
		}
	}
	return n
}
