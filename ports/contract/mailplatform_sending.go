// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"slices"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/core/sendlimit"
	"github.com/tenantry/tenantry/ports"
)

var ruleChecks = []mailCheck{
	{"mail/rules/none", "without mailboxes no rule is created", func(t T, env MailPlatformEnv) {
		s := newSendingTenant(t, env, Setup{})
		for _, set := range []func() (sendlimit.Rule, error){
			func() (sendlimit.Rule, error) { return s.client.EnsureRule(callContext(t), s.domain, nil) },
			func() (sendlimit.Rule, error) { return s.client.Block(callContext(t), s.domain, []string{}) },
		} {
			r, err := set()
			must(t, "set", err)
			if !cmp.Equal(r, sendlimit.Rule{}) || len(env.Rules(t, s.testTenant.GUID)) != 0 {
				t.Fatalf("got the rule %+v, and the platform has the rules %v, want no rule", r, env.Rules(t, s.testTenant.GUID))
			}
		}
	}},
	{"mail/rules/created-once", "a rule is created once, disabled", func(t T, env MailPlatformEnv) {
		s := newSendingTenant(t, env, Setup{})
		r, err := s.client.EnsureRule(callContext(t), s.domain, s.mailboxes)
		must(t, "ensure", err)
		want := sendlimit.Rule{ID: r.ID, Name: sendlimit.RuleName(s.domain), Lists: s.mailboxes, Created: true, Written: true}
		if r.ID == "" || !cmp.Equal(r, want) {
			t.Fatalf("created %+v, want %+v", r, want)
		}
		ensuredAgain, err := s.client.EnsureRule(callContext(t), s.domain, s.mailboxes[:1])
		must(t, "ensure again", err)
		if want.Created, want.Written = false, false; !cmp.Equal(ensuredAgain, want) {
			t.Fatalf("the second call returned %+v, want %+v", ensuredAgain, want)
		}
		s.requireBlocked(t, env)
	}},
	{"mail/rules/blocks-its-list", "a rule blocks exactly its list", func(t T, env MailPlatformEnv) {
		s := newSendingTenant(t, env, Setup{})
		s.block(t, s.domain, true, s.mailboxes[0])
		s.requireBlocked(t, env, s.mailboxes[0])
		s.block(t, s.domain, true, s.mailboxes[1], s.mailboxes[2])
		s.requireBlocked(t, env, s.mailboxes[1:]...)
		s.block(t, s.domain, true)
		s.requireBlocked(t, env)
		s.block(t, s.domain, true, s.mailboxes...)
		s.requireBlocked(t, env, s.mailboxes...)
	}},
	{"mail/rules/not-rewritten", "a correct rule is not written again", func(t T, env MailPlatformEnv) {
		s := newSendingTenant(t, env, Setup{})
		s.block(t, s.domain, true, s.mailboxes[0])
		s.block(t, s.domain, false, s.mailboxes[0])
		s.block(t, s.domain, true)
		s.block(t, s.domain, false)
	}},
	{"mail/rules/normalized", "addresses are listed in lower case, in order, once", func(t T, env MailPlatformEnv) {
		s := newSendingTenant(t, env, Setup{})
		r, err := s.client.Block(callContext(t), s.domain, []string{s.mailboxes[1], strings.ToUpper(s.mailboxes[0]), s.mailboxes[1]})
		must(t, "block", err)
		if !slices.Equal(r.Lists, s.mailboxes[:2]) || !slices.Equal(r.Blocks(), s.mailboxes[:2]) {
			t.Fatalf("got the rule %+v, want it to block %v", r, s.mailboxes[:2])
		}
	}},
	{"mail/rules/scopes", "each scope has a rule of its own", func(t T, env MailPlatformEnv) {
		s := newSendingTenant(t, env, Setup{})
		longScope := strings.Repeat("long-", 12) + s.domain
		ids := map[string]bool{}
		for i, scope := range []string{sendlimit.TenantWide, s.domain, longScope} {
			r := s.block(t, scope, true, s.mailboxes[i])
			ids[r.ID] = true
		}
		if len(ids) != 3 || len(env.Rules(t, s.testTenant.GUID)) != 3 {
			t.Fatalf("the platform has the rules %v, want three", env.Rules(t, s.testTenant.GUID))
		}
		s.block(t, s.domain, true)
		s.requireBlocked(t, env, s.mailboxes[0], s.mailboxes[2])
	}},
	{"mail/rules/repaired", "changes by others to a managed rule are repaired", func(t T, env MailPlatformEnv) {
		s := newSendingTenant(t, env, Setup{})
		s.block(t, s.domain, true, s.mailboxes[0])
		name := sendlimit.RuleName(s.domain)
		for change, changedRule := range map[string]sendlimit.Rule{
			"disabled":                      {Name: name, Lists: s.mailboxes[:1]},
			"a different list":              {Name: name, Enabled: true, Lists: s.mailboxes[1:]},
			"no list":                       {Name: name, Enabled: true},
			"a longer list":                 {Name: name, Enabled: true, Lists: s.mailboxes},
			"disabled and a different list": {Name: name, Lists: s.mailboxes[2:]},
		} {
			env.SetRule(t, s.testTenant.GUID, changedRule)
			r, err := s.client.Block(callContext(t), s.domain, s.mailboxes[:1])
			if must(t, change, err); !r.Written || !slices.Equal(r.Blocks(), s.mailboxes[:1]) {
				t.Fatalf("after the change %q, Block returned %+v, want a written rule that blocks %v", change, r, s.mailboxes[:1])
			}
			env.SetRule(t, s.testTenant.GUID, changedRule)
			r, err = s.client.Block(callContext(t), s.domain, nil)
			if must(t, change, err); r.Written != changedRule.Enabled || len(r.Blocks()) != 0 {
				t.Fatalf("after the change %q, Block without mailboxes returned %+v, want a rule that blocks none", change, r)
			}
			s.requireBlocked(t, env)
		}
	}},
	{"mail/rules/adopted", "an existing rule of the same name is adopted", func(t T, env MailPlatformEnv) {
		s := newSendingTenant(t, env, Setup{})
		env.SetRule(t, s.testTenant.GUID, sendlimit.Rule{Name: sendlimit.RuleName(s.domain), Enabled: true, Lists: s.mailboxes[2:]})
		r, err := s.client.EnsureRule(callContext(t), s.domain, s.mailboxes)
		must(t, "ensure", err)
		if r.ID == "" || r.Created || !slices.Equal(r.Blocks(), s.mailboxes[2:]) {
			t.Fatalf("got %+v, want the existing rule", r)
		}
		if s.block(t, s.domain, true, s.mailboxes[0]); len(env.Rules(t, s.testTenant.GUID)) != 1 {
			t.Fatalf("the platform has the rules %v, want one", env.Rules(t, s.testTenant.GUID))
		}
	}},
	{"mail/rules/listed", "managed rules are listed as they are stored, and rules of others are not listed", func(t T, env MailPlatformEnv) {
		s := newSendingTenant(t, env, Setup{})
		s.requireRules(t, env)
		env.SetRule(t, s.testTenant.GUID, sendlimit.Rule{Name: "tenantry-block-something", Enabled: true, Lists: s.mailboxes[2:]})
		s.requireRules(t, env)
		tenantRule := s.block(t, sendlimit.TenantWide, true, s.mailboxes[0])
		s.requireRules(t, env, tenantRule)
		domainRule := s.block(t, s.domain, true, s.mailboxes[1:]...)
		s.requireRules(t, env, domainRule, tenantRule)
		disabledRule := s.block(t, s.domain, true)
		s.requireRules(t, env, disabledRule, tenantRule)
		env.SetRule(t, s.testTenant.GUID, sendlimit.Rule{Name: tenantRule.Name, Enabled: true, Lists: s.mailboxes[1:]})
		tenantRule.Lists = s.mailboxes[1:]
		s.requireRules(t, env, disabledRule, tenantRule)
	}},
	{"mail/rules/altered", "an enabled rule of a different form is reported as altered until it is repaired", func(t T, env MailPlatformEnv) {
		s := newSendingTenant(t, env, Setup{})
		env.SetRule(t, s.testTenant.GUID, sendlimit.Rule{Name: sendlimit.RuleName(s.domain), Enabled: true, Lists: s.mailboxes[:1]})
		listed, err := s.client.Rules(callContext(t))
		if must(t, "list rules", err); len(listed) != 1 || !listed[0].Altered || listed[0].Matches(s.mailboxes[:1]) {
			t.Fatalf("listed %+v, want one altered rule", listed)
		}
		r := s.block(t, s.domain, true, s.mailboxes[0])
		if s.requireRules(t, env, r); r.Altered || !r.Matches(s.mailboxes[:1]) {
			t.Fatalf("got the repaired rule %+v, want it unaltered, with the mailboxes %v", r, s.mailboxes[:1])
		}
	}},
	{"mail/rules/failed-listing", "a failed listing of rules is an error, not an empty list", func(t T, env MailPlatformEnv) {
		s := newSendingTenant(t, env, Setup{})
		s.block(t, s.domain, true, s.mailboxes[0])
		for failure, kind := range map[Failure]outcome.Kind{Throttles: outcome.Throttled, IsDown: outcome.Down} {
			lift := env.Fail(t, s.testTenant.GUID, "Rules", failure)
			_, err := s.client.Rules(callContext(t))
			lift()
			requireOutcome(t, "list rules", err, kind)
		}
	}},
	{"mail/rules/one-removed", "the rule of one scope is removed, the others stay", func(t T, env MailPlatformEnv) {
		s := newSendingTenant(t, env, Setup{})
		must(t, "remove nothing", s.client.RemoveRule(callContext(t), s.domain))
		s.block(t, sendlimit.TenantWide, true, s.mailboxes[0])
		s.block(t, s.domain, true, s.mailboxes[1])
		must(t, "remove", s.client.RemoveRule(callContext(t), s.domain))
		must(t, "remove again", s.client.RemoveRule(callContext(t), s.domain))
		if got, want := env.Rules(t, s.testTenant.GUID), map[string][]string{sendlimit.RuleName(sendlimit.TenantWide): s.mailboxes[:1]}; !cmp.Equal(got, want) {
			t.Fatalf("the platform has the rules %v, want %v", got, want)
		}
	}},
	{"mail/rules/removed", "managed rules are removed, and rules of others stay", func(t T, env MailPlatformEnv) {
		s := newSendingTenant(t, env, Setup{})
		must(t, "remove nothing", s.client.RemoveRules(callContext(t)))
		ruleOfOthers := sendlimit.Rule{Name: "tenantry-block-something", Enabled: true, Lists: s.mailboxes[2:]}
		env.SetRule(t, s.testTenant.GUID, ruleOfOthers)
		s.block(t, sendlimit.TenantWide, true, s.mailboxes[0])
		s.block(t, s.domain, true, s.mailboxes[1])
		s.block(t, s.domain, true)
		must(t, "remove", s.client.RemoveRules(callContext(t)))
		must(t, "remove again", s.client.RemoveRules(callContext(t)))
		if got, want := env.Rules(t, s.testTenant.GUID), map[string][]string{ruleOfOthers.Name: ruleOfOthers.Lists}; !cmp.Equal(got, want) {
			t.Fatalf("the platform has the rules %v, want %v", got, want)
		}
		s.requireBlocked(t, env, s.mailboxes[2])
	}},
	{"mail/rules/refused-write", "a throttled write of a rule and one during an outage have no effect", func(t T, env MailPlatformEnv) {
		s := newSendingTenant(t, env, Setup{})
		s.block(t, s.domain, true, s.mailboxes[0])
		for failure, kind := range map[Failure]outcome.Kind{Throttles: outcome.Throttled, IsDown: outcome.Down} {
			lift := env.Fail(t, s.testTenant.GUID, "Block", failure)
			_, err := s.client.Block(callContext(t), s.domain, s.mailboxes[1:])
			lift()
			requireOutcome(t, "block", err, kind)
			s.requireBlocked(t, env, s.mailboxes[0])
		}
	}},
	{"mail/rules/lost-answer", "a write of a rule whose answer is lost is never reported as failed without effect", func(t T, env MailPlatformEnv) {
		s := newSendingTenant(t, env, Setup{})
		for _, list := range [][]string{s.mailboxes[:1], s.mailboxes[1:], nil, s.mailboxes} {
			for _, failure := range []Failure{LosesRequest, LosesAnswer} {
				lift := env.Fail(t, s.testTenant.GUID, "Block", failure)
				r, err := s.client.Block(callContext(t), s.domain, list)
				lift()
				if requireDoneOrUnknown(t, err); err == nil && !slices.Equal(r.Blocks(), list) {
					t.Fatalf("got the rule %+v, want it to block %v", r, list)
				}
			}
			r, err := s.client.Block(callContext(t), s.domain, list)
			must(t, "block again", err)
			if !slices.Equal(r.Blocks(), list) || len(env.Rules(t, s.testTenant.GUID)) != 1 {
				t.Fatalf("got the rule %+v, and the platform has the rules %v, want one rule that blocks %v", r, env.Rules(t, s.testTenant.GUID), list)
			}
		}
		s.requireBlocked(t, env, s.mailboxes...)
	}},
	{"mail/rules/lag", "a changed rule applies after the platform's lag", func(t T, env MailPlatformEnv) {
		s := newSendingTenant(t, env, Setup{RuleLag: time.Hour})
		s.block(t, s.domain, true, s.mailboxes[0])
		s.requireBlocked(t, env)
		env.Advance(t, 2*time.Hour)
		s.requireBlocked(t, env, s.mailboxes[0])
	}},
	{"mail/rules/role", "rules require the role at the mail server", func(t T, env MailPlatformEnv) {
		s := newSendingTenant(t, env, Setup{})
		env.Revoke(t, s.testTenant.GUID, GrantExchangeRole)
		_, err := s.client.Block(callContext(t), s.domain, s.mailboxes)
		requireRefusal(t, "block", err, fault.AccessDenied)
		_, err = s.client.EnsureRule(callContext(t), s.domain, s.mailboxes)
		requireRefusal(t, "ensure", err, fault.AccessDenied)
		requireRefusal(t, "remove", s.client.RemoveRules(callContext(t)), fault.AccessDenied)
		_, err = s.client.Rules(callContext(t))
		requireRefusal(t, "list", err, fault.AccessDenied)
	}},
}

// sendingTenant is a tenant with three mailboxes on one domain. The field mailboxes has their
// addresses, sorted.
type sendingTenant struct {
	testTenant Tenant
	client     ports.MailTenant
	domain     string
	mailboxes  []string
}

func newSendingTenant(t T, env MailPlatformEnv, setup Setup) sendingTenant {
	t.Helper()
	testTenant, client := newReadyTenant(t, env, setup)
	sending := sendingTenant{testTenant: testTenant, client: client, domain: newAcceptedDomain(t, env, client)}
	for _, local := range []string{"anna", "ben", "cleo"} {
		sending.mailboxes = append(sending.mailboxes, createMailbox(t, env, client, local+"@"+sending.domain).Address)
	}
	return sending
}

// block makes the rule of a scope block exactly the addresses of list, and checks the returned
// rule. wantWritten is the wanted value of Rule.Written.
func (s sendingTenant) block(t T, scope string, wantWritten bool, list ...string) sendlimit.Rule {
	t.Helper()
	r, err := s.client.Block(callContext(t), scope, list)
	must(t, "block", err)
	if r.ID == "" || r.Name != sendlimit.RuleName(scope) || r.Enabled != (len(list) > 0) || r.Written != wantWritten || !slices.Equal(r.Blocks(), list) {
		t.Fatalf("got the rule %+v, want it to block %v, with Written %v", r, list, wantWritten)
	}
	return r
}

// requireRules checks that Rules lists the wanted rules, in any order, and changes no rule.
func (s sendingTenant) requireRules(t T, env MailPlatformEnv, want ...sendlimit.Rule) {
	t.Helper()
	before := env.Rules(t, s.testTenant.GUID)
	got, err := s.client.Rules(callContext(t))
	must(t, "list rules", err)
	byName := func(a, b sendlimit.Rule) int { return strings.Compare(a.Name, b.Name) }
	slices.SortFunc(got, byName)
	slices.SortFunc(want, byName)
	for i := range want {
		want[i].Created, want[i].Written = false, false
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Fatalf("rules (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(before, env.Rules(t, s.testTenant.GUID)); diff != "" {
		t.Fatalf("listing changed the rules (-before +after):\n%s", diff)
	}
}

// requireBlocked sends one message from each mailbox, and checks in the message trace that exactly
// the messages of the wanted mailboxes were blocked.
func (s sendingTenant) requireBlocked(t T, env MailPlatformEnv, want ...string) {
	t.Helper()
	earlierMessages := map[string]bool{}
	for _, m := range s.readTrace(t, env) {
		earlierMessages[m.Message] = true
	}
	for _, address := range s.mailboxes {
		env.Send(t, s.testTenant.GUID, address, 1)
	}
	delivered := map[string]bool{}
	for _, m := range s.readTrace(t, env) {
		if !earlierMessages[m.Message] {
			delivered[m.Sender] = !m.Refused
		}
	}
	var blocked []string
	for _, address := range s.mailboxes {
		if wasDelivered, found := delivered[address]; !found {
			t.Fatalf("the trace does not show the new message of %s", address)
		} else if !wasDelivered {
			blocked = append(blocked, address)
		}
	}
	if !slices.Equal(blocked, want) {
		t.Fatalf("messages of %v were blocked, want %v", blocked, want)
	}
}
