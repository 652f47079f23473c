// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"slices"
	"strings"
	"time"

	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/mailbox"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/core/secret"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

var mailServerChecks = []mailCheck{
	{"mail/settings/bootstrap", "the bootstrap becomes ready and may be repeated", func(t T, env MailPlatformEnv) {
		_, client := newReadyTenant(t, env, Setup{})
		p, err := client.Bootstrap(callContext(t))
		must(t, "bootstrap again", err)
		if p.Status != tenant.BootstrapReady || p.Step != tenant.StepNone {
			t.Fatalf("got %+v, want ready", p)
		}
	}},
	{"mail/settings/dehydrated", "a dehydrated tenant is prepared", func(t T, env MailPlatformEnv) {
		_, client := newConnectedTenant(t, env, Setup{Dehydrated: true})
		p, err := client.Bootstrap(callContext(t))
		must(t, "bootstrap", err)
		if p.Status != tenant.BootstrapPending || p.Step != tenant.StepWait || p.Message == "" {
			t.Fatalf("got %+v, want pending with a message", p)
		}
		bootstrap(t, env, client)
	}},
	{"mail/settings/role-denied", "a role that only an administrator can grant stops the bootstrap at that step", func(t T, env MailPlatformEnv) {
		_, client := newConnectedTenant(t, env, Setup{Denied: true})
		p, err := client.Bootstrap(callContext(t))
		must(t, "bootstrap", err)
		if p.Status == tenant.BootstrapReady || p.Step != tenant.StepGrantRole {
			t.Fatalf("got %+v, want the step grant_role", p)
		}
	}},
	{"mail/settings/role-withdrawn", "a withdrawn role is detected and assigned again", func(t T, env MailPlatformEnv) {
		testTenant, client := newReadyTenant(t, env, Setup{})
		env.Revoke(t, testTenant.GUID, GrantExchangeRole)
		_, err := client.Mailboxes(callContext(t))
		requireRefusal(t, "mailboxes", err, fault.AccessDenied)
		bootstrap(t, env, client)
		_, err = client.Mailboxes(callContext(t))
		must(t, "mailboxes after the bootstrap", err)
	}},
	{"mail/settings/smtp-auth", "SMTP AUTH is enabled", func(t T, env MailPlatformEnv) {
		_, client := newReadyTenant(t, env, Setup{})
		must(t, "enable", client.EnableSMTPAuth(callContext(t)))
		must(t, "enable again", client.EnableSMTPAuth(callContext(t)))
		eventually(t, env, "SMTP AUTH", func() bool {
			state, err := client.SMTPAuth(callContext(t))
			must(t, "state", err)
			return state == tenant.SMTPAuthEnabled
		})
	}},
	{"mail/settings/smtp-auth-refused", "enabling SMTP AUTH is refused where the platform keeps it disabled", func(t T, env MailPlatformEnv) {
		_, client := newReadyTenant(t, env, Setup{SMTPAuthRefused: true})
		requireRefusal(t, "enable", client.EnableSMTPAuth(callContext(t)), fault.SMTPAuthNotEnabled)
		state, err := client.SMTPAuth(callContext(t))
		must(t, "state", err)
		if state != tenant.SMTPAuthDisabled {
			t.Fatalf("got %s, want disabled", state)
		}
	}},
	{"mail/signing/not-accepted", "a domain that is not accepted has no DKIM signing", func(t T, env MailPlatformEnv) {
		_, client := newReadyTenant(t, env, Setup{AcceptedDomainLag: time.Hour})
		name := newVerifiedDomain(t, env, client)
		must(t, "enable mail", client.EnableMail(callContext(t), name))
		s, err := client.Signing(callContext(t), name)
		must(t, "signing", err)
		if s != (dns.Signing{}) {
			t.Fatalf("got %+v, want none", s)
		}
		_, err = client.EnsureSigning(callContext(t), name)
		requireOutcome(t, "ensure signing", err, outcome.NotReady)
	}},
	{"mail/signing/created-once", "signing is created once and returns two CNAMEs", func(t T, env MailPlatformEnv) {
		_, client := newReadyTenant(t, env, Setup{})
		name := newAcceptedDomain(t, env, client)
		created, err := client.EnsureSigning(callContext(t), name)
		must(t, "ensure", err)
		repeated, err := client.EnsureSigning(callContext(t), name)
		must(t, "ensure again", err)
		read, err := client.Signing(callContext(t), name)
		must(t, "signing", err)
		if created != repeated || created != read || created.Enabled {
			t.Fatalf("got %+v, then %+v, and read %+v, want one configuration that is not enabled", created, repeated, read)
		}
		for label, r := range map[string]dns.Record{"selector1": created.Selector1, "selector2": created.Selector2} {
			if r.Type != dns.CNAME || r.Name != label+"._domainkey."+name || r.Content == "" {
				t.Fatalf("the record of %s is %+v, want a CNAME of %s._domainkey.%s", label, r, label, name)
			}
		}
	}},
	{"mail/signing/not-created", "signing cannot be enabled before it is created", func(t T, env MailPlatformEnv) {
		_, client := newReadyTenant(t, env, Setup{})
		name := newAcceptedDomain(t, env, client)
		requireRefusal(t, "enable", client.EnableSigning(callContext(t), name), fault.DKIMNotReady)
	}},
	{"mail/signing/enabled", "signing is enabled once both CNAMEs are published", func(t T, env MailPlatformEnv) {
		_, client := newReadyTenant(t, env, Setup{})
		name := newAcceptedDomain(t, env, client)
		created, err := client.EnsureSigning(callContext(t), name)
		must(t, "ensure", err)
		env.Publish(t, name, created.Selector1)
		requireRefusal(t, "enable with one CNAME", client.EnableSigning(callContext(t), name), fault.DKIMNotReady)
		env.Publish(t, name, created.Selector1, created.Selector2)
		eventually(t, env, "enable", func() bool { return client.EnableSigning(callContext(t), name) == nil })
		must(t, "enable again", client.EnableSigning(callContext(t), name))
		s, err := client.Signing(callContext(t), name)
		must(t, "signing", err)
		if !s.Enabled {
			t.Fatalf("got %+v, want signing enabled", s)
		}
	}},
}

var mailboxChecks = []mailCheck{
	{"mail/mailboxes/unknown", "an unknown mailbox is not found", func(t T, env MailPlatformEnv) {
		_, client := newReadyTenant(t, env, Setup{})
		name := newAcceptedDomain(t, env, client)
		_, err := client.Mailbox(callContext(t), "nobody@"+name)
		requireRefusal(t, "mailbox", err, fault.MailboxNotFound)
		requireRefusal(t, "rename", client.Rename(callContext(t), "nobody@"+name, "Nobody"), fault.MailboxNotFound)
	}},
	{"mail/mailboxes/domain-not-accepted", "no mailbox is created while the domain is not accepted", func(t T, env MailPlatformEnv) {
		_, client := newReadyTenant(t, env, Setup{AcceptedDomainLag: time.Hour})
		name := newVerifiedDomain(t, env, client)
		must(t, "enable mail", client.EnableMail(callContext(t), name))
		_, err := client.CreateMailbox(callContext(t), mailbox.Spec{DisplayName: "Anna", Address: "anna@" + name})
		requireOutcome(t, "create", err, outcome.NotReady)
		if got := mailboxAddresses(t, client); len(got) != 0 {
			t.Fatalf("the platform has the mailboxes %v, want none", got)
		}
		env.Advance(t, 2*time.Hour)
		createMailbox(t, env, client, "anna@"+name)
	}},
	{"mail/mailboxes/found", "a mailbox is found by its address, whatever its case", func(t T, env MailPlatformEnv) {
		_, client := newReadyTenant(t, env, Setup{})
		address := "anna.k@" + newAcceptedDomain(t, env, client)
		m := createMailbox(t, env, client, address)
		if m.ObjectID == "" || m.Address != address || m.DisplayName != "Anna Keller" || m.Alias == "" || m.PrincipalName == "" {
			t.Fatalf("created %+v, want Anna Keller at %s, with an object id, an alias and a sign-in name", m, address)
		}
		for _, spelling := range []string{address, strings.ToUpper(address)} {
			found, err := client.Mailbox(callContext(t), spelling)
			must(t, "mailbox", err)
			if found.ObjectID != m.ObjectID || found.Address != address {
				t.Fatalf("found %+v, want %+v", found, m)
			}
		}
	}},
	{"mail/mailboxes/listed", "all shared mailboxes are listed, and mailboxes of users are only counted", func(t T, env MailPlatformEnv) {
		_, client := newReadyTenant(t, env, Setup{})
		before, err := client.UserMailboxes(callContext(t))
		must(t, "user mailboxes", err)
		name := newAcceptedDomain(t, env, client)
		createMailbox(t, env, client, "anna@"+name)
		createMailbox(t, env, client, "ben@"+name)
		if got := mailboxAddresses(t, client); len(got) != 2 {
			t.Fatalf("listed the mailboxes %v, want two", got)
		}
		after, err := client.UserMailboxes(callContext(t))
		must(t, "user mailboxes", err)
		if after != before {
			t.Fatalf("two shared mailboxes changed the number of user mailboxes from %d to %d", before, after)
		}
	}},
	{"mail/mailboxes/created-at", "a mailbox is listed with the time of its creation", func(t T, env MailPlatformEnv) {
		_, client := newReadyTenant(t, env, Setup{})
		name := newAcceptedDomain(t, env, client)
		began := env.Now(t)
		createMailbox(t, env, client, "anna@"+name)
		list, err := client.Mailboxes(callContext(t))
		must(t, "mailboxes", err)
		if now := env.Now(t); len(list) != 1 || !isWithin(list[0].CreatedAt, began, now) {
			t.Fatalf("listed %+v, want one mailbox that was created between %s and %s", list, began, now)
		}
	}},
	{"mail/mailboxes/users-counted", "users are counted before the mail server is prepared", func(t T, env MailPlatformEnv) {
		_, client := newConnectedTenant(t, env, Setup{})
		_, err := client.UserMailboxes(callContext(t))
		must(t, "user mailboxes", err)
	}},
	{"mail/mailboxes/licences-counted", "e-mail licences are counted before the mail server is prepared, with trials counted separately", func(t T, env MailPlatformEnv) {
		for _, want := range []tenant.Licenses{{Paid: 25, Trial: 4}, {Paid: 3}, {Trial: 25}} {
			_, client := newConnectedTenant(t, env, Setup{Licenses: want})
			requireLicenses(t, client, want)
		}
	}},
	{"mail/mailboxes/no-licence", "shared mailboxes do not change the number of licences", func(t T, env MailPlatformEnv) {
		want := tenant.Licenses{Paid: 2}
		_, client := newReadyTenant(t, env, Setup{Licenses: want})
		name := newAcceptedDomain(t, env, client)
		for _, local := range []string{"anna", "ben", "cleo"} {
			createMailbox(t, env, client, local+"@"+name)
		}
		requireLicenses(t, client, want)
	}},
	{"mail/mailboxes/local-part", "two domains can have mailboxes with the same local part", func(t T, env MailPlatformEnv) {
		_, client := newReadyTenant(t, env, Setup{})
		mailboxOfFirstDomain := createMailbox(t, env, client, "anna@"+newAcceptedDomain(t, env, client))
		mailboxOfSecondDomain := createMailbox(t, env, client, "anna@"+newAcceptedDomain(t, env, client))
		if strings.EqualFold(mailboxOfFirstDomain.Alias, mailboxOfSecondDomain.Alias) {
			t.Fatalf("the mailboxes of both domains have the alias %s", mailboxOfFirstDomain.Alias)
		}
	}},
	{"mail/mailboxes/one-per-address", "creating a mailbox again creates no second one for the address", func(t T, env MailPlatformEnv) {
		_, client := newReadyTenant(t, env, Setup{})
		address := "anna@" + newAcceptedDomain(t, env, client)
		m := createMailbox(t, env, client, address)
		createdAgain, err := client.CreateMailbox(callContext(t), mailbox.Spec{DisplayName: "Other", Address: address})
		if err == nil && createdAgain.ObjectID != m.ObjectID {
			t.Fatalf("%s has two mailboxes: %+v and %+v", address, m, createdAgain)
		}
		if err != nil {
			requireRefusal(t, "create again", err, fault.InvalidMailboxEmail)
		}
		if got := mailboxAddresses(t, client); len(got) != 1 {
			t.Fatalf("the platform has the mailboxes %v, want one", got)
		}
	}},
	{"mail/mailboxes/replication", "enabling sign-in waits for the directory, and enabling submission waits for the mail server", func(t T, env MailPlatformEnv) {
		_, client := newReadyTenant(t, env, Setup{MailboxLag: time.Hour})
		m := createMailbox(t, env, client, "anna@"+newAcceptedDomain(t, env, client))
		requireOutcome(t, "sign-in", client.OpenSignIn(callContext(t), m.ObjectID, m.Address, secret.New(password)), outcome.NotReady)
		requireOutcome(t, "submission", client.OpenSubmission(callContext(t), m.Address), outcome.NotReady)
		env.Advance(t, 2*time.Hour)
		enableMailbox(t, env, client, m)
	}},
	{"mail/mailboxes/opened", "a mailbox with sign-in enabled can sign in with its address", func(t T, env MailPlatformEnv) {
		_, client := newReadyTenant(t, env, Setup{})
		m := createMailbox(t, env, client, "anna@"+newAcceptedDomain(t, env, client))
		enableMailbox(t, env, client, m)
		enableMailbox(t, env, client, m)
		found, err := client.Mailbox(callContext(t), m.Address)
		must(t, "mailbox", err)
		if !found.AccountEnabled || found.PrincipalName != m.Address {
			t.Fatalf("found %+v, want sign-in enabled, with the sign-in name %s", found, m.Address)
		}
	}},
	{"mail/mailboxes/weak-password", "a weak password is refused", func(t T, env MailPlatformEnv) {
		_, client := newReadyTenant(t, env, Setup{})
		m := createMailbox(t, env, client, "anna@"+newAcceptedDomain(t, env, client))
		var err error
		eventually(t, env, "sign-in", func() bool {
			err = client.OpenSignIn(callContext(t), m.ObjectID, m.Address, secret.New("short"))
			return outcome.KindOf(err) != outcome.NotReady
		})
		requireRefusal(t, "sign-in", err, fault.WeakPassword)
	}},
	{"mail/mailboxes/removed", "a removed mailbox is gone, and a new mailbox with its address stays", func(t T, env MailPlatformEnv) {
		_, client := newReadyTenant(t, env, Setup{})
		name := newAcceptedDomain(t, env, client)
		address := "anna@" + name
		m, remaining := createMailbox(t, env, client, address), createMailbox(t, env, client, "otto@"+name)
		remove := func() error { return client.RemoveMailbox(callContext(t), m.ObjectID) }
		retryUntilReady(t, env, "remove", remove)
		retryUntilReady(t, env, "remove again", remove)
		if got := mailboxAddresses(t, client); slices.Contains(got, address) {
			t.Fatalf("the platform still has the removed mailbox: %v", got)
		}
		newMailbox := createMailbox(t, env, client, address)
		if newMailbox.ObjectID == m.ObjectID {
			t.Fatal("the new mailbox has the id of the removed mailbox")
		}
		must(t, "remove the first one again", remove())
		if got := mailboxAddresses(t, client); !slices.Contains(got, address) || !slices.Contains(got, remaining.Address) {
			t.Fatalf("the platform has the mailboxes %v, want %s and %s", got, address, remaining.Address)
		}
	}},
	{"mail/mailboxes/removed-early", "the removal of a new mailbox waits for the directory", func(t T, env MailPlatformEnv) {
		_, client := newReadyTenant(t, env, Setup{MailboxLag: time.Hour})
		m := createMailbox(t, env, client, "anna@"+newAcceptedDomain(t, env, client))
		requireOutcome(t, "remove", client.RemoveMailbox(callContext(t), m.ObjectID), outcome.NotReady)
		env.Advance(t, 2*time.Hour)
		must(t, "remove", client.RemoveMailbox(callContext(t), m.ObjectID))
		if got := mailboxAddresses(t, client); len(got) != 0 {
			t.Fatalf("the platform has the mailboxes %v, want none", got)
		}
	}},
	{"mail/domains/in-use", "a domain with mailboxes is not removed", func(t T, env MailPlatformEnv) {
		_, client := newReadyTenant(t, env, Setup{})
		name := newAcceptedDomain(t, env, client)
		m := createMailbox(t, env, client, "anna@"+name)
		retryUntilReady(t, env, "sign-in", func() error {
			return client.OpenSignIn(callContext(t), m.ObjectID, m.Address, secret.New(password))
		})
		requireRefusal(t, "remove", client.RemoveDomain(callContext(t), name), fault.DomainInUse)
		retryUntilReady(t, env, "remove the mailbox", func() error { return client.RemoveMailbox(callContext(t), m.ObjectID) })
		eventually(t, env, "removal", func() bool { return client.RemoveDomain(callContext(t), name) == nil })
	}},
	{"mail/mailboxes/renamed", "a mailbox is renamed", func(t T, env MailPlatformEnv) {
		_, client := newReadyTenant(t, env, Setup{})
		m := createMailbox(t, env, client, "anna@"+newAcceptedDomain(t, env, client))
		must(t, "rename", client.Rename(callContext(t), m.Address, "Anna Schmidt"))
		must(t, "rename again", client.Rename(callContext(t), m.Address, "Anna Schmidt"))
		found, err := client.Mailbox(callContext(t), m.Address)
		must(t, "mailbox", err)
		if found.DisplayName != "Anna Schmidt" {
			t.Fatalf("the display name is %q, want Anna Schmidt", found.DisplayName)
		}
	}},
}

// enableMailbox enables sign-in and submission of a mailbox, and waits until the platform accepts
// both.
func enableMailbox(t T, env MailPlatformEnv, client ports.MailTenant, m mailbox.Platform) {
	t.Helper()
	retryUntilReady(t, env, "sign-in", func() error {
		return client.OpenSignIn(callContext(t), m.ObjectID, m.Address, secret.New(password))
	})
	retryUntilReady(t, env, "submission", func() error { return client.OpenSubmission(callContext(t), m.Address) })
}

func requireLicenses(t T, client ports.MailTenant, want tenant.Licenses) {
	t.Helper()
	got, err := client.EmailLicenses(callContext(t))
	must(t, "licences", err)
	if got.Paid != want.Paid || got.Trial != want.Trial || got.RecipientLimit < 0 {
		t.Fatalf("licences are %+v, want %+v and a limit that is not negative", got, want)
	}
}

func mailboxAddresses(t T, client ports.MailTenant) []string {
	t.Helper()
	list, err := client.Mailboxes(callContext(t))
	must(t, "mailboxes", err)
	var addresses []string
	for _, m := range list {
		addresses = append(addresses, m.Address)
	}
	return addresses
}
