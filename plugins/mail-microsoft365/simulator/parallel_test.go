// SPDX-License-Identifier: Apache-2.0

package simulator_test

import (
	"net/http"
	"sync"
	"testing"
)

// together runs fn n times at once and counts the statuses.
func together(n int, fn func() answer) map[int]int {
	var mu sync.Mutex
	var all sync.WaitGroup
	got := map[int]int{}
	for range n {
		all.Go(func() {
			a := fn()
			mu.Lock()
			got[a.status]++
			mu.Unlock()
		})
	}
	all.Wait()
	return got
}

// TestOneOfManyCreates: of creates at the same moment one succeeds.
func TestOneOfManyCreates(t *testing.T) {
	tn := ready(t)
	exchangeToken, graphToken := bearer(tn.token(exchangeScope)), bearer(tn.token(graphScope))
	mailboxes := together(12, func() answer { return tn.exchangeWith(exchangeToken, "", "New-Mailbox", box("bob@"+domain, "bob.d")) })
	if mailboxes[http.StatusOK] != 1 || mailboxes[http.StatusBadRequest] != 11 {
		t.Errorf("mailboxes: %v", mailboxes)
	}
	domains := together(12, func() answer { return tn.graphWith(graphToken, "POST", "/domains", m{"id": "new.example"}) })
	if domains[http.StatusCreated] != 1 || domains[http.StatusBadRequest] != 11 {
		t.Errorf("domains: %v", domains)
	}
}

// TestOneOfTwoTenantsVerifies: of two tenants that prove a domain at the same
// moment one gets it.
func TestOneOfTwoTenantsVerifies(t *testing.T) {
	s := start(t)
	tenants := []*tenant{s.connected(), s.connected()}
	for _, tn := range tenants {
		tn.graph("POST", "/domains", m{"id": domain})
		tn.publishProof(domain)
	}
	turns := make(chan *tenant, len(tenants))
	for _, tn := range tenants {
		turns <- tn
	}
	got := together(len(tenants), func() answer {
		tn := <-turns
		return tn.graph("POST", "/domains/"+domain+"/verify", nil)
	})
	if got[http.StatusOK] != 1 || got[http.StatusBadRequest] != 1 {
		t.Errorf("%v", got)
	}
}
