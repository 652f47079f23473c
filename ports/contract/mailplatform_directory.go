// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"errors"
	"net/url"
	"slices"
	"strings"

	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/core/domain"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/secret"
	"github.com/tenantry/tenantry/ports"
)

var consentChecks = []mailCheck{
	{"mail/connect/credential", "the platform accepts the operator's credential", func(t T, env MailPlatformEnv) {
		must(t, "check", env.Platform().Check(callContext(t)))
	}},
	{"mail/connect/consent-and-sign-in", "the consent identifies the tenant, and the sign-in the administrator", func(t T, env MailPlatformEnv) {
		testTenant := env.NewTenant(t, Setup{})
		if id := giveConsent(t, env, testTenant); id != testTenant.GUID {
			t.Fatalf("Granted returned the tenant %s, want %s", id, testTenant.GUID)
		}
		s := newSignIn(testTenant)
		admin, err := env.Platform().Administrator(callContext(t), s, signIn(t, env, s, testTenant.Admin))
		must(t, "administrator", err)
		if admin.Tenant != testTenant.GUID || admin.Address != testTenant.Admin {
			t.Fatalf("the administrator is %+v, want %s of %s", admin, testTenant.Admin, testTenant.GUID)
		}
	}},
	{"mail/connect/state", "the callback of the consent contains the host's state", func(t T, env MailPlatformEnv) {
		testTenant := env.NewTenant(t, Setup{})
		page, err := env.Platform().ConsentURL(callContext(t), "our-state", callbackURL(testTenant))
		must(t, "consent URL", err)
		q, err := url.ParseQuery(env.Visit(t, page, testTenant.Admin, true))
		must(t, "parse the answer", err)
		if q.Get("state") != "our-state" {
			t.Fatalf("the answer has the state %q, want our-state", q.Get("state"))
		}
	}},
	{"mail/connect/declined", "a declined consent is refused", func(t T, env MailPlatformEnv) {
		testTenant := env.NewTenant(t, Setup{})
		page, err := env.Platform().ConsentURL(callContext(t), "state-1", callbackURL(testTenant))
		must(t, "consent URL", err)
		_, err = env.Platform().Granted(callContext(t), env.Visit(t, page, testTenant.Admin, false))
		requireRefusal(t, "granted", err, fault.ConsentDeclined)
	}},
	{"mail/connect/invalid-callback", "an invalid callback is refused", func(t T, env MailPlatformEnv) {
		for _, query := range []string{"", "state=x", "admin_consent=True&tenant=nonsense", "%zz"} {
			_, err := env.Platform().Granted(callContext(t), query)
			requireRefusal(t, "granted "+query, err, fault.InvalidRequest)
		}
	}},
	{"mail/connect/not-an-administrator", "a person who is not an administrator is refused", func(t T, env MailPlatformEnv) {
		testTenant := env.NewTenant(t, Setup{})
		giveConsent(t, env, testTenant)
		for _, person := range []string{testTenant.Member, testTenant.Guest} {
			s := newSignIn(testTenant)
			_, err := env.Platform().Administrator(callContext(t), s, signIn(t, env, s, person))
			requireRefusal(t, "sign-in", err, fault.NotAdministrator)
		}
	}},
	{"mail/connect/code-once", "a sign-in's code works once", func(t T, env MailPlatformEnv) {
		testTenant := env.NewTenant(t, Setup{})
		giveConsent(t, env, testTenant)
		s := newSignIn(testTenant)
		code := signIn(t, env, s, testTenant.Admin)
		_, err := env.Platform().Administrator(callContext(t), s, code)
		must(t, "administrator", err)
		_, err = env.Platform().Administrator(callContext(t), s, code)
		requireRefusal(t, "second redemption", err, fault.ConnectLinkInvalid)
	}},
	{"mail/connect/nonce", "a sign-in with a different nonce is refused", func(t T, env MailPlatformEnv) {
		requireSignInRefused(t, env, func(s *ports.SignIn) { s.Nonce = "another" })
	}},
	{"mail/connect/verifier", "a sign-in with a different verifier is refused", func(t T, env MailPlatformEnv) {
		requireSignInRefused(t, env, func(s *ports.SignIn) {
			s.Verifier = secret.New("another-verifier-of-forty-three-characters-aa")
		})
	}},
	{"mail/connect/other-tenant", "a sign-in at a different tenant is refused", func(t T, env MailPlatformEnv) {
		otherTenant := env.NewTenant(t, Setup{})
		giveConsent(t, env, otherTenant)
		requireSignInRefused(t, env, func(s *ports.SignIn) { s.Tenant = otherTenant.GUID })
	}},
	{"mail/connect/without-consent", "a call for a tenant without consent is refused with access_denied", func(t T, env MailPlatformEnv) {
		testTenant := env.NewTenant(t, Setup{})
		_, err := env.Platform().For(testTenant.GUID).Profile(callContext(t))
		requireRefusal(t, "profile", err, fault.AccessDenied)
	}},
}

func newSignIn(testTenant Tenant) ports.SignIn {
	return ports.SignIn{
		Tenant: testTenant.GUID, State: "state-2", Nonce: "nonce-1", Redirect: signInURL(testTenant),
		Verifier: secret.New("a-verifier-of-at-least-forty-three-characters"),
	}
}

// requireSignInRefused starts a sign-in, redeems its code with changed parameters, and expects
// connect_link_invalid.
func requireSignInRefused(t T, env MailPlatformEnv, change func(*ports.SignIn)) {
	t.Helper()
	testTenant := env.NewTenant(t, Setup{})
	giveConsent(t, env, testTenant)
	s := newSignIn(testTenant)
	code := signIn(t, env, s, testTenant.Admin)
	change(&s)
	_, err := env.Platform().Administrator(callContext(t), s, code)
	requireRefusal(t, "administrator", err, fault.ConnectLinkInvalid)
}

var directoryChecks = []mailCheck{
	{"mail/domains/profile", "the profile names the tenant", func(t T, env MailPlatformEnv) {
		testTenant, client := newConnectedTenant(t, env, Setup{})
		p, err := client.Profile(callContext(t))
		must(t, "profile", err)
		if p.Name != testTenant.Name || p.BuiltinDomain == "" || p.DefaultDomain != "" {
			t.Fatalf("got %+v, want name %q, a built-in domain and no default domain", p, testTenant.Name)
		}
	}},
	{"mail/domains/none", "a new tenant has no custom domains", func(t T, env MailPlatformEnv) {
		_, client := newConnectedTenant(t, env, Setup{})
		if names := domainNames(t, client); len(names) != 0 {
			t.Fatalf("got the domains %v, want none: built-in domains are not listed", names)
		}
	}},
	{"mail/domains/unknown", "an unknown domain is not found", func(t T, env MailPlatformEnv) {
		_, client := newConnectedTenant(t, env, Setup{})
		name := env.NewZone(t)
		_, err := client.Domain(callContext(t), name)
		requireRefusal(t, "domain", err, fault.DomainNotFound)
		_, err = client.VerifyDomain(callContext(t), name)
		requireRefusal(t, "verify", err, fault.DomainNotFound)
	}},
	{"mail/domains/removed", "a removed domain is gone, and can be removed and added again", func(t T, env MailPlatformEnv) {
		_, client := newConnectedTenant(t, env, Setup{})
		name, remainingName := newVerifiedDomain(t, env, client), newAddedDomain(t, env, client)
		must(t, "remove", client.RemoveDomain(callContext(t), name))
		must(t, "remove again", client.RemoveDomain(callContext(t), name))
		eventually(t, env, "removed domain", func() bool {
			_, err := client.Domain(callContext(t), name)
			return errors.Is(err, fault.DomainNotFound)
		})
		if names := domainNames(t, client); !slices.Equal(names, []string{remainingName}) {
			t.Fatalf("listed %v, want %s", names, remainingName)
		}
		d, err := client.AddDomain(callContext(t), name)
		must(t, "add again", err)
		if d.Verified {
			t.Fatal("a domain that was removed and added again is verified")
		}
	}},
	{"mail/domains/invalid-name", "a name below the built-in domains of the platform is refused", func(t T, env MailPlatformEnv) {
		_, client := newConnectedTenant(t, env, Setup{})
		p, err := client.Profile(callContext(t))
		must(t, "profile", err)
		_, builtin, _ := strings.Cut(p.BuiltinDomain, ".")
		_, err = client.AddDomain(callContext(t), "anything."+builtin)
		requireRefusal(t, "add", err, fault.InvalidDomain)
	}},
	{"mail/domains/added", "an added domain is unverified and has a record to publish", func(t T, env MailPlatformEnv) {
		_, client := newConnectedTenant(t, env, Setup{})
		name := env.NewZone(t)
		d, err := client.AddDomain(callContext(t), name)
		must(t, "add", err)
		if want := (domain.Platform{Name: name}); d != want {
			t.Fatalf("added %+v, want %+v", d, want)
		}
		if names := domainNames(t, client); !slices.Equal(names, []string{name}) {
			t.Fatalf("listed %v, want %s", names, name)
		}
		if r := verificationRecord(t, client, name); r.Type != dns.TXT || r.Name != name || r.Content == "" || r.TTL <= 0 {
			t.Fatalf("the verification record is %+v, want a TXT record of %s with a content and a TTL", r, name)
		}
	}},
	{"mail/domains/added-again", "adding a domain again changes nothing", func(t T, env MailPlatformEnv) {
		_, client := newConnectedTenant(t, env, Setup{})
		name := newVerifiedDomain(t, env, client)
		d, err := client.AddDomain(callContext(t), name)
		must(t, "add again", err)
		if !d.Verified || len(domainNames(t, client)) != 1 {
			t.Fatalf("got %+v and the domains %v, want one verified domain", d, domainNames(t, client))
		}
	}},
	{"mail/domains/own-proof", "each tenant proves the same domain with a record of its own", func(t T, env MailPlatformEnv) {
		_, ann := newConnectedTenant(t, env, Setup{})
		_, bob := newConnectedTenant(t, env, Setup{})
		name := newAddedDomain(t, env, ann)
		_, err := bob.AddDomain(callContext(t), name)
		must(t, "add", err)
		if verificationRecord(t, ann, name).Content == verificationRecord(t, bob, name).Content {
			t.Fatal("both tenants have the same verification record, so each tenant could use the other tenant's record")
		}
	}},
	{"mail/domains/record-missing", "verification fails while the record is missing", func(t T, env MailPlatformEnv) {
		_, client := newConnectedTenant(t, env, Setup{})
		name := newAddedDomain(t, env, client)
		_, err := client.VerifyDomain(callContext(t), name)
		requireRefusal(t, "verify", err, fault.VerificationFailed)
		wrongRecord := verificationRecord(t, client, name)
		wrongRecord.Content += "0"
		env.Publish(t, name, wrongRecord)
		_, err = client.VerifyDomain(callContext(t), name)
		requireRefusal(t, "verify a wrong record", err, fault.VerificationFailed)
	}},
	{"mail/domains/verified", "a verified domain stays verified", func(t T, env MailPlatformEnv) {
		_, client := newConnectedTenant(t, env, Setup{})
		name := newVerifiedDomain(t, env, client)
		env.Publish(t, name)
		d, err := client.VerifyDomain(callContext(t), name)
		must(t, "verify again", err)
		if !d.Verified {
			t.Fatalf("verified again: got %+v, want it verified", d)
		}
		d, err = client.Domain(callContext(t), name)
		must(t, "domain", err)
		if !d.Verified {
			t.Fatalf("read %+v, want it verified", d)
		}
	}},
	{"mail/domains/unavailable", "a domain of a different tenant is refused when it is added or verified", func(t T, env MailPlatformEnv) {
		_, ann := newConnectedTenant(t, env, Setup{})
		_, bob := newConnectedTenant(t, env, Setup{})
		name := newVerifiedDomain(t, env, ann)
		_, err := bob.AddDomain(callContext(t), name)
		if err == nil {
			env.Publish(t, name, verificationRecord(t, ann, name), verificationRecord(t, bob, name))
			eventually(t, env, "verify", func() bool {
				_, err = bob.VerifyDomain(callContext(t), name)
				return !errors.Is(err, fault.VerificationFailed)
			})
		}
		requireRefusal(t, "add or verify", err, fault.DomainUnavailable)
	}},
	{"mail/domains/mail-records", "a verified domain with e-mail service has mail records", func(t T, env MailPlatformEnv) {
		_, client := newConnectedTenant(t, env, Setup{})
		name := newVerifiedDomain(t, env, client)
		must(t, "enable mail", client.EnableMail(callContext(t), name))
		must(t, "enable mail again", client.EnableMail(callContext(t), name))
		eventually(t, env, "service records", func() bool { return hasMailRecords(t, client, name) })
		d, err := client.Domain(callContext(t), name)
		must(t, "domain", err)
		if !d.MailEnabled {
			t.Fatalf("got %+v, want MailEnabled", d)
		}
	}},
	{"mail/connect/withdrawn", "after a withdrawn consent, calls are refused with access_denied", func(t T, env MailPlatformEnv) {
		testTenant, client := newReadyTenant(t, env, Setup{})
		env.Revoke(t, testTenant.GUID, GrantConsent)
		for operation, call := range map[string]func() error{
			"profile":    func() error { _, err := client.Profile(callContext(t)); return err },
			"domains":    func() error { _, err := client.Domains(callContext(t)); return err },
			"add domain": func() error { _, err := client.AddDomain(callContext(t), "example.test"); return err },
			"mailboxes":  func() error { _, err := client.Mailboxes(callContext(t)); return err },
			"bootstrap":  func() error { _, err := client.Bootstrap(callContext(t)); return err },
		} {
			requireRefusal(t, operation, call(), fault.AccessDenied)
		}
	}},
}

func domainNames(t T, client ports.MailTenant) []string {
	t.Helper()
	list, err := client.Domains(callContext(t))
	must(t, "domains", err)
	var names []string
	for _, d := range list {
		names = append(names, d.Name)
	}
	return names
}

// hasMailRecords reports whether the platform returns MX and SPF records for the domain. It fails
// the test if a record has capital letters in its name, a final dot or no content.
func hasMailRecords(t T, client ports.MailTenant, name string) bool {
	t.Helper()
	records, err := client.Records(callContext(t), name)
	must(t, "records", err)
	var mx, spf bool
	for _, r := range records.Service {
		if r.Name != strings.ToLower(r.Name) || strings.HasSuffix(r.Name, ".") || strings.HasSuffix(r.Content, ".") || r.Content == "" {
			t.Fatalf("a service record is not in canonical form: %+v", r)
		}
		mx = mx || r.Type == dns.MX && r.Name == name
		spf = spf || r.Type == dns.TXT && strings.HasPrefix(r.Content, "v=spf1 ")
	}
	return mx && spf
}
