// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tenantry/tenantry/adapters/sandbox/zones"
	"github.com/tenantry/tenantry/app/cli"
	"github.com/tenantry/tenantry/app/doctor"
)

var checkIDs = strings.Fields("database migrations keyset public_url plugins mail_platform dns redis clock credentials")

// examined runs doctor and gives its report and its checks by id.
func examined(t *testing.T, env []string) (object, map[string]object) {
	t.Helper()
	o := operate(t, env, "doctor", "-o", "json")
	var report object
	if err := json.Unmarshal([]byte(o.output), &report); err != nil || o.errors != "" {
		t.Fatalf("exit code %d, %v\n%s%s", o.code, err, o.output, o.errors)
	}
	has(t, "doctor", report, "status version checks")
	if failed := report.text("status") == doctor.Failed; failed != (o.code == cli.ExitRefused) || (!failed && o.code != 0) {
		t.Errorf("status %s with exit code %d", report.text("status"), o.code)
	}
	checks := map[string]object{}
	var ids []string
	for _, c := range report.objects("checks") {
		has(t, "check", c, "id status summary fix duration_ms")
		if (c.text("status") == doctor.OK) != (c.text("fix") == "") || c.text("summary") == "" {
			t.Errorf("a check that is ok has no fix, every other has one: %v", c)
		}
		ids = append(ids, c.text("id"))
		checks[c.text("id")] = c
	}
	if !slices.Equal(ids, checkIDs) {
		t.Errorf("checks %v, want %v", ids, checkIDs)
	}
	return report, checks
}

// patient is a service in the sandbox's world of which doctor finds nothing
// wrong. It is shared by tests that change only what they tell doctor.
type patient struct {
	rig  *rig
	data string
	env  []string
}

func newPatient(t *testing.T) patient {
	t.Helper()
	r := newRig(t, binary(t, release))
	if err := r.zones.Add("tenantry-here.test", "manual"); err != nil {
		t.Fatal(err)
	}
	here := zones.Record{Type: "A", Name: "api.tenantry-here.test", Content: "192.0.2.80", TTL: 60}
	if err := r.zones.Replace("tenantry-here.test", []zones.Record{here}); err != nil {
		t.Fatal(err)
	}
	p := patient{rig: r, data: t.TempDir()}
	p.env = append(r.env(p.data, ""), "TENANTRY_PUBLIC_URL=https://api.tenantry-here.test")
	r.account(p.env, "ann@example.com", "complete", 0)
	r.command(p.env, "keyset", "create")
	return p
}

// with is the patient's environment, changed.
func (p patient) with(changes ...string) []string { return append(slices.Clone(p.env), changes...) }

// TestDoctorFindsNothingWrong: before the service starts, while it runs, and
// with a Redis. Nothing in its folder changes.
func TestDoctorFindsNothingWrong(t *testing.T) {
	t.Parallel()
	p := newPatient(t)
	before := fingerprint(t, p.data)
	report, checks := examined(t, p.with("TENANTRY_REDIS_URL="+redisDouble(t)))
	for id, check := range checks {
		if check.text("status") != doctor.OK {
			t.Errorf("%s: %v", id, check)
		}
	}
	sees(t, report, object{"status": doctor.OK})
	if after := fingerprint(t, p.data); after != before {
		t.Errorf("doctor changed the data folder:\n%s\nwas\n%s", after, before)
	}
	for id, says := range map[string]string{
		"public_url": "https://api.tenantry-here.test/connect/microsoft365/signin", "mail_platform": "Microsoft 365 answers",
		"redis": "Redis answers", "migrations": "applied", "clock": "mail platform's", "plugins": "microsoft365",
	} {
		if !strings.Contains(checks[id].text("summary"), says) {
			t.Errorf("%s: %v lacks %q", id, checks[id], says)
		}
	}
	p.rig.serve(p.env)
	report, checks = examined(t, p.env)
	sees(t, report, object{"status": doctor.OK})
	sees(t, checks["redis"], object{"summary": "not configured: counters are kept in the process"})
	table := operate(t, p.env, "doctor")
	if table.code != 0 || table.errors != "" || !strings.Contains(table.output, "\ntenantry ") || strings.Contains(table.output, "fix:") {
		t.Errorf("%d: %s%s", table.code, table.output, table.errors)
	}
}

// TestDoctorMakesNothing: on the first day there is nothing, and doctor says
// so without making any of it.
func TestDoctorMakesNothing(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), "data")
	report, checks := examined(t, []string{"TENANTRY_DATA_DIR=" + data})
	sees(t, report, object{"status": doctor.Failed})
	for id, status := range map[string]string{
		"database": doctor.Warning, "migrations": doctor.Warning, "keyset": doctor.Warning, "public_url": doctor.Warning,
		"plugins": doctor.OK, "mail_platform": doctor.Failed, "redis": doctor.OK, "credentials": doctor.OK,
	} {
		sees(t, checks[id], object{"status": status})
	}
	if _, err := os.Stat(data); !os.IsNotExist(err) {
		t.Errorf("doctor made the data folder: %v", err)
	}
	table := operate(t, []string{"TENANTRY_DATA_DIR=" + data}, "doctor")
	if table.code != cli.ExitRefused || table.errors != "" || strings.Count(table.output, "fix: ") < 5 {
		t.Errorf("%d: %s%s", table.code, table.output, table.errors)
	}
}

// TestDoctorKeepsItsDeadline checks that doctor ends although two servers never
// answer, and that the other checks succeed.
func TestDoctorKeepsItsDeadline(t *testing.T) {
	t.Parallel()
	p := newPatient(t)
	_, checks := examined(t, p.with("TENANTRY_PROVIDERS_MICROSOFT365_LOGIN_URL="+silentServer(t), "TENANTRY_REDIS_URL=redis"+strings.TrimPrefix(silentServer(t), "http")))
	sees(t, checks["mail_platform"], object{"status": doctor.Failed})
	sees(t, checks["redis"], object{"status": doctor.Failed})
	sees(t, checks["clock"], object{"status": doctor.Warning})
	for _, id := range []string{"database", "migrations", "keyset", "public_url", "plugins", "dns", "credentials"} {
		sees(t, checks[id], object{"status": doctor.OK})
	}
}

// TestDoctorRefusesWhatServeRefuses: settings that no check looks at.
func TestDoctorRefusesWhatServeRefuses(t *testing.T) {
	t.Parallel()
	for _, variable := range []string{"TENANTRY_LISTEN=nonsense", "TENANTRY_LOG_LEVEL=loud", "TENANTRY_CIRCUIT_OPEN=0s"} {
		operate(t, []string{variable}, "doctor").fails(t, cli.ExitUsage)
	}
}

// fingerprint tells whether anything in a folder changed.
func fingerprint(t *testing.T, dir string) string {
	t.Helper()
	var all strings.Builder
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		raw, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		info, err := d.Info()
		fmt.Fprintf(&all, "%s %s %x\n", d.Name(), info.Mode(), sha256.Sum256(raw))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all.String()
}
