// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"context"
	"testing"
	"time"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/domain"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/mailbox"
	"github.com/tenantry/tenantry/ports"
)

// holding is a tenant of an account and what is below it.
type holding struct {
	owner access.AccountID
	d     domain.Domain
	boxes []mailbox.Mailbox
}

func newHolding(t testing.TB, s Stores) holding {
	t.Helper()
	h := holding{owner: newAccount(t, s, "ann")}
	h.d = addDomain(t, s, h.owner, attach(t, s, h.owner, 1).GUID, "contoso.test")
	for _, local := range []string{"sales", "support"} {
		h.boxes = append(h.boxes, addMailbox(t, s, h.owner, h.d, local, mailbox.Created))
	}
	return h
}

// completed is a change that commits a completion; made tells whether it is
// there to be seen.
type completed struct {
	change func(ctx context.Context) error
	made   func(t testing.TB) bool
}

func (h holding) completed(s Stores) map[string]completed {
	return map[string]completed{
		"a deletion": {
			func(ctx context.Context) error { return s.DeleteTenant(ctx, h.owner, h.d.TenantGUID) },
			func(t testing.TB) bool {
				n, err := s.TenantCount(t.Context(), h.owner)
				must(t, "count tenants", err)
				return n == 0
			},
		},
		"a saved domain": {
			func(ctx context.Context) error {
				d := h.d
				d.Verified = true
				return s.SaveDomain(ctx, h.owner, d)
			},
			func(t testing.TB) bool {
				d, err := s.DomainByID(t.Context(), h.owner, h.d.ID)
				must(t, "find domain", err)
				return d.Verified
			},
		},
		"a changed domain": {
			func(ctx context.Context) error {
				d := h.d
				d.MailReady = true
				_, err := s.ChangeDomain(ctx, h.owner, h.d, d)
				return err
			},
			func(t testing.TB) bool {
				d, err := s.DomainByID(t.Context(), h.owner, h.d.ID)
				must(t, "find domain", err)
				return d.MailReady
			},
		},
		"concluded mailboxes": {
			func(ctx context.Context) error { return s.ConcludeMailboxes(ctx, h.owner, readied(h.boxes)) },
			func(t testing.TB) bool { return h.ready(t, s) == len(h.boxes) },
		},
	}
}

// ready counts the mailboxes that are concluded.
func (h holding) ready(t testing.TB, s Stores) (n int) {
	t.Helper()
	all, err := s.Mailboxes(t.Context(), h.owner, h.d.TenantGUID)
	must(t, "list mailboxes", err)
	for _, m := range all {
		if m.Stage == mailbox.Ready {
			n++
		}
	}
	return n
}

func readied(boxes []mailbox.Mailbox) []mailbox.Mailbox {
	all := make([]mailbox.Mailbox, 0, len(boxes))
	for _, m := range boxes {
		m.Stage = mailbox.Ready
		all = append(all, m)
	}
	return all
}

// completing is a context in which an attempt at a claim is completed.
func completing(t testing.TB, c ports.Claim, attempt string) context.Context {
	t.Helper()
	end := ports.Completion{Place: c.Place, Attempt: attempt, Answer: []byte("answer"), Until: now.Add(time.Hour)}
	ctx := ports.WithCompletion(t.Context(), func(string) (ports.Completion, error) { return end, nil })
	ctx, err := ports.Complete(ctx, "result")
	must(t, "complete", err)
	return ctx
}

var completionChecks = []storeCheck{
	{"a change commits its completion", func(t testing.TB, s Stores) {
		h, key := newHolding(t, s), byte(0)
		for _, what := range []string{"a saved domain", "concluded mailboxes", "a deletion"} {
			key++
			c := claimOf(h.owner, key)
			x := h.completed(s)[what]
			must(t, what, x.change(completing(t, c, claimed(t, s, c))))
			r := remembered(t, s, c.Place)
			if !x.made(t) || string(r.Answer) != "answer" || r.Leased || !r.ExpiresAt.Equal(now.Add(time.Hour)) {
				t.Fatalf("%s: made %v, %+v", what, x.made(t), r)
			}
			// Its run goes on for a moment, and has lost nothing.
			holds(t, "hold after "+what, true)(s.Hold(t.Context(), c.Place, r.Attempt, leased))
			holds(t, "finish after "+what, true)(s.Finish(t.Context(), c.Place, r.Attempt, []byte("answer"), now))
		}
	}},
	{"an attempt that lost its key changes nothing", func(t testing.TB, s Stores) {
		h := newHolding(t, s)
		c := claimOf(h.owner, 1)
		c.Lease = over
		first := claimed(t, s, c)
		second, won, err := s.TakeOver(t.Context(), first, c)
		must(t, "take over", err)
		if !won {
			t.Fatal("a dead owner's key was not taken over")
		}
		for what, x := range h.completed(s) {
			refused(t, what, x.change(completing(t, c, first)), fault.KeyInProgress)
			if r := remembered(t, s, c.Place); x.made(t) || r.Answer != nil || r.Attempt != second {
				t.Fatalf("%s: made %v, %+v", what, x.made(t), r)
			}
		}
	}},
	{"a change that is refused completes nothing", func(t testing.TB, s Stores) {
		h, bob := newHolding(t, s), newAccount(t, s, "bob")
		gone := append(readied(h.boxes), mailbox.Mailbox{ID: string(noGUID), Address: "gone@contoso.test", Stage: mailbox.Ready})
		c := claimOf(h.owner, 1)
		ctx := completing(t, c, claimed(t, s, c))
		refused(t, "delete", s.DeleteTenant(ctx, bob, h.d.TenantGUID), fault.TenantNotFound)
		refused(t, "save domain", s.SaveDomain(ctx, bob, h.d), fault.DomainNotFound)
		refused(t, "conclude for another", s.ConcludeMailboxes(ctx, bob, readied(h.boxes)), fault.MailboxNotFound)
		refused(t, "conclude", s.ConcludeMailboxes(ctx, h.owner, gone), fault.MailboxNotFound)
		if r := remembered(t, s, c.Place); r.Answer != nil || !r.Leased || h.ready(t, s) != 0 {
			t.Fatalf("%d are concluded, %+v", h.ready(t, s), r)
		}
	}},
}
