// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/core/sendlimit"
	"github.com/tenantry/tenantry/plugins/mail-microsoft365/exchange"
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
	trace, err := s.client.Sent(s.t.Context(), from, time.Now().Add(time.Minute), "")
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
	if err := c.writeRule(s.t.Context(), 1, cmdlet, parameters); err != nil {
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

// TestWhateverIsBlockedOthersSend: whatever Block is asked for, in whatever
// order and whatever others do to the rule in between, mail of a mailbox that
// is not in the list is never stopped once it is done.
func TestWhateverIsBlockedOthersSend(t *testing.T) {
	w := newWorld(t)
	s := newSenders(t, w)
	w.behave(t, s.who.GUID, knobs{"trace_quota": 1_000_000})
	scopes := []string{sendlimit.TenantWide, s.domain}
	rapid.Check(t, func(rt *rapid.T) {
		lists := map[string][]string{}
		if err := s.client.RemoveRules(t.Context()); err != nil {
			rt.Fatal(err)
		}
		for range rapid.IntRange(1, 3).Draw(rt, "writes") {
			scope := rapid.SampledFrom(scopes).Draw(rt, "scope")
			meddle(rt, s, scope)
			list := rapid.SliceOfN(rapid.SampledFrom(append(s.boxes, strings.ToUpper(s.boxes[0]), "", " ", "@", "*")), 0, 4).Draw(rt, "list")
			r, err := s.client.Block(t.Context(), scope, list)
			if slices.ContainsFunc(list, func(m string) bool { return len(m) < 3 }) {
				ends(t, err, outcome.Refused, fault.ProviderError)
				// What stood there stays, but for what others did to it.
				list = nil
				r, err = s.client.Block(t.Context(), scope, list)
			}
			if err != nil {
				rt.Fatalf("%q %v: %v", scope, list, err)
			}
			want := listOf(list)
			if !slices.Equal(r.Blocks(), want) {
				rt.Fatalf("%q: blocks %v, want %v", scope, r.Blocks(), want)
			}
			lists[scope] = want
		}
		if got, want := s.stopped(), listOf(slices.Concat(lists[scopes[0]], lists[scopes[1]])); !slices.Equal(got, want) {
			rt.Fatalf("stopped %v, want %v: %v", got, want, s.rules())
		}
	})
}

func listOf(list []string) []string {
	var out []string
	for _, m := range list {
		out = append(out, strings.ToLower(m))
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// meddle is the tenant's administrator, who changes our rule.
func meddle(rt *rapid.T, s *senderWorld, scope string) {
	name := sendlimit.RuleName(scope)
	if s.ours(scope) == "" {
		return
	}
	switch rapid.SampledFrom([]string{"not at all", "opens it", "switches it", "adds an exception", "narrows it", "audits"}).Draw(rt, "meddles") {
	case "opens it":
		s.asOther(exchange.SetTransportRule, knobs{"Identity": name, "From": nil})
	case "switches it":
		s.asOther(exchange.EnableTransportRule, knobs{"Identity": name})
	case "adds an exception":
		s.asOther(exchange.SetTransportRule, knobs{"Identity": name, "ExceptIfFrom": []string{s.boxes[0]}})
	case "narrows it":
		s.asOther(exchange.SetTransportRule, knobs{"Identity": name, "SentToScope": "InOrganization"})
	case "audits":
		s.asOther(exchange.SetTransportRule, knobs{"Identity": name, "Mode": "Audit"})
	}
}

// TestNoListIsSentEmpty: whoever asks for a step of ours, the one place that
// sends a list sends none without senders, and no step asks for it.
func TestNoListIsSentEmpty(t *testing.T) {
	im := newImitation(t) // which knows no rules, and fails the test when asked
	w := &ruleWork{client: im.client.(*client), name: "tenantry-block-a.example"}
	for _, step := range []ruleStep{makeOff, makeOn, list} {
		if err := w.do(t.Context(), step); outcome.Of(err) != outcome.Broken {
			t.Errorf("step %d: %v", step, err)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		row := ruleRow{
			State: exchange.Text(rapid.SampledFrom([]string{"Enabled", "Disabled"}).Draw(t, "state")),
			Mode:  exchange.Text(rapid.SampledFrom([]string{"Enforce", "Audit", ""}).Draw(t, "mode")),
			From:  rapid.SliceOfN(rapid.SampledFrom([]string{"a@a.example", "b@a.example"}), 0, 2).Draw(t, "from"),
			Ends:  exchange.Text(rapid.SampledFrom([]string{"", "2026-11-02"}).Draw(t, "ends")),
		}
		for _, next := range []nextStep{ensured, blocking} {
			step := next(row, rapid.Bool().Draw(t, "found"), nil)
			if step != settled && step != disable {
				t.Fatalf("step %d without senders for %+v", step, row)
			}
		}
		step := blocking(row, true, []string{"a@a.example"})
		if step == enable && row.open() || row.on() && row.open() && step != disable {
			t.Fatalf("step %d for %+v", step, row)
		}
	})
}

func TestARulesLife(t *testing.T) {
	s := newSenders(t, newWorld(t))
	ensure := func(list ...string) sendlimit.Rule {
		r, err := s.client.EnsureRule(t.Context(), s.domain, list)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	if r := ensure(); !cmp.Equal(r, sendlimit.Rule{}) || len(s.rules()) != 0 {
		t.Fatalf("without mailboxes: %+v, %v", r, s.rules())
	}
	if r := s.block(s.domain); !cmp.Equal(r, sendlimit.Rule{}) || len(s.rules()) != 0 {
		t.Fatalf("nothing to block: %+v, %v", r, s.rules())
	}
	made := ensure(s.boxes...)
	want := sendlimit.Rule{ID: made.ID, Name: sendlimit.RuleName(s.domain), Lists: s.boxes, Made: true, Written: true}
	if made.ID == "" || !cmp.Equal(made, want) || len(s.stopped()) != 0 {
		t.Fatalf("made %+v, want %+v", made, want)
	}
	want.Made, want.Written = false, false
	if again := ensure(s.boxes[:1]...); !cmp.Equal(again, want) {
		t.Fatalf("again %+v, want %+v", again, want)
	}
	want.Written, want.Enabled, want.Lists = true, true, s.boxes[:1]
	if r := s.block(s.domain, strings.ToUpper(s.boxes[0])); !cmp.Equal(r, want) {
		t.Fatalf("%+v, want %+v", r, want)
	}
	want.Written = false
	if r := s.block(s.domain, s.boxes[0], s.boxes[0]); !cmp.Equal(r, want) {
		t.Fatalf("the same again: %+v, want %+v", r, want)
	}
	if got := s.stopped(); !slices.Equal(got, s.boxes[:1]) {
		t.Fatalf("stopped %v", got)
	}
	want.Written, want.Enabled = true, false
	if r := s.block(s.domain); !cmp.Equal(r, want) || len(s.stopped()) != 0 {
		t.Fatalf("switched off: %+v, want %+v", r, want)
	}
	if err := s.client.RemoveRules(t.Context()); err != nil || len(s.rules()) != 0 {
		t.Fatalf("removed: %v, %v", err, s.rules())
	}
	if err := s.client.RemoveRules(t.Context()); err != nil {
		t.Fatalf("removed again: %v", err)
	}
}

// TestOthersRulesStay: a rule is ours by its whole name, although the platform
// answers a name that it does not know with all that it has.
func TestOthersRulesStay(t *testing.T) {
	s := newSenders(t, newWorld(t))
	others := []string{"Disclaimer", "tenantry-block", "tenantry-block-mine", sendlimit.RuleName(s.domain) + " (old)"}
	for _, name := range others {
		s.asOther(exchange.NewTransportRule, knobs{"Name": name, "Enabled": false, "From": s.boxes, "DeleteMessage": true})
	}
	before := fmt.Sprint(s.rules())
	for _, scope := range []string{sendlimit.TenantWide, s.domain} {
		if r := s.block(scope); r.Name != "" {
			t.Fatalf("took %+v for ours", r)
		}
		s.block(scope, s.boxes[0])
		s.block(scope)
	}
	if err := s.client.RemoveRules(t.Context()); err != nil {
		t.Fatal(err)
	}
	if after := fmt.Sprint(s.rules()); after != before {
		t.Fatalf("others' rules were %s, are %s", before, after)
	}
}

// TestAFoundRuleIsAdopted: one of our name is used, whoever made it, and put
// right.
func TestAFoundRuleIsAdopted(t *testing.T) {
	s := newSenders(t, newWorld(t))
	name := sendlimit.RuleName(sendlimit.TenantWide)
	s.asOther(exchange.NewTransportRule, knobs{"Name": strings.ToUpper(name), "From": []string{s.boxes[2]}, "DeleteMessage": true, "Enabled": true})
	found, err := s.client.EnsureRule(t.Context(), sendlimit.TenantWide, s.boxes)
	if err != nil || found.Made || found.Written || !slices.Equal(found.Blocks(), s.boxes[2:]) {
		t.Fatalf("found %+v, %v", found, err)
	}
	if r := s.block(sendlimit.TenantWide, s.boxes[0]); !slices.Equal(r.Blocks(), s.boxes[:1]) || len(s.rules()) != 1 {
		t.Fatalf("adopted %+v: %v", r, s.rules())
	}
	if got := s.stopped(); !slices.Equal(got, s.boxes[:1]) {
		t.Fatalf("stopped %v", got)
	}
}

// TestAnOpenRuleIsClosed: a rule of ours that somebody left without senders
// stops all mail; ensuring it is enough to end that.
func TestAnOpenRuleIsClosed(t *testing.T) {
	s := newSenders(t, newWorld(t))
	s.block(sendlimit.TenantWide, s.boxes[0])
	s.asOther(exchange.SetTransportRule, knobs{"Identity": sendlimit.RuleName(sendlimit.TenantWide), "From": []string{}})
	if got := s.stopped(); len(got) != len(s.all()) {
		t.Fatalf("the simulator stops only %v", got)
	}
	r, err := s.client.EnsureRule(t.Context(), sendlimit.TenantWide, s.boxes)
	if err != nil || r.Enabled || !r.Written || len(s.stopped()) != 0 {
		t.Fatalf("%+v, %v", r, err)
	}
}

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
