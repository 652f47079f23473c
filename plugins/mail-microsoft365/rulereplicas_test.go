// SPDX-License-Identifier: Apache-2.0

package main

import (
	"slices"
	"testing"

	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/core/sendlimit"
)

// makeReadsLag makes reads of Exchange lag. For an hour, they show the state at the time of this
// call.
func (s *sendingTenant) makeReadsLag() {
	s.t.Helper()
	s.setBehaviour(s.t, s.tenantInfo.GUID, options{"exchange_replicas": options{"lag_ms": 3_600_000, "answers": "all"}})
}

// blockWhileReadsLag blocks mailboxes. Call it after makeReadsLag. It accepts the outcome NotReady:
// Block has changed the rule, but waited in vain for a read that shows the change.
func (s *sendingTenant) blockWhileReadsLag(scope string, mailboxes ...string) {
	s.t.Helper()
	if _, err := s.client.Block(s.t.Context(), scope, mailboxes); err != nil && outcome.KindOf(err) != outcome.NotReady {
		s.t.Fatalf("block %v: %v", mailboxes, err)
	}
}

// TestRemovalDoesNotDependOnReads removes rules that reads do not show yet, and rules that reads
// still show after the removal.
func TestRemovalDoesNotDependOnReads(t *testing.T) {
	env := newTestEnv(t)
	for _, tc := range []struct {
		name    string
		remove  func(*sendingTenant) error
		isShown bool // reads show the rule
	}{
		{"a rule that reads do not show", func(fixture *sendingTenant) error { return fixture.client.RemoveRule(t.Context(), fixture.domain) }, false},
		{"a rule that reads still show", func(fixture *sendingTenant) error { return fixture.client.RemoveRule(t.Context(), fixture.domain) }, true},
		{"all rules, while reads still show them", func(fixture *sendingTenant) error { return fixture.client.RemoveRules(t.Context()) }, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			fixture := newSendingTenant(t, env)
			if tc.isShown {
				fixture.block(fixture.domain, fixture.mailboxes[0])
			}
			fixture.makeReadsLag()
			fixture.blockWhileReadsLag(fixture.domain, fixture.mailboxes...)
			if got := fixture.managedRule(fixture.domain); got == "" {
				t.Fatal("no rule was created, want a rule of the domain")
			}
			if err := tc.remove(fixture); err != nil || len(fixture.rules()) != 0 {
				t.Errorf("the removal returns %v and leaves the rules %v, want no error and no rules", err, fixture.rules())
			}
			if err := tc.remove(fixture); err != nil {
				t.Errorf("the repeated removal returns %v, want no error", err)
			}
		})
	}
}

// TestBlockDoesNotTrustAnOldState changes a rule, and then requests the state that the rule had
// before and that reads still show. Block must write the rule although a read shows the requested
// state.
func TestBlockDoesNotTrustAnOldState(t *testing.T) {
	env := newTestEnv(t)
	firstMailbox, otherMailboxes := func(fixture *sendingTenant) []string { return fixture.mailboxes[:1] }, func(fixture *sendingTenant) []string { return fixture.mailboxes[1:] }
	noMailboxes := func(*sendingTenant) []string { return nil }
	remove := func(fixture *sendingTenant) {
		if err := fixture.client.RemoveRule(fixture.t.Context(), fixture.domain); err != nil {
			fixture.t.Fatal(err)
		}
	}
	for _, tc := range []struct {
		name   string
		shown  func(*sendingTenant) []string // the blocked mailboxes that reads show and that are requested
		change func(*sendingTenant)
	}{
		{"a disabled rule", firstMailbox, func(fixture *sendingTenant) { fixture.blockWhileReadsLag(fixture.domain) }},
		{"a rule with other senders", firstMailbox, func(fixture *sendingTenant) { fixture.blockWhileReadsLag(fixture.domain, otherMailboxes(fixture)...) }},
		{"a removed rule", firstMailbox, remove},
		{"a rule that was enabled", noMailboxes, func(fixture *sendingTenant) { fixture.blockWhileReadsLag(fixture.domain, firstMailbox(fixture)...) }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			fixture := newSendingTenant(t, env)
			fixture.block(fixture.domain, tc.shown(fixture)...)
			fixture.makeReadsLag()
			tc.change(fixture)
			fixture.blockWhileReadsLag(fixture.domain, tc.shown(fixture)...)
			if got, want := fixture.blockedSenders(), tc.shown(fixture); !slices.Equal(got, want) {
				t.Errorf("the blocked senders are %v, want %v; the rules are %v", got, want, fixture.rules())
			}
			if ruleName := sendlimit.RuleName(fixture.domain); len(fixture.rules()) > 1 {
				t.Errorf("want no rule except %s, got %v", ruleName, fixture.rules())
			}
		})
	}
}

// TestBlockOfAMissingMailboxIsRefusedWithAnOldState removes one of two blocked mailboxes and then
// requests to block both again. Reads still show a rule that blocks both, but Block must not
// succeed because of these reads.
func TestBlockOfAMissingMailboxIsRefusedWithAnOldState(t *testing.T) {
	env := newTestEnv(t)
	fixture := newSendingTenant(t, env)
	fixture.block(fixture.domain, fixture.mailboxes[:2]...)
	fixture.makeReadsLag()
	fixture.runAsAdministrator("Remove-Mailbox", options{"Identity": fixture.mailboxes[0]})
	if _, err := fixture.client.Block(t.Context(), fixture.domain, fixture.mailboxes[:2]); outcome.KindOf(err) != outcome.Refused {
		t.Errorf("got %v, want a refusal", err)
	}
}
