// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"net/http"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/tenantry/tenantry/plugins/conformance"
	"github.com/tenantry/tenantry/plugins/sdk"
	"github.com/tenantry/tenantry/plugins/sdk/simulate"

	"github.com/tenantry/tenantry/plugins/template/go-mail/simulator"
)

const tenantID = "11111111-2222-4333-8444-555555555555"

// TestBinary builds the plugin, starts it as tenantry does, and runs the checks of every plugin over
// it. When all methods of sdk.MailTenant are written, call conformance.Mail instead.
func TestBinary(t *testing.T) {
	path := filepath.Join(t.TempDir(), "mail-example")
	if out, err := exec.Command("go", "build", "-o", path, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	binary := conformance.Binary{Path: path}
	conformance.Plugin(t, binary)
	t.Run("the operations of a tenant", func(t *testing.T) {
		s := newSimulator(t)
		checkTenant(t, conformance.Platform(binary.Start(t), s.Connection(nil, nil)))
	})
}

// TestTenant runs the operations of a tenant over the code in this process, for a debugger.
func TestTenant(t *testing.T) {
	s := newSimulator(t)
	checkTenant(t, newPlatform(t, s.Connection(nil, nil)))
}

func checkTenant(t *testing.T, p sdk.MailPlatform) {
	t.Helper()
	if err := p.Check(t.Context()); err != nil {
		t.Errorf("check: %v", err)
	}
	tenant := p.For(tenantID)
	profile, err := tenant.Profile(t.Context())
	if want := (sdk.TenantProfile{Name: "Ann's", BuiltinDomain: "ann.mail.example"}); err != nil || profile != want {
		t.Errorf("profile: %+v, %v", profile, err)
	}
	want := sdk.MailDomain{Name: "one.test"}
	for range 2 { // a repeated call changes nothing
		if added, err := tenant.AddDomain(t.Context(), "one.test"); err != nil || added != want {
			t.Errorf("added: %+v, %v", added, err)
		}
	}
	if got, err := tenant.Domain(t.Context(), "one.test"); err != nil || got != want {
		t.Errorf("domain: %+v, %v", got, err)
	}
	if all, err := tenant.Domains(t.Context()); err != nil || !slices.Equal(all, []sdk.MailDomain{want}) {
		t.Errorf("domains: %+v, %v", all, err)
	}
	if o := outcomeOf(t, second(tenant.Domain(t.Context(), "two.test"))); o.Kind != sdk.Refused || o.Code.Name != "domain_not_found" {
		t.Errorf("a domain that is not there: %+v", o)
	}
	if o := outcomeOf(t, second(p.For("another").Profile(t.Context()))); o.Kind != sdk.Refused || o.Code.Name != "access_denied" {
		t.Errorf("a tenant that is not there: %+v", o)
	}
}

// TestFailures checks the outcome of a write for each failure of the platform.
func TestFailures(t *testing.T) {
	for name, c := range map[string]struct {
		fault simulate.Fault
		want  sdk.Outcome
	}{
		"the rate limit":            {simulate.Fault{Kind: simulate.Status, Status: http.StatusTooManyRequests, RetryAfter: 7}, sdk.Outcome{Kind: sdk.Throttled, RetryAfter: 7 * time.Second}},
		"out of service":            {simulate.Fault{Kind: simulate.Status, Status: http.StatusServiceUnavailable}, sdk.Outcome{Kind: sdk.Down}},
		"an internal error":         {simulate.Fault{Kind: simulate.Status, Status: http.StatusInternalServerError}, sdk.Outcome{Kind: sdk.Broken}},
		"the token is refused":      {simulate.Fault{Kind: simulate.Status, Status: http.StatusForbidden}, sdk.Outcome{Kind: sdk.Refused}},
		"the answer is lost":        {simulate.Fault{Kind: simulate.DropAfter}, sdk.Outcome{Kind: sdk.Unknown}},
		"the page of a proxy":       {simulate.Fault{Kind: simulate.HTML}, sdk.Outcome{Kind: sdk.Broken}},
		"JSON of a different shape": {simulate.Fault{Kind: simulate.WrongShape}, sdk.Outcome{Kind: sdk.Broken}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSimulator(t)
			c.fault.Times = 10 // net/http repeats a PUT once after a lost connection
			s.Control(t, http.MethodPost, "/faults", c.fault, nil)
			_, err := newPlatform(t, s.Connection(nil, nil)).For(tenantID).AddDomain(t.Context(), "one.test")
			if got := outcomeOf(t, err); got.Kind != c.want.Kind || got.RetryAfter.Round(time.Second) != c.want.RetryAfter {
				t.Fatalf("got %+v, want %+v", got, c.want)
			}
		})
	}
}

// newSimulator starts the simulator with one tenant.
func newSimulator(t *testing.T) *conformance.Simulator {
	t.Helper()
	s := conformance.Simulate(t, simulator.New)
	s.Control(t, http.MethodPut, "/tenants/"+tenantID, simulator.Tenant{Name: "Ann's", BuiltinDomain: "ann.mail.example"}, nil)
	return s
}

func newPlatform(t *testing.T, c sdk.Connection) sdk.MailPlatform {
	t.Helper()
	p, err := plugin().Mail(c)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func outcomeOf(t *testing.T, err error) *sdk.Outcome {
	t.Helper()
	var o *sdk.Outcome
	if !errors.As(err, &o) {
		t.Fatalf("got %v, want an outcome", err)
	}
	return o
}

func second[T any](_ T, err error) error { return err }
