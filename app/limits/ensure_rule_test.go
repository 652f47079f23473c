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

// partialPlatform accepts only the mailboxes in accepts. Its list has these mailboxes, and those in
// lists.
type partialPlatform struct {
	ports.MailPlatform
	accepts, lists []string
}

type partialTenant struct {
	ports.MailTenant
	accepts, lists []string
}

func (k partialPlatform) For(id tenant.GUID) ports.MailTenant {
	return partialTenant{k.MailPlatform.For(id), k.accepts, k.lists}
}

func (k partialTenant) Mailboxes(context.Context) (all []mailbox.Platform, err error) {
	for _, address := range slices.Concat(k.lists, k.accepts) {
		all = append(all, mailbox.Platform{Address: address})
	}
	return all, nil
}

func (k partialTenant) EnsureRule(ctx context.Context, scope string, list []string) (sendlimit.Rule, error) {
	for _, address := range list {
		if !slices.Contains(k.accepts, address) {
			return sendlimit.Rule{}, fault.MailboxNotFound.With("not there")
		}
	}
	return k.MailTenant.EnsureRule(ctx, scope, list)
}

// A mailbox that is missing at the platform does not prevent a limit. The disabled rule lists a
// different mailbox, or is created with the first block.
func TestAMissingMailboxDoesNotPreventALimit(t *testing.T) {
	ada, bob := "ada@"+zone, "bob@"+zone
	for name, tt := range map[string]struct {
		accepts, lists []string
		made           bool
	}{
		"all mailboxes exist":                  {[]string{ada, bob}, nil, true},
		"one mailbox exists":                   {[]string{bob}, nil, true},
		"no mailbox exists":                    {nil, nil, false},
		"one mailbox is listed and is missing": {nil, []string{bob}, false},
	} {
		t.Run(name, func(t *testing.T) {
			fx := newFixture(t)
			fx.Platform = partialPlatform{fx.fake, tt.accepts, tt.lists}
			out := fx.set(t, nil, 5)
			if made := out.Policy.RuleID != ""; made != tt.made || out.PolicyResult != sendlimit.Created || out.Mailboxes != 2 || out.Policy.PerDay != 5 {
				t.Fatalf("got %+v", out)
			}
			if rules := fx.fake.SnapshotOf(guid).Rules; tt.made && (rules[0].Enabled || len(rules[0].Lists) != 1) || !tt.made && len(rules) != 0 {
				t.Fatalf("the platform has %+v", rules)
			}
		})
	}
}
