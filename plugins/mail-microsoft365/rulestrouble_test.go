// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/core/sendlimit"
	"github.com/tenantry/tenantry/plugins/mail-microsoft365/exchange"
)

// TestALostAnswerOfARule: every write of a rule may lose its answer, before or
// after its work, and the call still ends with the rule as it was asked for.
func TestALostAnswerOfARule(t *testing.T) {
	w := newWorld(t)
	for _, cmdlet := range []string{
		exchange.NewTransportRule, exchange.SetTransportRule, exchange.EnableTransportRule, exchange.DisableTransportRule,
		exchange.RemoveTransportRule, exchange.GetTransportRule,
	} {
		for _, f := range []knobs{
			{"kind": "drop_before"}, {"kind": "drop_after"}, {"kind": "status", "status": 500}, {"kind": "status", "status": 503},
			{"kind": "status", "status": 504}, {"kind": "status", "status": 429},
		} {
			t.Run(fmt.Sprint(cmdlet, f), func(t *testing.T) {
				s := newSenders(t, w)
				life := func(what string, do func() error) {
					f["operation"], f["times"] = cmdlet, 1
					w.fault(t, f)
					if err := do(); err != nil {
						t.Fatalf("%s: %v", what, err)
					}
					w.control(t, http.MethodDelete, "/faults", nil)
				}
				set := func(list ...string) func() error {
					return func() error {
						r, err := s.client.Block(t.Context(), s.domain, list)
						if err == nil && !slices.Equal(r.Blocks(), list) {
							t.Fatalf("blocks %v, want %v", r.Blocks(), list)
						}
						return err
					}
				}
				life("make", set(s.boxes[0]))
				life("change", set(s.boxes[1:]...))
				life("switch off", set())
				life("switch on", set(s.boxes...))
				if got := s.stopped(); !slices.Equal(got, s.boxes) || len(s.rules()) != 1 {
					t.Fatalf("stopped %v: %v", got, s.rules())
				}
				life("remove", func() error { return s.client.RemoveRules(t.Context()) })
				if len(s.rules()) != 0 {
					t.Fatalf("left %v", s.rules())
				}
			})
		}
	}
}

// TestAWriteThatDoesNotShow: what was not read back is not told.
func TestAWriteThatDoesNotShow(t *testing.T) {
	w := newWorld(t)
	s := newSenders(t, w)
	s.block(s.domain, s.boxes[0])
	for cmdlet, list := range map[string][]string{exchange.SetTransportRule: s.boxes[1:], exchange.DisableTransportRule: nil} {
		w.behave(t, s.who.GUID, knobs{"cmdlets": knobs{cmdlet: knobs{"errors": []string{}, "times": 1}}})
		_, err := s.client.Block(t.Context(), s.domain, list)
		ends(t, err, outcome.NotReady, fault.Code{})
		if got := s.stopped(); !slices.Equal(got, s.boxes[:1]) {
			t.Fatalf("%s: stopped %v", cmdlet, got)
		}
	}
}

// TestAPartIsNotNothing: where some of the work was done, nothing is told that
// says that nothing changed.
func TestAPartIsNotNothing(t *testing.T) {
	w := newWorld(t)
	s := newSenders(t, w)
	s.block(s.domain, s.boxes[0])
	blind := knobs{"operation": exchange.GetTransportRule, "kind": "status", "status": 503, "skip": 1, "times": 1000}
	w.fault(t, blind)
	_, err := s.client.Block(t.Context(), s.domain, s.boxes[1:])
	ends(t, err, outcome.Unknown, fault.Code{})
	w.control(t, http.MethodDelete, "/faults", nil)
	if got := s.stopped(); !slices.Equal(got, s.boxes[1:]) {
		t.Fatalf("stopped %v", got)
	}

	s.asOther(exchange.SetTransportRule, knobs{"Identity": sendlimit.RuleName(s.domain), "ExceptIfFrom": s.boxes[:1]})
	full := knobs{"times": 1, "exception": knobs{"type": "Microsoft.RulesValidationException", "text": "The rule is too large."}}
	w.behave(t, s.who.GUID, knobs{"cmdlets": knobs{exchange.NewTransportRule: full}})
	_, err = s.client.Block(t.Context(), s.domain, s.boxes[1:])
	ends(t, err, outcome.Unknown, fault.Code{})
	s.block(s.domain, s.boxes[1:]...)

	w.fault(t, blind)
	ends(t, s.client.RemoveRules(t.Context()), outcome.Unknown, fault.Code{})
	w.control(t, http.MethodDelete, "/faults", nil)
	if len(s.rules()) != 0 {
		t.Fatalf("left %v", s.rules())
	}
}

// TestRulesThatActAreRemovedFirst: what is left when there was no time for all
// blocks nobody.
func TestRulesThatActAreRemovedFirst(t *testing.T) {
	w := newWorld(t)
	s := newSenders(t, w)
	scopes := []string{s.domain, sendlimit.TenantWide, "a.test"}
	for _, scope := range scopes {
		s.block(scope, s.boxes[0])
	}
	for _, on := range scopes {
		for _, scope := range scopes {
			if scope == on {
				s.block(scope, s.boxes[0])
			} else {
				s.block(scope)
			}
		}
		w.fault(t, knobs{"operation": exchange.RemoveTransportRule, "kind": "status", "status": 503, "skip": 1, "times": 1000})
		if err := s.client.RemoveRules(t.Context()); err == nil || len(s.stopped()) != 0 || len(s.rules()) != 2 {
			t.Fatalf("%q: %v, left are %v", on, err, s.rules())
		}
		w.control(t, http.MethodDelete, "/faults", nil)
		for _, scope := range scopes {
			s.block(scope, s.boxes[0])
		}
	}
}

// TestAListThatIsTooLong is refused before anything is sent.
func TestAListThatIsTooLong(t *testing.T) {
	w := newWorld(t)
	s := newSenders(t, w)
	var long []string
	for n := range 300 {
		long = append(long, fmt.Sprintf("a-mailbox-among-many-%d@%s", n, s.domain))
	}
	w.control(t, http.MethodDelete, "/calls", nil)
	for _, call := range []func() (sendlimit.Rule, error){
		func() (sendlimit.Rule, error) { return s.client.Block(t.Context(), s.domain, long) },
		func() (sendlimit.Rule, error) { return s.client.EnsureRule(t.Context(), s.domain, long) },
	} {
		_, err := call()
		if ends(t, err, outcome.Refused, fault.ProviderError); !strings.Contains(err.Error(), "300 mailboxes") {
			t.Errorf("got %v", err)
		}
	}
	if got := w.calls(t); len(got) != 0 {
		t.Fatalf("asked %v", got)
	}
	// As many mailboxes as a tenant has, with addresses as long as they get.
	var usual []string
	for n := range 36 {
		usual = append(usual, fmt.Sprintf("%02d%s@%s.example.com", n, strings.Repeat("a", 62), strings.Repeat("b", 63)))
	}
	if _, err := senders(sendlimit.RuleName(""), usual); err != nil {
		t.Fatalf("36 mailboxes: %v", err)
	}
}

func TestRefusalsOfARule(t *testing.T) {
	w := newWorld(t)
	s := newSenders(t, w)
	_, err := s.client.Block(t.Context(), s.domain, []string{"nobody@" + s.domain})
	ends(t, err, outcome.Refused, fault.MailboxNotFound)
	s.block(s.domain, s.boxes[0])
	_, err = s.client.Block(t.Context(), s.domain, []string{s.boxes[1], "nobody@" + s.domain})
	if ends(t, err, outcome.Refused, fault.MailboxNotFound); strings.Contains(err.Error(), s.domain) {
		t.Errorf("the error names the customer: %v", err)
	}
	if got := s.stopped(); !slices.Equal(got, s.boxes[:1]) {
		t.Fatalf("stopped %v", got)
	}
	full := knobs{"times": 1, "exception": knobs{"type": "Microsoft.RulesValidationException", "text": "You've reached the maximum number of rules."}}
	w.behave(t, s.who.GUID, knobs{"cmdlets": knobs{exchange.NewTransportRule: full}})
	_, err = s.client.Block(t.Context(), sendlimit.TenantWide, s.boxes)
	ends(t, err, outcome.Refused, fault.ProviderError)
}
