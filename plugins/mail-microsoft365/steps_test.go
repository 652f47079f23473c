// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"testing"

	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/plugins/sdk"
	"github.com/tenantry/tenantry/ports/contract"
)

type knobs = map[string]any

// instantly makes the platform finish everything at once.
var instantly = knobs{"consent_ms": 0, "role_ms": 0, "accepted_domain_ms": 0, "mailbox_ms": 0, "domain_ms": 0, "hydrate_ms": 0}

func (w *world) behave(t testing.TB, id tenant.GUID, k knobs) {
	t.Helper()
	if k == nil {
		return
	}
	w.control(t, http.MethodPost, "/tenants/"+string(id)+"/behaviour", k)
}

// busyOnce has a cmdlet fail for a moment, by a name inside a 400.
func busyOnce(cmdlet string) knobs {
	return knobs{cmdlet: knobs{"times": 1, "exception": knobs{"type": "Microsoft.ServerBusyException", "text": "Please try again."}}}
}

// consented makes a tenant that gave its consent.
func (w *world) consented(t testing.TB, s contract.Setup, k knobs) (contract.Tenant, sdk.MailTenant) {
	t.Helper()
	who := w.NewTenant(t, s)
	w.behave(t, who.GUID, instantly)
	page, err := w.platform.ConsentURL(t.Context(), "s", "http://127.0.0.1:8080/connect/microsoft365/callback")
	if err != nil {
		t.Fatal(err)
	}
	if id, err := w.platform.Granted(t.Context(), w.Visit(t, page, who.Admin, true)); err != nil || id != who.GUID {
		t.Fatalf("consent: %s, %v", id, err)
	}
	w.behave(t, who.GUID, k)
	return who, w.platform.For(who.GUID)
}

// prepared makes a tenant whose mail server is ready.
func (w *world) prepared(t testing.TB, k knobs) (contract.Tenant, sdk.MailTenant) {
	t.Helper()
	who, c := w.consented(t, contract.Setup{}, nil)
	if p, err := c.Bootstrap(t.Context()); err != nil || p.Status != tenant.BootstrapReady {
		t.Fatalf("bootstrap: %+v, %v", p, err)
	}
	w.behave(t, who.GUID, maps.Clone(k))
	return who, c
}

// mailDomain makes a domain that the mail server accepts.
func (w *world) mailDomain(t testing.TB, c sdk.MailTenant) string {
	t.Helper()
	name := w.NewZone(t)
	if _, err := c.AddDomain(t.Context(), name); err != nil {
		t.Fatal(err)
	}
	records, err := c.Records(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	w.Publish(t, name, records.Verification[0])
	if _, err := c.VerifyDomain(t.Context(), name); err != nil {
		t.Fatal(err)
	}
	if err := c.EnableMail(t.Context(), name); err != nil {
		t.Fatal(err)
	}
	return name
}

// calls counts what the platform was asked, by operation or by method and path.
func (w *world) calls(t testing.TB) map[string]int {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, w.url+"/_control/calls", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	var list []struct{ Method, Path, Operation string }
	if err := json.NewDecoder(resp.Body).Decode(&list); err != nil {
		t.Fatal(err)
	}
	out := map[string]int{}
	for _, c := range list {
		if c.Operation != "" {
			out[c.Operation]++
		}
		out[c.Method+" "+c.Path]++
	}
	return out
}

func (w *world) fault(t testing.TB, f knobs) {
	t.Helper()
	w.control(t, http.MethodPost, "/faults", f)
	t.Cleanup(func() {
		r, err := http.NewRequest(http.MethodDelete, w.url+"/_control/faults", nil)
		if err != nil {
			t.Error(err)
			return
		}
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Error(err)
			return
		}
		_ = resp.Body.Close()
	})
}

// ends checks the kind of outcome and, for a refusal, its code.
func ends(t testing.TB, err error, kind outcome.Kind, code fault.Code) {
	t.Helper()
	if outcome.Of(err) != kind || (code.Name != "" && !errors.Is(err, code)) {
		t.Fatalf("got %v, want %s %s", err, kind, code.Name)
	}
}
