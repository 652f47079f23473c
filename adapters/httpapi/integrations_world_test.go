// SPDX-License-Identifier: Apache-2.0

package httpapi_test

import (
	"context"
	"crypto/rand"
	"testing"
	"time"

	"github.com/tenantry/tenantry/adapters/breaker"
	"github.com/tenantry/tenantry/adapters/fake"
	"github.com/tenantry/tenantry/app/integrations"
	"github.com/tenantry/tenantry/core/ident"
	"github.com/tenantry/tenantry/core/integration"
	"github.com/tenantry/tenantry/core/mailbox"
	"github.com/tenantry/tenantry/core/secret"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

const (
	sendings  = "/v1/integrations"
	signIn    = sendings + "/{integration_id}/mailboxes/{mailbox_id}/oauth/microsoft"
	sendsWith = "<PROVIDER_API_KEY>" // as the document's example
)

// guardedSending puts circuits around the fakes, which note what was asked.
type guardedSending struct {
	*fake.SendingPlatforms
	circuits *breaker.Sending
}

func (g guardedSending) For(provider string, c secret.Credential) ports.SendingPlatform {
	return g.circuits.Guard(g.SendingPlatforms.For(provider, c), "one", func(context.Context) bool { return true })
}

// sends makes the platform to which the example's credential leads.
func (w *world) sends() *fake.SendingPlatform {
	at := fake.NewSendingPlatform()
	at.Now = time.Now
	for _, id := range []string{"instantly", "salesblink"} {
		w.sending.Know(integration.Provider{ID: id, Title: id, AuthHosts: []string{"login.microsoftonline.com"}}, nil)
		for _, workspace := range []string{"", "ws-1", "ws-9"} {
			w.sending.Hold(id, sendsWith, workspace, at)
		}
	}
	return at
}

// integration adds one to an account, as if it had been asked for.
func (w *world) integration(t *testing.T, o owner) integration.Integration {
	t.Helper()
	made, err := w.options.Integrations.Create(t.Context(), integrations.New{Account: o.account.ID, Provider: "instantly", Name: "Outbound", APIKey: secret.New(sendsWith)})
	if err != nil {
		t.Fatal(err)
	}
	return made.Integration
}

// session stores one that waits for a person.
func (w *world) session(t *testing.T, o owner, i integration.Integration, m mailbox.Mailbox) string {
	t.Helper()
	now := time.Now().UTC()
	s := integration.Session{ID: fresh(now), IntegrationID: i.ID, MailboxID: m.ID, Status: integration.SessionPending, Opened: true, PlatformID: "session-0",
		CreatedAt: now, ExpiresAt: now.Add(10 * time.Minute), LookedAt: now.Add(time.Hour)} // nobody asks the platform
	if err := w.store.BeginSession(t.Context(), o.account.ID, s, fresh(now), now.Add(-time.Minute)); err != nil {
		t.Fatal(err)
	}
	return s.ID
}

func fresh(now time.Time) string {
	return ident.New(now, [ident.Entropy]byte([]byte(rand.Text())[:ident.Entropy]))
}

// another attaches one more tenant.
func (w *world) another(t *testing.T, o owner, id tenant.GUID) {
	t.Helper()
	w.platform.Connect(id, fake.Setup{})
	_, err := w.store.Attach(t.Context(), o.account.ID, tenant.Tenant{GUID: id, Name: "More", BuiltinDomain: "m.onmicrosoft.com",
		Consent: tenant.ConsentGranted, ConsentedAt: time.Now(), Bootstrap: tenant.BootstrapPending, SMTPAuth: tenant.SMTPAuthUnknown,
		Discovery: tenant.DiscoveryPending}, 2)
	if err != nil {
		t.Fatal(err)
	}
}

// ours makes a mailbox that discovery found one that the service made.
func (w *world) ours(t *testing.T, o owner, m mailbox.Mailbox) {
	t.Helper()
	m.Provisioned = true
	if err := w.store.SaveMailbox(context.Background(), o.account.ID, m); err != nil {
		t.Fatal(err)
	}
}
