// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"context"
	"errors"
	"net/url"
	"slices"
	"testing"
	"time"

	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/mailbox"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/core/secret"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

const (
	callbackURL = "http://127.0.0.1:8080/connect/microsoft365/callback"
	signInURL   = "http://127.0.0.1:8080/connect/microsoft365/signin"
	// password is strong enough for every platform.
	password = "Corr3ct-horse-battery"
)

// onlyAHang is a time limit that only a hang reaches, however slow the machine is.
const onlyAHang = 5 * time.Minute

// call returns the context of a provider call, with a deadline.
func call(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), onlyAHang)
	t.Cleanup(cancel)
	return ctx
}

func must(t testing.TB, what string, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

// refused checks for a definite refusal with a code.
func refused(t testing.TB, what string, err error, code fault.Code) {
	t.Helper()
	if !errors.Is(err, code) {
		t.Fatalf("%s: got %v, want %s", what, err, code.Name)
	}
}

// ended checks the kind of outcome.
func ended(t testing.TB, what string, err error, kind outcome.Kind) {
	t.Helper()
	if got := outcome.Of(err); got != kind {
		t.Fatalf("%s: got outcome %s (%v), want %s", what, got, err, kind)
	}
}

// eventually repeats a step while the platform takes its time.
func eventually(t testing.TB, w World, what string, done func() bool) {
	t.Helper()
	for range 40 {
		if done() {
			return
		}
		w.Advance(t, 30*time.Second)
	}
	t.Fatalf("%s: the platform never gets there", what)
}

// grant walks the administrator through the consent page.
func grant(t testing.TB, w World, who Tenant) tenant.GUID {
	t.Helper()
	page, err := w.Platform().ConsentURL(call(t), "state-1", callbackURL)
	must(t, "consent URL", err)
	query := w.Visit(t, page, who.Admin, true)
	id, err := w.Platform().Granted(call(t), query)
	must(t, "granted", err)
	return id
}

// signIn walks a person through the sign-in and returns the code.
func signIn(t testing.TB, w World, s ports.SignIn, username string) secret.Text {
	t.Helper()
	page, err := w.Platform().SignInURL(call(t), s)
	must(t, "sign-in URL", err)
	q, err := url.ParseQuery(w.Visit(t, page, username, true))
	must(t, "parse the sign-in's answer", err)
	return secret.New(q.Get("code"))
}

// connected makes a tenant with consent.
func connected(t testing.TB, w World, s Setup) (Tenant, ports.MailTenant) {
	t.Helper()
	who := w.NewTenant(t, s)
	grant(t, w, who)
	client := w.Platform().For(who.GUID)
	eventually(t, w, "consent", func() bool {
		_, err := client.Profile(call(t))
		return err == nil
	})
	return who, client
}

// ready makes a tenant whose mail server is prepared.
func ready(t testing.TB, w World, s Setup) (Tenant, ports.MailTenant) {
	t.Helper()
	who, client := connected(t, w, s)
	bootstrap(t, w, client)
	return who, client
}

func bootstrap(t testing.TB, w World, client ports.MailTenant) {
	t.Helper()
	eventually(t, w, "bootstrap", func() bool {
		p, err := client.Bootstrap(call(t))
		must(t, "bootstrap", err)
		if p.Status == tenant.BootstrapFailed {
			t.Fatalf("bootstrap failed: %+v", p)
		}
		return p.Status == tenant.BootstrapReady
	})
}

// added makes a zone and adds it to the tenant.
func added(t testing.TB, w World, client ports.MailTenant) string {
	t.Helper()
	name := w.NewZone(t)
	_, err := client.AddDomain(call(t), name)
	must(t, "add domain", err)
	eventually(t, w, "added domain", func() bool {
		_, err := client.Domain(call(t), name)
		return err == nil
	})
	return name
}

// ownership is the record that proves a domain.
func ownership(t testing.TB, client ports.MailTenant, name string) dns.Record {
	t.Helper()
	records, err := client.Records(call(t), name)
	must(t, "records", err)
	found, ok := dns.Verification(records.Verification)
	if !ok {
		t.Fatalf("the platform names no verification record: %+v", records)
	}
	return found
}

// verified adds a domain and has it verified.
func verified(t testing.TB, w World, client ports.MailTenant) string {
	t.Helper()
	name := added(t, w, client)
	w.Publish(t, name, ownership(t, client, name))
	verify(t, w, client, name)
	return name
}

// verify asks again while the platform does not see the record yet.
func verify(t testing.TB, w World, client ports.MailTenant, name string) {
	t.Helper()
	eventually(t, w, "verify", func() bool {
		d, err := client.VerifyDomain(call(t), name)
		if err != nil && !errors.Is(err, fault.VerificationFailed) {
			t.Fatalf("verify: %v", err)
		}
		return err == nil && d.Verified
	})
}

// accepted makes a domain that the mail server takes mail for.
func accepted(t testing.TB, w World, client ports.MailTenant) string {
	t.Helper()
	name := verified(t, w, client)
	must(t, "enable mail", client.EnableMail(call(t), name))
	eventually(t, w, "accepted domain", func() bool {
		names, err := client.MailDomains(call(t))
		must(t, "mail domains", err)
		return slices.Contains(names, name)
	})
	return name
}

// made makes a mailbox.
func made(t testing.TB, w World, client ports.MailTenant, address string) mailbox.Platform {
	t.Helper()
	var m mailbox.Platform
	eventually(t, w, "create mailbox", func() bool {
		var err error
		m, err = client.CreateMailbox(call(t), mailbox.Spec{DisplayName: "Anna Keller", Address: address})
		if err != nil && outcome.Of(err) != outcome.NotReady {
			t.Fatalf("create mailbox: %v", err)
		}
		return err == nil
	})
	return m
}

// patiently repeats a step while it is not ready.
func patiently(t testing.TB, w World, what string, step func() error) {
	t.Helper()
	eventually(t, w, what, func() bool {
		err := step()
		if err != nil && outcome.Of(err) != outcome.NotReady {
			t.Fatalf("%s: %v", what, err)
		}
		return err == nil
	})
}
