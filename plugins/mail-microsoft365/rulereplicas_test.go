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
				t.Errorf("the removal returns %v and leaves the rules %v, want no error and no rules", err, s.rules())
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
	}{
		{"a disabled rule", firstMailbox, func(s *sendingTenant) { s.blockWhileReadsLag(s.domain) }},
		{"a rule with other senders", firstMailbox, func(s *sendingTenant) { s.blockWhileReadsLag(s.domain, otherMailboxes(s)...) }},
		{"a removed rule", firstMailbox, remove},
		{"a rule that was enabled", noMailboxes, func(s *sendingTenant) { s.blockWhileReadsLag(s.domain, firstMailbox(s)...) }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newSendingTenant(t, env)
			s.block(s.domain, tt.shown(s)...)
			s.makeReadsLag()
			tt.change(s)
			s.blockWhileReadsLag(s.domain, tt.shown(s)...)
			if got, want := s.blockedSenders(), tt.shown(s); !slices.Equal(got, want) {
				t.Errorf("the blocked senders are %v, want %v; the rules are %v", got, want, s.rules())
			}
			if ruleName := sendlimit.RuleName(s.domain); len(s.rules()) > 1 {
				t.Errorf("want no rule except %s, got %v", ruleName, s.rules())
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
