// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/core/domain"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/ports"
)

var directoryChecks = []check{
	{"the profile names the tenant", func(t testing.TB, w World) {
		who, client := connected(t, w, Setup{})
		p, err := client.Profile(call(t))
		must(t, "profile", err)
		if p.Name != who.Name || p.BuiltinDomain == "" || p.DefaultDomain != "" {
			t.Fatalf("got %+v, want name %q, a built-in domain and no default one", p, who.Name)
		}
	}},
	{"a new tenant has no custom domains", func(t testing.TB, w World) {
		_, client := connected(t, w, Setup{})
		if names := domainNames(t, client); len(names) != 0 {
			t.Fatalf("got %v, want none, the built-in one left out", names)
		}
	}},
	{"an unknown domain is not found", func(t testing.TB, w World) {
		_, client := connected(t, w, Setup{})
		name := w.NewZone(t)
		_, err := client.Domain(call(t), name)
		refused(t, "domain", err, fault.DomainNotFound)
		_, err = client.VerifyDomain(call(t), name)
		refused(t, "verify", err, fault.DomainNotFound)
	}},
	{"a name that is none is refused", func(t testing.TB, w World) {
		_, client := connected(t, w, Setup{})
		_, err := client.AddDomain(call(t), "anything.onmicrosoft.com")
		refused(t, "add", err, fault.InvalidDomain)
	}},
	{"an added domain is unverified and says what to publish", func(t testing.TB, w World) {
		_, client := connected(t, w, Setup{})
		name := w.NewZone(t)
		d, err := client.AddDomain(call(t), name)
		must(t, "add", err)
		if want := (domain.Platform{Name: name}); d != want {
			t.Fatalf("added %+v, want %+v", d, want)
		}
		if names := domainNames(t, client); !slices.Equal(names, []string{name}) {
			t.Fatalf("listed %v, want %s", names, name)
		}
		if r := ownership(t, client, name); r.Type != dns.TXT || r.Name != name || r.Content == "" || r.TTL <= 0 {
			t.Fatalf("the verification record is %+v", r)
		}
	}},
	{"adding again changes nothing", func(t testing.TB, w World) {
		_, client := connected(t, w, Setup{})
		name := verified(t, w, client)
		d, err := client.AddDomain(call(t), name)
		must(t, "add again", err)
		if !d.Verified || len(domainNames(t, client)) != 1 {
			t.Fatalf("got %+v, want the verified domain, once", d)
		}
	}},
	{"two tenants prove a domain by different records", func(t testing.TB, w World) {
		_, ann := connected(t, w, Setup{})
		_, bob := connected(t, w, Setup{})
		name := added(t, w, ann)
		_, err := bob.AddDomain(call(t), name)
		must(t, "add", err)
		if ownership(t, ann, name).Content == ownership(t, bob, name).Content {
			t.Fatal("both tenants have the same record: one could verify the other's domain")
		}
	}},
	{"verification fails while the record is missing", func(t testing.TB, w World) {
		_, client := connected(t, w, Setup{})
		name := added(t, w, client)
		_, err := client.VerifyDomain(call(t), name)
		refused(t, "verify", err, fault.VerificationFailed)
		wrong := ownership(t, client, name)
		wrong.Content += "0"
		w.Publish(t, name, wrong)
		_, err = client.VerifyDomain(call(t), name)
		refused(t, "verify a wrong record", err, fault.VerificationFailed)
	}},
	{"a verified domain stays so", func(t testing.TB, w World) {
		_, client := connected(t, w, Setup{})
		name := verified(t, w, client)
		w.Publish(t, name)
		d, err := client.VerifyDomain(call(t), name)
		must(t, "verify again", err)
		if !d.Verified {
			t.Fatalf("got %+v", d)
		}
		d, err = client.Domain(call(t), name)
		must(t, "domain", err)
		if !d.Verified {
			t.Fatalf("read back %+v", d)
		}
	}},
	{"another tenant's domain is unavailable, at add or at verify", func(t testing.TB, w World) {
		_, ann := connected(t, w, Setup{})
		_, bob := connected(t, w, Setup{})
		name := verified(t, w, ann)
		_, err := bob.AddDomain(call(t), name)
		if err == nil {
			w.Publish(t, name, ownership(t, ann, name), ownership(t, bob, name))
			eventually(t, w, "verify", func() bool {
				_, err = bob.VerifyDomain(call(t), name)
				return !errors.Is(err, fault.VerificationFailed)
			})
		}
		refused(t, "add or verify", err, fault.DomainUnavailable)
	}},
	{"the e-mail service gives a verified domain its records", func(t testing.TB, w World) {
		_, client := connected(t, w, Setup{})
		name := verified(t, w, client)
		must(t, "enable mail", client.EnableMail(call(t), name))
		must(t, "enable mail again", client.EnableMail(call(t), name))
		eventually(t, w, "service records", func() bool { return hasMailRecords(t, client, name) })
		d, err := client.Domain(call(t), name)
		must(t, "domain", err)
		if !d.MailEnabled {
			t.Fatalf("got %+v, want the e-mail service on", d)
		}
	}},
	{"consent withdrawn is access_denied everywhere", func(t testing.TB, w World) {
		who, client := ready(t, w, Setup{})
		w.Revoke(t, who.GUID, GrantConsent)
		for what, use := range map[string]func() error{
			"profile":    func() error { _, err := client.Profile(call(t)); return err },
			"domains":    func() error { _, err := client.Domains(call(t)); return err },
			"add domain": func() error { _, err := client.AddDomain(call(t), "example.test"); return err },
			"mailboxes":  func() error { _, err := client.Mailboxes(call(t)); return err },
			"bootstrap":  func() error { _, err := client.Bootstrap(call(t)); return err },
		} {
			refused(t, what, use(), fault.AccessDenied)
		}
	}},
}

func domainNames(t testing.TB, client ports.MailTenant) []string {
	t.Helper()
	list, err := client.Domains(call(t))
	must(t, "domains", err)
	var names []string
	for _, d := range list {
		names = append(names, d.Name)
	}
	return names
}

// hasMailRecords reports whether the platform names MX and SPF, and checks the
// form of whatever it names.
func hasMailRecords(t testing.TB, client ports.MailTenant, name string) bool {
	t.Helper()
	records, err := client.Records(call(t), name)
	must(t, "records", err)
	var mx, spf bool
	for _, r := range records.Service {
		if r.Name != strings.ToLower(r.Name) || strings.HasSuffix(r.Name, ".") || strings.HasSuffix(r.Content, ".") || r.Content == "" {
			t.Fatalf("a service record in another form than the port's: %+v", r)
		}
		mx = mx || r.Type == dns.MX && r.Name == name
		spf = spf || r.Type == dns.TXT && strings.HasPrefix(r.Content, "v=spf1 ")
	}
	return mx && spf
}
