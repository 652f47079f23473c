// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"context"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/core/domain"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/mailbox"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/core/secret"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

// brokenPlatform breaks a promise of the platform, brokenTenant one of a
// tenant: a nil field keeps the fake's behaviour.
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

// Each of these breaks one promise of a tenant.
type (
	forgetsDefault struct{ ports.MailTenant }
	listsBuiltin   struct{ ports.MailTenant }
	unknownIsZero  struct{ ports.MailTenant }
	addsVerified   struct{ ports.MailTenant }
	conflictOnAdd  struct{ ports.MailTenant }
	takesAnyName   struct{ ports.MailTenant }
	noRecords      struct{ ports.MailTenant }
	believesAll    struct{ ports.MailTenant }
	verifyOnce     struct{ ports.MailTenant }
	failsQuietly   struct{ ports.MailTenant }
	dottedRecords  struct{ ports.MailTenant }
	alwaysReady    struct{ ports.MailTenant }
	smtpPretends   struct{ ports.MailTenant }
	signsUnasked   struct{ ports.MailTenant }
	swapsSelectors struct{ ports.MailTenant }
	hidesLag       struct{ ports.MailTenant }
	caseSensitive  struct{ ports.MailTenant }
	losesMailbox   struct{ ports.MailTenant }
	oneAlias       struct{ ports.MailTenant }
	enablesNothing struct{ ports.MailTenant }
	renamesNothing struct{ ports.MailTenant }
	settlesUnknown struct{ ports.MailTenant }
	blursKinds     struct{ ports.MailTenant }
	countsShared   struct{ ports.MailTenant }

	countsTrials      struct{ ports.MailTenant }
	countsUsers       struct{ ports.MailTenant }
	licensesForShared struct{ ports.MailTenant }
	licensesWhenReady struct{ ports.MailTenant }
)

func (b forgetsDefault) Profile(ctx context.Context) (tenant.Profile, error) {
	p, err := b.MailTenant.Profile(ctx)
	p.DefaultDomain = p.BuiltinDomain
	return p, err
}

func (b listsBuiltin) Domains(ctx context.Context) ([]domain.Platform, error) {
	list, err := b.MailTenant.Domains(ctx)
	return append(list, domain.Platform{Name: "t.onmicrosoft.com", Verified: true}), err
}

func (b unknownIsZero) Domain(ctx context.Context, name string) (domain.Platform, error) {
	d, _ := b.MailTenant.Domain(ctx, name)
	return d, nil
}

func (b addsVerified) AddDomain(ctx context.Context, name string) (domain.Platform, error) {
	d, err := b.MailTenant.AddDomain(ctx, name)
	d.Verified = true
	return d, err
}

func (b conflictOnAdd) AddDomain(ctx context.Context, name string) (domain.Platform, error) {
	if _, err := b.Domain(ctx, name); err == nil {
		return domain.Platform{}, &outcome.Error{Kind: outcome.Refused, Code: fault.DomainUnavailable}
	}
	return b.MailTenant.AddDomain(ctx, name)
}

func (b takesAnyName) AddDomain(ctx context.Context, name string) (domain.Platform, error) {
	if strings.HasSuffix(name, ".onmicrosoft.com") {
		return domain.Platform{Name: name}, nil
	}
	return b.MailTenant.AddDomain(ctx, name)
}

func (b noRecords) Records(context.Context, string) (domain.Records, error) {
	return domain.Records{}, nil
}

func (b believesAll) VerifyDomain(ctx context.Context, name string) (domain.Platform, error) {
	d, err := b.Domain(ctx, name)
	d.Verified = true
	return d, err
}

func (b verifyOnce) VerifyDomain(ctx context.Context, name string) (domain.Platform, error) {
	if d, err := b.Domain(ctx, name); err == nil && d.Verified {
		return d, &outcome.Error{Kind: outcome.Refused, Code: fault.VerificationFailed}
	}
	return b.MailTenant.VerifyDomain(ctx, name)
}

func (b failsQuietly) Profile(ctx context.Context) (tenant.Profile, error) {
	p, _ := b.MailTenant.Profile(ctx)
	return p, nil
}

func (b dottedRecords) Records(ctx context.Context, name string) (domain.Records, error) {
	r, err := b.MailTenant.Records(ctx, name)
	for i := range r.Service {
		r.Service[i].Content += "."
	}
	return r, err
}

func (b alwaysReady) Bootstrap(context.Context) (tenant.Progress, error) {
	return tenant.Progress{Status: tenant.BootstrapReady}, nil
}

func (b smtpPretends) EnableSMTPAuth(context.Context) error { return nil }

func (b signsUnasked) EnsureSigning(ctx context.Context, name string) (dns.Signing, error) {
	s, err := b.MailTenant.EnsureSigning(ctx, name)
	s.Enabled = err == nil
	return s, err
}

func (b swapsSelectors) EnsureSigning(ctx context.Context, name string) (dns.Signing, error) {
	s, err := b.MailTenant.EnsureSigning(ctx, name)
	s.Selector1, s.Selector2 = s.Selector2, s.Selector1
	return s, err
}

func (b hidesLag) OpenSubmission(ctx context.Context, address string) error {
	_ = b.MailTenant.OpenSubmission(ctx, address)
	return nil
}

func (b caseSensitive) Mailbox(ctx context.Context, address string) (mailbox.Platform, error) {
	if address != strings.ToLower(address) {
		return mailbox.Platform{}, &outcome.Error{Kind: outcome.Refused, Code: fault.MailboxNotFound}
	}
	return b.MailTenant.Mailbox(ctx, address)
}

func (b losesMailbox) Mailboxes(ctx context.Context) ([]mailbox.Platform, error) {
	list, err := b.MailTenant.Mailboxes(ctx)
	return list[:min(len(list), 1)], err
}

func (b oneAlias) CreateMailbox(ctx context.Context, s mailbox.Spec) (mailbox.Platform, error) {
	m, err := b.MailTenant.CreateMailbox(ctx, s)
	m.Alias, _, _ = strings.Cut(s.Address, "@")
	return m, err
}

func (b enablesNothing) OpenSignIn(context.Context, string, string, secret.Text) error { return nil }

func (b renamesNothing) Rename(context.Context, string, string) error { return nil }

func (b settlesUnknown) CreateMailbox(ctx context.Context, s mailbox.Spec) (mailbox.Platform, error) {
	m, err := b.MailTenant.CreateMailbox(ctx, s)
	if outcome.Of(err) == outcome.Unknown {
		err = &outcome.Error{Kind: outcome.Down}
	}
	return m, err
}

func (b blursKinds) Domains(ctx context.Context) ([]domain.Platform, error) {
	list, err := b.MailTenant.Domains(ctx)
	if err != nil {
		err = &outcome.Error{Kind: outcome.Down}
	}
	return list, err
}

func (b countsShared) UserMailboxes(ctx context.Context) (int, error) {
	list, err := b.Mailboxes(ctx)
	return len(list), err
}

func (b countsTrials) EmailLicenses(ctx context.Context) (tenant.Licenses, error) {
	l, err := b.MailTenant.EmailLicenses(ctx)
	return tenant.Licenses{Paid: l.Paid + l.Trial}, err
}

func (b countsUsers) EmailLicenses(ctx context.Context) (tenant.Licenses, error) {
	users, err := b.UserMailboxes(ctx)
	return tenant.Licenses{Paid: users}, err
}

func (b licensesForShared) EmailLicenses(ctx context.Context) (tenant.Licenses, error) {
	l, err := b.MailTenant.EmailLicenses(ctx)
	shared, _ := b.Mailboxes(ctx)
	l.Paid += len(shared)
	return l, err
}

func (b licensesWhenReady) EmailLicenses(ctx context.Context) (tenant.Licenses, error) {
	if _, err := b.Mailboxes(ctx); err != nil {
		return tenant.Licenses{}, err
	}
	return b.MailTenant.EmailLicenses(ctx)
}

func breaks[T ports.MailTenant](make func(ports.MailTenant) T) brokenPlatform {
	return brokenPlatform{tenants: func(m ports.MailTenant) ports.MailTenant { return make(m) }}
}

// TestSuiteNoticesBrokenPromises breaks one promise at a time.
func TestSuiteNoticesBrokenPromises(t *testing.T) {
	for name, b := range map[string]brokenPlatform{
		"any callback is consent": {granted: func(ports.MailPlatform, string) (tenant.GUID, error) {
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
		"anybody is administrator": {administrator: func(p ports.MailPlatform, s ports.SignIn, c secret.Text) (tenant.Administrator, error) {
			who, _ := p.Administrator(context.Background(), s, c)
			return who, nil
		}},
		"a good credential is refused":       {check: func() error { return fault.AccessDenied.With("no") }},
		"built-in domain as default":         breaks(func(m ports.MailTenant) forgetsDefault { return forgetsDefault{m} }),
		"built-in domains listed":            breaks(func(m ports.MailTenant) listsBuiltin { return listsBuiltin{m} }),
		"unknown domain is no refusal":       breaks(func(m ports.MailTenant) unknownIsZero { return unknownIsZero{m} }),
		"added is verified":                  breaks(func(m ports.MailTenant) addsVerified { return addsVerified{m} }),
		"adding again is a conflict":         breaks(func(m ports.MailTenant) conflictOnAdd { return conflictOnAdd{m} }),
		"built-in names are taken":           breaks(func(m ports.MailTenant) takesAnyName { return takesAnyName{m} }),
		"no verification record":             breaks(func(m ports.MailTenant) noRecords { return noRecords{m} }),
		"verified without looking":           breaks(func(m ports.MailTenant) believesAll { return believesAll{m} }),
		"verifying again fails":              breaks(func(m ports.MailTenant) verifyOnce { return verifyOnce{m} }),
		"lost consent is no error":           breaks(func(m ports.MailTenant) failsQuietly { return failsQuietly{m} }),
		"targets with the final dot":         breaks(func(m ports.MailTenant) dottedRecords { return dottedRecords{m} }),
		"ready without a bootstrap":          breaks(func(m ports.MailTenant) alwaysReady { return alwaysReady{m} }),
		"SMTP AUTH only pretended":           breaks(func(m ports.MailTenant) smtpPretends { return smtpPretends{m} }),
		"signing enabled unasked":            breaks(func(m ports.MailTenant) signsUnasked { return signsUnasked{m} }),
		"selectors swapped":                  breaks(func(m ports.MailTenant) swapsSelectors { return swapsSelectors{m} }),
		"submission that is not ready":       breaks(func(m ports.MailTenant) hidesLag { return hidesLag{m} }),
		"addresses are case-sensitive":       breaks(func(m ports.MailTenant) caseSensitive { return caseSensitive{m} }),
		"only a first page of mailboxes":     breaks(func(m ports.MailTenant) losesMailbox { return losesMailbox{m} }),
		"aliases collide":                    breaks(func(m ports.MailTenant) oneAlias { return oneAlias{m} }),
		"sign-in stays closed":               breaks(func(m ports.MailTenant) enablesNothing { return enablesNothing{m} }),
		"renaming does nothing":              breaks(func(m ports.MailTenant) renamesNothing { return renamesNothing{m} }),
		"unknown reported as without effect": breaks(func(m ports.MailTenant) settlesUnknown { return settlesUnknown{m} }),
		"every trouble is down":              breaks(func(m ports.MailTenant) blursKinds { return blursKinds{m} }),
		"shared mailboxes counted as users":  breaks(func(m ports.MailTenant) countsShared { return countsShared{m} }),
		"trials counted as bought":           breaks(func(m ports.MailTenant) countsTrials { return countsTrials{m} }),
		"licences of users, not those held":  breaks(func(m ports.MailTenant) countsUsers { return countsUsers{m} }),
		"shared mailboxes bring licences":    breaks(func(m ports.MailTenant) licensesForShared { return licensesForShared{m} }),
		"licences only of prepared tenants":  breaks(func(m ports.MailTenant) licensesWhenReady { return licensesWhenReady{m} }),
	} {
		t.Run(name, func(t *testing.T) {
			for _, c := range platformChecks() {
				w := newFakeWorld()
				b.MailPlatform = w.fake
				w.platform = b
				if fails(t, func(t testing.TB) { c.run(t, w) }) {
					return
				}
			}
			t.Fatal("the suite does not notice")
		})
	}
}

// brokenReader breaks a promise of the DNS reader.
type brokenReader struct {
	ports.DNSReader
	change func(*dns.Sight)
}

func (b brokenReader) Read(ctx context.Context, name string, wanted ...dns.Desired) (dns.Sight, error) {
	s, err := b.DNSReader.Read(ctx, name, wanted...)
	b.change(&s)
	return s, err
}

func TestDNSSuiteNoticesBrokenPromises(t *testing.T) {
	for name, change := range map[string]func(*dns.Sight){
		"always complete": func(s *dns.Sight) { s.Complete = true },
		"never complete":  func(s *dns.Sight) { s.Complete = false },
		"one text only": func(s *dns.Sight) {
			for i := range s.Sets {
				s.Sets[i].Values = s.Sets[i].Values[:1]
			}
		},
		"targets with the final dot": func(s *dns.Sight) {
			for i := range s.Sets {
				if s.Sets[i].Type == dns.CNAME {
					s.Sets[i].Values[0] += "."
				}
			}
		},
		"the name as the zone":  func(s *dns.Sight) { s.Zone = s.Domain },
		"no delegation":         func(s *dns.Sight) { s.Delegation = nil },
		"nobody agrees":         func(s *dns.Sight) { s.Servers = slices.Clone(s.Servers); s.Servers[0].Agrees = false },
		"no SPF tree":           func(s *dns.Sight) { s.Beyond.SPF = nil },
		"no DMARC from above":   func(s *dns.Sight) { s.Beyond.Above = nil },
		"no exchanges":          func(s *dns.Sight) { s.Beyond.Exchanges = nil },
		"no keys":               func(s *dns.Sight) { s.Beyond.Keys = nil },
		"what nobody asked for": func(s *dns.Sight) { s.Beyond.Above = map[string][]string{"_dmarc.test": nil} },
	} {
		t.Run(name, func(t *testing.T) {
			for _, c := range dnsChecks {
				w := newFakeWorld()
				w.reader = brokenReader{w.fake.DNS, change}
				if fails(t, func(t testing.TB) { c.run(t, w) }) {
					return
				}
			}
			t.Fatal("the suite does not notice")
		})
	}
}

// recorder takes a check's failure instead of the test.
type recorder struct {
	testing.TB
	failed bool
}

func (r *recorder) Helper() {}

func (r *recorder) Fatalf(string, ...any) { r.end() }

func (r *recorder) Fatal(...any) { r.end() }

func (r *recorder) end() {
	r.failed = true
	runtime.Goexit()
}

// fails runs a check on the side and reports whether it failed.
func fails(t *testing.T, run func(testing.TB)) bool {
	r := &recorder{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		run(r)
	}()
	<-done
	return r.failed
}
