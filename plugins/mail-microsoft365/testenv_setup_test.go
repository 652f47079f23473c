// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"maps"
	"net/http"

	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/plugins/conformance"
	"github.com/tenantry/tenantry/plugins/sdk"
	"github.com/tenantry/tenantry/ports/contract"
)

type options = map[string]any

// noDelays makes the simulator finish all delayed work at once.
var noDelays = options{"consent_ms": 0, "role_ms": 0, "accepted_domain_ms": 0, "mailbox_ms": 0, "domain_ms": 0, "hydrate_ms": 0}

// setBehaviour changes settings of a tenant in the simulator. It does nothing if changes is nil.
func (env *testEnv) setBehaviour(t conformance.T, id tenant.GUID, changes options) {
	t.Helper()
	if changes == nil {
		return
	}
	env.control(t, http.MethodPost, "/tenants/"+string(id)+"/behaviour", changes)
}

// busyOnce returns a value for the simulator's setting "cmdlets". With this value, the next run of
// cmdlet fails with status 400 and ServerBusyException.
func busyOnce(cmdlet string) options {
	return options{cmdlet: options{"times": 1, "exception": options{"type": "Microsoft.ServerBusyException", "text": "Please try again."}}}
}

// consentedTenant creates a tenant whose administrator has given consent.
func (env *testEnv) consentedTenant(t conformance.T, s contract.Setup, changes options) (contract.Tenant, sdk.MailTenant) {
	t.Helper()
	tenantInfo := env.NewTenant(t, s)
	env.setBehaviour(t, tenantInfo.GUID, noDelays)
	page, err := env.platform.ConsentURL(t.Context(), "s", "http://127.0.0.1:8080/connect/microsoft365/callback")
	if err != nil {
		t.Fatal(err)
	}
	if id, err := env.platform.Granted(t.Context(), env.Visit(t, page, tenantInfo.Admin, true)); err != nil || id != tenantInfo.GUID {
		t.Fatalf("the consent is for %q, %v, want %q", id, err, tenantInfo.GUID)
	}
	env.setBehaviour(t, tenantInfo.GUID, changes)
	return tenantInfo, env.platform.For(tenantInfo.GUID)
}

// preparedTenant creates a tenant whose bootstrap is complete.
func (env *testEnv) preparedTenant(t conformance.T, changes options) (contract.Tenant, sdk.MailTenant) {
	t.Helper()
	tenantInfo, client := env.consentedTenant(t, contract.Setup{}, nil)
	if p, err := client.Bootstrap(t.Context()); err != nil || p.Status != tenant.BootstrapReady {
		t.Fatalf("the bootstrap is %+v, %v, want ready", p, err)
	}
	env.setBehaviour(t, tenantInfo.GUID, maps.Clone(changes))
	return tenantInfo, client
}

// mailDomain adds a domain that Exchange accepts.
func (env *testEnv) mailDomain(t conformance.T, client sdk.MailTenant) string {
	t.Helper()
	name := env.NewZone(t)
	if _, err := client.AddDomain(t.Context(), name); err != nil {
		t.Fatal(err)
	}
	records, err := client.Records(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	env.Publish(t, name, records.Verification[0])
	if _, err := client.VerifyDomain(t.Context(), name); err != nil {
		t.Fatal(err)
	}
	if err := client.EnableMail(t.Context(), name); err != nil {
		t.Fatal(err)
	}
	return name
}

// calls returns the number of requests that the simulator received, keyed by operation (for
// Exchange, the cmdlet), and also by method and path.
func (env *testEnv) calls(t conformance.T) map[string]int {
	t.Helper()
	var list []struct{ Method, Path, Operation string }
	env.Control(t, http.MethodGet, "/calls", nil, &list)
	counts := map[string]int{}
	for _, call := range list {
		if call.Operation != "" {
			counts[call.Operation]++
		}
		counts[call.Method+" "+call.Path]++
	}
	return counts
}

func (env *testEnv) injectFault(t conformance.T, f options) {
	t.Helper()
	env.control(t, http.MethodPost, "/faults", f)
	t.Cleanup(func() { env.control(t, http.MethodDelete, "/faults", nil) })
}

// expectOutcome checks the kind of the outcome of err and, if code is not empty, its error code.
func expectOutcome(t conformance.T, err error, kind outcome.Kind, code fault.Code) {
	t.Helper()
	if outcome.KindOf(err) != kind || (code.Name != "" && !errors.Is(err, code)) {
		t.Fatalf("got %v, want %s %s", err, kind, code.Name)
	}
}
