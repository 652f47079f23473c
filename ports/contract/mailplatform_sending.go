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
		sending := newSendingTenant(t, env, Setup{})
		for _, set := range []func() (sendlimit.Rule, error){
			func() (sendlimit.Rule, error) { return sending.client.EnsureRule(callContext(t), sending.domain, nil) },
			func() (sendlimit.Rule, error) {
				return sending.client.Block(callContext(t), sending.domain, []string{})
			},
		} {
			r, err := set()
			must(t, "set", err)
			if !cmp.Equal(r, sendlimit.Rule{}) || len(env.Rules(t, sending.testTenant.GUID)) != 0 {
				t.Fatalf("got the rule %+v, and the platform has the rules %v, want no rule", r, env.Rules(t, sending.testTenant.GUID))
			}
		}
	}},
	{"mail/rules/created-once", "a rule is created once, disabled", func(t T, env MailPlatformEnv) {
		sending := newSendingTenant(t, env, Setup{})
		r, err := sending.client.EnsureRule(callContext(t), sending.domain, sending.mailboxes)
		must(t, "ensure", err)
		want := sendlimit.Rule{ID: r.ID, Name: sendlimit.RuleName(sending.domain), Lists: sending.mailboxes, Created: true, Written: true}
		if r.ID == "" || !cmp.Equal(r, want) {
			t.Fatalf("created %+v, want %+v", r, want)
		}
		ensuredAgain, err := sending.client.EnsureRule(callContext(t), sending.domain, sending.mailboxes[:1])
		must(t, "ensure again", err)
		if want.Created, want.Written = false, false; !cmp.Equal(ensuredAgain, want) {
			t.Fatalf("the second call returned %+v, want %+v", ensuredAgain, want)
		}
		sending.requireBlocked(t, env)
	}},
	{"mail/rules/blocks-its-list", "a rule blocks exactly its list", func(t T, env MailPlatformEnv) {
		sending := newSendingTenant(t, env, Setup{})
		sending.block(t, sending.domain, true, sending.mailboxes[0])
		sending.requireBlocked(t, env, sending.mailboxes[0])
		sending.block(t, sending.domain, true, sending.mailboxes[1], sending.mailboxes[2])
		sending.requireBlocked(t, env, sending.mailboxes[1:]...)
		sending.block(t, sending.domain, true)
		sending.requireBlocked(t, env)
		sending.block(t, sending.domain, true, sending.mailboxes...)
		sending.requireBlocked(t, env, sending.mailboxes...)
	}},
	{"mail/rules/not-rewritten", "a correct rule is not written again", func(t T, env MailPlatformEnv) {
		sending := newSendingTenant(t, env, Setup{})
		sending.block(t, sending.domain, true, sending.mailboxes[0])
		sending.block(t, sending.domain, false, sending.mailboxes[0])
		sending.block(t, sending.domain, true)
		sending.block(t, sending.domain, false)
	}},
	{"mail/rules/normalized", "addresses are listed in lower case, in order, once", func(t T, env MailPlatformEnv) {
		sending := newSendingTenant(t, env, Setup{})
		r, err := sending.client.Block(callContext(t), sending.domain, []string{sending.mailboxes[1], strings.ToUpper(sending.mailboxes[0]), sending.mailboxes[1]})
		must(t, "block", err)
		if !slices.Equal(r.Lists, sending.mailboxes[:2]) || !slices.Equal(r.Blocks(), sending.mailboxes[:2]) {
			t.Fatalf("got the rule %+v, want it to block %v", r, sending.mailboxes[:2])
		}
	}},
	{"mail/rules/scopes", "each scope has a rule of its own", func(t T, env MailPlatformEnv) {
		sending := newSendingTenant(t, env, Setup{})
		longScope := strings.Repeat("long-", 12) + sending.domain
		ids := map[string]bool{}
		for i, scope := range []string{sendlimit.TenantWide, sending.domain, longScope} {
			r := sending.block(t, scope, true, sending.mailboxes[i])
			ids[r.ID] = true
		}
		if len(ids) != 3 || len(env.Rules(t, sending.testTenant.GUID)) != 3 {
			t.Fatalf("the platform has the rules %v, want three", env.Rules(t, sending.testTenant.GUID))
		}
		sending.block(t, sending.domain, true)
		sending.requireBlocked(t, env, sending.mailboxes[0], sending.mailboxes[2])
	}},
	{"mail/rules/repaired", "changes by others to a managed rule are repaired", func(t T, env MailPlatformEnv) {
		sending := newSendingTenant(t, env, Setup{})
		sending.block(t, sending.domain, true, sending.mailboxes[0])
		name := sendlimit.RuleName(sending.domain)
		for change, changedRule := range map[string]sendlimit.Rule{
			"disabled":                      {Name: name, Lists: sending.mailboxes[:1]},
			"a different list":              {Name: name, Enabled: true, Lists: sending.mailboxes[1:]},
			"no list":                       {Name: name, Enabled: true},
			"a longer list":                 {Name: name, Enabled: true, Lists: sending.mailboxes},
			"disabled and a different list": {Name: name, Lists: sending.mailboxes[2:]},
		} {
			env.SetRule(t, sending.testTenant.GUID, changedRule)
			r, err := sending.client.Block(callContext(t), sending.domain, sending.mailboxes[:1])
			if must(t, change, err); !r.Written || !slices.Equal(r.Blocks(), sending.mailboxes[:1]) {
				t.Fatalf("after the change %q, Block returned %+v, want a written rule that blocks %v", change, r, sending.mailboxes[:1])
			}
			env.SetRule(t, sending.testTenant.GUID, changedRule)
			r, err = sending.client.Block(callContext(t), sending.domain, nil)
			if must(t, change, err); r.Written != changedRule.Enabled || len(r.Blocks()) != 0 {
				t.Fatalf("after the change %q, Block without mailboxes returned %+v, want a rule that blocks none", change, r)
			}
			sending.requireBlocked(t, env)
		}
	}},
	{"mail/rules/adopted", "an existing rule of the same name is adopted", func(t T, env MailPlatformEnv) {
		sending := newSendingTenant(t, env, Setup{})
		env.SetRule(t, sending.testTenant.GUID, sendlimit.Rule{Name: sendlimit.RuleName(sending.domain), Enabled: true, Lists: sending.mailboxes[2:]})
		r, err := sending.client.EnsureRule(callContext(t), sending.domain, sending.mailboxes)
		must(t, "ensure", err)
		if r.ID == "" || r.Created || !slices.Equal(r.Blocks(), sending.mailboxes[2:]) {
			t.Fatalf("got %+v, want the existing rule", r)
		}
		if sending.block(t, sending.domain, true, sending.mailboxes[0]); len(env.Rules(t, sending.testTenant.GUID)) != 1 {
			t.Fatalf("the platform has the rules %v, want one", env.Rules(t, sending.testTenant.GUID))
		}
	}},
	{"mail/rules/listed", "managed rules are listed as they are stored, and rules of others are not listed", func(t T, env MailPlatformEnv) {
		sending := newSendingTenant(t, env, Setup{})
		sending.requireRules(t, env)
		env.SetRule(t, sending.testTenant.GUID, sendlimit.Rule{Name: "tenantry-block-something", Enabled: true, Lists: sending.mailboxes[2:]})
		sending.requireRules(t, env)
		tenantRule := sending.block(t, sendlimit.TenantWide, true, sending.mailboxes[0])
		sending.requireRules(t, env, tenantRule)
		domainRule := sending.block(t, sending.domain, true, sending.mailboxes[1:]...)
		sending.requireRules(t, env, domainRule, tenantRule)
		disabledRule := sending.block(t, sending.domain, true)
		sending.requireRules(t, env, disabledRule, tenantRule)
		env.SetRule(t, sending.testTenant.GUID, sendlimit.Rule{Name: tenantRule.Name, Enabled: true, Lists: sending.mailboxes[1:]})
		tenantRule.Lists = sending.mailboxes[1:]
		sending.requireRules(t, env, disabledRule, tenantRule)
	}},
	{"mail/rules/altered", "an enabled rule of a different form is reported as altered until it is repaired", func(t T, env MailPlatformEnv) {
		sending := newSendingTenant(t, env, Setup{})
		env.SetRule(t, sending.testTenant.GUID, sendlimit.Rule{Name: sendlimit.RuleName(sending.domain), Enabled: true, Lists: sending.mailboxes[:1]})
		listed, err := sending.client.Rules(callContext(t))
		if must(t, "list rules", err); len(listed) != 1 || !listed[0].Altered || listed[0].Matches(sending.mailboxes[:1]) {
			t.Fatalf("listed %+v, want one altered rule", listed)
		}
		r := sending.block(t, sending.domain, true, sending.mailboxes[0])
		if sending.requireRules(t, env, r); r.Altered || !r.Matches(sending.mailboxes[:1]) {
			t.Fatalf("got the repaired rule %+v, want it unaltered, with the mailboxes %v", r, sending.mailboxes[:1])
		}
	}},
	{"mail/rules/failed-listing", "a failed listing of rules is an error, not an empty list", func(t T, env MailPlatformEnv) {
		sending := newSendingTenant(t, env, Setup{})
		sending.block(t, sending.domain, true, sending.mailboxes[0])
		for failure, kind := range map[Failure]outcome.Kind{Throttles: outcome.Throttled, IsDown: outcome.Down} {
			lift := env.Fail(t, sending.testTenant.GUID, "Rules", failure)
			_, err := sending.client.Rules(callContext(t))
			lift()
			requireOutcome(t, "list rules", err, kind)
		}
	}},
	{"mail/rules/one-removed", "the rule of one scope is removed, the others stay", func(t T, env MailPlatformEnv) {
		sending := newSendingTenant(t, env, Setup{})
		must(t, "remove nothing", sending.client.RemoveRule(callContext(t), sending.domain))
		sending.block(t, sendlimit.TenantWide, true, sending.mailboxes[0])
		sending.block(t, sending.domain, true, sending.mailboxes[1])
		must(t, "remove", sending.client.RemoveRule(callContext(t), sending.domain))
		must(t, "remove again", sending.client.RemoveRule(callContext(t), sending.domain))
		if got, want := env.Rules(t, sending.testTenant.GUID), map[string][]string{sendlimit.RuleName(sendlimit.TenantWide): sending.mailboxes[:1]}; !cmp.Equal(got, want) {
			t.Fatalf("the platform has the rules %v, want %v", got, want)
		}
	}},
	{"mail/rules/removed", "managed rules are removed, and rules of others stay", func(t T, env MailPlatformEnv) {
		sending := newSendingTenant(t, env, Setup{})
		must(t, "remove nothing", sending.client.RemoveRules(callContext(t)))
		ruleOfOthers := sendlimit.Rule{Name: "tenantry-block-something", Enabled: true, Lists: sending.mailboxes[2:]}
		env.SetRule(t, sending.testTenant.GUID, ruleOfOthers)
		sending.block(t, sendlimit.TenantWide, true, sending.mailboxes[0])
		sending.block(t, sending.domain, true, sending.mailboxes[1])
		sending.block(t, sending.domain, true)
		must(t, "remove", sending.client.RemoveRules(callContext(t)))
		must(t, "remove again", sending.client.RemoveRules(callContext(t)))
		if got, want := env.Rules(t, sending.testTenant.GUID), map[string][]string{ruleOfOthers.Name: ruleOfOthers.Lists}; !cmp.Equal(got, want) {
			t.Fatalf("the platform has the rules %v, want %v", got, want)
		}
		sending.requireBlocked(t, env, sending.mailboxes[2])
	}},
	{"mail/rules/refused-write", "a throttled write of a rule and one during an outage have no effect", func(t T, env MailPlatformEnv) {
		sending := newSendingTenant(t, env, Setup{})
		sending.block(t, sending.domain, true, sending.mailboxes[0])
		for failure, kind := range map[Failure]outcome.Kind{Throttles: outcome.Throttled, IsDown: outcome.Down} {
			lift := env.Fail(t, sending.testTenant.GUID, "Block", failure)
			_, err := sending.client.Block(callContext(t), sending.domain, sending.mailboxes[1:])
			lift()
			requireOutcome(t, "block", err, kind)
			sending.requireBlocked(t, env, sending.mailboxes[0])
		}
	}},
	{"mail/rules/lost-answer", "a write of a rule whose answer is lost is never reported as failed without effect", func(t T, env MailPlatformEnv) {
		sending := newSendingTenant(t, env, Setup{})
		for _, list := range [][]string{sending.mailboxes[:1], sending.mailboxes[1:], nil, sending.mailboxes} {
			for _, failure := range []Failure{LosesRequest, LosesAnswer} {
				lift := env.Fail(t, sending.testTenant.GUID, "Block", failure)
				r, err := sending.client.Block(callContext(t), sending.domain, list)
				lift()
				if requireDoneOrUnknown(t, err); err == nil && !slices.Equal(r.Blocks(), list) {
					t.Fatalf("got the rule %+v, want it to block %v", r, list)
				}
			}
			r, err := sending.client.Block(callContext(t), sending.domain, list)
			must(t, "block again", err)
			if !slices.Equal(r.Blocks(), list) || len(env.Rules(t, sending.testTenant.GUID)) != 1 {
				t.Fatalf("got the rule %+v, and the platform has the rules %v, want one rule that blocks %v", r, env.Rules(t, sending.testTenant.GUID), list)
			}
		}
		sending.requireBlocked(t, env, sending.mailboxes...)
	}},
	{"mail/rules/lag", "a changed rule applies after the platform's lag", func(t T, env MailPlatformEnv) {
		sending := newSendingTenant(t, env, Setup{RuleLag: time.Hour})
		sending.block(t, sending.domain, true, sending.mailboxes[0])
		sending.requireBlocked(t, env)
		env.Advance(t, 2*time.Hour)
		sending.requireBlocked(t, env, sending.mailboxes[0])
	}},
	{"mail/rules/role", "rules require the role at the mail server", func(t T, env MailPlatformEnv) {
		sending := newSendingTenant(t, env, Setup{})
		env.Revoke(t, sending.testTenant.GUID, GrantExchangeRole)
		_, err := sending.client.Block(callContext(t), sending.domain, sending.mailboxes)
		requireRefusal(t, "block", err, fault.AccessDenied)
		_, err = sending.client.EnsureRule(callContext(t), sending.domain, sending.mailboxes)
		requireRefusal(t, "ensure", err, fault.AccessDenied)
		requireRefusal(t, "remove", sending.client.RemoveRules(callContext(t)), fault.AccessDenied)
		_, err = sending.client.Rules(callContext(t))
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
