// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"context"
	"errors"
	"net/url"
	"slices"
	"time"

	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/mailbox"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/core/secret"
	"github.com/tenantry/tenantry/core/sendlimit"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

// MailPlatformEnv is a test environment of a mail platform: the platform, its DNS and its clock.
// The tests of this package implement it for the fake, and plugins/conformance for the simulators of
// plugins.
type MailPlatformEnv interface {
	// Platform returns the adapter under test.
	Platform() ports.MailPlatform
	// NewTenant creates a tenant that is not connected.
	NewTenant(t T, s Setup) Tenant
	// Visit simulates a person who opens a page of the platform, signs in as username, and accepts
	// or declines. It returns the raw query of the redirect back to tenantry.
	Visit(t T, page, username string, accept bool) (query string)
	// NewZone creates a DNS zone for one check. Its name has at least two labels.
	NewZone(t T) string
	// Publish replaces the records of a zone.
	Publish(t T, zone string, records ...dns.Record)
	// Advance moves the platform's clock forward, so that its asynchronous work continues. If an
	// environment cannot move the clock, Advance waits until the asynchronous work is done.
	Advance(t T, d time.Duration)
	// Now returns the time of the platform's clock.
	Now(t T) time.Time
	// Send makes a mailbox send this number of messages now.
	Send(t T, id tenant.GUID, mailbox string, count int)
	// SetRule creates or replaces a rule by its name, as an administrator of the tenant does. It
	// sets whether the rule is enabled and which senders it blocks. An enabled rule without senders
	// blocks all senders.
	SetRule(t T, id tenant.GUID, r sendlimit.Rule)
	// Rules returns the senders that each rule at the platform blocks, keyed by the name of the
	// rule.
	Rules(t T, id tenant.GUID) map[string][]string
	// Revoke withdraws a grant of the administrator.
	Revoke(t T, id tenant.GUID, grant Grant)
	// Fail makes the requests of one port method fail until lift is called, at least for this
	// tenant. The checks use Fail for Domains, AddDomain, CreateMailbox, Rename, Block, Rules and
	// Sent. For a writing method only the writing requests fail. Reads that the adapter makes
	// before the write succeed.
	Fail(t T, id tenant.GUID, method string, failure Failure) (lift func())
}

// Setup describes a new tenant, and the lags of the platform for this tenant.
type Setup struct {
	// Dehydrated means that the mail server must be prepared, which takes some time. Denied means
	// that tenantry cannot assign the mail server's role to itself.
	Dehydrated, Denied bool
	// SMTPAuthRefused means that the platform keeps organization-wide SMTP AUTH disabled.
	SMTPAuthRefused bool
	// AcceptedDomainLag is the time from EnableMail until the mail server accepts the domain.
	// MailboxLag is the time from CreateMailbox until the directory and the mail server show the
	// mailbox. Zero means any lag of up to a few minutes of the platform's clock.
	AcceptedDomainLag, MailboxLag time.Duration
	// RuleLag is the time from a change of a rule until the change applies to mail. TraceLag is the
	// time from a message until the message trace shows the message. Zero means no lag.
	RuleLag, TraceLag time.Duration
	// Licenses are the tenant's e-mail licences. Zero means the licences of a new tenant at the
	// platform. The platform itself sets the RecipientLimit.
	Licenses tenant.Licenses
	// TracePage is the maximum number of rows on a page of the message trace. Zero means any number.
	TracePage int
}

// Tenant is a tenant of the platform, with the usernames of three people.
type Tenant struct {
	GUID tenant.GUID
	Name string
	// Admin is a global administrator and Member has no role. Guest belongs to a different tenant
	// and is an administrator only there.
	Admin, Member, Guest string
	// Platform is the id of the platform, which the paths of the connect pages contain.
	Platform string
}

// Grant is a permission that an administrator can withdraw.
type Grant string

// The grants.
const (
	GrantConsent      Grant = "consent"
	GrantExchangeRole Grant = "exchange_role"
)

// Failure is a way in which the platform fails.
type Failure int

// Throttles rejects requests with 429, IsDown with 503, and Breaks with a different 5xx status.
// LosesRequest neither performs nor answers the request. LosesAnswer performs the request and does
// not answer.
const (
	Throttles Failure = iota + 1
	IsDown
	Breaks
	LosesRequest
	LosesAnswer
)

type mailCheck = Check[MailPlatformEnv]

// MailPlatform runs the contract suite of ports.MailPlatform. open may return the same environment
// for every check, because the checks share neither tenants nor zones.
func MailPlatform[R Runner[R]](t R, open func(T) MailPlatformEnv) {
	runChecks(t, MailPlatformChecks(), open)
}

// MailPlatformChecks returns the checks of the contract suite of ports.MailPlatform.
func MailPlatformChecks() []Check[MailPlatformEnv] {
	var checks []mailCheck
	checks = append(checks, consentChecks...)
	checks = append(checks, directoryChecks...)
	checks = append(checks, mailServerChecks...)
	checks = append(checks, mailboxChecks...)
	checks = append(checks, ruleChecks...)
	checks = append(checks, traceChecks...)
	return append(checks, outcomeChecks...)
}

const password = "Corr3ct-horse-battery"

// callbackURL and signInURL return the redirect URIs of the service that are registered at the
// platform.
func callbackURL(t Tenant) string { return connectURL(t) + "/callback" }
func signInURL(t Tenant) string   { return connectURL(t) + "/signin" }

func connectURL(t Tenant) string { return "http://127.0.0.1:8080/connect/" + t.Platform }

// eventually calls done until it returns true, and moves the platform's clock by 30 s after each of
// up to 40 attempts.
func eventually(t T, env MailPlatformEnv, action string, done func() bool) {
	t.Helper()
	for range 40 {
		if done() {
			return
		}
		env.Advance(t, 30*time.Second)
	}
	t.Fatalf("%s: the platform did not finish in time", action)
}

// giveConsent opens the consent page as the tenant's administrator, accepts, and returns the
// granted tenant.
func giveConsent(t T, env MailPlatformEnv, testTenant Tenant) tenant.GUID {
	t.Helper()
	page, err := env.Platform().ConsentURL(callContext(t), "state-1", callbackURL(testTenant))
	must(t, "consent URL", err)
	query := env.Visit(t, page, testTenant.Admin, true)
	id, err := env.Platform().Granted(callContext(t), query)
	must(t, "granted", err)
	return id
}

// signIn opens the sign-in page as username and returns the code of the redirect.
func signIn(t T, env MailPlatformEnv, s ports.SignIn, username string) secret.Text {
	t.Helper()
	page, err := env.Platform().SignInURL(callContext(t), s)
	must(t, "sign-in URL", err)
	query, err := url.ParseQuery(env.Visit(t, page, username, true))
	must(t, "parse the sign-in's answer", err)
	return secret.New(query.Get("code"))
}

// newConnectedTenant creates a tenant and gives consent.
func newConnectedTenant(t T, env MailPlatformEnv, s Setup) (Tenant, ports.MailTenant) {
	t.Helper()
	testTenant := env.NewTenant(t, s)
	giveConsent(t, env, testTenant)
	client := env.Platform().For(testTenant.GUID)
	eventually(t, env, "consent", func() bool {
		_, err := client.Profile(callContext(t))
		return err == nil
	})
	return testTenant, client
}

// newReadyTenant creates a connected tenant whose mail server is prepared.
func newReadyTenant(t T, env MailPlatformEnv, s Setup) (Tenant, ports.MailTenant) {
	t.Helper()
	testTenant, client := newConnectedTenant(t, env, s)
	bootstrap(t, env, client)
	return testTenant, client
}

func bootstrap(t T, env MailPlatformEnv, client ports.MailTenant) {
	t.Helper()
	eventually(t, env, "bootstrap", func() bool {
		p, err := client.Bootstrap(callContext(t))
		must(t, "bootstrap", err)
		if p.Status == tenant.BootstrapFailed {
			t.Fatalf("bootstrap failed: %+v", p)
		}
		return p.Status == tenant.BootstrapReady
	})
}

// newAddedDomain creates a zone, adds its domain to the tenant and returns the name.
func newAddedDomain(t T, env MailPlatformEnv, client ports.MailTenant) string {
	t.Helper()
	name := env.NewZone(t)
	_, err := client.AddDomain(callContext(t), name)
	must(t, "add domain", err)
	eventually(t, env, "added domain", func() bool {
		_, err := client.Domain(callContext(t), name)
		return err == nil
	})
	return name
}

// verificationRecord returns the record that proves the ownership of a domain.
func verificationRecord(t T, client ports.MailTenant, name string) dns.Record {
	t.Helper()
	records, err := client.Records(callContext(t), name)
	must(t, "records", err)
	found, ok := dns.VerificationRecord(records.Verification)
	if !ok {
		t.Fatalf("the platform specifies no verification record: %+v", records)
	}
	return found
}

// newVerifiedDomain adds a new domain, publishes its verification record and verifies it.
func newVerifiedDomain(t T, env MailPlatformEnv, client ports.MailTenant) string {
	t.Helper()
	name := newAddedDomain(t, env, client)
	env.Publish(t, name, verificationRecord(t, client, name))
	verifyDomain(t, env, client, name)
	return name
}

// verifyDomain repeats the verification until the platform sees the record.
func verifyDomain(t T, env MailPlatformEnv, client ports.MailTenant, name string) {
	t.Helper()
	eventually(t, env, "verify", func() bool {
		d, err := client.VerifyDomain(callContext(t), name)
		if err != nil && !errors.Is(err, fault.VerificationFailed) {
			t.Fatalf("verify: %v", err)
		}
		return err == nil && d.Verified
	})
}

// newAcceptedDomain creates a domain for which the mail server accepts mail.
func newAcceptedDomain(t T, env MailPlatformEnv, client ports.MailTenant) string {
	t.Helper()
	name := newVerifiedDomain(t, env, client)
	must(t, "enable mail", client.EnableMail(callContext(t), name))
	eventually(t, env, "accepted domain", func() bool {
		names, err := client.MailDomains(callContext(t))
		must(t, "mail domains", err)
		return slices.Contains(names, name)
	})
	return name
}

func createMailbox(t T, env MailPlatformEnv, client ports.MailTenant, address string) (m mailbox.Platform) {
	t.Helper()
	retryUntilReady(t, env, "create mailbox", func() (err error) {
		m, err = client.CreateMailbox(callContext(t), mailbox.Spec{DisplayName: "Anna Keller", Address: address})
		return err
	})
	return m
}

// retryUntilReady repeats a step while its outcome is NotReady.
func retryUntilReady(t T, env MailPlatformEnv, action string, step func() error) {
	t.Helper()
	eventually(t, env, action, func() bool {
		err := step()
		if err != nil && outcome.KindOf(err) != outcome.NotReady {
			t.Fatalf("%s: %v", action, err)
		}
		return err == nil
	})
}

var outcomeChecks = []mailCheck{
	{"mail/outcomes/read-statuses", "a read distinguishes throttled, down and broken", func(t T, env MailPlatformEnv) {
		testTenant, client := newConnectedTenant(t, env, Setup{})
		for failure, kind := range map[Failure]outcome.Kind{
			Throttles: outcome.Throttled, IsDown: outcome.Down, Breaks: outcome.Broken,
		} {
			lift := env.Fail(t, testTenant.GUID, "Domains", failure)
			_, err := client.Domains(callContext(t))
			lift()
			requireOutcome(t, "domains", err, kind)
			_, err = client.Domains(callContext(t))
			must(t, "domains afterwards", err)
		}
	}},
	{"mail/outcomes/refused-write", "a throttled write and one during an outage have no effect", func(t T, env MailPlatformEnv) {
		testTenant, client := newConnectedTenant(t, env, Setup{})
		for failure, kind := range map[Failure]outcome.Kind{Throttles: outcome.Throttled, IsDown: outcome.Down} {
			name := env.NewZone(t)
			lift := env.Fail(t, testTenant.GUID, "AddDomain", failure)
			_, err := client.AddDomain(callContext(t), name)
			lift()
			requireOutcome(t, "add", err, kind)
			if names := domainNames(t, client); slices.Contains(names, name) {
				t.Fatalf("the failed write added %s", name)
			}
		}
	}},
	{"mail/outcomes/lost-add", "an add whose answer is lost is never reported as failed without effect", func(t T, env MailPlatformEnv) {
		testTenant, client := newConnectedTenant(t, env, Setup{})
		name := env.NewZone(t)
		lift := env.Fail(t, testTenant.GUID, "AddDomain", LosesAnswer)
		_, err := client.AddDomain(callContext(t), name)
		lift()
		requireDoneOrUnknown(t, err)
		_, err = client.AddDomain(callContext(t), name)
		must(t, "add again", err)
		if names := domainNames(t, client); len(names) != 1 {
			t.Fatalf("the platform has the domains %v, want one", names)
		}
	}},
	{"mail/outcomes/lost-creation", "a creation whose answer is lost is never reported as failed without effect", func(t T, env MailPlatformEnv) {
		testTenant, client := newReadyTenant(t, env, Setup{})
		name := newAcceptedDomain(t, env, client)
		createMailbox(t, env, client, "first@"+name)
		for failure, address := range map[Failure]string{LosesRequest: "request@" + name, LosesAnswer: "answer@" + name} {
			lift := env.Fail(t, testTenant.GUID, "CreateMailbox", failure)
			_, err := client.CreateMailbox(callContext(t), mailbox.Spec{DisplayName: "Anna", Address: address})
			lift()
			requireDoneOrUnknown(t, err)
			if got, want := slices.Contains(mailboxAddresses(t, client), address), failure == LosesAnswer; got != want {
				t.Fatalf("mailbox %s exists: %v, want %v", address, got, want)
			}
		}
	}},
	{"mail/outcomes/lost-rename", "a rename whose answer is lost is never reported as failed without effect", func(t T, env MailPlatformEnv) {
		testTenant, client := newReadyTenant(t, env, Setup{})
		m := createMailbox(t, env, client, "anna@"+newAcceptedDomain(t, env, client))
		lift := env.Fail(t, testTenant.GUID, "Rename", LosesAnswer)
		err := client.Rename(callContext(t), m.Address, "Anna Schmidt")
		lift()
		requireDoneOrUnknown(t, err)
		must(t, "rename again", client.Rename(callContext(t), m.Address, "Anna Schmidt"))
	}},
	{"mail/outcomes/cancelled", "a call with a cancelled context fails", func(t T, env MailPlatformEnv) {
		_, client := newReadyTenant(t, env, Setup{})
		name := newAcceptedDomain(t, env, client)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := client.CreateMailbox(ctx, mailbox.Spec{DisplayName: "Anna", Address: "anna@" + name})
		if err == nil || outcome.KindOf(err) == outcome.Refused || outcome.KindOf(err) == outcome.NotReady {
			t.Fatalf("got %v, want an error that is neither a refusal nor NotReady", err)
		}
	}},
}

// requireDoneOrUnknown checks the error of a write whose request or answer was lost. The adapter
// may read the result and succeed, but it must not report that the write had no effect.
func requireDoneOrUnknown(t T, err error) {
	t.Helper()
	if err != nil && outcome.ChangedNothing(err) {
		t.Fatalf("got %v, which claims that nothing changed", err)
	}
}
