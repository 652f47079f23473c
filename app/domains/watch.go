// SPDX-License-Identifier: Apache-2.0

package domains

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/tenantry/tenantry/app/settling"
	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/core/domain"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/ports"
)

// CheckKind names the reads of a Watch to the queue.
const CheckKind = "domain_check"

// Watch reads the DNS of verified domains again, each about once a day, so that
// what is stored of them stays true and drift is noticed.
type Watch struct {
	Domains ports.Domains
	Checks  ports.DomainChecks
	DNS     ports.DNSReader
	Queue   ports.Queue
	Now     func() time.Time
	Log     *slog.Logger
	// Checked is told what each read came to.
	Checked func(ctx context.Context, c Check)
	// Off leaves domains to what callers do with them.
	Off bool

	rest rest
}

// Check is what one read of a domain's DNS came to.
type Check string

// What a read comes to.
const (
	CheckReliable   Check = "reliable"
	CheckUnreliable Check = "unreliable" // some servers answered
	CheckSilent     Check = "silent"     // nobody did
)

// Checks are all that a read may come to.
var Checks = []Check{CheckReliable, CheckUnreliable, CheckSilent}

// Sweep is the periodic work that has the domains read whose turn it is: the
// tick's share of a day, those first whose last read is longest ago.
func (w *Watch) Sweep(every time.Duration) ports.Periodic {
	return ports.Periodic{Kind: "domain_checks", Every: every, Do: func(ctx context.Context) error { return w.tick(ctx, every) }}
}

// tick spreads its share over the time until the next one. Each domain is a job
// of its own, so that accounts take turns and all replicas read.
func (w *Watch) tick(ctx context.Context, every time.Duration) error {
	if w.Off || w.rest.until(w.Now()) {
		return nil
	}
	health, err := w.Checks.DomainHealth(ctx)
	if err != nil {
		return err
	}
	stale, err := w.Checks.StaleDomains(ctx, domain.DueSince(w.Now()), domain.Share(health.Verified, every))
	if err != nil {
		return err
	}
	wakeups := make([]ports.Wakeup, 0, len(stale))
	for i, d := range stale {
		after := every * time.Duration(i) / time.Duration(len(stale))
		wakeups = append(wakeups, ports.Wakeup{Kind: CheckKind, ID: d.ID, Account: d.Account, At: time.Now().Add(after)})
	}
	return w.Queue.Wake(ctx, wakeups...)
}

// Handle reads a domain's DNS and stores what it saw, unless somebody has read
// it meanwhile. Also a read without an answer is one: the domain's turn is over.
func (w *Watch) Handle(ctx context.Context, wakeup ports.Wakeup) error {
	if w.Off || w.rest.until(w.Now()) {
		return nil // the domain's turn comes again
	}
	d, err := w.Domains.DomainByID(ctx, wakeup.Account, wakeup.ID)
	if err == nil && d.Due(w.Now()) {
		if err = w.read(ctx, &d); err == nil {
			_, err = settling.Change(ctx, w.Domains, wakeup.Account, d, nothing)
		}
	}
	if errors.Is(err, fault.DomainNotFound) || errors.Is(err, fault.TenantNotFound) {
		return nil
	}
	return err
}

func (w *Watch) read(ctx context.Context, d *domain.Domain) error {
	sight, err := settling.Sight(ctx, w.DNS, d.Name, dns.Desire(d.Name, d.Offer())...)
	if ctx.Err() != nil {
		return ctx.Err() // stopped: that says nothing of the domain
	}
	if err != nil {
		sight = dns.Sight{Domain: d.Name}
	}
	w.Checked(ctx, checkOf(sight))
	w.hear(ctx, sight)
	*d = d.Looked(sight, w.Now())
	return nil
}

func checkOf(s dns.Sight) Check {
	switch {
	case s.Complete:
		return CheckReliable
	case s.Silent():
		return CheckSilent
	default:
		return CheckUnreliable
	}
}
