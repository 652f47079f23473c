// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"testing"
	"time"

	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/core/tenant"
)

var mailServerChecks = []check{
	{"the bootstrap becomes ready and may be repeated", func(t testing.TB, w World) {
		_, client := ready(t, w, Setup{})
		p, err := client.Bootstrap(call(t))
		must(t, "bootstrap again", err)
		if p.Status != tenant.BootstrapReady || p.Step != tenant.StepNone {
			t.Fatalf("got %+v, want ready", p)
		}
	}},
	{"a dehydrated tenant is prepared", func(t testing.TB, w World) {
		_, client := connected(t, w, Setup{Dehydrated: true})
		p, err := client.Bootstrap(call(t))
		must(t, "bootstrap", err)
		if p.Status != tenant.BootstrapPending || p.Step != tenant.StepWait || p.Message == "" {
			t.Fatalf("got %+v, want pending with a message", p)
		}
		bootstrap(t, w, client)
	}},
	{"a role that only an administrator can grant is asked for", func(t testing.TB, w World) {
		_, client := connected(t, w, Setup{Denied: true})
		p, err := client.Bootstrap(call(t))
		must(t, "bootstrap", err)
		if p.Status == tenant.BootstrapReady || p.Step != tenant.StepGrantRole {
			t.Fatalf("got %+v, want the step grant_role", p)
		}
	}},
	{"a withdrawn role is noticed and taken again", func(t testing.TB, w World) {
		who, client := ready(t, w, Setup{})
		w.Revoke(t, who.GUID, GrantExchangeRole)
		_, err := client.Mailboxes(call(t))
		refused(t, "mailboxes", err, fault.AccessDenied)
		bootstrap(t, w, client)
		_, err = client.Mailboxes(call(t))
		must(t, "mailboxes after the bootstrap", err)
	}},
	{"SMTP AUTH is switched on", func(t testing.TB, w World) {
		_, client := ready(t, w, Setup{})
		must(t, "enable", client.EnableSMTPAuth(call(t)))
		must(t, "enable again", client.EnableSMTPAuth(call(t)))
		eventually(t, w, "SMTP AUTH", func() bool {
			state, err := client.SMTPAuth(call(t))
			must(t, "state", err)
			return state == tenant.SMTPAuthEnabled
		})
	}},
	{"SMTP AUTH that the platform keeps off is refused", func(t testing.TB, w World) {
		_, client := ready(t, w, Setup{SMTPAuthRefused: true})
		refused(t, "enable", client.EnableSMTPAuth(call(t)), fault.SMTPAuthNotEnabled)
		state, err := client.SMTPAuth(call(t))
		must(t, "state", err)
		if state != tenant.SMTPAuthDisabled {
			t.Fatalf("got %s, want disabled", state)
		}
	}},
	{"a domain that is not accepted has no signing", func(t testing.TB, w World) {
		_, client := ready(t, w, Setup{AcceptedDomainLag: time.Hour})
		name := verified(t, w, client)
		must(t, "enable mail", client.EnableMail(call(t), name))
		s, err := client.Signing(call(t), name)
		must(t, "signing", err)
		if s != (dns.Signing{}) {
			t.Fatalf("got %+v, want none", s)
		}
		_, err = client.EnsureSigning(call(t), name)
		ended(t, "ensure signing", err, outcome.NotReady)
	}},
	{"signing is made once and names two CNAMEs", func(t testing.TB, w World) {
		_, client := ready(t, w, Setup{})
		name := accepted(t, w, client)
		first, err := client.EnsureSigning(call(t), name)
		must(t, "ensure", err)
		second, err := client.EnsureSigning(call(t), name)
		must(t, "ensure again", err)
		read, err := client.Signing(call(t), name)
		must(t, "signing", err)
		if first != second || first != read || first.Enabled {
			t.Fatalf("made %+v, then %+v, read %+v", first, second, read)
		}
		for label, r := range map[string]dns.Record{"selector1": first.Selector1, "selector2": first.Selector2} {
			if r.Type != dns.CNAME || r.Name != label+"._domainkey."+name || r.Content == "" {
				t.Fatalf("%s is %+v", label, r)
			}
		}
	}},
	{"signing can't be enabled before it is made", func(t testing.TB, w World) {
		_, client := ready(t, w, Setup{})
		name := accepted(t, w, client)
		refused(t, "enable", client.EnableSigning(call(t), name), fault.DKIMNotReady)
	}},
	{"signing is enabled once both CNAMEs are published", func(t testing.TB, w World) {
		_, client := ready(t, w, Setup{})
		name := accepted(t, w, client)
		made, err := client.EnsureSigning(call(t), name)
		must(t, "ensure", err)
		w.Publish(t, name, made.Selector1)
		refused(t, "enable with one CNAME", client.EnableSigning(call(t), name), fault.DKIMNotReady)
		w.Publish(t, name, made.Selector1, made.Selector2)
		eventually(t, w, "enable", func() bool { return client.EnableSigning(call(t), name) == nil })
		must(t, "enable again", client.EnableSigning(call(t), name))
		s, err := client.Signing(call(t), name)
		must(t, "signing", err)
		if !s.Enabled {
			t.Fatalf("got %+v, want it enabled", s)
		}
	}},
}
