// SPDX-License-Identifier: Apache-2.0

package limits_test

import (
	"context"
	"slices"
	"testing"

	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/mailbox"
	"github.com/tenantry/tenantry/core/sendlimit"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

// partialPlatform lists the mailboxes in accepted and in onlyListed. It refuses a rule with a
// mailbox that is not in accepted.
type partialPlatform struct {
	ports.MailPlatform
	accepted, onlyListed []string
}

type partialTenant struct {
	ports.MailTenant
	accepted, onlyListed []string
}

func (p partialPlatform) For(id tenant.GUID) ports.MailTenant {
	return partialTenant{p.MailPlatform.For(id), p.accepted, p.onlyListed}
}

func (p partialTenant) Mailboxes(context.Context) (listed []mailbox.Platform, err error) {
	for _, address := range slices.Concat(p.onlyListed, p.accepted) {
		listed = append(listed, mailbox.Platform{Address: address})
	}
	return listed, nil
}

func (p partialTenant) EnsureRule(ctx context.Context, scope string, addresses []string) (sendlimit.Rule, error) {
	for _, address := range addresses {
		if !slices.Contains(p.accepted, address) {
			return sendlimit.Rule{}, fault.MailboxNotFound.With("not there")
		}
	}
	return p.MailTenant.EnsureRule(ctx, scope, addresses)
}

// TestAMissingMailboxDoesNotPreventALimit checks that a limit is set although a mailbox is missing
// at the platform. The new rule is switched off and contains one mailbox that the platform accepts.
// If the platform accepts no mailbox, Set creates no rule.
func TestAMissingMailboxDoesNotPreventALimit(t *testing.T) {
	ada, bob := "ada@"+zone, "bob@"+zone
	for name, tc := range map[string]struct {
		accepted, onlyListed []string
		wantRule             bool
	}{
		"all mailboxes exist":        {[]string{ada, bob}, nil, true},
		"one mailbox exists":         {[]string{bob}, nil, true},
		"no mailbox exists":          {nil, nil, false},
		"one mailbox is only listed": {nil, []string{bob}, false},
	} {
		t.Run(name, func(t *testing.T) {
			fx := newFixture(t)
			fx.Platform = partialPlatform{fx.fake, tc.accepted, tc.onlyListed}
			result := fx.set(t, nil, 5)
			if hasRule := result.Policy.RuleID != ""; hasRule != tc.wantRule || result.PolicyResult != sendlimit.Created || result.Mailboxes != 2 || result.Policy.PerDay != 5 {
				t.Fatalf("got %+v, want a new limit of 5, with a rule: %v", result, tc.wantRule)
			}
			if rules := fx.fake.SnapshotOf(guid).Rules; tc.wantRule && (rules[0].Enabled || len(rules[0].Lists) != 1) || !tc.wantRule && len(rules) != 0 {
				t.Fatalf("the rules of the platform are %+v, want a disabled rule with one mailbox: %v", rules, tc.wantRule)
			}
		})
	}
}
