// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/tenantry/tenantry/core/sendlimit"
	"github.com/tenantry/tenantry/plugins/conformance"
	"github.com/tenantry/tenantry/plugins/mail-microsoft365/call"
	"github.com/tenantry/tenantry/plugins/sdk"
	"github.com/tenantry/tenantry/ports/contract"
)

// sendingTenant is a tenant with three shared mailboxes and the mailbox of its administrator.
type sendingTenant struct {
	*testEnv

	t          conformance.T
	tenantInfo contract.Tenant
	client     sdk.MailTenant
	domain     string
	mailboxes  []string // sorted
}

// newSendingTenant creates a prepared tenant with a domain for mail and the shared mailboxes.
func newSendingTenant(t conformance.T, env *testEnv) *sendingTenant {
	t.Helper()
	tenantInfo, client := env.preparedTenant(t, nil)
	s := &sendingTenant{testEnv: env, t: t, tenantInfo: tenantInfo, client: client, domain: env.mailDomain(t, client)}
	for _, local := range []string{"anna", "ben", "cleo"} {
		if _, err := client.CreateMailbox(t.Context(), mailboxSpec(local+"@"+s.domain)); err != nil {
			t.Fatal(err)
		}
		s.mailboxes = append(s.mailboxes, local+"@"+s.domain)
	}
	return s
}

// allSenders returns the shared mailboxes and the administrator's address.
func (s *sendingTenant) allSenders() []string {
	return append(slices.Clone(s.mailboxes), s.tenantInfo.Admin)
}

// rules returns the rules of the tenant in the simulator.
func (s *sendingTenant) rules() []any {
	s.t.Helper()
	list, _ := s.control(s.t, http.MethodGet, "/tenants/"+string(s.tenantInfo.GUID), nil)["rules"].([]any)
	return list
}

// managedRule returns the state and the senders of the managed rule of a scope, or "" if the
// simulator has no such rule.
func (s *sendingTenant) managedRule(scope string) string {
	s.t.Helper()
	for _, listed := range s.rules() {
		if rule, _ := listed.(map[string]any); rule["name"] == sendlimit.RuleName(scope) {
			return fmt.Sprint(rule["enabled"], rule["blocks"])
		}
	}
	return ""
}

// blockedSenders sends a message from every mailbox and returns the senders whose message the trace
// reports as refused.
func (s *sendingTenant) blockedSenders() []string {
	s.t.Helper()
	from := time.Now().UTC()
	for _, box := range s.allSenders() {
		s.control(s.t, http.MethodPost, "/messages", options{"mailbox": box, "count": 1})
	}
	trace, err := s.client.Sent(s.t.Context(), sendlimit.TraceQuery{From: from, To: time.Now().Add(time.Minute), Senders: s.allSenders()})
	if err != nil {
		s.t.Fatal(err)
	}
	seenSenders, blocked := map[string]bool{}, []string{}
	for _, message := range trace.Sent {
		if seenSenders[message.Sender] = true; message.Refused {
			blocked = append(blocked, message.Sender)
		}
	}
	if len(seenSenders) != len(s.allSenders()) {
		s.t.Fatalf("the trace has messages of %v, want of %v", seenSenders, s.allSenders())
	}
	slices.Sort(blocked)
	return slices.Compact(blocked)
}

// runAsAdministrator runs a cmdlet directly, as an administrator of the tenant could.
func (s *sendingTenant) runAsAdministrator(cmdlet string, parameters map[string]any) {
	s.t.Helper()
	client, ok := s.client.(*tenantClient)
	if !ok {
		s.t.Fatalf("the client is a %T, want *tenantClient", s.client)
	}
	if err := client.writeRule(s.t.Context(), call.Create, cmdlet, parameters); err != nil {
		s.t.Fatalf("the cmdlet %s fails: %v, want success", cmdlet, err)
	}
}

// block calls Block, which must succeed, and returns the rule.
func (s *sendingTenant) block(scope string, mailboxes ...string) sendlimit.Rule {
	s.t.Helper()
	rule, err := s.client.Block(s.t.Context(), scope, mailboxes)
	if err != nil {
		s.t.Fatalf("Block of %v in the scope %q: %v, want success", mailboxes, scope, err)
	}
	return rule
}
