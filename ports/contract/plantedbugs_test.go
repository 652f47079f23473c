// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

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

// Each of these types wraps a tenant and breaks one promise of ports.MailTenant. They are needed
// for the checks that detect none of the bugs in brokenPlatforms.
type (
	removesNoDomain          struct{ ports.MailTenant }
	hidesDomainInUse         struct{ ports.MailTenant }
	sameOwnershipRecord      struct{ ports.MailTenant }
	takenDomainIsInvalid     struct{ ports.MailTenant }
	readyWithStep            struct{ ports.MailTenant }
	deniedListIsEmpty        struct{ ports.MailTenant }
	createdInMilliseconds    struct{ ports.MailTenant }
	notReadySigningIsRefused struct{ ports.MailTenant }
	enablesNoSigning         struct{ ports.MailTenant }
	notReadyCreationIsBroken struct{ ports.MailTenant }
	createsSecondMailbox     struct{ ports.MailTenant }
	acceptsWeakPassword      struct{ ports.MailTenant }
	removesNoMailbox         struct{ ports.MailTenant }
	failedAddIsUnknown       struct{ ports.MailTenant }
	lostAddIsDown            struct{ ports.MailTenant }
	lostRenameIsDown         struct{ ports.MailTenant }
	creationIgnoresCancel    struct{ ports.MailTenant }
)

// replaceKind returns replacement if err has this outcome kind, and err otherwise.
func replaceKind(err error, kind outcome.Kind, replacement error) error {
	if outcome.KindOf(err) == kind {
		return replacement
	}
	return err
}

func (removesNoDomain) RemoveDomain(context.Context, string) error { return nil }

func (b hidesDomainInUse) RemoveDomain(ctx context.Context, name string) error {
	if err := b.MailTenant.RemoveDomain(ctx, name); !errors.Is(err, fault.DomainInUse) {
		return err
	}
	return nil
}

func (b sameOwnershipRecord) Records(ctx context.Context, name string) (domain.Records, error) {
	r, err := b.MailTenant.Records(ctx, name)
	for i := range r.Verification {
		r.Verification[i].Content = "MS=ms00000001"
	}
	return r, err
}

func (b takenDomainIsInvalid) AddDomain(ctx context.Context, name string) (domain.Platform, error) {
	d, err := b.MailTenant.AddDomain(ctx, name)
	if errors.Is(err, fault.DomainUnavailable) {
		err = &outcome.Error{Kind: outcome.Refused, Code: fault.InvalidDomain}
	}
	return d, err
}

func (b takenDomainIsInvalid) VerifyDomain(ctx context.Context, name string) (domain.Platform, error) {
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

func (b deniedListIsEmpty) Mailboxes(ctx context.Context) ([]mailbox.Platform, error) {
	list, err := b.MailTenant.Mailboxes(ctx)
	if errors.Is(err, fault.AccessDenied) {
		err = nil
	}
	return list, err
}

func (b createdInMilliseconds) Mailboxes(ctx context.Context) ([]mailbox.Platform, error) {
	list, err := b.MailTenant.Mailboxes(ctx)
	for i := range list {
		list[i].CreatedAt = time.Unix(list[i].CreatedAt.UnixMilli(), 0)
	}
	return list, err
}

func (b notReadySigningIsRefused) EnsureSigning(ctx context.Context, name string) (dns.Signing, error) {
	s, err := b.MailTenant.EnsureSigning(ctx, name)
	return s, replaceKind(err, outcome.NotReady, &outcome.Error{Kind: outcome.Refused, Code: fault.DKIMNotReady})
}

func (enablesNoSigning) EnableSigning(context.Context, string) error { return nil }

func (b notReadyCreationIsBroken) CreateMailbox(ctx context.Context, s mailbox.Spec) (mailbox.Platform, error) {
	m, err := b.MailTenant.CreateMailbox(ctx, s)
	return m, replaceKind(err, outcome.NotReady, &outcome.Error{Kind: outcome.Broken})
}

func (b createsSecondMailbox) CreateMailbox(ctx context.Context, s mailbox.Spec) (mailbox.Platform, error) {
	if m, err := b.Mailbox(ctx, s.Address); err == nil {
		m.ObjectID += "-2"
		return m, nil
	}
	return b.MailTenant.CreateMailbox(ctx, s)
}

func (b acceptsWeakPassword) OpenSignIn(ctx context.Context, id, address string, password secret.Text) error {
	err := b.MailTenant.OpenSignIn(ctx, id, address, password)
	if errors.Is(err, fault.WeakPassword) {
		err = nil
	}
	return err
}

func (removesNoMailbox) RemoveMailbox(context.Context, string) error { return nil }

func (b failedAddIsUnknown) AddDomain(ctx context.Context, name string) (domain.Platform, error) {
	d, err := b.MailTenant.AddDomain(ctx, name)
	if err != nil {
		err = &outcome.Error{Kind: outcome.Unknown}
	}
	return d, err
}

func (b lostAddIsDown) AddDomain(ctx context.Context, name string) (domain.Platform, error) {
	d, err := b.MailTenant.AddDomain(ctx, name)
	return d, replaceKind(err, outcome.Unknown, &outcome.Error{Kind: outcome.Down})
}

func (b lostRenameIsDown) Rename(ctx context.Context, address, name string) error {
	return replaceKind(b.MailTenant.Rename(ctx, address, name), outcome.Unknown, &outcome.Error{Kind: outcome.Down})
}

func (b creationIgnoresCancel) CreateMailbox(ctx context.Context, s mailbox.Spec) (mailbox.Platform, error) {
	return b.MailTenant.CreateMailbox(context.WithoutCancel(ctx), s)
}

// statelessPlatform leaves the state out of consent links.
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

// mailBug returns the bug of a platform with some methods replaced.
func mailBug(operation string, b brokenPlatform) plantedMailBug {
	return plantedMailBug{operation, func(p ports.MailPlatform) ports.MailPlatform {
		b.MailPlatform = p
		return b
	}}
}

// mailBugNamed returns a bug of brokenPlatforms.
func mailBugNamed(operation, name string) plantedMailBug {
	return mailBug(operation, brokenPlatforms[name])
}

// mailTenantBug returns a bug of the tenants that wrap returns.
func mailTenantBug[T ports.MailTenant](operation string, wrap func(ports.MailTenant) T) plantedMailBug {
	return mailBug(operation, brokenTenant(wrap))
}

// ruleOrTraceBug returns a bug of brokenRules or brokenTraces.
func ruleOrTraceBug(operation string, broken map[string]brokenRulesOrTrace, name string) plantedMailBug {
	b := broken[name]
	return mailTenantBug(operation, func(m ports.MailTenant) brokenRulesOrTrace { b.MailTenant = m; return b })
}

// plantedMailBugs has a bug for each check of the contract suite, keyed by the id of the check.
var plantedMailBugs = map[string]plantedMailBug{
	"mail/connect/credential": mailBugNamed("check", "a good credential is refused"),
	"mail/connect/consent-and-sign-in": mailBug("administrator", brokenPlatform{administrator: func(p ports.MailPlatform, s ports.SignIn, c secret.Text) (tenant.Administrator, error) {
		admin, err := p.Administrator(context.Background(), s, c)
		admin.Address = ""
		return admin, err
	}}),
	"mail/connect/state":                {"consent_url", func(p ports.MailPlatform) ports.MailPlatform { return statelessPlatform{p} }},
	"mail/connect/declined":             mailBugNamed("granted", "any callback counts as a consent"),
	"mail/connect/invalid-callback":     mailBugNamed("granted", "any callback counts as a consent"),
	"mail/connect/not-an-administrator": mailBugNamed("administrator", "any person counts as an administrator"),
	"mail/connect/code-once":            mailBugNamed("administrator", "any person counts as an administrator"),
	"mail/connect/nonce":                mailBugNamed("administrator", "the sign-in forgets the nonce"),
	"mail/connect/verifier":             mailBugNamed("administrator", "any person counts as an administrator"),
	"mail/connect/other-tenant":         mailBugNamed("administrator", "any person counts as an administrator"),
	"mail/connect/without-consent":      mailBugNamed("profile", "a lost consent is not an error"),
	"mail/connect/withdrawn":            mailBugNamed("profile", "a lost consent is not an error"),

	"mail/domains/profile":        mailBugNamed("profile", "the built-in domain is the default"),
	"mail/domains/none":           mailBugNamed("domains", "the built-in domain is listed"),
	"mail/domains/unknown":        mailBugNamed("domain", "an unknown domain is not refused"),
	"mail/domains/removed":        mailTenantBug("remove_domain", func(m ports.MailTenant) removesNoDomain { return removesNoDomain{m} }),
	"mail/domains/invalid-name":   mailBugNamed("add_domain", "built-in names are accepted"),
	"mail/domains/added":          mailBugNamed("add_domain", "an added domain is verified"),
	"mail/domains/added-again":    mailBugNamed("add_domain", "adding again is a conflict"),
	"mail/domains/own-proof":      mailTenantBug("records", func(m ports.MailTenant) sameOwnershipRecord { return sameOwnershipRecord{m} }),
	"mail/domains/record-missing": mailBugNamed("verify_domain", "verified without a check"),
	"mail/domains/verified":       mailBugNamed("verify_domain", "verifying again fails"),
	"mail/domains/unavailable":    mailTenantBug("add_domain", func(m ports.MailTenant) takenDomainIsInvalid { return takenDomainIsInvalid{m} }),
	"mail/domains/mail-records":   mailBugNamed("records", "targets with the final dot"),
	"mail/domains/in-use":         mailTenantBug("remove_domain", func(m ports.MailTenant) hidesDomainInUse { return hidesDomainInUse{m} }),

	"mail/settings/bootstrap":         mailTenantBug("bootstrap", func(m ports.MailTenant) readyWithStep { return readyWithStep{m} }),
	"mail/settings/dehydrated":        mailBugNamed("bootstrap", "ready without a bootstrap"),
	"mail/settings/role-denied":       mailBugNamed("bootstrap", "ready without a bootstrap"),
	"mail/settings/role-withdrawn":    mailTenantBug("mailboxes", func(m ports.MailTenant) deniedListIsEmpty { return deniedListIsEmpty{m} }),
	"mail/settings/smtp-auth":         mailBugNamed("smtp_auth", "SMTP AUTH is not enabled"),
	"mail/settings/smtp-auth-refused": mailBugNamed("enable_smtp_auth", "SMTP AUTH is not enabled"),
	"mail/signing/not-accepted":       mailTenantBug("ensure_signing", func(m ports.MailTenant) notReadySigningIsRefused { return notReadySigningIsRefused{m} }),
	"mail/signing/created-once":       mailBugNamed("ensure_signing", "the selectors are swapped"),
	"mail/signing/not-created":        mailTenantBug("enable_signing", func(m ports.MailTenant) enablesNoSigning { return enablesNoSigning{m} }),
	"mail/signing/enabled":            mailTenantBug("enable_signing", func(m ports.MailTenant) enablesNoSigning { return enablesNoSigning{m} }),

	"mail/mailboxes/unknown":             mailBugNamed("rename", "renaming does nothing"),
	"mail/mailboxes/domain-not-accepted": mailTenantBug("create_mailbox", func(m ports.MailTenant) notReadyCreationIsBroken { return notReadyCreationIsBroken{m} }),
	"mail/mailboxes/found":               mailBugNamed("mailbox", "addresses are case-sensitive"),
	"mail/mailboxes/listed":              mailBugNamed("mailboxes", "only the first mailbox is listed"),
	"mail/mailboxes/created-at":          mailTenantBug("mailboxes", func(m ports.MailTenant) createdInMilliseconds { return createdInMilliseconds{m} }),
	"mail/mailboxes/users-counted":       mailBugNamed("user_mailboxes", "shared mailboxes are counted as users"),
	"mail/mailboxes/licences-counted":    mailBugNamed("email_licenses", "trial licences are counted as paid"),
	"mail/mailboxes/no-licence":          mailBugNamed("email_licenses", "shared mailboxes are counted as licences"),
	"mail/mailboxes/local-part":          mailBugNamed("create_mailbox", "the alias is only the local part"),
	"mail/mailboxes/one-per-address":     mailTenantBug("create_mailbox", func(m ports.MailTenant) createsSecondMailbox { return createsSecondMailbox{m} }),
	"mail/mailboxes/replication":         mailBugNamed("open_submission", "errors of OpenSubmission are hidden"),
	"mail/mailboxes/opened":              mailBugNamed("open_sign_in", "sign-in is not opened"),
	"mail/mailboxes/weak-password":       mailTenantBug("open_sign_in", func(m ports.MailTenant) acceptsWeakPassword { return acceptsWeakPassword{m} }),
	"mail/mailboxes/removed":             mailTenantBug("remove_mailbox", func(m ports.MailTenant) removesNoMailbox { return removesNoMailbox{m} }),
	"mail/mailboxes/removed-early":       mailTenantBug("remove_mailbox", func(m ports.MailTenant) removesNoMailbox { return removesNoMailbox{m} }),
	"mail/mailboxes/renamed":             mailBugNamed("rename", "renaming does nothing"),

	"mail/rules/none":            ruleOrTraceBug("block", brokenRules, "an empty list changes nothing"),
	"mail/rules/created-once":    ruleOrTraceBug("ensure_rule", brokenRules, "EnsureRule creates the rule again"),
	"mail/rules/blocks-its-list": ruleOrTraceBug("block", brokenRules, "a list is added to the earlier one"),
	"mail/rules/not-rewritten":   ruleOrTraceBug("block", brokenRules, "every rule is reported as written"),
	"mail/rules/normalized":      ruleOrTraceBug("block", brokenRules, "the case of addresses is kept"),
	"mail/rules/scopes":          ruleOrTraceBug("block", brokenRules, "one rule for all scopes"),
	"mail/rules/repaired":        ruleOrTraceBug("block", brokenRules, "changes by others are not repaired"),
	"mail/rules/adopted":         ruleOrTraceBug("ensure_rule", brokenRules, "every rule is reported as created"),
	"mail/rules/listed":          ruleOrTraceBug("rules", brokenRules, "disabled rules are not listed"),
	"mail/rules/altered":         ruleOrTraceBug("rules", brokenRules, "altered rules are listed as unaltered"),
	"mail/rules/failed-listing":  ruleOrTraceBug("rules", brokenRules, "a failed listing is an empty list"),
	"mail/rules/one-removed":     ruleOrTraceBug("block", brokenRules, "one rule for all scopes"),
	"mail/rules/removed":         ruleOrTraceBug("remove_rules", brokenRules, "nothing is removed"),
	"mail/rules/refused-write":   ruleOrTraceBug("block", brokenRules, "every failure is reported as unknown"),
	"mail/rules/lost-answer":     ruleOrTraceBug("block", brokenRules, "a lost answer is reported as no effect"),
	"mail/rules/lag":             ruleOrTraceBug("block", brokenRules, "nothing is written"),
	"mail/rules/role":            ruleOrTraceBug("remove_rules", brokenRules, "nothing is removed"),
	"mail/trace/every-message":   ruleOrTraceBug("sent", brokenTraces, "only the first page is returned"),
	"mail/trace/nothing-sent":    ruleOrTraceBug("sent", brokenTraces, "the pages have no end"),
	"mail/trace/senders":         ruleOrTraceBug("sent", brokenTraces, "messages of other senders are returned"),
	"mail/trace/time-span":       ruleOrTraceBug("sent", brokenTraces, "the end of the span is included"),
	"mail/trace/late":            ruleOrTraceBug("sent", brokenTraces, "the time of a message is an hour late"),
	"mail/trace/blocked":         ruleOrTraceBug("sent", brokenTraces, "blocked mail counts as sent"),
	"mail/trace/failed-read":     ruleOrTraceBug("sent", brokenTraces, "a failure is reported as an empty page"),
	"mail/trace/invalid-cursor":  ruleOrTraceBug("sent", brokenTraces, "an invalid cursor reads the first page"),

	"mail/outcomes/read-statuses": mailBugNamed("domains", "every failure of a list is reported as down"),
	"mail/outcomes/refused-write": mailTenantBug("add_domain", func(m ports.MailTenant) failedAddIsUnknown { return failedAddIsUnknown{m} }),
	"mail/outcomes/lost-add":      mailTenantBug("add_domain", func(m ports.MailTenant) lostAddIsDown { return lostAddIsDown{m} }),
	"mail/outcomes/lost-creation": mailBugNamed("create_mailbox", "an unknown outcome of a creation is reported as no effect"),
	"mail/outcomes/lost-rename":   mailTenantBug("rename", func(m ports.MailTenant) lostRenameIsDown { return lostRenameIsDown{m} }),
	"mail/outcomes/cancelled":     mailTenantBug("create_mailbox", func(m ports.MailTenant) creationIgnoresCancel { return creationIgnoresCancel{m} }),
}

// anyOperation is the operation of a bug that affects every call.
const anyOperation = ""

// operationLog records the operations of the calls that went through the plugin protocol.
type operationLog struct {
	mu         sync.Mutex
	operations []string
}

func (l *operationLog) record(ctx context.Context, call wire.Call, next func(context.Context) error) error {
	l.mu.Lock()
	l.operations = append(l.operations, call.Operation)
	l.mu.Unlock()
	return next(ctx)
}

func (l *operationLog) has(operation string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Contains(l.operations, operation) || operation == anyOperation && len(l.operations) > 0
}

// TestEachMailCheckFindsItsPlantedBug runs each check through the plugin protocol, on a platform
// without the planted bug and on a platform with it. With the bug, the check must fail and must
// have called the operation with the bug. Otherwise the calls that `tenantry plugin test` shows for
// a failed check would not help to find the bug.
func TestEachMailCheckFindsItsPlantedBug(t *testing.T) {
	for _, check := range MailPlatformChecks() {
		bug, ok := plantedMailBugs[check.ID]
		if !ok {
			t.Errorf("no planted bug shows that %s can fail", check.ID)
			continue
		}
		t.Run(check.ID, func(t *testing.T) {
			env, calls := newFakeEnv(), &operationLog{}
			env.platform = wire.MailInProcess(env.fake, calls.record)
			if checkFails(t, func(t T) { check.Run(t, env) }) {
				t.Fatal("the check fails without the bug")
			}
			env, calls = newFakeEnv(), &operationLog{}
			env.platform = wire.MailInProcess(bug.plant(env.fake), calls.record)
			if !checkFails(t, func(t T) { check.Run(t, env) }) {
				t.Error("the check does not find the bug")
			}
			if !calls.has(bug.operation) {
				t.Errorf("the check did not call %s, only %v", bug.operation, calls.operations)
			}
		})
	}
	if len(plantedMailBugs) != len(MailPlatformChecks()) {
		t.Errorf("%d planted bugs for %d checks, want one for each", len(plantedMailBugs), len(MailPlatformChecks()))
	}
}
