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

// partialPlatform accepts rules only for the mailboxes in accepts. It lists the mailboxes in
// accepts and in lists.
type partialPlatform struct {
	ports.MailPlatform
	accepts, lists []string
}

type partialTenant struct {
	ports.MailTenant
	accepts, lists []string
}

func (p partialPlatform) For(id tenant.GUID) ports.MailTenant {
	return partialTenant{p.MailPlatform.For(id), p.accepts, p.lists}
}

func (p partialTenant) Mailboxes(context.Context) (listed []mailbox.Platform, err error) {
	for _, address := range slices.Concat(p.lists, p.accepts) {
		listed = append(listed, mailbox.Platform{Address: address})
	}
	return listed, nil
}

func (p partialTenant) EnsureRule(ctx context.Context, scope string, list []string) (sendlimit.Rule, error) {
	for _, address := range list {
		if !slices.Contains(p.accepts, address) {
			return sendlimit.Rule{}, fault.MailboxNotFound.With("not there")
		}
	}
	return p.MailTenant.EnsureRule(ctx, scope, list)
}

// TestAMissingMailboxDoesNotPreventALimit checks that a limit is set although a mailbox is missing
// at the platform. The new rule, which is switched off, lists a different mailbox. If the platform
// has no mailbox, Set creates no rule.
func TestAMissingMailboxDoesNotPreventALimit(t *testing.T) {
	ada, bob := "ada@"+zone, "bob@"+zone
	for name, tt := range map[string]struct {
		accepts, lists []string
		wantRule       bool
	}{
		"all mailboxes exist":                  {[]string{ada, bob}, nil, true},
		"one mailbox exists":                   {[]string{bob}, nil, true},
		"no mailbox exists":                    {nil, nil, false},
		"one mailbox is listed and is missing": {nil, []string{bob}, false},
	} {
		t.Run(name, func(t *testing.T) {
			fx := newFixture(t)
			fx.Platform = partialPlatform{fx.fake, tt.accepts, tt.lists}
			result := fx.set(t, nil, 5)
			if hasRule := result.Policy.RuleID != ""; hasRule != tt.wantRule || result.PolicyResult != sendlimit.Created || result.Mailboxes != 2 || result.Policy.PerDay != 5 {
				t.Fatalf("got %+v", result)
			}
			if rules := fx.fake.SnapshotOf(guid).Rules; tt.wantRule && (rules[0].Enabled || len(rules[0].Lists) != 1) || !tt.wantRule && len(rules) != 0 {
				t.Fatalf("the platform has %+v", rules)
			}
		})
	}
}
