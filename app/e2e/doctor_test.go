// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tenantry/tenantry/adapters/sandbox/zones"
	"github.com/tenantry/tenantry/adapters/testserver"
	"github.com/tenantry/tenantry/adapters/testserver/soak"
	"github.com/tenantry/tenantry/app/cli"
	"github.com/tenantry/tenantry/app/doctor"
	"github.com/tenantry/tenantry/plugins/wire"
)

// checkIDs are the ids of all checks, in the order of the report.
var checkIDs = strings.Fields("database migrations keyset public_url plugins provider_settings mail_platform dns redis clock credentials")

// runDoctor runs doctor and returns its report, and the checks of the report by id.
func runDoctor(t *testing.T, env []string) (object, map[string]object) {
	t.Helper()
	result := runTenantry(t, env, "doctor", "-o", "json")
	var report object
	if err := json.Unmarshal([]byte(result.stdout), &report); err != nil || result.stderr != "" {
		t.Fatalf("doctor: exit code %d, want only JSON on standard output (%v)\n%s%s", result.code, err, result.stdout, result.stderr)
	}
	checkMembers(t, "doctor", report, "status version checks")
	if failed := report.text("status") == doctor.Failed; failed != (result.code == cli.ExitRefused) || (!failed && result.code != 0) {
		t.Errorf("doctor reports the status %s with the exit code %d, want %d if it failed, and otherwise 0", report.text("status"), result.code, cli.ExitRefused)
	}
	checks := map[string]object{}
	var ids []string
	for _, c := range report.objects("checks") {
		checkMembers(t, "check", c, "id status summary fix duration_ms")
		if (c.text("status") == doctor.OK) != (c.text("fix") == "") || c.text("summary") == "" {
			t.Errorf("a check lacks a summary, is ok with a fix, or is not ok without a fix: %v", c)
		}
		ids = append(ids, c.text("id"))
		checks[c.text("id")] = c
	}
	if !slices.Equal(ids, checkIDs) {
		t.Errorf("the report has the checks %v, want %v", ids, checkIDs)
	}
	return report, checks
}

// runDoctorUntilOK runs doctor until these checks succeed. On a busy machine a server's answer can
// be too late, and a slow response makes the measured offset of a clock too large.
func runDoctorUntilOK(t *testing.T, env []string, ids ...string) (report object, checks map[string]object) {
	t.Helper()
	defer func() {
		if t.Failed() {
			t.Logf("the checks of doctor are %v, want %v to be ok", checks, ids)
		}
	}()
	client{t: t}.eventually(fmt.Sprintf("the checks %v of doctor are ok", ids), func() bool {
		report, checks = runDoctor(t, env)
		return !slices.ContainsFunc(ids, func(id string) bool { return checks[id].text("status") != doctor.OK })
	})
	return report, checks
}

// doctorFixture is a service in which doctor finds no fault.
type doctorFixture struct {
	service *serviceFixture
	dataDir string
	env     []string
}

// newDoctorFixture creates a service with an account, a keyset and a public URL that resolves.
func newDoctorFixture(t *testing.T) doctorFixture {
	t.Helper()
	service := newServiceFixture(t, requirePrograms(t, releaseBuild))
	must(t, service.zones.Add("tenantry-here.test", "manual"))
	publicAddress := zones.Record{Type: "A", Name: "api.tenantry-here.test", Content: "192.0.2.80", TTL: 60}
	must(t, service.zones.Replace("tenantry-here.test", []zones.Record{publicAddress}))
	fixture := doctorFixture{service: service, dataDir: t.TempDir()}
	fixture.env = append(service.env(fixture.dataDir, ""), onePluginPerKindEnv(t), "TENANTRY_PUBLIC_URL=https://api.tenantry-here.test")
	service.newAccount(fixture.env, "ann@example.com", "complete", 0)
	service.runCommand(fixture.env, "keyset", "create")
	return fixture
}

// withEnv returns the environment of the fixture with changed variables.
func (f doctorFixture) withEnv(changes ...string) []string {
	return append(slices.Clone(f.env), changes...)
}

// TestDoctorPassesOnAHealthyService runs doctor with Redis before the service starts, and without
// Redis while the service runs. It checks that the first run changes no file of the data folder.
func TestDoctorPassesOnAHealthyService(t *testing.T) {
	t.Parallel()
	fixture := newDoctorFixture(t)
	before := folderDigest(t, fixture.dataDir)
	report, checks := runDoctorUntilOK(t, fixture.withEnv("TENANTRY_REDIS_URL="+redisDouble(t)), checkIDs...)
	checkValues(t, report, object{"status": doctor.OK})
	if after := folderDigest(t, fixture.dataDir); after != before {
		t.Errorf("doctor changed the data folder:\n%s\nwas\n%s", after, before)
	}
	for id, wantText := range map[string]string{
		"public_url": "https://api.tenantry-here.test/connect/microsoft365/signin", "mail_platform": "Microsoft 365 answers",
		"redis": "Redis answers", "migrations": "applied", "clock": "mail platform's", "plugins": "microsoft365",
	} {
		if !strings.Contains(checks[id].text("summary"), wantText) {
			t.Errorf("check %s is %v, want the summary to contain %q", id, checks[id], wantText)
		}
	}
	fixture.service.serve(fixture.env)
	report, checks = runDoctorUntilOK(t, fixture.env, checkIDs...)
	checkValues(t, report, object{"status": doctor.OK})
	checkValues(t, checks["redis"], object{"summary": "not configured: counters are kept in the process"})
	var table commandResult
	client{t: t}.eventually("doctor prints no fixes", func() bool {
		table = runTenantry(t, fixture.env, "doctor")
		return !strings.Contains(table.stdout, "fix:")
	})
	if table.code != 0 || table.stderr != "" || !strings.Contains(table.stdout, "\ntenantry ") {
		t.Errorf("doctor: exit code %d, want 0 and a table: %s%s", table.code, table.stdout, table.stderr)
	}
}

// TestDoctorShowsWhatPluginsMayUse checks that doctor shows the resource limits of plugins and the
// hosts to which they connect. A host can be fixed, or come from a setting or from the account.
func TestDoctorShowsWhatPluginsMayUse(t *testing.T) {
	t.Parallel()
	fixture := newDoctorFixture(t)
	_, checks := runDoctor(t, fixture.withEnv(allPlugins, "TENANTRY_PLUGIN_MEMORY_MIB=700", "TENANTRY_PLUGIN_PROCESSES=300", "TENANTRY_PLUGIN_OPEN_FILES=200",
		"TENANTRY_PROVIDERS_INSTANTLY_BASE_URL=https://instantly.example:8443"))
	processes := "300 processes"
	if os.Geteuid() == 0 || wire.InPIDNamespace() {
		processes = "processes not limited" // the limit is not in force
	}
	statements := strings.Split(checks["plugins"].text("summary"), "; ")
	for _, want := range []string{
		"limits of each process: 700 MiB of memory, " + processes + ", 200 open files",
		"cloudflare connects only to api.cloudflare.com", "instantly connects only to instantly.example",
		"powerdns connects only to <api_url of the account>", "rfc2136 connects only to <server of the account>",
	} {
		if !slices.Contains(statements, want) {
			t.Errorf("the summary of plugins has the statements %q, want also %q", statements, want)
		}
	}
}

// TestDoctorCreatesNoFiles runs doctor without a data folder and checks that doctor does not create
// the folder.
func TestDoctorCreatesNoFiles(t *testing.T) {
	t.Parallel()
	dataDir := filepath.Join(t.TempDir(), "data")
	report, checks := runDoctor(t, []string{"TENANTRY_DATA_DIR=" + dataDir})
	checkValues(t, report, object{"status": doctor.Failed})
	for id, status := range map[string]string{
		"database": doctor.Warning, "migrations": doctor.Warning, "keyset": doctor.Warning, "public_url": doctor.Warning,
		"plugins": doctor.OK, "mail_platform": doctor.Failed, "redis": doctor.OK, "credentials": doctor.OK,
	} {
		checkValues(t, checks[id], object{"status": status})
	}
	if _, err := os.Stat(dataDir); !os.IsNotExist(err) {
		t.Errorf("doctor created the data folder: %v", err)
	}
	table := runTenantry(t, []string{"TENANTRY_DATA_DIR=" + dataDir}, "doctor")
	if table.code != cli.ExitRefused || table.stderr != "" || strings.Count(table.stdout, "fix: ") < 5 {
		t.Errorf("doctor: exit code %d, want a refusal and a table with at least 5 fixes: %s%s", table.code, table.stdout, table.stderr)
	}
}

// TestDoctorEndsWhenServersDoNotAnswer checks that doctor ends although the mail platform and Redis
// never answer. The checks that need neither server must succeed.
func TestDoctorEndsWhenServersDoNotAnswer(t *testing.T) {
	t.Parallel()
	fixture := newDoctorFixture(t)
	env := fixture.withEnv("TENANTRY_PROVIDERS_MICROSOFT365_LOGIN_URL="+silentServer(t), "TENANTRY_REDIS_URL=redis"+strings.TrimPrefix(silentServer(t), "http"))
	_, checks := runDoctorUntilOK(t, env, "database", "migrations", "keyset", "public_url", "plugins", "dns", "credentials")
	checkValues(t, checks["mail_platform"], object{"status": doctor.Failed})
	checkValues(t, checks["redis"], object{"status": doctor.Failed})
	checkValues(t, checks["clock"], object{"status": doctor.Warning})
}

// TestDoctorRefusesInvalidSettings checks that doctor ends with a usage error for invalid settings
// that none of its checks covers.
func TestDoctorRefusesInvalidSettings(t *testing.T) {
	t.Parallel()
	for _, variable := range []string{"TENANTRY_LISTEN=nonsense", "TENANTRY_LOG_LEVEL=loud", "TENANTRY_CIRCUIT_OPEN=0s"} {
		runTenantry(t, []string{variable}, "doctor").checkFailure(t, cli.ExitUsage)
	}
}

func folderDigest(t *testing.T, dir string) string {
	t.Helper()
	var digest strings.Builder
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		raw, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		info, err := d.Info()
		fmt.Fprintf(&digest, "%s %s %x\n", d.Name(), info.Mode(), sha256.Sum256(raw))
		return err
	})
	must(t, err)
	return digest.String()
}

// TestDoctorReportsEachFault breaks one thing at a time in a healthy service, and checks status,
// summary and fix of the affected check. Outside a soak it uses a sample of the cases.
func TestDoctorReportsEachFault(t *testing.T) {
	t.Parallel()
	fixture := newDoctorFixture(t)
	const closedPort = "127.0.0.1:1"
	const secret = "canary-71be"
	newFile := func(text string, mode os.FileMode) string { return writeTempFile(t, text, mode) }
	emptyFile, database := newFile("", 0o600), filepath.Join(fixture.dataDir, "tenantry.db")
	provider := func(name, value string) string { return "TENANTRY_PROVIDERS_MICROSOFT365_" + name + "=" + value }
	clockOffset := func(offset time.Duration) string { return provider("LOGIN_URL", serverWithClock(t, offset)) }
	clientCertificate := func(path string) []string {
		return []string{provider("CLIENT_SECRET_FILE", ""), provider("CLIENT_CERTIFICATE_FILE", path)}
	}
	tlsCertificate := func(path string) []string {
		return []string{"TENANTRY_TLS_CERTIFICATE_FILE=" + path, "TENANTRY_TLS_KEY_FILE=" + path}
	}
	dateIn := func(days int) string { return time.Now().AddDate(0, 0, days).Format(time.DateOnly) }
	cases := []struct {
		id, name             string // id is that of the affected check
		changedEnv           []string
		wantStatus           string
		wantSummary, wantFix string // regular expressions
	}{
		{"database", "nobody listens", []string{"TENANTRY_DATABASE_URL=postgres://ann:" + secret + "@" + closedPort + "/x"}, doctor.Failed,
			"does not answer at " + closedPort, "database_url"},
		{"database", "a file that is not a database", []string{"TENANTRY_DATABASE_URL=sqlite://" + newFile(strings.Repeat("nonsense", 200), 0o600)}, doctor.Failed,
			"not a database", "database_url"},
		{"database", "a missing file", []string{"TENANTRY_DATABASE_URL=sqlite:///nonexistent/x.db"}, doctor.Warning, "no database yet", "tenantry migrate"},
		{"database", "a file that its group can read", []string{"TENANTRY_DATABASE_URL=sqlite://" + copyTempFile(t, database, 0o640)}, doctor.Warning, "open to users other than its owner", "^chmod 600 /"},
		{"database", "a different journal mode", []string{"TENANTRY_DATABASE_URL=sqlite://" + emptyFile}, doctor.Warning, "journal mode delete", "tenantry serve"},
		{"migrations", "an empty file", []string{"TENANTRY_DATABASE_URL=sqlite://" + emptyFile}, doctor.Warning, `\d migrations are pending`, "tenantry migrate"},
		{"migrations", "the database is down", []string{"TENANTRY_DATABASE_URL=postgres://ann@" + closedPort + "/x"}, doctor.Warning, "database must pass first", "database"},
		{"keyset", "a file that others can read", []string{"TENANTRY_KEYSET_FILE=" + copyTempFile(t, filepath.Join(fixture.dataDir, "keyset.json"), 0o644)}, doctor.Failed, "open to users other than its owner", "^chmod 600 /"},
		{"keyset", "a file that is not a keyset", []string{"TENANTRY_KEYSET_FILE=" + newFile("{}", 0o600)}, doctor.Failed, "is not a keyset", "backup"},
		{"keyset", "a missing file", []string{"TENANTRY_KEYSET_FILE=/nonexistent/keyset.json"}, doctor.Warning, "no keyset yet", "tenantry keyset create"},
		{"public_url", "not set", []string{"TENANTRY_PUBLIC_URL="}, doctor.Warning, "the address of listen.*redirect URIs to register", "TENANTRY_PUBLIC_URL.*https://"},
		{"public_url", "not set, with TLS", append(tlsCertificate(certificateFile(t, -time.Hour, 90*24*time.Hour, true)), "TENANTRY_PUBLIC_URL="), doctor.Warning, "listen, https://", "https://"},
		{"public_url", "not https", []string{"TENANTRY_PUBLIC_URL=http://tenantry.example"}, doctor.Failed, "neither https", "https://"},
		{"public_url", "with a password", []string{"TENANTRY_PUBLIC_URL=https://ann:" + secret + "@tenantry.example"}, doctor.Failed, "a query, a fragment or a user", "https://"},
		{"public_url", "no such host", []string{"TENANTRY_PUBLIC_URL=https://gone.tenantry-here.test"}, doctor.Failed, "does not resolve", "gone.tenantry-here.test"},
		{"public_url", "this machine", []string{"TENANTRY_PUBLIC_URL=https://127.0.0.1:8443"}, doctor.Warning, "own address", "https://"},
		{"plugins", "no catalog", []string{"TENANTRY_PLUGIN_DIR=" + t.TempDir()}, doctor.Failed, "no plugin catalog", "tenantry plugin add"},
		{"plugins", "a changed file", []string{"TENANTRY_PLUGIN_DIR=" + tamperedPlugins(t)}, doctor.Failed, "SHA-256", "tenantry plugin add"},
		{"plugins", "a missing file", []string{"TENANTRY_PLUGIN_DIR=" + testserver.PluginsWithout(t, "dns-cloudflare")}, doctor.Failed, "cloudflare does not start: .*dns-cloudflare: no such file", "put the file of the plugin back"},
		{"plugins", "a missing interpreter", []string{"TENANTRY_PLUGIN_DIR=" + pluginsWithoutInterpreter(t)}, doctor.Failed, "cloudflare does not start: .*dns-cloudflare: no such file", "install the interpreter"},
		{"mail_platform", "down", []string{provider("LOGIN_URL", "http://"+closedPort)}, doctor.Failed, "down or cannot be reached", "status page.*login_url"},
		{"mail_platform", "wrong secret", []string{provider("CLIENT_SECRET_FILE", newFile(secret, 0o600))}, doctor.Failed, `refuses the configured application: .*secret.* \(AADSTS7000215\)`, "credential"},
		{"mail_platform", "a different client id", []string{provider("CLIENT_ID", "c0a8f7de-3b51-4d7e-9f55-7a2f0d6e1b90")}, doctor.Failed, "refuses the configured application: .*client id", "client id"},
		{"mail_platform", "no client id", []string{provider("CLIENT_ID", "")}, doctor.Failed, "not configured: client_id missing", "MICROSOFT365_CLIENT_ID"},
		{"mail_platform", "no credential", []string{provider("CLIENT_SECRET_FILE", "")}, doctor.Failed, "not configured: client_secret_file or", "CLIENT_SECRET_FILE or "},
		{"provider_settings", "an unknown setting", []string{provider("CLEINT_ID", "x")}, doctor.Failed, "cleint_id.*client_id", "correct or remove"},
		{"mail_platform", "an invalid value of a setting", []string{provider("PACING", "slow")}, doctor.Failed, "not configured: .*pacing", "tenantry config"},
		{"plugins", "no such mail platform", []string{"TENANTRY_MAIL_PLATFORM=exchange"}, doctor.Failed, "no mail plugin exchange; .*: microsoft365", "correct mail_platform"},
		{"mail_platform", "no plugin", []string{"TENANTRY_PLUGIN_DIR=" + t.TempDir()}, doctor.Warning, "plugins must pass first", "plugins"},
		{"dns", "no resolver", []string{"TENANTRY_DNS_RESOLVERS=" + closedPort}, doctor.Failed, "no resolver answers: " + closedPort, "dns_resolvers"},
		{"dns", "one of two resolvers answers", []string{"TENANTRY_DNS_RESOLVERS=" + closedPort + "," + fixture.resolver()}, doctor.Warning, "1 of 2 resolvers", "dns_resolvers"},
		{"dns", "a wrong port", []string{"TENANTRY_DNS_PORT=1"}, doctor.Failed, "on port 1:", "port 1 of any address"},
		{"dns", "recursive mode", []string{"TENANTRY_DNS_MODE=recursive"}, doctor.Warning, "dns_mode is recursive", "set dns_mode to authoritative"},
		{"dns", "no such mode", []string{"TENANTRY_DNS_MODE=both"}, doctor.Failed, "neither authoritative nor recursive", "dns_mode"},
		{"dns", "private addresses are forbidden", []string{"TENANTRY_DNS_ALLOW_PRIVATE=false"}, doctor.Failed, "ns_address_forbidden", "dns_allow_private"},
		{"dns", "an invalid resolver", []string{"TENANTRY_DNS_RESOLVERS=resolver"}, doctor.Failed, "not host:port", "dns_resolvers"},
		{"redis", "nobody listens", []string{"TENANTRY_REDIS_URL=redis://:" + secret + "@" + closedPort + "/0"}, doctor.Failed, "does not answer", "TENANTRY_REDIS_URL"},
		{"redis", "not a Redis URL", []string{"TENANTRY_REDIS_URL=http://:" + secret + "@redis.example"}, doctor.Failed, "redis://", "TENANTRY_REDIS_URL"},
		// The measured offset is too low or too high by up to half of the response time.
		{"clock", "half a minute off", []string{clockOffset(30 * time.Second)}, doctor.Warning, `\b[1-4]\ds from the mail platform`, "NTP"},
		{"clock", "two minutes off", []string{clockOffset(-2 * time.Minute)}, doctor.Failed, "from the mail platform", "NTP"},
		{"credentials", "a missing file", []string{provider("CLIENT_SECRET_FILE", "/nonexistent/secret")}, doctor.Failed, "cannot be read: no such file", "/nonexistent/secret"},
		{"credentials", "an empty file", []string{provider("CLIENT_SECRET_FILE", newFile("\n", 0o600))}, doctor.Failed, "empty", "write the secret"},
		{"credentials", "a file that others can read", []string{provider("CLIENT_SECRET_FILE", newFile(secret, 0o644))}, doctor.Warning, "open to others", "chmod 600"},
		{"credentials", "the certificate expires soon", clientCertificate(certificateFile(t, -24*time.Hour, 10*24*time.Hour, true)), doctor.Warning, "expires on", "new certificate"},
		{"credentials", "the certificate has expired", clientCertificate(certificateFile(t, -48*time.Hour, -24*time.Hour, true)), doctor.Failed, "expired on", "new certificate"},
		{"credentials", "the certificate is not valid yet", clientCertificate(certificateFile(t, 24*time.Hour, 48*time.Hour, true)), doctor.Failed, "not valid before", "new certificate"},
		{"credentials", "the key of a different certificate", clientCertificate(certificateFile(t, -time.Hour, 90*24*time.Hour, false)), doctor.Failed, "private key does not match", "new certificate"},
		{"credentials", "a file without a certificate", clientCertificate(newFile(secret, 0o600)), doctor.Failed, "no PEM", "new certificate"},
		{"credentials", "the secret expires soon", []string{provider("CREDENTIAL_EXPIRES", dateIn(7))}, doctor.Warning, "the secret expires on", "new secret"},
		{"credentials", "the secret has expired", []string{provider("CREDENTIAL_EXPIRES", dateIn(-7))}, doctor.Failed, "the secret expired on", "new secret"},
		{"credentials", "the TLS certificate expires soon", tlsCertificate(certificateFile(t, -24*time.Hour, 10*24*time.Hour, true)), doctor.Warning, "^tls_certificate_file: .*expires on", "tls_key_file"},
		{"credentials", "the TLS certificate has expired", tlsCertificate(certificateFile(t, -48*time.Hour, -24*time.Hour, true)), doctor.Failed, "tls_certificate_file: .*expired on", "renew"},
		{"credentials", "the TLS certificate is missing", tlsCertificate("/nonexistent/pem"), doctor.Failed, "tls_certificate_file cannot be read: no such file", "/nonexistent/pem"},
		{"credentials", "the TLS key is open to others", tlsCertificate(makeReadableByAll(t, certificateFile(t, -time.Hour, 90*24*time.Hour, true))), doctor.Warning, "tls_key_file is open to others", "chmod 600"},
		{"credentials", "an invalid date", []string{provider("CREDENTIAL_EXPIRES", "soon")}, doctor.Failed, "not a date", "2027-01-31"},
	}
	for _, tc := range soak.Sample(t, cases, 15) {
		t.Run(tc.id+" "+tc.name, func(t *testing.T) {
			t.Parallel()
			unaffectedID := "dns"
			switch {
			case tc.id == "dns" && tc.wantStatus == doctor.Warning:
				unaffectedID = "public_url" // a resolver answers
			case tc.id == "dns":
				unaffectedID = "plugins"
			}
			var report, check object
			var checks map[string]object
			defer func() {
				if t.Failed() {
					t.Logf("the check is %v, want the status %s, a summary that matches %q and a fix that matches %q", check, tc.wantStatus, tc.wantSummary, tc.wantFix)
					t.Logf("the check %v must be ok", checks[unaffectedID])
				}
			}()
			// If a response is too late on a busy machine, doctor reports a different fault.
			client{t: t}.eventually("doctor reports the fault", func() bool {
				report, checks = runDoctor(t, fixture.withEnv(tc.changedEnv...))
				check = checks[tc.id]
				return check.text("status") == tc.wantStatus && regexp.MustCompile(tc.wantSummary).MatchString(check.text("summary")) &&
					regexp.MustCompile(tc.wantFix).MatchString(check.text("fix")) && checks[unaffectedID].text("status") == doctor.OK
			})
			if tc.wantStatus == doctor.Failed && report.text("status") != doctor.Failed {
				t.Errorf("the overall status is %s, want failed", report.text("status"))
			}
			for id, reported := range checks {
				if strings.Contains(reported.text("summary")+reported.text("fix"), secret) {
					t.Errorf("the check %s contains a secret", id)
				}
			}
		})
	}
}

// TestDoctorChecksPostgreSQL runs doctor on a database without migrations, with all migrations and
// of a newer release. It also runs doctor on a read-only database, a database that refuses the
// user, and a database that does not exist.
func TestDoctorChecksPostgreSQL(t *testing.T) {
	t.Parallel()
	fixture := newDoctorFixture(t)
	databaseURL := testserver.Database(t)
	env := fixture.withEnv("TENANTRY_DATABASE_URL=" + databaseURL)
	checkDiagnosis := func(env []string, id, wantStatus, wantSummary, wantFix string) {
		t.Helper()
		var check object
		defer func() {
			if t.Failed() {
				t.Logf("the check is %v, want the status %s, %q in the summary and %q in the fix", check, wantStatus, wantSummary, wantFix)
			}
		}()
		client{t: t}.eventually("the check "+id+" has the wanted result", func() bool {
			_, checks := runDoctor(t, env)
			check = checks[id]
			return check.text("status") == wantStatus && strings.Contains(check.text("summary"), wantSummary) && strings.Contains(check.text("fix"), wantFix)
		})
	}
	checkDiagnosis(env, "migrations", doctor.Failed, "pending", "tenantry migrate")
	fixture.service.runCommand(env, "migrate")
	_, checks := runDoctorUntilOK(t, env, "database", "migrations", "clock")
	if !strings.Contains(checks["clock"].text("summary"), "the database's") {
		t.Errorf("the check clock is %v, want a comparison with the clock of the database", checks["clock"])
	}
	withOption := func(option string) []string {
		return fixture.withEnv("TENANTRY_DATABASE_URL=" + testserver.WithParameter(databaseURL, option))
	}
	checkDiagnosis(withOption("default_transaction_read_only=on"), "database", doctor.Failed, "accepts no writes", "privilege to write")
	checkDiagnosis(withOption("user=nobody-here"), "database", doctor.Failed, "refuses the user or its password", "database_url")
	checkDiagnosis(withOption("dbname=nothing_here"), "database", doctor.Failed, "no such database", "database_url")
	runTenantry(t, withOption("dbname=nothing_here"), "account", "list").checkFailure(t, cli.ExitExternal)
	execPostgres(t, databaseURL, "INSERT INTO bun_migrations (name, group_id, migrated_at) VALUES ('29990101000000', 9, now())")
	checkDiagnosis(env, "migrations", doctor.OK, "of a newer tenantry", "")
	execPostgres(t, databaseURL, "UPDATE schema_release SET min_release = 99")
	checkDiagnosis(env, "migrations", doctor.Failed, "release 99", "newer tenantry")
}

// serverWithClock starts a server whose clock differs from the clock of this machine by offset.
func serverWithClock(t *testing.T, offset time.Duration) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Date", time.Now().Add(offset).UTC().Format(http.TimeFormat))
		w.WriteHeader(http.StatusBadRequest)
	}))
	t.Cleanup(s.Close)
	return s.URL
}
