// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tenantry/tenantry/adapters/fake"
	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/core/domain"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/mailbox"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/core/secret"
	"github.com/tenantry/tenantry/core/sendlimit"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

// fakeEnv is the fake platform as a MailPlatformEnv and a DNSReaderEnv. A test can replace platform
// and reader by types that break a promise.
type fakeEnv struct {
	fake     *fake.Platform
	platform ports.MailPlatform
	reader   ports.DNSReader
	serial   atomic.Int64
}

func newFakeEnv() *fakeEnv {
	p := fake.New()
	return &fakeEnv{fake: p, platform: p, reader: p.DNS}
}

func (env *fakeEnv) Platform() ports.MailPlatform { return env.platform }

func (env *fakeEnv) Reader() ports.DNSReader { return env.reader }

func (env *fakeEnv) NewTenant(_ T, s Setup) Tenant {
	n := env.serial.Add(1)
	id := tenant.GUID(fmt.Sprintf("%08d-0000-4000-8000-000000000000", n))
	name := fmt.Sprintf("Tenant %d", n)
	env.fake.AddTenant(id, fake.Setup{
		Name: name, Dehydrated: s.Dehydrated, Denied: s.Denied, SMTPAuthRefused: s.SMTPAuthRefused,
		TracePage: s.TracePage, Licenses: s.Licenses,
		Lag: fake.Lag{
			AcceptedDomain: s.AcceptedDomainLag, Directory: s.MailboxLag, Submission: s.MailboxLag,
			Rule: s.RuleLag, Trace: s.TraceLag,
		},
	})
	suffix := fmt.Sprintf("@t%08d.onmicrosoft.com", n)
	return Tenant{GUID: id, Name: name, Admin: "admin" + suffix, Member: "member" + suffix, Guest: "guest" + suffix, Platform: "fake"}
}

func (env *fakeEnv) Visit(t T, page, username string, accept bool) string {
	query, err := env.fake.Visit(page, username, accept)
	must(t, "visit", err)
	return query
}

func (env *fakeEnv) NewZone(T) string {
	zone := fmt.Sprintf("zone-%d.test", env.serial.Add(1))
	env.fake.DNS.Publish(zone)
	return zone
}

func (env *fakeEnv) Publish(_ T, zone string, records ...dns.Record) {
	env.fake.DNS.Publish(zone, records...)
}

func (env *fakeEnv) Advance(_ T, d time.Duration) { env.fake.Advance(d) }

func (env *fakeEnv) Now(T) time.Time { return env.fake.Now() }

func (env *fakeEnv) Send(_ T, id tenant.GUID, mailbox string, count int) {
	env.fake.Send(id, mailbox, count)
}

func (env *fakeEnv) SetRule(_ T, id tenant.GUID, r sendlimit.Rule) { env.fake.SetRule(id, r) }

func (env *fakeEnv) Rules(_ T, id tenant.GUID) map[string][]string {
	blocked := map[string][]string{}
	for _, r := range env.fake.SnapshotOf(id).Rules {
		blocked[r.Name] = r.Blocks()
	}
	return blocked
}

func (env *fakeEnv) Revoke(_ T, id tenant.GUID, grant Grant) {
	env.fake.Revoke(id, string(grant))
}

func (env *fakeEnv) Fail(_ T, id tenant.GUID, method string, failure Failure) func() {
	kind := map[Failure]outcome.Kind{
		Throttles: outcome.Throttled, IsDown: outcome.Down, Breaks: outcome.Broken,
		LosesRequest: outcome.Unknown, LosesAnswer: outcome.Unknown,
	}
	return env.fake.Fail(fake.Fault{Tenant: id, Method: method, Kind: kind[failure], AfterEffect: failure == LosesAnswer})
}

func TestFakePlatformAndDNSKeepTheContracts(t *testing.T) {
	MailPlatform(t, func(T) MailPlatformEnv { return newFakeEnv() })
	DNSReader(t, func(*testing.T) DNSReaderEnv { return newFakeEnv() })
}

// brokenPlatform is the fake platform with some methods replaced. A nil field keeps the fake's
// method.
type brokenPlatform struct {
	ports.MailPlatform
	check         func() error
	granted       func(ports.MailPlatform, string) (tenant.GUID, error)
	signInURL     func(ports.MailPlatform, ports.SignIn) (string, error)
	administrator func(ports.MailPlatform, ports.SignIn, secret.Text) (tenant.Administrator, error)
	tenants       func(ports.MailTenant) ports.MailTenant
}

func (b brokenPlatform) Check(ctx context.Context) error {
	if b.check != nil {
		return b.check()
	}
	return b.MailPlatform.Check(ctx)
}

func (b brokenPlatform) Granted(ctx context.Context, query string) (tenant.GUID, error) {
	if b.granted != nil {
		return b.granted(b.MailPlatform, query)
	}
	return b.MailPlatform.Granted(ctx, query)
}

func (b brokenPlatform) SignInURL(ctx context.Context, s ports.SignIn) (string, error) {
	if b.signInURL != nil {
		return b.signInURL(b.MailPlatform, s)
	}
	return b.MailPlatform.SignInURL(ctx, s)
}

func (b brokenPlatform) Administrator(ctx context.Context, s ports.SignIn, code secret.Text) (tenant.Administrator, error) {
	if b.administrator != nil {
		return b.administrator(b.MailPlatform, s, code)
	}
	return b.MailPlatform.Administrator(ctx, s, code)
}

func (b brokenPlatform) For(id tenant.GUID) ports.MailTenant {
	if b.tenants != nil {
		return b.tenants(b.MailPlatform.For(id))
	}
	return b.MailPlatform.For(id)
}

// Each of these types wraps a tenant and breaks one promise of ports.MailTenant. Its name says how.
type (
	builtinAsDefault       struct{ ports.MailTenant }
	listsBuiltinDomain     struct{ ports.MailTenant }
	acceptsUnknownDomain   struct{ ports.MailTenant }
	addsDomainAsVerified   struct{ ports.MailTenant }
	refusesSecondAdd       struct{ ports.MailTenant }
	acceptsBuiltinNames    struct{ ports.MailTenant }
	returnsNoRecords       struct{ ports.MailTenant }
	verifiesWithoutRecord  struct{ ports.MailTenant }
	verifiesOnlyOnce       struct{ ports.MailTenant }
	hidesProfileErrors     struct{ ports.MailTenant }
	targetsWithFinalDot    struct{ ports.MailTenant }
	bootstrapAlwaysReady   struct{ ports.MailTenant }
	enablesNoSMTPAuth      struct{ ports.MailTenant }
	signingAlwaysEnabled   struct{ ports.MailTenant }
	swapsSelectors         struct{ ports.MailTenant }
	hidesSubmissionErrors  struct{ ports.MailTenant }
	caseSensitiveAddresses struct{ ports.MailTenant }
	listsOneMailbox        struct{ ports.MailTenant }
	aliasIsLocalPart       struct{ ports.MailTenant }
	opensNoSignIn          struct{ ports.MailTenant }
	renamesNothing         struct{ ports.MailTenant }
	unknownCreationIsDown  struct{ ports.MailTenant }
	everyListFailureIsDown struct{ ports.MailTenant }
	countsSharedAsUsers    struct{ ports.MailTenant }

	countsTrialsAsPaid    struct{ ports.MailTenant }
	countsUsersAsLicenses struct{ ports.MailTenant }
	countsSharedAsPaid    struct{ ports.MailTenant }
	licensesNeedBootstrap struct{ ports.MailTenant }
)

func (b builtinAsDefault) Profile(ctx context.Context) (tenant.Profile, error) {
	p, err := b.MailTenant.Profile(ctx)
	p.DefaultDomain = p.BuiltinDomain
	return p, err
}

func (b listsBuiltinDomain) Domains(ctx context.Context) ([]domain.Platform, error) {
	list, err := b.MailTenant.Domains(ctx)
	return append(list, domain.Platform{Name: "t.onmicrosoft.com", Verified: true}), err
}

func (b acceptsUnknownDomain) Domain(ctx context.Context, name string) (domain.Platform, error) {
	d, _ := b.MailTenant.Domain(ctx, name)
	return d, nil
}

func (b addsDomainAsVerified) AddDomain(ctx context.Context, name string) (domain.Platform, error) {
	d, err := b.MailTenant.AddDomain(ctx, name)
	d.Verified = true
	return d, err
}

func (b refusesSecondAdd) AddDomain(ctx context.Context, name string) (domain.Platform, error) {
	if _, err := b.Domain(ctx, name); err == nil {
		return domain.Platform{}, &outcome.Error{Kind: outcome.Refused, Code: fault.DomainUnavailable}
	}
	return b.MailTenant.AddDomain(ctx, name)
}

func (b acceptsBuiltinNames) AddDomain(ctx context.Context, name string) (domain.Platform, error) {
	if strings.HasSuffix(name, ".onmicrosoft.com") {
		return domain.Platform{Name: name}, nil
	}
	return b.MailTenant.AddDomain(ctx, name)
}

func (b returnsNoRecords) Records(context.Context, string) (domain.Records, error) {
	return domain.Records{}, nil
}

func (b verifiesWithoutRecord) VerifyDomain(ctx context.Context, name string) (domain.Platform, error) {
	d, err := b.Domain(ctx, name)
	d.Verified = true
	return d, err
}

func (b verifiesOnlyOnce) VerifyDomain(ctx context.Context, name string) (domain.Platform, error) {
	if d, err := b.Domain(ctx, name); err == nil && d.Verified {
		return d, &outcome.Error{Kind: outcome.Refused, Code: fault.VerificationFailed}
	}
	return b.MailTenant.VerifyDomain(ctx, name)
}

func (b hidesProfileErrors) Profile(ctx context.Context) (tenant.Profile, error) {
	p, _ := b.MailTenant.Profile(ctx)
	return p, nil
}

func (b targetsWithFinalDot) Records(ctx context.Context, name string) (domain.Records, error) {
	r, err := b.MailTenant.Records(ctx, name)
	for i := range r.Service {
		r.Service[i].Content += "."
	}
	return r, err
}

func (b bootstrapAlwaysReady) Bootstrap(context.Context) (tenant.Progress, error) {
	return tenant.Progress{Status: tenant.BootstrapReady}, nil
}

func (b enablesNoSMTPAuth) EnableSMTPAuth(context.Context) error { return nil }

func (b signingAlwaysEnabled) EnsureSigning(ctx context.Context, name string) (dns.Signing, error) {
	s, err := b.MailTenant.EnsureSigning(ctx, name)
	s.Enabled = err == nil
	return s, err
}

func (b swapsSelectors) EnsureSigning(ctx context.Context, name string) (dns.Signing, error) {
	s, err := b.MailTenant.EnsureSigning(ctx, name)
	s.Selector1, s.Selector2 = s.Selector2, s.Selector1
	return s, err
}

func (b hidesSubmissionErrors) OpenSubmission(ctx context.Context, address string) error {
	_ = b.MailTenant.OpenSubmission(ctx, address)
	return nil
}

func (b caseSensitiveAddresses) Mailbox(ctx context.Context, address string) (mailbox.Platform, error) {
	if address != strings.ToLower(address) {
		return mailbox.Platform{}, &outcome.Error{Kind: outcome.Refused, Code: fault.MailboxNotFound}
	}
	return b.MailTenant.Mailbox(ctx, address)
}

func (b listsOneMailbox) Mailboxes(ctx context.Context) ([]mailbox.Platform, error) {
	list, err := b.MailTenant.Mailboxes(ctx)
	return list[:min(len(list), 1)], err
}

func (b aliasIsLocalPart) CreateMailbox(ctx context.Context, s mailbox.Spec) (mailbox.Platform, error) {
	m, err := b.MailTenant.CreateMailbox(ctx, s)
	m.Alias, _, _ = strings.Cut(s.Address, "@")
	return m, err
}

func (b opensNoSignIn) OpenSignIn(context.Context, string, string, secret.Text) error { return nil }

func (b renamesNothing) Rename(context.Context, string, string) error { return nil }

func (b unknownCreationIsDown) CreateMailbox(ctx context.Context, s mailbox.Spec) (mailbox.Platform, error) {
	m, err := b.MailTenant.CreateMailbox(ctx, s)
	if outcome.KindOf(err) == outcome.Unknown {
		err = &outcome.Error{Kind: outcome.Down}
	}
	return m, err
}

func (b everyListFailureIsDown) Domains(ctx context.Context) ([]domain.Platform, error) {
	list, err := b.MailTenant.Domains(ctx)
	if err != nil {
		err = &outcome.Error{Kind: outcome.Down}
	}
	return list, err
}

func (b countsSharedAsUsers) UserMailboxes(ctx context.Context) (int, error) {
	list, err := b.Mailboxes(ctx)
	return len(list), err
}

func (b countsTrialsAsPaid) EmailLicenses(ctx context.Context) (tenant.Licenses, error) {
	l, err := b.MailTenant.EmailLicenses(ctx)
	return tenant.Licenses{Paid: l.Paid + l.Trial}, err
}

func (b countsUsersAsLicenses) EmailLicenses(ctx context.Context) (tenant.Licenses, error) {
	users, err := b.UserMailboxes(ctx)
	return tenant.Licenses{Paid: users}, err
}

func (b countsSharedAsPaid) EmailLicenses(ctx context.Context) (tenant.Licenses, error) {
	l, err := b.MailTenant.EmailLicenses(ctx)
	shared, _ := b.Mailboxes(ctx)
	l.Paid += len(shared)
	return l, err
}

func (b licensesNeedBootstrap) EmailLicenses(ctx context.Context) (tenant.Licenses, error) {
	if _, err := b.Mailboxes(ctx); err != nil {
		return tenant.Licenses{}, err
	}
	return b.MailTenant.EmailLicenses(ctx)
}

// brokenTenant returns a platform that wraps each of its tenants with wrap. The caller sets the
// MailPlatform of the result.
func brokenTenant[T ports.MailTenant](wrap func(ports.MailTenant) T) brokenPlatform {
	return brokenPlatform{tenants: func(m ports.MailTenant) ports.MailTenant { return wrap(m) }}
}

// brokenPlatforms are platforms that break one promise each, keyed by a description of the fault.
var brokenPlatforms = map[string]brokenPlatform{
	"any callback counts as a consent": {granted: func(ports.MailPlatform, string) (tenant.GUID, error) {
		return "00000001-0000-4000-8000-000000000000", nil
	}},
	"the sign-in forgets the nonce": {
		signInURL: func(p ports.MailPlatform, s ports.SignIn) (string, error) {
			s.Nonce = ""
			return p.SignInURL(context.Background(), s)
		},
		administrator: func(p ports.MailPlatform, s ports.SignIn, c secret.Text) (tenant.Administrator, error) {
			s.Nonce = ""
			return p.Administrator(context.Background(), s, c)
		},
	},
	"any person counts as an administrator": {administrator: func(p ports.MailPlatform, s ports.SignIn, c secret.Text) (tenant.Administrator, error) {
		admin, _ := p.Administrator(context.Background(), s, c)
		return admin, nil
	}},
	"a good credential is refused":                              {check: func() error { return fault.AccessDenied.With("no") }},
	"the built-in domain is the default":                        brokenTenant(func(m ports.MailTenant) builtinAsDefault { return builtinAsDefault{m} }),
	"the built-in domain is listed":                             brokenTenant(func(m ports.MailTenant) listsBuiltinDomain { return listsBuiltinDomain{m} }),
	"an unknown domain is not refused":                          brokenTenant(func(m ports.MailTenant) acceptsUnknownDomain { return acceptsUnknownDomain{m} }),
	"an added domain is verified":                               brokenTenant(func(m ports.MailTenant) addsDomainAsVerified { return addsDomainAsVerified{m} }),
	"adding again is a conflict":                                brokenTenant(func(m ports.MailTenant) refusesSecondAdd { return refusesSecondAdd{m} }),
	"built-in names are accepted":                               brokenTenant(func(m ports.MailTenant) acceptsBuiltinNames { return acceptsBuiltinNames{m} }),
	"no verification record is returned":                        brokenTenant(func(m ports.MailTenant) returnsNoRecords { return returnsNoRecords{m} }),
	"verified without a check":                                  brokenTenant(func(m ports.MailTenant) verifiesWithoutRecord { return verifiesWithoutRecord{m} }),
	"verifying again fails":                                     brokenTenant(func(m ports.MailTenant) verifiesOnlyOnce { return verifiesOnlyOnce{m} }),
	"a lost consent is not an error":                            brokenTenant(func(m ports.MailTenant) hidesProfileErrors { return hidesProfileErrors{m} }),
	"targets with the final dot":                                brokenTenant(func(m ports.MailTenant) targetsWithFinalDot { return targetsWithFinalDot{m} }),
	"ready without a bootstrap":                                 brokenTenant(func(m ports.MailTenant) bootstrapAlwaysReady { return bootstrapAlwaysReady{m} }),
	"SMTP AUTH is not enabled":                                  brokenTenant(func(m ports.MailTenant) enablesNoSMTPAuth { return enablesNoSMTPAuth{m} }),
	"signing is enabled without a request":                      brokenTenant(func(m ports.MailTenant) signingAlwaysEnabled { return signingAlwaysEnabled{m} }),
	"the selectors are swapped":                                 brokenTenant(func(m ports.MailTenant) swapsSelectors { return swapsSelectors{m} }),
	"errors of OpenSubmission are hidden":                       brokenTenant(func(m ports.MailTenant) hidesSubmissionErrors { return hidesSubmissionErrors{m} }),
	"addresses are case-sensitive":                              brokenTenant(func(m ports.MailTenant) caseSensitiveAddresses { return caseSensitiveAddresses{m} }),
	"only the first mailbox is listed":                          brokenTenant(func(m ports.MailTenant) listsOneMailbox { return listsOneMailbox{m} }),
	"the alias is only the local part":                          brokenTenant(func(m ports.MailTenant) aliasIsLocalPart { return aliasIsLocalPart{m} }),
	"sign-in is not opened":                                     brokenTenant(func(m ports.MailTenant) opensNoSignIn { return opensNoSignIn{m} }),
	"renaming does nothing":                                     brokenTenant(func(m ports.MailTenant) renamesNothing { return renamesNothing{m} }),
	"an unknown outcome of a creation is reported as no effect": brokenTenant(func(m ports.MailTenant) unknownCreationIsDown { return unknownCreationIsDown{m} }),
	"every failure of a list is reported as down":               brokenTenant(func(m ports.MailTenant) everyListFailureIsDown { return everyListFailureIsDown{m} }),
	"shared mailboxes are counted as users":                     brokenTenant(func(m ports.MailTenant) countsSharedAsUsers { return countsSharedAsUsers{m} }),
	"trial licences are counted as paid":                        brokenTenant(func(m ports.MailTenant) countsTrialsAsPaid { return countsTrialsAsPaid{m} }),
	"the number of users is reported as licences":               brokenTenant(func(m ports.MailTenant) countsUsersAsLicenses { return countsUsersAsLicenses{m} }),
	"shared mailboxes are counted as licences":                  brokenTenant(func(m ports.MailTenant) countsSharedAsPaid { return countsSharedAsPaid{m} }),
	"licences are counted only after the bootstrap":             brokenTenant(func(m ports.MailTenant) licensesNeedBootstrap { return licensesNeedBootstrap{m} }),
}

// TestMailPlatformSuiteDetectsBrokenPromises runs the suite on fakes that break one promise each.
func TestMailPlatformSuiteDetectsBrokenPromises(t *testing.T) {
	for name, broken := range brokenPlatforms {
		t.Run(name, func(t *testing.T) {
			requireDetected(t, MailPlatformChecks(), func() MailPlatformEnv {
				env := newFakeEnv()
				broken.MailPlatform = env.fake
				env.platform = broken
				return env
			})
		})
	}
}
