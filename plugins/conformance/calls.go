// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/core/sendlimit"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/plugins/sdk"
	"github.com/tenantry/tenantry/plugins/wire"
)

// unknownTenant returns a different tenant id for each n. No provider has a tenant with such an id.
// Concurrent reads use different tenants, so that no read waits for the access token of another.
func unknownTenant(n int) tenant.GUID {
	return tenant.GUID(fmt.Sprintf("11111111-2222-4333-8444-%012d", n))
}

// mailReads maps the name of each read method of a mail tenant to a function that calls it and
// ignores its result.
var mailReads = map[string]func(context.Context, sdk.MailTenant) error{
	"Profile":       func(ctx context.Context, m sdk.MailTenant) error { _, err := m.Profile(ctx); return err },
	"Domains":       func(ctx context.Context, m sdk.MailTenant) error { _, err := m.Domains(ctx); return err },
	"Domain":        func(ctx context.Context, m sdk.MailTenant) error { _, err := m.Domain(ctx, "example.com"); return err },
	"Records":       func(ctx context.Context, m sdk.MailTenant) error { _, err := m.Records(ctx, "example.com"); return err },
	"SMTPAuth":      func(ctx context.Context, m sdk.MailTenant) error { _, err := m.SMTPAuth(ctx); return err },
	"MailDomains":   func(ctx context.Context, m sdk.MailTenant) error { _, err := m.MailDomains(ctx); return err },
	"Signing":       func(ctx context.Context, m sdk.MailTenant) error { _, err := m.Signing(ctx, "example.com"); return err },
	"Mailboxes":     func(ctx context.Context, m sdk.MailTenant) error { _, err := m.Mailboxes(ctx); return err },
	"UserMailboxes": func(ctx context.Context, m sdk.MailTenant) error { _, err := m.UserMailboxes(ctx); return err },
	"EmailLicenses": func(ctx context.Context, m sdk.MailTenant) error { _, err := m.EmailLicenses(ctx); return err },
	"Rules":         func(ctx context.Context, m sdk.MailTenant) error { _, err := m.Rules(ctx); return err },
	"Mailbox": func(ctx context.Context, m sdk.MailTenant) error {
		_, err := m.Mailbox(ctx, "a@example.com")
		return err
	},
	"Sent": func(ctx context.Context, m sdk.MailTenant) error {
		_, err := m.Sent(ctx, sendlimit.TraceQuery{From: time.Now().Add(-time.Hour), To: time.Now(), Senders: []string{"a@example.com"}})
		return err
	},
}

// call makes one call of a provider and ignores its result.
type call = func(context.Context) error

// readCalls returns read calls of the running plugin p with the connection c, keyed by name. All
// plugins of a kind get the same calls. A call that reads one object asks for an object that does
// not exist. The only exception is the call Zone, which asks for Binary.zone if it is set.
func (b Binary) readCalls(t T, p *wire.Process, c sdk.Connection) map[string]call {
	t.Helper()
	switch kind := describe(t, p).Kind; kind {
	case wire.KindMail:
		platform := b.mail(p, c)
		calls, n := map[string]call{"Check": platform.Check}, 0
		for name, read := range mailReads {
			n++
			m := platform.For(unknownTenant(n))
			calls[name] = func(ctx context.Context) error { return read(ctx, m) }
		}
		return calls
	case wire.KindDNS:
		provider := b.dns(p, c)
		return map[string]call{
			"Check": func(ctx context.Context) error { _, err := provider.Check(ctx); return err },
			"Zone": func(ctx context.Context) error {
				_, err := provider.Zone(ctx, cmp.Or(b.zone, unknownZone.Name))
				return err
			},
			"Records": func(ctx context.Context) error { _, err := provider.Records(ctx, unknownZone); return err },
		}
	case wire.KindSending:
		platform := b.sending(p, c)
		return map[string]call{
			"Check":    func(ctx context.Context) error { _, err := platform.Check(ctx); return err },
			"Account":  func(ctx context.Context) error { _, err := platform.Account(ctx, "nobody@nowhere.example"); return err },
			"Accounts": func(ctx context.Context) error { _, err := platform.Accounts(ctx, ""); return err },
		}
	default:
		t.Fatalf("kind %q is not mail, dns or sending", kind)
		return nil
	}
}

// unknownZone is a zone that no provider has.
var unknownZone = dns.Zone{ID: "nobody-has-this.example", Name: "nobody-has-this.example"}
