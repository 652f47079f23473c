// SPDX-License-Identifier: Apache-2.0

package main

import (
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

// blockWhileReadsLag blocks the mailboxes of list after makeReadsLag. It accepts the outcome
// NotReady: Block has changed the rule, but waited in vain for a read that shows the change.
func (s *sendingTenant) blockWhileReadsLag(scope string, list ...string) {
	s.t.Helper()
	if _, err := s.client.Block(s.t.Context(), scope, list); err != nil && outcome.KindOf(err) != outcome.NotReady {
		s.t.Fatalf("block %v: %v", list, err)
	}
}

// TestRemovalDoesNotDependOnReads removes rules that reads do not show yet, and rules that reads
// still show after the removal.
func TestRemovalDoesNotDependOnReads(t *testing.T) {
	env := newTestEnv(t)
	for _, tt := range []struct {
		name   string
		remove func(*sendingTenant) error
		shown  bool // reads show the rule
	}{
		{"a rule that reads do not show", func(s *sendingTenant) error { return s.client.RemoveRule(t.Context(), s.domain) }, false},
		{"a rule that reads still show", func(s *sendingTenant) error { return s.client.RemoveRule(t.Context(), s.domain) }, true},
		{"all rules, while reads still show them", func(s *sendingTenant) error { return s.client.RemoveRules(t.Context()) }, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newSendingTenant(t, env)
			if tt.shown {
				s.block(s.domain, s.mailboxes[0])
			}
			s.makeReadsLag()
			s.blockWhileReadsLag(s.domain, s.mailboxes...)
			if got := s.managedRule(s.domain); got == "" {
				t.Fatal("no rule was created")
			}
			if err := tt.remove(s); err != nil || len(s.rules()) != 0 {
				t.Errorf("the removal returns %v, left are %v, want no error and no rules", err, s.rules())
			}
			if err := tt.remove(s); err != nil {
				t.Errorf("the repeated removal returns %v, want no error", err)
			}
		})
	}
}

// TestBlockDoesNotTrustAnOldState changes a rule and then requests the state that reads still show.
func TestBlockDoesNotTrustAnOldState(t *testing.T) {
	env := newTestEnv(t)
	firstMailbox, otherMailboxes := func(s *sendingTenant) []string { return s.mailboxes[:1] }, func(s *sendingTenant) []string { return s.mailboxes[1:] }
	noMailboxes := func(*sendingTenant) []string { return nil }
	remove := func(s *sendingTenant) {
		if err := s.client.RemoveRule(s.t.Context(), s.domain); err != nil {
			s.t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		name   string
		shown  func(*sendingTenant) []string // the state that reads show, and that is requested
		change func(*sendingTenant)
		want   []string
	}{
		{"a disabled rule", firstMailbox, func(s *sendingTenant) { s.blockWhileReadsLag(s.domain) }, []string{"anna"}},
		{"a rule with other senders", firstMailbox, func(s *sendingTenant) { s.blockWhileReadsLag(s.domain, otherMailboxes(s)...) }, []string{"anna"}},
		{"a removed rule", firstMailbox, remove, []string{"anna"}},
		{"a rule that was enabled", noMailboxes, func(s *sendingTenant) { s.blockWhileReadsLag(s.domain, firstMailbox(s)...) }, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newSendingTenant(t, env)
			s.block(s.domain, tt.shown(s)...)
			s.makeReadsLag()
			tt.change(s)
			s.blockWhileReadsLag(s.domain, tt.shown(s)...)
			if got := s.blockedSenders(); len(got) != len(tt.want) || len(got) > 0 && got[0] != s.mailboxes[0] {
				t.Errorf("blocked are %v, want %v: %v", got, tt.want, s.rules())
			}
			if rule := sendlimit.RuleName(s.domain); len(s.rules()) > 1 {
				t.Errorf("want no rule except %s, got %v", rule, s.rules())
			}
		})
	}
}

// TestBlockOfAMissingMailboxIsRefusedWithAnOldState removes one of two blocked mailboxes and then
// requests to block both again. Reads still show a rule that blocks both, but Block must not
// succeed because of these reads.
func TestBlockOfAMissingMailboxIsRefusedWithAnOldState(t *testing.T) {
	env := newTestEnv(t)
	s := newSendingTenant(t, env)
	s.block(s.domain, s.mailboxes[:2]...)
	s.makeReadsLag()
	s.runAsAdministrator("Remove-Mailbox", options{"Identity": s.mailboxes[0]})
	if _, err := s.client.Block(t.Context(), s.domain, s.mailboxes[:2]); outcome.KindOf(err) != outcome.Refused {
		t.Errorf("got %v, want refused", err)
	}
}
