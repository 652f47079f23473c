// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"net/url"
	"testing"

	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/secret"
	"github.com/tenantry/tenantry/ports"
)

var consentChecks = []check{
	{"the platform takes the operator's credential", func(t testing.TB, w World) {
		must(t, "check", w.Platform().Check(call(t)))
	}},
	{"consent and sign-in prove tenant and administrator", func(t testing.TB, w World) {
		who := w.NewTenant(t, Setup{})
		if id := grant(t, w, who); id != who.GUID {
			t.Fatalf("granted names %s, want %s", id, who.GUID)
		}
		s := begin(who)
		admin, err := w.Platform().Administrator(call(t), s, signIn(t, w, s, who.Admin))
		must(t, "administrator", err)
		if admin.Tenant != who.GUID || admin.Address != who.Admin {
			t.Fatalf("the administrator is %+v, want %s of %s", admin, who.Admin, who.GUID)
		}
	}},
	{"the consent's answer carries our state", func(t testing.TB, w World) {
		who := w.NewTenant(t, Setup{})
		page, err := w.Platform().ConsentURL(call(t), "our-state", callbackURL)
		must(t, "consent URL", err)
		q, err := url.ParseQuery(w.Visit(t, page, who.Admin, true))
		must(t, "parse the answer", err)
		if q.Get("state") != "our-state" {
			t.Fatalf("the answer carries state %q", q.Get("state"))
		}
	}},
	{"a declined consent is refused", func(t testing.TB, w World) {
		who := w.NewTenant(t, Setup{})
		page, err := w.Platform().ConsentURL(call(t), "state-1", callbackURL)
		must(t, "consent URL", err)
		_, err = w.Platform().Granted(call(t), w.Visit(t, page, who.Admin, false))
		refused(t, "granted", err, fault.ConsentDeclined)
	}},
	{"a callback that makes no sense is refused", func(t testing.TB, w World) {
		for _, query := range []string{"", "state=x", "admin_consent=True&tenant=nonsense", "%zz"} {
			_, err := w.Platform().Granted(call(t), query)
			refused(t, "granted "+query, err, fault.InvalidRequest)
		}
	}},
	{"who is no administrator is refused", func(t testing.TB, w World) {
		who := w.NewTenant(t, Setup{})
		grant(t, w, who)
		for _, person := range []string{who.Member, who.Guest} {
			s := begin(who)
			_, err := w.Platform().Administrator(call(t), s, signIn(t, w, s, person))
			refused(t, "sign-in", err, fault.NotAdministrator)
		}
	}},
	{"a sign-in's code works once", func(t testing.TB, w World) {
		who := w.NewTenant(t, Setup{})
		grant(t, w, who)
		s := begin(who)
		code := signIn(t, w, s, who.Admin)
		_, err := w.Platform().Administrator(call(t), s, code)
		must(t, "administrator", err)
		_, err = w.Platform().Administrator(call(t), s, code)
		refused(t, "second redemption", err, fault.ConnectLinkInvalid)
	}},
	{"a sign-in with another nonce is refused", func(t testing.TB, w World) {
		refusesSignIn(t, w, func(s *ports.SignIn) { s.Nonce = "another" })
	}},
	{"a sign-in with another verifier is refused", func(t testing.TB, w World) {
		refusesSignIn(t, w, func(s *ports.SignIn) {
			s.Verifier = secret.New("another-verifier-of-forty-three-characters-aa")
		})
	}},
	{"a sign-in at another tenant is refused", func(t testing.TB, w World) {
		other := w.NewTenant(t, Setup{})
		grant(t, w, other)
		refusesSignIn(t, w, func(s *ports.SignIn) { s.Tenant = other.GUID })
	}},
	{"a tenant without consent answers access_denied", func(t testing.TB, w World) {
		who := w.NewTenant(t, Setup{})
		_, err := w.Platform().For(who.GUID).Profile(call(t))
		refused(t, "profile", err, fault.AccessDenied)
	}},
}

func begin(who Tenant) ports.SignIn {
	return ports.SignIn{
		Tenant: who.GUID, State: "state-2", Nonce: "nonce-1", Redirect: signInURL,
		Verifier: secret.New("a-verifier-of-at-least-forty-three-characters"),
	}
}

// refusesSignIn begins one sign-in and redeems its code for another.
func refusesSignIn(t testing.TB, w World, change func(*ports.SignIn)) {
	t.Helper()
	who := w.NewTenant(t, Setup{})
	grant(t, w, who)
	s := begin(who)
	code := signIn(t, w, s, who.Admin)
	change(&s)
	_, err := w.Platform().Administrator(call(t), s, code)
	refused(t, "administrator", err, fault.ConnectLinkInvalid)
}
