// SPDX-License-Identifier: Apache-2.0

package simulator_test

import (
	"net/http"
	"testing"
)

func TestLaggingReplicaAnswersChosenGraphReads(t *testing.T) {
	for answers, want := range map[string]struct{ listed, found bool }{
		"lists": {false, true}, "objects": {true, false}, "all": {false, false}, "": {true, true},
	} {
		t.Run("answers "+answers, func(t *testing.T) {
			testTenant := startSimulator(t).newConnectedTenant()
			testTenant.setBehaviour(jsonObject{"domain_ms": 0, "graph_replicas": jsonObject{"lag_ms": 60_000, "answers": answers}})
			testTenant.graph("POST", "/domains", jsonObject{"id": domain})
			check := func(when string, listed, found bool) {
				t.Helper()
				if n := len(testTenant.graph("GET", "/domains", nil).rows()); (n == 2) != listed {
					t.Errorf("%s: %d domains are listed", when, n)
				}
				if answer := testTenant.graph("GET", "/domains/"+domain, nil); (answer.status == http.StatusOK) != found {
					t.Errorf("%s: the domain answers %d", when, answer.status)
				}
			}
			check("at once", want.listed, want.found)
			testTenant.control("POST", "/clock", jsonObject{"advance": "61s"})
			check("a minute later", true, true)
			testTenant.graph("DELETE", "/domains/"+domain, nil)
			check("deleted", !want.listed, !want.found)
		})
	}
}

func TestLaggingReplicaAnswersChosenExchangeReads(t *testing.T) {
	testTenant := newTenantWithMailbox(t)
	rows := func() int {
		return len(testTenant.exchange("Get-Mailbox", jsonObject{"RecipientTypeDetails": []string{"SharedMailbox"}, "ResultSize": "Unlimited"}).rows())
	}
	before := rows()
	testTenant.setBehaviour(jsonObject{"mailbox_ms": 0, "exchange_replicas": jsonObject{"lag_ms": 60_000, "answers": "lists"}})
	testTenant.newMailbox("bob@"+domain, "bob.d")
	if got := rows(); got != before {
		t.Errorf("%d mailboxes are listed at once, want %d", got, before)
	}
	if answer := testTenant.exchange("Get-Mailbox", jsonObject{"Identity": "bob@" + domain}); answer.status != http.StatusOK {
		t.Errorf("a read by address: %d %s", answer.status, answer.raw)
	}
	testTenant.control("POST", "/clock", jsonObject{"advance": "61s"})
	if got := rows(); got != before+1 {
		t.Errorf("%d mailboxes are listed a minute later, want %d", got, before+1)
	}
}

func TestReplicasDisagree(t *testing.T) {
	testTenant := startSimulator(t).newConnectedTenant()
	testTenant.setBehaviour(jsonObject{"domain_ms": 0, "graph_replicas": jsonObject{"lag_ms": 60_000, "answers": "alternate"}})
	testTenant.graph("POST", "/domains", jsonObject{"id": domain})
	seen := map[int]bool{}
	for range 2 {
		seen[testTenant.graph("GET", "/domains/"+domain, nil).status] = true
	}
	if !seen[http.StatusOK] || !seen[http.StatusNotFound] {
		t.Fatalf("two reads answered %v", seen)
	}
}
