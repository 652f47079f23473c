// SPDX-License-Identifier: Apache-2.0

package main

import (
	"flag"
	"os"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/core/sendlimit"
	"github.com/tenantry/tenantry/plugins/mail-microsoft365/exchange"
)

// TestWhateverIsBlockedOthersSend checks that Block never stops mail of a mailbox
// that is not in its list, in any order of calls and whatever others do to the
// rule in between.
func TestWhateverIsBlockedOthersSend(t *testing.T) {
	w := newWorld(t)
	s := newSenders(t, w)
	w.behave(t, s.who.GUID, knobs{"trace_quota": 1_000_000})
	scopes := []string{sendlimit.TenantWide, s.domain}
	sampled(t, func(rt *rapid.T) {
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

// sampled checks a property that is slow to check: 20 times with random values,
// 100 times when TENANTRY_SOAK is set.
func sampled(t *testing.T, property func(*rapid.T)) {
	t.Helper()
	checks := flag.Lookup("rapid.checks")
	if os.Getenv("TENANTRY_SOAK") == "" {
		before := checks.Value.String()
		defer func() { _ = checks.Value.Set(before) }()
		if err := checks.Value.Set("20"); err != nil {
			t.Fatal(err)
		}
	}
	rapid.Check(t, property)
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
