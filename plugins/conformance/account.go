// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"context"
	"crypto/rand"
	"errors"
	"strings"

	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/plugins/sdk"
	"github.com/tenantry/tenantry/plugins/wire"
	"github.com/tenantry/tenantry/ports/contract"
)

// accountChecks returns the checks that call the provider and are safe on a real account. They only
// read. With Options.Real, Test runs them against the real account, otherwise against the
// simulator.
func accountChecks(kind string) []contract.Check[*environment] {
	idPrefix := kind + "/account/"
	checks := []contract.Check[*environment]{
		{ID: idPrefix + "accepted", Proves: "the provider accepts the credential", Run: func(t T, e *environment) {
			if err := e.readCalls(t, e.process, e.connection())["Check"](callContext(t)); err != nil {
				t.Fatalf("Check failed: %v", err)
			}
		}},
	}
	switch kind {
	case string(wire.KindDNS):
		checks = append(checks, contract.Check[*environment]{ID: idPrefix + "no-such-zone", Proves: "a name that is nobody's zone is reported as no zone", Run: func(t T, e *environment) {
			name := strings.ToLower("nobody-has-" + rand.Text()[:12] + ".example")
			if z, err := e.dns(e.process, e.connection()).Zone(callContext(t), name); !dns.IsNoZone(err) {
				t.Fatalf("Zone(%q) returned %+v, %v, want the error for no zone", name, z, err)
			}
		}})
	case string(wire.KindSending):
		checks = append(checks, contract.Check[*environment]{ID: idPrefix + "no-such-mailbox", Proves: "an address that is not connected has no account", Run: func(t T, e *environment) {
			checkNoSuchMailbox(t, e.sending(e.process, e.connection()))
		}}, contract.Check[*environment]{ID: idPrefix + "list-ends", Proves: "the list of accounts ends, and names each account once", Run: func(t T, e *environment) {
			checkListEnds(t, e.sending(e.process, e.connection()))
		}}, contract.Check[*environment]{ID: idPrefix + "odd-workspace", Proves: "an invalid workspace_id is not reported as a failure of the platform", Run: checkOddWorkspace})
	}
	return checks
}

// callContext returns a context with the timeout callTimeout. The end of the test cancels it.
func callContext(t T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), callTimeout)
	t.Cleanup(cancel)
	return ctx
}

// maxPages is assumed to be larger than the number of pages of a real account.
const maxPages = 1000

func checkNoSuchMailbox(t T, platform sdk.SendingPlatform) {
	a, err := platform.Account(callContext(t), strings.ToLower(rand.Text()[:12])+"@nobody.example")
	if err != nil || a.Exists() {
		t.Fatalf("Account of an unknown address returned %+v, %v, want no account and no error", a, err)
	}
}

// checkOddWorkspace reads with ids that many HTTP clients refuse to send in a header. Accounts
// choose the id. If such an id counted as a failure of the platform, it could open the circuit
// breaker that the accounts of most platforms share.
func checkOddWorkspace(t T, e *environment) {
	for _, id := range []string{"a\nb", "日本"} {
		c := e.connection()
		c.Settings["workspace_id"] = id
		for name, read := range e.readCalls(t, e.process, c) {
			if err := read(callContext(t)); err != nil && outcome.KindOf(err) != outcome.Refused {
				t.Errorf("%s with the workspace_id %q returned %v, want the outcome refused", name, id, err)
			}
		}
	}
}

func checkListEnds(t T, platform sdk.SendingPlatform) {
	cursor, listedIDs := "", map[string]bool{}
	for range maxPages {
		page, err := platform.Accounts(callContext(t), cursor)
		if errors.Is(err, fault.CapabilityMissing) {
			t.Skipf("the platform does not list accounts")
		}
		if err != nil {
			t.Fatalf("Accounts failed: %v", err)
		}
		for _, a := range page.Accounts {
			if !a.Exists() || listedIDs[a.ID] {
				t.Fatalf("account %q is listed twice or has no id", a.ID)
			}
			listedIDs[a.ID] = true
		}
		if cursor = page.Next; cursor == "" {
			return
		}
	}
	t.Fatalf("the list does not end after %d pages", maxPages)
}
