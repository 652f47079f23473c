// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"

	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/core/domain"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/mailbox"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/core/secret"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/plugins/wire"
	"github.com/tenantry/tenantry/ports"
)

// Each of these types wraps a tenant and breaks one promise of ports.MailTenant. They are for
// checks that no other broken tenant fails.
type (
	keepsDomains    struct{ ports.MailTenant }
	removesUsed     struct{ ports.MailTenant }
	sharesProof     struct{ ports.MailTenant }
	takenIsInvalid  struct{ ports.MailTenant }
	readyWithStep   struct{ ports.MailTenant }
	noRoleNoBoxes   struct{ ports.MailTenant }
	neverSigns      struct{ ports.MailTenant }
	pretendsSigning struct{ ports.MailTenant }
	creationBreaks  struct{ ports.MailTenant }
	secondMailbox   struct{ ports.MailTenant }
	anyPassword     struct{ ports.MailTenant }
	keepsMailboxes  struct{ ports.MailTenant }
	addIsUnknown    struct{ ports.MailTenant }
	lostAddIsDown   struct{ ports.MailTenant }
	lostNameIsDown  struct{ ports.MailTenant }
	neverCancels    struct{ ports.MailTenant }
)

// replaced returns the error by if err has this outcome kind, and err otherwise.
func replaced(err error, kind outcome.Kind, by error) error {
	if outcome.KindOf(err) == kind {
		return by
	}
	return err
}

func (keepsDomains) RemoveDomain(context.Context, string) error { return nil }

func (b removesUsed) RemoveDomain(ctx context.Context, name string) error {
	if err := b.MailTenant.RemoveDomain(ctx, name); !errors.Is(err, fault.DomainInUse) {
		return err
	}
	return nil
}

func (b sharesProof) Records(ctx context.Context, name string) (domain.Records, error) {
	r, err := b.MailTenant.Records(ctx, name)
	for i := range r.Verification {
		r.Verification[i].Content = "MS=ms00000001"
	}
	return r, err
}

func (b takenIsInvalid) AddDomain(ctx context.Context, name string) (domain.Platform, error) {
	d, err := b.MailTenant.AddDomain(ctx, name)
	if errors.Is(err, fault.DomainUnavailable) {
		err = &outcome.Error{Kind: outcome.Refused, Code: fault.InvalidDomain}
	}
	return d, err
}

func (b takenIsInvalid) VerifyDomain(ctx context.Context, name string) (domain.Platform, error) {
	d, err := b.MailTenant.VerifyDomain(ctx, name)
	if errors.Is(err, fault.DomainUnavailable) {
		err = &outcome.Error{Kind: outcome.Refused, Code: fault.InvalidDomain}
	}
	return d, err
}

func (b readyWithStep) Bootstrap(ctx context.Context) (tenant.Progress, error) {
	p, err := b.MailTenant.Bootstrap(ctx)
	if p.Status == tenant.BootstrapReady {
		p.Step = tenant.StepWait
	}
	return p, err
}

func (b noRoleNoBoxes) Mailboxes(ctx context.Context) ([]mailbox.Platform, error) {
	list, err := b.MailTenant.Mailboxes(ctx)
	if errors.Is(err, fault.AccessDenied) {
		err = nil
	}
	return list, err
}

func (b neverSigns) EnsureSigning(ctx context.Context, name string) (dns.Signing, error) {
	s, err := b.MailTenant.EnsureSigning(ctx, name)
	return s, replaced(err, outcome.NotReady, &outcome.Error{Kind: outcome.Refused, Code: fault.DKIMNotReady})
}

func (pretendsSigning) EnableSigning(context.Context, string) error { return nil }

func (b creationBreaks) CreateMailbox(ctx context.Context, s mailbox.Spec) (mailbox.Platform, error) {
	m, err := b.MailTenant.CreateMailbox(ctx, s)
	return m, replaced(err, outcome.NotReady, &outcome.Error{Kind: outcome.Broken})
}

func (b secondMailbox) CreateMailbox(ctx context.Context, s mailbox.Spec) (mailbox.Platform, error) {
	if m, err := b.Mailbox(ctx, s.Address); err == nil {
		m.ObjectID += "-2"
		return m, nil
	}
	return b.MailTenant.CreateMailbox(ctx, s)
}

func (b anyPassword) OpenSignIn(ctx context.Context, id, address string, password secret.Text) error {
	err := b.MailTenant.OpenSignIn(ctx, id, address, password)
	if errors.Is(err, fault.WeakPassword) {
		err = nil
	}
	return err
}

func (keepsMailboxes) RemoveMailbox(context.Context, string) error { return nil }

func (b addIsUnknown) AddDomain(ctx context.Context, name string) (domain.Platform, error) {
	d, err := b.MailTenant.AddDomain(ctx, name)
	if err != nil {
		err = &outcome.Error{Kind: outcome.Unknown}
	}
	return d, err
}

func (b lostAddIsDown) AddDomain(ctx context.Context, name string) (domain.Platform, error) {
	d, err := b.MailTenant.AddDomain(ctx, name)
	return d, replaced(err, outcome.Unknown, &outcome.Error{Kind: outcome.Down})
}

func (b lostNameIsDown) Rename(ctx context.Context, address, name string) error {
	return replaced(b.MailTenant.Rename(ctx, address, name), outcome.Unknown, &outcome.Error{Kind: outcome.Down})
}

func (b neverCancels) CreateMailbox(ctx context.Context, s mailbox.Spec) (mailbox.Platform, error) {
	return b.MailTenant.CreateMailbox(context.WithoutCancel(ctx), s)
}

// statelessPlatform loses the state of a consent link.
type statelessPlatform struct{ ports.MailPlatform }

func (b statelessPlatform) ConsentURL(ctx context.Context, _, redirect string) (string, error) {
	return b.MailPlatform.ConsentURL(ctx, "", redirect)
}

// plantedMailBug is a bug that one check of the contract suite must find. operation is the
// operation with the bug. The check must call this operation.
type plantedMailBug struct {
	operation string
	plant     func(ports.MailPlatform) ports.MailPlatform
}

func mailBug(operation string, b brokenPlatform) plantedMailBug {
	return plantedMailBug{operation, func(p ports.MailPlatform) ports.MailPlatform {
		b.MailPlatform = p
		return b
	}}
}

func mailBugNamed(operation, name string) plantedMailBug {
	return mailBug(operation, brokenPlatforms[name])
}

func tenantBug[T ports.MailTenant](operation string, wrap func(ports.MailTenant) T) plantedMailBug {
	return mailBug(operation, brokenTenant(wrap))
}

// sendsBug returns a bug of brokenRules or brokenTraces.
func sendsBug(operation string, all map[string]brokenSends, name string) plantedMailBug {
	b := all[name]
	return tenantBug(operation, func(m ports.MailTenant) brokenSends { b.MailTenant = m; return b })
}

// plantedMailBugs has a bug for each check of the contract suite.
var plantedMailBugs = map[string]plantedMailBug{
	"mail/connect/credential": mailBugNamed("check", "a good credential is refused"),
	"mail/connect/consent-and-sign-in": mailBug("administrator", brokenPlatform{administrator: func(p ports.MailPlatform, s ports.SignIn, c secret.Text) (tenant.Administrator, error) {
		admin, err := p.Administrator(context.Background(), s, c)
		admin.Address = ""
		return admin, err
	}}),
	"mail/connect/state":                {"consent_url", func(p ports.MailPlatform) ports.MailPlatform { return statelessPlatform{p} }},
	"mail/connect/declined":             mailBugNamed("granted", "any callback is consent"),
	"mail/connect/invalid-callback":     mailBugNamed("granted", "any callback is consent"),
	"mail/connect/not-an-administrator": mailBugNamed("administrator", "anybody is administrator"),
	"mail/connect/code-once":            mailBugNamed("administrator", "anybody is administrator"),
	"mail/connect/nonce":                mailBugNamed("administrator", "the sign-in forgets the nonce"),
	"mail/connect/verifier":             mailBugNamed("administrator", "anybody is administrator"),
	"mail/connect/other-tenant":         mailBugNamed("administrator", "anybody is administrator"),
	"mail/connect/without-consent":      mailBugNamed("profile", "a lost consent is not an error"),
	"mail/connect/withdrawn":            mailBugNamed("profile", "a lost consent is not an error"),

	"mail/domains/profile":        mailBugNamed("profile", "built-in domain as default"),
	"mail/domains/none":           mailBugNamed("domains", "built-in domains listed"),
	"mail/domains/unknown":        mailBugNamed("domain", "an unknown domain is not refused"),
	"mail/domains/removed":        tenantBug("remove_domain", func(m ports.MailTenant) keepsDomains { return keepsDomains{m} }),
	"mail/domains/invalid-name":   mailBugNamed("add_domain", "built-in names are accepted"),
	"mail/domains/added":          mailBugNamed("add_domain", "added is verified"),
	"mail/domains/added-again":    mailBugNamed("add_domain", "adding again is a conflict"),
	"mail/domains/own-proof":      tenantBug("records", func(m ports.MailTenant) sharesProof { return sharesProof{m} }),
	"mail/domains/record-missing": mailBugNamed("verify_domain", "verified without a check"),
	"mail/domains/verified":       mailBugNamed("verify_domain", "verifying again fails"),
	"mail/domains/unavailable":    tenantBug("add_domain", func(m ports.MailTenant) takenIsInvalid { return takenIsInvalid{m} }),
	"mail/domains/mail-records":   mailBugNamed("records", "targets with the final dot"),
	"mail/domains/in-use":         tenantBug("remove_domain", func(m ports.MailTenant) removesUsed { return removesUsed{m} }),

	"mail/settings/bootstrap":         tenantBug("bootstrap", func(m ports.MailTenant) readyWithStep { return readyWithStep{m} }),
	"mail/settings/dehydrated":        mailBugNamed("bootstrap", "ready without a bootstrap"),
	"mail/settings/role-denied":       mailBugNamed("bootstrap", "ready without a bootstrap"),
	"mail/settings/role-withdrawn":    tenantBug("mailboxes", func(m ports.MailTenant) noRoleNoBoxes { return noRoleNoBoxes{m} }),
	"mail/settings/smtp-auth":         mailBugNamed("smtp_auth", "SMTP AUTH only pretended"),
	"mail/settings/smtp-auth-refused": mailBugNamed("enable_smtp_auth", "SMTP AUTH only pretended"),
	"mail/signing/not-accepted":       tenantBug("ensure_signing", func(m ports.MailTenant) neverSigns { return neverSigns{m} }),
	"mail/signing/created-once":       mailBugNamed("ensure_signing", "selectors swapped"),
	"mail/signing/not-created":        tenantBug("enable_signing", func(m ports.MailTenant) pretendsSigning { return pretendsSigning{m} }),
	"mail/signing/enabled":            tenantBug("enable_signing", func(m ports.MailTenant) pretendsSigning { return pretendsSigning{m} }),

	"mail/mailboxes/unknown":             mailBugNamed("rename", "renaming does nothing"),
	"mail/mailboxes/domain-not-accepted": tenantBug("create_mailbox", func(m ports.MailTenant) creationBreaks { return creationBreaks{m} }),
	"mail/mailboxes/found":               mailBugNamed("mailbox", "addresses are case-sensitive"),
	"mail/mailboxes/listed":              mailBugNamed("mailboxes", "only a first page of mailboxes"),
	"mail/mailboxes/users-counted":       mailBugNamed("user_mailboxes", "shared mailboxes counted as users"),
	"mail/mailboxes/licences-counted":    mailBugNamed("email_licenses", "trials counted as bought"),
	"mail/mailboxes/no-licence":          mailBugNamed("email_licenses", "shared mailboxes bring licences"),
	"mail/mailboxes/local-part":          mailBugNamed("create_mailbox", "aliases collide"),
	"mail/mailboxes/one-per-address":     tenantBug("create_mailbox", func(m ports.MailTenant) secondMailbox { return secondMailbox{m} }),
	"mail/mailboxes/replication":         mailBugNamed("open_submission", "submission ignores its lag"),
	"mail/mailboxes/opened":              mailBugNamed("open_sign_in", "sign-in stays closed"),
	"mail/mailboxes/weak-password":       tenantBug("open_sign_in", func(m ports.MailTenant) anyPassword { return anyPassword{m} }),
	"mail/mailboxes/removed":             tenantBug("remove_mailbox", func(m ports.MailTenant) keepsMailboxes { return keepsMailboxes{m} }),
	"mail/mailboxes/removed-early":       tenantBug("remove_mailbox", func(m ports.MailTenant) keepsMailboxes { return keepsMailboxes{m} }),
	"mail/mailboxes/renamed":             mailBugNamed("rename", "renaming does nothing"),

	"mail/rules/none":            sendsBug("block", brokenRules, "an empty list stays blocked"),
	"mail/rules/created-once":    sendsBug("ensure_rule", brokenRules, "EnsureRule creates the rule again"),
	"mail/rules/blocks-its-list": sendsBug("block", brokenRules, "a list is appended"),
	"mail/rules/not-rewritten":   sendsBug("block", brokenRules, "every rule is reported as written"),
	"mail/rules/normalized":      sendsBug("block", brokenRules, "the case of addresses is kept"),
	"mail/rules/scopes":          sendsBug("block", brokenRules, "one rule for all scopes"),
	"mail/rules/repaired":        sendsBug("block", brokenRules, "changes by others are kept"),
	"mail/rules/adopted":         sendsBug("ensure_rule", brokenRules, "every rule is reported as created"),
	"mail/rules/listed":          sendsBug("rules", brokenRules, "disabled rules are not listed"),
	"mail/rules/altered":         sendsBug("rules", brokenRules, "altered rules are listed as unaltered"),
	"mail/rules/failed-listing":  sendsBug("rules", brokenRules, "a failed listing is an empty list"),
	"mail/rules/one-removed":     sendsBug("block", brokenRules, "one rule for all scopes"),
	"mail/rules/removed":         sendsBug("remove_rules", brokenRules, "nothing is removed"),
	"mail/rules/refused-write":   sendsBug("block", brokenRules, "every failure is unknown"),
	"mail/rules/lost-answer":     sendsBug("block", brokenRules, "a lost answer is reported as no effect"),
	"mail/rules/lag":             sendsBug("block", brokenRules, "nothing is written"),
	"mail/rules/role":            sendsBug("remove_rules", brokenRules, "nothing is removed"),
	"mail/trace/every-message":   sendsBug("sent", brokenTraces, "only the first page"),
	"mail/trace/nothing-sent":    sendsBug("sent", brokenTraces, "endless pages"),
	"mail/trace/senders":         sendsBug("sent", brokenTraces, "messages of other senders are returned"),
	"mail/trace/time-span":       sendsBug("sent", brokenTraces, "the end of the span is included"),
	"mail/trace/late":            sendsBug("sent", brokenTraces, "the time when the trace showed the message"),
	"mail/trace/blocked":         sendsBug("sent", brokenTraces, "blocked mail counts as sent"),
	"mail/trace/failed-read":     sendsBug("sent", brokenTraces, "a failure is an empty page"),
	"mail/trace/invalid-cursor":  sendsBug("sent", brokenTraces, "an invalid cursor reads the first page"),

	"mail/outcomes/read-statuses": mailBugNamed("domains", "every failure is down"),
	"mail/outcomes/refused-write": tenantBug("add_domain", func(m ports.MailTenant) addIsUnknown { return addIsUnknown{m} }),
	"mail/outcomes/lost-add":      tenantBug("add_domain", func(m ports.MailTenant) lostAddIsDown { return lostAddIsDown{m} }),
	"mail/outcomes/lost-creation": mailBugNamed("create_mailbox", "unknown reported as without effect"),
	"mail/outcomes/lost-rename":   tenantBug("rename", func(m ports.MailTenant) lostNameIsDown { return lostNameIsDown{m} }),
	"mail/outcomes/cancelled":     tenantBug("create_mailbox", func(m ports.MailTenant) neverCancels { return neverCancels{m} }),
}

// anyOperation is the operation of a bug that every call has.
const anyOperation = ""

// operationLog records the operations of the calls that went through the plugin protocol.
type operationLog struct {
	mu   sync.Mutex
	seen []string
}

func (l *operationLog) record(ctx context.Context, call wire.Call, next func(context.Context) error) error {
	l.mu.Lock()
	l.seen = append(l.seen, call.Operation)
	l.mu.Unlock()
	return next(ctx)
}

func (l *operationLog) has(operation string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Contains(l.seen, operation) || operation == anyOperation && len(l.seen) > 0
}

// TestEachMailCheckFindsItsPlantedBug runs each check on a platform with its bug, through the
// plugin protocol. The check must fail and must have called the operation with the bug, because
// `tenantry plugin test` shows the calls of a failed check.
func TestEachMailCheckFindsItsPlantedBug(t *testing.T) {
	for _, c := range MailPlatformChecks() {
		bug, ok := plantedMailBugs[c.ID]
		if !ok {
			t.Errorf("no planted bug shows that %s can fail", c.ID)
			continue
		}
		t.Run(c.ID, func(t *testing.T) {
			env, calls := newFakeEnv(), &operationLog{}
			env.platform = wire.MailInProcess(env.fake, calls.record)
			if fails(t, func(t T) { c.Run(t, env) }) {
				t.Fatal("the check fails without the bug")
			}
			env, calls = newFakeEnv(), &operationLog{}
			env.platform = wire.MailInProcess(bug.plant(env.fake), calls.record)
			if !fails(t, func(t T) { c.Run(t, env) }) {
				t.Error("the check does not find the bug")
			}
			if !calls.has(bug.operation) {
				t.Errorf("the exchange does not have %s: %v", bug.operation, calls.seen)
			}
		})
	}
	if len(plantedMailBugs) != len(MailPlatformChecks()) {
		t.Errorf("%d planted bugs for %d checks", len(plantedMailBugs), len(MailPlatformChecks()))
	}
}
