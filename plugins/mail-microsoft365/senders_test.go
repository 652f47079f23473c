// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/tenantry/tenantry/core/sendlimit"
	"github.com/tenantry/tenantry/plugins/mail-microsoft365/call"
	"github.com/tenantry/tenantry/plugins/sdk"
	"github.com/tenantry/tenantry/ports/contract"
)

// senderWorld is a tenant with three mailboxes and its administrator's.
type senderWorld struct {
	*world

	t      testing.TB
	who    contract.Tenant
	client sdk.MailTenant
	domain string
	boxes  []string // in order
}

func newSenders(t testing.TB, w *world) *senderWorld {
	t.Helper()
	who, c := w.prepared(t, nil)
	s := &senderWorld{world: w, t: t, who: who, client: c, domain: w.mailDomain(t, c)}
	for _, local := range []string{"anna", "ben", "cleo"} {
		if _, err := c.CreateMailbox(t.Context(), spec(local+"@"+s.domain)); err != nil {
			t.Fatal(err)
		}
		s.boxes = append(s.boxes, local+"@"+s.domain)
	}
	return s
}

// all are the addresses that send: the shared mailboxes and the administrator's.
func (s *senderWorld) all() []string { return append(slices.Clone(s.boxes), s.who.Admin) }

// rules are the tenant's as the platform holds them.
func (s *senderWorld) rules() []any {
	s.t.Helper()
	list, _ := s.control(s.t, http.MethodGet, "/tenants/"+string(s.who.GUID), nil)["rules"].([]any)
	return list
}

// ours is the one rule of a scope as the platform holds it: "" is none.
func (s *senderWorld) ours(scope string) string {
	s.t.Helper()
	for _, r := range s.rules() {
		if rule, _ := r.(map[string]any); rule["name"] == sendlimit.RuleName(scope) {
			return fmt.Sprint(rule["enabled"], rule["blocks"])
		}
	}
	return ""
}

// stopped sends a message from every mailbox and tells whose was stopped, as the
// trace says it.
func (s *senderWorld) stopped() []string {
	s.t.Helper()
	from := time.Now().UTC()
	for _, box := range s.all() {
		s.control(s.t, http.MethodPost, "/messages", knobs{"mailbox": box, "count": 1})
	}
	trace, err := s.client.Sent(s.t.Context(), sendlimit.TraceQuery{From: from, To: time.Now().Add(time.Minute), Senders: s.all()})
	if err != nil {
		s.t.Fatal(err)
	}
	seen, stopped := map[string]bool{}, []string{}
	for _, m := range trace.Sent {
		if seen[m.Sender] = true; m.Refused {
			stopped = append(stopped, m.Sender)
		}
	}
	if len(seen) != len(s.all()) {
		s.t.Fatalf("the trace shows %v", seen)
	}
	slices.Sort(stopped)
	return slices.Compact(stopped)
}

// asOther runs a cmdlet as the tenant's own administrator would.
func (s *senderWorld) asOther(cmdlet string, parameters map[string]any) {
	s.t.Helper()
	c, ok := s.client.(*client)
	if !ok {
		s.t.Fatal("no client")
	}
	if err := c.writeRule(s.t.Context(), call.Create, cmdlet, parameters); err != nil {
		s.t.Fatalf("%s: %v", cmdlet, err)
	}
}

func (s *senderWorld) block(scope string, list ...string) sendlimit.Rule {
	s.t.Helper()
	r, err := s.client.Block(s.t.Context(), scope, list)
	if err != nil {
		s.t.Fatalf("block %v: %v", list, err)
	}
	return r
}
